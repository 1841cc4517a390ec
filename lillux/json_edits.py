"""Edits JSON and JSON with comments in place, keeping the rest of the text.

Two dialects: `JSON` as RFC 8259 has it, and `JSONC`, which also takes comments and a comma behind
the last element. What neither takes is an error with its line and column.
"""

import json
import re
from collections.abc import Sequence
from enum import StrEnum
from typing import Any, NoReturn

from lillux.errors import LilluxError
from lillux.values import dataclass

# --- jsonc ----------------------------------------------------------------------------------------

MAX_DEPTH = 100

_STRING = re.compile(r'"(?:[^"\\\x00-\x1f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*"')
_SCALAR = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?|true|false|null", re.ASCII)
_BLANK = re.compile(r"[ \t\r\n]*")
_COMMENT = re.compile(r"//[^\r\n]*|/\*(?:[^*]|\*(?!/))*\*/")
_MAX_DIGITS = 4000  # beyond it, Python refuses to make a number


class Dialect(StrEnum):
    """What a text may hold."""

    JSON = "JSON"
    JSONC = "JSON with comments"


class TextSyntaxError(LilluxError):
    """A text is not of its format. ``line`` and ``column`` count from 1, 0 where unknown."""

    code, exit_status = "CONFIG_ERROR", 6

    def __init__(self, line: int, column: int, problem: str) -> None:
        self.line, self.column, self.problem = line, column, problem
        super().__init__(f"line {line}, column {column}: {problem}")


class TextStructureError(LilluxError):
    """A text is of its format, but has something else where an edit expects an object or table.

    ``where`` is its path, like ``mcpServers.rye``.
    """

    code, exit_status = "CONFIG_ERROR", 6

    def __init__(self, where: str, problem: str) -> None:
        self.where, self.problem = where, problem
        super().__init__(f"{where}: {problem}")


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonNode:
    """A value and its place: ``text[start:end]``. ``members`` are those of an object."""

    start: int
    end: int
    value: Any
    members: "tuple[Member, ...] | None" = None

    def find(self, name: str, where: str) -> "Member | None":
        """The member with that name. Raises TextStructureError if there are two."""
        found = [member for member in self.members or () if member.name == name]
        if len(found) > 1:
            raise TextStructureError(where, "expected it once, found it twice")
        return found[0] if found else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """A name and its value in an object; ``start`` is the name's quote.

    ``comma`` is the place of the comma behind it, or None.
    """

    name: str
    start: int
    node: JsonNode
    comma: int | None

    @property
    def end(self) -> int:
        """Behind the value, and behind the comma if there is one."""
        return self.node.end if self.comma is None else self.comma + 1


def parse(text: str, dialect: Dialect) -> JsonNode:
    """The one value of a text. Raises TextSyntaxError."""
    reader = _Reader(text, dialect)
    start = reader.skip(0)
    node = reader.value(start, 0)
    end = reader.skip(node.end)
    if end != len(text):
        reader.refuse(end, "expected the end of the file")
    return node


def is_blank(text: str, dialect: Dialect) -> bool:
    """Whether a text holds no value: blanks, and comments where the dialect has them."""
    try:
        return _Reader(text, dialect).skip(0) == len(text)
    except TextSyntaxError:
        return False


def place(text: str, position: int) -> tuple[int, int]:
    """The line and the column of a position, both counted from 1."""
    before = text[:position]
    return before.count("\n") + 1, position - (before.rfind("\n") + 1) + 1


