"""The syntax of templates: literals, paths, pipes and marks in a text.

From the text of a template to its parts. Pure; `ryeos.graph.expressions.fill` gives them values.

    template     text, $${ for ${ itself, ${ expression }, {input:name}
    expression   alternative || alternative | pipe | pipe:argument
    alternative  a literal or a path
    literal      ``'text'``, ``"text"``, a number, true, false, null
    path         ``state.items[0].name``: keys of mappings and places of lists, and nothing else

What cannot be read becomes a `MalformedExpression`, so that every problem of a text is found.
"""

import re
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from functools import lru_cache
from typing import Any, TypeAlias

from lillux.values import dataclass
from ryeos.graph.pipes import PIPES, Argument
from ryeos.items.directives import INPUT_PATTERN

_WORDS = {"true": True, "false": False, "null": None}
_ESCAPES = {"n": "\n", "t": "\t", "\\": "\\", "'": "'", '"': '"'}
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_INTEGER = re.compile(r"-?[0-9]{1,300}")
_DECIMAL = re.compile(r"-?[0-9]{1,300}(?:\.[0-9]{1,300})?(?:[eE][+-]?[0-9]{1,2})?")


class LiteralSyntaxError(ValueError):
    """A number or a quoted text that cannot be read; its words say why."""


@dataclass(frozen=True, slots=True)
class Literal:
    """A value that stands in the expression itself."""

    value: Any


def parse_literal(text: str) -> Literal | None:
    """The literal that a text without blanks around it is, or None. Raises LiteralSyntaxError."""
    if text in _WORDS:
        return Literal(_WORDS[text])
    if _INTEGER.fullmatch(text):
        return Literal(int(text))
    if _DECIMAL.fullmatch(text):
        return Literal(_decimal(text))
    if text[:1] in {"'", '"'}:
        return Literal(_unquoted(text))
    return None


def _decimal(text: str) -> float:
    number = float(text)
    if number in {float("inf"), -float("inf")}:
        raise LiteralSyntaxError(f"expected a number that float can hold, found {text[:40]}")
    return number


def _unquoted(text: str) -> str:
    inner = text[1:-1]
    bare = _ESCAPE.sub("", inner)
    if len(text) < len("''") or text[-1] != text[0] or text[0] in bare or "\\" in bare:
        raise LiteralSyntaxError(f"expected one quoted text, found {text[:40]!r}")
    return _ESCAPE.sub(_unescape, inner)


def _unescape(match: re.Match[str]) -> str:
    try:
        return _ESCAPES[match[1]]
    except KeyError:
        raise LiteralSyntaxError(
            f"unknown escape {match.group()!r}, known are \\n \\t \\\\ \\' \\\""
        ) from None


Path: TypeAlias = tuple[str, ...]
"""Keys and indexes as texts: ``("state", "items", "0", "name")``."""

_NAME = r"[^\s.\[\]{}|'\"]+"
_FIRST = re.compile(_NAME)
_STEP = re.compile(
    rf"\.(?P<name>{_NAME})"
    r"|\[\s*+(?:(?P<index>-?[0-9]+)|'(?P<single>[^'\\]*)'|\"(?P<double>[^\"\\]*)\")\s*+\]"
)
# More digits than any list has places, and few enough to be read at once.
_MAX_INDEX_DIGITS = 18
_INDEX = re.compile(rf"-?[0-9]{{1,{_MAX_INDEX_DIGITS}}}")
_SHOWN_PATH = 40


class PathSyntaxError(ValueError):
    """A text that is no path; its words say where it stops being one."""


def parse_path(text: str) -> Path:
    """The steps of a path: ``a.b``, ``a.0``, ``a[0]``, ``a[-1]``, ``a['any key']``.

    Raises PathSyntaxError.
    """
    first = _FIRST.match(text)
    if first is None:
        raise PathSyntaxError(f"expected a path like state.name, found {text[:_SHOWN_PATH]!r}")
    steps, place = [first.group()], first.end()
    while place < len(text):
        step = _STEP.match(text, place)
        if step is None:
            raise PathSyntaxError(
                f"expected .key, [0] or ['any key'] after {text[:place][-_SHOWN_PATH:]!r},"
                f" found {text[place : place + _SHOWN_PATH]!r}"
            )
        steps.append(next(group for group in step.groups() if group is not None))
        place = step.end()
    return tuple(steps)


# An older word for a key of the result of a program, which signed graphs still say.
_OLDER_WORDS = {"exit": "return_code"}


def look_up(document: Any, path: Path) -> Any:  # noqa: ANN401 - JSON passes through
    """The value at the path, None where nothing is. A negative index counts from the end."""
    value = document
    for step in path:
        if isinstance(value, Mapping):
            is_older = step in _OLDER_WORDS and step not in value
            value = value.get(_OLDER_WORDS[step] if is_older else step)
        elif isinstance(value, (list, tuple)):
            value = _element(value, step)
        else:
            return None
    return value


def _element(values: list[Any] | tuple[Any, ...], step: str) -> Any:  # noqa: ANN401
    if _INDEX.fullmatch(step) is None:
        return None
    index = int(step)
    return values[index] if -len(values) <= index < len(values) else None


MAX_PIPES = 16
# Templates come from graph files: as many different texts as a large one has.
_CACHED_TEMPLATES = 4096

