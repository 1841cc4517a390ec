"""Children that get input and give output while they run."""

import sys
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from lillux.cancellation import Cancellation
from lillux.process.conversation import Conversation, converse
from lillux.process.model import Command, ProgramNotFoundError
from lillux.values import replace
from tests.support.children import Lifeline, python, shell

PATIENCE_S = 20.0
posix_only = pytest.mark.skipif(sys.platform == "win32", reason="shells of POSIX")


class Heard:
    """The output of a child, and how it ended."""

    def __init__(self) -> None:
        self.stdout, self.stderr = bytearray(), bytearray()
        self.codes: list[int | None] = []

    def hear(self, chunk: bytes) -> None:
        self.stdout += chunk

    def hear_stderr(self, chunk: bytes) -> None:
        self.stderr += chunk


def talking(
    command: Command, heard: Heard, cancellation: Cancellation | None = None
) -> AbstractContextManager[Conversation]:
    return converse(
        command,
        on_stdout=heard.hear,
        on_stderr=heard.hear_stderr,
        on_end=heard.codes.append,
        cancellation=cancellation,
    )


ECHO = "import sys\nfor line in sys.stdin: print(line.strip().upper(), flush=True)"


def test_a_child_answers_one_line_after_the_other() -> None:
    heard = Heard()

    with talking(python(ECHO, stdin=b"one\n"), heard) as child:
        first = child.wait_until(lambda: b"ONE" in heard.stdout, PATIENCE_S)
        child.send(b"two\n")
        second = child.wait_until(lambda: b"TWO" in heard.stdout, PATIENCE_S)
        child.end_politely(PATIENCE_S)

    assert (first, second, heard.codes) == (True, True, [0])


def test_a_child_that_reads_nothing_blocks_no_caller() -> None:
    heard = Heard()
    command = python("print('up', flush=True)\nimport time\ntime.sleep(600)", stdin=b"x")

    with talking(command, heard) as child:
        child.send(b"x" * 5_000_000)
        assert child.wait_until(lambda: b"up" in heard.stdout, PATIENCE_S)
        child.end(PATIENCE_S)

    assert heard.codes == [-15]


def test_a_wait_ends_when_its_time_is_over() -> None:
    with talking(python(ECHO, stdin=b"\n"), Heard()) as child:
        assert not child.wait_until(lambda: False, 0.05)


def test_the_last_output_of_a_child_that_ended_is_read() -> None:
    heard = Heard()
    command = python("import sys\nsys.stderr.write('last words')\nsys.exit(3)", stdin=b"x")

    with talking(command, heard) as child:
        assert child.wait_until(lambda: child.has_exited, PATIENCE_S)
        child.drain(PATIENCE_S)

    assert (bytes(heard.stderr), heard.codes) == (b"last words", [3])


def test_a_cancellation_wakes_the_thread_that_waits() -> None:
    heard, cancellation = Heard(), Cancellation()

    def is_settled() -> bool:
        if heard.stdout:
            cancellation.cancel()
        return cancellation.is_set

    with talking(python(ECHO, stdin=b"one\n"), heard, cancellation) as child:
        assert child.wait_until(is_settled, PATIENCE_S)


def test_a_program_that_is_missing_is_reported() -> None:
    missing = replace(python(""), argv=("no-such-program",), stdin=b"x")

    with pytest.raises(ProgramNotFoundError), talking(missing, Heard()):
        pass


@posix_only
def test_no_process_lives_on_however_the_block_is_left(tmp_path: Path) -> None:
    line, heard = Lifeline(tmp_path), Heard()
    script = f"{line.hold}; trap '' TERM; sleep 600 & echo up; wait; wait"
    command = shell(script, stdin=b"x")

    def leave_in_the_middle() -> None:
        with converse(
            command,
            on_stdout=heard.hear,
            on_stderr=heard.hear_stderr,
            on_end=heard.codes.append,
            grace_s=0.05,
        ) as child:
            assert child.wait_until(lambda: b"up" in heard.stdout, PATIENCE_S)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        leave_in_the_middle()

    assert line.is_released()
    assert heard.codes == [-9]
    line.close()
