"""Files: bounded reads, atomic durable writes, folders.

Every failure of the file system leaves here as `FileSystemError`, with the path and a way out.
"""

import errno
import os
import stat
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from lillux.errors import FileSystemError, LilluxError, UnsafePathError
from lillux.values import dataclass

if TYPE_CHECKING:
    from lillux.beneath import Folder


# With superscript digits too: Windows takes COM¹ for COM1.
_OF_A_FILE = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _OF_A_FILE
"""Flags of `os.open` for a file that is not there yet, and no link either."""
PLAIN_FILE = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | _OF_A_FILE
"""Flags for reading what should be a file: no link is followed, and no pipe's writer waited for."""
NOTHING_CHANGED = "; nothing was changed"
"""End of the hint about a write that was refused whole."""
_HINTS = {
    errno.ENOSPC: f"free some disk space and try again{NOTHING_CHANGED}",
    errno.EDQUOT: f"your disk quota is used up{NOTHING_CHANGED}",
    errno.EROFS: f"the file system is read-only{NOTHING_CHANGED}",
    errno.EACCES: "check the permissions of the file and of its folder",
    errno.EPERM: "check the permissions of the file and of its folder",
}


def _open_folder(
    path: Path, within: Path | None = None, *, make: bool = False, mode: int = 0o755
) -> "Folder":
    """See `lillux.beneath.open_folder`, which most runs of a tool do without."""
    from lillux.beneath import open_folder

    return open_folder(path, within, make=make, mode=mode)


class FileTooLargeError(LilluxError):
    """A file is larger than what this program is willing to read."""

    code, exit_status = "RESOURCE_EXCEEDED", 6

    def __init__(self, path: str, size: int, limit: int) -> None:
        self.path, self.size, self.limit = path, size, limit
        super().__init__(f"{path}: expected at most {limit} bytes, found {size}")


class FileChangedError(LilluxError):
    """A file is no longer what was read from it: another program wrote it in between."""

    code, exit_status = "CONFLICT", 1

    def __init__(self, path: str) -> None:
        self.path = path
        super().__init__(
            f"{path}: changed by someone else while it was being written",
            hint="nothing was overwritten; run the command again",
        )


def file_system_error(path: Path | str, error: OSError) -> FileSystemError:
    """The failure to raise for an ``OSError`` at ``path``."""
    problem = error.strerror or str(error)
    return FileSystemError(str(path), problem.lower(), hint=_HINTS.get(error.errno or 0, ""))


def read_bytes(path: Path, max_bytes: int, *, within: Path | None = None) -> bytes:
    """The content of a regular file of at most ``max_bytes``.

    Never blocks: a FIFO, a device or a directory is refused before anything is read from it. With
    ``within``, the file is reached from that folder down without links.
    Raises FileNotFoundError as it is (absence is for callers to judge), FileTooLargeError,
    FileSystemError, LinkOnTheWayError.
    """
    with _open_regular_file(path, within) as (file, size):
        if size > max_bytes:
            raise FileTooLargeError(str(path), size, max_bytes)
        data = file.read(size + 1)  # room for more is made before it is known to be needed
        if len(data) > size:  # it grows
            data += file.read(max_bytes + 1 - len(data))
    if len(data) > max_bytes:
        raise FileTooLargeError(str(path), len(data), max_bytes)
    return data


def read_part(
    path: Path, offset: int, max_bytes: int, *, within: Path | None = None
) -> tuple[bytes, int]:
    """At most so many bytes of a regular file, from ``offset`` on, and how many it has in all.

    None where the file has ended before.

    Raises as `read_bytes` does.
    """
    with _open_regular_file(path, within) as (file, size):
        file.seek(min(offset, size))  # further than a file system can count is an error
        return file.read(max_bytes), size


@contextmanager
def _open_regular_file(path: Path, within: Path | None = None) -> Iterator[tuple[BinaryIO, int]]:
    """A regular file, open to be read, and its size."""
    try:
        if within is None:
            descriptor = os.open(path, _READ_FLAGS)
        else:
            with _open_folder(path.parent, within) as folder:
                descriptor = folder.open(path.name, _READ_FLAGS)
        with open(descriptor, "rb") as file:  # noqa: PTH123 - a descriptor, not a path
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                raise FileSystemError(str(path), "expected a regular file")
            yield file, status.st_size
    except FileNotFoundError:
        raise
    except NotADirectoryError as error:  # a file where a folder would have to be: nothing is there
        raise FileNotFoundError(*error.args) from error
    except OSError as error:
        raise file_system_error(path, error) from error
    except ValueError:
        raise FileSystemError(str(path), "the path holds a null character") from None


