"""Templates of graphs: parse, validate and fill them. Pure.

A template is a JSON value whose texts may hold ``${path || fallback | pipe}`` and
``{input:name}``; ``docs/graphs.md`` has every rule. A text is read once: what comes
from the document is inserted as it is and never read again.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from difflib import get_close_matches
from enum import Enum
from functools import lru_cache
from typing import Any, TypeAlias

from lillux.digests import CanonicalJsonError, require_json
from lillux.values import dataclass
from ryeos.items.errors import RyeError
from ryeos.items.markdown import PATTERN

# --- literals -------------------------------------------------------------------------------------
# Literals inside expressions: ``'text'``, ``"text"``, numbers, true, false, null. Pure.

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


# --- paths ----------------------------------------------------------------------------------------
# Paths into a document: ``state.items[0].name``. Pure.
#
# A path sees the keys of mappings and the places of lists, and nothing else of any value.

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


# --- parsing --------------------------------------------------------------------------------------
# From the text of a template to its parts. Pure; `fill` gives them values.
#
#     template     text, $${ for ${ itself, ${ expression }, {input:name}
#     expression   alternative || alternative | pipe | pipe:argument
#     alternative  a literal or a path
#
# What cannot be read becomes a `MalformedExpression`, so that every problem of a text is found.

MAX_PIPES = 16
# Templates come from graph files: as many different texts as a large one has.
_CACHED_TEMPLATES = 4096

# Characters are taken for good, groups are not: before 3.11.5 possessive groups lose matches.
_QUOTED = r"'[^'\\]*+(?:\\.[^'\\]*+)*'|\"[^\"\\]*+(?:\\.[^\"\\]*+)*\""
_MARK = re.compile(rf"\$\$\{{|\$\{{|{PATTERN}")
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
    """Whether a text may hold anything to fill in. A quick test with false positives."""
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


# --- pipes ----------------------------------------------------------------------------------------
# Pipes: what ``${value | name:argument}`` can do with a value. Pure.
#
# A pipe raises PipeError for a value that it is not made for. No pipe is applied to None but
# those that say something about it: ``length``, ``default`` and ``sh``.

_WHOLE_NUMBER = re.compile(r"[+-]?[0-9]{1,300}")
_NUMBER = re.compile(r"[+-]?(?:[0-9]{1,300}(?:\.[0-9]{0,300})?|\.[0-9]{1,300})(?:[eE][+-]?[0-9]+)?")
_KINDS: tuple[tuple[type | tuple[type, ...], str], ...] = (
    (type(None), "nothing"),
    (bool, "true or false"),
    ((int, float), "a number"),
    (str, "a text"),
    ((list, tuple), "a list"),
    (Mapping, "a mapping"),
)
_SHOWN_VALUE = 60


class PipeError(ValueError):
    """A pipe was given a value it cannot work on; its words say what it expected and found."""


class Argument(Enum):
    """Whether a pipe has something behind a colon."""

    NONE = "none"
    REQUIRED = "required"


@dataclass(frozen=True, slots=True)
class Pipe:
    """One pipe. ``apply`` takes the value and the argument, None where it has none."""

    apply: Callable[[Any, Any], Any]
    argument: Argument = Argument.NONE
    sees_none: bool = False


def text_of(value: object) -> str:
    """A value as it stands inside a longer text: Python's `str`, nothing for None.

    Raises PipeError for what has no text (nested too deeply, a number of thousands of digits).
    """
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    try:
        return str(value)
    except (ValueError, RecursionError) as error:
        raise PipeError(f"cannot be written as text: {error}") from error


def kind_of(value: object) -> str:
    """What a person calls the type of a value."""
    for types, name in _KINDS:
        if isinstance(value, types):
            return name
    return type(value).__name__


def is_number(value: object) -> bool:
    """Whether a value is a number; true and false are not numbers."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def number_in(text: str) -> int | float | None:
    """The number that a text is, blanks around it aside, or None; never infinite."""
    text = text.strip()
    if _WHOLE_NUMBER.fullmatch(text):
        return int(text)
    if _NUMBER.fullmatch(text):
        number = float(text)
        return number if abs(number) != float("inf") else None
    return None


def _json(value: Any, _: Any) -> str:  # noqa: ANN401
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False, default=str)
    except (ValueError, TypeError, RecursionError) as error:
        raise PipeError(f"cannot be written as JSON: {error}") from error


