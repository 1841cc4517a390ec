"""The servers that share the data of a node: a liveness lock each, and whether there are others.

A file of its own because both sides of a node need it and neither knows the other: what forces
stores to the disk, and what runs executions.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from time import time

from lillux.errors import LilluxError
from lillux.file_locks import LockTimeoutError, locked
from lillux.files import file_system_error
from lillux.values import dataclass
from rye_services.settings import Settings
from ryeos.items.errors import RyeError

SERVERS = "servers"
"""The folder of their locks, below the data."""

_LOCKS = "*.lock"
_BEGIN_S = 5.0
_COARSE_S = 2.0  # between two times of files that some file systems cannot tell apart

# --- presence -------------------------------------------------------------------------------------
# Liveness lock of a server process: held until it ends, however it ends.
#
# With it the executions of a server that was killed are seen to at once, and not when their leases
# have run out. It says something about servers of this machine only.


class ServerLease:
    """This server, as others see it: ``server_id`` is 16 hex digits, new with every start."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.server_id = os.urandom(8).hex()
        self._held = ExitStack()

    def begin(self) -> None:
        """Hold the lock from now on. Raises FileSystemError."""
        # Another server that asks whether this one has ended has the lock for a short time.
        self._held.enter_context(locked(self._path(self.server_id), timeout_s=_BEGIN_S))

    def end(self) -> None:
        """Release it."""
        self._held.close()

    def is_dead(self, server_id: str) -> bool:
        """Whether another server is known to have ended: its lock is there and free."""
        path = self._path(server_id)
        if server_id == self.server_id or not path.is_file():
            return False
        with suppress(LockTimeoutError, LilluxError), locked(path, timeout_s=0):
            return True
        return False

    def forget_others(self) -> None:
        """Remove the locks of servers that have ended, once their executions were seen to."""
        for path in self._folder.glob(_LOCKS):
            if self.is_dead(path.stem):
                with suppress(OSError):
                    path.unlink()

    def look(self) -> "ServersSeen":
        """Which other servers share the data, or have until lately. Raises FileSystemError.

        A lock is not tried: that of a server that was killed stays until the next
        `forget_others`, and the time of the folder tells that one came or went in between.
        """
        try:
            changed_s = self._folder.stat().st_mtime_ns / 1e9
        except FileNotFoundError:
            return ServersSeen(frozenset(), 0.0, is_certain=True)
        except OSError as error:
            raise file_system_error(self._folder, error) from error
        others = {path.stem for path in self._folder.glob(_LOCKS)} - {self.server_id}
        return ServersSeen(frozenset(others), changed_s, is_certain=time() - changed_s > _COARSE_S)

    def _path(self, server_id: str) -> Path:
        return self._folder / f"{server_id}.lock"


@dataclass(frozen=True, slots=True)
class ServersSeen:
    """The other servers at a time.

    changed_s   when the last one came or went, since the epoch
    is_certain  whether another one after this time would have another time
    """

    others: frozenset[str]
    changed_s: float
    is_certain: bool

    def leads_alone_to(self, now: "ServersSeen") -> bool:
        """Whether no other server was there from this time until ``now``."""
        is_same = self.changed_s == now.changed_s and self.is_certain
        return is_same and not self.others and not now.others


class ServersElsewhere:
    """The servers of a cluster: on other machines, so no folder of this one tells of them."""

    def look(self) -> ServersSeen:
        """As `ServerLease.look`: another server may have been there at any time."""
        return ServersSeen(frozenset({"elsewhere"}), 0.0, is_certain=False)


# --- a node that is stopped ----------------------------------------------------------------------


@contextmanager
def stopped_node(settings: Settings) -> Iterator[Callable[[], None]]:
    """The data for one command alone; what is given raises once a server has started meanwhile.

    Raises FileSystemError, and RyeError, `CONFLICT`, for a node that is not stopped.
    """
    folder = settings.data_dir / SERVERS
    own = ServerLease(folder)
    own.begin()

    def require_alone() -> None:
        others = {path.stem for path in folder.glob("*.lock")} - {own.server_id}
        if not all(own.is_dead(one) for one in others):
            raise RyeError(
                f"{settings.data_dir}: expected a node that is stopped, found a server, or another"
                " such command",
                code="CONFLICT",
                hint="stop the node, on every machine that serves these data, and try again",
            )

    try:
        require_alone()
        yield require_alone
    finally:
        own.end()
        (folder / f"{own.server_id}.lock").unlink(missing_ok=True)
