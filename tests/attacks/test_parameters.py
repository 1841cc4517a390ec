"""Parameters of a caller are data: they arrive as they are, and steer nothing."""

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ryeos.run.model import ExecutionRequest, ExecutionResult
from tests.support.workspace import Workspace

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the tools are shell scripts")

ECHO = """
import json, os, sys
json.dump({"got": json.load(sys.stdin), "cwd": os.getcwd(), "evil": os.environ.get("EVIL")},
          sys.stdout)
"""
HOSTILE = [
    *("${HOME}", "${SECRET_TOKEN}", "${X:-evil}", "{tool_path}", "{params_json}", "{project_path}"),
    *("{x}", "{{x}}", "}{", '"', "'", "\\", '\\"', "a\nb", "a\r\nb", "\0", "\x1b[31m", "\u2028"),
    *("$(id)", "`id`", "; id", "&& id", "| id", "> /tmp/x", "-rf", "--help", "--params", ""),
    *(" ", "\t", "'; exit 7; '", '"; exit 7; "', "$'\\x27'", "%s%n", "{}", "[]", "null", "NaN"),
    *("ü", "😀", "\ufeff", "\udc80", "\ud800", "<!-- rye:signed:", "# rye:signed:", "../../x"),
    "x" * 100_000,
]
RESERVED = [
    *("command", "args", "env", "input_data", "tool_path", "tool_dir", "params_json", "__x"),
    *("__class__", "project_path", "user_space", "system_space", "anchor_path", "runtime_lib"),
    *(
        "tool_id",
        "shell_script",
        "shell_name",
        "server",
        "tool_name",
        "fixed_params",
        "params_key",
        "config",
    ),
    *("executor_id", "resolved_config", "shell", "max_output_bytes", "script", "script_from"),
    *("dry_run", "trace", "thread", "async", "timeout_s", "extra_env", "${HOME}", "{x}", "", " "),
]


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory, bundle: Any) -> Workspace:  # noqa: ANN401
    """A workspace for many calls: a Python tool and a shell tool that return their parameters."""
    workspace = Workspace(tmp_path_factory.mktemp("parameters"), (bundle,))
    workspace.env |= {"SECRET_TOKEN": "s3cret", "X": "y"}
    workspace.project.signed_tool("mine/echo", ECHO)
    workspace.project.signed_yaml("mine/arg", "config: {script: 'printf %s {x}'}")
    workspace.project.signed_yaml("mine/quoted", """config: {script: 'printf "%s" "<{x}>"'}""")
    workspace.project.signed(
        "tools/mine/script.sh",
        '# version: 1.0.0\n# category: mine\n# description: x\n# tool_type: bash\nprintf %s "$1"\n',
    )
    return workspace


def call(workspace: Workspace, item_id: str, parameters: dict[str, Any]) -> ExecutionResult:
    return workspace.warm.executor.execute(ExecutionRequest(item_id=item_id, parameters=parameters))


def text_of(result: ExecutionResult) -> str:
    assert result.error is None, result.error
    data = result.data
    return str(data["stdout"]) if isinstance(data, dict) and "stdout" in data else json.dumps(data)


# --- a value arrives as it is


@pytest.mark.parametrize("value", HOSTILE, ids=lambda value: ascii(value)[:20])
def test_a_hostile_value_arrives_on_standard_input_as_it_is(shared: Workspace, value: str) -> None:
    result = call(shared, "mine/echo", {"x": value, "deep": [{"y": value}]})

    assert result.error is None
    assert result.data["got"] == {"x": value, "deep": [{"y": value}]}


@pytest.mark.heavy
@pytest.mark.property
@settings(max_examples=30, suppress_health_check=[HealthCheck.too_slow])
@given(
    parameters=st.dictionaries(
        st.text(min_size=1).filter(lambda name: name not in {"timeout", "cwd"}),
        st.recursive(
            st.none()
            | st.booleans()
            | st.integers()
            | st.text()
            | st.floats(allow_nan=False).filter(lambda number: abs(number) < 1e300),
            lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner),
            max_leaves=6,
        ),
        max_size=4,
    )
)
def test_parameters_of_any_shape_arrive_as_they_are(
    shared: Workspace, parameters: dict[str, Any]
) -> None:
    result = call(shared, "mine/echo", parameters)

    assert result.error is None
    assert result.data["got"] == parameters


@pytest.mark.parametrize("value", HOSTILE, ids=lambda value: ascii(value)[:20])
@pytest.mark.parametrize(("item_id", "around"), [("mine/arg", "{}"), ("mine/quoted", "<{}>")])
def test_a_hostile_value_is_one_word_of_a_shell_script(
    shared: Workspace, item_id: str, around: str, value: str
) -> None:
    result = call(shared, item_id, {"x": value})

    if "\0" in value or "\ud800" in value:  # no system passes these on a command line
        assert result.metadata["error_code"] == "CONFIG_ERROR"
    else:
        expected = around.replace("{}", value)
        data = result.data
        if not (isinstance(data, dict) and "stdout" in data):  # it happens to be JSON
            assert data == json.loads(expected)
        else:
            found = data["stdout"].encode("utf-8", "surrogateescape")
            assert (
                found
                == expected.encode("utf-8", "surrogateescape").decode("utf-8", "replace").encode()
            )