# Characters are taken for good, groups are not: before 3.11.5 possessive groups lose matches.
_QUOTED = r"'[^'\\]*+(?:\\.[^'\\]*+)*'|\"[^\"\\]*+(?:\\.[^\"\\]*+)*\""
_MARK = re.compile(rf"\$\$\{{|\$\{{|{INPUT_PATTERN}")
_BODY = re.compile(rf"(?:[^'\"{{}}]++|{_QUOTED})*", re.DOTALL)
_PART = re.compile(rf"(?P<part>(?:[^'\"|]++|{_QUOTED})*)(?P<end>\|\||\||\Z)", re.DOTALL)
_PIPE = re.compile(r"(?P<name>[A-Za-z_][A-Za-z0-9_]*)\s*(?::\s*(?P<argument>.*))?", re.DOTALL)
_SHOWN_TEXT = 80


@dataclass(frozen=True, slots=True)
class PipeCall:
    """A pipe of an expression, whose name may be unknown; ``argument`` as it was read."""

    name: str
    argument: Literal | None


@dataclass(frozen=True, slots=True)
class Expression:
    """``${a || b | pipe}``; ``source`` is all of it, braces too."""

    source: str
    alternatives: tuple[Path | Literal, ...]
    pipes: tuple[PipeCall, ...]


@dataclass(frozen=True, slots=True)
class Input:
    """``{input:name}``; ``default`` is the text where the input is missing, or None."""

    source: str
    name: str
    default: str | None


@dataclass(frozen=True, slots=True)
class MalformedExpression:
    """Text that begins like an expression and cannot be parsed."""

    source: str
    problem: str


Part: TypeAlias = str | Expression | Input | MalformedExpression


class _BodyError(ValueError):
    """Why a body is no expression."""


def has_marks(text: str) -> bool:
    """True if a text may hold anything to fill in. A quick test with false positives."""
    return "${" in text or "{input:" in text


@lru_cache(maxsize=_CACHED_TEMPLATES)
def parse_template(text: str) -> tuple[Part, ...]:
    """The parts of a text, in order, none of them an empty text."""
    parts: list[Part] = []
    place = 0
    while mark := _MARK.search(text, place):
        parts.append(text[place : mark.start()])
        match mark.group():
            case "$${":
                parts.append("${")
                place = mark.end()
            case "${":
                part, place = _expression(text, mark.start())
                parts.append(part)
            case source:
                default = "" if mark["optional"] else mark["default"]
                parts.append(Input(source, mark["input"], default))
                place = mark.end()
    parts.append(text[place:])
    return tuple(part for part in parts if part != "")


def pipe_problem(call: PipeCall) -> str:
    """The problem of the name of a pipe, ``""`` for none."""
    if call.name in PIPES:
        return ""
    close = get_close_matches(call.name, PIPES, 1)
    meant = f"did you mean {close[0]}?" if close else f"known are {', '.join(PIPES)}"
    return f"unknown pipe {call.name[:_SHOWN_TEXT]!r}, {meant}"


def _expression(text: str, start: int) -> tuple[Expression | MalformedExpression, int]:
    """The expression that begins at a place, and where the text continues behind it."""
    body = _BODY.match(text, start + len("${"))
    end = body.end() if body else start
    if text[end : end + 1] == "}":
        source = text[start : end + 1]
        try:
            return _parse_expression(source), end + 1
        except (_BodyError, LiteralSyntaxError, PathSyntaxError) as error:
            return MalformedExpression(source, str(error)), end + 1
    match text[end : end + 1]:
        case "{":
            problem = "found { inside an expression, expected } first; quote it where it is text"
        case "":
            problem = "expected } at the end of the expression, write $${ for ${ as text"
        case quote:
            problem = f"expected a second {quote} behind the first"
    return MalformedExpression(text[start:][:_SHOWN_TEXT], problem), len(text)


def _parse_expression(source: str) -> Expression:
    body = source[len("${") : -1]
    if not body.strip():
        raise _BodyError("expected a path like state.name, found nothing")
    alternatives: list[Path | Literal] = []
    pipes: list[PipeCall] = []
    for before, part in _split(body):
        if before == "|":
            pipes.append(_pipe(part))
        elif pipes:
            raise _BodyError("expected the fallbacks (||) in front of the pipes (|)")
        else:
            alternatives.append(_alternative(part))
    if len(pipes) > MAX_PIPES:
        raise _BodyError(f"expected at most {MAX_PIPES} pipes, found {len(pipes)}")
    return Expression(source, tuple(alternatives), tuple(pipes))


def _split(body: str) -> Iterator[tuple[str, str]]:
    """Each part without blanks around it, with the mark in front of it (``""``, ``||``, ``|``)."""
    before, place = "", 0
    while part := _PART.match(body, place):
        yield before, part["part"].strip()
        if not part["end"]:
            return
        before, place = part["end"], part.end()


def _alternative(text: str) -> Path | Literal:
    if not text:
        raise _BodyError("expected a path or a literal on both sides of || and before |")
    literal = parse_literal(text)
    return parse_path(text) if literal is None else literal


def _pipe(text: str) -> PipeCall:
    match = _PIPE.fullmatch(text)
    if match is None:
        raise _BodyError(f"expected the name of a pipe behind |, found {text[:_SHOWN_TEXT]!r}")
    name, written = match["name"], match["argument"]
    known = PIPES.get(name)
    if known and known.argument is Argument.NONE and written is not None:
        raise _BodyError(f"the pipe {name} takes no argument, found {written[:_SHOWN_TEXT]!r}")
    if known and known.argument is Argument.REQUIRED and not written:
        raise _BodyError(f"the pipe {name} needs an argument, like {name}:',' (or '')")
    if written is None:
        return PipeCall(name, None)
    return PipeCall(name, parse_literal(written) or Literal(written))
