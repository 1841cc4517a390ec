"""A program at a terminal of its own, to which a test types."""

import os
import select
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

PATIENCE_S = 30.0
# A process that forks has no threads here: the leader of a session gets the terminal it opens.
_TAKE_TERMINAL = """
import os, sys
os.setsid()
terminal = os.open(sys.argv[1], os.O_RDWR)
for number in range(3):
    os.dup2(terminal, number)
os.execv(sys.argv[2], sys.argv[2:])
"""


class Terminal:
    """``with Terminal(argv, env, cwd) as terminal: terminal.type("ls\\t", until="done")``."""

    def __init__(self, argv: Sequence[str], env: Mapping[str, str], cwd: Path) -> None:
        self._wire, far_end = os.openpty()
        started = [sys.executable, "-c", _TAKE_TERMINAL, os.ttyname(far_end), *argv]
        self._program = subprocess.Popen(
            started, env=env, cwd=cwd, stdin=far_end, stdout=far_end, stderr=far_end
        )
        self._far_end = far_end

    def __enter__(self) -> Self:
        """Return the terminal, whose program runs."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Hang up."""
        os.close(self._far_end)
        os.close(self._wire)
        self._program.wait(PATIENCE_S)

    def type(self, keys: str, *, until: str) -> str:
        """Press keys; the output from then on to ``until``."""
        os.write(self._wire, keys.encode())
        shown = b""
        while until.encode() not in shown:
            ready, _, _ = select.select([self._wire], [], [], PATIENCE_S)
            assert ready, f"{until!r} is not shown: {shown!r}"
            shown += os.read(self._wire, 65536)
        return shown.decode("utf-8", "replace")

    def status(self) -> int:
        """The exit status, once the program has ended."""
        return self._program.wait(PATIENCE_S)
