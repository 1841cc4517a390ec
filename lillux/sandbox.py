"""Drops rights on files, programs and sockets for this process and its children.

Linux holds them by Landlock (files and programs) and seccomp (`lillux.seccomp`); no privilege is
needed for either. Capabilities, which could get around them, are given away too. See landlock(7).
macOS gets the same as a profile of ``sandbox-exec``, and Linux without Landlock as the words of
bubblewrap. `obstacle` names what this machine cannot enforce; such a start is refused.
"""

import ctypes
import errno
import os
import stat
import struct
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from enum import Enum
from functools import cache
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING

from lillux import seccomp
from lillux.errors import UnsafePathError
from lillux.seccomp import STARTS, Addresses, Filter, Hold, Reach, Sockets, supervised_calls
from lillux.values import dataclass, replace

if TYPE_CHECKING:
    from lillux.mediation import WriteRules
    from lillux.supervisor import Supervision

# --- landlock -------------------------------------------------------------------------------------

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446  # the same on every architecture but one
_ASK_VERSION = 1
_PATH_BENEATH = 1
_NO_NEW_PRIVILEGES = 38
_CAPABILITIES_VERSION_3 = 0x2008_0522

_EXECUTE, _WRITE, _READ, _LIST = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_REFER, _TRUNCATE, _DEVICE_CONTROL = 1 << 13, 1 << 14, 1 << 15
_OF_FILES = _EXECUTE | _WRITE | _READ | _TRUNCATE | _DEVICE_CONTROL
_READING = _EXECUTE | _READ | _LIST
_LOOKING = _READ | _LIST
_RIGHTS_OF_VERSION_1 = (1 << 13) - 1
_SCOPE_SOCKETS, _SCOPE_SIGNALS = 1 << 0, 1 << 1
_VERSION_WITH_REFER, _VERSION_WITH_TRUNCATE, _VERSION_WITH_DEVICES, _VERSION_WITH_SCOPES = (
    2,
    3,
    5,
    6,
)


class _Ruleset(ctypes.Structure):
    _fields_ = (
        ("handled_access_fs", ctypes.c_uint64),
        ("handled_access_net", ctypes.c_uint64),
        ("scoped", ctypes.c_uint64),
    )


class _PathBeneath(ctypes.Structure):
    _pack_ = 1
    _layout_ = "ms"
    _fields_ = (("allowed_access", ctypes.c_uint64), ("parent_fd", ctypes.c_int32))


def landlock_version(*, platform: str = sys.platform) -> int:
    """Which version of it the system has; 0 if absent."""
    if platform != "linux":
        return 0
    return max(0, _call(_CREATE_RULESET, None, 0, _ASK_VERSION))


def confine(
    readable: Iterable[Path], writable: Iterable[Path], *, platform: str = sys.platform
) -> bool:
    """Leave this process and its children only these folders and files; False where none can.

    ``readable`` may be read and executed, ``writable`` may be written too. What is not there is
    passed over. Raises OSError when the system has it and refuses.
    """
    version = landlock_version(platform=platform)
    if not version:
        return False
    rights = _rights(version)
    scopes = _scopes(version)
    attributes = _Ruleset(rights, 0, scopes)
    size = ctypes.sizeof(attributes) if scopes else ctypes.sizeof(ctypes.c_uint64)
    ruleset = _raise_for_errno(_call(_CREATE_RULESET, ctypes.byref(attributes), size, 0))
    try:
        for path in readable:
            _allow(ruleset, path, rights & _READING)
        for path in writable:
            _allow(ruleset, path, rights)
        _raise_for_errno(_libc().prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0))
        _drop_capabilities()
        _raise_for_errno(_call(_RESTRICT_SELF, ruleset, 0))
        _confined.add(os.getpid())
    finally:
        os.close(ruleset)
    return True


_confined: set[int] = set()
"""This process, once it is confined: its children may do less than `FolderRestrictions` allow."""


def _rights(version: int) -> int:
    rights = _RIGHTS_OF_VERSION_1
    if version >= _VERSION_WITH_REFER:
        rights |= _REFER
    if version >= _VERSION_WITH_TRUNCATE:
        rights |= _TRUNCATE
    if version >= _VERSION_WITH_DEVICES:
        rights |= _DEVICE_CONTROL
    return rights


