"""A program at a terminal of its own, to which a test types."""

import os
import pty
import select
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

PATIENCE_S = 30.0


class Terminal:
    """``with Terminal(argv, env, cwd) as terminal: terminal.type("ls\\t", until="done")``."""

    def __init__(self, argv: Sequence[str], env: Mapping[str, str], cwd: Path) -> None:
        self._pid, self._wire = pty.fork()
        if self._pid == 0:
            os.chdir(cwd)
            os.execve(argv[0], list(argv), dict(env))  # noqa: S606 - a program of the test

    def __enter__(self) -> Self:
        """It runs already."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Hang up."""
        os.close(self._wire)
        os.waitpid(self._pid, 0)

    def type(self, keys: str, *, until: str) -> str:
        """Press keys; what is shown from then on to ``until``."""
        os.write(self._wire, keys.encode())
        shown = b""
        while until.encode() not in shown:
            ready, _, _ = select.select([self._wire], [], [], PATIENCE_S)
            assert ready, f"{until!r} is not shown: {shown!r}"
            shown += os.read(self._wire, 65536)
        return shown.decode("utf-8", "replace")
