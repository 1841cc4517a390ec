"""A breach of a schema in words: what is expected, ``at least 3 characters``, and what is found.

Imported when a value breaks a schema, and not before.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias

from lillux.canonical_json import json_pointer
from lillux.foreign_text import printable
from lillux.wording import counted, describe_value, json_text, listed

_MAX_LEVELS = 3
_MAX_ALTERNATIVES = 12
_MAX_GUESSES = 16
_MAX_COMPARED = 64

Schema: TypeAlias = dict[str, Any] | bool
Targets: TypeAlias = Mapping[str, Schema]
"""The schemas behind each ``$ref``."""


class Writer:
    """Finds the words for what a pass over one value has found."""

    def __init__(self, targets: Targets, accepts: Callable[[Schema, object], bool]) -> None:
        """``accepts`` says whether a value fits a part of the schema."""
        self._targets, self._accepts = targets, accepts
        self._guesses = 0
        self._known: dict[int, str] = {}
        self._words: dict[str, Callable[..., tuple[str, str]]] = {
            "rule": self._broken_rule,
            "missing": lambda name, schema: (_required_type(schema, name), "nothing"),
            "dependent": lambda key: (f"a value (required by {json_text(key)})", "nothing"),
            "key": self._unknown_key,
            "nothing": lambda value: ("nothing", describe_value(value)),
        }

    def words(
        self,
        place: Any,  # noqa: ANN401 - nested
        is_of_name: bool,  # noqa: FBT001
        kind: str,
        details: Iterable[Any],
    ) -> tuple[str, str, str]:
        """The pointer to the place, what is expected there and what is found."""
        path: list[str | int] = []
        while place is not None:
            place, step = place
            path.append(step)
        expected, found = self._words[kind](*details)
        prefix = "as key name " if is_of_name else ""
        return json_pointer((*reversed(path),)), prefix + expected, found

    def _broken_rule(self, keyword: str, rule: Any, value: object) -> tuple[str, str]:  # noqa: ANN401
        expected = _expected_by(keyword, rule, self._targets)
        found = _found_for(keyword, value)
        if keyword == "oneOf" and (fitting := sum(self._accepts(one, value) for one in rule)):
            found = f"{found}, which fits {fitting} of them"
        if keyword == "enum" and isinstance(value, str):
            expected += self._hint(value, (text for text in rule if isinstance(text, str)))
        return expected, found

    def _unknown_key(
        self, key: str, child: object, known: Mapping[str, object], taken: Mapping[str, object]
    ) -> tuple[str, str]:
        hint = self._hint(key, (name for name in known if name not in taken))
        if not hint and known:
            # The same for all keys of an object, of which there may be many.
            if id(known) not in self._known:
                self._known[id(known)] = f" (known: {listed(known)})"
            hint = self._known[id(known)]
        return f"no such key{hint}", describe_value(child)

    def _hint(self, text: str, names: Iterable[str]) -> str:
        """The name that was meant, where one is much like what is there."""
        # Comparing is slow, and the sender chose how many keys there are and how long.
        if self._guesses == _MAX_GUESSES or len(text) > _MAX_COMPARED:
            return ""
        self._guesses += 1
        from difflib import get_close_matches

        similar = get_close_matches(text, [one for one in names if len(one) <= _MAX_COMPARED], n=1)
        return f" (did you mean {json_text(similar[0])}?)" if any(similar) else ""


def _expected_by(keyword: str, rule: Any, targets: Targets) -> str:  # noqa: ANN401
    """The demand of a keyword with this rule, in words."""
    match keyword:
        case "not":
            return f"anything but {_describe_schema(rule, targets)}"
        case "contains":
            return f"at least one item that is {_describe_schema(rule, targets)}"
        case "anyOf":
            return _alternatives(rule, targets, 0)
        case "oneOf":
            return f"exactly one of these: {_alternatives(rule, targets, 0)}"
        case _:
            return _WORDS[keyword](rule)


def _found_for(keyword: str, value: object) -> str:
    """The found value, in the terms of the keyword: lengths where the rule is about lengths."""
    unit = _UNITS.get(keyword)
    if unit is None or not isinstance(value, str | list | tuple | dict):
        return describe_value(value)
    length = counted(len(value), *unit)
    return f"{describe_value(value)} ({length})" if isinstance(value, str) else length


def _required_type(schema: dict[str, Any], name: str) -> str:
    """The type that a key of an object is declared to have; a value where that is not one."""
    declared = schema.get("properties", {}).get(name)
    kind = declared.get("type") if isinstance(declared, dict) else None
    return f"{kind if isinstance(kind, str) else 'a value'} (required)"


def _describe_schema(schema: Any, targets: Targets, level: int = 0) -> str:  # noqa: ANN401
    """A schema in a few words: ``integer (at least 1)``, ``object (with "name")``."""
    if isinstance(schema, bool):
        return "anything" if schema else "nothing"
    if level == _MAX_LEVELS:
        return json_text(schema)
    if "$ref" in schema:
        return _describe_schema(targets[schema["$ref"]], targets, level + 1)
    words = [to_words(schema[name]) for name, to_words in _WORDS.items() if name in schema]
    if schema.get("required"):
        words.append(f"with {_required_words(schema)}")
    words += [
        _alternatives(schema[name], targets, level + 1)
        for name in ("anyOf", "oneOf")
        if name in schema
    ]
    if not words:
        return json_text(schema)
    return words[0] + (f" ({', '.join(words[1:])})" if words[1:] else "")


def _alternatives(schemas: list[Any], targets: Targets, level: int) -> str:
    words = [_describe_schema(schema, targets, level) for schema in schemas[:_MAX_ALTERNATIVES]]
    if len(schemas) > _MAX_ALTERNATIVES:
        words.append(f"{len(schemas) - _MAX_ALTERNATIVES} more")
    return printable(" or ".join(dict.fromkeys(words)))


def _required_words(schema: Mapping[str, Any]) -> str:
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
