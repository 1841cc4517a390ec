"""Edits of one table in TOML text that leave every other byte alone.

A table under its own ``[header]`` is edited; one written inline or with dotted keys is refused, as
is any text whose values would not come out as expected: that is checked before it is handed back.
"""

import json
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from lillux.json_edits import TextStructureError, TextSyntaxError, dotted
from lillux.values import dataclass

_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+", re.ASCII)
_PLACE = re.compile(r"(.*) \(at (?:line (\d+), column (\d+)|end of document)\)", re.DOTALL)
_NOT_A_STATEMENT = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")
# A string of each of the four kinds, the long ones first. Of a long one, the quotes at its end may
# be up to five: two of them belong to the text.
_STRING = re.compile(
    r"""
      \"{3} (?: [^\\] | \\. )*? "{3,5} (?!")
    | \'{3} .*? '{3,5} (?!')
    | " (?: [^"\\\n] | \\. )* "
    | ' [^'\n]* '
    """,
    re.DOTALL | re.VERBOSE,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Statement:
    """A header or a key with its value. ``path`` is that of a header, or of a key below it.

    ``start`` is where its line begins, ``value`` where the value stands (0 of a header), ``end``
    where it ends, without what follows on the line.
    """

    path: tuple[str, ...]
    is_header: bool
    start: int
    value: int
    end: int


def parse_toml(text: str) -> dict[str, Any]:
    """The values of a TOML text. Raises TextSyntaxError."""
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        found = _PLACE.fullmatch(str(error))
        problem = found[1] if found else str(error)
        if found and found[2]:
            line, column = int(found[2]), int(found[3])
        else:
            line, column = text.count("\n") + 1, len(text) - (text.rfind("\n") + 1) + 1
        raise TextSyntaxError(line, column, problem[:1].lower() + problem[1:]) from None
    except RecursionError:
        raise TextSyntaxError(0, 0, "expected fewer levels") from None


def set_table(text: str, path: Sequence[str], values: Mapping[str, Any]) -> str:
    """The text with these values in the table at ``path``; its other keys stay as they are.

    A table that is not there is written at the end. Raises TextSyntaxError, TextStructureError.
    """
    document = parse_toml(text)
    table = _table(document, path)
    if table is None:
        edited = _append(text, path, values)
    else:
        edited = text
        for key, value in values.items():
            if key not in table or write_value(table[key]) != write_value(value):
                edited = _set_key(edited, tuple(path), key, value, is_there=key in table)
    _require(edited, _merged(document, path, values), path)
    return edited


def remove_table(text: str, path: Sequence[str]) -> str:
    """The text without the table at ``path`` and those below it. The table must be there.

    Raises TextSyntaxError, TextStructureError.
    """
    document = parse_toml(text)
    if _table(document, path) is None:
        raise TextStructureError(dotted(path), "expected it, found nothing there")
    edited = text
    for start, end in reversed(list(_sections(text, tuple(path)))):
        edited = edited[:start] + edited[end:]
    _require(edited, _removed(document, path), path)
    return edited


def write_value(value: Any) -> str:  # noqa: ANN401 - what a configuration holds
    """A value as TOML writes it, on one line."""
    match value:
        case bool():
            return "true" if value else "false"
        case str():
            return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
        case Mapping():
            pairs = (f"{_written_key(key)} = {write_value(inner)}" for key, inner in value.items())
            return f"{{ {', '.join(pairs)} }}" if value else "{}"
        case list() | tuple():
            return f"[{', '.join(map(write_value, value))}]"
        case _:
            return str(value)


def write_table(path: Sequence[str], values: Mapping[str, Any], newline: str = "\n") -> str:
    """A table with its header."""
    header = f"[{'.'.join(map(_written_key, path))}]"
    lines = (f"{_written_key(key)} = {write_value(value)}" for key, value in values.items())
    return "".join(line + newline for line in (header, *lines))


def _written_key(key: str) -> str:
    return key if _BARE_KEY.fullmatch(key) else write_value(key)


# --- the values that are expected -----------------------------------------------------------------


def _table(document: Mapping[str, Any], path: Sequence[str]) -> Mapping[str, Any] | None:
    found: Any = document
    for depth, name in enumerate(path):
        found = found.get(name)
        if found is None:
            return None
        if not isinstance(found, dict):
            raise TextStructureError(dotted(path[: depth + 1]), "expected a table")
    table: Mapping[str, Any] = found
    return table


def _merged(document: Mapping[str, Any], path: Sequence[str], values: Mapping[str, Any]) -> Any:  # noqa: ANN401
    if not path:
        return {**document, **values}
    return {**document, path[0]: _merged(document.get(path[0], {}), path[1:], values)}


def _removed(document: Mapping[str, Any], path: Sequence[str]) -> dict[str, Any]:
    """The values without those at a path, and without what became empty above it."""
    rest = {key: value for key, value in document.items() if key != path[0]}
    if len(path) > 1 and path[0] in document:
        inner = _removed(document[path[0]], path[1:])
        return {**rest, path[0]: inner} if inner else rest
    return rest


def _require(edited: str, expected: Any, path: Sequence[str]) -> None:  # noqa: ANN401
    try:
        found: Any = parse_toml(edited)
    except TextSyntaxError:
        found = None
    if found is None or (found != expected and _removed(found, path) != expected):
        problem = "expected a table under its own header, found one in another form"
        raise TextStructureError(dotted(path), problem)


# --- the text -------------------------------------------------------------------------------------


def _append(text: str, path: Sequence[str], values: Mapping[str, Any]) -> str:
    newline = _newline(text)
    end = "" if not text or text.endswith("\n") else newline
    blank = newline if text else ""
    return text + end + blank + write_table(path, values, newline)


def _set_key(text: str, path: tuple[str, ...], key: str, value: Any, *, is_there: bool) -> str:  # noqa: ANN401
    section = _section(text, path)
    if not section:
        raise TextStructureError(
            dotted(path), "expected a table under its own header, found one in another form"
        )
    written = write_value(value)
    for statement in section:
        if statement.path == (key,) and not statement.is_header:
            return text[: statement.value] + written + text[statement.end :]
    if is_there:
        raise TextStructureError(dotted((*path, key)), "expected a value, found a table")
    line = _line_end(text, section[-1].end)
    newline = _newline(text)
    indent = text[section[-1].start : section[-1].end]
    indent = indent[: len(indent) - len(indent.lstrip(" \t"))]
    before = text[:line] if text[:line].endswith("\n") else text[:line] + newline
    return f"{before}{indent}{_written_key(key)} = {written}{newline}{text[line:]}"


def _section(text: str, path: tuple[str, ...]) -> list[_Statement]:
    """The header of a table and the keys below it; nothing if it has no header."""
    found: list[_Statement] = []
    for statement in _statements(text):
        if statement.is_header and found:
            break
        if found or (statement.is_header and statement.path == path):
            found.append(statement)
    return found


def _sections(text: str, path: tuple[str, ...]) -> Iterator[tuple[int, int]]:
    """From where to where the table reaches, and those below it, each with a blank line before."""
    start, end, inside = 0, 0, False
    for statement in _statements(text):
        if statement.is_header:
            if inside:
                yield start, end
            inside = statement.path[: len(path)] == path
            start = _with_blank_line(text, statement.start)
        end = _line_end(text, statement.end)
    if inside:
        yield start, end


def _with_blank_line(text: str, start: int) -> int:
    for blank in ("\r\n", "\n"):
        if text[:start].endswith("\n" + blank):
            return start - len(blank)
    return start


def _line_end(text: str, position: int) -> int:
    """Behind the newline of the line at a position."""
    found = text.find("\n", position)
    return len(text) if found < 0 else found + 1


def _newline(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"


def _statements(text: str) -> Iterator[_Statement]:
    """Every header and every key of a text that is TOML, in order."""
    position = _matched(_NOT_A_STATEMENT, text, 0)
    while position < len(text):
        start = text.rfind("\n", 0, position) + 1
        if text[position] == "[":
            end = _skip(text, position)
            path = _first_path(tomllib.loads(text[position:end]))
            yield _Statement(path=path, is_header=True, start=start, value=0, end=end)
        else:
            equals = _skip_key(text, position)
            value = _matched(re.compile(r"[ \t]*"), text, equals + 1)
            end = _skip(text, value)
            path = _first_path(tomllib.loads(f"{text[position:equals]} = 0"))
            yield _Statement(path=path, is_header=False, start=start, value=value, end=end)
        position = _matched(_NOT_A_STATEMENT, text, end)


def _first_path(document: Any) -> tuple[str, ...]:  # noqa: ANN401 - nested tables
    """The names down to the innermost value of a document with one statement."""
    path: list[str] = []
    while isinstance(document, dict | list) and document:
        if isinstance(document, list):
            document = document[0]
            continue
        name = next(iter(document))
        path.append(name)
        document = document[name]
    return tuple(path)


def _skip_key(text: str, position: int) -> int:
    """Where the ``=`` of a key stands."""
    while text[position] != "=":
        found = _STRING.match(text, position)
        position = found.end() if found else position + 1
    return position


def _skip(text: str, position: int) -> int:
    """The end of a value or a header: every bracket is closed, and the line ends."""
    depth, end = 0, position
    while position < len(text):
        found = _STRING.match(text, position)
        if found:
            position = end = found.end()
            continue
        character = text[position]
        if character == "#":
            if not depth:
                break
            position = text.find("\n", position)
            continue
        if character == "\n" and not depth:
            break
        depth += (character in "[{") - (character in "]}")
        position += 1
        if not character.isspace():
            end = position
    return end


def _matched(pattern: re.Pattern[str], text: str, position: int) -> int:
    found = pattern.match(text, position)
    return found.end() if found else position
