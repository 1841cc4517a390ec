"""Commands for tests of processes, and a way to wait for the end of all descendants."""

import os
import select
import shlex
import sys
from pathlib import Path
from typing import TypedDict, Unpack

from lillux.process.model import Command
from lillux.process.pipes import LaterInput

PATIENCE_MS = 20_000


class Fields(TypedDict, total=False):
    """The fields of a command besides its program."""

    cwd: Path
    stdin: bytes
    stdin_rest: LaterInput
    timeout_s: float
    max_output_bytes: int
    leaves_nothing: bool


def shell(script: str, **fields: Unpack[Fields]) -> Command:
    """A POSIX shell that runs the script."""
    return Command(argv=("/bin/sh", "-c", script), env={"PATH": os.environ["PATH"]}, **fields)


def python(code: str, *arguments: str, **fields: Unpack[Fields]) -> Command:
    """A Python without site packages that runs the code."""
    argv = (sys.executable, "-I", "-S", "-c", code, *arguments)
    return Command(argv=argv, env={"PATH": os.environ["PATH"]}, **fields)


class Lifeline:
    """A FIFO that a child and all its descendants hold open while one of them lives.

    A shell script takes it with the line ``hold``; what it starts afterwards inherits it.
    """

    def __init__(self, directory: Path) -> None:
        self.path = directory / "lifeline"
        os.mkfifo(self.path)
        self._reader = os.open(self.path, os.O_RDONLY | os.O_NONBLOCK)
        self.hold = f"exec 3>{shlex.quote(str(self.path))}; printf held >&3"

    def await_held(self) -> None:
        """Return when a process holds it; a pipe that has no writer yet is not at its end."""
        ready, _, _ = select.select([self._reader], [], [], PATIENCE_MS / 1000)
        assert ready, "no process holds the lifeline"

    def is_released(self) -> bool:
        """Whether all processes that held it have ended, or end very soon."""
        assert os.read(self._reader, 4) == b"held"
        poll = select.poll()
        poll.register(self._reader, select.POLLHUP)
        return bool(poll.poll(PATIENCE_MS))

    def close(self) -> None:
        os.close(self._reader)
