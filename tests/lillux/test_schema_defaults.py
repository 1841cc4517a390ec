"""Which defaults a value gets."""

from copy import deepcopy
from datetime import date
from typing import Any

import pytest

from lillux.schema import with_defaults
from lillux.schema_keywords import SchemaError


def test_absent_keys_get_their_defaults_at_any_depth() -> None:
    schema = {
        "properties": {
            "a": {"properties": {"b": {"default": [1]}, "c": {"default": 2}}},
            "d": {"default": {}, "properties": {"e": {"default": "x"}}},
            "f": {"properties": {"g": {"default": 1}}},
        }
    }

    filled = with_defaults({"a": {"c": None}}, schema)

    assert filled == {"a": {"b": [1], "c": None}, "d": {"e": "x"}}


def test_defaults_are_copies_and_the_value_stays_as_it_was() -> None:
    schema: dict[str, Any] = {"properties": {"a": {"default": [1]}, "b": {}}}
    value: dict[str, Any] = {"b": {"c": 1}}
    before = deepcopy(value)

    first: Any = with_defaults(value, schema)
    first["a"].append(2)
    second = with_defaults(value, schema)

    assert value == before
    assert second == {"a": [1], "b": {"c": 1}}
    assert schema["properties"]["a"]["default"] == [1]


def test_defaults_behind_a_reference_count_the_nearest_first() -> None:
    schema = {
        "$ref": "#/$defs/base",
        "properties": {"near": {"$ref": "#/$defs/number", "default": 1}},
        "$defs": {
            "base": {"properties": {"far": {"$ref": "#/$defs/number"}, "near": {"default": 9}}},
            "number": {"default": 2},
        },
    }

    assert with_defaults({}, schema) == {"near": 1, "far": 2}


@pytest.mark.parametrize("keyword", ["anyOf", "allOf", "oneOf"])
def test_alternatives_and_items_give_no_defaults(keyword: str) -> None:
    inner = {"properties": {"a": {"default": 1}}}
    schema = {keyword: [inner], "properties": {"list": {"items": inner}}}

    assert with_defaults({"list": [{}]}, schema) == {"list": [{}]}


def test_a_default_of_null_counts_only_where_null_is_allowed() -> None:
    schema = {
        "properties": {
            "unset": {"type": "string", "default": None},
            "null": {"type": ["string", "null"], "default": None},
        }
    }

    assert with_defaults({}, schema) == {"null": None}


@pytest.mark.parametrize("value", ["text", [1], {"a": date(2026, 1, 2)}])
def test_a_value_without_keys_or_that_is_no_json_comes_back_as_it_is(value: object) -> None:
    assert with_defaults(value, {"properties": {"b": {"default": 1}}}) is value


@pytest.mark.parametrize(
    "schema",
    [
        {"properties": {"a": {"$ref": "#", "default": {}}}},
        {"properties": {name: {"$ref": "#", "default": {}} for name in "ab"}},
        {
            "$ref": "#/$defs/0",
            "$defs": {"20": {}}
            | {
                str(n): {
                    "properties": {
                        name: {"$ref": f"#/$defs/{n + 1}", "default": {}} for name in "ab"
                    }
                }
                for n in range(20)
            },
        },
    ],
    ids=["one in itself", "two in themselves", "a million"],
)
def test_defaults_without_end_are_refused(schema: dict[str, Any]) -> None:
    with pytest.raises(SchemaError) as error:
        with_defaults({}, schema)

    assert str(error.value) == "schema (root): its defaults have no end, see /a/a/a"


def test_a_recursive_schema_fills_as_deep_as_the_value_goes() -> None:
    schema = {"properties": {"next": {"$ref": "#"}, "n": {"default": 0}}}

    filled = with_defaults({"next": {"next": {"n": 1}}}, schema)

    assert filled == {"n": 0, "next": {"n": 0, "next": {"n": 1}}}
