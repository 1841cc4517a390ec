"""Decides supervised system calls by their arguments in memory: addresses, file names.

A filter (`lillux.seccomp`) lets such a call wait; a thread of this process learns of it. What it
reads could be changed by another thread of the caller before the kernel reads it again. So a
connection is made here, on the caller's own socket and to the address that was looked at; only what
is merely watched continues by itself. See seccomp_unotify(2). Linux.
"""

import ctypes
import errno
import logging
import os
import re
import select
import signal
import struct
import time
from contextlib import suppress
from functools import cache
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING

from lillux.attempts import Attempt, OnAttempt
from lillux.mediation.callers import (
    Blocks,
    FileCall,
    GoOn,
    RefusedError,
    Status,
    as_signed,
    descriptor_of,
    kin_of,
)
from lillux.mediation.changes import WRITING, Changes
from lillux.mediation.impersonation import Impersonation
from lillux.mediation.resolution import Opened, Way
from lillux.mediation.write_rules import WriteRules
from lillux.seccomp import (
    ADDRESSED,
    FILES,
    LOCKS,
    MESSAGES,
    METADATA,
    NEIGHBOURS,
    STARTS,
    WRITES,
    Addresses,
    number_of,
)
from lillux.values import dataclass

if TYPE_CHECKING:
    from lillux.supervised_sockets import Sockets

