"""Waiting, in tests, for an effect of another process."""

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event

PATIENCE_S = 20.0
_NEVER = Event()


def wait_until(is_reached: Callable[[], bool], patience_s: float = PATIENCE_S) -> None:
    """Poll a condition until it is true; a timeout fails the test."""
    deadline = time.monotonic() + patience_s
    while not is_reached():
        assert time.monotonic() < deadline, "waited in vain"
        _NEVER.wait(0.005)


@contextmanager
def zombie() -> Iterator[int]:
    """The id of a process that has ended and whose parent does not reap it."""
    code = "import os, sys; print(os.spawnvp(os.P_NOWAIT, 'true', ['true'])); sys.stdout.flush()"
    argv = [sys.executable, "-I", "-c", f"{code}; sys.stdin.read()"]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        wait_until(lambda: _state(pid).startswith("Z"))
        yield pid


def _state(pid: int) -> str:
    argv = ["ps", "-o", "stat=", "-p", str(pid)]
    ended = subprocess.run(argv, capture_output=True, check=False, encoding="ascii")
    return ended.stdout.strip()
