"""Drops rights on files, programs and sockets for this process and its children.

Linux holds them by Landlock (files and programs) and seccomp (`lillux.seccomp`); no privilege is
needed for either. Capabilities, which could get around them, are given away too. See landlock(7).
macOS gets the same as a profile of ``sandbox-exec``, and Linux without Landlock as the words of
bubblewrap. `obstacle` names what this machine cannot enforce; such a start is refused.
"""

import errno
import os
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from lillux import seccomp
from lillux.folder_restrictions import Access, FolderRestrictions
from lillux.landlock import (
    DEVICE_CONTROL,
    EXECUTE,
    LOOKING,
    NO_NEW_PRIVILEGES,
    REFER,
    RESTRICT_SELF,
    TRUNCATE,
    VERSION_WITH_TRUNCATE,
    WRITE,
    EntriesState,
    allow_descriptor,
    allow_path,
    are_settled,
    c_library,
    drop_extraordinary_capabilities,
    entries_state,
    handled_rights,
    handled_scopes,
    keep_ruleset,
    kept_lock,
    kept_rulesets,
    landlock_version,
    new_ruleset,
    open_real,
    opened_paths,
    raise_for_errno,
    system_call,
)
from lillux.seccomp import STARTS, Addresses, Filter, Hold, Reach, Sockets, supervised_calls
from lillux.system_places import loaders_of
from lillux.values import dataclass, replace

if TYPE_CHECKING:
    from lillux.mediation.write_rules import WriteRules
    from lillux.supervisor import Supervision


_DEVICES = Path("/dev")
_MEMORY = frozenset({_DEVICES / "shm", _DEVICES / "mqueue"})  # files, no devices

_WRITING_RIGHTS = (WRITE | REFER | TRUNCATE | DEVICE_CONTROL) | (
    1 << 4 | 1 << 5 | 1 << 6 | 1 << 7 | 1 << 8 | 1 << 9 | 1 << 10 | 1 << 11 | 1 << 12
)


