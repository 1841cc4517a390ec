"""That a server lives: a lock that it holds for as long as it does, whatever ends it.

With it the executions of a server that was killed are seen to at once, and not when their leases
have run out. It says something about servers of this machine only.
"""

import os
from contextlib import ExitStack, suppress
from pathlib import Path

from lillux.errors import LilluxError
from lillux.files import LockTimeoutError, locked


class Presence:
    """This server, as others see it: ``server_id`` is 16 hex digits, new with every start."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.server_id = os.urandom(8).hex()
        self._held = ExitStack()

    def begin(self) -> None:
        """Hold the lock from now on. Raises FileSystemError."""
        self._held.enter_context(locked(self._path(self.server_id), timeout_s=0))

    def end(self) -> None:
        """Hold it no longer."""
        self._held.close()

    def is_dead(self, server_id: str) -> bool:
        """Whether another server is known to have ended: its lock is there and nobody's."""
        path = self._path(server_id)
        if server_id == self.server_id or not path.is_file():
            return False
        with suppress(LockTimeoutError, LilluxError), locked(path, timeout_s=0):
            return True
        return False

    def forget_others(self) -> None:
        """Remove the locks of servers that have ended, once their executions were seen to."""
        for path in self._folder.glob("*.lock"):
            if self.is_dead(path.stem):
                with suppress(OSError):
                    path.unlink()

    def _path(self, server_id: str) -> Path:
        return self._folder / f"{server_id}.lock"
