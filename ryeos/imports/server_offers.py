"""Offers of a server, tool by tool, as texts of items.

Pure: nothing that it says is believed. Its words are data: names become names of files by
`item_names`, descriptions are one line of bounded length, schemas must be ones that values can be
judged by.
"""

from collections.abc import Iterator, Mapping, Sequence
from math import isfinite
from typing import Any

from lillux.errors import LilluxError
from lillux.foreign_text import one_line
from lillux.schema_keywords import SchemaError
from lillux.schema_repair import readable_schema
from lillux.values import dataclass, field
from lillux.wording import describe_value
from ryeos.imports.server_items import FIRST_VERSION, SERVER_FOLDER, generated, item_names

MAX_DESCRIPTION_CHARACTERS = 1000
MAX_TEXT_BYTES = 256 * 1024
MAX_NAME_CHARACTERS = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerTool:
    """A tool of a server. ``problem`` says why it cannot be an item, ``""`` where it can.

    ``notes`` name the parts of its schema that are left out, as they cannot be read.
    """

    tool: str
    item_id: str = ""
    values: Mapping[str, Any] = field(default_factory=dict, repr=False)
    problem: str = ""
    notes: tuple[str, ...] = ()

    def text(self, version: str = FIRST_VERSION) -> str:
        """The item's text."""
        return generated(
            "Written by rye mcp from what the server says; once you edit it, it is left alone.",
            {"version": version, **self.values},
        )


def offered_tools(
    server: str, runtime: str, tools: Sequence[Mapping[str, Any]]
) -> Iterator[ServerTool]:
    """The tools that a server has listed, of two with one name the first."""
    named: dict[str, Mapping[str, Any]] = {}
    for tool in tools:
        name = tool.get("name")
        if not isinstance(name, str) or not 0 < len(name) <= MAX_NAME_CHARACTERS:
            shown = repr(name)[:80]
            yield ServerTool(
                tool=shown, problem=f"name: expected 1 to {MAX_NAME_CHARACTERS} characters"
            )
        elif name in named:
            yield ServerTool(tool=name, problem="name: another tool of the server has it too")
        else:
            named[name] = tool
    names = item_names(list(named))
    for name, tool in named.items():
        yield _offer(server, runtime, f"mcp/{server}/{names[name]}", tool)


def _offer(server: str, runtime: str, item_id: str, tool: Mapping[str, Any]) -> ServerTool:
    name = tool["name"]
    try:
        schema, notes = _usable_schema(tool.get("inputSchema"))
    except (LilluxError, RecursionError) as error:
        return ServerTool(tool=name, item_id=item_id, problem=f"inputSchema: {str(error)[:300]}")
    said_elsewhere = _SAID_ELSEWHERE[:-1] if notes else _SAID_ELSEWHERE
    values = {
        "tool_type": "mcp",
        "executor_id": runtime,
        "category": f"mcp/{server}",
        "description": _description(tool) or f"{_one_line(name)} of the server {server}",
        "config": {
            "server": f"{SERVER_FOLDER}/{server}",
            "tool_name": name,
            **_other_fields(tool, said_elsewhere),
        },
        "input_schema": schema,
    }
    offer = ServerTool(tool=name, item_id=item_id, values=values, notes=notes)
    try:
        size = len(offer.text().encode("utf-8", "replace"))
    except (ValueError, RecursionError) as error:
        return ServerTool(tool=name, item_id=item_id, problem=str(error))
    if size > MAX_TEXT_BYTES:
        found = f"expected an item of at most {MAX_TEXT_BYTES} bytes, found {size}"
        return ServerTool(tool=name, item_id=item_id, problem=found)
    return offer


def _usable_schema(schema: object) -> tuple[dict[str, Any], tuple[str, ...]]:
    """The schema as far as it can be read, and what is left out of it. Raises SchemaError."""
    if schema is None or schema is True:
        return {"type": "object"}, ()
    if not isinstance(schema, dict):
        raise SchemaError("", f"expected an object, found {describe_value(schema)}")
    kind = schema.get("type", "object")
    if kind is None or (isinstance(kind, list) and "object" in kind):
        schema = {**schema, "type": "object"}
    elif kind != "object":
        raise SchemaError("", "expected the type object")
    usable, left_out = readable_schema(schema)
    notes = (f"inputSchema{one.pointer}: left out: {one.problem}" for one in left_out)
    return usable, tuple(one_line(note, 300) for note in notes)


def _description(tool: Mapping[str, Any]) -> str:
    text = tool.get("description") or tool.get("title")
    return _one_line(text) if isinstance(text, str) else ""


def _other_fields(tool: Mapping[str, Any], said_elsewhere: Sequence[str]) -> dict[str, Any]:
    """Other words of a server on a tool, for a person who compares them with later ones."""
    kept = {key: _plain(tool[key], 8) for key in sorted(tool) if key not in said_elsewhere}
    return {"listed": kept} if kept else {}


_SAID_ELSEWHERE = ("name", "description", "inputSchema")


def _plain(value: object, depth: int) -> object:
    """JSON with each text on one line of bounded length."""
    if isinstance(value, str):
        return _one_line(value)
    if isinstance(value, float) and not isfinite(value):
        return str(value)
    if depth and isinstance(value, Mapping):
        return {_one_line(str(key)): _plain(one, depth - 1) for key, one in value.items()}
    if depth and isinstance(value, list):
        return [_plain(one, depth - 1) for one in value]
    return "…" if isinstance(value, Mapping | list) else value


def _one_line(text: str) -> str:
    return one_line(text, MAX_DESCRIPTION_CHARACTERS)
