"""Changes of files that a supervisor makes in the place of a confined process.

Landlock can only allow, so it cannot hold back a part of a folder in which new entries may be made;
and it does not hold modes, owners, times and attributes at all. So the calls that do this wait for
the supervisor (`lillux.supervisor`), which

(1) resolves the path of the caller to an open folder and a name in it
(2) looks where that folder really is
(3) makes the change by that descriptor, as the user and with the umask of the caller
(4) hands the descriptor of an opened file to the caller

No path is looked at twice. What it does not decide about goes on by itself (`GoOn`): then Landlock
decides. That is right for what Landlock holds alone, so never for metadata. Linux.
"""

import ctypes
import errno
import os
import re
import stat
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cache, lru_cache
from typing import NamedTuple

from lillux.seccomp import LOCKS, METADATA, WRITES, number_of
from lillux.values import dataclass

_AT_FDCWD = -100
_MAX_PATH, _MAX_LINKS, _MAX_ATTRIBUTE = 4096, 40, 65536
_NO_FOLLOW, _REMOVE_FOLDER, _FOLLOW, _EMPTY_PATH = 0x100, 0x200, 0x400, 0x1000  # AT_*
_NO_REPLACE, _EXCHANGE = 1, 2
_NO_MAGIC_LINKS, _IN_ROOT, _CACHED = 0x02, 0x10, 0x20  # RESOLVE_*
_OPEN_FOLDER = getattr(os, "O_PATH", 0) | getattr(os, "O_DIRECTORY", 0) | os.O_CLOEXEC
_OPEN_ANY = getattr(os, "O_PATH", 0) | getattr(os, "O_NOFOLLOW", 0) | os.O_CLOEXEC
_TEMPORARY = 0o20000000  # the bit of O_TMPFILE that is not O_DIRECTORY
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC
_SHARED_PLACE = 0x200  # CLONE_FS
_CAPABILITIES_VERSION_3 = 0x2008_0522
_LOOKING_AT_CALLERS = 1 << 19  # CAP_SYS_PTRACE, which counts for no file
_SHARED_MEMORY = ("/dev/shm/", "/dev/mqueue/")  # noqa: S108 - files in memory, no devices
_SHARED = ("/tmp", "/var/tmp", "/dev/shm")  # noqa: S108 - names, nothing is made there
_PRIVATE_ATTRIBUTES = ("security.", "trusted.")
_RETRIES = 8
MAX_COPIED = 256 * 1024 * 1024
"""A longer file with names elsewhere is not changed: it gets no copy in the place of its name."""
_MAX_COUNTED = 10_000
_GONE = " (deleted)"


class GoOn(Exception):  # noqa: N818 - not an error
    """A call continues, and the kernel decides by its own rules.

    ``refused`` is the place of a change that it will refuse by them, ``""`` where none is known.
    """

    def __init__(self, refused: str = "") -> None:
        self.refused = refused
        super().__init__(refused)


class RefusedError(PermissionError):
    """A call that the rules refuse: what it is, as `lillux.attempts.Attempt` says it, and of what.

    The kernel refuses changes too, for reasons of its own, which are no matter of these rules.
    """

    def __init__(self, what: str, target: str) -> None:
        super().__init__(errno.EPERM, os.strerror(errno.EPERM))
        self.what, self.target = what, target


class Blocks(Exception):  # noqa: N818 - not an error
    """A call waits for another process: a pipe has no reader yet, or a lock is held."""


# --- rules ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteRules:
    """Where changes may be made, as real paths.

    native    folders and files that Landlock allows to be written; None for any
    mediated  folders in which the supervisor makes changes
    kept      nothing at or below these is changed; they are refused natively too
    layers    of each further limit the paths that it names, and whether they may be written; the
              nearest counts
    """

    native: tuple[str, ...] | None
    mediated: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()
    layers: tuple[tuple[tuple[str, bool], ...], ...] = ()

    def mediates(self, place: str) -> bool:
        """Whether changes at a real path are for the supervisor to make."""
        return any(_is_within(place, one) for one in self.mediated) and not self.keeps(place)

    def keeps(self, place: str) -> bool:
        """Whether a real path is kept, also if a file system does not mind the case of names."""
        if any(_is_within(place, one) for one in self.kept):
            return True
        folded = _folded(place)
        return any(_is_within(folded, _folded_kept(one)) for one in self.kept)

    def is_given(self, place: str) -> bool:
        """Whether a real path is one of the folders themselves, or above one."""
        return any(_is_within(one, place) for one in self.mediated)

    def is_shared(self, place: str) -> bool:
        """Whether others make files there too: the innermost given folder is a shared one.

        The sockets of a session lie in such folders: those of ssh-agent, tmux, X11.
        """
        given = (*self.mediated, *(self.native or ()))
        nearest = max((one for one in given if _is_within(place, one)), key=len, default="/")
        return any(_is_within(one, nearest) for one in _SHARED)

    def is_above_kept(self, place: str) -> bool:
        """Whether something kept lies, or would lie, below a real path."""
        return any(_is_within(one, place) for one in self.kept)

    def refuses(self, place: str) -> bool:
        """Whether the kernel holds what is at a real path from being changed, by native rules."""
        if self.keeps(place):
            return True
        if self.native is None or not place.startswith("/"):  # pipes have no path
            return False
        if any(_is_within(place, one) for one in self.mediated):
            return False
        if not any(_is_within(place, one) for one in self.native):
            return True
        return not all(_nearest(layer, place) for layer in self.layers)

    def may_change(self, place: str) -> bool:
        """Whether what is at a real path may be changed at all."""
        is_device = place.startswith("/dev/") and not place.startswith(_SHARED_MEMORY)
        if is_device or self.keeps(place):
            return False
        if any(_is_within(place, one) for one in self.mediated):
            return True
        if self.native is not None and not any(_is_within(place, one) for one in self.native):
            return False
        return all(_nearest(layer, place) for layer in self.layers)


def _is_within(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder if folder == "/" else folder + "/")


def _folded(path: str) -> str:
    """A path as a file system may compare it: without case, and characters that are not shown."""
    shown = path if path.isascii() else "".join(filter(str.isprintable, path))
    return shown.casefold()


@lru_cache(maxsize=256)
def _folded_kept(path: str) -> str:
    return _folded(path)


def _nearest(layer: tuple[tuple[str, bool], ...], place: str) -> bool:
    above = [one for one in layer if _is_within(place, one[0])]
    return max(above, key=lambda one: len(one[0]))[1] if above else True


# --- caller ---------------------------------------------------------------------------------------

