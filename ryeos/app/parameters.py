"""Parameters of the tools, as rows. Data."""

from collections.abc import Iterable
from typing import Any

from lillux.values import dataclass
from ryeos.items.refs import PROJECT, SYSTEM, USER, Kind

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