def _scopes(version: int) -> int:
    """Signals and abstract sockets: those of this process and what it starts alone."""
    return _SCOPE_SOCKETS | _SCOPE_SIGNALS if version >= _VERSION_WITH_SCOPES else 0


def _allow(ruleset: int, path: Path, rights: int, *, follow: bool = True) -> None:
    with suppress(FileNotFoundError, NotADirectoryError, PermissionError):
        flags = _O_PATH | os.O_CLOEXEC | (0 if follow else os.O_NOFOLLOW)
        descriptor = os.open(path, flags)
        try:
            _allow_open(ruleset, descriptor, rights)
        finally:
            os.close(descriptor)


def _allow_open(ruleset: int, descriptor: int, rights: int) -> None:
    mode = os.fstat(descriptor).st_mode
    if stat.S_ISLNK(mode):  # what it leads to is allowed where it is, or not at all
        return
    allowed = rights if stat.S_ISDIR(mode) else rights & _OF_FILES
    if not allowed:
        return
    rule = _PathBeneath(allowed, descriptor)
    _raise_for_errno(_call(_ADD_RULE, ruleset, _PATH_BENEATH, ctypes.byref(rule), 0))


_O_PATH: int = getattr(os, "O_PATH", 0)
_OPEN_WITHOUT_LINKS = 437  # openat2, the same on every architecture
_NO_LINKS = 0x06  # RESOLVE_NO_MAGICLINKS, RESOLVE_NO_SYMLINKS
_WITHOUT_THE_CALL = frozenset({errno.ENOSYS, errno.EPERM})  # the latter in containers


def open_real(path: Path) -> int:
    """A descriptor of a file or folder without access to its content, reached through no link.

    A path that was real when it was decided about may have become a link since. Raises OSError,
    with ELOOP for a link.
    """
    at = struct.pack("<QQQ", _O_PATH | os.O_CLOEXEC, 0, _NO_LINKS)
    found = _call(_OPEN_WITHOUT_LINKS, _HERE, os.fsencode(path), at, len(at))
    if found >= 0:
        return found
    number = ctypes.get_errno()
    if number in _WITHOUT_THE_CALL:
        return _open_step_by_step(path)
    raise OSError(number, os.strerror(number), str(path))


_HERE = -100


def _open_step_by_step(path: Path) -> int:
    first, *names = path.parts
    folder = os.open(first, _O_PATH | os.O_CLOEXEC | os.O_NOFOLLOW)
    for name in names:
        try:
            below = os.open(name, _O_PATH | os.O_CLOEXEC | os.O_NOFOLLOW, dir_fd=folder)
        finally:
            os.close(folder)
        folder = below
        if stat.S_ISLNK(os.fstat(folder).st_mode):
            os.close(folder)
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))
    return folder


@contextmanager
def _opened(paths: Iterable[Path]) -> Iterator[list[int]]:
    """Descriptors of real paths; what is not there is passed over.

    Raises UnsafePathError for a link: it stands where a folder stood that may be written.
    """
    descriptors: list[int] = []
    try:
        for path in paths:
            try:
                descriptors.append(open_real(path))
            except (FileNotFoundError, NotADirectoryError, PermissionError):
                continue
            except OSError as error:
                if error.errno != errno.ELOOP:
                    raise
                problem = "it has become a link since it was decided that it may be written"
                raise UnsafePathError(str(path), problem) from error
        yield descriptors
    finally:
        for descriptor in descriptors:
            os.close(descriptor)


def _drop_capabilities() -> None:
    """Root is a user like any other then; with no new privileges, what it starts is so too."""
    header = (ctypes.c_uint32 * 2)(_CAPABILITIES_VERSION_3, 0)
    none = (ctypes.c_uint32 * 6)()
    _raise_for_errno(_libc().capset(header, none))


