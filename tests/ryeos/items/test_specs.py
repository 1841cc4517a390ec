from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lillux.errors import LilluxError
from lillux.fields import ABSENT
from ryeos.items.errors import SpecError
from ryeos.items.specs import SPELLINGS, ParamsMode, header_field, tool_spec, type_name

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=6,
)
KEYS = st.sampled_from(sorted({name for names in SPELLINGS.values() for name in names}))


def problem(header: Mapping[str, Any]) -> str:
    with pytest.raises(SpecError) as error:
        tool_spec(header, ".py")
    return str(error.value)


def test_an_empty_header_gives_empty_fields() -> None:
    spec = tool_spec({}, ".py")

    assert (spec.version, spec.tool_type, spec.category, spec.description) == (None, None, None, "")
    assert spec.executor_id is ABSENT
    assert (spec.config, spec.config_schema, spec.anchor) == ({}, None, None)
    assert spec.params_mode is ParamsMode.AUTO


def test_a_shell_script_runs_in_bash_unless_it_says_otherwise() -> None:
    plain, own = (
        tool_spec({"version": "1.0.0"}, ".sh"),
        tool_spec({"executor_id": "mine/sh"}, ".sh"),
    )

    assert (plain.tool_type, plain.executor_id) == ("bash", "rye/core/runtimes/bash/bash")
    assert own.executor_id == "mine/sh"
    assert tool_spec({}, ".sh").executor_id is ABSENT


def test_an_explicit_null_ends_the_chain() -> None:
    assert tool_spec({"executor_id": None}, ".yaml").executor_id is None
    assert tool_spec({"executor_id": None}, ".sh").executor_id is None


@pytest.mark.parametrize(
    ("spelling", "field"),
    [(spelling, field) for field, names in SPELLINGS.items() for spelling in names],
)
def test_a_field_has_several_spellings(spelling: str, field: str) -> None:
    assert header_field({spelling: "value"}, field) == "value"


def test_the_first_spelling_wins() -> None:
    assert header_field({"version": "2", "__version__": "1"}, "version") == "1"
    assert header_field({"x": 1}, "version") is ABSENT
    assert header_field({"x": 1}, "x") == 1


def test_unknown_keys_are_kept() -> None:
    spec = tool_spec({"version": "1.0.0", "mine": 1, "__any__": [2]}, ".py")

    assert spec.unrecognized == {"mine": 1, "__any__": [2]}


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ({"version": 1}, "version: expected a string, got integer"),
        ({"tool_type": []}, "tool_type: expected a string, got list"),
        ({"__executor_id__": ""}, "executor_id: expected an id or null, got string"),
        ({"executor_id": 5}, "executor_id: expected an id or null, got integer"),
        ({"config": "x"}, "config: expected a mapping, got string"),
        ({"ENV_CONFIG": [1]}, "env_config: expected a mapping, got list"),
        ({"anchor": True}, "anchor: expected a mapping, got boolean"),
        ({"verify_deps": "all"}, "verify_deps: expected a mapping, got string"),
        ({"config_schema": []}, "config_schema: expected a mapping, got list"),
        ({"inputs": "a"}, "inputs: expected a list of names, got string"),
        ({"outputs": ["a", 5]}, "outputs[1]: expected a name, got integer"),
        ({"parameters": {}}, "parameters: expected a list, got mapping"),
        (
            {"params_mode": "both!"},
            "params_mode: expected one of auto, stdin, args, both, got 'both!'",
        ),
        ({"variants": {}}, "variants: expected a list, got mapping"),
        ({"variants": [{}]}, "variants[0]: expected a mapping with suffixes and config"),
    ],
)
def test_a_wrong_type_is_named_with_its_path(header: dict[str, Any], expected: str) -> None:
    assert problem(header) == expected


def test_names_may_be_a_list_or_the_keys_of_a_mapping() -> None:
    listed = tool_spec({"inputs": ["a", {"name": "b"}], "outputs": {"c": {}, "d": {}}}, ".py")

    assert (listed.inputs, listed.outputs) == (("a", "b"), ("c", "d"))


def test_older_tools_keep_the_mode_of_parameters_in_their_config() -> None:
    assert tool_spec({"config": {"params_mode": "args"}}, ".py").params_mode is ParamsMode.ARGS
    assert tool_spec({"config": {"params_mode": 5}}, ".py").params_mode is ParamsMode.AUTO


def test_a_list_of_parameters_becomes_a_schema() -> None:
    spec = tool_spec({"parameters": [{"name": "a", "type": "string", "required": True}]}, ".py")

    assert spec.config_schema is not None
    assert spec.config_schema["required"] == ["a"]


def test_a_schema_wins_over_a_list_of_parameters() -> None:
    spec = tool_spec({"config_schema": {"type": "object"}, "parameters": 5}, ".py")

    assert spec.config_schema == {"type": "object"}


@pytest.mark.parametrize(
    ("value", "name"),
    [
        (None, "null"),
        (True, "boolean"),
        (1, "integer"),
        (1.5, "number"),
        ("", "string"),
        ([], "list"),
        ({}, "mapping"),
        (b"", "bytes"),
    ],
)
def test_a_type_has_its_name_in_json(value: object, name: str) -> None:
    assert type_name(value) == name


@given(header=st.dictionaries(KEYS | st.text(max_size=4), JSON, max_size=5))
def test_any_header_is_a_value_or_a_named_problem(header: dict[str, Any]) -> None:
    with suppress(LilluxError):
        tool_spec(header, ".py")
