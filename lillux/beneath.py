"""Open folders: what is named in one is reached through its descriptor, and without links if asked.

A path does not say where a file lies: any folder on the way may be a link, or become one between a
check and its use. So the way from a root down is gone once, no link followed, and everything else
is done by the descriptor that stands at its end.
"""

import errno
import os
import stat
import sys
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from lillux.errors import LilluxError, UnsafePathError, as_word

HAS_DESCRIPTORS = {os.open, os.mkdir, os.rename, os.stat, os.unlink, os.readlink, os.rmdir} <= (
    os.supports_dir_fd
)
"""True if names can be given relative to an open folder: not on Windows."""
_ROOT = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_CLOEXEC", 0)
_FOLDER = _ROOT | getattr(os, "O_NOFOLLOW", 0)
_OPENAT2 = 437
# RESOLVE_NO_MAGICLINKS, RESOLVE_NO_SYMLINKS, RESOLVE_BENEATH
_RESOLVE = 0x02 | 0x04 | 0x08


class LinkOnTheWayError(UnsafePathError):
    """A link stands where a program would write below a root: it may lead anywhere."""

    def __init__(self, link: Path, leads_to: str, within: Path) -> None:
        place = as_word(link)
        remedy = f"rm {place}" if link.is_file() else f"rm {place} && mkdir {place}"
        self.path = str(link)
        self.problem = f"a link to {leads_to}, where a file or folder of {within} is expected"
        hint = f"nothing was written through it; to have one of {within}'s own: {remedy}"
        LilluxError.__init__(self, f"{self.path}: {self.problem}", hint=hint)


class Folder:
    """An open folder. ``path`` is for messages, and where the platform has no descriptors.

    ``within`` is the root from which it was reached without links, None where they were followed.
    Methods raise OSError as the functions of `os` do, and LinkOnTheWayError.
    """

    def __init__(self, path: Path, descriptor: int | None, within: Path | None) -> None:
        self.path, self._descriptor, self.within = path, descriptor, within

    def close(self) -> None:
        """Let go of it."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)

    def __enter__(self) -> Self:
        """Itself; leaving closes it."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _at(self, name: str) -> str:
        return name if self._descriptor is not None else os.path.join(self.path, name)  # noqa: PTH118 - text

    def status(self, name: str) -> os.stat_result:
        """File status of a name in the folder, no link followed."""
        return os.stat(self._at(name), dir_fd=self._descriptor, follow_symlinks=False)

    def require_no_link(self, name: str) -> None:
        """Refuse a link under this name, where links count; nothing at all is fine."""
        if self.within is None:
            return
        try:
            status = self.status(name)
        except OSError:  # what is wrong besides, the use of the name says
            return
        if is_link(status):
            raise LinkOnTheWayError(self.path / name, self._target(name), self.within)

    def open(self, name: str, flags: int, mode: int = 0o666) -> int:
        """A descriptor of a file; where links count, of no link."""
        if self.within is not None:
            flags |= getattr(os, "O_NOFOLLOW", 0)
            if self._descriptor is None:
                self.require_no_link(name)
        try:
            return os.open(self._at(name), flags, mode, dir_fd=self._descriptor)
        except OSError as error:
            if error.errno in (errno.ELOOP, errno.EMLINK):
                self.require_no_link(name)
            raise

    def make_folder(self, name: str, mode: int) -> None:
        """Make a folder in it; one that is there stays."""
        with suppress(FileExistsError):
            os.mkdir(self._at(name), mode, dir_fd=self._descriptor)

    def rename(self, name: str, into: "Folder", new: str) -> None:
        """Move a file; what is there under the new name is replaced."""
        there, new_name = into._descriptor, into._at(new)  # noqa: SLF001 - of this class
        if self._descriptor is None or there is None:
            os.replace(self._at(name), new_name)  # noqa: PTH105 - as above
        else:
            os.rename(name, new_name, src_dir_fd=self._descriptor, dst_dir_fd=there)

    def link(self, name: str, into: "Folder", new: str) -> None:
        """Give a file a second name, which must be free. POSIX only."""
        os.link(
            name,
            new,
            src_dir_fd=self._descriptor,
            dst_dir_fd=into._descriptor,  # noqa: SLF001 - of this class
            follow_symlinks=False,
        )

    def remove(self, name: str) -> None:
        """Remove a file, or a link itself."""
        os.unlink(self._at(name), dir_fd=self._descriptor)

    def remove_folder(self, name: str) -> None:
        """Remove an empty folder."""
        os.rmdir(self._at(name), dir_fd=self._descriptor)

    def names(self) -> list[str]:
        """The names in it."""
        place = self.path if self._descriptor is None else self._descriptor
        return os.listdir(place)  # noqa: PTH208 - a descriptor

    def enter(self, name: str, *, is_passed: bool = False) -> "Folder":
        """A folder in it. Where links count, a link is refused.

        One that is passed on the way alone need not be readable, as a folder of homes may be.
        """
        path = self.path / name
        if self._descriptor is None:
            self.require_no_link(name)
            if not stat.S_ISDIR(os.stat(path).st_mode):  # noqa: PTH116 - as above
                raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(path))
            return Folder(path, None, self.within)
        flags = _ROOT if self.within is None else _FOLDER
        flags |= getattr(os, "O_PATH", 0) if is_passed else 0
        try:
            return Folder(path, os.open(name, flags, dir_fd=self._descriptor), self.within)
        except OSError as error:
            # Of a link to a folder systems say either: no loop is wanted, or no folder found.
            if error.errno in (errno.ELOOP, errno.EMLINK, errno.ENOTDIR):
                self.require_no_link(name)
            raise

    def force(self) -> None:
        """Write its entries to the disk."""
        if self._descriptor is None:  # Windows cannot open folders; its rename is journalled
            return
        try:
            os.fsync(self._descriptor)
        except OSError as error:
            # file systems without folder sync
            if error.errno not in (errno.EINVAL, errno.ENOTSUP):
                raise

    def _target(self, name: str) -> str:
        try:
            return os.readlink(self._at(name), dir_fd=self._descriptor)
        except OSError:
            return "another place"