def _from_json(value: Any, _: Any) -> Any:  # noqa: ANN401
    """The value of a text; what is no text has been read already."""
    if not isinstance(value, str):
        return value
    try:
        parsed = json.loads(value)
        require_json(parsed)
    except (ValueError, RecursionError, CanonicalJsonError) as error:
        raise PipeError(f"expected JSON, found {value[:_SHOWN_VALUE]!r} ({error})") from error
    return parsed


def _length(value: Any, _: Any) -> int:  # noqa: ANN401
    if value is None:
        return 0
    if isinstance(value, (str, list, tuple, Mapping)):
        return len(value)
    raise PipeError(f"expected a text, a list or a mapping, found {kind_of(value)}")


def _keys(value: Any, _: Any) -> list[Any]:  # noqa: ANN401
    return list(value) if isinstance(value, Mapping) else []


def _values(value: Any, _: Any) -> list[Any]:  # noqa: ANN401
    return list(value.values()) if isinstance(value, Mapping) else []


def _items(value: Any, _: Any) -> list[Any]:  # noqa: ANN401
    if not isinstance(value, Mapping):
        return []
    return [{"key": key, "value": entry} for key, entry in value.items()]


def _list(value: Any) -> list[Any]:  # noqa: ANN401
    if not isinstance(value, (list, tuple)):
        raise PipeError(f"expected a list, found {kind_of(value)}")
    return list(value)


def _first(value: Any, _: Any) -> Any:  # noqa: ANN401
    return next(iter(_list(value)), None)


def _last(value: Any, _: Any) -> Any:  # noqa: ANN401
    return next(iter(_list(value)[-1:]), None)


def _join(value: Any, separator: Any) -> str:  # noqa: ANN401
    return text_of(separator).join(map(text_of, _list(value)))


def _sum(value: Any, _: Any) -> Any:  # noqa: ANN401
    numbers = _list(value)
    for number in numbers:
        if not is_number(number):
            raise PipeError(f"expected a list of numbers, found {kind_of(number)} in it")
    try:
        total = sum(numbers)
    except OverflowError as error:
        raise PipeError(f"expected numbers that can be added: {error}") from error
    if not -float("inf") < total < float("inf"):
        raise PipeError("expected numbers with a finite sum")
    return total


def _sort(value: Any, _: Any) -> list[Any]:  # noqa: ANN401
    entries = _list(value)
    if all(map(is_number, entries)) or all(isinstance(entry, str) for entry in entries):
        return sorted(entries)
    kinds = sorted({kind_of(entry) for entry in entries})
    raise PipeError(f"expected only numbers or only texts, found {', '.join(kinds)}")


def _int(value: Any, _: Any) -> int:  # noqa: ANN401
    """Text of a whole number, or any number without what is behind its point."""
    number = _number(value, _WHOLE_NUMBER, "a whole number")
    return int(number)


def _float(value: Any, _: Any) -> float:  # noqa: ANN401
    number = _number(value, _NUMBER, "a number")
    try:
        return float(number)
    except OverflowError as error:
        raise PipeError("expected a number within the range of float") from error


def _number(value: Any, form: re.Pattern[str], expected: str) -> Any:  # noqa: ANN401
    """A finite number, whose text has the form."""
    number = value
    if isinstance(value, str):
        number = number_in(value) if form.fullmatch(value.strip()) else None
    if isinstance(number, (int, float)) and -float("inf") < number < float("inf"):
        return number
    found = repr(value[:_SHOWN_VALUE]) if isinstance(value, str) else kind_of(value)
    raise PipeError(f"expected {expected}, found {found}")


def _sh(value: Any, _: Any) -> str:  # noqa: ANN401
    """One word for a POSIX shell; the words of a list; ``''`` for nothing, so that it stays one."""
    import shlex

    words = [text_of(entry) for entry in value] if isinstance(value, (list, tuple)) else None
    quoted = " ".join(map(shlex.quote, [text_of(value)] if words is None else words))
    if "\0" in quoted:
        raise PipeError("expected text that a shell can hold, found a NUL in it")
    return quoted


def _b64(value: Any, _: Any) -> str:  # noqa: ANN401
    import base64

    try:
        return base64.b64encode(text_of(value).encode()).decode("ascii")
    except UnicodeEncodeError as error:
        raise PipeError(f"expected text that UTF-8 can hold ({error.reason})") from error