def _raise_for_errno(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result


def _call(number: int, *arguments: object) -> int:
    words = (a if not isinstance(a, int) else ctypes.c_long(a) for a in arguments)
    return int(_libc().syscall(ctypes.c_long(number), *words))


@cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


# --- withholding ----------------------------------------------------------------------------------
# Folders that a child gets less of than its parent has, and all else as it is.
#
# Landlock only allows. So beside each folder on the way to a withheld one, everything that is there
# is allowed by itself: a confined child makes no new entry in those folders. Measured: about 0.4 ms
# for a child with the usual folders of a home.

# What the work of root with files and processes of its own needs: CHOWN, DAC_OVERRIDE, FOWNER,
# FSETID, KILL, SETGID, SETUID. All else reaches the machine: its clock, network, devices, log.
_KEPT_CAPABILITIES = (0, 1, 3, 4, 5, 6, 7)
_DEVICES = Path("/dev")
_MEMORY = frozenset({_DEVICES / "shm", _DEVICES / "mqueue"})  # files, no devices


class Access(Enum):
    """What a child may do in a folder and below it."""

    NONE = 0
    READ = 1
    ALL = 2


@dataclass(frozen=True, slots=True)
class FolderRestrictions:
    """What a child may do below some folders; the nearest folder that is named counts.

    What lies below none of them has the access ``base``.
    """

    folders: tuple[tuple[Path, Access], ...]
    base: Access = Access.ALL

    def takes(self, what: str, path: str) -> bool:
        """Whether it refuses ``read`` or ``write`` of a path. For messages, not for decisions."""
        real = Path(os.path.realpath(path))
        above = (one for one in self.folders if real.is_relative_to(os.path.realpath(one[0])))
        _, access = max(above, key=lambda one: len(one[0].parts), default=(None, self.base))
        return access is Access.NONE or (access is Access.READ and what == "write")

    def named(self) -> tuple[tuple[str, bool], ...]:
        """The real paths that it names, and whether they may be written; the root is the base."""
        real = ((os.path.realpath(path), access) for path, access in self.folders)
        every = (("/", self.base), *real)
        return tuple((path, access is Access.ALL) for path, access in every)

    def enter(self, *, platform: str = sys.platform) -> bool:
        """Confine this thread, and what it starts; False where the system has no Landlock.

        Raises OSError when the system has it and refuses.
        """
        version = landlock_version(platform=platform)
        if not version or os.getpid() in _confined:
            return bool(version)
        with _made_lock:  # a ruleset that is replaced is closed
            ruleset = self._ruleset(_rights(version), _scopes(version))
            _raise_for_errno(_libc().prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0))
            _keep_ordinary_capabilities()
            _raise_for_errno(_call(_RESTRICT_SELF, ruleset, 0))
        return True

    def _ruleset(self, rights: int, scopes: int) -> int:
        """A descriptor of the rules; those made before as long as no folder got or lost an entry.

        The time of a folder that is younger than the clock's steps may hide a change.
        """
        folders, ancestors = self._places()
        state = (os.getpid(), *self.state())
        known = _made.get(self)
        if known is not None and known[0] == state:
            return known[1]
        is_settled = _is_settled(state[2])
        ruleset = _new_ruleset(rights, scopes)
        closed = (path for path, one in folders.items() if one is Access.NONE)
        partly_closed = {above for path in closed for above in path.parents}
        named = (folders, ancestors, partly_closed)
        self._grant(ruleset, Path("/"), self.base, named, rights)
        return _keep(self, state if is_settled else None, ruleset)

    def state(self) -> tuple[tuple[tuple[Path, Access], ...], tuple["Entries", ...]]:
        """What the rules are made from: another one as soon as such a folder has another entry."""
        folders, ancestors = self._places()
        return tuple(folders.items()), tuple(map(_entries, sorted(ancestors)))

    def _places(self) -> tuple[dict[Path, Access], set[Path]]:
        """The real folders that it names, and those above them."""
        folders = {Path(os.path.realpath(path)): access for path, access in self.folders}
        return folders, {above for path in folders for above in path.parents}

    def _grant(
        self,
        ruleset: int,
        folder: Path,
        access: Access,
        named: tuple[dict[Path, Access], set[Path], set[Path]],
        rights: int,
    ) -> None:
        folders, ancestors, partly_closed = named
        access = folders.get(folder, access)
        if folder not in ancestors:
            if access is not Access.NONE:
                granted = rights if access is Access.ALL else rights & _READING
                _allow(ruleset, folder, granted, follow=False)
            return
        # Where nothing below is closed, what is made there later can be read too.
        is_open = access is not Access.NONE and folder not in partly_closed
        _allow(ruleset, folder, rights & (_READING if is_open else _LIST), follow=False)
        with suppress(OSError):
            for name in os.listdir(folder):  # noqa: PTH208 - names are what is wanted
                below = folder / name
                if (
                    not (is_open and access is Access.READ)
                    or below in ancestors
                    or below in folders
                ):
                    self._grant(ruleset, below, access, named, rights)

    def macos_profile(self) -> str:
        """The same for ``sandbox-exec`` of macOS, whose last matching rule counts."""
        lines = ["(version 1)", "(allow default)"]
        others = () if self.base is Access.ALL else ((Path("/"), self.base),)
        for path, access in sorted((*others, *self.folders), key=lambda one: len(one[0].parts)):
            quoted = str(path).replace("\\", "\\\\").replace('"', '\\"')
            place = f'(subpath "{quoted}")'
            reads = "deny" if access is Access.NONE else "allow"
            writes = "allow" if access is Access.ALL else "deny"
            lines += [f"({reads} file-read-data {place})", f"({writes} file-write* {place})"]
        return "\n".join(lines) + "\n"


