"""JavaScript literals as values: what a header may hold, read off the tokens without evaluating."""

import re

from ryeos.items.header_values import (
    MAX_DEPTH,
    PlainValue,
    UnreadableValueError,
    plain_value,
    shown,
)
from ryeos.items.javascript_tokens import NAME, NUMBER, JavaScriptTokens, Token

_WORDS: dict[str, PlainValue] = {"null": None, "true": True, "false": False}
_ESCAPE = re.compile(
    r"\\(?:u\{([0-9a-fA-F]{1,6})\}|u([0-9a-fA-F]{4})|x([0-9a-fA-F]{2})|(\d+)|(.))", re.DOTALL
)
_ESCAPED = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "v": "\v", "\n": ""}
_OTHER_BASE = re.compile(r"-?0(?:[xX][0-9a-fA-F]+|[oO][0-7]+|[bB][01]+)")
_INTEGER = re.compile(r"-?(?:0|[1-9][0-9]*)")
_FLOAT = re.compile(
    r"-?(?:(?:0|[1-9][0-9]*)(?:\.[0-9]*(?:[eE][+-]?[0-9]+)?|[eE][+-]?[0-9]+)"
    r"|\.[0-9]+(?:[eE][+-]?[0-9]+)?)"
)
_MAX_NUMBER_CHARACTERS = 300


class RepeatedKeyError(UnreadableValueError):
    """An object has a key twice: for JavaScript the last counts, for a reader perhaps the first."""


def read_literal(tokens: JavaScriptTokens) -> PlainValue:
    """The value of the literal that begins at the current token; steps behind it.

    A literal is a string, a template without ``${``, a number, ``true``, ``false``, ``null``, or
    an array or object of literals; comments, bare keys, single quotes and trailing commas are
    JavaScript's. TypeScript's ``as const`` is skipped.

    Raises UnreadableValueError for everything else, RepeatedKeyError for a key given twice, and
    MetadataError for a text without end.
    """
    return plain_value(_value(tokens, 0))


def _value(tokens: JavaScriptTokens, depth: int) -> PlainValue:
    token = tokens.advance()
    value: PlainValue
    match token:
        case Token(kind="string" | "template"):
            value = text_of(token)
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
            raise _unreadable_error("a literal", token)
    _skip_as_const(tokens)
    return value


def _array(tokens: JavaScriptTokens, depth: int) -> list[PlainValue]:
    values: list[PlainValue] = []
    while tokens.current.text != "]":
        values.append(_value(tokens, depth + 1))
        if tokens.current.text == ",":
            tokens.advance()
        elif tokens.current.text != "]":
            raise _unreadable_error("a comma or ]", tokens.current)
    tokens.advance()
    return values


def _object(tokens: JavaScriptTokens, depth: int) -> dict[str, PlainValue]:
    entries: dict[str, PlainValue] = {}
    while tokens.current.text != "}":
        token = tokens.advance()
        key = _key(token)
        colon = tokens.advance()
        if colon.text != ":":
            raise _unreadable_error(f"a colon after the key {shown(key)}", colon)
        if key in entries:
            problem = f"expected each key once, found {shown(key)} twice"
            raise RepeatedKeyError(problem, token.start)
        entries[key] = _value(tokens, depth + 1)
        if tokens.current.text == ",":
            tokens.advance()
        elif tokens.current.text != "}":
            raise _unreadable_error("a comma or }", tokens.current)
    tokens.advance()
    return entries


def _key(token: Token) -> str:
    match token.kind:
        case "name":
            return token.text
        case "string":
            return text_of(token)
        case "number" if token.text.isdecimal():
            return token.text
        case _:
            raise _unreadable_error("a key", token)


def _skip_as_const(tokens: JavaScriptTokens) -> None:
    if tokens.current.kind == NAME and tokens.current.text == "as":
        word = tokens.advance()
        if tokens.current.text != "const":
            raise _unreadable_error("as const", word)
        tokens.advance()


def text_of(token: Token) -> str:
    """The characters that a string or a template means. Raises UnreadableValueError."""
    inside = token.text[1:-1]
    if "\\" not in inside:
        return inside
    try:
        text = _ESCAPE.sub(_unescaped, inside)
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le")
    except ValueError as error:
        raise _unreadable_error("escapes of Unicode characters", token) from error


def _unescaped(escape: re.Match[str]) -> str:
    braced, four, two, digits, other = escape.groups()
    if code_point := braced or four or two:
        return chr(int(code_point, 16))
    if digits == "0":
        return "\0"
    if digits or other in {"u", "x"}:
        raise ValueError(escape[0])
    return _ESCAPED.get(other, other)


def _number(token: Token, text: str) -> int | float:
    digits = text.replace("_", "")
    if len(text) <= _MAX_NUMBER_CHARACTERS:
        if _OTHER_BASE.fullmatch(digits):
            return int(digits, 0)
        if _INTEGER.fullmatch(digits):
            return int(digits)
        if _FLOAT.fullmatch(digits):
            return float(digits)
    raise _unreadable_error(f"a number of at most {_MAX_NUMBER_CHARACTERS} digits", token)


def _unreadable_error(expected: str, token: Token) -> UnreadableValueError:
    found = shown(token.text) if token.text else "the end of the file"
    return UnreadableValueError(f"expected {expected}, found {found}", token.start)
