"""From the text of a template to its parts. Pure; `ryeos.graph.expressions` gives them values.

    template     text, $${ for ${ itself, ${ expression }, {input:name}
    expression   alternative || alternative | pipe | pipe:argument
    alternative  a literal or a path

What cannot be read becomes a `Malformed` part, so that every problem of a text is found at once.
"""

import re
from collections.abc import Iterator
from difflib import get_close_matches
from functools import lru_cache
from typing import TypeAlias

from lillux.values import dataclass
from ryeos.graph.literals import Literal, LiteralSyntaxError, parse_literal
from ryeos.graph.paths import Path, PathSyntaxError, parse_path
from ryeos.graph.pipes import PIPES, Argument
from ryeos.input_references import PATTERN

MAX_PIPES = 16
# Templates come from graph files: as many different texts as a large one has.
_CACHED_TEMPLATES = 4096

# Characters are taken for good, groups are not: before 3.11.5 possessive groups lose matches.
_QUOTED = r"'[^'\\]*+(?:\\.[^'\\]*+)*'|\"[^\"\\]*+(?:\\.[^\"\\]*+)*\""
_MARK = re.compile(rf"\$\$\{{|\$\{{|{PATTERN}")
_BODY = re.compile(rf"(?:[^'\"{{}}]++|{_QUOTED})*", re.DOTALL)
_PART = re.compile(rf"(?P<part>(?:[^'\"|]++|{_QUOTED})*)(?P<end>\|\||\||\Z)", re.DOTALL)
_PIPE = re.compile(r"(?P<name>[A-Za-z_][A-Za-z0-9_]*)\s*(?::\s*(?P<argument>.*))?", re.DOTALL)
_SHOWN = 80


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
    """``{input:name}``; ``default`` is the text where the input is missing, None for none."""

    source: str
    name: str
    default: str | None


@dataclass(frozen=True, slots=True)
class Malformed:
    """What begins like an expression and is none."""

    source: str
    problem: str


Part: TypeAlias = str | Expression | Input | Malformed


class _BodyError(ValueError):
    """Why a body is no expression."""


def has_marks(text: str) -> bool:
    """Say whether a text may hold anything to fill in. Quick, and true more often than it is."""
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
    """What is wrong with the name of a pipe, ``""`` when nothing is."""
    if call.name in PIPES:
        return ""
    close = get_close_matches(call.name, PIPES, 1)
    meant = f"did you mean {close[0]}?" if close else f"known are {', '.join(PIPES)}"
    return f"unknown pipe {call.name[:_SHOWN]!r}, {meant}"


def _expression(text: str, start: int) -> tuple[Expression | Malformed, int]:
    """The expression that begins at a place, and where the text goes on behind it."""
    body = _BODY.match(text, start + len("${"))
    end = body.end() if body else start
    if text[end : end + 1] == "}":
        source = text[start : end + 1]
        try:
            return _parsed(source), end + 1
        except (_BodyError, LiteralSyntaxError, PathSyntaxError) as error:
            return Malformed(source, str(error)), end + 1
    match text[end : end + 1]:
        case "{":
            problem = "found { inside an expression, expected } first; quote it where it is text"
        case "":
            problem = "expected } at the end of the expression, write $${ for ${ as text"
        case quote:
            problem = f"expected a second {quote} behind the first"
    return Malformed(text[start:][:_SHOWN], problem), len(text)


def _parsed(source: str) -> Expression:
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
        raise _BodyError(f"expected the name of a pipe behind |, found {text[:_SHOWN]!r}")
    name, written = match["name"], match["argument"]
    known = PIPES.get(name)
    if known and known.argument is Argument.NONE and written is not None:
        raise _BodyError(f"the pipe {name} takes no argument, found {written[:_SHOWN]!r}")
    if known and known.argument is Argument.REQUIRED and not written:
        raise _BodyError(f"the pipe {name} needs an argument, like {name}:',' (or '')")
    if written is None:
        return PipeCall(name, None)
    return PipeCall(name, parse_literal(written) or Literal(written))