PIPES: Mapping[str, Pipe] = {
    "json": Pipe(_json),
    "from_json": Pipe(_from_json),
    "length": Pipe(_length, sees_none=True),
    "keys": Pipe(_keys),
    "values": Pipe(_values),
    "items": Pipe(_items),
    "first": Pipe(_first),
    "last": Pipe(_last),
    "join": Pipe(_join, Argument.REQUIRED),
    "sum": Pipe(_sum),
    "sort": Pipe(_sort),
    "upper": Pipe(lambda value, _: text_of(value).upper()),
    "lower": Pipe(lambda value, _: text_of(value).lower()),
    "trim": Pipe(lambda value, _: text_of(value).strip()),
    "str": Pipe(lambda value, _: text_of(value)),
    "int": Pipe(_int),
    "float": Pipe(_float),
    "sh": Pipe(_sh, sees_none=True),
    "b64": Pipe(_b64),
    "default": Pipe(
        lambda value, instead: instead if value is None else value,
        Argument.REQUIRED,
        sees_none=True,
    ),
}


# --- expression errors ----------------------------------------------------------------------------
# What a template or a condition can do wrong while a graph runs.

_SHOWN_ERROR = 200
SYNTAX_HINT = "rye graph validate shows where it is"
VALUE_HINT = "look at where the value comes from, or give it another pipe"


class ExpressionError(RyeError):
    """An expression of a graph has no value. ``text`` is the expression, as the file has it."""

    code = "EXPRESSION_ERROR"

    def __init__(self, text: str, problem: str, *, hint: str = "") -> None:
        self.text, self.problem = text, problem
        super().__init__(
            f"{shortened(text)}: {problem}", hint=hint or "rye graph validate shows where it is"
        )


def shortened(text: str) -> str:
    """A text as a message shows it, its beginning where it is long."""
    return text if len(text) <= _SHOWN_ERROR else text[:_SHOWN_ERROR] + "..."


# --- expressions ----------------------------------------------------------------------------------

MAX_DEPTH = 100
MAX_TEXT_CHARS = 16 * 1024 * 1024

Document: TypeAlias = Mapping[str, Any]
Warn: TypeAlias = Callable[[str], None]


def fill(template: Any, document: Document, warn: Warn) -> Any:  # noqa: ANN401 - JSON
    """A template with its values; lists and mappings are new, what is inserted is not copied.

    A text that is one expression takes the value with its type. Inside a longer text None is
    nothing, with a warning; an unknown pipe is left out, with a warning.

    document  ``state``, ``inputs``, ``result``, ``_now`` ... as the step has them
    warn      called with a line for a person

    Raises ExpressionError for what cannot be read or computed, and beyond `MAX_DEPTH` levels or
    `MAX_TEXT_CHARS` characters of one text.
    """
    return _fill_template(template, document, warn, MAX_DEPTH)


def problems(template: Any) -> Iterator[tuple[str, str]]:  # noqa: ANN401 - JSON
    """What is wrong with a template before any run: (place in it, words), ``("a.b[0]", "...")``.

    A template without problems fills, or fails for its values only.
    """
    try:
        for place, text in _texts(template, "", MAX_DEPTH):
            for part in parse_template(text):
                yield from (
                    (place, f"{shortened(part_source(part))}: {line}")
                    for line in _part_problems(part)
                )
    except _TooDeepError as error:
        yield error.place, f"expected at most {MAX_DEPTH} levels of lists and mappings"


def references(template: Any) -> Iterator[Path]:  # noqa: ANN401 - JSON
    """Every path that a template asks for, in order, as often as it does; inputs as such."""
    try:
        for _, text in _texts(template, "", MAX_DEPTH):
            for part in parse_template(text):
                if isinstance(part, Input):
                    yield ("inputs", part.name)
                elif isinstance(part, Expression):
                    yield from (one for one in part.alternatives if not isinstance(one, Literal))
    except _TooDeepError:
        return  # `problems` reports them


def unquoted_in(text: str) -> list[str]:
    """The expressions inside a shell command whose values the shell would read as code.

    That is all that do not end in ``| sh``, but literals. A text that is one expression is a
    command that another person wrote, and is none of these.
    """
    parts = parse_template(text)
    if len(parts) == 1:
        return []
    return [part_source(part) for part in parts if _is_unquoted(part)]


def part_source(part: Part) -> str:
    """A part of a template as the file has it."""
    return part if isinstance(part, str) else part.source


def _is_unquoted(part: Part) -> bool:
    match part:
        case str():
            return False
        case Expression(_, alternatives, pipes) if pipes:
            return pipes[-1].name != "sh" and not _are_literals(alternatives)
        case Expression(_, alternatives, _):
            return not _are_literals(alternatives)
        case _:
            return True


def _are_literals(alternatives: tuple[Path | Literal, ...]) -> bool:
    return all(isinstance(one, Literal) for one in alternatives)