_STATUS = re.compile(
    rb"Umask:\t(\d+)\n.*?Tgid:\t(\d+)\n.*?PPid:\t(\d+)\n.*?Uid:\t([^\n]*)\nGid:\t([^\n]*)\n"
    rb".*?Groups:\t([^\n]*)\n.*?CapEff:\t(\w+)\n.*?(?:Seccomp_filters:\t(\d+)|\Z)",
    re.DOTALL,
)

_SIGNALS = re.compile(rb"\n(SigPnd|ShdPnd|SigBlk|SigCgt):\t(\w+)")
_KIN = re.compile(rb"\nTgid:\t(\d+)\n.*?\nPPid:\t(\d+)\n", re.DOTALL)


class User(NamedTuple):
    """What the system decides by when a thread reaches for a file."""

    uid: int
    gid: int
    groups: tuple[int, ...]
    capabilities: int


class Status(NamedTuple):
    """A process as the system shows it."""

    umask: int
    leader: int
    parent: int
    user: User
    filters: int


def status_of(pid: int | str) -> Status:
    """The status of a thread. Raises OSError."""
    found = _STATUS.search(_status_text(pid))
    if found is None:  # a zombie has no umask
        raise OSError(errno.ESRCH, os.strerror(errno.ESRCH))
    umask, leader, parent, *user, filters = found.groups()
    return Status(
        umask=int(umask, 8),
        leader=int(leader),
        parent=int(parent),
        user=_user(*user),
        filters=int(filters or 0),
    )


def _has_signal(pid: int) -> bool:
    """Whether a thread has a signal to handle, for which a waiting call would end. Raises OSError.

    A supervised call itself ends for no signal but one that kills.
    """
    found = dict(_SIGNALS.findall(_status_text(pid)))
    pending = int(found[b"SigPnd"], 16) | int(found[b"ShdPnd"], 16)
    return bool(pending & ~int(found[b"SigBlk"], 16) & int(found[b"SigCgt"], 16))


def kin_of(pid: int) -> tuple[int, int]:
    """The leader of a thread's process, and its parent; also of one that has ended and waits.

    Raises ProcessLookupError where there is none.
    """
    try:
        found = _KIN.search(_status_text(pid))
    except FileNotFoundError:
        found = None
    if found is None:
        raise ProcessLookupError(errno.ESRCH, os.strerror(errno.ESRCH))
    return int(found[1]), int(found[2])


def _status_text(pid: int | str) -> bytes:
    descriptor = os.open(f"/proc/{pid}/status", os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(descriptor, 8192)
    finally:
        os.close(descriptor)


@lru_cache(maxsize=64)
def _user(uids: bytes, gids: bytes, groups: bytes, capabilities: bytes) -> User:
    return User(
        uid=int(uids.split()[3]),
        gid=int(gids.split()[3]),
        groups=tuple(map(int, groups.split())),
        capabilities=int(capabilities, 16),
    )


class FileCall(NamedTuple):
    """A waiting call, its number, and the thread that made it."""

    pid: int
    name: str
    words: list[int]
    request: int

    def text(self, address: int) -> str:
        """The text up to a NUL. Raises OSError, with ENAMETOOLONG for one without an end."""
        if address == 0:
            raise OSError(errno.EFAULT, os.strerror(errno.EFAULT))
        text, descriptor = b"", self._open_memory()
        try:
            while len(text) <= _MAX_PATH:
                # Up to the end of a page: the one behind it may not be there.
                more = os.pread(
                    descriptor, 4096 - (address + len(text)) % 4096, address + len(text)
                )
                head, end, _ = more.partition(b"\0")
                text += head
                if end:
                    return os.fsdecode(text)
                if not more:
                    break
        except OSError as error:
            raise OSError(errno.EFAULT, os.strerror(errno.EFAULT)) from error
        finally:
            os.close(descriptor)
        raise OSError(errno.ENAMETOOLONG, os.strerror(errno.ENAMETOOLONG))

    def write(self, address: int, data: bytes) -> None:
        """Put bytes into the memory of the caller. Raises OSError."""
        descriptor = os.open(f"/proc/{self.pid}/mem", os.O_WRONLY | os.O_CLOEXEC)
        try:
            os.pwrite(descriptor, data, address)
        finally:
            os.close(descriptor)

    def memory(self, address: int, size: int) -> bytes:
        """Bytes of the memory of the caller. Raises OSError where there are fewer."""
        descriptor = self._open_memory()
        try:
            found = os.pread(descriptor, size, address)
        except OSError as error:
            raise OSError(errno.EFAULT, os.strerror(errno.EFAULT)) from error
        finally:
            os.close(descriptor)
        if len(found) < size:
            raise OSError(errno.EFAULT, os.strerror(errno.EFAULT))
        return found

    def _open_memory(self) -> int:
        return os.open(f"/proc/{self.pid}/mem", os.O_RDONLY | os.O_CLOEXEC)

    def open_base(self, at: int, path: str) -> int:
        """A descriptor of the folder that a path starts from. Raises OSError, GoOn."""
        if path.startswith("/"):
            if os.readlink(f"/proc/{self.pid}/root") != "/":  # noqa: PTH115 - many a second
                raise GoOn
            return os.open("/", _OPEN_FOLDER)
        number = as_signed(at)
        place = "cwd" if number == _AT_FDCWD else f"fd/{number}"
        try:
            return os.open(f"/proc/{self.pid}/{place}", _OPEN_FOLDER)
        except FileNotFoundError as error:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF)) from error

    def open_own(self, at: int) -> int:
        """A descriptor of the file of one of its descriptors. Raises OSError."""
        number = as_signed(at)
        if number == _AT_FDCWD:
            return os.open(f"/proc/{self.pid}/cwd", _OPEN_FOLDER)
        try:
            return os.open(f"/proc/{self.pid}/fd/{number}", getattr(os, "O_PATH", 0) | os.O_CLOEXEC)
        except FileNotFoundError as error:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF)) from error


def as_signed(word: int) -> int:
    """A register as an int of C."""
    return (word & 0xFFFF_FFFF) - ((word & 0x8000_0000) << 1)


# --- this thread ----------------------------------------------------------------------------------


