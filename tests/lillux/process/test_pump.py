import os
import select
import signal
import sys
import threading
from collections.abc import Iterator

import pytest

from lillux.process.pumps import Bell, SelectorPump, open_pidfd, pump_for, rung_by_signals
from lillux.process.thread_pump import ThreadPump

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="a selector of pipes is POSIX")


@pytest.fixture
def bell() -> Iterator[Bell]:
    bell = Bell()
    yield bell
    bell.close()


def is_audible(bell: Bell) -> bool:
    return bool(select.select([bell], [], [], 0)[0])


def test_windows_moves_pipes_by_threads_and_posix_by_a_selector() -> None:
    assert pump_for("win32") is ThreadPump
    assert pump_for("linux") is SelectorPump
    assert pump_for("darwin") is SelectorPump


def test_a_bell_is_audible_until_silenced(bell: Bell) -> None:
    bell.ring()
    assert is_audible(bell)

    bell.silence()

    assert not is_audible(bell)


def test_a_bell_rung_more_often_than_a_pipe_can_hold_does_not_block(bell: Bell) -> None:
    for _ in range(200_000):
        bell.ring()

    assert is_audible(bell)


def test_a_closed_bell_does_not_write_into_the_file_that_has_its_number_now() -> None:
    bell = Bell()
    writer = bell._writer
    bell.close()
    reader, new_writer = os.pipe()
    if new_writer != writer:
        os.dup2(new_writer, writer)
        os.close(new_writer)

    bell.ring()

    os.close(writer)
    assert os.read(reader, 1) == b""
    os.close(reader)


def test_a_system_that_refuses_a_pidfd_is_one_without() -> None:
    assert open_pidfd(-1) is None


def test_a_system_without_pidfd_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "pidfd_open", raising=False)

    assert open_pidfd(os.getpid()) is None


def test_a_signal_rings_though_the_waiting_thread_did_not_get_it(bell: Bell) -> None:
    """Nothing else wakes a wait that began just after the signal came."""
    kept = signal.signal(signal.SIGUSR1, lambda *_: None)
    thread = threading.Thread(
        target=lambda: signal.pthread_kill(threading.get_ident(), signal.SIGUSR1)
    )

    with rung_by_signals(bell):
        thread.start()
        thread.join()
        rung = is_audible(bell)
    signal.signal(signal.SIGUSR1, kept)

    assert (rung, signal.set_wakeup_fd(-1)) == (True, -1)


def test_an_earlier_listener_to_signals_is_kept(bell: Bell) -> None:
    before = bell.ringer
    signal.set_wakeup_fd(before)
    other = Bell()

    with rung_by_signals(other):
        pass

    other.close()
    assert signal.set_wakeup_fd(-1) == before


def test_outside_of_the_main_thread_no_signals_are_requested(bell: Bell) -> None:
    def ask() -> None:
        with rung_by_signals(bell):
            pass

    thread = threading.Thread(target=ask)
    thread.start()
    thread.join()

    assert signal.set_wakeup_fd(-1) == -1
