"""JSON, and JSON with comments, as a tree of nodes with their places in the text.

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

MAX_DEPTH = 100

_STRING = re.compile(r'"(?:[^"\\\x00-\x1f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*"')
_SCALAR = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?|true|false|null", re.ASCII)
_BLANK = re.compile(r"[ \t\r\n]*")
_COMMENT = re.compile(r"//[^\r\n]*|/\*(?:[^*]|\*(?!/))*\*/")
_MAX_DIGITS = 4000  # beyond it, Python refuses to make a number


class Dialect(StrEnum):
    """Syntax that a text may hold."""

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
    """True if a text holds no value: blanks, and comments where the dialect has them."""
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
        """Offset of the next token, behind blanks and comments."""
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
