"""What each tool takes, as rows. Data; `execute` has a page of its own."""

from collections.abc import Iterable
from typing import Any

from lillux.values import dataclass
from ryeos.items import PROJECT, SYSTEM, USER, Kind

ABSENT: Any = object()


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """One argument of a tool.

    type              ``string``, ``integer``, ``boolean`` or ``object``
    minimum, maximum  of an integer; checked here, and in the text only
    """

    name: str
    type: str
    description: str
    enum: tuple[str, ...] = ()
    default: Any = ABSENT
    required: bool = False
    minimum: int | None = None
    maximum: int | None = None

    def schema(self) -> dict[str, Any]:
        """The property as it is sent."""
        rules: dict[str, Any] = {"type": self.type, "description": self.description}
        if self.enum:
            rules["enum"] = list(self.enum)
        return rules if self.default is ABSENT else rules | {"default": self.default}


def _text(name: str, description: str, **rules: Any) -> Parameter:  # noqa: ANN401 - of Parameter
    return Parameter(name=name, type="string", description=description, **rules)


def _flag(name: str, description: str) -> Parameter:
    return Parameter(name=name, type="boolean", description=description, default=False)


def _number(name: str, description: str, **rules: Any) -> Parameter:  # noqa: ANN401 - of Parameter
    return Parameter(name=name, type="integer", description=description, **rules)


def _object(name: str, description: str) -> Parameter:
    return Parameter(name=name, type="object", description=description)


REGISTRY, LOCAL, ALL = "registry", "local", "all"
RUNNABLE = (Kind.DIRECTIVE.value, Kind.TOOL.value, Kind.KNOWLEDGE.value)
DEFAULT_WINDOW = 60_000

ITEM_ID = _text("item_id", "tool:a/b, or a/b", required=True)
PROJECT_PATH = _text("project_path", "Project folder")
_OVERWRITE = _flag("overwrite", "Replace another file there")
_OFFSET_OF_TEXT = _number("offset", "First character", default=0, minimum=0)

SEARCH = (
    _text("query", "Words; empty for everything", default=""),
    _text("item_type", "Kind of item", enum=(*RUNNABLE, ALL), default=ALL),
    _text("scope", "Like tool.rye.core.*"),
    PROJECT_PATH,
    _text(
        "source",
        "Spaces to look in",
        enum=(PROJECT, USER, SYSTEM, LOCAL, REGISTRY, ALL),
        default=ALL,
    ),
    _number("limit", "Hits, 1 to 100", default=10, minimum=1, maximum=100),
    _number("offset", "Hits to skip", default=0, minimum=0),
    _text("sort_by", "Order", enum=("score", "date", "name"), default="score"),
    _object("fields", "Field to query"),
    _object(
        "filters",
        "Metadata, like version: >=1.2, author: !bob, category: a/*, signed: true",
    ),
    _object("fuzzy", "Allow slips: enabled, max_distance 0 to 2"),
    _object("proximity", "Words close by: enabled, max_distance"),
)
LOAD = (
    ITEM_ID,
    _text("item_type", "Kind of item", enum=RUNNABLE),
    PROJECT_PATH,
    _text("source", "First space to look in", enum=(PROJECT, USER, SYSTEM, REGISTRY)),
    _text("destination", "Copy it to this space", enum=(PROJECT, USER)),
    _text("version", "Of a registry's item"),
    _OVERWRITE,
    _flag("include_siblings", "Also copy files the tool imports"),
    _OFFSET_OF_TEXT,
    _number(
        "max_chars", "Characters to give", default=DEFAULT_WINDOW, minimum=1, maximum=1_000_000
    ),
)
SIGN = (
    _text("item_id", "Item or pattern", required=True),
    _text("item_type", "Kind of item", enum=(*RUNNABLE, Kind.CONFIG.value)),
    PROJECT_PATH,
    _text("source", "Space of the item", enum=(PROJECT, USER, SYSTEM), default=PROJECT),
    _object("parameters", "Older form: location for source"),
    _flag("dry_run", "Validate only"),
    _flag("force", "Sign what is signed already"),
)
HELP = (_text("topic", "overview, a topic, item:REF or error:CODE", default="overview"),)


def _fetched(parameters: Iterable[Parameter]) -> Iterable[Parameter]:
    """The rows without defaults, which belong to one of two modes."""
    for one in parameters:
        yield Parameter(
            name=one.name,
            type=one.type,
            description=one.description,
            enum=one.enum,
            minimum=one.minimum,
            maximum=one.maximum,
        )


def _union() -> tuple[Parameter, ...]:
    """Load and search together; a row of both takes what either takes."""
    rows = {one.name: one for one in _fetched(LOAD)}
    for one in _fetched(SEARCH):
        known = rows.get(one.name)
        if known is None:
            rows[one.name] = one
        elif known.enum:
            rows[one.name] = Parameter(
                name=one.name,
                type=one.type,
                description=one.description,
                enum=tuple(dict.fromkeys((*known.enum, *one.enum))),
            )
    rows["offset"] = _number("offset", "First character, or hits to skip", minimum=0)
    return tuple(rows.values())


FETCH = _union()
LOAD_ONLY = frozenset(one.name for one in LOAD) - {one.name for one in SEARCH}
SEARCH_ONLY = frozenset(one.name for one in SEARCH) - {one.name for one in LOAD}