_made: "dict[FolderRestrictions | Confinement, tuple[object, int]]" = {}
"""The rules that were made last, and what they were made of."""
_made_lock = Lock()
_MAX_MADE = 16
_STEP_NS = 50_000_000


def _new_ruleset(rights: int, scopes: int = 0) -> int:
    attributes = _Ruleset(rights, 0, scopes)
    size = ctypes.sizeof(attributes) if scopes else ctypes.sizeof(ctypes.c_uint64)
    return _raise_for_errno(_call(_CREATE_RULESET, ctypes.byref(attributes), size, 0))


def _keep(owner: "FolderRestrictions | Confinement", state: object, ruleset: int) -> int:
    """Cache a ruleset for the next start, instead of the last one of the same owner."""
    while owner in _made or len(_made) >= _MAX_MADE:
        _, old = _made.pop(owner if owner in _made else next(iter(_made)))
        os.close(old)
    _made[owner] = state, ruleset
    return ruleset


Entries = tuple[int, int, int]


def _is_settled(entries: Iterable[Entries]) -> bool:
    """Whether each time is old enough for a change that follows to have another one."""
    return all(time.time_ns() - at > _STEP_NS for at, _, _ in entries)


def _entries(folder: Path) -> Entries:
    """What changes with the entries of a folder: its time, and which folder it is."""
    try:
        status = folder.stat()
    except OSError:
        return 0, 0, 0
    return max(status.st_mtime_ns, status.st_ctime_ns), status.st_ino, status.st_dev


def _keep_ordinary_capabilities() -> None:
    """Root keeps what its own files and processes need; with no new privileges that is final."""
    header = (ctypes.c_uint32 * 2)(_CAPABILITIES_VERSION_3, 0)
    held = (ctypes.c_uint32 * 6)()
    _raise_for_errno(_libc().capget(header, held))
    kept = sum(1 << number for number in _KEPT_CAPABILITIES)
    for which in range(3):  # effective, permitted, inheritable
        held[which] &= kept
        held[3 + which] = 0
    _raise_for_errno(_libc().capset(header, held))


# --- confinement ----------------------------------------------------------------------------------
# The rights of a child in the form of its start: real paths, sockets, addresses.

