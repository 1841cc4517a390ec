"""Values with the defaults of their schema filled in."""

from collections.abc import Iterator, Mapping
from copy import deepcopy
from typing import Any

from lillux.integrity import MAX_DEPTH, json_pointer
from lillux.schema.checks import SchemaError
from lillux.schema.judge import Judge
from lillux.schema.keywords import Schema

MAX_FILLED = 10_000
"""Defaults that one value may get; a few nested schemas could ask for millions."""


def fill_defaults(value: object, judge: Judge) -> object:
    """The value, in which each absent key has its default, at any depth through ``properties``.

    Nothing of the value is changed; what is not touched is shared with the result. Raises
    SchemaError when the defaults have no end.
    """
    return _Filling(judge).fill(judge.definition.root, value, ())


class _Filling:
    def __init__(self, judge: Judge) -> None:
        self._judge = judge
        self._targets = judge.definition.targets
        self._filled = 0

    def fill(self, schema: Schema, value: object, path: tuple[str, ...]) -> object:
        if not isinstance(value, dict):
            return value
        result = dict(value)
        for name, inner in _properties(schema, self._targets):
            if name in result:
                result[name] = self.fill(inner, result[name], (*path, name))
            elif (default := self._default(inner)) is not _NOTHING:
                self._count(path)
                result[name] = self.fill(inner, deepcopy(default), (*path, name))
        return result

    def _default(self, schema: Schema) -> object:
        for part in _with_references(schema, self._targets):
            if "default" in part:
                default = part["default"]
                # Many write "default: null" and mean that there is none.
                unwanted = default is None and not self._judge.part_accepts(schema, None)
                return _NOTHING if unwanted else default
        return _NOTHING

    def _count(self, path: tuple[str, ...]) -> None:
        self._filled += 1
        if self._filled > MAX_FILLED or len(path) > MAX_DEPTH:
            raise SchemaError("", f"its defaults have no end, see {json_pointer(path[:3])}")


_NOTHING = object()


def _properties(schema: Schema, targets: Mapping[str, Schema]) -> Iterator[tuple[str, Schema]]:
    for part in _with_references(schema, targets):
        yield from part.get("properties", {}).items()


def _with_references(schema: Schema, targets: Mapping[str, Schema]) -> Iterator[dict[str, Any]]:
    """The schema and what it refers to, as one reads it: nearest first."""
    while isinstance(schema, dict):
        yield schema
        if "$ref" not in schema:
            return
        schema = targets[schema["$ref"]]