_READ_FLAGS = (
    os.O_RDONLY
    | getattr(os, "O_NONBLOCK", 0)  # opening a FIFO must not wait for a writer
    | getattr(os, "O_CLOEXEC", 0)
    | getattr(os, "O_BINARY", 0)
)


def write_atomic(
    path: Path,
    data: bytes,
    *,
    mode: int = 0o644,
    expected: bytes | None = None,
    through: Path | None = None,
    within: Path | None = None,
) -> None:
    """Replace ``path`` with ``data``: readers see the old file or the new one, also after a crash.

    A temporary file beside it is written, synced and renamed; the folder is synced too, all of it
    by one descriptor of that folder. An existing file keeps its permission bits, a new one gets
    ``mode`` less the umask. With ``expected``, the file must still hold those bytes right before
    the rename. ``through`` is a folder for the temporary file instead, used where it is on the same
    file system: what a killed process leaves there is in no folder that is read. With ``within``,
    the folder is reached from that one down without links, and the file is none.

    Raises FileSystemError (nothing is left behind), FileChangedError, LinkOnTheWayError.
    """
    try:
        with _open_folder(path.parent, within) as folder:
            temporary = temporary_for(path, through)
            writing = PreparedWrite(path, temporary, expected, within)
            try:
                _write_aside(folder, writing, data, mode, force=True)
                writing.put_in(folder)
                folder.force()
            finally:
                writing.drop_from(folder)
    except OSError as error:
        raise file_system_error(path, error) from error


@dataclass(frozen=True, slots=True)
class PreparedWrite:
    """New content of a file, written beside it and not yet in its place."""

    path: Path
    temporary: Path
    expected: bytes | None
    within: Path | None = None

    def put_in_place(self) -> None:
        """Replace the file. Raises FileChangedError, LinkOnTheWayError, OSError."""
        with _open_folder(self.path.parent, self.within) as folder:
            self.put_in(folder)

    def put_in(self, folder: "Folder") -> None:
        """Replace the file in its folder, which is open. Raises as `put_in_place`."""
        name = self.path.name
        folder.require_no_link(name)
        if self.expected is not None and not _holds(folder, name, self.expected):
            raise FileChangedError(str(self.path))
        with self.source(folder) as source:
            source.rename(self.temporary.name, folder, name)

    def drop(self) -> None:
        """Remove what was written, if it is not in its place."""
        with (
            suppress(OSError, UnsafePathError),
            _open_folder(self.path.parent, self.within) as folder,
        ):
            self.drop_from(folder)

    def drop_from(self, folder: "Folder") -> None:
        """The same as `drop`, where the folder of the file is open."""
        with suppress(OSError, UnsafePathError), self.source(folder) as source:
            source.remove(self.temporary.name)

    @contextmanager
    def source(self, folder: "Folder") -> "Iterator[Folder]":
        """The folder of the temporary file."""
        if self.temporary.parent == self.path.parent:
            yield folder
            return
        with _open_folder(self.temporary.parent) as source:
            yield source


def prepare_write(
    path: Path,
    data: bytes,
    *,
    mode: int = 0o644,
    expected: bytes | None = None,
    through: Path | None = None,
    force: bool = False,
    within: Path | None = None,
) -> PreparedWrite:
    """Write the new content of a file aside, see `write_atomic`; with ``force`` it is on the disk.

    Raises FileSystemError, LinkOnTheWayError.
    """
    writing = PreparedWrite(path, temporary_for(path, through), expected, within)
    try:
        with _open_folder(path.parent, within) as folder:
            _write_aside(folder, writing, data, mode, force=force)
    except OSError as error:
        raise file_system_error(path, error) from error
    return writing


def _write_aside(
    folder: "Folder", writing: PreparedWrite, data: bytes, mode: int, *, force: bool
) -> None:
    """Write the temporary file; an existing file gives its permissions. Raises OSError."""
    folder.require_no_link(writing.path.name)
    kept = _permissions(folder, writing.path.name)
    try:
        with writing.source(folder) as source:
            _write_new(
                source,
                writing.temporary.name,
                data,
                mode if kept is None else kept,
                force=force,
                is_exact=kept is not None,  # the umask takes some
            )
    except OSError:
        writing.drop_from(folder)
        raise


