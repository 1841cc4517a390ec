"""Parameter schemas, bent into what a provider accepts."""

import json
from typing import Any

import pytest

from lillux.fields import Fields
from ryeos.agent.schemas import SchemaRules, bend, schema_rules

KEEP = SchemaRules(root="keep")
MERGE = SchemaRules()
CITY = {"type": "string", "minLength": 1}


def strict(*unsupported: str) -> SchemaRules:
    """Rules with keywords that are not accepted."""
    return SchemaRules(unsupported=frozenset(unsupported))


@pytest.mark.parametrize("schema", [{}, {"title": "T"}, {"type": ["object", "null"]}])
def test_the_root_is_always_an_object(schema: dict[str, Any]) -> None:
    bent = bend(schema, KEEP)

    assert (bent["type"], bent["properties"]) == ("object", {})


def test_a_plain_schema_stays_and_loses_only_remarks() -> None:
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "properties": {"$id": CITY, "x-city": {**CITY, "x-mcp-digest": "d", "$comment": "c"}},
        "required": ["x-city"],
        "additionalProperties": False,
    }
    before = json.dumps(schema)

    bent = bend(schema, MERGE)

    assert bent == {
        "type": "object",
        "properties": {"$id": CITY, "x-city": CITY},
        "required": ["x-city"],
        "additionalProperties": False,
    }
    assert json.dumps(schema) == before


def test_one_of_at_the_root_becomes_all_properties_and_what_every_form_requires() -> None:
    schema = {
        "type": "object",
        "oneOf": [
            {"properties": {"do": {"const": "make"}, "name": CITY}, "required": ["do", "name"]},
            {"properties": {"do": {"const": "drop"}, "id": CITY}, "required": ["do", "id"]},
        ],
        "additionalProperties": False,
    }

    assert bend(schema, MERGE) == {
        "type": "object",
        "properties": {"do": {"enum": ["make", "drop"]}, "name": CITY, "id": CITY},
        "required": ["do"],
    }


def test_any_of_that_only_requires_keeps_what_the_root_requires() -> None:
    schema = {
        "type": "object",
        "properties": {"a": CITY, "b": CITY, "c": CITY},
        "required": ["c"],
        "anyOf": [{"required": ["a"]}, {"required": ["b"]}],
        "additionalProperties": False,
    }

    bent = bend(schema, MERGE)

    assert bent == {key: value for key, value in schema.items() if key != "anyOf"}


def test_a_branch_that_allows_everything_leaves_nothing_required() -> None:
    schema = {"anyOf": [True, False, {"required": ["a"]}], "properties": {"a": CITY}}

    assert bend(schema, MERGE) == {"type": "object", "properties": {"a": CITY}}


def test_of_too_many_branches_none_is_required_and_none_is_excluded() -> None:
    branches = [{"required": ["a"], "properties": {"a": CITY}}] * 300
    schema = {"anyOf": branches, "additionalProperties": False}

    assert bend(schema, MERGE) == {"type": "object", "properties": {"a": CITY}}


def test_all_of_and_a_reference_at_the_root_count_in_full() -> None:
    schema = {
        "$ref": "#/$defs/one",
        "allOf": [{"properties": {"b": {"type": "integer"}}, "required": ["b"]}],
        "$defs": {"one": {"properties": {"a": CITY}, "required": ["a"], "title": "One"}},
    }

    bent = bend(schema, MERGE)

    assert (bent["properties"], bent["required"]) == (
        {"b": {"type": "integer"}, "a": CITY},
        ["a", "b"],
    )
    assert not bent.keys() & {"$ref", "allOf", "anyOf", "oneOf"}


def test_a_property_of_two_forms_is_either() -> None:
    number = {"type": "number"}
    schema = {"anyOf": [{"properties": {"a": CITY}}, {"properties": {"a": number}}]}

    assert bend(schema, MERGE)["properties"] == {"a": {"anyOf": [CITY, number]}}


