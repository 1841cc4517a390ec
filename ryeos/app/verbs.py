"""The table of verbs with their arguments, and how arguments are validated.

`answer` turns what goes wrong into an answer as well; the functions of the modules raise it.
"""

import json
from collections.abc import Iterable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

from lillux.errors import LilluxError
from lillux.values import dataclass
from ryeos.app.progress import CallContext, StepProgress
from ryeos.items.errors import Answer, VerbArgumentError, error_answer
from ryeos.items.refs import (
    EXECUTABLE_KINDS,
    PROJECT,
    SYSTEM,
    USER,
    Kind,
    Reference,
    parse_reference,
)
from ryeos.items.specs import type_name

if TYPE_CHECKING:
    from ryeos.app.workspace import Rye

# --- tools ----------------------------------------------------------------------------------------

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


# --- parameters -----------------------------------------------------------------------------------
# What each tool takes, as rows. Data; `execute` has a page of its own.

ABSENT: Any = object()


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """One argument of a tool.

    type              ``string``, ``integer``, ``boolean``, ``object`` or ``array``
    minimum, maximum  of an integer; checked here, and in the text only
    is_rare           it is listed by name alone, as a key of ``options``: a model pays for schemas
    """

    name: str
    type: str
    description: str
    enum: tuple[str, ...] = ()
    default: Any = ABSENT
    required: bool = False
    minimum: int | None = None
    maximum: int | None = None
    is_rare: bool = False

    def schema(self) -> dict[str, Any]:
        """The property as it is sent."""
        rules: dict[str, Any] = {"type": self.type, "description": self.description}
        if self.enum:
            rules["enum"] = list(self.enum)
        return rules if self.default is ABSENT else rules | {"default": self.default}


def _text(name: str, description: str, **rules: Any) -> Parameter:  # noqa: ANN401 - of Parameter
    return Parameter(name=name, type="string", description=description, **rules)


def _flag(name: str, description: str, **rules: Any) -> Parameter:  # noqa: ANN401 - of Parameter
    return Parameter(name=name, type="boolean", description=description, default=False, **rules)


def _number(name: str, description: str, **rules: Any) -> Parameter:  # noqa: ANN401 - of Parameter
    return Parameter(name=name, type="integer", description=description, **rules)


def _object_parameter(name: str, description: str, **rules: Any) -> Parameter:  # noqa: ANN401 - of Parameter
    return Parameter(name=name, type="object", description=description, **rules)


REGISTRY, LOCAL, ALL = "registry", "local", "all"
THREAD_ADDRESS = "rye://thread/"
"""Before the id of a thread: the address of its transcript."""
RUNNABLE = (Kind.DIRECTIVE.value, Kind.TOOL.value, Kind.KNOWLEDGE.value)
DEFAULT_WINDOW = 60_000

ITEM_ID = _text("item_id", "tool:a/b, or a/b", required=True)
PROJECT_PATH = _text("project_path", "Project folder", is_rare=True)
VERBOSE = _flag("verbose", "Also chain, hashes, timings, paths", is_rare=True)
_OVERWRITE = _flag("overwrite", "Replace another file there")
_OFFSET_OF_TEXT = _number("offset", "First character", default=0, minimum=0)

