"""User ids without an account, of which each run has one for itself. POSIX.

To the kernel such a number is a user like any other: its processes, files and limits are apart from
those of others. A number is leased by a lock in one folder of the machine, so that no two processes
give it away at a time. Whoever leases a range owns it: what runs under a number is ended before the
number is used, and after it. See credentials(7).
"""

import ctypes
import os
import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from random import SystemRandom

from lillux.errors import LilluxError
from lillux.file_locks import LockTimeoutError, locked
from lillux.values import dataclass

HIGHEST = 4_294_967_293
"""The next two are no users: ``(uid_t) -2`` is "nobody" of file systems, ``-1`` is "no change"."""

_DUMPABLE = 4
_PAUSE_S = 0.01
_POLL_S = 0.1
_NO_PROGRAM, _ALONE = "/dev/null/none", 2
# What a process needs to give folders to a user, to become it, to end it, and to read what it left.
_CAPABILITIES = {
    0: "CAP_CHOWN",
    1: "CAP_DAC_OVERRIDE",
    3: "CAP_FOWNER",
    5: "CAP_KILL",
    6: "CAP_SETGID",
    7: "CAP_SETUID",
}


class UidsInUseError(LilluxError):
    """Every number of a range is leased."""

    code = "CONFLICT"

    def __init__(self, numbers: "UidRange") -> None:
        self.numbers = numbers
        super().__init__(f"all {len(numbers)} user ids {numbers} are in use")


@dataclass(frozen=True, slots=True)
class UidRange:
    """The numbers from ``first`` to ``last``, both included."""

    first: int
    last: int

    def __len__(self) -> int:
        return self.last - self.first + 1

    def __str__(self) -> str:
        return f"{self.first}-{self.last}"


@dataclass(frozen=True, slots=True)
class Uids:
    """Leases the numbers of a range. Thread-safe, and so across processes.

    folder   the locks, one for all processes of the machine
    wait_s   how long a lease waits for a number
    """

    numbers: UidRange
    folder: Path
    wait_s: float = 0.0

    @contextmanager
    def lease(self, preferred: int = 0) -> Iterator[int]:
        """A number that no one else has inside the block: the preferred one if it is free.

        Raises UidsInUseError, FileSystemError.
        """
        with ExitStack() as held:
            yield self._taken(preferred, held)

    def _taken(self, preferred: int, held: ExitStack) -> int:
        deadline = time.monotonic() + self.wait_s
        while True:
            for uid in self._candidates(preferred):
                with suppress(LockTimeoutError):
                    held.enter_context(locked(self.folder / str(uid), timeout_s=0))
                    return uid
            if time.monotonic() >= deadline:
                raise UidsInUseError(self.numbers)
            time.sleep(_POLL_S)

    def _candidates(self, preferred: int) -> Iterator[int]:
        """All numbers, from one by chance on: one that rests in an idle folder is seldom taken."""
        if self.numbers.first <= preferred <= self.numbers.last:
            yield preferred
        count = len(self.numbers)
        start = SystemRandom().randrange(count)
        for at in range(count):
            yield self.numbers.first + (start + at) % count


def become(uid: int) -> None:
    """Make a number the only user and group of this process of one thread, for good.

    Raises OSError. The signal at the end of the parent is cleared by it: see prctl(2).
    """
    os.setgroups([])
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)
    # As after the start of a program: else its own /proc belongs to root, and it could not read it.
    ctypes.CDLL(None, use_errno=True).prctl(_DUMPABLE, 1, 0, 0, 0)


def end_all_of(uid: int, limit_s: float) -> bool:
    """Kill every process of a number until none is left; False when some still are at the limit.

    For a process that may become that user. It reaps whatever children it has that have ended.
    """
    deadline = time.monotonic() + limit_s
    while _kill_all(uid):
        if time.monotonic() > deadline:
            return False
        time.sleep(_PAUSE_S)
        with suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
    return True


def _kill_all(uid: int) -> bool:
    """Kill all at once, so that none starts another meanwhile; whether any is still there.

    A child does it that is that user itself: root would reach every process of the machine. Whether
    it is alone the kernel tells it by the limit of processes that a user may have: itself and one
    more, which ends at once as there is no such program. See RLIMIT_NPROC of getrlimit(2).
    """
    import resource

    child = os.fork()
    if not child:
        status = 2
        try:
            resource.setrlimit(resource.RLIMIT_NPROC, (_ALONE, _ALONE))
            become(uid)
            os.kill(-1, signal.SIGKILL)
            os.posix_spawn(_NO_PROGRAM, [_NO_PROGRAM], {})
        except NotADirectoryError:
            status = 0
        except BlockingIOError:
            status = 1
        finally:
            os._exit(status)
    return os.waitpid(child, 0)[1] != 0


def obstacle_to(numbers: UidRange, *, status: Path = Path("/proc/self/status")) -> str:
    """Why this process cannot give runs these numbers, ``""`` where it can.

    ``status`` is the file of the system that names the rights of a process.
    """
    if not hasattr(os, "setresuid") or not status.exists():
        return "only Linux is supported"
    if os.geteuid() != 0:
        return "it takes root"
    missing = _missing_capabilities(status.read_text(encoding="utf-8"))
    if missing:
        return f"root has no {missing}"
    for name in ("uid_map", "gid_map"):
        if not _is_mapped(numbers, status.with_name(name)):
            return f"{numbers} is outside of {status.with_name(name)}"
    name = _account_in(numbers)
    return f"{name} has an id of {numbers}" if name else ""


def _missing_capabilities(status: str) -> str:
    for line in status.splitlines():
        if line.startswith("CapEff:"):
            held = int(line.split()[1], 16)
            return next((name for bit, name in _CAPABILITIES.items() if not held >> bit & 1), "")
    return ""


def _is_mapped(numbers: UidRange, table: Path) -> bool:
    """Whether one line of a user namespace's table has all of the numbers."""
    for line in table.read_text(encoding="ascii").splitlines():
        first, _, count = map(int, line.split())
        if first <= numbers.first and numbers.last < first + count:
            return True
    return False


def _account_in(numbers: UidRange) -> str:
    """A user or a group of the system with one of the numbers, ``""`` for none."""
    import grp
    import pwd

    users = ((f"the user {one.pw_name}", one.pw_uid) for one in pwd.getpwall())
    groups = ((f"the group {one.gr_name}", one.gr_gid) for one in grp.getgrall())
    for names in (users, groups):
        for name, number in names:
            if numbers.first <= number <= numbers.last:
                return name
    return ""