class Impersonation:
    """Lets this thread alone reach for files as another user would, and with another umask.

    A process that is not root can be no other user; then nothing is to be done.
    """

    def __init__(self, entered: Status) -> None:
        own = status_of("thread-self").user
        self._is_root = own.uid == 0
        self._has_own_umask = _call_system("unshare", _SHARED_PLACE) == 0
        if self._is_root:  # what those who are confined have lost is not lent to them
            _set_effective(own.capabilities & (entered.user.capabilities | _LOOKING_AT_CALLERS))
        self._own = status_of("thread-self").user

    @contextmanager
    def become(self, status: Status, pid: int) -> Iterator[int]:
        """Be like a caller within the block; the value is what a mode of its is to be ANDed with.

        Raises OSError where that is not possible.
        """
        if self._has_own_umask:
            os.umask(status.umask)
        wanted = self._capped(status.user, pid)
        if wanted == self._own:
            yield ~0 if self._has_own_umask else ~status.umask
            return
        if not self._is_root:
            raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))
        try:
            self._switch(wanted)
            yield ~0 if self._has_own_umask else ~status.umask
        finally:
            self._switch_back()

    def become_for_good(self, status: Status, pid: int) -> None:
        """Be like a caller until the thread ends, also for those that it speaks to.

        Raises OSError where that is not possible.
        """
        if self._has_own_umask:
            os.umask(status.umask)
        wanted = self._capped(status.user, pid)
        if wanted == self._own:
            return
        if not self._is_root:
            raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))
        user = wanted
        words = (ctypes.c_uint32 * max(len(user.groups), 1))(*user.groups)
        _require(_call_system("setgroups", len(user.groups), ctypes.addressof(words)))
        _require(_call_system("setresgid", user.gid, user.gid, user.gid))
        _require(_call_system("setresuid", user.uid, user.uid, user.uid))
        _set_effective(user.capabilities)

    def _capped(self, user: User, pid: int) -> User:
        capabilities = user.capabilities & self._own.capabilities
        if capabilities and _inode(f"/proc/{pid}/ns/user") != _own_user_namespace():
            capabilities = 0  # they count in its own namespace alone
        if not self._is_root:  # a process without rights has none to lose
            capabilities = self._own.capabilities
        capabilities |= self._own.capabilities & _LOOKING_AT_CALLERS
        return User(uid=user.uid, gid=user.gid, groups=user.groups, capabilities=capabilities)

    def _switch(self, user: User) -> None:
        words = (ctypes.c_uint32 * max(len(user.groups), 1))(*user.groups)
        _require(_call_system("setgroups", len(user.groups), ctypes.addressof(words)))
        _call_system("setfsgid", user.gid)
        _call_system("setfsuid", user.uid)
        _set_effective(user.capabilities)

    def _switch_back(self) -> None:
        _set_effective(self._own.capabilities)
        _call_system("setfsuid", self._own.uid)
        _call_system("setfsgid", self._own.gid)
        own = self._own.groups
        words = (ctypes.c_uint32 * max(len(own), 1))(*own)
        _call_system("setgroups", len(own), ctypes.addressof(words))
        _set_effective(self._own.capabilities)  # changing the user has taken some


@cache
def _own_user_namespace() -> int:
    return _inode("/proc/self/ns/user")


def _inode(path: str) -> int:
    return os.stat(path).st_ino  # noqa: PTH116 - many a second


def _set_effective(wanted: int) -> None:
    header = (ctypes.c_uint32 * 2)(_CAPABILITIES_VERSION_3, 0)
    held = (ctypes.c_uint32 * 6)()
    _require(_libc().capget(header, held))
    for word in range(2):
        held[3 * word] = wanted >> 32 * word & 0xFFFF_FFFF & held[3 * word + 1]
    _require(_libc().capset(header, held))


# --- changes --------------------------------------------------------------------------------------


class _Spot(NamedTuple):
    """A name in an open folder, with the real path of it. ``tail`` is a slash that stood behind."""

    folder: int
    name: str
    place: str
    tail: str = ""

    @property
    def as_given(self) -> str:
        """The name as the kernel should read it."""
        return self.name + self.tail


class Opened:
    """Descriptors that are closed at the end of a call."""

    def __init__(self) -> None:
        self.descriptors: list[int] = []

    def keep(self, descriptor: int) -> int:
        """The descriptor itself."""
        self.descriptors.append(descriptor)
        return descriptor

    def close(self) -> None:
        """Close all of them."""
        for descriptor in self.descriptors:
            with suppress(OSError):
                os.close(descriptor)


class Way:
    """Resolves the paths of a call, one step after the other, to open folders."""

    def __init__(self, call: FileCall, opened: Opened) -> None:
        self.call, self.opened = call, opened

    def spot(self, at: int, path: str, resolve: int = 0) -> _Spot:
        """The folder and the name that a path leads to, the last name not followed."""
        if resolve & _IN_ROOT:
            path = f"./{path.lstrip('/')}"
        base = self.opened.keep(_found_out(self.call.open_base, at, path))
        return self._below(base, path, resolve)

    def _below(self, base: int, path: str, resolve: int = 0) -> _Spot:
        plain = path.rstrip("/")
        head, slash, name = plain.rpartition("/")
        tail = "/" if plain != path else ""
        if not plain or name in {".", ".."}:
            head, name, tail = path, ".", ""
        elif slash and not head:
            head = "/"
        folder = self.opened.keep(_found_out(_open_folder, base, head or ".", resolve))
        return _Spot(folder, name, _joined(real_place(folder), name), tail)

    def final(self, spot: _Spot, *, follows: bool = True) -> tuple[int, _Spot]:
        """A descriptor of what a name stands for, and its spot: of a link the end, if followed."""
        for _ in range(_MAX_LINKS):
            own = self.own_descriptor(spot)
            if own is not None and follows:
                found = self.opened.keep(self.call.open_own(own))
                return found, _Spot(spot.folder, spot.name, real_place(found))
            found = self.opened.keep(os.open(spot.name, _OPEN_ANY, dir_fd=spot.folder))
            if not stat.S_ISLNK(os.fstat(found).st_mode) or not (follows or spot.tail):
                return found, spot
            spot = self.followed(spot)
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))

    def followed(self, spot: _Spot) -> _Spot:
        """Where the link at a spot leads, one step."""
        if spot.place.startswith("/proc/"):
            raise GoOn
        target = os.readlink(spot.name, dir_fd=spot.folder) + spot.tail
        if target.startswith("/"):
            return self.spot(_AT_FDCWD, target)
        return self._below(spot.folder, target)

    def own_descriptor(self, spot: _Spot) -> int | None:
        """The number of a descriptor of the caller, where a path leads through /proc/self/fd.

        That resolved to this process, of course.
        """
        folder = spot.place.rpartition("/")[0]
        if folder == f"/proc/{os.getpid()}/fd" and spot.name.isdecimal():
            return int(spot.name)
        if folder.startswith("/proc/") and folder.endswith("/fd") and spot.name.isdecimal():
            leader = folder.split("/")[2]
            if leader in {str(self.call.pid), str(status_of(self.call.pid).leader)}:
                return int(spot.name)
        return None