SEARCH = (
    _text("query", "Words; empty for everything", default=""),
    _text("item_type", "Kind of item", enum=(*RUNNABLE, ALL), default=ALL),
    _text("scope", "Only below, like tool.rye.core.*"),
    PROJECT_PATH,
    _text(
        "source",
        "Spaces to look in",
        enum=(PROJECT, USER, SYSTEM, LOCAL, REGISTRY, ALL),
        default=ALL,
        is_rare=True,
    ),
    _number("limit", "Hits, 1 to 100", default=10, minimum=1, maximum=100),
    _number("offset", "Hits to skip", default=0, minimum=0),
    _text("sort_by", "Order", enum=("score", "date", "name"), default="score", is_rare=True),
    _object_parameter("fields", "Field to query", is_rare=True),
    _object_parameter(
        "filters", "Metadata, like version: >=1.2, author: !bob, signed: true", is_rare=True
    ),
    _object_parameter("fuzzy", "Allow slips: enabled, max_distance 0 to 2", is_rare=True),
    _object_parameter("proximity", "Words close by: enabled, max_distance", is_rare=True),
    VERBOSE,
)
LOAD = (
    ITEM_ID,
    _text("item_type", "Kind of item", enum=RUNNABLE),
    PROJECT_PATH,
    _text(
        "source",
        "First space to look in",
        enum=(PROJECT, USER, SYSTEM, REGISTRY),
        is_rare=True,
    ),
    _text("destination", "Copy it to this space", enum=(PROJECT, USER)),
    _text("version", "Of a registry's item", is_rare=True),
    _flag("text", "Also the text of a tool"),
    _OVERWRITE,
    _flag("include_siblings", "Also copy files the tool imports", is_rare=True),
    _OFFSET_OF_TEXT,
    _number(
        "max_chars",
        "Characters",
        default=DEFAULT_WINDOW,
        minimum=1,
        maximum=1_000_000,
        is_rare=True,
    ),
    VERBOSE,
)
SIGN = (
    _text("item_id", "Item or pattern", required=True),
    _text("content", "Its text: written first, with folders; a prior text is kept"),
    _object_parameter("try_parameters", "Then run it with these"),
    _text("item_type", "Kind of item", enum=(*RUNNABLE, Kind.CONFIG.value)),
    PROJECT_PATH,
    _text(
        "source", "Space of the item", enum=(PROJECT, USER, SYSTEM), default=PROJECT, is_rare=True
    ),
    _object_parameter("parameters", "Older form: location for source", is_rare=True),
    _flag("dry_run", "Validate only"),
    _flag("force", "Sign what is signed already", is_rare=True),
    VERBOSE,
)
HELP = (
    _text("topic", "overview, a topic, item:REF, error:CODE, template:KIND", default="overview"),
    VERBOSE,
)


def _fetch_rows(parameters: Iterable[Parameter]) -> Iterable[Parameter]:
    """The rows without defaults, which belong to one of two modes."""
    for one in parameters:
        yield Parameter(
            name=one.name,
            type=one.type,
            description=one.description,
            enum=one.enum,
            minimum=one.minimum,
            maximum=one.maximum,
            is_rare=one.is_rare,
        )


def _union() -> tuple[Parameter, ...]:
    """Load and search together; a row of both takes what either takes."""
    rows = {one.name: one for one in _fetch_rows(LOAD)}
    for one in _fetch_rows(SEARCH):
        known = rows.get(one.name)
        if known is None:
            rows[one.name] = one
        elif known.enum:
            rows[one.name] = Parameter(
                name=one.name,
                type=one.type,
                description=one.description,
                enum=tuple(dict.fromkeys((*known.enum, *one.enum))),
                is_rare=known.is_rare,
            )
    rows["offset"] = _number("offset", "First character, or hits to skip", minimum=0)
    return tuple(rows.values())


FETCH = _union()
LOAD_ONLY = frozenset(one.name for one in LOAD) - {one.name for one in SEARCH}
SEARCH_ONLY = frozenset(one.name for one in SEARCH) - {one.name for one in LOAD}


# --- parameters of execute ------------------------------------------------------------------------
# What `execute` takes, as rows.

EXECUTE = (
    Parameter(name="item_id", type="string", description="tool:a/b, a/b, or a run"),
    Parameter(name="item_type", type="string", description="Kind of item", enum=RUNNABLE),
    _text("action", "Or load", default="run", is_rare=True),
    PROJECT_PATH,
    _object_parameter("parameters", "The item's inputs"),
    _flag("dry_run", "Check only"),
    _text("target", "local, or remote:NAME", default="local", is_rare=True),
    _text("thread", "inline or fork", default="inline", is_rare=True),
    _flag("async", "In the background"),
    _number(
        "wait_s",
        "Wait so long for its end, then it goes on in the background",
        minimum=0,
        maximum=600,
        is_rare=True,
    ),
    _text("resume_thread_id", "Resume a graph's run"),
    _text("model", "For a fork", is_rare=True),
    _object_parameter("limit_overrides", "For a fork", is_rare=True),
    _number("timeout", "Seconds at most", minimum=1),
    _text("cwd", "Working folder", is_rare=True),
    _flag("trace", "Add what happened", is_rare=True),
    Parameter(
        name="batch",
        type="array",
        description="Instead of item_id: calls {item_id, parameters} in turn, up to a failure",
        is_rare=True,
    ),
    VERBOSE,
)
MAX_BATCH = 20


