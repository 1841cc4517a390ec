"""What the schemas are made of. An explicit null means the same as leaving the key out."""

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

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


def there(schema: Mapping[str, Any]) -> Schema:
    """The same without null: of a key that must be there."""
    kinds = schema.get("type")
    if not isinstance(kinds, list):
        return dict(schema)
    kept = [kind for kind in kinds if kind != "null"]
    return {**schema, "type": kept[0] if len(kept) == 1 else kept}


def _with_default(schema: Schema, default: object) -> Schema:
    return schema if default is None else {**schema, "default": default}
