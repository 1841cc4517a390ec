"""What the keywords of JSON Schema hold, and the readings of them that need more than a look-up.

Dialect: draft 2020-12 and its predecessors down to draft 6, as far as docs/formats.md, Parameter
schemas, says. Where they differ, both spellings work (``prefixItems`` and a list under ``items``,
``$defs`` and ``definitions``, ``dependentRequired`` and ``dependencies``), and keywords beside
``$ref`` count.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

Schema: TypeAlias = dict[str, Any] | bool
"""A schema as JSON gives it: a mapping of keywords, or ``True`` (all) and ``False`` (nothing)."""

TYPES = ("array", "boolean", "integer", "null", "number", "object", "string")

NUMBERS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")
COUNTS = ("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties")

SCHEMAS = (
    "not",
    "if",
    "then",
    "else",
    "contains",
    "propertyNames",
    "additionalProperties",
    "additionalItems",
)
SCHEMA_LISTS = ("allOf", "anyOf", "oneOf")
SCHEMA_MAPS = ("properties", "patternProperties", "dependentSchemas", "definitions", "$defs")

REFUSED = (
    "unevaluatedProperties",
    "unevaluatedItems",
    "minContains",
    "maxContains",
    "$dynamicRef",
    "$recursiveRef",
)
"""Keywords that restrict values and that nobody here can judge: better refused than ignored."""


def item_schemas(schema: Mapping[str, Any]) -> tuple[list[Schema], Schema]:
    """The schemas of the first items, one each, and the schema of all items after them."""
    if "prefixItems" in schema:
        return schema["prefixItems"], schema.get("items", True)
    items = schema.get("items", True)
    if isinstance(items, list):
        return items, schema.get("additionalItems", True)
    return [], items


def dependent_names(schema: Mapping[str, Any]) -> dict[str, list[str]]:
    """The keys that must be there when another one is."""
    older = {
        key: names
        for key, names in schema.get("dependencies", {}).items()
        if isinstance(names, list)
    }
    return {**older, **schema.get("dependentRequired", {})}


def dependent_schemas(schema: Mapping[str, Any]) -> dict[str, Schema]:
    """The schemas that the whole object must fit when a key is there."""
    older = {
        key: dependent
        for key, dependent in schema.get("dependencies", {}).items()
        if not isinstance(dependent, list)
    }
    return {**older, **schema.get("dependentSchemas", {})}


def same_value_schemas(schema: Mapping[str, Any]) -> Iterator[Schema]:
    """The schemas inside ``schema``, ``$ref`` apart, that judge the same value as it does."""
    for name in SCHEMA_LISTS:
        yield from schema.get(name, ())
    for name in ("not", "if", "then", "else"):
        if name in schema:
            yield schema[name]
    yield from dependent_schemas(schema).values()


def python_pattern(pattern: str) -> str:
    r"""The pattern, in which ``$`` is the very end of a text, as Python writes it.

    To Python a bare ``$`` also stands before a last newline. ``\Z`` says it without doubt; inside
    a set ``$`` is only a character, and is escaped so that nobody takes it for more.
    """
    return _DOLLAR_OR_SHIELD.sub(_translate, pattern)


_DOLLAR_OR_SHIELD = re.compile(
    r"""
      \\ (?: . | \Z )                                     # an escaped character
    | \[ \^? \]? (?: \\ (?: . | \Z ) | [^\]\\] )* \]?     # a set; ``]`` may be its first member
    | \$
    """,
    re.VERBOSE | re.DOTALL,
)
_IN_SET = re.compile(r"\\.|[$\[&~|]", re.DOTALL)  # the last four: Python warns of doubled ones


def _translate(match: re.Match[str]) -> str:
    text = match[0]
    if text == "$":
        return r"\Z"
    if text.startswith("["):
        return "[" + _IN_SET.sub(_escape, text[1:])
    return text


def _escape(match: re.Match[str]) -> str:
    return match[0] if match[0].startswith("\\") else "\\" + match[0]