# --- tool table -----------------------------------------------------------------------------------
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


# --- arguments ------------------------------------------------------------------------------------
# Checking the arguments of a call against the table. Pure.
#
# Lenient on three habits of models: an object sent as its JSON text, numbers and booleans sent as
# text, and null for what may be left out. Everything else that does not fit is a VerbArgumentError
# that names it, what was expected and what was found.

_MAX_SHOWN = 60
_BOOLEANS = {"true": True, "false": False}
_MAX_DIGITS = 15


class ToolArguments(dict[str, Any]):
    """The arguments of a call of ``tool``, read once: with defaults, of the types of its table.

    ``given`` is what the caller said, for a call that goes on with the same.
    """

    __slots__ = ("given", "tool")

    def __init__(self, tool: Tool, given: Mapping[str, object], values: Mapping[str, Any]) -> None:
        super().__init__(values)
        self.tool = tool
        self.given = given


def valid_arguments(tool: Tool, arguments: Mapping[str, object]) -> ToolArguments:
    """The arguments with defaults filled in, those left out without a default missing.

    Those that were read for this tool already are as they are. Raises VerbArgumentError.
    """
    if isinstance(arguments, ToolArguments) and arguments.tool is tool:
        return arguments
    rows = {row.name: row for row in tool.parameters}
    for name in arguments:
        if name not in rows:
            raise _unknown_argument(str(name), tool)
    checked: dict[str, Any] = {}
    for row in tool.parameters:
        value = arguments.get(row.name)
        if value is not None:
            checked[row.name] = _validated(row, value)
        elif row.required:
            raise VerbArgumentError(
                row.name, f"expected by {tool.name}, found nothing", hint=row.description
            )
        elif row.default is not ABSENT:
            checked[row.name] = row.default
    return ToolArguments(tool, arguments, checked)


def with_options(arguments: Mapping[str, object]) -> dict[str, object]:
    """The arguments with those of ``options`` among them. Raises VerbArgumentError.

    It comes before anything that looks at an argument: no rule may miss one that is inside.
    """
    given = dict(arguments)
    options = given.pop(OPTIONS, None)
    if options is None:
        return given
    inner = _object_argument(Parameter(name=OPTIONS, type="object", description=""), options)
    for name in inner:
        if name in given or name == OPTIONS:
            raise VerbArgumentError(f"{OPTIONS}.{name}"[:_MAX_SHOWN], "given twice", hint="once")
    return {**given, **inner}


def wants_all(arguments: Mapping[str, object]) -> bool:
    """Whether a call asks for all that is known, by ``verbose`` or ``trace``."""
    return any(str(arguments.get(name)).lower() == "true" for name in ("verbose", "trace"))


def _unknown_argument(name: str, tool: Tool) -> VerbArgumentError:
    from difflib import get_close_matches

    known = [row.name for row in tool.parameters]
    close = get_close_matches(name, known, 1, 0.6)
    plain = [row.name for row in tool.parameters if not row.is_rare]
    rare = [row.name for row in tool.parameters if row.is_rare]
    takes = f"{tool.name} takes {', '.join(plain)}"
    if rare:
        takes += f"; in {OPTIONS}: {', '.join(rare)}"
    return VerbArgumentError(
        name[:_MAX_SHOWN],
        f"{tool.name} has no such argument",
        hint=f"did you mean {close[0]}?" if close else takes,
        **({"closest": close[0]} if close else {}),
        valid=known,
    )


def _validated(row: Parameter, value: object) -> object:
    match row.type:
        case "string":
            return _string(row, value)
        case "integer":
            return _integer(row, value)
        case "boolean":
            return boolean(row.name, value)
        case "array":
            return _list_of_objects(row, value)
    return _object_argument(row, value)


def _string(row: Parameter, value: object) -> str:
    if not isinstance(value, str):
        raise _wrong(row, "a string", value)
    if row.enum and value not in row.enum:
        from difflib import get_close_matches

        close = get_close_matches(value, row.enum, 1, 0.5)
        hint = f"did you mean {close[0]}?" if close else ""
        raise _wrong(row, f"one of {', '.join(row.enum)}", value, hint=hint)
    return value


