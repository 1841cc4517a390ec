"""How a command that does not end is ended, without orphan processes."""

import os
import signal
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier, Event, Thread, Timer
from types import FrameType

import pytest

from lillux.cancellation import Cancellation
from lillux.process import ProcessManager
from lillux.process.model import Command, Outcome
from lillux.process.pipes import OpenPump
from tests.support.children import Lifeline, python, shell
from tests.support.endings import wait_until

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="children here are shell scripts")

# Children sleep for 1000 s; a command that takes less than this was ended.
SOON_MS = 30_000


@pytest.fixture
def manager(open_pump: OpenPump) -> ProcessManager:
    return ProcessManager(open_pump=open_pump, grace_s=0.2, drain_s=0.2)


@pytest.fixture
def patient_manager(open_pump: OpenPump) -> ProcessManager:
    return ProcessManager(open_pump=open_pump, grace_s=20.0, drain_s=20.0)


def test_a_tool_that_hangs_ends_at_its_timeout_and_keeps_its_output(
    patient_manager: ProcessManager,
) -> None:
    script = "echo early; echo trouble >&2; exec sleep 1000"

    outcome = patient_manager.run(shell(script, timeout_s=1))

    assert outcome.timed_out
    assert (outcome.exit_code, outcome.signal) == (None, signal.SIGTERM)
    assert (outcome.stdout.data, outcome.stderr.data) == (b"early\n", b"trouble\n")
    assert 1000 <= outcome.duration_ms < SOON_MS


def test_a_grandchild_cannot_outlive_the_timeout(
    patient_manager: ProcessManager, lifeline: Lifeline
) -> None:
    script = f"{lifeline.hold}; (sleep 1000; sleep 1000) & sleep 1000"

    outcome = patient_manager.run(shell(script, timeout_s=1))

    assert outcome.timed_out
    assert outcome.duration_ms < SOON_MS
    assert lifeline.is_released()


def cancel_when_ready(manager: ProcessManager, command: Command) -> Outcome:
    """Run a command and end it as soon as it prints that it is ready, on its standard error."""
    cancellation = Cancellation()
    outcome = manager.run(
        command, cancellation=cancellation, on_stderr=lambda _chunk: cancellation.cancel()
    )
    assert outcome.cancelled
    assert outcome.duration_ms < SOON_MS
    return outcome


def test_a_tool_may_use_the_grace_to_end_well(patient_manager: ProcessManager) -> None:
    code = """
import signal, sys
signal.signal(signal.SIGTERM, lambda *_: sys.exit("saved"))
print("ready", file=sys.stderr, flush=True)
while True: signal.pause()
"""

    outcome = cancel_when_ready(patient_manager, python(code))

    assert (outcome.exit_code, outcome.stderr.data) == (1, b"ready\nsaved\n")


def test_a_tool_that_ignores_term_is_killed(manager: ProcessManager, lifeline: Lifeline) -> None:
    script = f"trap '' TERM; {lifeline.hold}; echo ready >&2; sleep 1000; sleep 1000"

    outcome = cancel_when_ready(manager, shell(script))

    assert outcome.signal == signal.SIGKILL
    assert lifeline.is_released()


def test_a_stopped_tool_is_killed(manager: ProcessManager) -> None:
    outcome = cancel_when_ready(manager, shell("echo ready >&2; kill -STOP $$"))

    assert outcome.signal in (signal.SIGTERM, signal.SIGKILL)


def test_a_grandchild_that_ignores_term_cannot_outlive_its_tool(
    manager: ProcessManager, lifeline: Lifeline
) -> None:
    stubborn = "trap '' TERM; echo ready >&2; sleep 1000; sleep 1000"

    outcome = cancel_when_ready(manager, shell(f"{lifeline.hold}; ({stubborn}) & exec sleep 1000"))

    assert outcome.signal == signal.SIGTERM
    assert lifeline.is_released()


