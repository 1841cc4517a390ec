"""Validates the simplest JSON Schemas without importing fastjsonschema.

Most tools take a handful of strings and numbers. For those, loading and compiling the library would
take longer than everything else before the start. This only ever says "surely fits": whatever it
does not fully understand, a misspelt schema included, is left to `lillux.schema`, and so is every
value that does not fit. A property test holds the two to the same verdict.
"""

from collections.abc import Callable, Mapping
from math import isfinite
from typing import Any

_REMARKS = frozenset({"title", "description", "examples", "$comment"})
_OBJECT_KEYWORDS = _REMARKS | {"type", "properties", "required", "additionalProperties"}
_PROPERTY_KEYWORDS = _REMARKS | {"type", "default", "minLength"}


def _is_number(value: object) -> bool:
    if isinstance(value, float):
        return isfinite(value)
    return isinstance(value, int) and not isinstance(value, bool)


_FITS: Mapping[str, Callable[[object], bool]] = {
    "string": lambda value: isinstance(value, str),
    "boolean": lambda value: isinstance(value, bool),
    "integer": lambda value: isinstance(value, int) and not isinstance(value, bool),
    "number": _is_number,
}


def fitted(value: Mapping[str, Any], schema: Mapping[str, Any]) -> dict[str, Any] | None:
    """The value with its defaults if it surely fits the schema, else None. Changes nothing."""
    if not _is_understood(schema):
        return None
    properties = schema.get("properties", {})
    defaults = {name: rules["default"] for name, rules in properties.items() if "default" in rules}
    filled = {**value, **{name: defaults[name] for name in defaults if name not in value}}
    fits = (
        value.keys() <= properties.keys()
        and all(name in filled for name in schema.get("required", []))
        and all(_fits(filled[name], properties[name]) for name in filled)
    )
    return filled if fits else None


def _is_understood(schema: Mapping[str, Any]) -> bool:
    properties, required = schema.get("properties", {}), schema.get("required", [])
    return (
        _knows(schema, _OBJECT_KEYWORDS)
        and schema.get("type") == "object"
        and isinstance(schema.get("additionalProperties", True), bool)
        and isinstance(properties, dict)
        and isinstance(required, list)
        and _are_names(required, properties)
        and all(_is_plain(name, rules) for name, rules in properties.items())
    )


def _knows(rules: Mapping[str, Any], keywords: frozenset[str]) -> bool:
    """Whether each keyword means something here, or says by ``x-`` that it means nothing to us."""
    return all(name in keywords or str(name).startswith("x-") for name in rules)


def _are_names(required: list[Any], properties: Mapping[str, Any]) -> bool:
    """Whether each is a declared property, none twice: anything else is for the library."""
    texts = [name for name in required if isinstance(name, str) and name in properties]
    return len(texts) == len(required) == len(set(texts))


def _is_plain(name: object, rules: object) -> bool:
    if not isinstance(rules, dict):
        return False
    shortest = rules.get("minLength", 0)
    return (
        isinstance(name, str)
        and _knows(rules, _PROPERTY_KEYWORDS)
        and isinstance(rules.get("type"), str)
        and rules["type"] in _FITS
        and isinstance(shortest, int)
        and not isinstance(shortest, bool)
        and shortest >= 0
        and ("default" not in rules or _fits(rules["default"], rules))
    )


def _fits(value: object, rules: Mapping[str, Any]) -> bool:
    if isinstance(value, str) and not _is_text(value):
        return False
    long_enough = not isinstance(value, str) or len(value) >= rules.get("minLength", 0)
    return _FITS[rules["type"]](value) and long_enough


def _is_text(value: str) -> bool:
    """Whether a string can be written out; half of a surrogate pair cannot."""
    return value.isascii() or value.encode("utf-8", "replace").decode("utf-8") == value
