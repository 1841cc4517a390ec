import pytest

from lillux.cancellation import Cancellation
from lillux.process.model import Command
from tests.support.scripted_process import Answer, ScriptedProcess

ONE = Command(argv=("one",), env={})
TWO = Command(argv=("two",), env={})


def test_scripted_answers_are_given_in_order_and_commands_recorded() -> None:
    runner = ScriptedProcess(Answer(stdout=b"1"), Answer(stdout=b"2"))

    answers = [runner.run(command).stdout.data for command in (ONE, TWO)]

    assert answers == [b"1", b"2"]
    assert runner.commands == [ONE, TWO]


def test_a_command_it_has_no_answer_for_fails_the_test() -> None:
    runner = ScriptedProcess()

    with pytest.raises(AssertionError, match=r"no answer is left for \('one',\)"):
        runner.run(ONE)


def test_a_cancelled_command_is_not_recorded() -> None:
    runner, cancellation = ScriptedProcess(), Cancellation()
    cancellation.cancel()

    runner.run(ONE, cancellation=cancellation)

    assert runner.commands == []