def test_a_flood_does_not_keep_us_from_ending_it(manager: ProcessManager) -> None:
    script = "yes | head -c 1000000; echo ready >&2; exec yes"

    outcome = cancel_when_ready(manager, shell(script, max_output_bytes=1000))

    assert outcome.stdout.total_bytes >= 1_000_000
    assert len(outcome.stdout.data) < 1100


def test_a_finished_tool_is_not_waited_for_because_a_grandchild_keeps_its_pipe(
    manager: ProcessManager, lifeline: Lifeline
) -> None:
    outcome = manager.run(shell(f"{lifeline.hold}; sleep 1000 & echo started"))

    assert (outcome.exit_code, outcome.stdout.data) == (0, b"started\n")
    assert outcome.duration_ms < SOON_MS
    assert lifeline.is_released()


def test_output_of_a_grandchild_soon_after_the_end_is_kept(
    patient_manager: ProcessManager,
) -> None:
    outcome = patient_manager.run(shell("(sleep 0.1; echo late) & echo early"))

    assert outcome.stdout.data == b"early\nlate\n"
    assert outcome.duration_ms < SOON_MS


def test_an_orphan_process_that_closed_its_pipes_is_killed_too(
    patient_manager: ProcessManager, lifeline: Lifeline
) -> None:
    script = f"{lifeline.hold}; sleep 1000 </dev/null >/dev/null 2>&1 & echo started"

    outcome = patient_manager.run(shell(script))

    assert outcome.exit_code == 0
    assert lifeline.is_released()


@pytest.fixture
def _no_stray(tmp_path: Path) -> Iterator[None]:
    yield
    os.kill(int((tmp_path / "pid").read_text(encoding="utf-8")), signal.SIGKILL)


DAEMON = """
import os, sys, time
reader, writer = os.pipe()
if os.fork():
    os.close(writer)
    os.read(reader, 1)
    print("ready", file=sys.stderr, flush=True)
else:
    os.setsid()
    with open("pid", "w") as pid: print(os.getpid(), file=pid)
    os.close(reader), os.close(writer)
    time.sleep(1000)
"""


@pytest.mark.usefixtures("_no_stray")
def test_a_daemon_in_a_session_of_its_own_cannot_hold_up_a_finished_tool(
    manager: ProcessManager, tmp_path: Path
) -> None:
    outcome = manager.run(python(DAEMON, cwd=tmp_path, stdin=b"x" * 1_000_000))

    assert (outcome.exit_code, outcome.stderr.data) == (0, b"ready\n")
    assert outcome.duration_ms < SOON_MS


@pytest.mark.usefixtures("_no_stray")
def test_a_daemon_in_a_session_of_its_own_cannot_hold_up_the_end_of_a_tool(
    manager: ProcessManager, tmp_path: Path
) -> None:
    code = f"{DAEMON}\ntime.sleep(1000)"

    outcome = cancel_when_ready(manager, python(code, cwd=tmp_path, stdin=b"x" * 1_000_000))

    assert outcome.signal == signal.SIGTERM


def cancel_when(ready: Event, cancellation: Cancellation) -> Thread:
    def wait_and_cancel() -> None:
        ready.wait()
        cancellation.cancel()

    thread = Thread(target=wait_and_cancel)
    thread.start()
    return thread


def test_a_cancellation_from_another_thread_ends_it(
    patient_manager: ProcessManager, lifeline: Lifeline
) -> None:
    cancellation, ready = Cancellation(), Event()
    thread = cancel_when(ready, cancellation)

    outcome = patient_manager.run(
        shell(f"{lifeline.hold}; echo out; echo ready >&2; sleep 1000 & sleep 1000"),
        cancellation=cancellation,
        on_stderr=lambda _chunk: ready.set(),
    )

    thread.join()
    assert outcome.cancelled
    assert not outcome.timed_out
    assert (outcome.signal, outcome.stdout.data) == (signal.SIGTERM, b"out\n")
    assert outcome.duration_ms < SOON_MS
    assert lifeline.is_released()