Confirm = Callable[[], None]
"""Raises OSError when the call is waited for no more."""


class Changes:
    """Makes changes of files for confined processes, by the rules, in one thread.

    ``entered`` is a thread that has just entered the confinement. A process with more seccomp
    filters is confined further, so what is native decides about its writes.
    """

    def __init__(self, rules: WriteRules, entered: Status) -> None:
        self._rules, self._filters = rules, entered.filters
        self._self = Impersonation(entered)
        self._names: dict[tuple[int, int], int] = {}

    def make(self, call: FileCall, confirm: Confirm) -> tuple[int, int | None]:
        """The value that a call returns, and the descriptor to hand to the caller, if any.

        Raises OSError for what it returns else, GoOn, and Blocks.
        """
        opened = Opened()
        try:
            if call.name in LOCKS:
                return self._lock(call, opened, confirm), None
            if call.name in METADATA:
                return self._describe(Way(call, opened), confirm), None
            try:
                return self._write(Way(call, opened), confirm)
            except OSError as error:
                if error.filename == _NOT_FOUND_OUT:  # on the way there: the kernel says it better
                    raise GoOn from error
                raise
        finally:
            opened.close()

    # ------------------------------------------------------------------ writes

    def _write(self, way: Way, confirm: Confirm) -> tuple[int, int | None]:
        return _WRITERS[way.call.name](self, way, confirm)

    def _require_mediated(self, *spots: _Spot, there: Sequence[bool | None] = (None,)) -> None:
        """Go on where no spot is mediated, or one may not be changed.

        ``there``: of each spot whether something stands there, where the call fails otherwise for
        that alone.
        """
        rules = self._rules
        mediated = [rules.mediates(one.place) for one in spots]
        if all(mediated) and not any(spot.name == "." for spot in spots):
            return
        refused = (self._refused(spot, one) for spot, one in zip(spots, there, strict=True))
        place = next(filter(None, refused), "")
        if not any(mediated) or place:
            raise GoOn(place)
        for spot in spots:
            if not rules.may_change(spot.place) or spot.name == ".":
                raise GoOn

    def _refused(self, spot: _Spot, there: bool | None = None) -> str:  # noqa: FBT001 - as above
        """The place of a spot where the kernel refuses the change, ``""`` where it may not."""
        if not self._rules.refuses(spot.place):
            return ""
        return "" if there is not None and _is_there(spot) != there else spot.place

    def _require_replaceable(self, *spots: _Spot) -> None:
        """Go on where something kept lies, or would lie, below: native rules refuse that.

        Raises PermissionError for a folder that was given as a whole: a link in its place would
        lead the rules of the next start elsewhere.
        """
        for one in spots:
            if self._rules.is_given(one.place):
                raise RefusedError("write", one.place)
        for one in spots:
            if self._rules.is_above_kept(one.place):
                raise GoOn(one.place)

    # ------------------------------------------------------------------ files with several names

    def _has_names_elsewhere(self, found: int, spot: _Spot) -> bool:
        """Whether an open file may be one outside too: by a name that was not made in this run.

        Caches of package managers, programs of the user and other projects share files that way.
        """
        status = os.fstat(found)
        if not stat.S_ISREG(status.st_mode) or not self._rules.mediates(spot.place):
            return False
        if self._rules.is_given(spot.place):  # policy names this very file
            return False
        made = self._names.get((status.st_dev, status.st_ino), 0)
        if not made and spot.place.endswith(_GONE):  # what names are left is not known
            return status.st_nlink > 0
        return status.st_nlink > max(made, 1)

    def _count_names(self, before: os.stat_result, place: str) -> None:
        """Note a further name of a file all of whose names were made here."""
        key = before.st_dev, before.st_ino
        made = self._names.get(key, 0 if place.endswith(_GONE) else 1)
        if before.st_nlink <= made and len(self._names) < _MAX_COUNTED:
            self._names[key] = before.st_nlink + 1

    def _parted(self, found: int, spot: _Spot, *, keeps: bool = True) -> int:
        """A copy of an open file, which takes its name here; the other names keep the file.

        ``keeps`` says whether its content is wanted. Raises RefusedError where that cannot be.
        """
        try:
            return _part(found, spot, keeps=keeps)
        except OSError as error:
            raise RefusedError("write", spot.place) from error

    def _own_file(self, found: int, spot: _Spot, flags: int) -> int:
        """A file that was opened without cutting it, as it is to be opened."""
        cuts = bool(flags & os.O_TRUNC)
        if not (cuts or flags & (os.O_WRONLY | os.O_RDWR)):
            return found
        path = f"/proc/self/fd/{found}"
        try:
            if self._has_names_elsewhere(found, spot):
                if not flags & (os.O_WRONLY | os.O_RDWR):
                    _require_writable(found)
                copy = self._parted(found, spot, keeps=not cuts)
                os.close(found)
                found = copy
                again = flags & ~(os.O_CREAT | os.O_EXCL | os.O_TRUNC | os.O_NOFOLLOW)
                opened = os.open(f"/proc/self/fd/{copy}", again | os.O_CLOEXEC | os.O_NOCTTY)
                os.close(copy)
                return opened
            if cuts and stat.S_ISREG(os.fstat(found).st_mode):
                if flags & (os.O_WRONLY | os.O_RDWR):
                    os.ftruncate(found, 0)
                else:
                    os.truncate(path, 0)
        except BaseException:
            os.close(found)
            raise
        return found

    @contextmanager
    def _as_caller(
        self, call: FileCall, confirm: Confirm, *, is_native: bool, spot: _Spot | None = None
    ) -> Iterator[int]:
        """Be like the caller within the block; the value masks modes.

        ``spot`` is of a file that is written: one with names elsewhere is not left to the kernel.
        """
        status = status_of(call.pid)
        if is_native and status.filters > self._filters:
            if spot is not None:
                self._require_one_name(spot)
            raise GoOn
        confirm()  # else the number of the process may be another's now
        with self._self.become(status, call.pid) as mask:
            yield mask

    def _require_one_name(self, spot: _Spot) -> None:
        try:
            found = os.open(spot.name, _OPEN_ANY, dir_fd=spot.folder)
        except OSError:
            return
        try:
            if self._has_names_elsewhere(found, spot):
                raise RefusedError("write", spot.place)
        finally:
            os.close(found)

    def _open(self, way: Way, confirm: Confirm) -> tuple[int, int | None]:
        call = way.call
        at, address, flags, mode, resolve = _open_words(call)
        if not flags & WRITING or flags & getattr(os, "O_PATH", 0):
            raise GoOn
        path = call.text(address)
        if flags & _TEMPORARY:
            return self._open_temporary(way, (at, path, flags, mode), confirm)
        spot = way.spot(at, path, resolve)
        there = _there_for(flags)
        for _ in range(_MAX_LINKS):
            if way.own_descriptor(spot) is not None:
                found, spot = way.final(spot)
                return self._open_again(call, found, (spot, flags), confirm)
            if not self._rules.mediates(spot.place) and not flags & os.O_NOFOLLOW:
                try:
                    spot = way.followed(spot)
                except OSError:
                    raise GoOn(self._refused(spot, there)) from None
                continue
            self._require_mediated(spot, there=(there,))
            if self._rules.is_above_kept(spot.place):
                raise GoOn
            try:
                return 0, self._open_spot(call, spot, (flags, mode), confirm)
            except OSError as error:
                if flags & os.O_NOFOLLOW or resolve or not _is_link(spot, error):
                    raise
            spot = way.followed(spot)
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))

    def _open_spot(
        self, call: FileCall, spot: _Spot, how: tuple[int, int], confirm: Confirm
    ) -> int:
        """Open, or make, a file that is no link. Never waits: a pipe without a reader Blocks."""
        flags, mode = how
        ours = flags & ~os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
        with self._as_caller(call, confirm, is_native=True, spot=spot) as mask:
            try:
                found = os.open(spot.as_given, ours, mode & 0o7777 & mask, dir_fd=spot.folder)
            except OSError as error:
                waits = error.errno == errno.ENXIO and not flags & os.O_NONBLOCK
                if waits and stat.S_ISFIFO(_kind(spot)):
                    raise Blocks from error
                raise
            found = self._own_file(found, spot, flags)
        return _as_asked(found, flags)

    def _open_again(
        self, call: FileCall, found: int, how: tuple[_Spot, int], confirm: Confirm
    ) -> tuple[int, int | None]:
        """Open the file of one of its own descriptors once more, as /proc/self/fd lets it."""
        spot, flags = how
        if not self._rules.mediates(spot.place) or not stat.S_ISREG(os.fstat(found).st_mode):
            raise GoOn
        if flags & os.O_EXCL and flags & os.O_CREAT:
            raise OSError(errno.EEXIST, os.strerror(errno.EEXIST))
        if flags & (WRITING & ~os.O_CREAT) and self._has_names_elsewhere(found, spot):
            raise RefusedError("write", spot.place)  # the descriptor goes on to be the other file
        with self._as_caller(call, confirm, is_native=True):
            again = flags & ~os.O_CREAT & ~os.O_NOFOLLOW | os.O_CLOEXEC
            return 0, os.open(f"/proc/self/fd/{found}", again)

    def _open_temporary(
        self,
        way: Way,
        how: tuple[int, str, int, int],
        confirm: Confirm,
    ) -> tuple[int, int | None]:
        """A file without a name in a folder."""
        at, path, flags, mode = how
        call, opened = way.call, way.opened
        base = opened.keep(_found_out(call.open_base, at, path))
        folder = opened.keep(_found_out(_open_folder, base, path, 0))
        place = real_place(folder)
        if not self._rules.mediates(place):
            raise GoOn(place if self._rules.refuses(place) else "")
        with self._as_caller(call, confirm, is_native=True) as mask:
            made = os.open(".", flags | os.O_CLOEXEC, mode & 0o7777 & mask, dir_fd=folder)
        return 0, made

    def _make_folder(self, way: Way, confirm: Confirm) -> tuple[int, int | None]:
        call = way.call
        at, address, mode = _at_words(call, "mkdirat")[:3]
        spot = way.spot(at, call.text(address))
        self._require_mediated(spot, there=(False,))
        with self._as_caller(call, confirm, is_native=True) as mask:
            os.mkdir(spot.as_given, mode & 0o7777 & mask, dir_fd=spot.folder)
        return 0, None

    def _remove(self, way: Way, confirm: Confirm) -> tuple[int, int | None]:
        call = way.call
        at, address, flags = _at_words(call, "unlinkat")[:3]
        if call.name == "unlink":
            flags = 0
        elif call.name == "rmdir":
            flags = _REMOVE_FOLDER
        if flags & ~_REMOVE_FOLDER:
            raise GoOn
        spot = way.spot(at, call.text(address))
        self._require_mediated(spot, there=(True,))
        self._require_replaceable(spot)
        with self._as_caller(call, confirm, is_native=True):
            if flags:
                os.rmdir(spot.as_given, dir_fd=spot.folder)
            else:
                os.unlink(spot.as_given, dir_fd=spot.folder)
        return 0, None

    def _rename(self, way: Way, confirm: Confirm) -> tuple[int, int | None]:
        call = way.call
        words = call.words
        old_at, old, new_at, new, flags = (
            (_AT_FDCWD, words[0], _AT_FDCWD, words[1], 0) if call.name == "rename" else words[:5]
        )
        if call.name != "renameat2":
            flags = 0
        flags &= 0xFFFF_FFFF
        if flags & ~(_NO_REPLACE | _EXCHANGE):
            raise GoOn
        first = way.spot(old_at, call.text(old))
        second = way.spot(new_at, call.text(new))
        self._require_mediated(first, second, there=(True, None))
        self._require_replaceable(first, second)
        with self._as_caller(call, confirm, is_native=True):
            _require(
                _call_system(
                    "renameat2",
                    first.folder,
                    os.fsencode(first.as_given),
                    second.folder,
                    os.fsencode(second.as_given),
                    flags,
                )
            )
        return 0, None

    def _link(self, way: Way, confirm: Confirm) -> tuple[int, int | None]:
        call, opened = way.call, way.opened
        words = call.words
        old_at, old, new_at, new, flags = (
            (_AT_FDCWD, words[0], _AT_FDCWD, words[1], 0) if call.name == "link" else words[:5]
        )
        second = way.spot(new_at, call.text(new))
        path = call.text(old)
        if not path and flags & _EMPTY_PATH:
            found = opened.keep(call.open_own(old_at))
            first = _Spot(found, "", real_place(found))
        else:
            found, first = way.final(way.spot(old_at, path), follows=bool(flags & _FOLLOW))
            _require_folder(found, path)
        # No kernel links a folder; it says so, or what is wrong with the new name.
        changed = (second,) if stat.S_ISDIR(os.fstat(found).st_mode) else (second, first)
        self._require_mediated(*changed, there=(False, None)[: len(changed)])
        self._require_replaceable(*changed)
        with self._as_caller(call, confirm, is_native=True):
            # What was looked at is linked, not what stands under its name by now.
            if stat.S_ISLNK(os.fstat(found).st_mode):
                source = {"src": first.name, "src_dir_fd": first.folder, "follow_symlinks": False}
            else:
                source = {"src": f"/proc/self/fd/{found}", "follow_symlinks": True}
            before = os.fstat(found)
            os.link(dst=second.as_given, dst_dir_fd=second.folder, **source)  # type: ignore[arg-type]
            self._count_names(before, first.place)
        return 0, None

    def _make_link(self, way: Way, confirm: Confirm) -> tuple[int, int | None]:
        call = way.call
        words = call.words
        target, at, address = (
            (words[0], _AT_FDCWD, words[1]) if call.name == "symlink" else words[:3]
        )
        spot = way.spot(at, call.text(address))
        self._require_mediated(spot, there=(False,))
        self._require_replaceable(spot)
        text = call.text(target)
        with self._as_caller(call, confirm, is_native=True):
            os.symlink(text, spot.as_given, dir_fd=spot.folder)
        return 0, None

    def _make_node(self, way: Way, confirm: Confirm) -> tuple[int, int | None]:
        call = way.call
        at, address, mode = _at_words(call, "mknodat")[:3]
        kind = stat.S_IFMT(mode & 0xFFFF)
        spot = way.spot(at, call.text(address))
        self._require_mediated(spot, there=(False,))
        self._require_replaceable(spot)
        if kind not in {0, stat.S_IFREG, stat.S_IFIFO, stat.S_IFSOCK}:
            raise RefusedError("write", spot.place)
        with self._as_caller(call, confirm, is_native=True) as mask:
            os.mknod(spot.as_given, kind | (mode & 0o7777 & mask), dir_fd=spot.folder)
        return 0, None

    def _cut(self, way: Way, confirm: Confirm) -> tuple[int, int | None]:
        call = way.call
        path = call.text(call.words[0])
        found, spot = way.final(way.spot(_AT_FDCWD, path))
        _require_folder(found, path)
        if not self._rules.mediates(spot.place) or not stat.S_ISREG(os.fstat(found).st_mode):
            raise GoOn(self._refused(spot))
        with self._as_caller(call, confirm, is_native=True, spot=spot):
            if self._has_names_elsewhere(found, spot):
                _require_writable(found)
                found = way.opened.keep(self._parted(found, spot))
            os.truncate(f"/proc/self/fd/{found}", ctypes.c_int64(call.words[1]).value)
        return 0, None

    # ------------------------------------------------------------------ metadata

    def _describe(self, way: Way, confirm: Confirm) -> int:
        """Change mode, owner, times or attributes. Nothing native holds these: no GoOn."""
        call, opened = way.call, way.opened
        wanted = _metadata_call(call)
        try:
            if wanted.path is None:
                found = opened.keep(call.open_own(wanted.at))
                spot = _Spot(found, "", real_place(found))
                self._require_changeable_file(found, spot.place)
            else:
                start = way.spot(wanted.at, wanted.path)
                found, spot = way.final(start, follows=wanted.follows)
                _require_folder(found, wanted.path)
                place = spot.place if spot.name != "." else real_place(found)
                if not self._rules.may_change(place):
                    raise RefusedError("metadata", place)
        except GoOn:
            raise RefusedError("metadata", _target_text(wanted.at, wanted.path)) from None
        with self._as_caller(call, confirm, is_native=False):
            if self._has_names_elsewhere(found, spot):
                found = opened.keep(self._parted(found, spot))
            wanted.apply(found, spot, is_link=stat.S_ISLNK(os.fstat(found).st_mode))
        return 0

    def _lock(self, call: FileCall, opened: Opened, confirm: Confirm) -> int:
        """Lock a file of the run's own. Raises OSError, and Blocks.

        A lock of any other file would keep other programs waiting. There it is as on a file system
        without locks, which programs know how to do without.
        """
        import fcntl

        wanted = call.words[1] & 0xFFFF_FFFF
        pidfd = opened.keep(os.pidfd_open(kin_of(call.pid)[0]))
        found = opened.keep(descriptor_of(pidfd, call.words[0]))
        confirm()
        try:
            if os.fstat(found).st_nlink:
                spot = _Spot(found, "", real_place(found))
                self._require_changeable_file(found, spot.place)
                if self._has_names_elsewhere(found, spot):
                    raise RefusedError("lock", spot.place)  # noqa: TRY301 - as the one above
        except (RefusedError, GoOn):
            raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP)) from None
        try:
            fcntl.flock(
                found, wanted | fcntl.LOCK_NB
            )  # of the file as it was opened, so also there
        except BlockingIOError:
            if wanted & fcntl.LOCK_NB:
                raise
            if _has_signal(call.pid):
                raise InterruptedError(errno.EINTR, os.strerror(errno.EINTR)) from None
            raise Blocks from None
        return 0

    def _require_changeable_file(self, found: int, place: str) -> None:
        """Refuse an open file that is not the run's own: it lies where nothing may be changed."""
        status = os.fstat(found)
        if stat.S_ISFIFO(status.st_mode) and place.startswith("pipe:"):
            return
        if stat.S_ISSOCK(status.st_mode) and place.startswith("socket:"):
            return
        if place.startswith("/memfd:") and status.st_nlink == 0:
            return
        if not self._rules.may_change(place):
            raise RefusedError("metadata", place)


