"""What a schema asks for, in a few words: ``at least 3 characters``, ``string or null``."""

from collections.abc import Callable, Mapping
from typing import Any

from lillux.schema.keywords import Schema
from lillux.schema.wording import counted, describe_value, json_text, listed, printable

_MAX_LEVELS = 3
_MAX_ALTERNATIVES = 12

Targets = Mapping[str, Schema]


def expected_by(keyword: str, rule: Any, targets: Targets) -> str:  # noqa: ANN401
    """What a keyword with this rule asks for. ``targets`` are the schemas behind each ``$ref``."""
    match keyword:
        case "not":
            return f"anything but {describe_schema(rule, targets)}"
        case "contains":
            return f"at least one item that is {describe_schema(rule, targets)}"
        case "anyOf":
            return _alternatives(rule, targets, 0)
        case "oneOf":
            return f"exactly one of these: {_alternatives(rule, targets, 0)}"
        case _:
            return _WORDS[keyword](rule)


def found_for(keyword: str, value: object) -> str:
    """What was found, in the terms of the keyword: lengths where the rule is about lengths."""
    unit = _UNITS.get(keyword)
    if unit is None or not isinstance(value, str | list | tuple | dict):
        return describe_value(value)
    length = counted(len(value), *unit)
    return f"{describe_value(value)} ({length})" if isinstance(value, str) else length


def describe_schema(schema: Schema, targets: Targets, level: int = 0) -> str:
    """A schema in a few words: ``integer (at least 1)``, ``object (with "name")``."""
    if isinstance(schema, bool):
        return "anything" if schema else "nothing"
    if level == _MAX_LEVELS:
        return json_text(schema)
    if "$ref" in schema:
        return describe_schema(targets[schema["$ref"]], targets, level + 1)
    words = [to_words(schema[name]) for name, to_words in _WORDS.items() if name in schema]
    if schema.get("required"):
        words.append(f"with {_required(schema)}")
    words += [
        _alternatives(schema[name], targets, level + 1)
        for name in ("anyOf", "oneOf")
        if name in schema
    ]
    if not words:
        return json_text(schema)
    return words[0] + (f" ({', '.join(words[1:])})" if words[1:] else "")


def _alternatives(schemas: list[Schema], targets: Targets, level: int) -> str:
    words = [describe_schema(schema, targets, level) for schema in schemas[:_MAX_ALTERNATIVES]]
    if len(schemas) > _MAX_ALTERNATIVES:
        words.append(f"{len(schemas) - _MAX_ALTERNATIVES} more")
    return printable(" or ".join(dict.fromkeys(words)))


def _required(schema: Mapping[str, Any]) -> str:
    # A key that can have one value only is what tells the alternatives of a union apart.
    words = []
    for name in schema["required"]:
        rule = schema.get("properties", {}).get(name)
        fixed = isinstance(rule, dict) and "const" in rule
        words.append(json_text(name) + (f": {json_text(rule['const'])}" if fixed else ""))
    return printable(", ".join(words))


def _types(rule: str | list[str]) -> str:
    return rule if isinstance(rule, str) else " or ".join(rule)


_CHARACTERS, _ITEMS, _KEYS = ("character", "characters"), ("item", "items"), ("key", "keys")
_UNITS = {
    "minLength": _CHARACTERS,
    "maxLength": _CHARACTERS,
    "minItems": _ITEMS,
    "maxItems": _ITEMS,
    "minProperties": _KEYS,
    "maxProperties": _KEYS,
}

# In the order in which a description names them.
_WORDS: dict[str, Callable[[Any], str]] = {
    "type": _types,
    "const": json_text,
    "enum": lambda rule: f"one of {listed(rule)}",
    "minimum": lambda rule: f"at least {json_text(rule)}",
    "exclusiveMinimum": lambda rule: f"more than {json_text(rule)}",
    "maximum": lambda rule: f"at most {json_text(rule)}",
    "exclusiveMaximum": lambda rule: f"less than {json_text(rule)}",
    "multipleOf": lambda rule: f"a multiple of {json_text(rule)}",
    "minLength": lambda rule: f"at least {counted(rule, *_CHARACTERS)}",
    "maxLength": lambda rule: f"at most {counted(rule, *_CHARACTERS)}",
    "pattern": lambda rule: f"text matching {json_text(rule)}",
    "minItems": lambda rule: f"at least {counted(rule, *_ITEMS)}",
    "maxItems": lambda rule: f"at most {counted(rule, *_ITEMS)}",
    "uniqueItems": lambda _: "no item twice",
    "minProperties": lambda rule: f"at least {counted(rule, *_KEYS)}",
    "maxProperties": lambda rule: f"at most {counted(rule, *_KEYS)}",
}