def test_below_the_root_choices_stay() -> None:
    choice = {"oneOf": [CITY, {"type": "null"}]}

    assert bend({"properties": {"a": choice}}, MERGE)["properties"] == {"a": choice}


def test_keywords_that_are_not_supported_are_left_out_at_every_level_but_not_names() -> None:
    schema = {
        "properties": {"pattern": {"type": "string", "pattern": "x", "format": "date"}},
        "patternProperties": {"a": {"pattern": "y"}},
        "items": [{"pattern": "z"}],
        "not": {"anyOf": [{"pattern": "q", "minimum": 1}]},
        "required": ["pattern"],
    }

    assert bend(schema, strict("pattern", "format", "patternProperties")) == {
        "type": "object",
        "properties": {"pattern": {"type": "string"}},
        "items": [{}],
        "not": {"anyOf": [{"minimum": 1}]},
        "required": ["pattern"],
    }


def test_a_keyword_is_replaced_where_another_one_says_the_same() -> None:
    schema = {"properties": {"a": {"const": 1}, "b": {"oneOf": [{"const": 2}]}}}

    replaced = bend(schema, strict("const", "oneOf"))["properties"]
    dropped = bend(schema, strict("const", "oneOf", "enum", "anyOf"))["properties"]

    assert replaced == {"a": {"enum": [1]}, "b": {"anyOf": [{"enum": [2]}]}}
    assert dropped == {"a": {}, "b": {}}


def test_references_are_written_out_and_one_that_contains_itself_allows_anything_there() -> None:
    tree = {"type": "object", "properties": {"child": {"$ref": "#/$defs/tree"}, "a": CITY}}
    schema = {
        "properties": {"t": {"$ref": "#/$defs/tree", "title": "T"}, "u": {"$ref": "http://x/y"}},
        "$defs": {"tree": tree},
    }

    bent = bend(schema, strict("$ref"))

    assert bent["properties"]["t"] == {**tree, "properties": {"child": {}, "a": CITY}, "title": "T"}
    assert bent["properties"]["u"] == {}
    assert "$defs" not in bent


def test_additional_properties_are_demanded_or_refused_at_every_object() -> None:
    inner = {"type": "object", "properties": {}, "additionalProperties": {"type": "string"}}
    schema = {"properties": {"a": inner, "b": CITY}, "required": ["a", "z"]}

    demanded = bend(schema, SchemaRules(additional_properties="demand"))
    refused = bend(schema, SchemaRules(additional_properties="refuse"))

    assert demanded["additionalProperties"] is False
    assert demanded["properties"]["a"]["additionalProperties"] is False
    assert demanded["properties"]["b"] == CITY
    assert demanded["required"] == ["a"]  # what is required has to be declared there
    assert "additionalProperties" not in json.dumps(refused)


@pytest.mark.parametrize(
    "schema",
    [
        {"anyOf": [{"$ref": "#"}] * 100},
        {"allOf": [{"$ref": "#"}, {"anyOf": [{"$ref": "#"}] * 9}]},
        {
            "properties": {"a": {"$ref": "#/$defs/0"}},
            "$defs": {
                str(place): {
                    "properties": {str(n): {"$ref": f"#/$defs/{place + 1}"} for n in range(20)}
                }
                for place in range(20)
            },
        },
    ],
)
def test_a_schema_that_doubles_itself_ends(schema: dict[str, Any]) -> None:
    bent = bend(schema, strict("$ref"))

    assert len(json.dumps(bent)) < 100_000


def test_a_provider_changes_what_it_accepts() -> None:
    config = {"root": "keep", "unsupported": ["format"]}

    assert schema_rules(Fields(config, wrong), MERGE) == SchemaRules(
        root="keep", unsupported=frozenset({"format"})
    )
    for bad in ({"root": "x"}, {"additional_properties": True}, {"unsupported": [1]}):
        with pytest.raises(ValueError, match="expected"):
            schema_rules(Fields(bad, wrong), MERGE)


def wrong(key: str, expected: str, _: object) -> None:
    raise ValueError(f"{key}: expected {expected}")
