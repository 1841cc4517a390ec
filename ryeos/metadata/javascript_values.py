"""JavaScript literals as values: what a header may hold, read off the tokens without evaluating."""

import re
from typing import NoReturn

from ryeos.metadata.errors import shown
from ryeos.metadata.javascript_tokens import (
    NAME,
    NUMBER,
    STRING,
    TEMPLATE,
    JavaScriptTokens,
    Token,
)
from ryeos.metadata.values import MAX_DEPTH, PlainValue, UnreadableValueError, plain_value

_WORDS: dict[str, PlainValue] = {"null": None, "true": True, "false": False}
_ESCAPE = re.compile(
    r"\\(?:u\{([0-9a-fA-F]{1,6})\}|u([0-9a-fA-F]{4})|x([0-9a-fA-F]{2})|(\d+)|(.))", re.DOTALL
)
_ESCAPED = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "v": "\v", "\n": ""}
_DECIMAL = re.compile(r"(?:0|[1-9][0-9_]*)(\.[0-9_]*)?([eE][+-]?[0-9_]+)?|\.[0-9_]+([eE].*)?")
_MAX_NUMBER_CHARACTERS = 300
_LARGEST_CODE_POINT = 0x10FFFF


def read_literal(tokens: JavaScriptTokens) -> PlainValue:
    """The value of the literal that begins at the current token; steps behind it.

    A literal is a string, a template without ``${``, a number, ``true``, ``false``, ``null``, or
    an array or object of literals; comments, bare keys, single quotes and trailing commas are
    JavaScript's. TypeScript's ``as const`` is skipped. Of a key given twice the last one counts.

    Raises UnreadableValueError for everything else, and MetadataError for a text without end.
    """
    value = plain_value(_value(tokens, 0))
    return value


def _value(tokens: JavaScriptTokens, depth: int) -> PlainValue:
    token = tokens.advance()
    value: PlainValue
    match token:
        case Token(kind="string" | "template"):
            value = _text(token)
        case Token(kind="number"):
            value = _number(token, token.text)
        case Token(kind="name", text="null" | "true" | "false" as word):
            value = _WORDS[word]
        case Token(text="-") if tokens.current.kind == NUMBER:
            value = _number(token, "-" + tokens.advance().text)
        case Token(text="[" | "{") if depth >= MAX_DEPTH:
            raise UnreadableValueError(
                f"expected at most {MAX_DEPTH} levels of nesting, found more", token.start
            )
        case Token(text="["):
            value = _array(tokens, depth)
        case Token(text="{"):
            value = _object(tokens, depth)
        case _:
            _refuse("a literal", token)
    _skip_as_const(tokens)
    return value


def _array(tokens: JavaScriptTokens, depth: int) -> list[PlainValue]:
    values: list[PlainValue] = []
    while tokens.current.text != "]":
        values.append(_value(tokens, depth + 1))
        if tokens.current.text == ",":
            tokens.advance()
        elif tokens.current.text != "]":
            _refuse("a comma or ]", tokens.current)
    tokens.advance()
    return values


def _object(tokens: JavaScriptTokens, depth: int) -> dict[str, PlainValue]:
    entries: dict[str, PlainValue] = {}
    while tokens.current.text != "}":
        key = _key(tokens.advance())
        colon = tokens.advance()
        if colon.text != ":":
            _refuse(f"a colon after the key {shown(key)}", colon)
        entries[key] = _value(tokens, depth + 1)
        if tokens.current.text == ",":
            tokens.advance()
        elif tokens.current.text != "}":
            _refuse("a comma or }", tokens.current)
    tokens.advance()
    return entries


def _key(token: Token) -> str:
    match token.kind:
        case "name":
            return token.text
        case "string":
            return _text(token)
        case "number":
            return str(_number(token, token.text))
        case _:
            _refuse("a key", token)


def _skip_as_const(tokens: JavaScriptTokens) -> None:
    if tokens.current.kind == NAME and tokens.current.text == "as":
        word = tokens.advance()
        if tokens.current.text != "const":
            _refuse("as const", word)
        tokens.advance()


def _text(token: Token) -> str:
    quote = token.text[0]
    if len(token.text) < len("''") or token.text[-1] != quote or quote == "}":
        _refuse("a string closed on its line", token)
    inside = token.text[1:-1]
    if "\\" not in inside:
        return inside
    text = _ESCAPE.sub(_unescaped, inside)
    try:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le")
    except UnicodeDecodeError:
        _refuse("Unicode text", token)
