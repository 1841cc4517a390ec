"""Texts of a JavaScript file that are constant, though written in parts, and code in texts.

``globalThis["SAND" + "BOX"] = {}`` and ``eval("var SANDBOX = {}")`` bind a name as a declaration
does. Nothing is executed: parts are joined as far as the tokens alone decide it.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence

from ryeos.items.header_values import UnreadableValueError
from ryeos.items.javascript import DECLARES, is_field
from ryeos.items.javascript_tokens import END, MARK, NAME, OPENING, STRING, TEMPLATE, Token
from ryeos.items.javascript_values import text_of

LEVELS = 4


def enclosing(tokens: Sequence[Token]) -> list[int]:
    """For each token the place of the bracket around it, -1 without one."""
    found, opened = list[int](), [-1]
    for at, token in enumerate(tokens):
        del opened[token.depth + 1 :]
        found.append(opened[-1])
        if token.text in OPENING or token.text.endswith("${"):
            opened.append(at)
    return found


_MAX_CHARACTERS = 20_000  # of what is joined
_ROUNDS = 3  # constants that are made of constants
_METHODS: Mapping[str, Callable[[str], str]] = {
    "toUpperCase": str.upper,
    "toLowerCase": str.lower,
    "trim": str.strip,
    "toString": str,
    "valueOf": str,
}
_BEFORE_A_GROUP = frozenset({"return", "typeof", "case", "in", "of", "void", "throw", "yield"})
_BEHIND_A_USE = frozenset({"]", ",", ")", "}", "+"})


def with_joined_texts(tokens: Sequence[Token]) -> list[Token]:
    """The tokens with one string for each text in parts: sums, templates, ``concat``, ``join``.

    A variable that is declared as such a text counts as the text where it is only read.
    """
    constants: dict[str, str] = {}
    joined = list(tokens)
    for _ in range(_ROUNDS):
        joined = _joined(tokens, constants)
        before = len(constants)
        for at, token in enumerate(joined[:-3]):
            name, sign, value = joined[at + 1 : at + 4]
            if token.text in DECLARES and sign.text == "=" and value.kind == STRING:
                constants.setdefault(name.text, value.text[1:-1])
        if len(constants) == before:
            break
    return joined


def _joined(tokens: Sequence[Token], constants: Mapping[str, str]) -> list[Token]:
    found: list[Token] = []
    for at, token in enumerate(tokens):
        found.append(_as_string(tokens, at, token, constants))
        while _reduce(found):
            continue
    return found


def _as_string(
    tokens: Sequence[Token], at: int, token: Token, constants: Mapping[str, str]
) -> Token:
    """The token, as a string of plain characters where it is a text or a constant one's name."""
    if token.kind == STRING or (token.kind == TEMPLATE and token.text[0] == "`"):
        return _string(token, _characters(token))
    if token.kind == NAME and token.text in constants and not is_field(token.text):
        before = tokens[at - 1].text if at else ""
        after, next_after = (one.text for one in (*tokens[at + 1 : at + 3], *[tokens[-1]] * 2)[:2])
        is_use = after in _BEHIND_A_USE and not (after == "+" and next_after == "=")
        if is_use and before not in {".", "?."}:
            return _string(token, constants[token.text])
    return token


def _string(token: Token, said: str) -> Token:
    return token._replace(kind=STRING, text=f'"{said}"')


def _sum(one: Token, other: Token) -> str:
    return f"{one.text[1:-1]}{other.text[1:-1]}"[:_MAX_CHARACTERS]


def _characters(token: Token) -> str:
    try:
        return text_of(token)
    except UnreadableValueError:
        return token.text[1:-1]


def _reduce(found: list[Token]) -> bool:
    """Join the last tokens if they are one text; whether they were."""
    match found:
        case [*_, Token(kind="string") as one, Token(text="+"), Token(kind="string") as other]:
            found[-3:] = [_string(one, _sum(one, other))]
            return True
        case [*_, Token(kind="mark") as one, Token(kind="string") as said, Token() as end] if (
            one.text.endswith("${") and end.text.startswith("}") and one.text[0] in "`}"
        ):
            return _reduce_template(found, one, said, end)
        case [*_, Token(text=")")]:
            return _reduce_group(found) or _reduce_method(found)
        case _:
            return False


def _reduce_template(found: list[Token], one: Token, said: Token, end: Token) -> bool:
    whole = one.text[:-2] + said.text[1:-1] + end.text[1:]
    if end.kind == TEMPLATE and one.text[0] == "`":
        found[-3:] = [_string(one, whole[1:-1])]
    elif end.kind in {TEMPLATE, MARK} and (end.kind == TEMPLATE or whole.endswith("${")):
        found[-3:] = [one._replace(kind=end.kind, text=whole)]
    else:
        return False
    return True