class _Reader:
    """Reads values of one text; every method gets a position."""

    def __init__(self, text: str, dialect: Dialect) -> None:
        self._text = text
        self._dialect = dialect

    def refuse(self, position: int, problem: str) -> NoReturn:
        """Raise the error for a position."""
        found = self._text[position : position + 1]
        shown = repr(found) if found else "the end of the file"
        raise TextSyntaxError(*place(self._text, position), f"{problem}, found {shown}")

    def skip(self, position: int) -> int:
        """Where the next thing stands, behind blanks and comments."""
        text = self._text
        while True:
            position = _match_end(_BLANK, text, position)
            if text[position : position + 2] not in ("//", "/*"):
                return position
            if self._dialect is Dialect.JSON:
                self.refuse(position, "expected no comment, which this file may not have")
            comment = _COMMENT.match(text, position)
            if comment is None:
                self.refuse(len(text), "expected the end of a comment")
            position = comment.end()

    def value(self, position: int, depth: int) -> JsonNode:
        """The value at a position."""
        if depth > MAX_DEPTH:
            self.refuse(position, f"expected at most {MAX_DEPTH} levels")
        match self._text[position : position + 1]:
            case "{":
                return self._object(position, depth)
            case "[":
                return self._array(position, depth)
            case '"':
                return self._string(position)
            case _:
                return self._scalar(position)

    def _string(self, position: int) -> JsonNode:
        found = _STRING.match(self._text, position)
        if found is None:
            self.refuse(self._string_problem(position), "expected a text between quotes")
        return JsonNode(start=position, end=found.end(), value=json.loads(found.group()))

    def _string_problem(self, position: int) -> int:
        """The first place at which the text can no longer be a string."""
        inside = re.compile(_STRING.pattern[:-1])  # the same, without its closing quote
        return _match_end(inside, self._text, position)

    def _scalar(self, position: int) -> JsonNode:
        found = _SCALAR.match(self._text, position)
        if found is None:
            self.refuse(position, "expected a value")
        if len(found.group()) > _MAX_DIGITS:
            self.refuse(position, f"expected a number of at most {_MAX_DIGITS} digits")
        return JsonNode(start=position, end=found.end(), value=json.loads(found.group()))

    def _object(self, start: int, depth: int) -> JsonNode:
        members: list[Member] = []
        position = self.skip(start + 1)
        while self._goes_on(position, "}", first=not members):
            if self._text[position : position + 1] != '"':
                self.refuse(position, "expected a name between quotes or '}'")
            name = self._string(position)
            colon = self.skip(name.end)
            if self._text[colon : colon + 1] != ":":
                self.refuse(colon, "expected ':'")
            node = self.value(self.skip(colon + 1), depth + 1)
            comma, after = self._comma(node.end, "}")
            members.append(Member(name=name.value, start=position, node=node, comma=comma))
            position = after
        value = {member.name: member.node.value for member in members}
        return JsonNode(start=start, end=position + 1, value=value, members=tuple(members))

    def _array(self, start: int, depth: int) -> JsonNode:
        values: list[Any] = []
        position = self.skip(start + 1)
        while self._goes_on(position, "]", first=not values):
            node = self.value(position, depth + 1)
            _, position = self._comma(node.end, "]")
            values.append(node.value)
        return JsonNode(start=start, end=position + 1, value=values)

    def _goes_on(self, position: int, closing: str, *, first: bool) -> bool:
        if self._text[position : position + 1] != closing:
            return True
        if not first and self._dialect is Dialect.JSON:
            comma = self._text.rfind(",", 0, position)
            if not self._text[comma + 1 : position].strip(" \t\r\n") and comma >= 0:
                problem = f"expected no comma before {closing!r}, which this file may not have"
                self.refuse(comma, problem)
        return False

    def _comma(self, end: int, closing: str) -> tuple[int | None, int]:
        """The place of the comma behind a value, and where the next thing stands."""
        position = self.skip(end)
        found = self._text[position : position + 1]
        if found == ",":
            return position, self.skip(position + 1)
        if found != closing:
            self.refuse(position, f"expected ',' or {closing!r}")
        return None, position


def _match_end(pattern: re.Pattern[str], text: str, position: int) -> int:
    found = pattern.match(text, position)
    return found.end() if found else position


def dotted(path: Sequence[str]) -> str:
    """A path as an error names it."""
    return ".".join(path) or "the file"


# --- jsonc edits ----------------------------------------------------------------------------------
# Edits of JSON text that leave every other byte alone: comments, order, indentation, commas.
#
# The text that comes out says what was asked for, and nothing else differs: that is checked here
# before it is handed back.

DEFAULT_INDENT = "  "

_LINE_END = re.compile(r"(?:[ \t]|/\*(?:[^*]|\*(?!/))*\*/|//[^\r\n]*)*")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Style:
    """How a text is laid out: its newline, and one level of indentation, None on one line."""

    newline: str
    unit: str | None


