import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def leave(code: str, stdout: int = subprocess.PIPE) -> subprocess.CompletedProcess[str]:
    """A process that runs the code and then leaves with ``status``."""
    program = f"import sys; sys.path.insert(0, {str(ROOT)!r})\n{code}\n"
    program += "from zipboot.launch import leave; leave(status); print('came back')"
    return subprocess.run(
        [sys.executable, "-I", "-c", program],
        stdout=stdout,
        stderr=subprocess.PIPE,
        encoding="utf-8",
        check=False,
    )


@pytest.mark.parametrize(("status", "expected"), [("None", 0), ("0", 0), ("7", 7), ("True", 1)])
def test_the_status_of_the_program_is_that_of_the_process(status: str, expected: int) -> None:
    ended = leave(f"status = {status}")

    assert (ended.stdout, ended.stderr, ended.returncode) == ("", "", expected)


def test_any_other_status_object_is_printed_and_is_a_failure() -> None:
    ended = leave("status = 'what went wrong'")

    assert (ended.stdout, ended.stderr, ended.returncode) == ("", "what went wrong\n", 1)


def test_atexit_functions_are_called() -> None:
    ended = leave("import atexit; atexit.register(print, 'at exit'); status = 0")

    assert (ended.stdout, ended.returncode) == ("at exit\n", 0)


def test_a_failure_at_exit_is_shown_and_keeps_the_status() -> None:
    ended = leave("import atexit; atexit.register(lambda: 1 / 0); status = 3")

    assert "ZeroDivisionError" in ended.stderr
    assert ended.returncode == 3


def test_running_threads_are_joined() -> None:
    ended = leave(
        "import threading\n"
        "go = threading.Event()\n"
        "threading.Thread(target=lambda: (go.wait(), print('thread'))).start()\n"
        "import atexit; threading._register_atexit(go.set)\n"
        "status = 0"
    )

    assert (ended.stdout, ended.returncode) == ("thread\n", 0)


def test_printed_output_is_flushed() -> None:
    ended = leave("print('x' * 100_000); status = 0")

    assert len(ended.stdout) == 100_001


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
def test_output_that_cannot_be_written_is_a_failure() -> None:
    full = os.open("/dev/full", os.O_WRONLY)

    ended = leave("print('x'); status = 0", stdout=full)
    failed = leave("print('x'); status = 3", stdout=full)

    os.close(full)
    assert (ended.returncode, failed.returncode) == (120, 3)


def test_a_closed_output_pipe_gives_the_status_of_sigpipe() -> None:
    reader, writer = os.pipe()
    os.close(reader)

    ended = leave("print('x'); status = 0", stdout=writer)

    os.close(writer)
    assert (ended.stderr, ended.returncode) == ("", 141)


def test_without_standard_streams_the_status_is_kept() -> None:
    ended = leave("sys.stdout = sys.stderr = None; status = 'lost message'")

    assert (ended.stdout, ended.stderr, ended.returncode) == ("", "", 1)