def replace_together(writes: Sequence[PreparedWrite]) -> dict[Path, LilluxError]:
    """Replace many files with two waits for the disk, where `write_atomic` has two for each.

    Readers see the old or the new content of each file, also after a crash, as with `write_atomic`.
    Returns what failed, by path: those files are as they were.
    """
    failed: dict[Path, LilluxError] = {}
    flush_to_disk([write.temporary for write in writes])
    for write in writes:
        try:
            write.put_in_place()
        except (FileChangedError, UnsafePathError) as error:
            failed[write.path] = error
        except OSError as error:
            failed[write.path] = file_system_error(write.path, error)
        finally:
            write.drop()
    flush_to_disk(list(dict.fromkeys(write.path.parent for write in writes)))
    return failed


def flush_to_disk(paths: Iterable[Path]) -> None:
    """Return when files, or the entries of folders, are on the disk. Raises FileSystemError.

    Linux can write a whole file system at once, which takes less time than many files one by one.
    """
    systems: dict[int, list[Path]] = {}
    for path in paths:
        try:
            systems.setdefault(path.stat().st_dev, []).append(path)
        except OSError as error:
            raise file_system_error(path, error) from error
    for together in systems.values():
        if len(together) == 1 or not _sync_file_system(together[0]):
            for path in together:
                _force(path)


def _sync_file_system(path: Path) -> bool:
    """Write everything of a file system to the disk; False where that is not possible."""
    if sys.platform != "linux":
        return False
    try:
        from ctypes import CDLL

        sync: Callable[[int], int] = CDLL(None).syncfs
        descriptor = os.open(path, os.O_RDONLY)
    except (ImportError, OSError, AttributeError):
        return False
    try:
        return sync(descriptor) == 0
    finally:
        os.close(descriptor)


def _force(path: Path) -> None:
    try:
        if path.is_dir():
            _sync_directory(path)
        else:
            force_and_close(os.open(path, os.O_RDWR if os.name == "nt" else os.O_RDONLY), path)
    except OSError as error:
        raise file_system_error(path, error) from error


def temporary_for(path: Path, through: Path | None = None) -> Path:
    """A name for the file that `path` is written to first: in a folder, else beside it.

    The folder must be there; it counts where a rename from it to ``path`` is possible.
    """
    folder = path.parent
    with suppress(OSError):
        if through is not None and through.stat().st_dev == folder.stat().st_dev:
            folder = through
    return folder / f".{path.name[:40]}.{os.urandom(6).hex()}.tmp"


def create_file(path: Path, data: bytes, *, mode: int = 0o644, within: Path | None = None) -> None:
    """Write a file that must not exist yet, with its final mode from the first byte.

    With ``within``, its folder is reached from that one down without links. Raises FileExistsError
    as it is, FileSystemError for the rest (nothing half-written stays), LinkOnTheWayError.
    """
    try:
        with _open_folder(path.parent, within) as folder:
            _write_new(folder, path.name, data, mode)
            folder.force()
    except FileExistsError:
        raise
    except OSError as error:
        raise file_system_error(path, error) from error


def make_directory(path: Path, *, mode: int = 0o755, within: Path | None = None) -> None:
    """Create a folder and its parents; one that exists keeps its permissions.

    With ``within``, all of it from that folder down, which must be there, and without links.
    Raises FileSystemError, LinkOnTheWayError.
    """
    try:
        if within is not None:
            _open_folder(path, within, make=True, mode=mode).close()
            return
        missing, folder = [], path.parent
        while folder != folder.parent and not folder.exists():
            missing.append(folder)
            folder = folder.parent
        for parent in reversed(missing):  # mkdir of pathlib recurses, and paths may be deep
            parent.mkdir(exist_ok=True)
        path.mkdir(mode=mode, exist_ok=True)
    except OSError as error:
        raise file_system_error(path, error) from error


def remove_file(path: Path, *, within: Path | None = None) -> None:
    """Remove a file, where ``within`` is given from that folder down without links.

    Raises FileNotFoundError as it is, FileSystemError for the rest, LinkOnTheWayError.
    """
    try:
        with _open_folder(path.parent, within) as folder:
            folder.require_no_link(path.name)
            folder.remove(path.name)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise file_system_error(path, error) from error


