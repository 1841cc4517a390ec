"""The behaviour of every `ProcessRunner`, the real one and the scripted one."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from lillux.cancellation import Cancellation
from lillux.errors import LilluxError
from lillux.process import ProcessManager
from lillux.process.model import Command, ProcessRunner, ProgramNotFoundError
from tests.support.children import shell
from tests.support.scripted_process import Answer, ScriptedProcess

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="children here are shell scripts")

Subject = Callable[[Answer | LilluxError, Command], tuple[ProcessRunner, Command]]
"""A runner and a command, which together behave as the answer says."""


@pytest.fixture(params=["real", "scripted"])
def subject(request: pytest.FixtureRequest, tmp_path: Path) -> Subject:
    def real(_answer: object, command: Command) -> tuple[ProcessRunner, Command]:
        return ProcessManager(), command

    def scripted(answer: Answer | LilluxError, command: Command) -> tuple[ProcessRunner, Command]:
        return ScriptedProcess(answer), command

    return real if request.param == "real" else scripted


def test_an_exit_code_is_not_a_signal(subject: Subject) -> None:
    runner, command = subject(Answer(exit_code=42), shell("exit 42"))

    outcome = runner.run(command)

    assert (outcome.exit_code, outcome.signal) == (42, None)


def test_a_signal_is_not_an_exit_code(subject: Subject) -> None:
    runner, command = subject(Answer(signal=15), shell("kill -15 $$"))

    outcome = runner.run(command)

    assert (outcome.exit_code, outcome.signal) == (None, 15)


def test_the_two_streams_are_kept_apart(subject: Subject) -> None:
    runner, command = subject(
        Answer(stdout=b"out\n", stderr=b"err\n"), shell("echo out; echo err >&2")
    )

    outcome = runner.run(command)

    assert (outcome.stdout.data, outcome.stderr.data) == (b"out\n", b"err\n")
    assert (outcome.stdout.total_bytes, outcome.stderr.total_bytes) == (4, 4)


def test_no_more_is_kept_than_the_command_allows(subject: Subject) -> None:
    runner, command = subject(
        Answer(stdout=b"0123456789"), shell("printf 0123456789", max_output_bytes=4)
    )

    outcome = runner.run(command)

    assert outcome.stdout.data == b"01\n... [6 bytes left out] ...\n89"
    assert outcome.stdout.truncated


def test_the_listener_hears_all_of_standard_error(subject: Subject) -> None:
    runner, command = subject(
        Answer(stderr=b"0123456789"), shell("printf 0123456789 >&2", max_output_bytes=4)
    )
    heard: list[bytes] = []

    runner.run(command, on_stderr=heard.append)

    assert b"".join(heard) == b"0123456789"


def test_the_listener_hears_nothing_of_a_silent_command(subject: Subject) -> None:
    runner, command = subject(Answer(), shell("true"))
    heard: list[bytes] = []

    runner.run(command, on_stderr=heard.append)

    assert heard == []


def test_an_error_of_the_listener_comes_through(subject: Subject) -> None:
    def refuse(chunk: bytes) -> None:
        raise LookupError(chunk)

    runner, command = subject(Answer(stderr=b"x"), shell("printf x >&2; sleep 1000"))

    with pytest.raises(LookupError, match="x"):
        runner.run(command, on_stderr=refuse)


def test_a_timeout_is_marked(subject: Subject) -> None:
    runner, command = subject(
        Answer(stdout=b"early\n", signal=15, timed_out=True),
        shell("echo early; exec sleep 1000", timeout_s=1),
    )

    outcome = runner.run(command)

    assert (outcome.timed_out, outcome.cancelled) == (True, False)
    assert (outcome.signal, outcome.stdout.data) == (15, b"early\n")


def test_a_command_cancelled_before_it_began_has_no_exit_code(subject: Subject) -> None:
    runner, command = subject(Answer(), shell("true"))
    cancellation = Cancellation()
    cancellation.cancel()

    outcome = runner.run(command, cancellation=cancellation)

    assert (outcome.cancelled, outcome.exit_code, outcome.signal) == (True, None, None)


def test_a_missing_program_is_an_error_and_not_an_outcome(subject: Subject) -> None:
    missing = ProgramNotFoundError("./missing", "not found")
    runner, command = subject(missing, Command(argv=("./missing",), env={}))

    with pytest.raises(ProgramNotFoundError) as error:
        runner.run(command)

    assert str(error.value) == "program './missing': not found"