_WRITING_RIGHTS = (_WRITE | _REFER | _TRUNCATE | _DEVICE_CONTROL) | (
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
    """What a child may do. None, for files and programs: the same as its parent.

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
        """Whether it limits files or programs."""
        unlimited = self.readable is self.writable is self.executable is None
        return not unlimited or self.mediated is not None

    @property
    def needs_filter(self) -> bool:
        """Whether it limits system calls."""
        return (
            self.is_hardened
            or self.sockets != Sockets(local=True)
            or self.limits_writing
            or self.executable is not None
            or self.is_supervised
        )

    @property
    def limits_writing(self) -> bool:
        """Whether there are files that it keeps from being changed."""
        kept = (self.writable, self.mediated, self.withholding)
        return any(one is not None for one in kept)

    @property
    def is_supervised(self) -> bool:
        """Whether some of its system calls wait for a supervisor."""
        return (
            self.hears_sockets
            or self.hears_starts
            or self.mediated is not None
            or self._changes is Hold.ASKED
        )

    @property
    def hears_starts(self) -> bool:
        """Whether the supervisor sees each start of a program."""
        return self.watches or self.executable is not None

    @property
    def hears_sockets(self) -> bool:
        """Whether the supervisor needs the sockets of callers."""
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
        """What becomes of changes of metadata: the supervisor makes them where one may be made."""
        if not self.limits_writing:
            return Hold.FREE
        if self.mediated is not None or self.writable is None:
            return Hold.ASKED
        is_any = any(one.parent != _DEVICES or one in _MEMORY for one in self.writable)
        return Hold.ASKED if is_any else Hold.REFUSED

    @property
    def _parted(self) -> Mediation:
        """What is mediated, with folders to be written in which something is kept."""
        if self.mediated is None:
            return Mediation(())
        kept = self.mediated.kept
        more = (path for path in self.writable or () if _is_above(path, kept))
        return Mediation((*self.mediated.folders, *more), kept)

    def supervision(self) -> "Supervision":
        """What its supervisor decides by."""
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
        """Where changes may be made, for the supervisor."""
        from lillux.mediation import WriteRules

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
            with _made_lock:
                ruleset = self._ruleset(version)
                _raise_for_errno(_libc().prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0))
                _keep_ordinary_capabilities()
                _raise_for_errno(_call(_RESTRICT_SELF, ruleset, 0))
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
        cuts_files = self.writable is not None and 0 < landlock < _VERSION_WITH_TRUNCATE
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
        with _opened(native) as writable:
            return self._ruleset_of(version, writable)

    def _ruleset_of(self, version: int, writable: Sequence[int]) -> int:
        readable, executable = self.readable or (), self.executable or ()
        mediated = self._parted
        paths = (*readable, *executable)
        state = (os.getpid(), (*map(_identity, writable), *map(_identity, paths)), self._entries())
        known = _made.get(self)
        if known is not None and known[0] == state:
            return known[1]
        every = _rights(version)
        handled = 0 if self.readable is None else _LOOKING
        handled |= _WRITING_RIGHTS if self.writable is not None or self.mediated else 0
        handled |= 0 if self.executable is None else _EXECUTE
        ruleset = _new_ruleset(handled & every, _scopes(version))
        for path in readable:
            _allow(ruleset, path, handled & every & _LOOKING)
        for descriptor in writable:
            _allow_open(ruleset, descriptor, handled & every & ~_EXECUTE)
        for path in executable:
            _allow(ruleset, path, handled & every & (_EXECUTE | _LOOKING))
        for path in mediated.folders:
            _allow_parts(ruleset, path, mediated.kept, handled & every & ~_EXECUTE)
        return _keep(self, state, ruleset)

    def _entries(self) -> tuple[Entries, ...]:
        """The folders whose entries the rules of its mediated folders name."""
        mediated = self._parted
        return tuple(_entries(one) for path in mediated.folders for one in _ways(path, mediated))

    def state(self) -> object:
        """What its rules are made from; of another state, they are other rules.

        Landlock's rules are about files, not about their paths: a process that goes on may not use
        a file that has taken the place of another one since its start. Asked before the start.
        """
        if not landlock_version():
            return None
        paths = (*(self.readable or ()), *(self.writable or ()), *(self.executable or ()))
        withheld = self.withholding.state() if self.withholding else ((), ())
        entries = (*withheld[1], *self._entries())
        younger = () if _is_settled(entries) else (time.time_ns(),)
        return tuple(map(_identity, paths)), withheld[0], entries, younger

    def allows(self, what: str, path: str) -> bool:
        """Whether the rules allow ``read``, ``write`` or ``run`` of a path. For messages only."""
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
    """Whether a supervisor can make changes: it answers open() with a descriptor in one step."""
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
                _allow_open(ruleset, descriptor, rights & _LOOKING)
                return
            if not _is_above(folder, kept):
                _allow_open(ruleset, descriptor, rights)
                return
            _allow_open(ruleset, descriptor, rights & _LOOKING)
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


# --- places ---------------------------------------------------------------------------------------
# System folders that programs need and that contain no secrets.

SYSTEM_FOLDERS = (
    *("/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/usr", "/opt", "/nix", "/gnu"),
    *("/snap", "/proc", "/sys", "/run/systemd/resolve", "/run/resolvconf", "/run/nscd"),
    *("/System", "/Library"),
)
# In /etc the files that interpreters, TLS and the resolver read. Other files there may contain
# passwords, private keys and environments of services.
_ETC = (
    *("ssl/certs", "ssl/cert.pem", "ssl/openssl.cnf", "ssl/ca-bundle.pem", "ca-certificates"),
    *("ca-certificates.conf", "pki/tls/certs", "pki/tls/cert.pem", "pki/tls/openssl.cnf"),
    *("pki/ca-trust", "crypto-policies", "openssl.cnf", "localtime", "timezone", "locale.conf"),
    *("locale.alias", "resolv.conf", "hosts", "host.conf", "hostname", "nsswitch.conf"),
    *("gai.conf", "networks", "protocols", "services", "rpc", "passwd", "group", "shells"),
    *("ld.so.cache", "ld.so.conf", "ld.so.conf.d", "ld.so.preload", "alternatives"),
    *("mime.types", "magic", "magic.mime", "terminfo", "inputrc", "fonts", "os-release"),
    *("lsb-release", "debian_version", "redhat-release", "alpine-release", "gitconfig"),
    *("perl", "static"),
)
_ETC_PATTERNS = ("python3*", "java-*")
BESIDE_PROGRAMS = ("lib", "lib64", "libexec", "pyvenv.cfg")
"""What lies beside a folder of programs and belongs to them; the file, of a virtual environment."""
_BESIDE_SHIMS = ("version", "versions", "installs", "bin", "plugins", "pyenv.d", "rbenv.d")
"""What lies beside a folder of shims: the manager, its choice, and the programs themselves."""


def system_places(etc: Path = Path("/etc")) -> Iterator[Path]:
    """Files and folders of the system that any program may read."""
    yield from map(Path, SYSTEM_FOLDERS)
    yield from (etc / name for name in _ETC)
    yield from (found for pattern in _ETC_PATTERNS for found in etc.glob(pattern))


def program_places(folder: Path) -> tuple[Path, ...]:
    """A folder of programs, and what lies beside it and belongs to them.

    Of shims too the programs that they start, and the manager that knows which ones.
    """
    beside = (*BESIDE_PROGRAMS, *_BESIDE_SHIMS) if folder.name == "shims" else BESIDE_PROGRAMS
    return (folder, *(folder.parent / name for name in beside))


def loaders_of(program: Path, *, of_elf: bool = False) -> Iterator[list[str]]:
    """The loader of a program: its ELF interpreter, or the program in its ``#!`` line.

    With ``of_elf`` the former alone.
    """
    try:
        with program.open("rb") as file:
            head = file.read(4096)
            if head.startswith(b"#!") and not of_elf:
                words = head[2:].partition(b"\n")[0].split()
                if words:
                    yield [os.fsdecode(word) for word in words]
                return
            if head[:5] != b"\x7fELF\x02":
                return
            first = int.from_bytes(head[32:40], "little")
            size, count = (int.from_bytes(head[at : at + 2], "little") for at in (54, 56))
            for index in range(count):
                entry = head[first + index * size :][:size]
                if entry[:4] == b"\x03\0\0\0":  # PT_INTERP
                    at, length = (int.from_bytes(entry[p : p + 8], "little") for p in (8, 32))
                    file.seek(at)
                    yield [os.fsdecode(file.read(length).rstrip(b"\0"))]
    except OSError:
        return