def _reduce_group(found: list[Token]) -> bool:
    """``("a")``, where it is no call."""
    match found:
        case [*_, Token(text="("), Token(kind="string") as said, Token(text=")")]:
            before = found[-4] if len(found) > len("(a)") else None
            is_call = before is not None and (
                (before.kind in {NAME, STRING} and before.text not in _BEFORE_A_GROUP)
                or before.text in {")", "]", "?.", "}"}
            )
            if not is_call:
                found[-3:] = [said]
            return not is_call
        case _:
            return False


def _reduce_method(found: list[Token]) -> bool:
    """``"a".concat("b")``, ``"a".toUpperCase()``, ``["a", "b"].join("")``."""
    match found:
        case [
            *_, Token(kind="string") as one, Token(text="." | "?."), Token(text="concat"),
            Token(text="("), Token(kind="string") as other, Token(text=")"),
        ]:  # fmt: skip
            found[-6:] = [_string(one, _sum(one, other))]
        case [
            *_, Token(kind="string") as one, Token(text="." | "?."), Token(text=method),
            Token(text="("), Token(text=")"),
        ] if method in _METHODS:  # fmt: skip
            found[-5:] = [_string(one, _METHODS[method](one.text[1:-1]))]
        case [
            *_, Token(text="]"), Token(text="." | "?."), Token(text="join"),
            Token(text="("), Token(kind="string") as between, Token(text=")"),
        ]:  # fmt: skip
            return _reduce_list(found, len(found) - len("]._()_"), between.text[1:-1])
        case [
            *_, Token(text="]"), Token(text="." | "?."), Token(text="join"),
            Token(text="("), Token(text=")"),
        ]:  # fmt: skip
            return _reduce_list(found, len(found) - len("]._()"), ",")
        case _:
            return False
    return True


def _reduce_list(found: list[Token], closing: int, between: str) -> bool:
    """The strings of an array that ends at a place, joined."""
    at, parts = closing - 1, list[str]()
    while at > 0 and found[at].kind == STRING:
        parts.append(found[at].text[1:-1])
        at -= 1
        if found[at].text != ",":
            break
        at -= 1
    if at < 0 or found[at].text != "[":
        return False
    found[at:] = [_string(found[at], between.join(reversed(parts)))]
    return True


_EXECUTES = frozenset(
    {"eval", "Function", "AsyncFunction", "GeneratorFunction", "constructor", "execScript"}
    | {"runInThisContext", "runInNewContext", "runInContext", "compileFunction", "Script"}
    | {"setTimeout", "setInterval", "setImmediate"}
)
_CALLEE = 8  # tokens before the bracket of a call: ``(0, globalThis.eval)(``


def executing_names(tokens: Sequence[Token]) -> frozenset[str]:
    """The functions that take code as a text, with other names that the file gives them."""
    found = set(_EXECUTES)
    for at, token in enumerate(tokens[:-2]):
        if token.kind != NAME or token.text not in _EXECUTES:
            continue
        after = tokens[at + 1].text
        if after in {"as", ":"} and tokens[at + 2].kind == NAME:
            found.add(tokens[at + 2].text)
        start = at
        while start >= len("a.") and tokens[start - 1].text in {".", "?."} and at - start < _CALLEE:
            start -= len("a.")
        if after not in {"(", "."} and start >= len("e=") and tokens[start - 1].text == "=":
            found.add(tokens[start - 2].text)
    return frozenset(found)


def is_executed(
    tokens: Sequence[Token], at: int, around: Sequence[int], names: frozenset[str]
) -> bool:
    """True if the string at a place is given to a call that executes it.

    ``around`` is what `enclosing` says of the tokens.
    """
    if at and tokens[at - 1].text in names:  # a template behind its tag
        return True
    for _ in range(LEVELS):
        at = around[at]
        if at < 0:
            return False
        called = {*_callee(tokens, at), *(one.text for one in tokens[at + 1 : at + 2])}
        if tokens[at].text == "(" and not names.isdisjoint(called):
            return True
    return False


def _callee(tokens: Sequence[Token], opening: int) -> Iterator[str]:
    """The names and strings of what is called by the bracket at a place."""
    for token in reversed(tokens[max(opening - _CALLEE, 0) : opening]):
        if token.text in {";", "{", "}", "=", "=>"} or token.kind == END:
            return
        if token.kind in {NAME, STRING}:
            yield token.text.strip("\"'`")
