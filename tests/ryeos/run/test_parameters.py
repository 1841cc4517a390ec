"""Parameters against the schema of a tool."""

import copy
import datetime as dt
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lillux.schema_keywords import SchemaError
from ryeos.items.errors import ParameterError
from ryeos.run.parameters import valid_parameters
from tests.support.workspace import Workspace

SCHEMA: dict[str, Any] = {
    "type": "object",
    "required": ["name"],
    "additionalProperties": False,
    "properties": {
        "name": {"type": "string"},
        "count": {"type": "integer", "default": 3},
        "deep": {"type": "object", "properties": {"x": {"default": [1]}}},
    },
}
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)


def test_defaults_are_filled_in_where_a_key_is_absent() -> None:
    checked = valid_parameters({"name": "a", "deep": {}}, SCHEMA)

    assert checked == {"name": "a", "count": 3, "deep": {"x": [1]}}


def test_a_default_value_is_not_shared_between_calls() -> None:
    first = valid_parameters({"name": "a", "deep": {}}, SCHEMA)
    first["deep"]["x"].append(2)

    assert valid_parameters({"name": "a", "deep": {}}, SCHEMA)["deep"] == {"x": [1]}


def test_every_violation_is_reported_at_once() -> None:
    with pytest.raises(ParameterError) as error:
        valid_parameters({"count": "many", "extra": 1}, SCHEMA)

    assert len(error.value.details) == 3
    assert str(error.value) == "Parameter validation failed: " + "; ".join(error.value.details)
    assert error.value.exit_status == 6


def test_the_hint_names_the_item() -> None:
    with pytest.raises(ParameterError) as error:
        valid_parameters({"title": "a"}, SCHEMA, ref="tool:mine/x")

    assert error.value.hint == "see what it takes: rye run tool:mine/x --help"


def test_a_misspelled_parameter_gets_a_suggestion() -> None:
    with pytest.raises(ParameterError) as error:
        valid_parameters({"nme": "a"}, SCHEMA, ref="tool:mine/x")

    assert error.value.hint == "did you mean name? found nme"


def test_text_for_a_number_is_reported_with_the_expected_type() -> None:
    with pytest.raises(ParameterError) as error:
        valid_parameters({"name": "a", "count": "abc"}, SCHEMA, ref="tool:mine/x")

    assert '/count: expected integer, found string "abc"' in str(error.value)
    assert error.value.hint == "see what it takes: rye run tool:mine/x --help"


@pytest.mark.parametrize("schema", [None, {}])
def test_without_a_schema_all_parameters_pass(schema: Mapping[str, Any] | None) -> None:
    parameters = {"anything": [1, {"a": None}], "tool_path": "x"}

    assert valid_parameters(parameters, schema) == parameters


@pytest.mark.parametrize("schema", [None, {"type": "object"}])
@pytest.mark.parametrize(
    ("value", "problem"),
    [
        (float("nan"), "/x: expected a finite number, found NaN"),
        (float("inf"), "/x: expected a finite number, found Infinity"),
        (b"bytes", "/x: expected a JSON value, found bytes"),
        (dt.date(2026, 1, 1), "/x: expected a JSON value, found date"),
        ({1: 2}, "/x: expected keys that are text, found one of type int"),
    ],
    ids=["nan", "inf", "bytes", "date", "key"],
)
def test_values_outside_of_json_are_refused(
    schema: Mapping[str, Any] | None, value: object, problem: str
) -> None:
    with pytest.raises(ParameterError) as error:
        valid_parameters({"x": value}, schema)

    assert str(error.value) == f"Parameter validation failed: {problem}"


@pytest.mark.parametrize("schema", [None, {"type": "object"}])
def test_a_recursive_value_is_refused(schema: Mapping[str, Any] | None) -> None:
    endless: dict[str, Any] = {}
    endless["self"] = endless

    with pytest.raises(ParameterError) as error:
        valid_parameters(endless, schema)

    assert str(error.value).endswith("expected at most 128 levels of nesting, found more")


def test_exempt_names_pass_a_closed_schema() -> None:
    checked = valid_parameters({"name": "a", "cwd": "/tmp"}, SCHEMA, ("timeout", "cwd"))

    assert checked == {"name": "a", "count": 3, "cwd": "/tmp"}


