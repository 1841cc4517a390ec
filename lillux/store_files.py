"""Folders of a content-addressed store, plain ones only, and the files in them.

A store may lie in a foreign project: a link in it would lead writes elsewhere. Each folder
is looked at once, when it is first used; the root itself is the caller's to judge.
"""

import errno
import os
import stat
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from time import time

from lillux.files import NEW_FILE, PLAIN_FILE, FileTooLargeError, file_system_error, force_and_close
from lillux.store_errors import StoreLinkError

JUST_NOW_S = 20.0
"""A third of the shortest grace of a sweep."""

_FILE_MODE, _FOLDER_MODE = 0o644, 0o755
_TEMPORARY = ".tmp"
_PART_BYTES = 1024 * 1024
_REPARSE_POINT = 0x400  # of Windows: links and junctions


class StoreFolders:
    """Folders below one root, which files are put into whole. Thread-safe."""

    def __init__(self, root: Path) -> None:
        self._root = str(root)
        self._plain: set[tuple[str, ...]] = set()
        self._prefix = f".{os.getpid():x}-{os.urandom(6).hex()}-"
        self._numbers = count()

    def path(self, folders: tuple[str, ...], name: str) -> str:
        """The path of a file; nothing is looked at."""
        return os.sep.join((self._root, *folders, name))  # noqa: PTH118 - the hot path of a run

    def put(self, folders: tuple[str, ...], name: str, data: bytes, *, force: bool) -> None:
        """Put a file there, whole or not at all, over one that is there; ``force``: to the disk.

        Raises StoreLinkError, FileSystemError.
        """
        self.require_plain(folders, make=True)
        try:
            self._put(folders, name, data, force=force)
        except FileNotFoundError:  # another process removed the folder that we knew
            self._plain.clear()
            self.require_plain(folders, make=True)
            try:
                self._put(folders, name, data, force=force)
            except OSError as error:
                raise file_system_error(self.path(folders, name), error) from error
        except OSError as error:
            raise file_system_error(self.path(folders, name), error) from error

    def size(self, folders: tuple[str, ...], name: str) -> int | None:
        """The size of a file there, or None. Raises StoreLinkError, FileSystemError."""
        status = self.status(folders, name)
        return None if status is None else status.st_size

    def open_file(self, folders: tuple[str, ...], name: str) -> int | None:
        """A descriptor to read a file there with, or None; the caller closes it.

        No link is followed. Raises StoreLinkError, FileSystemError.
        """
        if not self.require_plain(folders, make=False):
            return None
        path = self.path(folders, name)
        try:
            return os.open(path, PLAIN_FILE)
        except FileNotFoundError:
            return None
        except OSError as error:
            if error.errno == errno.ELOOP:
                raise StoreLinkError(path, "a file") from None
            raise file_system_error(path, error) from error

    def read(self, folders: tuple[str, ...], name: str, max_bytes: int) -> bytes | None:
        """All bytes of a file there, or None.

        Raises StoreLinkError, FileTooLargeError, FileSystemError.
        """
        descriptor = self.open_file(folders, name)
        if descriptor is None:
            return None
        path = self.path(folders, name)
        try:
            return _read(descriptor, path, max_bytes)
        except OSError as error:
            raise file_system_error(path, error) from error
        finally:
            os.close(descriptor)

    def status(self, folders: tuple[str, ...], name: str) -> os.stat_result | None:
        """File status of a file there, or None. Raises as `size`."""
        path = self.path(folders, name)
        try:
            status = os.lstat(path)
        except FileNotFoundError:  # the most usual answer, while content is being stored
            return None
        except NotADirectoryError as error:
            self.require_plain(folders, make=False)
            raise file_system_error(path, error) from error
        except OSError as error:
            raise file_system_error(path, error) from error
        if not self.require_plain(folders, make=False):  # removed between the two
            return None
        if not stat.S_ISREG(status.st_mode) or _is_reparse_point(status):
            raise StoreLinkError(path, "a file")
        return status

    def touch(self, folders: tuple[str, ...], name: str) -> bool:
        """Make a file as young as one written now; False if absent. Raises as `size`.

        Give or take `JUST_NOW_S`: what has just been stored is not written to again.
        """
        status = self.status(folders, name)
        if status is None:
            return False
        if 0 <= time() - status.st_mtime < JUST_NOW_S:
            return True
        path = self.path(folders, name)
        try:
            os.utime(path)
        except FileNotFoundError:  # swept between the two
            return False
        except OSError as error:
            raise file_system_error(path, error) from error
        return True

    def remove(self, folders: tuple[str, ...], name: str) -> None:
        """Remove the file, if there is one. Raises StoreLinkError, FileSystemError."""
        if self.status(folders, name) is None:
            return
        path = self.path(folders, name)
        try:
            os.unlink(path)  # noqa: PTH108 - as above
        except FileNotFoundError:
            return
        except OSError as error:
            raise file_system_error(path, error) from error

    def move(
        self, folders: tuple[str, ...], name: str, target: tuple[str, ...], target_name: str
    ) -> bool:
        """Move a file, over one that is there; whether it was there. Not a link's target.

        Raises StoreLinkError, FileSystemError.
        """
        if not self.require_plain(folders, make=False):
            return False
        self.require_plain(target, make=True)
        path = self.path(folders, name)
        try:
            os.replace(path, self.path(target, target_name))  # noqa: PTH105 - as above
        except FileNotFoundError:
            return False
        except OSError as error:
            raise file_system_error(path, error) from error
        return True

    def remove_older(self, folders: tuple[str, ...], name: str, before_s: float) -> bool:
        """Remove a file that was last written or touched before a time; whether it was.

        It is renamed first. A touch before that is seen after it, and the file goes back; a touch
        after it finds nothing. So no caller hears that a file is there which then is not. Raises
        StoreLinkError, FileSystemError.
        """
        status = self.status(folders, name)
        if status is None or status.st_mtime >= before_s:
            return False
        path, aside = self.path(folders, name), self._temporary(folders)
        try:
            os.rename(path, aside)  # noqa: PTH104 - as above
            if os.lstat(aside).st_mtime >= before_s:
                os.replace(aside, path)  # noqa: PTH105 - who wrote it anew wrote the same
                return False
            os.unlink(aside)  # noqa: PTH108 - as above
        except FileNotFoundError:  # another process sweeps too
            return False
        except OSError as error:
            raise file_system_error(path, error) from error
        return True

    def leftovers(self, folders: tuple[str, ...], before_s: float) -> Iterator[str]:
        """Files that a killed writer or sweep left in a folder before a time. Raises as above."""
        for entry in self.entries(folders):
            if entry.name.startswith(".") and entry.name.endswith(_TEMPORARY):
                status = self.status(folders, entry.name)
                if status is not None and status.st_mtime < before_s:
                    yield entry.name

    def entries(self, folders: tuple[str, ...]) -> Iterator["os.DirEntry[str]"]:
        """Entries of a folder, by name; nothing for one that is not there.

        Raises StoreLinkError, FileSystemError.
        """
        if not self.require_plain(folders, make=False):
            return iter(())
        path = self.path(folders, "")
        try:
            with os.scandir(path) as found:
                return iter(sorted(found, key=lambda entry: entry.name))
        except FileNotFoundError:
            return iter(())
        except OSError as error:
            raise file_system_error(path, error) from error

    def require_plain(self, folders: tuple[str, ...], *, make: bool) -> bool:
        """True if the folders are there, made if asked. Raises StoreLinkError, FileSystemError."""
        if folders in self._plain:
            return True
        if folders and not self.require_plain(folders[:-1], make=make):
            return False
        path = self.path(folders, "").rstrip(os.sep) or os.sep
        if not self._is_plain(path, is_root=not folders, make=make):
            return False
        self._plain.add(folders)
        return True

    def force(self, folders: tuple[str, ...], name: str = "") -> None:
        """Force a file to the disk; with no name the folder itself.

        One that is gone needs no writing. Raises FileSystemError.
        """
        if os.name == "nt" and not name:  # Windows cannot open folders; its rename is journalled
            return
        path = self.path(folders, name)
        try:
            descriptor = os.open(path, PLAIN_FILE if os.name != "nt" else os.O_RDWR)
        except FileNotFoundError:
            return
        except OSError as error:
            raise file_system_error(path, error) from error
        force_and_close(descriptor, path)

    def _is_plain(self, path: str, *, is_root: bool, make: bool) -> bool:
        if make:
            try:
                if is_root:
                    os.makedirs(path, _FOLDER_MODE)  # noqa: PTH103 - the hot path of a run
                else:
                    os.mkdir(path, _FOLDER_MODE)  # noqa: PTH102 - the hot path of a run
            except FileExistsError:
                pass
            except OSError as error:
                raise file_system_error(path, error) from error
            else:
                return True
        try:
            status = os.stat(path) if is_root else os.lstat(path)  # noqa: PTH116 - as above
        except FileNotFoundError:
            return False
        except OSError as error:
            raise file_system_error(path, error) from error
        if not stat.S_ISDIR(status.st_mode) or (not is_root and _is_reparse_point(status)):
            raise StoreLinkError(path, "a folder")
        return True

    def _temporary(self, folders: tuple[str, ...]) -> str:
        return self.path(folders, f"{self._prefix}{next(self._numbers):x}{_TEMPORARY}")

    def _put(self, folders: tuple[str, ...], name: str, data: bytes, *, force: bool) -> None:
        temporary = self._temporary(folders)
        descriptor = os.open(temporary, NEW_FILE, _FILE_MODE)
        try:
            try:
                _write(descriptor, data)
                if force:
                    os.fsync(descriptor)
            finally:
                os.close(descriptor)
            os.replace(temporary, self.path(folders, name))  # noqa: PTH105 - as above
        except BaseException:  # an interrupt too leaves no half file
            _remove(temporary)
            raise


def _write(descriptor: int, data: bytes) -> None:
    written = os.write(descriptor, data)
    while written < len(data):  # a signal, or more than the system takes at once
        written += os.write(descriptor, memoryview(data)[written:])


def _read(descriptor: int, path: str, max_bytes: int) -> bytes:
    """Raises StoreLinkError for what is no file, FileTooLargeError, OSError."""
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode) or _is_reparse_point(status):
        raise StoreLinkError(path, "a file")
    size = status.st_size
    if size > max_bytes:
        raise FileTooLargeError(path, size, max_bytes)
    data = os.read(descriptor, size + 1)  # one more tells that it has grown
    if len(data) == size:
        return data
    parts, count = [data], len(data)
    while data and count <= max_bytes:
        data = os.read(descriptor, _PART_BYTES)
        parts.append(data)
        count += len(data)
    if count > max_bytes:
        raise FileTooLargeError(path, count, max_bytes)
    return b"".join(parts)


def _remove(path: str) -> None:
    try:
        os.unlink(path)  # noqa: PTH108 - as above
    except OSError:
        return


def _is_reparse_point(status: os.stat_result) -> bool:
    return bool(getattr(status, "st_file_attributes", 0) & _REPARSE_POINT)
