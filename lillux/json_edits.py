"""Edits of JSON text that leave every other byte alone: comments, order, commas.

The text that comes out says what was asked for, and nothing else differs: that is checked here
before it is handed back.
"""

import json
import re
from collections.abc import Sequence
from typing import Any

from lillux.jsonc import Dialect, JsonNode, Member, TextStructureError, dotted, is_blank, parse
from lillux.values import dataclass

DEFAULT_INDENT = "  "

_LINE_END = re.compile(r"(?:[ \t]|/\*(?:[^*]|\*(?!/))*\*/|//[^\r\n]*)*")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Style:
    """Layout of a text: its newline, and one level of indentation, None on one line."""

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
    """Text that goes with a member: its own line, or the blanks beside it."""
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
