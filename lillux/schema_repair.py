"""Schemas of others, made usable: what cannot be read in one is left out, and named. Pure.

A part that goes only ever widens what is accepted, so nothing that the writer of the schema allows
is refused: the program that gets the value judges it by the whole schema. Where a part narrows by
what it does not accept (``not``, ``if``, ``oneOf``, ``additionalProperties: false``), it goes.
"""

from collections.abc import Mapping
from copy import deepcopy
from typing import Any

from lillux.canonical_json import json_pointer
from lillux.schema import validate_schema
from lillux.schema_keywords import SchemaError

MAX_PARTS = 100
_TURNED_AROUND = ("not", "if", "oneOf")
_NAMED_PARTS = ("properties", "patternProperties")
_MAPS = (*_NAMED_PARTS, "dependentSchemas", "dependencies", "$defs", "definitions")


def readable_schema(schema: Mapping[str, Any]) -> tuple[dict[str, Any], tuple[SchemaError, ...]]:
    """The schema without the parts that cannot be read, and an error for each of these.

    Raises SchemaError for a schema that is no object, or of which too much is wrong.
    """
    kept = deepcopy(dict(schema))
    left_out: list[SchemaError] = []
    while True:
        try:
            validate_schema(kept)
        except SchemaError as error:
            path = _removed(kept, error.pointer)
            if not path or len(left_out) == MAX_PARTS:
                raise
            left_out.append(SchemaError(json_pointer(path), error.problem))
        else:
            return kept, tuple(left_out)


def _removed(schema: dict[str, Any], pointer: str) -> tuple[str, ...]:
    """Remove the keyword that a pointer leads to or into; its path, () where there is none."""
    holder: Any = schema
    path: tuple[str, ...] = ()
    steps = [step.replace("~1", "/").replace("~0", "~") for step in pointer.split("/")[1:]]
    while steps and isinstance(holder, dict) and steps[0] in holder:
        keyword, inner = steps[0], holder[steps[0]]
        path = (*path, keyword)
        named = keyword in _MAPS and isinstance(inner, dict) and len(steps) > 1
        if keyword not in _TURNED_AROUND and (found := _inner(inner, steps[1:], named=named)):
            holder, passed = found
            path, steps = (*path, *passed), steps[1 + len(passed) :]
            continue
        name = steps[1] if named and steps[1] in inner else None
        _remove(holder, keyword, name)
        return path if name is None else (*path, name)
    return ()


def _inner(
    inner: Any,  # noqa: ANN401 - JSON
    steps: list[str],
    *,
    named: bool,
) -> tuple[dict[str, Any], tuple[str, ...]] | None:
    """The schema inside of a keyword that the steps lead through, and the steps to it."""
    if named:
        deeper, passed = inner.get(steps[0]), 1
    elif isinstance(inner, list) and len(steps) > 1 and steps[0].isdecimal():
        deeper, passed = inner[int(steps[0])] if int(steps[0]) < len(inner) else None, 1
    else:
        deeper, passed = inner, 0
    is_led_through = isinstance(deeper, dict) and len(steps) > passed and steps[passed] in deeper
    return (deeper, tuple(steps[:passed])) if is_led_through else None


def _remove(holder: dict[str, Any], keyword: str, name: str | None) -> None:
    """Remove a keyword, or one of its named parts, and what would refuse more without it."""
    if name is None:
        del holder[keyword]
    else:
        del holder[keyword][name]
    if keyword in _NAMED_PARTS:
        holder.pop("additionalProperties", None)
