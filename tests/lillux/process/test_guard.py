"""The programs of a server that is killed end with it."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from time import monotonic

import pytest

from tests.support.children import Lifeline
from tests.support.endings import wait_until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="descendants are found by /proc")

SERVER = """
import sys
from lillux.process import ProcessManager
from lillux.process.guard import begin_guarding
from lillux.process.model import Command

begin_guarding()
env = {"PATH": sys.argv[2]}
ProcessManager().run(Command(argv=("/bin/sh", "-c", "exit 0"), env=env, timeout_s=60))
command = Command(
    argv=("/bin/sh", "-c", sys.argv[1]), env=env, timeout_s=600, leaves_nothing=True
)
ProcessManager().run(command)
"""


def start(script: str) -> subprocess.Popen[bytes]:
    words = [sys.executable, "-c", SERVER, script, os.environ["PATH"]]
    root = Path(__file__).parents[3]
    return subprocess.Popen(
        words, env={"PYTHONPATH": str(root)}, start_new_session=True, stdout=subprocess.DEVNULL
    )


@pytest.mark.parametrize("whole_group", [False, True])
@pytest.mark.parametrize(
    "script",
    [
        "sleep 600",
        "sleep 600 & sleep 600; true",
        "setsid sleep 600 & sleep 600; true",
        "trap '' TERM INT HUP; sleep 600; sleep 600",
    ],
)
def test_programs_of_a_killed_server_are_gone_within_a_second(
    script: str, tmp_path: Path, *, whole_group: bool
) -> None:
    lifeline = Lifeline(tmp_path)
    with start(f"{lifeline.hold}; {script}") as server:
        lifeline.await_held()
        kill = os.killpg if whole_group else os.kill
        kill(server.pid, signal.SIGKILL)
        started = monotonic()
        released = lifeline.is_released()

    assert (released, monotonic() - started < 1) == (True, True)
    lifeline.close()


def test_a_daemon_of_a_run_that_leaves_nothing_is_found_by_its_mark(tmp_path: Path) -> None:
    lifeline = Lifeline(tmp_path)
    script = f"(setsid sh -c '{lifeline.hold}; sleep 600 & sleep 600' &) ; sleep 600"
    with start(script) as server:
        lifeline.await_held()
        server.kill()
        released = lifeline.is_released()

    assert released
    lifeline.close()


def test_the_end_of_a_server_ends_the_process_that_watches() -> None:
    with start("exit 0") as server:
        assert server.wait() == 0

    wait_until(lambda: not _watchers(server.pid))


def _watchers(session: int) -> list[int]:
    """The processes that run the watcher's text for a server; its session is one of its own."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            words = (entry / "cmdline").read_bytes() if entry.name.isdecimal() else b""
            began_by = (entry / "environ").read_bytes() if words else b""
        except OSError:
            continue
        if f"LILLUX_GUARDS={session}".encode() in began_by.split(b"\0"):
            found.append(int(entry.name))
    return found
