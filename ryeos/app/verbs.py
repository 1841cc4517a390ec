"""The table of verbs: names, texts, parameters and hints of the tools.

`answer` turns what goes wrong into an answer as well; the functions of the modules raise it.
"""

from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

from lillux.errors import LilluxError
from lillux.values import dataclass
from ryeos.app.parameters import EXECUTE, FETCH, HELP, LOAD, SEARCH, SIGN, VERBOSE, Parameter
from ryeos.app.progress import CallContext, StepProgress
from ryeos.items.errors import Answer, error_answer

if TYPE_CHECKING:
    from ryeos.app.workspace import Rye


# Those that may take a while: they tell how far they are, and can be cancelled.
LASTING = frozenset({"sign"})
READERS: Mapping[str, str] = {
    "search": "search",
    "load": "load",
    "fetch": "search",
    "sign": "sign",
    "help": "help",
}
"""Verb -> the module of this folder that has a function of that name."""


def answer(
    rye: "Rye", name: str, arguments: Mapping[str, object], calling: CallContext | None = None
) -> Answer:
    """The answer of one of `READERS`, also for what it refuses."""
    module = import_module(f"ryeos.app.{READERS[name]}")
    lasting: dict[str, Any] = {}
    if calling and name in LASTING:
        progress = StepProgress(calling.progress)
        lasting = {"on_progress": progress.step, "cancellation": calling.cancellation}
    try:
        found: Answer = getattr(module, name)(rye, arguments, **lasting)
    except LilluxError as error:
        return refused(error, arguments)
    return found


def refused(error: LilluxError, arguments: Mapping[str, object]) -> Answer:
    """The answer of one of `READERS` that fails, with the item that it was about."""
    answer = error_answer(error)
    item_id = arguments.get("item_id")
    named = {"item_id": item_id} if isinstance(item_id, str) else {}
    return Answer(named | dict(answer.envelope), answer.exit_status)


# The six tools as clients see them: names, texts, parameters, hints. Data, and how it is sent.
#
# Schemas use ``type``, ``enum``, ``description``, ``default`` and ``required`` only: clients refuse
# anything cleverer, and one refused tool ends a session. ``docs/reference/mcp-tools.md`` is written
# from this table.

MAX_DESCRIPTION_CHARACTERS = 1200
MAX_LIST_BYTES = 5000
OPTIONS = "options"
# What a client may do with the names that other documents use for our tools.
ALIAS_PREFIXES = ("mcp__rye__", "rye_")

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
            "annotations": self._annotations(),
        }
        return entry | ({"_meta": dict(self.meta)} if self.meta else {})

    def _annotations(self) -> dict[str, bool]:
        """The hints that differ from the protocol's defaults."""
        if self.read_only:
            return {"readOnlyHint": True, "openWorldHint": False}
        hints = {
            "destructiveHint": (self.destructive, True),
            "idempotentHint": (self.idempotent, False),
            "openWorldHint": (self.open_world, True),
        }
        return {name: value for name, (value, usual) in hints.items() if value is not usual}

    def input_schema(self) -> dict[str, Any]:
        """The JSON Schema of the arguments. Rare ones are named in ``options``."""
        listed = [one for one in self.parameters if not one.is_rare]
        rare = ", ".join(one.name for one in self.parameters if one.is_rare)
        properties = {one.name: one.schema() for one in listed}
        if rare and rare != VERBOSE.name:  # alone it is not worth its bytes
            about = f"Rare: {rare}; see help {self.name}"
            properties[OPTIONS] = {"type": "object", "description": about}
        required = [one.name for one in self.parameters if one.required]
        return {
            "type": "object",
            "properties": properties,
            **({"required": required} if required else {}),
            "additionalProperties": False,
        }


EVERYDAY_TOOLS = (
    "rye/bash/bash(command, cwd?), rye/file-system/read(path, offset?, limit?), write(path,"
    " content), edit_lines(path, edits: [{old_text, new_text}]), grep(pattern, path?),"
    " glob(pattern), ls(path?)"
)
_TOOLS = (
    Tool(
        name="search",
        title="Search items",
        description=(
            "Find tools, directives and knowledge by words; start here when you do not know an id."
            ' All words must occur; OR, NOT, -word, "phrases", wild*cards and field:word work.'
            " An empty query lists all items of the scope."
        ),
        parameters=SEARCH,
        read_only=True,
    ),
    Tool(
        name="load",
        title="Load or copy an item",
        description=(
            "Read one item: a tool's description and input schema (text: its text too),"
            " else the text. With destination it is also copied there, to be changed."
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
            " knowledge. Every file involved is verified first. Everyday tools:"
            f" {EVERYDAY_TOOLS}."
        ),
        parameters=EXECUTE,
        destructive=True,
        idempotent=False,
        open_world=True,
    ),
    Tool(
        name="sign",
        title="Validate and sign",
        description=(
            "Validate an item of the project or user space and sign it with the user's key, so that"
            " it may run; needed after each change. tool:mine/** means all items below a folder."
        ),
        parameters=SIGN,
    ),
    Tool(
        name="help",
        title="Help",
        description=(
            "How Rye works. Without a topic: what is set up here, and what to do next. To write an"
            " item: help template:python (bash, http, mcp, directive, knowledge, graph), write the"
            " file, sign it, execute it."
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


class ToolArguments(dict[str, Any]):
    """The arguments of a call of ``tool``, read once: with defaults, of the types of its table.

    ``given`` is what the caller said, for a call that goes on with the same.
    """

    __slots__ = ("given", "tool")

    def __init__(self, tool: Tool, given: Mapping[str, object], values: Mapping[str, Any]) -> None:
        super().__init__(values)
        self.tool = tool
        self.given = given