def set_member(text: str, path: Sequence[str], value: Any, dialect: Dialect) -> str:  # noqa: ANN401
    """The text with ``value`` at ``path``, a member of nested objects; missing ones are made.

    A text of blanks and comments only is an empty object. Raises TextSyntaxError,
    TextStructureError.
    """
    if not text.strip(" \t\r\n"):
        text = "{}" + (text or "\n")
    elif is_blank(text, dialect):
        text = text.rstrip(" \t\r\n") + ("\r\n{}\r\n" if "\r\n" in text else "\n{}\n")
    root = parse(text, dialect)
    edited = _set(text, root, path, value)
    if parse(edited, dialect).value != _with_value(
        root.value, path, value
    ):  # pragma: no cover - held by a property test
        raise TextStructureError(dotted(path), "this layout cannot be edited")
    return edited


def remove_member(text: str, path: Sequence[str], dialect: Dialect) -> str:
    """The text without the member at ``path``, which must be there.

    Raises TextSyntaxError, TextStructureError.
    """
    root = parse(text, dialect)
    parent, member = _locate(root, path)
    if member is None:
        raise TextStructureError(dotted(path), "expected it, found nothing there")
    edited = _without(text, parent, member)
    if parse(edited, dialect).value != _without_value(root.value, path):  # pragma: no cover
        raise TextStructureError(dotted(path), "this layout cannot be edited")
    return edited


# --- the values that are expected -----------------------------------------------------------------


def _with_value(value: Any, path: Sequence[str], new: Any) -> Any:  # noqa: ANN401 - JSON
    if not path:
        return new
    inner = value.get(path[0], {}) if isinstance(value, dict) else {}
    return {**value, path[0]: _with_value(inner, path[1:], new)}


def _without_value(value: Any, path: Sequence[str]) -> Any:  # noqa: ANN401 - JSON
    rest = {name: inner for name, inner in value.items() if name != path[0]}
    if len(path) == 1:
        return rest
    return {**value, path[0]: _without_value(value[path[0]], path[1:])}


# --- set ------------------------------------------------------------------------------------------


def _set(text: str, root: JsonNode, path: Sequence[str], value: Any) -> str:  # noqa: ANN401 - JSON
    style = _style(text, root)
    node = root
    for depth, name in enumerate(path):
        _require_object(node, path[:depth])
        member = node.find(name, dotted(path[: depth + 1]))
        if member is None:
            return _insert(text, node, name, _nested(path[depth + 1 :], value), style)
        node = member.node
    if json.dumps(node.value, sort_keys=True) == json.dumps(value, sort_keys=True):
        return text  # compared as text: to Python, true is 1
    written = _json_text(value, _indent_at(text, node.start), style)
    return text[: node.start] + written + text[node.end :]


def _locate(root: JsonNode, path: Sequence[str]) -> tuple[JsonNode, Member | None]:
    parent, member = root, None
    for depth, name in enumerate(path):
        parent = member.node if member else root
        _require_object(parent, path[:depth])
        member = parent.find(name, dotted(path[: depth + 1]))
        if member is None:
            break
    return parent, member


def _require_object(node: JsonNode, path: Sequence[str]) -> None:
    if node.members is None:
        names = {list: "a list", str: "a text", bool: "true or false", type(None): "null"}
        found = names.get(type(node.value), "a number")
        raise TextStructureError(dotted(path), f"expected an object, found {found}")


def _nested(path: Sequence[str], value: Any) -> Any:  # noqa: ANN401 - JSON
    for name in reversed(path):
        value = {name: value}
    return value


def _insert(text: str, parent: JsonNode, name: str, value: Any, style: _Style) -> str:  # noqa: ANN401
    members = parent.members or ()
    if not members:
        return _insert_first(text, parent, name, value, style)
    last = members[-1]
    if not _starts_line(text, last.start):
        written = f" {_written_member(name, value, '', _on_one_line(style))}"
        if last.comma is not None:
            return text[: last.end] + written + "," + text[last.end :]
        return text[: last.end] + "," + written + text[last.end :]
    indent = _indent_at(text, last.start)
    written = style.newline + indent + _written_member(name, value, indent, style)
    below = _behind_comments(text, last.end)
    if last.comma is not None:  # the comma behind the last one is how this file is written
        return text[:below] + written + "," + text[below:]
    return text[: last.end] + "," + text[last.end : below] + written + text[below:]


