"""The parameters of an execution that a node keeps."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rye_services.node.worker.jobs import (
    MAX_KEPT_BYTES,
    RecordedInputs,
    given_to,
    read_given,
    secret_names,
)


def kept(parameters: dict[str, Any], *secret: str, vault: str = "\0") -> RecordedInputs:
    """The kept parameters where these names are secret, and a value is in the vault."""

    def mask(text: str) -> str:
        return text.replace(vault, "***")

    return given_to(parameters, secret, mask, vault_keys=None, is_sealed=False)


@pytest.mark.parametrize(
    "mark",
    [
        {"writeOnly": True},
        {"type": "string", "format": "password"},
        {"type": "object", "properties": {"deep": {"writeOnly": True}}},
        {"type": "array", "items": {"format": "password"}},
        {"anyOf": [{"type": "null"}, {"writeOnly": True}]},
    ],
)
def test_a_mark_anywhere_below_a_property_makes_it_secret(mark: dict[str, Any]) -> None:
    schema = {"properties": {"a": mark, "b": {"type": "string"}}}

    assert secret_names(schema, {"a": 1, "b": 2}) == ["a"]


@pytest.mark.parametrize("place", ["$defs", "allOf", "patternProperties", "additionalProperties"])
def test_a_misplaced_mark_makes_all_parameters_secret(place: str) -> None:
    schema = {"properties": {"a": {}}, place: {"x": {"writeOnly": True}}}

    assert secret_names(schema, {"b": 2, "a": 1}) == ["a", "b"]


@pytest.mark.parametrize(
    "schema", [None, {}, {"properties": []}, {"properties": {"a": {"writeOnly": False}}}]
)
def test_parameters_without_a_mark_are_not_secret(schema: dict[str, Any] | None) -> None:
    assert secret_names(schema, {"a": 1}) == []


def test_a_schema_that_is_very_deep_makes_all_secret() -> None:
    schema: dict[str, Any] = {}
    for _ in range(2000):
        schema = {"items": schema}

    assert secret_names({"properties": {"a": schema}}, {"a": 1}) == ["a"]


@pytest.mark.parametrize(
    "name", ["password", "DB_PASSWORD", "apiKey", "key", "session", "GitHubToken", "client secret"]
)
def test_a_name_that_says_secret_is_left_out_also_within_a_value(name: str) -> None:
    assert kept({name: "x", "a": 1}).dump()["left_out"] == [name]
    assert kept({"of": [{name: "x"}], "a": 1}).dump()["left_out"] == ["of"]


@pytest.mark.parametrize("name", ["max_tokens", "sort_key", "tokenizer", "passage"])
def test_an_ordinary_name_is_kept(name: str) -> None:
    assert kept({name: 1}).is_whole


@pytest.mark.parametrize(
    "value", ["a-vault-value", ["b", {"c": "say a-vault-value twice"}], {"a-vault-value": 1}]
)
def test_a_value_of_the_vault_is_left_out(value: object) -> None:
    found = kept({"x": value, "y": 1}, vault="a-vault-value")

    assert (found.parameters, found.left_out, found.is_whole) == ({"y": 1}, ("x",), False)


def test_parameters_that_are_large_together_are_not_kept() -> None:
    assert kept({"x": "é" * (MAX_KEPT_BYTES // 2 - 10)}).is_whole
    assert kept({"x": "é" * (MAX_KEPT_BYTES // 2)}).parameters is None


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=8,
)


@pytest.mark.property
@given(st.dictionaries(st.text(max_size=8), JSON, max_size=4), st.sets(st.text(max_size=8)))
def test_kept_parameters_are_read_back_without_secrets(
    parameters: dict[str, Any], secret: set[str]
) -> None:
    found = kept(parameters, *secret, *list(parameters)[:1])

    assert read_given(json.loads(json.dumps(found.dump()))) == found
    assert not secret & set(found.parameters or ())
    assert {*(found.parameters or ()), *found.left_out} == {*parameters}


@pytest.mark.parametrize("value", [None, {}, [], {"parameters": {}, "left_out": "a"}, "x"])
def test_a_column_of_another_form_is_read_as_no_parameters(value: object) -> None:
    assert read_given(value) is None