def _part_problems(part: Part) -> Iterator[str]:
    match part:
        case MalformedExpression(_, problem):
            yield problem
        case Expression(_, _, pipes):
            yield from filter(None, map(pipe_problem, pipes))


class _TooDeepError(ValueError):
    """A template with more levels than `MAX_DEPTH`; ``place`` is one beyond."""

    def __init__(self, place: str) -> None:
        self.place = place


def _texts(template: Any, place: str, levels: int) -> Iterator[tuple[str, str]]:  # noqa: ANN401
    """Every text with its place: keys behind dots, indexes in brackets."""
    if isinstance(template, str):
        if has_marks(template):
            yield place, template
    elif isinstance(template, (dict, list, tuple)):
        if not levels:
            raise _TooDeepError(place)
        for step, entry in _entries(template):
            yield from _texts(entry, f"{place}{step}" if place else step.lstrip("."), levels - 1)


def _entries(template: Any) -> Iterator[tuple[str, Any]]:  # noqa: ANN401
    if isinstance(template, dict):
        return ((f".{key}", entry) for key, entry in template.items())
    return ((f"[{index}]", entry) for index, entry in enumerate(template))


def _fill_template(template: Any, document: Document, warn: Warn, levels: int) -> Any:  # noqa: ANN401
    if isinstance(template, str):
        return _filled_text(template, document, warn) if has_marks(template) else template
    if not isinstance(template, (dict, list, tuple)):
        return template
    if not levels:
        raise ExpressionError("template", f"expected at most {MAX_DEPTH} levels, found more")
    if isinstance(template, dict):
        return {
            k: _fill_template(entry, document, warn, levels - 1) for k, entry in template.items()
        }
    return [_fill_template(entry, document, warn, levels - 1) for entry in template]


def _filled_text(text: str, document: Document, warn: Warn) -> Any:  # noqa: ANN401
    parts = parse_template(text)
    if len(parts) == 1:
        return _value(parts[0], document, warn)
    texts: list[str] = []
    room = MAX_TEXT_CHARS
    for part in parts:
        texts.append(_part_text(part, document, warn))
        room -= len(texts[-1])
        if room < 0:
            raise _too_long(part_source(part))
    return "".join(texts)


def _part_text(part: Part, document: Document, warn: Warn) -> str:
    """A part as it stands inside a longer text."""
    if isinstance(part, str):
        return part
    value = _value(part, document, warn)
    if value is None:
        warn(f"{shortened(part.source)}: there is no value, nothing stands in its place")
        return ""
    try:
        return text_of(value)
    except PipeError as error:
        raise ExpressionError(part.source, str(error), hint=VALUE_HINT) from error


def _value(part: Part, document: Document, warn: Warn) -> Any:  # noqa: ANN401
    match part:
        case str():
            return part
        case MalformedExpression(source, problem):
            raise ExpressionError(source, problem, hint=SYNTAX_HINT)
        case Input():
            return _input_value(part, document, warn)
        case Expression():
            return _expression_value(part, document, warn)


def _input_value(part: Input, document: Document, warn: Warn) -> Any:  # noqa: ANN401
    """The input, its default, or the reference itself where there is neither."""
    inputs = document.get("inputs")
    if isinstance(inputs, Mapping) and inputs.get(part.name) is not None:
        return inputs[part.name]
    if part.default is None:
        warn(f"{shortened(part.source)}: no such input, it is left as it is")
        return part.source
    return part.default


def _expression_value(part: Expression, document: Document, warn: Warn) -> Any:  # noqa: ANN401
    value = None
    for one in part.alternatives:
        value = one.value if isinstance(one, Literal) else look_up(document, one)
        if value is not None:
            break
    for call in part.pipes:
        pipe = PIPES.get(call.name)
        if pipe is None:
            warn(f"{shortened(part.source)}: {pipe_problem(call)}; the value is left as it is")
        elif value is not None or pipe.sees_none:
            try:
                value = pipe.apply(value, call.argument.value if call.argument else None)
            except PipeError as error:
                problem = f"{call.name}: {error}"
                raise ExpressionError(part.source, problem, hint=VALUE_HINT) from error
            if isinstance(value, str) and len(value) > MAX_TEXT_CHARS:
                raise _too_long(part.source)
    return value


def _too_long(source: str) -> ExpressionError:
    return ExpressionError(
        source,
        f"expected a text of at most {MAX_TEXT_CHARS} characters, found more",
        hint="hand the value over whole, as an expression of its own",
    )
