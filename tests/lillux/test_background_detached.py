import os
import stat
import sys
from pathlib import Path

import pytest

from lillux.background import start_detached
from lillux.errors import ConfigurationError, FileSystemError
from lillux.process.ending import end_process
from lillux.process.model import ProgramNotFoundError
from lillux.process.states import is_alive
from tests.support.children import Lifeline
from tests.support.endings import wait_until

ENV = {"PATH": os.environ["PATH"]}


def test_a_detached_process_leads_a_session_of_its_own(tmp_path: Path) -> None:
    log = tmp_path / "log"
    code = "import os; print(os.getsid(0) == os.getpid(), os.getpgid(0) == os.getpid())"

    started = start_detached((sys.executable, "-I", "-c", code), env=ENV, log_path=log)
    wait_until(lambda: not is_alive(started.pid, started.start_token))

    assert log.read_text("utf-8") == "True True\n"


def test_it_reads_input_larger_than_any_pipe_after_its_starter_went_on(tmp_path: Path) -> None:
    log = tmp_path / "log"
    data = b"x" * 1_000_000

    started = start_detached(("/bin/sh", "-c", "wc -c"), env=ENV, stdin=data, log_path=log)
    wait_until(lambda: not is_alive(started.pid, started.start_token))

    assert log.read_text("utf-8").strip() == "1000000"


def test_without_a_log_and_an_input_it_has_the_null_device(tmp_path: Path) -> None:
    written = tmp_path / "written"
    if not sys.platform.startswith("linux"):
        pytest.skip("descriptors are shown in /proc")

    started = start_detached(
        ("/bin/sh", "-c", f"exec 9>&1; readlink /proc/$$/fd/0 /proc/$$/fd/9 > {written}"), env=ENV
    )
    wait_until(lambda: not is_alive(started.pid, started.start_token))

    assert written.read_text("utf-8") == "/dev/null\n/dev/null\n"


def test_its_log_is_for_this_user_only_and_is_appended_to(tmp_path: Path) -> None:
    log = tmp_path / "log"

    for word in ("one", "two"):
        started = start_detached(("/bin/sh", "-c", f"echo {word} >&2"), env=ENV, log_path=log)
        wait_until(lambda pid=started.pid: not is_alive(pid))  # type: ignore[misc]

    assert log.read_text("utf-8") == "one\ntwo\n"
    assert stat.S_IMODE(log.stat().st_mode) == 0o600


def test_it_inherits_no_file_of_its_starter(tmp_path: Path) -> None:
    lifeline = Lifeline(tmp_path)
    writer = os.open(lifeline.path, os.O_WRONLY)
    os.set_inheritable(writer, True)  # noqa: FBT003 - the standard signature
    os.write(writer, b"held")

    started = start_detached(("/bin/sleep", "60"), env=ENV)
    os.close(writer)

    assert lifeline.is_released()
    assert end_process(started.pid, token=started.start_token) == "terminated"
    lifeline.close()


def test_an_ended_one_is_no_zombie_of_its_starter() -> None:
    started = start_detached(("/bin/sh", "-c", ":"), env=ENV)

    wait_until(lambda: not Path(f"/proc/{started.pid}").exists())

    assert not is_alive(started.pid, started.start_token)


def test_a_missing_program_is_reported() -> None:
    with pytest.raises(ProgramNotFoundError):
        start_detached(("no-such-program",), env=ENV)


def test_a_missing_working_directory_is_reported(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError) as error:
        start_detached(("/bin/sh",), env=ENV, cwd=tmp_path / "none")

    assert error.value.field == "cwd"


def test_a_log_that_cannot_be_opened_is_reported(tmp_path: Path) -> None:
    with pytest.raises(FileSystemError) as error:
        start_detached(("/bin/sh",), env=ENV, log_path=tmp_path / "none" / "log")

    assert error.value.path == str(tmp_path / "none" / "log")


def test_on_windows_a_program_is_searched_by_its_extensions_before_anything_is_opened(
    tmp_path: Path,
) -> None:
    (tmp_path / "tool").write_bytes(b"no program there")
    (tmp_path / "tool").chmod(0o755)
    log = tmp_path / "log"

    with pytest.raises(ProgramNotFoundError) as error:
        start_detached(("tool",), env={"PATH": str(tmp_path)}, log_path=log, platform="win32")

    assert error.value.searched == (str(tmp_path),)
    assert not log.exists()