_Writer = Callable[[Changes, Way, Confirm], tuple[int, int | None]]
_WRITERS: Mapping[str, _Writer] = {
    **dict.fromkeys(("open", "openat", "openat2", "creat"), Changes._open),  # noqa: SLF001
    **dict.fromkeys(("mkdir", "mkdirat"), Changes._make_folder),  # noqa: SLF001
    **dict.fromkeys(("rmdir", "unlink", "unlinkat"), Changes._remove),  # noqa: SLF001
    **dict.fromkeys(("rename", "renameat", "renameat2"), Changes._rename),  # noqa: SLF001
    **dict.fromkeys(("link", "linkat"), Changes._link),  # noqa: SLF001
    **dict.fromkeys(("symlink", "symlinkat"), Changes._make_link),  # noqa: SLF001
    **dict.fromkeys(("mknod", "mknodat"), Changes._make_node),  # noqa: SLF001
    "truncate": Changes._cut,  # noqa: SLF001
}
assert set(_WRITERS) == set(WRITES)  # noqa: S101 - a table of another module


# --- copies ---------------------------------------------------------------------------------------


def _part(found: int, spot: _Spot, *, keeps: bool) -> int:
    """Put a copy of an open file in the place of its name; a descriptor to read and write it.

    Raises OSError for a long file, for one that does not stand there, and for an owner that is
    another's.
    """
    status = os.fstat(found)
    there = os.stat(spot.name, dir_fd=spot.folder, follow_symlinks=False)
    if (there.st_dev, there.st_ino) != (status.st_dev, status.st_ino):
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
    if keeps and status.st_size > MAX_COPIED:
        raise OSError(errno.EFBIG, os.strerror(errno.EFBIG))
    name = f".rye-{os.urandom(8).hex()}"
    how = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    copy = os.open(name, how, 0o600, dir_fd=spot.folder)
    try:
        if keeps:
            _copy(found, copy, status)
        made = os.fstat(copy)
        if (made.st_uid, made.st_gid) != (status.st_uid, status.st_gid):
            os.fchown(copy, status.st_uid, status.st_gid)
        os.fchmod(copy, stat.S_IMODE(status.st_mode) & 0o1777)
        os.rename(name, spot.name, src_dir_fd=spot.folder, dst_dir_fd=spot.folder)
    except BaseException:
        os.close(copy)
        with suppress(OSError):
            os.unlink(name, dir_fd=spot.folder)
        raise
    return copy


