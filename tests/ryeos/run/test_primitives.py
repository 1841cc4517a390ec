"""Running a command without a chain."""

import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from lillux.errors import ConfigurationError
from lillux.process.model import SpawnError
from ryeos.run.engine import PrimitiveExecutor
from ryeos.run.primitives import (
    ExecutePrimitive,
    ExecuteResult,
    StateGraphPrimitive,
    SubprocessPrimitive,
)
from tests.support.scripted_process import Answer, ScriptedProcess

ENV = {"PATH": os.environ["PATH"]}


def execute(config: dict[str, Any], **params: object) -> ExecuteResult:
    return ExecutePrimitive(process_env=ENV).execute(config, params)


def test_the_older_api_maps_ids_to_primitives() -> None:
    assert PrimitiveExecutor.PRIMITIVE_MAP["rye/core/primitives/execute"] is ExecutePrimitive
    assert PrimitiveExecutor.PRIMITIVE_MAP["rye/core/primitives/subprocess"] is SubprocessPrimitive
    assert PrimitiveExecutor.PRIMITIVE_MAP["rye/core/primitives/state_graph"] is StateGraphPrimitive
    assert issubclass(SubprocessPrimitive, ExecutePrimitive)
    assert PrimitiveExecutor.MAX_CHAIN_DEPTH == 10


def test_a_command_is_filled_and_run() -> None:
    result = execute(
        {
            "command": "${SHELL_PROGRAM:-sh}",
            "args": ["-c", 'echo "$0 $1"; cat; echo note >&2', "{a}", "${GREETING}"],
            "input_data": "<{a}>",
            "env": {"GREETING": "hi"},
        },
        a="x y",
    )

    assert (result.success, result.return_code, result.signal) == (True, 0, None)
    assert (result.stdout, result.stderr) == ("x y hi\n<x y>", "note\n")
    assert result.duration_ms > 0


def test_values_in_a_shell_string_are_words() -> None:
    result = execute({"command": "sh", "args": ["-c", "printf '[%s]' {a}"]}, a="$(exit 7); 'b'")

    assert result.stdout == "[$(exit 7); 'b']"


def test_inserted_values_are_not_expanded_again() -> None:
    result = execute({"command": "printf", "args": ["%s", "{a}"]}, a="${PATH} {a}")

    assert result.stdout == "${PATH} {a}"


def test_unknown_names_are_kept_and_missing_variables_are_empty() -> None:
    result = execute({"command": "printf", "args": ["%s|%s|%s", "{a}", "${B}", "${B:-c}"]})

    assert result.stdout == "{a}||c"


@pytest.mark.parametrize("config", [{}, {"command": ""}, {"command": " "}, {"command": "${NONE}"}])
def test_without_a_command_no_process_starts(config: dict[str, Any]) -> None:
    result = execute(config)

    assert (result.success, result.stderr, result.return_code) == (
        False,
        "No command specified",
        -1,
    )


@pytest.mark.parametrize(
    ("config", "stderr"),
    [
        ({"command": "/no/such/program"}, "Failed to spawn: program '/no/such/program': "),
        ({"command": "sh", "args": ["\0"]}, "Failed to spawn: argv[1]: expected text without NUL"),
        ({"command": "sh", "args": "text"}, "Failed to spawn: config.args: expected a list"),
        ({"command": "sh", "cwd": "/no/such/folder"}, "Failed to spawn: "),
        ({"command": "sh", "env": ["A=1"]}, "Failed to spawn: config.env: expected a mapping"),
        ({"command": "sh", "timeout": "5"}, "Failed to spawn: config.timeout: expected a number"),
        ({"command": "sh", "timeout": -1}, "Failed to spawn: config.timeout: expected a number"),
    ],
)
def test_a_program_that_cannot_be_started_gives_a_result(
    config: dict[str, Any], stderr: str
) -> None:
    result = execute(config, a="x")

    assert (result.success, result.return_code) == (False, -1)
    assert result.stderr.startswith(stderr)


def test_an_exit_code_is_kept() -> None:
    result = execute({"command": "sh", "args": ["-c", "exit 42"]})

    assert (result.success, result.return_code) == (False, 42)


def test_a_signal_is_kept_beside_the_code() -> None:
    result = execute({"command": "sh", "args": ["-c", "kill -KILL $$"]})

    assert (result.success, result.return_code) == (False, -1)
    assert result.signal == signal.SIGKILL


def test_a_timeout_ends_the_command_and_is_reported() -> None:
    code = "import time; print('begun', flush=True); time.sleep(60)"

    result = execute({"command": sys.executable, "args": ["-c", code], "timeout": 1})

    assert (result.success, result.return_code, result.stdout) == (False, -1, "begun\n")
    assert result.stderr == "Command timed out after 1 seconds"


@pytest.mark.parametrize("timeout", [0, None])
def test_a_missing_timeout_means_no_limit(timeout: object) -> None:
    scripted = ScriptedProcess(Answer())

    ExecutePrimitive(scripted, ENV).execute({"command": "x", "timeout": timeout})

    assert scripted.commands[0].timeout_s is None


def test_the_usual_timeout_is_five_minutes() -> None:
    scripted = ScriptedProcess(Answer())

    ExecutePrimitive(scripted, ENV).execute({"command": "x", "cwd": "/tmp"})

    assert (scripted.commands[0].timeout_s, scripted.commands[0].cwd) == (300, Path("/tmp"))


def test_a_few_variables_extend_the_environment_and_many_replace_it() -> None:
    many = {f"V{number}": "1" for number in range(49)} | {"PATH": "/bin"}
    scripted = ScriptedProcess(Answer(), Answer(), Answer())
    primitive = ExecutePrimitive(scripted, {"PATH": "/usr/bin", "A": "1"})

    primitive.execute({"command": "x", "env": {"B": 2}})
    primitive.execute({"command": "x", "env": many})
    del many["PATH"]
    primitive.execute({"command": "x", "env": {**many, "W": "1"}})

    few, whole, pathless = (command.env for command in scripted.commands)
    assert few == {"PATH": "/usr/bin", "A": "1", "B": "2"}
    assert whole == {**many, "PATH": "/bin"}
    assert pathless["PATH"] == "/usr/bin"


def test_an_error_of_the_system_is_a_result() -> None:
    scripted = ScriptedProcess(SpawnError("x", "too many files"))

    result = ExecutePrimitive(scripted, ENV).execute({"command": "x"})

    assert result.stderr == "Failed to spawn: program 'x': too many files"


def test_the_older_name_reports_a_missing_program(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError) as error:
        SubprocessPrimitive(process_env={"PATH": str(tmp_path)})

    assert str(error.value) == (
        "PATH: expected a program lillux-proc in one of its folders, found none"
    )


def test_the_older_name_accepts_a_program_on_the_path(tmp_path: Path) -> None:
    (tmp_path / "lillux-proc").write_text("#!/bin/sh\n", "utf-8")
    (tmp_path / "lillux-proc").chmod(0o755)

    primitive = SubprocessPrimitive(process_env={"PATH": str(tmp_path)})

    assert primitive.execute({"command": "/bin/echo", "args": ["hi"]}).stdout == "hi\n"
