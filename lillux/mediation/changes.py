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
import stat
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress

from lillux.mediation.callers import (
    Blocks,
    FileCall,
    GoOn,
    RefusedError,
    Status,
    descriptor_of,
    has_signal,
    kin_of,
    status_of,
)
from lillux.mediation.impersonation import Impersonation
from lillux.mediation.metadata import PRIVATE_ATTRIBUTES, metadata_call
from lillux.mediation.resolution import (
    CACHED,
    ON_THE_WAY,
    OPEN_ANY,
    Opened,
    Spot,
    Way,
    open_folder,
    real_place,
    target_text,
    with_marked_error,
)
from lillux.mediation.system_calls import (
    AT_FDCWD,
    EMPTY_PATH,
    FOLLOW,
    MAX_LINKS,
    REMOVE_FOLDER,
    require_success,
    system_call,
)
from lillux.mediation.write_rules import WriteRules
from lillux.seccomp import LOCKS, METADATA, WRITES

_NO_REPLACE, _EXCHANGE = 1, 2
_TEMPORARY = 0o20000000  # the bit of O_TMPFILE that is not O_DIRECTORY
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC
MAX_COPIED = 256 * 1024 * 1024
"""A longer file with names elsewhere is not changed: it gets no copy in the place of its name."""
_MAX_COUNTED = 10_000
_GONE = " (deleted)"

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
                if error.filename == ON_THE_WAY:  # on the way there: the kernel says it better
                    raise GoOn from error
                raise
        finally:
            opened.close()

    def _write(self, way: Way, confirm: Confirm) -> tuple[int, int | None]:
        return _WRITERS[way.call.name](self, way, confirm)

    def _require_mediated(self, *spots: Spot, there: Sequence[bool | None] = (None,)) -> None:
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

    def _refused(self, spot: Spot, there: bool | None = None) -> str:  # noqa: FBT001 - as above
        """The place of a spot where the kernel refuses the change, ``""`` where it may not."""
        if not self._rules.refuses(spot.place):
            return ""
        return "" if there is not None and _exists(spot) != there else spot.place

    def _require_replaceable(self, *spots: Spot) -> None:
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

    def _has_names_elsewhere(self, found: int, spot: Spot) -> bool:
        """True if an open file may be one outside too: by a name that was not made in this run.

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

    def _parted(self, found: int, spot: Spot, *, keeps: bool = True) -> int:
        """A copy of an open file, which takes its name here; the other names keep the file.

        ``keeps`` says whether its content is wanted. Raises RefusedError where that cannot be.
        """
        try:
            return _part(found, spot, keeps=keeps)
        except OSError as error:
            raise RefusedError("write", spot.place) from error

    def _own_file(self, found: int, spot: Spot, flags: int) -> int:
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
        self, call: FileCall, confirm: Confirm, *, is_native: bool, spot: Spot | None = None
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

    def _require_one_name(self, spot: Spot) -> None:
        try:
            found = os.open(spot.name, OPEN_ANY, dir_fd=spot.folder)
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
        there = _required_presence(flags)
        for _ in range(MAX_LINKS):
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

    def _open_spot(self, call: FileCall, spot: Spot, how: tuple[int, int], confirm: Confirm) -> int:
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
        self, call: FileCall, found: int, how: tuple[Spot, int], confirm: Confirm
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
        base = opened.keep(with_marked_error(call.open_base, at, path))
        folder = opened.keep(with_marked_error(open_folder, base, path, 0))
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
            flags = REMOVE_FOLDER
        if flags & ~REMOVE_FOLDER:
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
            (AT_FDCWD, words[0], AT_FDCWD, words[1], 0) if call.name == "rename" else words[:5]
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
            require_success(
                system_call(
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
            (AT_FDCWD, words[0], AT_FDCWD, words[1], 0) if call.name == "link" else words[:5]
        )
        second = way.spot(new_at, call.text(new))
        path = call.text(old)
        if not path and flags & EMPTY_PATH:
            found = opened.keep(call.open_own(old_at))
            first = Spot(found, "", real_place(found))
        else:
            found, first = way.final(way.spot(old_at, path), follows=bool(flags & FOLLOW))
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
            (words[0], AT_FDCWD, words[1]) if call.name == "symlink" else words[:3]
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
        found, spot = way.final(way.spot(AT_FDCWD, path))
        _require_folder(found, path)
        if not self._rules.mediates(spot.place) or not stat.S_ISREG(os.fstat(found).st_mode):
            raise GoOn(self._refused(spot))
        with self._as_caller(call, confirm, is_native=True, spot=spot):
            if self._has_names_elsewhere(found, spot):
                _require_writable(found)
                found = way.opened.keep(self._parted(found, spot))
            os.truncate(f"/proc/self/fd/{found}", ctypes.c_int64(call.words[1]).value)
        return 0, None

    def _describe(self, way: Way, confirm: Confirm) -> int:
        """Change mode, owner, times or attributes. Nothing native holds these: no GoOn."""
        call, opened = way.call, way.opened
        wanted = metadata_call(call)
        try:
            if wanted.path is None:
                found = opened.keep(call.open_own(wanted.at))
                spot = Spot(found, "", real_place(found))
                self._require_changeable_file(found, spot.place)
            else:
                start = way.spot(wanted.at, wanted.path)
                found, spot = way.final(start, follows=wanted.follows)
                _require_folder(found, wanted.path)
                place = spot.place if spot.name != "." else real_place(found)
                if not self._rules.may_change(place):
                    raise RefusedError("metadata", place)
        except GoOn:
            raise RefusedError("metadata", target_text(wanted.at, wanted.path)) from None
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
                spot = Spot(found, "", real_place(found))
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
            if has_signal(call.pid):
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


def _part(found: int, spot: Spot, *, keeps: bool) -> int:
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
            if not name.startswith(PRIVATE_ATTRIBUTES):
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


def _exists(spot: Spot) -> bool:
    try:
        _kind(spot)
    except OSError:
        return False
    return True


def _required_presence(flags: int) -> bool | None:
    """True if a file must be there, or must not, to be opened for writing with these flags."""
    if not flags & os.O_CREAT:
        return True
    return False if flags & os.O_EXCL else None


def _kind(spot: Spot) -> int:
    return os.stat(spot.name, dir_fd=spot.folder, follow_symlinks=False).st_mode


def _is_link(spot: Spot, error: OSError) -> bool:
    """True if a file was not opened as it is a link; with O_DIRECTORY the error is ENOTDIR."""
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
            return AT_FDCWD, words[0], words[1] & 0xFFFF_FFFF, words[2], 0
        case "creat":
            return AT_FDCWD, words[0], os.O_CREAT | os.O_WRONLY | os.O_TRUNC, words[1], 0
        case "openat":
            return words[0], words[1], words[2] & 0xFFFF_FFFF, words[3], 0
        case _:
            if words[3] < 24:  # noqa: PLR2004 - of struct open_how
                raise GoOn
            flags, mode, resolve = struct.unpack("=QQQ", call.memory(words[2], 24))
            if resolve & CACHED:
                raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
            return words[0], words[1], flags & 0xFFFF_FFFF, mode, resolve


def _at_words(call: FileCall, form: str) -> list[int]:
    """The arguments in the form of a call with a folder's descriptor."""
    return call.words if call.name == form else [AT_FDCWD, *call.words]