def _integer(row: Parameter, value: object) -> int:
    number = value
    if isinstance(value, str):
        digits = value.strip().removeprefix("-")
        if digits.isascii() and digits.isdecimal() and len(digits) <= _MAX_DIGITS:
            number = int(value)
    elif isinstance(value, float) and value.is_integer():
        number = int(value)
    if not isinstance(number, int) or isinstance(number, bool):
        raise _wrong(row, "an integer", value)
    low, high = row.minimum, row.maximum
    if (low is not None and number < low) or (high is not None and number > high):
        bounds = f"{low} to {high}" if high is not None else f"{low} or more"
        raise _wrong(row, bounds, value)
    return number


def boolean(name: str, value: object) -> bool:
    """The value of an argument that is true or false. Raises VerbArgumentError."""
    found = _BOOLEANS.get(value.strip().lower()) if isinstance(value, str) else value
    if not isinstance(found, bool):
        raise _wrong(Parameter(name=name, type="boolean", description=""), "true or false", value)
    return found


def _list_of_objects(row: Parameter, value: object) -> list[dict[str, Any]]:
    found = value
    if isinstance(value, str):
        try:
            found = json.loads(value)
        except (ValueError, RecursionError):
            raise _wrong(row, "a list, or its JSON", value) from None
    if not isinstance(found, list) or not 0 < len(found) <= MAX_BATCH:
        raise _wrong(row, f"a list of 1 to {MAX_BATCH} calls", value)
    return [_object_argument(row, one) for one in found]


def _object_argument(row: Parameter, value: object) -> dict[str, Any]:
    found = value
    if isinstance(value, str):
        try:
            found = json.loads(value) if value.strip() else {}
        except (ValueError, RecursionError):
            raise _wrong(row, "an object, or its JSON", value) from None
    if not isinstance(found, dict):
        raise _wrong(row, "an object", value)
    return found


def _wrong(row: Parameter, expected: str, value: object, *, hint: str = "") -> VerbArgumentError:
    kind = type_name(value)
    shown = repr(value[:_MAX_SHOWN]) if isinstance(value, str) else str(value)[:_MAX_SHOWN]
    found = shown if isinstance(value, str | int | float) else f"{kind} {shown}"
    return VerbArgumentError(
        row.name,
        f"expected {expected}, found {found}",
        hint=hint,
        expected=expected,
        **({"valid": list(row.enum)} if row.enum else {}),
    )


# --- references -----------------------------------------------------------------------------------
# Which project and which item the arguments of a call mean.


def rye_of(rye: "Rye", arguments: Mapping[str, object]) -> "Rye":
    """The Rye of the named project, else the server's own. Raises RyeError `NO_PROJECT`."""
    project = arguments.get("project_path")
    return rye.at(str(project)) if project else rye


def project_of(rye: "Rye") -> str | None:
    """The project that an answer is about, for the answer; None outside of one."""
    return str(rye.context.project_path) if rye.context.project_path else None


def item_reference(rye: "Rye", item_id: str, item_type: str | None) -> Reference:
    """The item that ``tool:a/b``, ``a/b`` with a type, or ``a/b`` alone means.

    Backslashes count as slashes, and a file suffix is left out where that names an item. Raises
    InvalidRefError.
    """
    reference = parse_reference(plain_reference(item_id), item_type)
    stem, dot, suffix = reference.id.rpartition(".")
    kinds = (reference.kind,) if reference.kind else EXECUTABLE_KINDS
    named = [kind for kind in kinds if dot and _names_files(rye, kind, f".{suffix}")]
    shorter = [Reference(kind, stem) for kind in named]
    if any(rye.resolver.find(ref) for short in shorter for ref in short.refs()):
        return Reference(reference.kind, stem)
    return reference


def _names_files(rye: "Rye", kind: Kind, suffix: str) -> bool:
    return any(space.has_suffix(kind, suffix) for space in rye.context.spaces)


def plain_reference(item_id: str) -> str:
    """The id with forward slashes; the path of an item's file, ``.ai/tools/a/b.py``, is its id."""
    kind, colon, path = item_id.rpartition(":")
    path = path.replace("\\", "/")
    while path.startswith("./"):
        path = path.removeprefix("./")
    for one in Kind:
        below = path.removeprefix(f".ai/{one.directory}/")
        if below != path and kind in {"", one.value}:
            return f"{one.value}:{below}"
    return f"{kind}{colon}{path}"