def _copy(found: int, copy: int, status: os.stat_result) -> None:
    """Copy the content, the attributes and the times of an open file. Raises OSError."""
    source = os.open(f"/proc/self/fd/{found}", os.O_RDONLY | os.O_CLOEXEC)
    try:
        done = 0
        while done < status.st_size:
            more = _copy_range(source, copy, done, status.st_size - done)
            if not more:
                break
            done += more
        for name in os.listxattr(source):
            if not name.startswith(_PRIVATE_ATTRIBUTES):
                os.setxattr(copy, name, os.getxattr(source, name))
    finally:
        os.close(source)
    os.utime(copy, ns=(status.st_atime_ns, status.st_mtime_ns))


def _copy_range(source: int, target: int, start: int, size: int) -> int:
    try:
        return os.copy_file_range(source, target, size, start, start)
    except OSError:  # a file system that cannot; what is wrong else, is so here too
        os.lseek(target, start, os.SEEK_SET)
        return os.sendfile(target, source, start, min(size, 1 << 30))


def _require_writable(found: int) -> None:
    """Raise OSError where the file of a descriptor may not be written."""
    os.close(os.open(f"/proc/self/fd/{found}", os.O_WRONLY | os.O_CLOEXEC | os.O_NONBLOCK))


# --- metadata -------------------------------------------------------------------------------------