@pytest.mark.parametrize("value", HOSTILE[:-1], ids=lambda value: ascii(value)[:20])
def test_a_script_file_gets_hostile_values_as_json(shared: Workspace, value: str) -> None:
    result = call(shared, "mine/script", {"x": value})

    assert result.data == {"x": value}


def test_a_secret_of_the_environment_is_not_to_be_had(shared: Workspace) -> None:
    wish = "${SECRET_TOKEN} {env:SECRET_TOKEN} $SECRET_TOKEN"

    results = [
        call(shared, "mine/echo", {"x": wish, wish: wish}),
        call(shared, "mine/arg", {"x": wish}),
        call(shared, "mine/quoted", {"x": wish}),
        call(shared, "mine/script", {"x": wish}),
    ]

    assert [result.error for result in results] == [None] * 4
    assert "s3cret" not in json.dumps([result.data for result in results])


# --- names of parameters


@pytest.mark.parametrize("name", RESERVED)
def test_a_name_of_the_engine_is_a_parameter_like_any_other(shared: Workspace, name: str) -> None:
    value = {"EVIL": "1"} if name == "env" else "evil"

    result = call(shared, "mine/echo", {name: value})

    assert result.error is None
    assert result.data == {
        "got": {name: value},
        "cwd": str(shared.project_path.resolve()),
        "evil": None,
    }


def test_all_names_at_once_change_nothing_either(shared: Workspace) -> None:
    parameters = dict.fromkeys(RESERVED, "evil")

    plain = shared.command("mine/echo")
    command = shared.command("mine/echo", params=parameters)

    assert (command.argv, command.env, command.cwd) == (plain.argv, plain.env, plain.cwd)
    assert (command.timeout_s, command.max_output_bytes) == (
        plain.timeout_s,
        plain.max_output_bytes,
    )
    assert json.loads(command.stdin) == parameters


def test_the_names_of_templates_cannot_be_taken_over(shared: Workspace) -> None:
    tool = shared.project.signed_yaml(
        "mine/names",
        "config: {script: 'printf \"%s|\" {tool_path} {project_path} {mode}', mode: m}",
    )
    names = ("tool_path", "project_path", "mode", "shell_script", "params_json", "script")

    result = call(shared, "mine/names", dict.fromkeys(names, "/evil"))

    assert text_of(result) == f"{tool}|{shared.project_path}|m|"


def test_the_bash_tool_runs_no_parameter_but_its_command(shared: Workspace) -> None:
    canary = shared.folder / "canary"
    evil = f"touch {canary}"

    result = call(
        shared,
        "rye/bash/bash",
        {"command": "cat", "script": evil, "args": [evil], "input_data": evil, "x": evil},
    )

    assert not canary.exists()
    assert json.loads(result.data["stdout"])["input_data"] == evil


def test_a_value_cannot_become_an_option_of_the_interpreter(shared: Workspace) -> None:
    shared.project.signed_tool("mine/argv", "import sys, json; json.dump(sys.argv[1:], sys.stdout)")

    result = call(shared, "mine/argv", {"-c": "print('evil')", "--version": ""})

    assert result.data == ["--project-path", str(shared.project_path)]


# --- parameters that do not fit the schema


@pytest.mark.parametrize(
    ("parameters", "problem"),
    [
        ({"count": "5", "name": "a"}, "/count: expected integer"),
        ({"count": 5}, "/name: expected string (required)"),
        ({"count": 5, "name": "a", "extra": 1}, "unknown parameter extra, it takes name, count"),
        ({"count": True, "name": "a"}, "/count: expected integer"),
        ({"count": None, "name": None}, "/count: expected integer"),
        ({"count": 5, "name": "a\nb"}, "/name"),
        ({}, "/count: expected integer (required)"),
    ],
)
def test_parameters_that_do_not_fit_are_refused_before_anything_starts(
    shared: Workspace, parameters: dict[str, Any], problem: str
) -> None:
    canary = shared.folder / "started"
    schema = {
        "required": ["name", "count"],
        "additionalProperties": False,
        "properties": {
            "name": {"type": "string", "pattern": "^[a-z]*$"},
            "count": {"type": "integer"},
        },
    }
    shared.project.signed_tool(
        "mine/strict", f"open({str(canary)!r}, 'w')", extra=f"CONFIG_SCHEMA = {schema!r}\n"
    )

    result = call(shared, "mine/strict", parameters)

    assert result.metadata["error_code"] == "VALIDATION_FAILED"
    assert problem in str(result.error)
    assert not canary.exists()


def test_an_interpreter_and_a_library_are_not_chosen_by_an_env_file(shared: Workspace) -> None:
    evil = shared.project_path / "evil"
    evil.write_text("#!/bin/sh\necho evil\n", encoding="utf-8")
    evil.chmod(0o755)
    env_file = shared.project_path / ".env"
    lines = [f"{name}={evil}" for name in ("RYE_PYTHON", "RYE_BASH", "LD_PRELOAD", "BASH_ENV")]
    env_file.write_text("\n".join([*lines, f"PATH={evil.parent}", "OWN=mine"]), encoding="utf-8")
    shared.approve()
    try:
        python = call(shared, "mine/echo", {})
        shell = call(shared, "rye/bash/bash", {"command": 'echo "$OWN $PATH"'})
    finally:
        env_file.unlink()

    assert python.data["got"] == {}
    assert shell.data["stdout"] == f"mine {os.environ['PATH']}\n"
    assert Path(evil).exists()