def test_one_cancellation_ends_all_it_was_given_to(patient_manager: ProcessManager) -> None:
    cancellation, all_ready = Cancellation(), Barrier(5, timeout=30)

    with ThreadPoolExecutor(4) as pool:
        runs = [
            pool.submit(
                patient_manager.run,
                shell("echo ready >&2; exec sleep 1000"),
                cancellation=cancellation,
                on_stderr=lambda _chunk: (all_ready.wait(), None)[1],
            )
            for _ in range(4)
        ]
        all_ready.wait()
        cancellation.cancel()

    assert [run.result().cancelled for run in runs] == [True] * 4


def test_a_cancellation_that_came_before_prevents_the_start(
    manager: ProcessManager, tmp_path: Path
) -> None:
    cancellation = Cancellation()
    cancellation.cancel()

    outcome = manager.run(shell("touch started", cwd=tmp_path), cancellation=cancellation)

    assert outcome.cancelled
    assert (outcome.exit_code, outcome.signal) == (None, None)
    assert not (tmp_path / "started").exists()


def test_a_cancellation_after_the_end_changes_nothing(manager: ProcessManager) -> None:
    cancellation = Cancellation()

    outcome = manager.run(shell("exit 3"), cancellation=cancellation)
    cancellation.cancel()

    assert (outcome.exit_code, outcome.cancelled) == (3, False)


def test_ctrl_c_while_waiting_kills_the_group(manager: ProcessManager, lifeline: Lifeline) -> None:
    def press_ctrl_c(_number: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    def press_soon(_chunk: bytes) -> None:
        signal.setitimer(signal.ITIMER_REAL, 0.05)

    before = signal.signal(signal.SIGALRM, press_ctrl_c)
    try:
        with pytest.raises(KeyboardInterrupt):
            manager.run(
                shell(f"{lifeline.hold}; trap '' TERM; echo ready >&2; sleep 1000 & sleep 1000"),
                on_stderr=press_soon,
            )
    finally:
        signal.signal(signal.SIGALRM, before)

    assert lifeline.is_released()


def test_an_error_of_the_listener_kills_the_group_and_comes_through(
    manager: ProcessManager, lifeline: Lifeline
) -> None:
    def refuse(chunk: bytes) -> None:
        raise LookupError(chunk)

    with pytest.raises(LookupError, match="ready"):
        manager.run(shell(f"{lifeline.hold}; echo ready >&2; sleep 1000"), on_stderr=refuse)

    assert lifeline.is_released()


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="orphans are adopted on Linux")
@pytest.mark.parametrize("end", ["itself", "timeout", "cancellation"])
def test_a_process_that_moved_to_a_session_of_its_own_ends_with_its_run(
    end: str, tmp_path: Path
) -> None:
    pid_file = tmp_path / "pids"
    stray = f"setsid sh -c 'echo $$ >> {pid_file}; exec sleep 300' >/dev/null 2>&1 &"
    wait = "" if end == "itself" else "sleep 300"
    script = f"{stray} (setsid sh -c '{stray.replace(chr(39), '')}' &) ; sleep 0.3; {wait}"
    cancellation = Cancellation()
    if end == "cancellation":
        Timer(0.8, cancellation.cancel).start()

    ProcessManager(grace_s=0.1).run(
        shell(script, leaves_nothing=True, timeout_s=0.8 if end == "timeout" else 60),
        cancellation=cancellation,
    )

    strays = [int(pid) for pid in pid_file.read_text(encoding="utf-8").split()]
    assert strays
    wait_until(lambda: not any(map(_runs, strays)))


def _runs(pid: int) -> bool:
    """Whether a process is there and is no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b") ")[2][:1] != b"Z"
    except OSError:
        return False
