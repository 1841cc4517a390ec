"""The verdict on the plainest schemas, without the library that judges all others.

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
    if not schema.keys() <= _OBJECT_KEYWORDS or schema.get("type") != "object":
        return None
    properties, required = schema.get("properties", {}), schema.get("required", [])
    if not isinstance(properties, dict) or not isinstance(required, list):
        return None
    if not isinstance(schema.get("additionalProperties", True), bool):
        return None
    if not value.keys() <= properties.keys() or not _are_names(required, properties):
        return None
    filled = dict(value)
    for name, rules in properties.items():
        if not isinstance(rules, dict) or not _is_plain(name, rules):
            return None
        if name not in filled and "default" in rules:
            filled[name] = rules["default"]
        if name in filled and not _fits(filled[name], rules):
            return None
    return filled if all(name in filled for name in required) else None


def _are_names(required: list[Any], properties: Mapping[str, Any]) -> bool:
    """Whether each is a declared property, none twice: anything else is for the library."""
    texts = [name for name in required if isinstance(name, str) and name in properties]
    return len(texts) == len(required) == len(set(texts))


def _is_plain(name: object, rules: Mapping[str, Any]) -> bool:
    shortest = rules.get("minLength", 0)
    return (
        isinstance(name, str)
        and rules.keys() <= _PROPERTY_KEYWORDS
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