def open_file(path: Path, flags: int, *, mode: int = 0o644, within: Path | None = None) -> int:
    """A descriptor of a file that is opened with these flags, which never follow a last link.

    With ``within``, it is reached from that folder down without links; and a file that is written
    has no second name, which may be anywhere. Raises OSError, FileSystemError, LinkOnTheWayError.
    """
    with _open_folder(path.parent, within) as folder:
        descriptor = folder.open(path.name, flags | _OF_A_FILE, mode)
    try:
        if within is not None:
            _require_one_name(descriptor, path, is_written=bool(flags & _WRITES))
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _require_one_name(descriptor: int, path: Path, *, is_written: bool) -> None:
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        raise FileSystemError(str(path), "expected a regular file")
    if is_written and status.st_nlink > 1:
        raise FileSystemError(
            str(path),
            "expected a file with one name, found one with several (hard links)",
            hint="what is written there would be changed elsewhere too; move the file away",
        )


_WRITES = os.O_WRONLY | os.O_RDWR


def take_from_others(path: Path) -> None:
    """Leave a file or folder to its owner: group and others may do nothing with it any more.

    A link is refused, as what it leads to lies elsewhere. POSIX only. Raises FileSystemError.
    """
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        descriptor = os.open(path, flags)
        try:
            os.fchmod(descriptor, stat.S_IMODE(os.fstat(descriptor).st_mode) & stat.S_IRWXU)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise file_system_error(path, error) from error


def others_may(path: Path, mode: int) -> bool:
    """True if group or others have one of the permissions of ``mode``, like ``0o022``.

    False on Windows, whose permissions are not in the mode, and for what is not there.
    """
    try:
        return os.name == "posix" and bool(path.stat().st_mode & mode & 0o077)
    except OSError:
        return False


def is_directory(path: Path) -> bool:
    """True if a folder is there, links followed; False in any doubt."""
    try:
        return stat.S_ISDIR(path.stat().st_mode)
    except (OSError, ValueError):
        return False


def force_and_close(descriptor: int, path: str | Path) -> None:
    """Force an open file, or folder, to the disk. Raises FileSystemError; it is closed anyhow."""
    try:
        os.fsync(descriptor)
    except OSError as error:
        raise file_system_error(path, error) from error
    finally:
        os.close(descriptor)


def file_state(path: Path) -> tuple[int, ...]:
    """File state, which a change makes another: times, size and inode; () where there is none."""
    try:
        status = path.stat()
    except OSError:
        return ()
    return status.st_mtime_ns, status.st_size, status.st_ino, status.st_ctime_ns


def _permissions(folder: "Folder", name: str) -> int | None:
    """The bits of the file to replace; a link has none of its own."""
    try:
        status = folder.status(name)
    except OSError:
        return None
    return stat.S_IMODE(status.st_mode) if stat.S_ISREG(status.st_mode) else None


def _holds(folder: "Folder", name: str, expected: bytes) -> bool:
    try:
        descriptor = folder.open(name, _READ_FLAGS)
        with open(descriptor, "rb") as file:  # noqa: PTH123 - a descriptor, not a path
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                return False
            return file.read(len(expected) + 1) == expected
    except OSError:
        return False


def _write_new(
    folder: "Folder",
    name: str,
    data: bytes,
    mode: int,
    *,
    force: bool = True,
    is_exact: bool = False,
) -> None:
    """Write a file that is not there yet; with ``is_exact`` the umask takes nothing of its mode."""
    descriptor = folder.open(name, NEW_FILE, mode)
    try:
        with open(descriptor, "wb") as file:  # noqa: PTH123 - a descriptor, not a path
            file.write(data)
            file.flush()
            if is_exact and hasattr(os, "fchmod"):
                os.fchmod(descriptor, mode)
            if force:
                os.fsync(descriptor)
        if is_exact and not hasattr(os, "fchmod"):  # Windows, before Python 3.13
            (folder.path / name).chmod(mode)
    except BaseException:  # an interrupt too leaves no half file
        with suppress(OSError):
            folder.remove(name)
        raise


def _sync_directory(path: Path) -> None:
    if os.name == "nt":  # as `Folder.force`
        return
    with _open_folder(path) as folder:
        folder.force()