def _insert_first(text: str, parent: JsonNode, name: str, value: Any, style: _Style) -> str:  # noqa: ANN401
    inside = text[parent.start + 1 : parent.end - 1]
    is_blank = not inside.strip(" \t\r\n")
    before, rest = text[: parent.start + 1], text[parent.end - 1 :]
    if style.unit is None:
        written = _written_member(name, value, "", style)
        return before + written + ("" if is_blank else inside) + rest
    outer = _indent_at(text, parent.start)
    indent = outer + style.unit
    written = style.newline + indent + _written_member(name, value, indent, style)
    return before + written + (style.newline + outer if is_blank else inside) + rest


def _written_member(name: str, value: Any, indent: str, style: _Style) -> str:  # noqa: ANN401
    return f"{json.dumps(name, ensure_ascii=False)}: {_json_text(value, indent, style)}"


def _json_text(value: Any, indent: str, style: _Style) -> str:  # noqa: ANN401 - JSON
    written = json.dumps(value, ensure_ascii=False, indent=style.unit)
    return written.replace("\n", style.newline + indent)


# --- remove ---------------------------------------------------------------------------------------


def _without(text: str, parent: JsonNode, member: Member) -> str:
    members = parent.members or ()
    index = members.index(member)
    if len(members) == 1:
        before = text[parent.start + 1 : member.start]
        after = text[member.end : parent.end - 1]
        if not (before + after).strip(" \t\r\n"):
            return text[: parent.start + 1] + text[parent.end - 1 :]
    start, end = _line_of(text, member)
    edited = text[:start] + text[end:]
    if index and member.comma is None:  # the one before is the last now
        comma = members[index - 1].comma
        return edited[:comma] + edited[(comma or 0) + 1 :]
    return edited


def _line_of(text: str, member: Member) -> tuple[int, int]:
    """What goes with a member: its own line, or the blanks beside it."""
    start = member.start - len(_blanks_before(text, member.start))
    if not _starts_line(text, member.start):
        return start, member.end
    line_break = 2 if text[:start].endswith("\r\n") else 1
    behind = len(text[member.end :]) - len(text[member.end :].lstrip(" \t"))
    if text.startswith(("\n", "\r\n"), member.end + behind):
        return start - line_break, member.end + behind
    above = text[text.rfind("\n", 0, start - line_break) + 1 : start]
    if "//" in above:  # what follows must not become a part of that comment
        return member.start, member.end
    return start - line_break, member.end


# --- layout ---------------------------------------------------------------------------------------


def _style(text: str, root: JsonNode) -> _Style:
    newline = "\r\n" if "\r\n" in text else "\n"
    if not root.members:
        return _Style(newline=newline, unit=DEFAULT_INDENT)
    first = root.members[0].start
    if not _starts_line(text, first):
        return _Style(newline=newline, unit=None)
    own = _indent_at(text, root.start)
    indent = _indent_at(text, first)
    return _Style(newline=newline, unit=indent.removeprefix(own) or DEFAULT_INDENT)


def _on_one_line(style: _Style) -> _Style:
    return _Style(newline=style.newline, unit=None)


def _indent_at(text: str, position: int) -> str:
    """The blanks that the line of a position begins with."""
    line = text[text.rfind("\n", 0, position) + 1 : position]
    return line[: len(line) - len(line.lstrip(" \t"))]


def _blanks_before(text: str, position: int) -> str:
    before = text[:position]
    return before[len(before.rstrip(" \t")) :]


def _starts_line(text: str, position: int) -> bool:
    return text[: position - len(_blanks_before(text, position))].endswith("\n")


def _behind_comments(text: str, position: int) -> int:
    """The end of the line, with the comments on it; or where something else stands before."""
    found = _LINE_END.match(text, position)
    end = found.end() if found else position
    return end if text[end : end + 1] in ("\r", "\n", "") else position
