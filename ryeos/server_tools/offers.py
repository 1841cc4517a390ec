"""What a server offers, tool by tool, as texts of items. Pure: nothing that it says is believed.

Its words are data: names become names of files by `names`, descriptions are one line of bounded
length, schemas must be ones that values can be judged by.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from lillux.errors import LilluxError
from lillux.schema import check_schema
from lillux.values import dataclass, field
from ryeos.server_tools.documents import FIRST_VERSION, generated
from ryeos.server_tools.names import SERVER_FOLDER, item_names

MAX_DESCRIPTION_CHARACTERS = 1000
MAX_TEXT_BYTES = 256 * 1024
MAX_NAME_CHARACTERS = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """A tool of a server. ``problem`` says why it cannot be an item, ``""`` where it can."""

    tool: str
    item_id: str = ""
    values: Mapping[str, Any] = field(default_factory=dict, repr=False)
    problem: str = ""

    def text(self, version: str = FIRST_VERSION) -> str:
        """The item's text."""
        return generated(
            "Written by rye mcp from what the server says; once you edit it, it is left alone.",
            {"version": version, **self.values},
        )


def offers(server: str, runtime: str, tools: Sequence[Mapping[str, Any]]) -> Iterator[Offer]:
    """The tools that a server has listed, of two with one name the first."""
    named: dict[str, Mapping[str, Any]] = {}
    for tool in tools:
        name = tool.get("name")
        if not isinstance(name, str) or not 0 < len(name) <= MAX_NAME_CHARACTERS:
            shown = repr(name)[:80]
            yield Offer(tool=shown, problem=f"name: expected 1 to {MAX_NAME_CHARACTERS} characters")
        elif name in named:
            yield Offer(tool=name, problem="name: another tool of the server has it too")
        else:
            named[name] = tool
    names = item_names(list(named))
    for name, tool in named.items():
        yield _offer(server, runtime, f"mcp/{server}/{names[name]}", tool)


def _offer(server: str, runtime: str, item_id: str, tool: Mapping[str, Any]) -> Offer:
    name, schema = tool["name"], tool.get("inputSchema", {"type": "object"})
    problem = _schema_problem(schema)
    if problem:
        return Offer(tool=name, item_id=item_id, problem=f"inputSchema: {problem}")
    values = {
        "tool_type": "mcp",
        "executor_id": runtime,
        "category": f"mcp/{server}",
        "description": _description(tool) or f"{_one_line(name)} of the server {server}",
        "config": {"server": f"{SERVER_FOLDER}/{server}", "tool_name": name},
        "input_schema": schema,
    }
    offer = Offer(tool=name, item_id=item_id, values=values)
    try:
        size = len(offer.text().encode("utf-8", "replace"))
    except (ValueError, RecursionError) as error:
        return Offer(tool=name, item_id=item_id, problem=str(error))
    if size > MAX_TEXT_BYTES:
        found = f"expected an item of at most {MAX_TEXT_BYTES} bytes, found {size}"
        return Offer(tool=name, item_id=item_id, problem=found)
    return offer


def _schema_problem(schema: object) -> str:
    if not isinstance(schema, Mapping):
        return f"expected an object, found {type(schema).__name__}"
    if schema.get("type", "object") != "object":
        return "expected the type object"
    try:
        check_schema(schema)
    except (LilluxError, RecursionError) as error:
        return str(error)[:300]
    return ""


def _description(tool: Mapping[str, Any]) -> str:
    text = tool.get("description") or tool.get("title")
    return _one_line(text) if isinstance(text, str) else ""


def _one_line(text: str) -> str:
    words = " ".join(text.split())
    plain = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in words)
    if len(plain) <= MAX_DESCRIPTION_CHARACTERS:
        return plain
    return f"{plain[: MAX_DESCRIPTION_CHARACTERS - 1]}…"