class _Metadata(NamedTuple):
    """A change of metadata. ``path`` is None for the file of the descriptor ``at``."""

    at: int
    path: str | None
    follows: bool
    what: str
    values: tuple[int, ...] = ()
    name: str = ""
    data: bytes | None = None

    def apply(self, found: int, spot: _Spot, *, is_link: bool) -> None:
        """Make the change on an open file; of a link, on its name in its folder."""
        path = f"{spot.folder}/{spot.name}" if is_link else str(found)
        path = f"/proc/self/fd/{path}"
        follows = not is_link
        match self.what:
            case "chmod":
                if is_link:
                    raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP))
                os.chmod(path, self.values[0] & 0o7777)  # noqa: PTH101 - by its descriptor
            case "chown":
                os.chown(path, *map(as_signed, self.values), follow_symlinks=follows)
            case "utimens":
                flags = 0 if follows else _NO_FOLLOW
                words = (_AT_FDCWD, os.fsencode(path), self.data, flags)
                _require(_call_system("utimensat", *words))
            case "setxattr":
                flags = self.values[0]
                os.setxattr(path, self.name, self.data or b"", flags, follow_symlinks=follows)
            case _:
                os.removexattr(path, self.name, follow_symlinks=follows)


def _metadata_call(call: FileCall) -> _Metadata:
    """What a call asks for. Raises OSError."""
    words, name = call.words, call.name
    match name:
        case "chmod" | "fchmod" | "fchmodat" | "fchmodat2":
            return _mode_call(call)
        case "chown" | "lchown" | "fchown" | "fchownat":
            return _owner_call(call)
        case "utime" | "utimes" | "futimesat" | "utimensat":
            return _times_call(call)
        case "setxattr" | "lsetxattr" | "fsetxattr" | "removexattr" | "lremovexattr":
            return _attribute_call(call, words[1:], _target(call, words[0], name[0]))
        case "fremovexattr":
            return _attribute_call(call, words[1:], _target(call, words[0], "f"))
        case "setxattrat" | "removexattrat":
            at, address, flags = words[:3]
            target = _at_target(call, at, address, flags)
            if name == "removexattrat":
                return _attribute_call(call, words[3:], target)
            value, size, how = struct.unpack("=QII", call.memory(words[4], 16))
            return _attribute_call(call, [words[3], value, size, how], target)
        case _:  # file_setattr
            raise RefusedError("metadata", name)


_Target = tuple[int, str | None, bool]
"""A folder's descriptor, the path from there, whether a link at its end is followed."""


def _target(call: FileCall, word: int, form: str) -> _Target:
    """Of a call of a path, ``l`` for links themselves, or of a descriptor, ``f``."""
    if form == "f":
        return word, None, True
    return _AT_FDCWD, call.text(word), form != "l"


def _at_target(call: FileCall, at: int, address: int, flags: int) -> _Target:
    path = call.text(address) if address else ""
    if not path and (flags & _EMPTY_PATH or not address):
        return at, None, True
    return at, path, not flags & _NO_FOLLOW


def _mode_call(call: FileCall) -> _Metadata:
    words, name = call.words, call.name
    if name in {"chmod", "fchmod"}:
        target, mode = _target(call, words[0], name[0]), words[1]
    else:
        flags = words[3] if name == "fchmodat2" else 0
        target, mode = _at_target(call, words[0], words[1], flags), words[2]
    at, path, follows = target
    return _Metadata(at=at, path=path, follows=follows, what="chmod", values=(mode,))


def _owner_call(call: FileCall) -> _Metadata:
    words, name = call.words, call.name
    if name == "fchownat":
        target, owners = _at_target(call, words[0], words[1], words[4]), words[2:4]
    else:
        target, owners = _target(call, words[0], name[0]), words[1:3]
    at, path, follows = target
    return _Metadata(at=at, path=path, follows=follows, what="chown", values=tuple(owners))


