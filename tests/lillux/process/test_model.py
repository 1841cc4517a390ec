import signal
from pathlib import Path
from typing import Any

import pytest

from lillux.errors import ConfigurationError
from lillux.process.model import Command, signal_name


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"argv": ()}, "argv[0]: expected a program, got nothing"),
        ({"argv": ("",)}, "argv[0]: expected a program, got nothing"),
        ({"argv": ("echo", "a\0b")}, "argv[1]: expected text without NUL characters"),
        ({"env": {"A": "a\0b"}}, "env.A: expected text without NUL characters"),
        ({"env": {"A\0": "b"}}, "env: expected text without NUL characters"),
        ({"env": {"": "b"}}, "env: expected a name without '=', got ''"),
        ({"env": {"A=B": "c"}}, "env: expected a name without '=', got 'A=B'"),
        ({"cwd": Path("a\0b")}, "cwd: expected text without NUL characters"),
        ({"timeout_s": 0}, "timeout_s: expected seconds above 0, or none for no limit, got 0"),
        (
            {"timeout_s": float("nan")},
            "timeout_s: expected seconds above 0, or none for no limit, got nan",
        ),
        (
            {"timeout_s": float("inf")},
            "timeout_s: expected seconds above 0, or none for no limit, got inf",
        ),
        ({"max_output_bytes": -1}, "max_output_bytes: expected 0 or more, got -1"),
    ],
)
def test_a_command_no_system_could_run_cannot_be_made(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError) as error:
        Command(**{"argv": ("echo",), "env": {}, **fields})

    assert str(error.value) == message


def test_a_lone_surrogate_is_refused_by_its_code() -> None:
    with pytest.raises(ConfigurationError) as error:
        Command(argv=("echo", "\ud800"), env={})

    assert str(error.value) == "argv[1]: expected text this system can encode, found '\\ud800'"


def test_values_of_the_environment_and_the_input_stay_out_of_the_text_of_a_command() -> None:
    command = Command(argv=("echo",), env={"TOKEN": "hunter2"}, stdin=b"hunter2")

    assert "hunter2" not in repr(command)


def test_a_signal_has_the_name_the_system_gives_it() -> None:
    assert signal_name(signal.SIGTERM) == "SIGTERM"


def test_a_signal_without_a_name_is_reported_by_its_number() -> None:
    assert signal_name(1000) == "signal 1000"
