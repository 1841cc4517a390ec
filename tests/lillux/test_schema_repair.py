"""Schemas of others: what cannot be read is left out and named, and nothing is refused more."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lillux.schema import violations
from lillux.schema_keywords import SchemaError
from lillux.schema_repair import readable_schema

LETTERS = r"^[\p{L}]+$"


@pytest.mark.parametrize(
    ("schema", "readable", "pointers"),
    [
        ({"type": "object"}, {"type": "object"}, []),
        (
            {"properties": {"n": {"type": "string", "pattern": LETTERS}}},
            {"properties": {"n": {"type": "string"}}},
            ["/properties/n/pattern"],
        ),
        ({"properties": None}, {}, ["/properties"]),
        ({"properties": {"a": {"enum": []}}}, {"properties": {"a": {}}}, ["/properties/a/enum"]),
        ({"properties": {"a": True, "b": False}}, {"properties": {"a": True, "b": False}}, []),
        ({"properties": {"a": None, "b": {}}}, {"properties": {"b": {}}}, ["/properties/a"]),
        ({"properties": {"a": {"type": "date"}}}, {"properties": {"a": {}}},
         ["/properties/a/type"]),
        ({"properties": {"a": {"type": ["string", 3]}}}, {"properties": {"a": {}}},
         ["/properties/a/type"]),
        ({"required": None, "allOf": []}, {}, ["/allOf", "/required"]),
        ({"$defs": None}, {}, ["/$defs"]),
        ({"properties": {"a": {"$ref": "http://x/y"}}}, {"properties": {"a": {}}},
         ["/properties/a/$ref"]),
        ({"anyOf": [{"pattern": LETTERS}, {"type": "object"}]},
         {"anyOf": [{}, {"type": "object"}]}, ["/anyOf/0/pattern"]),
        ({"properties": {"a/b~": {"minimum": "1"}}}, {"properties": {"a/b~": {}}},
         ["/properties/a~1b~0/minimum"]),
        ({"properties": {"f": {"format": "iri-of-mine"}}},
         {"properties": {"f": {"format": "iri-of-mine"}}}, []),
    ],
)  # fmt: skip
def test_a_part_that_cannot_be_read_is_left_out_and_named(
    schema: dict[str, Any], readable: dict[str, Any], pointers: list[str]
) -> None:
    found, left_out = readable_schema(schema)

    assert found == readable
    assert sorted(one.pointer for one in left_out) == pointers


@pytest.mark.parametrize(
    "schema",
    [
        {"not": {"pattern": LETTERS}},
        {"oneOf": [{"pattern": LETTERS}, {"type": "string"}]},
        {"if": {"pattern": LETTERS}, "then": False},
        {"patternProperties": {LETTERS: {}}, "additionalProperties": False},
        {"properties": None, "additionalProperties": False},
        {"allOf": [{"not": {"enum": []}}]},
    ],
)
@pytest.mark.parametrize("value", ["text", {"name": 1}, 5])
def test_what_is_left_out_refuses_nothing(schema: dict[str, Any], value: object) -> None:
    found, left_out = readable_schema(schema)

    assert violations(value, found) == ()
    assert left_out


def test_the_schema_that_was_given_stays_as_it_is() -> None:
    given_schema = {"properties": {"n": {"pattern": LETTERS}}}

    readable_schema(given_schema)

    assert given_schema == {"properties": {"n": {"pattern": LETTERS}}}


def test_a_schema_that_is_wrong_everywhere_is_refused() -> None:
    properties = {f"p{number}": {"type": "odd"} for number in range(200)}

    with pytest.raises(SchemaError):
        readable_schema({"properties": properties})


_KEYWORDS = st.sampled_from(
    ["type", "properties", "items", "not", "oneOf", "anyOf", "enum", "pattern", "$ref", "$defs",
     "required", "additionalProperties", "if", "minimum", "patternProperties", "dependencies"]
)  # fmt: skip
_SCHEMAS = st.recursive(
    st.none() | st.booleans() | st.integers() | st.sampled_from(["object", LETTERS, "#/$defs/a"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_KEYWORDS, inner, max_size=3),
    max_leaves=12,
)


@pytest.mark.property
@given(st.dictionaries(_KEYWORDS, _SCHEMAS, max_size=4))
def test_whatever_a_schema_holds_a_readable_one_comes_of_it(schema: dict[str, Any]) -> None:
    found, _ = readable_schema(schema)

    violations({"a": 1}, found)
