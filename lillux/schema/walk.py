"""Every way in which a value breaks a schema, found by walking both together.

The library says only what it stumbled over first. The walk asks it about one keyword at a time,
and goes only into what it refuses.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from lillux.integrity import json_pointer
from lillux.schema.checks import Path
from lillux.schema.expectation import expected_by, found_for
from lillux.schema.judge import Judge
from lillux.schema.keywords import (
    COUNTS,
    NUMBERS,
    Schema,
    dependent_names,
    dependent_schemas,
    item_schemas,
    python_pattern,
)
from lillux.schema.wording import describe_value, json_text, listed, printable
from lillux.values import dataclass

_OWN_KEYWORDS = (
    "type", "enum", "const", *NUMBERS, "multipleOf", *COUNTS, "pattern", "uniqueItems", "contains",
    "anyOf", "oneOf", "not",
)  # fmt: skip
_MAX_GUESSES = 16
_MAX_COMPARED = 64

@dataclass(frozen=True, slots=True)
class Violation:
    """One rule of a schema that a value breaks.

    ``pointer`` (RFC 6901) is where in the value, ``""`` the value itself; of what is missing, where
    it should be. ``expected`` and ``found`` are words: ``integer``, ``string "x"``.
    """

    pointer: str
    expected: str
    found: str

    def __str__(self) -> str:
        where = printable(self.pointer) or "(root)"
        return f"{where}: expected {self.expected}, found {self.found}"


def collect_violations(judge: Judge, value: object) -> tuple[Violation, ...]:
    """What is wrong with a value, in the order of the value, nothing twice.

    The value must be JSON (`lillux.integrity.require_json`).
    """
    walk = _Walk(judge)
    walk.visit(judge.definition.root, value, ())
    return tuple(dict.fromkeys(walk.violations))


class _Walk:
    def __init__(self, judge: Judge) -> None:
        self.violations: list[Violation] = []
        self._judge = judge
        self._targets = judge.definition.targets
        self._guesses = 0

    def visit(self, schema: Schema, value: object, path: Path) -> None:
        if self._judge.part_accepts(schema, value):
            return
        before = len(self.violations)
        if not isinstance(schema, bool):
            self._own_keywords(schema, value, path)
            self._missing(schema, value, path)
            for inner in self._same_value(schema, value):
                self.visit(inner, value, path)
            if isinstance(value, dict):
                self._keys(schema, value, path)
            elif isinstance(value, list | tuple):
                self._array(schema, value, path)
        if len(self.violations) == before:
            expected = "nothing" if schema is False else "a value that fits the whole schema"
            self._add(path, expected, describe_value(value))

    def _add(self, path: Path, expected: str, found: str) -> None:
        self.violations.append(Violation(json_pointer(path), expected, found))

    def _own_keywords(self, schema: dict[str, Any], value: object, path: Path) -> None:
        for keyword in _OWN_KEYWORDS:
            if keyword in schema and not self._judge.part_accepts(schema, value, keyword):
                expected = expected_by(keyword, schema[keyword], self._targets)
                meant = self._meant(schema[keyword], value) if keyword == "enum" else ""
                self._add(path, expected + meant, self._found(keyword, schema, value))

    def _meant(self, allowed: Iterable[object], value: object) -> str:
        """Which of the values was meant, where one is much like what is there."""
        names = {text: True for text in allowed if isinstance(text, str)}
        similar = self._similar(value, names, {}) if isinstance(value, str) else ""
        return f" (did you mean {json_text(similar)}?)" if similar else ""

    def _found(self, keyword: str, schema: dict[str, Any], value: object) -> str:
        found = found_for(keyword, value)
        if keyword != "oneOf":
            return found
        fitting = sum(self._judge.part_accepts(inner, value) for inner in schema["oneOf"])
        return f"{found}, which fits {fitting} of them" if fitting else found

    def _same_value(self, schema: dict[str, Any], value: object) -> Iterator[Schema]:
        if "$ref" in schema:
            yield self._targets[schema["$ref"]]
        yield from schema.get("allOf", ())
        if "if" in schema:
            chosen = "then" if self._judge.part_accepts(schema["if"], value) else "else"
            yield schema.get(chosen, True)
        if isinstance(value, dict):
            for key, dependent in dependent_schemas(schema).items():
                if key in value:
                    yield dependent

    def _missing(self, schema: dict[str, Any], value: object, path: Path) -> None:
        if not isinstance(value, dict):
            return
        for name in schema.get("required", ()):
            if name not in value:
                self._add((*path, name), "a value (required)", "nothing")
        for key, names in dependent_names(schema).items():
            for name in names:
                if key in value and name not in value:
                    expected = f"a value (required by {json_text(key)})"
                    self._add((*path, name), expected, "nothing")

    def _keys(self, schema: dict[str, Any], value: dict[str, Any], path: Path) -> None:
        properties, patterns = schema.get("properties", {}), _patterns(schema)
        names, rest = schema.get("propertyNames", True), schema.get("additionalProperties", True)
        known = f" (known: {listed(properties)})" if properties else ""
        for key, child in value.items():
            if not self._judge.part_accepts(names, key):
                self._key_name(names, key, path)
            declared = [inner for pattern, inner in patterns if pattern.search(key)]
            if key in properties:
                declared.append(properties[key])
            for inner in declared:
                self.visit(inner, child, (*path, key))
            if not declared and rest is False:
                similar = self._similar(key, properties, value)
                hint = f" (did you mean {json_text(similar)}?)" if similar else known
                self._add((*path, key), f"no such key{hint}", describe_value(child))
            elif not declared:
                self.visit(rest, child, (*path, key))

    def _key_name(self, names: Schema, key: str, path: Path) -> None:
        walk = _Walk(self._judge)
        walk.visit(names, key, ())
        for violation in walk.violations:
            self._add((*path, key), f"as key name {violation.expected}", violation.found)

    def _similar(self, key: str, names: Mapping[str, Schema], taken: Mapping[str, object]) -> str:
        # Comparing is slow, and somebody else chose how many keys there are and how long.
        if self._guesses == _MAX_GUESSES or len(key) > _MAX_COMPARED:
            return ""
        self._guesses += 1
        from difflib import get_close_matches

        free = [name for name in names if name not in taken and len(name) <= _MAX_COMPARED]
        return next(iter(get_close_matches(key, free, n=1)), "")

    def _array(self, schema: dict[str, Any], value: Sequence[Any], path: Path) -> None:
        first, rest = item_schemas(schema)
        for index, item in enumerate(value):
            inner = first[index] if index < len(first) else rest
            self.visit(inner, item, (*path, index))


def _patterns(schema: dict[str, Any]) -> list[tuple[re.Pattern[str], Schema]]:
    return [
        (re.compile(python_pattern(text)), inner)
        for text, inner in schema.get("patternProperties", {}).items()
    ]