@dataclass(frozen=True, slots=True)
class Mediation:
    """Folders in which the supervisor makes the changes that a confined process asks for.

    Landlock can only allow: it cannot hold a part of a folder back in which new entries may be
    made. Paths are real ones. ``folders``: entries below them may be made, changed, moved and
    removed. ``kept``: nothing at or below them is made, changed, moved, removed or replaced, also
    where nothing is there yet.
    """

    folders: tuple[Path, ...]
    kept: tuple[Path, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Confinement:
    """Rights of a child. None, for files and programs: the same as its parent.

    readable     files and folders, with all below them
    writable     the same to be written, which includes reading
    mediated     further folders to be written, without what is kept; nothing else may be written
                 then but ``writable``
    executable   programs, and folders of programs
    sockets      which it may open
    local_sockets  paths of local sockets that it may connect to, beside those that it may write;
                 None for any
    addresses    where its streams may lead; None for anywhere
    hosts        ``NAME:PORT`` that a forwarder leads to, for `Reach.PROXY`
    withholding  what is out of reach besides
    is_hardened  calls that reach other processes or the kernel are refused
    may_trace    but for those of debuggers, as far as Landlock keeps them to its own processes
    watches      its accesses are reported to the starting process
    """

    readable: tuple[Path, ...] | None = None
    writable: tuple[Path, ...] | None = None
    mediated: Mediation | None = None
    executable: tuple[Path, ...] | None = None
    sockets: Sockets = Sockets(local=True)
    local_sockets: tuple[Path, ...] | None = None
    addresses: Addresses | None = None
    hosts: tuple[str, ...] = ()
    withholding: FolderRestrictions | None = None
    is_hardened: bool = False
    may_trace: bool = False
    watches: bool = False

    @property
    def needs_landlock(self) -> bool:
        """True if it limits files or programs."""
        unlimited = self.readable is self.writable is self.executable is None
        return not unlimited or self.mediated is not None

    @property
    def needs_filter(self) -> bool:
        """True if it limits system calls."""
        return (
            self.is_hardened
            or self.sockets != Sockets(local=True)
            or self.limits_writing
            or self.executable is not None
            or self.is_supervised
        )

    @property
    def limits_writing(self) -> bool:
        """True if there are files that it keeps from being changed."""
        kept = (self.writable, self.mediated, self.withholding)
        return any(one is not None for one in kept)

    @property
    def is_supervised(self) -> bool:
        """True if some of its system calls wait for a supervisor."""
        return (
            self.hears_sockets
            or self.hears_starts
            or self.mediated is not None
            or self._changes is Hold.ASKED
        )

    @property
    def hears_starts(self) -> bool:
        """True if the supervisor sees each start of a program."""
        return self.watches or self.executable is not None

    @property
    def hears_sockets(self) -> bool:
        """True if the supervisor needs the sockets of callers."""
        return self.addresses is not None or self.local_sockets is not None or self.watches

    def heard_refusals(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The kinds of refused accesses that are reported, and those that are refused unheard.

        Kinds are those of `lillux.attempts.Attempt`, and ``signal`` and ``system-call``. What is
        not limited is in neither.
        """
        changes = self._changes
        has_rules = self.needs_landlock or self.withholding is not None
        has_places = self.addresses is not None or self.mediated is not None
        kinds = (
            ("read", self.readable is not None or self.withholding is not None, self.watches),
            ("write", self.limits_writing, self.watches or self.mediated is not None),
            ("metadata", changes is not Hold.FREE, changes is Hold.ASKED),
            ("run", self.executable is not None, self.watches),
            ("connect", self.addresses is not None or self.local_sockets is not None, True),
            ("bind", self.addresses is not None or self.limits_writing, has_places),
            ("socket", self.sockets != Sockets(local=True), False),
            ("process", self.limits_writing, True),
            ("signal", has_rules, False),
            ("system-call", self.is_hardened, False),
        )
        has_supervisor = self.is_supervised and landlock_version() > 0 and seccomp.can_filter()
        limited = [(kind, is_heard and has_supervisor) for kind, is_so, is_heard in kinds if is_so]
        heard = tuple(kind for kind, is_heard in limited if is_heard)
        return heard, tuple(kind for kind, is_heard in limited if not is_heard)

    @property
    def _changes(self) -> Hold:
        """Treatment of changes of metadata: the supervisor makes them where one may be made."""
        if not self.limits_writing:
            return Hold.FREE
        if self.mediated is not None or self.writable is None:
            return Hold.ASKED
        is_any = any(one.parent != _DEVICES or one in _MEMORY for one in self.writable)
        return Hold.ASKED if is_any else Hold.REFUSED

    @property
    def _parted(self) -> Mediation:
        """Mediated folders, with folders to be written in which something is kept."""
        if self.mediated is None:
            return Mediation(())
        kept = self.mediated.kept
        more = (path for path in self.writable or () if _is_above(path, kept))
        return Mediation((*self.mediated.folders, *more), kept)

    def supervision(self) -> "Supervision":
        """Rules that its supervisor decides by."""
        from lillux.supervisor import Supervision

        local = self.local_sockets
        return Supervision(
            addresses=self.addresses,
            local=None if local is None else tuple(os.path.realpath(path) for path in local),
            rules=self.write_rules() if self.limits_writing else None,
            writes=self.mediated is not None,
            watches=self.watches,
            loaders=None if self.executable is None else tuple(_loaders(self.executable)),
        )

    def write_rules(self) -> "WriteRules":
        """Rules of where changes may be made, for the supervisor."""
        from lillux.mediation.write_rules import WriteRules

        mediated = self._parted
        native = None
        if self.writable is not None or self.mediated:
            native = tuple(map(str, self.writable or ()))
        layers = (self.withholding.named() if self.withholding else (),)
        below = tuple(
            path
            for path, may_write in layers[0]
            if not may_write and any(Path(path).is_relative_to(one) for one in mediated.folders)
        )
        return WriteRules(
            native=native,
            mediated=tuple(map(str, mediated.folders)),
            kept=(*map(str, mediated.kept), *below),
            layers=tuple(filter(None, layers)),
        )

    def enter(self, *, platform: str = sys.platform) -> int | None:
        """Confine this thread and its children; return the descriptor of supervised calls.

        Raises OSError when the system refuses. What it cannot hold at all is passed over here: that
        is for `obstacle` to say beforehand.
        """
        if self.withholding:
            self.withholding.enter(platform=platform)
        version = landlock_version(platform=platform)
        if version and self.needs_landlock:
            with kept_lock:
                ruleset = self._ruleset(version)
                raise_for_errno(c_library().prctl(NO_NEW_PRIVILEGES, 1, 0, 0, 0))
                drop_extraordinary_capabilities()
                raise_for_errno(system_call(RESTRICT_SELF, ruleset, 0))
        wanted = self.filter_for(version)
        if wanted is None or not seccomp.can_filter(platform=platform):
            return None
        try:
            return seccomp.enter(wanted)
        except OSError as error:
            # An outer supervisor hears this thread already, and there can be one alone.
            if error.errno != errno.EBUSY or self.addresses or self.watches:
                raise
        seccomp.enter(self.filter_for(version, is_inner=True) or wanted)
        return None

    def filter_for(self, landlock: int, *, is_inner: bool = False) -> Filter | None:
        """Its seccomp filter for a version of Landlock; None if it needs none.

        Before version 3 Landlock allows truncate() by path whatever the rules say. An inner one
        refuses what else a supervisor would decide: the outer one has other rules.
        """
        cuts_files = self.writable is not None and 0 < landlock < VERSION_WITH_TRUNCATE
        if not (self.needs_filter or cuts_files):
            return None
        asked = Hold.REFUSED if is_inner else Hold.ASKED
        changes = asked if self._changes is Hold.ASKED else self._changes
        sockets = self.sockets
        if is_inner and self.local_sockets is not None:
            sockets = replace(sockets, local=False)
        supervised = supervised_calls(self.addresses, watches=self.watches)
        if self.local_sockets is not None and "connect" not in supervised:
            supervised = (*supervised, "connect")
        if self.mediated and "bind" not in supervised:
            supervised = (*supervised, "bind")
        if self.hears_starts and not self.watches:
            supervised = (*supervised, *STARTS)
        is_public = self.addresses is not None and self.addresses.reach is Reach.PUBLIC
        return Filter(
            sockets=sockets,
            is_hardened=self.is_hardened,
            may_trace=self.may_trace and landlock > 0,
            refused=("truncate",) if cuts_files else (),
            supervised=() if is_inner else supervised,
            writes=Hold.ASKED if self.mediated and not is_inner else Hold.FREE,
            metadata=changes,
            neighbours=Hold.FREE if not self.limits_writing else self._neighbours(asked),
            messages=Hold.ASKED if is_public else Hold.FREE,
            starts_named=self.executable is not None,
            limits_local=self.local_sockets is not None or self.addresses is not None,
        )

    def _neighbours(self, asked: Hold) -> Hold:
        return asked if self.is_supervised else Hold.REFUSED

    def _ruleset(self, version: int) -> int:
        """A descriptor of the Landlock ruleset; cached while the files are the same."""
        kept = self.mediated.kept if self.mediated else ()
        native = [path for path in self.writable or () if not _is_above(path, kept)]
        with opened_paths(native) as writable:
            return self._ruleset_of(version, writable)

    def _ruleset_of(self, version: int, writable: Sequence[int]) -> int:
        readable, executable = self.readable or (), self.executable or ()
        mediated = self._parted
        paths = (*readable, *executable)
        state = (os.getpid(), (*map(_identity, writable), *map(_identity, paths)), self._entries())
        known = kept_rulesets.get(self)
        if known is not None and known[0] == state:
            return known[1]
        every = handled_rights(version)
        handled = 0 if self.readable is None else LOOKING
        handled |= _WRITING_RIGHTS if self.writable is not None or self.mediated else 0
        handled |= 0 if self.executable is None else EXECUTE
        ruleset = new_ruleset(handled & every, handled_scopes(version))
        for path in readable:
            allow_path(ruleset, path, handled & every & LOOKING)
        for descriptor in writable:
            allow_descriptor(ruleset, descriptor, handled & every & ~EXECUTE)
        for path in executable:
            allow_path(ruleset, path, handled & every & (EXECUTE | LOOKING))
        for path in mediated.folders:
            _allow_parts(ruleset, path, mediated.kept, handled & every & ~EXECUTE)
        return keep_ruleset(self, state, ruleset)

    def _entries(self) -> tuple[EntriesState, ...]:
        """The folders whose entries the rules of its mediated folders name."""
        mediated = self._parted
        return tuple(
            entries_state(one) for path in mediated.folders for one in _ways(path, mediated)
        )

    def state(self) -> object:
        """State of what its rules are made from; of another state, they are other rules.

        Landlock's rules are about files, not about their paths: a process that goes on may not use
        a file that has taken the place of another one since its start. Asked before the start.
        """
        if not landlock_version():
            return None
        paths = (*(self.readable or ()), *(self.writable or ()), *(self.executable or ()))
        withheld = self.withholding.state() if self.withholding else ((), ())
        entries = (*withheld[1], *self._entries())
        younger = () if are_settled(entries) else (time.time_ns(),)
        return tuple(map(_identity, paths)), withheld[0], entries, younger

    def allows(self, what: str, path: str) -> bool:
        """True if the rules allow ``read``, ``write`` or ``run`` of a path. For messages only."""
        real = Path(os.path.realpath(path))
        if what == "run":
            return _holds(self.executable, real)
        if what == "write":
            return self.write_rules().may_change(str(real)) or _holds(self.writable, real)
        folders = self.mediated.folders if self.mediated else ()
        return _holds(self.readable, real) or _holds((*(self.writable or ()), *folders), real)

    def macos_profile(self) -> str:
        """The same for ``sandbox-exec`` of macOS, whose last matching rule counts."""
        lines = ["(version 1)", "(allow default)"]
        if self.readable is not None:
            folders = self.mediated.folders if self.mediated else ()
            paths = (*self.readable, *(self.writable or ()), *folders, *(self.executable or ()))
            lines += ["(deny file-read-data)", *_allow_rules("file-read-data", paths)]
        if self.writable is not None or self.mediated:
            folders = self.mediated.folders if self.mediated else ()
            written = (*(self.writable or ()), *folders)
            lines += ["(deny file-write*)", *_allow_rules("file-write*", written)]
        if self.mediated:
            lines += _rules("deny", "file-write*", self.mediated.kept)
        if self.executable is not None:
            lines += ["(deny process-exec*)", *_allow_rules("process-exec*", self.executable)]
        if not self.sockets.network or self.addresses:
            lines += ["(deny network*)"]
        if self.addresses:
            port = self.addresses.port if self.addresses.reach is Reach.PROXY else "*"
            lines += [f'(allow network-outbound (remote ip "localhost:{port}"))']
        if self.addresses and self.addresses.reach is Reach.LOOPBACK:
            lines += ['(allow network-bind network-inbound (local ip "localhost:*"))']
        if self.withholding:
            lines += self.withholding.macos_profile().splitlines()[2:]
        return "\n".join(lines) + "\n"

    def filter_bytes(self) -> bytes:
        """Its filter as a BPF program, for another program to install."""
        wanted = Filter(sockets=self.sockets, is_hardened=self.is_hardened)
        return seccomp.packed(seccomp.instructions(os.uname().machine, wanted))

    def bubblewrap_words(self, program: str, rules: int | None = None) -> tuple[str, ...]:
        """The same as options of ``bwrap``, for Linux without Landlock.

        It holds files and the network, neither ``programs`` nor hosts: see `obstacle`. ``rules`` is
        a descriptor of `filter_bytes`.
        """
        words = [program, "--die-with-parent"]
        if self.readable is None:
            is_limited = self.writable is not None or self.mediated is not None
            words += ["--ro-bind" if is_limited else "--bind", "/", "/"]
        words += ["--dev", "/dev", "--proc", "/proc", "--unshare-pid"]
        for path in self.readable or ():
            words += ["--ro-bind-try", str(path), str(path)]
        mediated = self.mediated or Mediation(())
        for path in (*(self.writable or ()), *mediated.folders):
            words += ["--bind-try", str(path), str(path)]
        for path in mediated.kept:
            words += ["--ro-bind-try", str(path), str(path)]
        folders = self.withholding.folders if self.withholding else ()
        for path, access in folders:
            if access is Access.NONE:
                words += ["--tmpfs", str(path)]
            elif access is Access.READ:
                words += ["--ro-bind-try", str(path), str(path)]
        if not self.sockets.network:
            words += ["--unshare-net"]
        if rules is not None:
            words += ["--seccomp", str(rules)]
        return (*words, "--")


def obstacle(
    wanted: Confinement,
    *,
    platform: str = sys.platform,
    landlock: int | None = None,
    can_hear: bool | None = None,
    bubblewrap: str = "",
) -> str:
    """Why this machine cannot enforce a confinement, ``""`` if it can.

    What the machine can is found out unless it is given.
    """
    if platform == "darwin":
        return ""
    if platform != "linux":
        return "this system has no means to confine a program"
    version = landlock_version() if landlock is None else landlock
    if wanted.needs_landlock and not version and (not bubblewrap or wanted.executable is not None):
        return "this kernel has no Landlock, and bubblewrap is not installed"
    if wanted.needs_filter and not seccomp.can_filter():
        return "this machine has no seccomp filters that Rye knows"
    if wanted.mediated and not can_mediate():
        return "this kernel is older than 5.14, which lets a part of a folder be kept"
    if wanted.hears_sockets and can_hear is None:
        from lillux.supervisor import can_supervise

        can_hear = can_supervise()
    if wanted.hears_sockets and not can_hear:
        return "this machine (a container?) forbids pidfd_getfd, which holds connections to hosts"
    return ""


def can_mediate() -> bool:
    """True if a supervisor can make changes: it answers open() with a descriptor in one step."""
    major, minor, *_ = os.uname().release.split(".")
    return (int(major), int("".join(filter(str.isdecimal, minor[:3])) or 0)) >= (5, 14)


def _allow_rules(operation: str, paths: Iterable[Path]) -> Iterator[str]:
    return _rules("allow", operation, paths)


def _rules(word: str, operation: str, paths: Iterable[Path]) -> Iterator[str]:
    for path in paths:
        quoted = str(path).replace("\\", "\\\\").replace('"', '\\"')
        yield f'({word} {operation} (subpath "{quoted}"))'


def _loaders(programs: Iterable[Path]) -> Iterator[str]:
    """The real paths of what loads programs: these need the right to start it, not to start."""
    for program in programs:
        if program.is_file():
            yield from (os.path.realpath(words[0]) for words in loaders_of(program, of_elf=True))


def _is_above(path: Path, kept: Iterable[Path]) -> bool:
    return any(one.is_relative_to(path) for one in kept)


def _ways(folder: Path, mediated: Mediation) -> Iterator[Path]:
    """The folders from one down to what is kept in it: new entries there change the rules."""
    for kept in mediated.kept:
        if kept.is_relative_to(folder):
            yield from (above for above in kept.parents if above.is_relative_to(folder))


def _allow_parts(ruleset: int, folder: Path, kept: Sequence[Path], rights: int) -> None:
    """Allow a folder but for what is kept in it: then each entry beside that by itself."""
    with suppress(OSError):
        descriptor = open_real(folder)
        try:
            if any(folder.is_relative_to(one) for one in kept):
                allow_descriptor(ruleset, descriptor, rights & LOOKING)
                return
            if not _is_above(folder, kept):
                allow_descriptor(ruleset, descriptor, rights)
                return
            allow_descriptor(ruleset, descriptor, rights & LOOKING)
            names = os.listdir(f"/proc/self/fd/{descriptor}")  # noqa: PTH208 - names
        finally:
            os.close(descriptor)
        for name in names:
            _allow_parts(ruleset, folder / name, kept, rights)


def _holds(paths: Sequence[Path] | None, real: Path) -> bool:
    if paths is None:
        return True
    return any(real.is_relative_to(os.path.realpath(path)) for path in paths)


def _identity(path: Path | int) -> tuple[int, int]:
    """The identity of the file at a path, or of an open one."""
    try:
        status = os.stat(path)  # noqa: PTH116 - cheaper, and there are dozens
    except OSError:
        return 0, 0
    return status.st_ino, status.st_dev