def test_an_exempt_name_that_the_schema_declares_is_checked() -> None:
    schema = {"properties": {"timeout": {"type": "integer"}}}

    with pytest.raises(ParameterError):
        valid_parameters({"timeout": "soon"}, schema, ("timeout",))


def test_an_invalid_schema_is_an_error_of_the_tool() -> None:
    with pytest.raises(SchemaError):
        valid_parameters({}, {"type": "nonsense"})


@given(parameters=st.dictionaries(st.text(), JSON))
def test_the_callers_mapping_is_never_changed(parameters: dict[str, Any]) -> None:
    before = copy.deepcopy(parameters)
    schema = {"properties": {"a": {"default": 1}, "b": {"properties": {"c": {"default": []}}}}}

    checked = valid_parameters(parameters, schema)

    assert parameters == before
    assert {name: checked[name] for name in parameters if name != "b"} == {
        name: parameters[name] for name in parameters if name != "b"
    }


# --- executions


def test_invalid_parameters_start_no_process(workspace: Workspace) -> None:
    canary = workspace.folder / "canary"
    workspace.project.signed_tool(
        "mine/strict", f"open({str(canary)!r}, 'w')", extra=f"CONFIG_SCHEMA = {SCHEMA!r}\n"
    )

    result = workspace.run("mine/strict", params={"count": "5"})

    assert result.metadata["error_code"] == "VALIDATION_FAILED"
    assert not canary.exists()


def test_a_tool_gets_the_defaults_of_its_schema(workspace: Workspace) -> None:
    workspace.project.signed_tool("mine/strict", extra=f"CONFIG_SCHEMA = {SCHEMA!r}\n")

    command = workspace.command("mine/strict", params={"name": "a"})

    assert command.stdin == b'{"name": "a", "count": 3}'


def test_parameters_may_be_declared_as_a_list(workspace: Workspace) -> None:
    workspace.project.signed_yaml(
        "mine/listed",
        """
        parameters:
          - {name: who, type: string, required: true}
          - {name: times, type: integer, default: 2}
        config: {script: echo}
        """,
    )

    result = workspace.run("mine/listed")
    command = workspace.command("mine/listed", params={"who": "me"})

    assert str(result.error).startswith("Parameter validation failed: ")
    assert command.stdin == b'{"who": "me", "times": 2}'


@pytest.mark.parametrize("spelling", ["config_schema", "input_schema"])
def test_a_schema_has_two_names(workspace: Workspace, spelling: str) -> None:
    workspace.project.signed_yaml(
        "mine/schema", f"{spelling}: {{required: [who]}}\nconfig: {{script: echo}}"
    )

    assert workspace.run("mine/schema").metadata["error_code"] == "VALIDATION_FAILED"


def test_a_parameter_list_of_the_wrong_shape_is_an_error(workspace: Workspace) -> None:
    path = workspace.project.yaml_tool("mine/listed", "parameters: [{type: string}]\n")
    workspace.project.sign_unchecked(path)

    result = workspace.run("mine/listed")

    assert result.metadata["error_code"] == "CONFIG_ERROR"


def test_resolved_config_cannot_be_slipped_past_a_closed_schema(workspace: Workspace) -> None:
    schema = {"additionalProperties": False}
    workspace.project.signed_tool("mine/closed", extra=f"CONFIG_SCHEMA = {schema!r}\n")

    result = workspace.run("mine/closed", params={"resolved_config": {"evil": True}})

    assert result.metadata["error_code"] == "VALIDATION_FAILED"


def test_a_tool_with_a_closed_schema_gets_its_resolved_config(workspace: Workspace) -> None:
    schema = {"additionalProperties": False}
    workspace.project.signed("config/mine/x.yaml", 'version: "1.0.0"\ncategory: mine\na: 1\n')
    workspace.project.signed_tool(
        "mine/closed",
        extra=f'CONFIG_SCHEMA = {schema!r}\nCONFIG_RESOLVE = {{"path": "mine/x.yaml"}}\n',
    )

    command = workspace.command("mine/closed", params={"resolved_config": "mine"})

    assert b'"resolved_config": {"version": "1.0.0", "category": "mine", "a": 1}' in command.stdin