def open_folder(
    path: Path, within: Path | None = None, *, make: bool = False, mode: int = 0o755
) -> Folder:
    """The folder at ``path``; with ``within``, reached from that folder down and through no link.

    With ``make`` what is missing is made, the last one with ``mode``. Raises LinkOnTheWayError,
    UnsafePathError for a path that is not below ``within``, OSError.
    """
    if within is None:
        if make:
            os.makedirs(path, mode, exist_ok=True)  # noqa: PTH103 - as above
        return Folder(path, os.open(path, _ROOT) if HAS_DESCRIPTORS else None, None)
    segments = _segments(path, within)
    if not HAS_DESCRIPTORS:
        return _walk(Folder(within, None, within), segments, make=make, mode=mode)
    root = os.open(within, _ROOT)
    found = _open_at_once(root, segments)
    if found is not None:
        os.close(root)
        return Folder(path, found, within)
    return _walk(Folder(within, root, within), segments, make=make, mode=mode)


def is_link(status: os.stat_result) -> bool:
    """True if what `os.lstat` saw leads elsewhere: a link, or a junction of Windows."""
    if stat.S_ISLNK(status.st_mode):
        return True
    tag = getattr(status, "st_reparse_tag", 0)
    return bool(tag) and tag in (
        getattr(stat, "IO_REPARSE_TAG_SYMLINK", -1),
        getattr(stat, "IO_REPARSE_TAG_MOUNT_POINT", -1),
    )


def _segments(path: Path, within: Path) -> tuple[str, ...]:
    try:
        segments = path.relative_to(within).parts
    except ValueError:
        raise UnsafePathError(str(path), f"expected a path below {within}") from None
    if ".." in segments:
        raise UnsafePathError(str(path), "'..' segments are not allowed")
    if any("\0" in segment for segment in segments):
        raise UnsafePathError(str(path), "control characters are not allowed")
    return segments


def _walk(folder: Folder, segments: tuple[str, ...], *, make: bool, mode: int) -> Folder:
    """The folder at the end of the segments, entered one by one; all others are closed."""
    for number, segment in enumerate(segments, 1):
        is_last = number == len(segments)
        with folder:
            try:
                inner = folder.enter(segment, is_passed=not is_last)
            except FileNotFoundError:
                if not make:
                    raise
                folder.make_folder(segment, mode if is_last else 0o777)
                inner = folder.enter(segment, is_passed=not is_last)
        folder = inner
    return folder


def _open_at_once(root: int, segments: tuple[str, ...]) -> int | None:
    """The folder at the end, by one call of the kernel; None where a walk has to do it.

    That tells what is wrong, and makes what is missing. Linux has the call since 5.6, other kernels
    have none, and some containers forbid it.
    """
    if not segments or sys.platform != "linux":
        return None
    try:
        from ctypes import CDLL, Structure, byref, c_long, c_uint64, sizeof

        class How(Structure):
            """``struct open_how``."""

            _fields_ = (("flags", c_uint64), ("mode", c_uint64), ("resolve", c_uint64))

        call = CDLL(None, use_errno=True).syscall
    except (ImportError, OSError, AttributeError):
        return None
    how = How(_FOLDER, 0, _RESOLVE)
    relative = os.fsencode("/".join(segments))
    call.restype = c_long
    found = call(c_long(_OPENAT2), root, relative, byref(how), sizeof(how))
    return int(found) if found >= 0 else None