_RECEIVE, _SEND, _STILL_THERE = 0xC050_2100, 0xC018_2101, 0x4008_2102
_HAND_OVER = 0x4018_2103
_HAND_OVER_AS_ANSWER = 2
_REQUEST = struct.Struct("<QIIiIQ6Q")
_ANSWER = struct.Struct("<QqiI")
_DESCRIPTOR = struct.Struct("<QIIII")
_GO_ON = 1
_AT_FDCWD = -100
_PAUSE_S = 0.005
_MAX_ANCESTORS = 64
_PLACE_OF_PROCESS = {"setpriority": 1, "ioprio_set": 1, "fcntl": 2}  # else the first word
_LOADER = re.compile(r"ld(-linux|-musl|\.so|64\.so|-\d)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Supervision:
    """Rules that a supervisor decides by.

    addresses  where sockets may lead; None for anywhere
    local      real paths of local sockets that may be connected to beside those that may be
               written; None for any
    rules      where files may be changed; None where nothing of that waits
    writes     it makes changes of files, not of their metadata alone
    watches    it reports all accesses
    loaders    real paths of programs that load others, and do not start by themselves; None where
               any program starts
    """

    addresses: Addresses | None = None
    local: tuple[str, ...] | None = None
    rules: WriteRules | None = None
    writes: bool = False
    watches: bool = False
    loaders: tuple[str, ...] | None = None


@cache
def can_supervise() -> bool:
    """True if pidfd_getfd() works for this process: containers may forbid it."""
    try:
        pidfd = os.pidfd_open(os.getpid())
    except (AttributeError, OSError):
        return False
    try:
        os.close(descriptor_of(pidfd, pidfd))
    except OSError:
        return False
    finally:
        os.close(pidfd)
    return True


class Supervisor:
    """Answers supervised calls until the last confined process has ended.

    ``entered`` is the status of a thread that has just entered the confinement.
    """

    def __init__(
        self,
        listener: int,
        supervision: Supervision,
        entered: Status,
        on_attempt: OnAttempt | None = None,
    ) -> None:
        self._listener, self._entered = listener, entered
        self._addresses, self._watches = supervision.addresses, supervision.watches
        self._writes_itself, self._local = supervision.writes, supervision.local
        self._loaders = supervision.loaders
        self._bound: dict[tuple[int, int], int] = {}
        self._rules = supervision.rules or WriteRules(native=())
        self._makes_changes = supervision.rules is not None
        self._on_attempt = on_attempt or (lambda _: None)
        every = (*ADDRESSED, *MESSAGES, *FILES, *WRITES, *METADATA, *NEIGHBOURS, *LOCKS)
        self._names = {number_of(name): name for name in every if number_of(name) >= 0}
        self.root = 0
        """The number of the first confined process, once it is known."""
        Thread(target=self._serve, name="lillux-supervisor", daemon=True).start()

    def _serve(self) -> None:
        poll = select.poll()
        poll.register(self._listener, select.POLLIN)
        self._changes = Changes(self._rules, self._entered) if self._makes_changes else None
        try:
            while True:
                ((_, events),) = poll.poll()
                if not events & select.POLLIN:
                    return
                self._hear()
        finally:
            os.close(self._listener)
            for held in self._bound.values():
                os.close(held)

    def _hear(self) -> None:
        import fcntl

        buffer = bytearray(_REQUEST.size)
        try:
            fcntl.ioctl(self._listener, _RECEIVE, buffer)
        except OSError:  # the caller ended meanwhile
            return
        request, pid, _, number, _, _, *words = _REQUEST.unpack(buffer)
        name = self._names.get(number, "")
        call = _Call(pid=pid, name=name, words=words, request=request)
        if self._watches and call.name in FILES:
            with suppress(OSError, ValueError):
                self._watch(call)
        try:
            self._decide(call)
        except GoOn as go_on:
            self._report(go_on)
            self._answer(call, _GO_ON)
        except OSError as error:
            self._report(error)
            self._answer(call, 0, error.errno or errno.EACCES)
        except Exception:  # else no later call would be answered
            logging.getLogger(__name__).exception("%s of process %s", call.name, pid)
            self._answer(call, 0, errno.EINVAL)

    def _report(self, ended: GoOn | OSError) -> None:
        """Report a call that the rules refuse, before its caller goes on."""
        if isinstance(ended, RefusedError):
            what, target = ended.what, ended.target
        elif isinstance(ended, GoOn) and ended.refused:
            what, target = "write", ended.refused
        else:
            return
        own = f"/proc/{os.getpid()}/"  # as /proc/self was resolved here
        if target.startswith(own):
            target = f"/proc/self/{target[len(own) :]}"
        self._on_attempt(Attempt(what, target, was_refused=True))

    def _decide(self, call: "_Call") -> None:
        """Make a call, or begin to. Raises OSError for what it returns else, and GoOn."""
        name = call.name
        if name in METADATA or name in WRITES or name in LOCKS:
            if self._changes is None or (name in WRITES and not self._writes_itself):
                raise GoOn
            self._change(call, self._changes)
        elif name in NEIGHBOURS:
            self._reach_own(call)
        elif name in ADDRESSED or name in MESSAGES:
            self._reach(call)
        elif name in STARTS:
            if self._loaders is not None:
                self._require_no_loader(call, self._loaders)
            raise GoOn  # Landlock decides
        elif name in FILES:
            raise GoOn
        else:
            raise OSError(errno.EPERM, os.strerror(errno.EPERM))

    def _change(self, call: "_Call", changes: Changes) -> None:
        try:
            value, descriptor = changes.make(call, lambda: self._require_there(call))
        except Blocks:  # a pipe has no reader yet, or a lock is held: others must not wait for it
            Thread(target=self._open_later, args=(call,), daemon=True).start()
            return
        self._return(call, value, descriptor)

    def _open_later(self, call: "_Call") -> None:
        """Open a pipe as soon as it has a reader, or take a lock as soon as it is free."""
        changes = Changes(self._rules, self._entered)
        while True:
            try:
                value, descriptor = changes.make(call, lambda: self._require_there(call))
            except Blocks:
                time.sleep(_PAUSE_S)
            except GoOn as go_on:
                self._report(go_on)
                return self._answer(call, _GO_ON)
            except OSError as error:
                self._report(error)
                return self._answer(call, 0, error.errno or errno.EACCES)
            else:
                return self._return(call, value, descriptor)

    def _return(self, call: "_Call", value: int, descriptor: int | None) -> None:
        """Answer with a value, or with a descriptor that the caller gets.

        One for writing is closed here before the caller goes on: it may close its own and start the
        file at once, which the kernel refuses (ETXTBSY) while it is open for writing anywhere.
        """
        import fcntl

        if descriptor is None:
            self._answer(call, 0, value=value)
            return
        flags = os.O_CLOEXEC if call.closes_on_exec() else 0
        writes = fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_ACCMODE != os.O_RDONLY
        how = 0 if writes else _HAND_OVER_AS_ANSWER
        words = (call.request, how, descriptor, 0, flags)
        try:
            given = bytearray(_DESCRIPTOR.pack(*words))  # for bytes, ioctl gives bytes back
            number = fcntl.ioctl(self._listener, _HAND_OVER, given)
        except OSError as error:  # the caller has too many, or is gone
            self._answer(call, 0, error.errno or errno.EMFILE)
            return
        finally:
            os.close(descriptor)
        if writes:
            self._answer(call, 0, value=number)

    def _reach_own(self, call: "_Call") -> None:
        """Let a call go on that reaches a process of the run's own; answer for any other.

        The process is held meanwhile: its number became no other's while it was looked at. Raises
        GoOn, PermissionError, ProcessLookupError.
        """
        by_kind = call.name in {"setpriority", "ioprio_set"}
        target = as_signed(call.words[_PLACE_OF_PROCESS.get(call.name, 0)])
        first = 1 if call.name == "ioprio_set" else 0  # the kind that is one process
        if target <= 0 or (by_kind and call.words[0] & 0xFFFF_FFFF != first):
            raise RefusedError("process", call.name)
        leader, _ = kin_of(target)
        held = os.pidfd_open(leader)
        try:
            self._require_own(target, call)
            signal.pidfd_send_signal(held, 0)  # it is there still
            if call.name != "pidfd_open":
                raise GoOn  # the number of the process is in a register, which no thread changes
            wanted = os.pidfd_open(target, call.words[1] & 0xFFFF_FFFF)
            try:
                signal.pidfd_send_signal(held, 0)
            except OSError:
                os.close(wanted)
                raise
        finally:
            os.close(held)
        self._return(call, 0, wanted)

    def _require_own(self, target: int, call: "_Call") -> None:
        """Refuse a process that is none of the run's. Raises RefusedError, ProcessLookupError.

        One that is not there belongs to no one yet, and may be another's a moment later.
        """
        refused = RefusedError("process", f"{call.name} of process {target}")
        own = {self.root, kin_of(call.pid)[0]} - {0}
        for _ in range(_MAX_ANCESTORS):
            if target <= 0:
                break
            leader, target = kin_of(target)
            if leader in own:
                return
        raise refused

    def _require_no_loader(self, call: "_Call", loaders: tuple[str, ...]) -> None:
        """Refuse to start the loader of programs by itself: it would start any file.

        Another thread of the caller may change the path meanwhile. Then a loader starts, and loads
        what that thread could have loaded itself; this keeps nothing more from being loaded.
        """
        opened = Opened()
        try:
            ((_, at, path),) = call.paths()
            way = Way(call, opened)
            _, spot = way.final(way.spot(at, path))
        except (OSError, GoOn):  # the kernel says what is wrong
            return
        finally:
            opened.close()
        names = (spot.name, os.path.basename(path))  # noqa: PTH119 - text
        if spot.place in loaders or any(map(_LOADER.match, names)):
            self._on_attempt(Attempt("run", spot.place, was_refused=True))
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    def _reach(self, call: "_Call") -> None:
        from lillux.supervised_sockets import Sockets

        sockets = Sockets(self._addresses, self._local, self._on_attempt, self._bound)
        is_limited = self._addresses is not None or self._local is not None
        if not is_limited and not (call.name == "bind" and self._writes_itself):
            with suppress(OSError, ValueError):
                sockets.look(call)
            raise GoOn
        # A connection may take its time, and others must not wait for it.
        Thread(target=self._make, args=(call, sockets), daemon=True).start()

    def _make(self, call: "_Call", sockets: "Sockets") -> None:
        try:
            value = sockets.make(
                call,
                self._rules,
                lambda: Impersonation(self._entered),
                lambda: self._require_there(call),
            )
        except GoOn as go_on:
            self._report(go_on)
            self._answer(call, _GO_ON)
        except OSError as error:
            self._report(error)
            self._answer(call, 0, error.errno or errno.EACCES)
        except (ValueError, OverflowError):  # no address that this module knows
            problem = f"{call.name} with an address of another kind"
            self._on_attempt(Attempt("socket", problem, was_refused=True))
            self._answer(call, 0, errno.EACCES)
        else:
            self._answer(call, 0, value=value)

    def _watch(self, call: "_Call") -> None:
        for what, at, path in call.paths():
            with suppress(OSError):
                base = "/" if path.startswith("/") else call.folder(at)
                self._on_attempt(Attempt(what, os.path.normpath(f"{base}/{path}")))

    def _require_there(self, call: "_Call") -> None:
        import fcntl

        fcntl.ioctl(self._listener, _STILL_THERE, struct.pack("<Q", call.request))

    def _answer(self, call: "_Call", flags: int, number: int = 0, value: int = 0) -> None:
        import fcntl

        with suppress(OSError):  # it was interrupted, or is gone
            answer = bytearray(_ANSWER.pack(call.request, value, -number, flags))
            fcntl.ioctl(self._listener, _SEND, answer)


class _Call(FileCall):
    """A waiting call that is watched."""

    __slots__ = ()

    def closes_on_exec(self) -> bool:
        """True if a descriptor that it opens is closed when a program starts."""
        match self.name:
            case "open":
                flags = self.words[1]
            case "openat":
                flags = self.words[2]
            case "openat2":
                (flags,) = struct.unpack("<Q", self.memory(self.words[2], 8))
            case "pidfd_open":  # whatever its flags
                flags = os.O_CLOEXEC
            case _:
                flags = 0
        return bool(flags & os.O_CLOEXEC)

    def paths(self) -> list[tuple[str, int, str]]:
        """Changes and their paths, each relative to a folder's descriptor."""
        words, here = self.words, _AT_FDCWD
        found: list[tuple[str, int, int]]  # what, folder, address of the path
        match self.name:
            case "open":
                found = [(_access_of_flags(words[1]), here, words[0])]
            case "openat":
                found = [(_access_of_flags(words[2]), words[0], words[1])]
            case "openat2":
                (flags,) = struct.unpack("<Q", self.memory(words[2], 8))
                found = [(_access_of_flags(flags), words[0], words[1])]
            case "execve":
                found = [("run", here, words[0])]
            case "execveat":
                found = [("run", words[0], words[1])]
            case "mkdirat" | "unlinkat":
                found = [("write", words[0], words[1])]
            case "renameat" | "renameat2":
                found = [("write", words[0], words[1]), ("write", words[2], words[3])]
            case "rename":
                found = [("write", here, words[0]), ("write", here, words[1])]
            case _:
                found = [("write", here, words[0])]
        return [(what, at, self.text(address)) for what, at, address in found]

    def folder(self, at: int) -> str:
        """The folder of a descriptor of the caller's."""
        number = ctypes.c_int32(at & 0xFFFF_FFFF).value
        link = "cwd" if number == _AT_FDCWD else f"fd/{number}"
        return str(Path(f"/proc/{self.pid}/{link}").readlink())


def _access_of_flags(flags: int) -> str:
    return "write" if flags & WRITING else "read"
