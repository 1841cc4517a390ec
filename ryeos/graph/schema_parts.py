"""Parts that the schemas are made of.

An explicit null means the same as leaving the key out.
"""

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from ryeos.items.rights import ANY, LOOPBACK, MAX_ENTRIES, NONE, PATH_NAMES

DRAFT = "http://json-schema.org/draft-07/schema#"

Schema: TypeAlias = dict[str, Any]

_NOT_BLANK = "\\S"


def text(description: str, **more: object) -> Schema:
    """A text with something in it."""
    return {"type": ["string", "null"], "pattern": _NOT_BLANK, "description": description, **more}


def prose(description: str) -> Schema:
    """A text, also an empty one."""
    return {"type": ["string", "null"], "description": description}


def truth(description: str, default: bool | None = None) -> Schema:  # noqa: FBT001
    """True or false."""
    return _with_default({"type": ["boolean", "null"], "description": description}, default)


def whole(description: str, least: int, most: int, default: int | None = None) -> Schema:
    """A whole number in a range."""
    schema = {"type": ["integer", "null"], "minimum": least, "maximum": most}
    return _with_default({**schema, "description": description}, default)


def number(description: str, **bounds: float) -> Schema:
    """A number; ``minimum``, ``exclusiveMinimum``, ``maximum``."""
    return {"type": ["number", "null"], **bounds, "description": description}


def word(
    description: str, words: Sequence[str], default: str | None = None, *, optional: bool = True
) -> Schema:
    """One of some words."""
    schema: Schema = {"enum": [*words, *([None] if optional else [])], "description": description}
    return _with_default(schema, default)


def texts(description: str) -> Schema:
    """A list of texts."""
    items = {"type": "string", "pattern": _NOT_BLANK}
    return {"type": ["array", "null"], "items": items, "description": description}


def text_or_texts(description: str) -> Schema:
    """One text, or a list of them."""
    items = {"type": "string", "pattern": _NOT_BLANK}
    return {
        "type": ["string", "array", "null"],
        "pattern": _NOT_BLANK,
        "items": items,
        "description": description,
    }


def mapping(description: str, **more: object) -> Schema:
    """A mapping."""
    return {"type": ["object", "null"], "description": description, **more}


def anything(description: str) -> Schema:
    """Any value."""
    return {"description": description}


def closed(properties: Mapping[str, Schema], required: Sequence[str] = ()) -> Schema:
    """The keywords of a mapping with these keys only, and ``x-`` ones."""
    schema: Schema = {
        "properties": dict(properties),
        "patternProperties": {"^x-": {}},
        "additionalProperties": False,
    }
    return {**schema, "required": list(required)} if required else schema


def _entries(description: str, words: Sequence[str], pattern: str, **more: object) -> Schema:
    """One of some words, or a list of texts of a shape."""
    items = {"type": "string", "pattern": pattern, **more}
    return {
        "description": description,
        "anyOf": [
            {"enum": list(words)},
            {"type": "array", "maxItems": MAX_ENTRIES, "items": items},
        ],
    }


_PATH_NAMES = "|".join((*PATH_NAMES, r"config\.[a-z_]+"))
_PATH = rf"^(\{{({_PATH_NAMES})\}}(/.*)?|~(/.*)?|/.*|[A-Za-z]:[/\\].*)$"
_NO_PATH = {"not": {"pattern": r"[*?\[\]]|(^|[/\\])\.\.([/\\]|$)"}}
SANDBOX: Schema = {
    "type": "object",
    "description": "What it may do; what is left out is not given. Page: docs/rights.md.",
    "additionalProperties": False,
    "properties": {
        "read": _entries("Folders and files, like {project}.", (ANY, NONE), _PATH, **_NO_PATH),
        "write": _entries("Folders, like {project}/out, {tmp}.", (ANY, NONE), _PATH, **_NO_PATH),
        "network": _entries(
            "Hosts like api.github.com:443 and *.example.org:443.",
            (ANY, NONE, LOOPBACK),
            r"^((\*\.)?[A-Za-z0-9_.-]+|\[[0-9A-Fa-f:.]+\]):[0-9]{1,5}$",
        ),
        "programs": _entries(
            "Names or paths of programs.",
            (ANY, NONE),
            rf"{_PATH[:-2]}|[A-Za-z0-9_][A-Za-z0-9_.+-]*)$",
            **_NO_PATH,
        ),
        "env": _entries(
            "Names of variables; NAME* for all that begin so.",
            (ANY, NONE),
            r"^([A-Za-z_][A-Za-z0-9_]*\*?|\{config\.[a-z_]+\})$",
        ),
    },
}


def without_null(schema: Mapping[str, Any]) -> Schema:
    """The same without null: of a key that must be there."""
    kinds = schema.get("type")
    if not isinstance(kinds, list):
        return dict(schema)
    kept = [kind for kind in kinds if kind != "null"]
    return {**schema, "type": kept[0] if len(kept) == 1 else kept}


def _with_default(schema: Schema, default: object) -> Schema:
    return schema if default is None else {**schema, "default": default}
