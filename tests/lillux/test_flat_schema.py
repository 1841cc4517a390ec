"""The short way has the verdict of the long one, or no verdict."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lillux.flat_schema import fitted
from lillux.schema import violations, with_defaults

NAMES = st.sampled_from(["a", "b", "c", "command"])
SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5)
VALUES = SCALARS | st.lists(SCALARS, max_size=2) | st.dictionaries(NAMES, SCALARS, max_size=2)
TYPES = st.sampled_from(["string", "integer", "number", "boolean", "array", "object", "null", "x"])


@st.composite
def property_schemas(draw: st.DrawFn) -> dict[str, Any]:
    rules: dict[str, Any] = {"type": draw(TYPES)}
    if draw(st.booleans()):
        rules["default"] = draw(SCALARS)
    if draw(st.booleans()):
        rules["minLength"] = draw(st.integers(-1, 3))
    if draw(st.booleans()):
        rules[draw(st.sampled_from(["description", "title", "enum", "pattern", "const"]))] = "a"
    return rules


@st.composite
def schemas(draw: st.DrawFn) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": draw(st.sampled_from(["object", "array"]))}
    schema["properties"] = draw(st.dictionaries(NAMES, property_schemas(), max_size=3))
    if draw(st.booleans()):
        schema["required"] = draw(st.lists(NAMES, max_size=3))
    if draw(st.booleans()):
        schema["additionalProperties"] = draw(st.booleans())
    return schema


@pytest.mark.property
@given(schemas(), st.dictionaries(NAMES, VALUES, max_size=3))
def test_an_accepted_value_is_valid_and_has_the_same_defaults(
    schema: dict[str, Any], value: dict[str, Any]
) -> None:
    filled = fitted(value, schema)

    if filled is not None:
        assert violations(filled, schema) == ()
        assert filled == with_defaults(value, schema)


def test_a_plain_schema_is_judged_and_its_defaults_are_filled_in() -> None:
    schema = {
        "type": "object",
        "required": ["command"],
        "properties": {
            "command": {"type": "string", "minLength": 1, "description": "what to run"},
            "times": {"type": "integer", "default": 2},
        },
    }

    filled = fitted({"command": "ls"}, schema)

    assert filled == {"command": "ls", "times": 2}


@pytest.mark.parametrize(
    "value",
    [
        {},
        {"command": ""},
        {"command": 1},
        {"command": "ls", "other": 1},
        {"command": "\udcff"},
    ],
)
def test_other_values_are_left_to_the_library(value: dict[str, Any]) -> None:
    schema = {
        "type": "object",
        "required": ["command"],
        "properties": {"command": {"type": "string", "minLength": 1}},
    }

    filled = fitted(value, schema)

    assert filled is None


def test_the_value_and_the_schema_are_never_changed() -> None:
    value: dict[str, Any] = {}
    schema = {"type": "object", "properties": {"a": {"type": "integer", "default": 1}}}

    filled = fitted(value, schema)

    assert (value, filled) == ({}, {"a": 1})