def _times_call(call: FileCall) -> _Metadata:
    words, name = call.words, call.name
    if name in {"utime", "utimes"}:
        at, path, follows = _target(call, words[0], "")
        address = words[1]
    else:
        flags = words[3] if name == "utimensat" else 0
        at, path, follows = _at_target(call, words[0], words[1], flags)
        address = words[2]
    data = None
    if address and name == "utime":
        accessed, modified = struct.unpack("=qq", call.memory(address, 16))
        data = struct.pack("=qqqq", accessed, 0, modified, 0)
    elif address:
        data = call.memory(address, 32)
        if name != "utimensat":  # with microseconds
            first, micros, second, more = struct.unpack("=qqqq", data)
            if not (0 <= micros < 10**6 and 0 <= more < 10**6):
                raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
            data = struct.pack("=qqqq", first, micros * 1000, second, more * 1000)
    return _Metadata(at=at, path=path, follows=follows, what="utimens", data=data)


def _attribute_call(call: FileCall, words: list[int], target: _Target) -> _Metadata:
    at, path, follows = target
    name = call.text(words[0])
    if name.startswith(_PRIVATE_ATTRIBUTES):
        raise RefusedError("metadata", f"{name} of {_target_text(at, path)}")
    if "remove" in call.name:
        return _Metadata(at=at, path=path, follows=follows, what="removexattr", name=name)
    size = words[2]
    if size > _MAX_ATTRIBUTE:
        raise OSError(errno.E2BIG, os.strerror(errno.E2BIG))
    data = call.memory(words[1], size) if size else b""
    how = (words[3] & 0xFFFF_FFFF,)
    return _Metadata(
        at=at, path=path, follows=follows, what="setxattr", values=how, name=name, data=data
    )


def descriptor_of(pidfd: int, number: int) -> int:
    """A descriptor of our own for another process's. Raises OSError."""
    found = _require(_call_system("pidfd_getfd", pidfd, number & 0xFFFF_FFFF, 0))
    os.set_inheritable(found, False)  # noqa: FBT003 - its only way
    return found


# --- places ---------------------------------------------------------------------------------------

_NOT_FOUND_OUT = "\0"
"""Marks an error on the way to a folder."""


def _found_out(act: Callable[..., int], *words: object) -> int:
    try:
        return act(*words)
    except OSError as error:
        raise OSError(error.errno, error.strerror, _NOT_FOUND_OUT) from error


def _open_folder(base: int, path: str, resolve: int) -> int:
    """The folder at a path, links followed, but none of /proc, which mean another process here."""
    how = struct.pack("<QQQ", _OPEN_FOLDER, 0, resolve | _NO_MAGIC_LINKS)
    return _require(_call_system("openat2", base, os.fsencode(path), how, len(how)))


def real_place(descriptor: int) -> str:
    """The real path of an open file. Raises OSError where it is no longer there.

    What has no path at all (a pipe) has a name like ``pipe:[1]``.
    """
    for _ in range(_RETRIES):
        place = os.readlink(f"/proc/self/fd/{descriptor}")  # noqa: PTH115 - as above
        if not place.startswith("/"):
            return place
        status = os.fstat(descriptor)
        if status.st_nlink == 0:  # without a name: it is not in a folder that may be looked at
            return place
        with suppress(OSError):
            there = os.lstat(place)
            if (there.st_dev, there.st_ino) == (status.st_dev, status.st_ino):
                return place
    if stat.S_ISREG(status.st_mode) and place.endswith(" (deleted)"):
        return place  # it was opened there, and has another name
    raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))


def _joined(folder: str, name: str) -> str:
    if name == ".":
        return folder
    return f"{folder.rstrip('/')}/{name}"


def _target_text(at: int, path: str | None) -> str:
    """A path as a call names it, or the number of its open file."""
    return f"descriptor {as_signed(at)}" if path is None else path


def _is_there(spot: _Spot) -> bool:
    try:
        _kind(spot)
    except OSError:
        return False
    return True


def _there_for(flags: int) -> bool | None:
    """Whether a file must be there, or must not, to be opened for writing with these flags."""
    if not flags & os.O_CREAT:
        return True
    return False if flags & os.O_EXCL else None


def _kind(spot: _Spot) -> int:
    return os.stat(spot.name, dir_fd=spot.folder, follow_symlinks=False).st_mode


def _is_link(spot: _Spot, error: OSError) -> bool:
    """Whether a file was not opened as it is a link; with O_DIRECTORY the error is ENOTDIR."""
    return error.errno in (errno.ELOOP, errno.ENOTDIR) and stat.S_ISLNK(_kind(spot))


def _require_folder(found: int, path: str) -> None:
    """Refuse what is no folder where the path ends as that of one. Raises NotADirectoryError."""
    if path.endswith("/") and not stat.S_ISDIR(os.fstat(found).st_mode):
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))


def _as_asked(found: int, flags: int) -> int:
    """A descriptor that was opened without waiting, as it was to be opened.

    A device is not the supervisor's to open.
    """
    try:
        mode = os.fstat(found).st_mode
        if not (stat.S_ISREG(mode) or stat.S_ISFIFO(mode) or stat.S_ISDIR(mode)):
            raise GoOn  # noqa: TRY301 - closed below
        if not flags & os.O_NONBLOCK:
            os.set_blocking(found, True)
    except BaseException:
        os.close(found)
        raise
    return found


def _open_words(call: FileCall) -> tuple[int, int, int, int, int]:
    """Folder, address of the path, flags, mode and RESOLVE flags. Raises OSError, GoOn."""
    words = call.words
    match call.name:
        case "open":
            return _AT_FDCWD, words[0], words[1] & 0xFFFF_FFFF, words[2], 0
        case "creat":
            return _AT_FDCWD, words[0], os.O_CREAT | os.O_WRONLY | os.O_TRUNC, words[1], 0
        case "openat":
            return words[0], words[1], words[2] & 0xFFFF_FFFF, words[3], 0
        case _:
            if words[3] < 24:  # noqa: PLR2004 - of struct open_how
                raise GoOn
            flags, mode, resolve = struct.unpack("=QQQ", call.memory(words[2], 24))
            if resolve & _CACHED:
                raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
            return words[0], words[1], flags & 0xFFFF_FFFF, mode, resolve


def _at_words(call: FileCall, form: str) -> list[int]:
    """The arguments in the form of a call with a folder's descriptor."""
    return call.words if call.name == form else [_AT_FDCWD, *call.words]


def _call_system(name: str, *words: object) -> int:
    """The result of a system call, -1 for an error, which `_require` raises."""
    numbers = (one if not isinstance(one, int) else ctypes.c_long(one) for one in words)
    return int(_libc().syscall(ctypes.c_long(number_of(name)), *numbers))


def _require(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result


@cache
def _libc() -> ctypes.CDLL:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.syscall.restype = ctypes.c_long
    return libc
