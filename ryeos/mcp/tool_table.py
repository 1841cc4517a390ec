"""The six tools as clients see them: names, texts, parameters, hints. Data, and how it is sent.

Schemas use ``type``, ``enum``, ``description``, ``default`` and ``required`` only: clients refuse
anything cleverer, and one refused tool ends a session. ``docs/reference/mcp-tools.md`` is written
from this table.
"""

from collections.abc import Mapping
from typing import Any

from lillux.values import dataclass
from ryeos.mcp.parameters import FETCH, HELP, LOAD, SEARCH, SIGN, Parameter
from ryeos.mcp.parameters_of_execute import EXECUTE

MAX_DESCRIPTION_CHARACTERS = 1200
MAX_LIST_BYTES = 9000
# What a client may do with the names that other documents use for our tools.
ALIAS_PREFIXES = ("mcp__rye__", "rye_")

OUTPUT_SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        "status": {"type": "string"},
        "error": {"type": "string"},
        "code": {"type": "string"},
    },
    "required": ["status"],
}
PROFILES: Mapping[str, tuple[str, ...]] = {
    "five": ("search", "load", "execute", "sign", "help"),
    "node": ("fetch", "execute", "sign"),
    "all": ("search", "load", "fetch", "execute", "sign", "help"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """A tool: its texts, its parameters in order, and what a client may assume about it."""

    name: str
    title: str
    description: str
    parameters: tuple[Parameter, ...]
    read_only: bool = False
    destructive: bool = False
    idempotent: bool = True
    open_world: bool = False
    meta: Mapping[str, Any] | None = None

    def describe(self) -> dict[str, Any]:
        """The entry of ``tools/list``."""
        entry: dict[str, Any] = {
            "name": self.name,
            "title": self.title,
            "description": self.description,
            "inputSchema": self.input_schema(),
            "outputSchema": OUTPUT_SCHEMA,
            "annotations": {
                "readOnlyHint": self.read_only,
                "destructiveHint": self.destructive,
                "idempotentHint": self.idempotent,
                "openWorldHint": self.open_world,
            },
        }
        return entry | ({"_meta": dict(self.meta)} if self.meta else {})

    def input_schema(self) -> dict[str, Any]:
        """What the tool takes, flat."""
        return {
            "type": "object",
            "properties": {one.name: one.schema() for one in self.parameters},
            "required": [one.name for one in self.parameters if one.required],
            "additionalProperties": False,
        }


_TOOLS = (
    Tool(
        name="search",
        title="Search items",
        description=(
            "Find tools, directives and knowledge by words; start here when you do not know an id."
            " Gives id, type, description, score and a preview for each hit, best first."
            ' Words side by side must all occur; OR, NOT, -word, "phrases", (groups), wild*cards'
            " and field:word (title, name, id, description, category, tags, content, or any"
            " metadata key) work. An empty query lists everything in scope."
            " Then call load to read a hit, or execute to run it."
        ),
        parameters=SEARCH,
        read_only=True,
    ),
    Tool(
        name="load",
        title="Load or copy an item",
        description=(
            "Read one item: its verified text, metadata and input schema. With destination it is"
            " also copied, byte for byte, to the project or user space, to be changed there"
            " (sign it after a change). Long texts: follow next_offset."
        ),
        parameters=LOAD,
    ),
    Tool(
        name="fetch",
        title="Fetch items",
        description=(
            "Load and search in one tool: with item_id it loads that item, with query (or scope"
            " alone) it searches. Give one of the two."
        ),
        parameters=FETCH,
    ),
    Tool(
        name="execute",
        title="Execute an item",
        description=(
            "Run a tool, render a directive into directions for you to carry out, or read"
            " knowledge. Every file involved is verified first; parameters are checked against the"
            " item's schema and all problems told at once (load shows the schema)."
            " With dry_run everything is checked and nothing runs."
        ),
        parameters=EXECUTE,
        destructive=True,
        idempotent=False,
        open_world=True,
        meta={"anthropic/maxResultSizeChars": 200000},
    ),
    Tool(
        name="sign",
        title="Validate and sign",
        description=(
            "Validate an item of the project or user space and sign it with the user's key, so that"
            " it may run. Needed after each change. item_id may be a pattern: tool:mine/* for the"
            " items of a folder, tool:mine/** for all below it. With dry_run nothing is written."
        ),
        parameters=SIGN,
    ),
    Tool(
        name="help",
        title="Help",
        description=(
            "How Rye works: topics, one item's inputs (topic item:tool:a/b), one error code"
            " (topic error:UNSIGNED). Without a topic: what is set up here, and what to do next."
        ),
        parameters=HELP,
        read_only=True,
    ),
)
TOOLS: Mapping[str, Tool] = {tool.name: tool for tool in _TOOLS}


def tool_named(name: str) -> Tool | None:
    """The tool of this name or alias, listed or not."""
    for prefix in ALIAS_PREFIXES:
        name = name.removeprefix(prefix) if name not in TOOLS else name
    return TOOLS.get(name)


def listed(profile: str) -> list[dict[str, Any]]:
    """The entries of ``tools/list`` for a profile. Raises KeyError for none of `PROFILES`."""
    return [TOOLS[name].describe() for name in PROFILES[profile]]
