"""Files of a tree on the disk: looked at, written whole, removed. No link is followed.

What lies in a tree may have been put there by an untrusted program: links where folders were,
folders that cannot be read, folders nested deeper than a path can be long.
"""

import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from hashlib import sha256
from itertools import count
from pathlib import Path
from typing import NamedTuple

from lillux.files import NEW_FILE, PLAIN_FILE, file_system_error, make_directory
from ryeos.sync.paths import UnsafeManifestError, is_link

_FOLDER_MODE = 0o755
_OWNER = stat.S_IRWXU
_CHUNK = 1024 * 1024


class TreeFile(NamedTuple):  # made for each file, each time: a tuple is made in a third of the time
    """Something in a tree. ``relative`` has slashes; ``status`` is of itself, not of a target."""

    relative: str
    status: os.stat_result

    @property
    def is_folder(self) -> bool:
        """True if it is a folder of the tree's own."""
        return stat.S_ISDIR(self.status.st_mode) and not is_link(self.status)

    @property
    def is_file(self) -> bool:
        """True if it is a file of the tree's own, which no other name leads to."""
        status = self.status
        return stat.S_ISREG(status.st_mode) and status.st_nlink == 1 and not is_link(status)


class TreeFiles:
    """The files below ``root``, which is made if it is not there.

    With an ``owner`` that user and the group of the same number have what is made here; it takes
    root. Relative paths must have passed `ryeos.sync.paths`. Methods raise FileSystemError, and
    UnsafeManifestError where a link or a file is in the place of a folder.
    """

    def __init__(self, root: Path, owner: int = 0) -> None:
        make_directory(root)
        self._root, self._owner = str(root), owner
        if owner and os.lstat(root).st_uid != owner:
            _give(root, owner)
        self._plain = {""}
        self._prefix = f".{os.getpid():x}-{os.urandom(6).hex()}-"
        self._numbers = count()

    def is_owned(self, status: os.stat_result) -> bool:
        """Whether a file is the owner's, where there is one."""
        return not self._owner or status.st_uid == self._owner

    def entries(self, folder: str) -> Iterator[TreeFile]:
        """Entries of a folder, ``""`` for the root. One that may not be read is made readable."""
        path = self._path(folder)
        above = f"{folder}/" if folder else ""
        try:
            if os.name == "posix":
                self._open_up(path)
            with os.scandir(path) as entries:
                names = [entry.name for entry in entries]
            for name in names:
                try:
                    status = os.lstat(f"{path}{os.sep}{name}")
                except FileNotFoundError:
                    continue
                yield TreeFile(above + name, status)
        except OSError as error:
            raise file_system_error(path, error) from error

    def status(self, relative: str) -> os.stat_result | None:
        """The status of a file, or None."""
        path = self._path(relative)
        try:
            return os.lstat(path)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise file_system_error(path, error) from error

    def digest(self, relative: str) -> tuple[str, bytes]:
        """The SHA-256 of a file that is there, and its first two bytes."""
        path = self._path(relative)
        digest = sha256()
        first = b""
        try:
            descriptor = os.open(path, PLAIN_FILE)
            with open(descriptor, "rb", buffering=0) as file:  # noqa: PTH123 - a descriptor
                while chunk := file.read(_CHUNK):
                    first = first or chunk[:2]
                    digest.update(chunk)
        except OSError as error:
            raise file_system_error(path, error) from error
        return digest.hexdigest(), first

    def write(self, relative: str, data: bytes, mode: int) -> None:
        """Write a file with this content, whole or not at all. Not forced to the disk."""
        folder, _, _ = relative.rpartition("/")
        self._require_folder(folder, relative)
        path = self._path(relative)
        temporary = self._temporary(os.path.dirname(path))  # noqa: PTH120 - text, many times
        try:
            _write_new(temporary, data, mode, self._owner)
            os.replace(temporary, path)  # noqa: PTH105 - as above
        except BaseException as error:  # an interrupt too leaves no half file
            with suppress(OSError):
                os.unlink(temporary)  # noqa: PTH108 - as above
            if isinstance(error, OSError):
                raise file_system_error(path, error) from error
            raise

    def remove(self, relative: str) -> None:
        """Remove what is there: a file, a link, a folder with all that is in it."""
        path = self._path(relative)
        try:
            status = os.lstat(path)
            if stat.S_ISDIR(status.st_mode) and not is_link(status):
                self._plain = {""}
                self._remove_folder(path)
            else:
                os.unlink(path)  # noqa: PTH108 - as above
        except (FileNotFoundError, NotADirectoryError):
            return
        except OSError as error:
            raise file_system_error(path, error) from error

    def remove_empty_folders(self, relative: str) -> None:
        """Remove the folders above a file that is gone, as far up as nothing is in them."""
        folder = relative.rpartition("/")[0]
        while folder:
            try:
                os.rmdir(self._path(folder))  # noqa: PTH106 - as above
            except OSError:  # not empty, or gone
                return
            self._plain.discard(folder)
            folder = folder.rpartition("/")[0]

    def _require_folder(self, folder: str, wanted_for: str) -> None:
        missing = []
        while folder not in self._plain:
            missing.append(folder)
            folder = folder.rpartition("/")[0]
        for outer in reversed(missing):
            self._make_folder(outer, wanted_for)

    def _make_folder(self, folder: str, wanted_for: str) -> None:
        path = self._path(folder)
        try:
            os.mkdir(path, _FOLDER_MODE)  # noqa: PTH102 - as above
            if self._owner:
                os.chown(path, self._owner, self._owner)
        except FileExistsError:
            status = self.status(folder)
            if status is None or is_link(status):
                raise UnsafeManifestError(wanted_for, f"{path} is a link") from None
            if not stat.S_ISDIR(status.st_mode):
                raise UnsafeManifestError(wanted_for, f"{path} is no folder") from None
        except OSError as error:
            raise file_system_error(path, error) from error
        self._plain.add(folder)

    def _open_up(self, path: str) -> None:
        if os.lstat(path).st_mode & _OWNER != _OWNER:
            os.chmod(path, _FOLDER_MODE)  # noqa: PTH101 - as above

    def _remove_folder(self, path: str) -> None:
        """A folder and all in it. What is deeper is first moved up into it: no path gets long."""
        waiting = [path]
        while waiting:
            folder = waiting.pop()
            for inner, status in self._open_folder(folder):
                if not stat.S_ISDIR(status.st_mode) or is_link(status):
                    os.unlink(inner)  # noqa: PTH108 - as above
                elif folder == path:
                    waiting.append(inner)
                else:
                    os.chmod(inner, _OWNER)  # noqa: PTH101 - as above
                    moved = self._temporary(path)
                    os.rename(inner, moved)  # noqa: PTH104 - as above
                    waiting.append(moved)
            if folder != path:
                os.rmdir(folder)  # noqa: PTH106 - as above
        os.rmdir(path)  # noqa: PTH106 - as above

    def _open_folder(self, folder: str) -> list[tuple[str, os.stat_result]]:
        """Entries of a folder, which may be changed from now on."""
        os.chmod(folder, _OWNER)  # noqa: PTH101 - as above
        with os.scandir(folder) as entries:
            return [(entry.path, entry.stat(follow_symlinks=False)) for entry in entries]

    def _temporary(self, folder: str) -> str:
        return f"{folder}{os.sep}{self._prefix}{next(self._numbers):x}.tmp"

    def _path(self, relative: str) -> str:
        if not relative:
            return self._root
        return f"{self._root}{os.sep}{relative if os.sep == '/' else relative.replace('/', os.sep)}"


def _give(root: Path, owner: int) -> None:
    try:
        os.chown(root, owner, owner, follow_symlinks=False)
    except OSError as error:
        raise file_system_error(root, error) from error


def remove_tree(path: Path) -> None:
    """Remove the folder, whatever is in it. Raises FileSystemError."""
    if path.parent.is_dir():
        TreeFiles(path.parent).remove(path.name)


def _write_new(path: str, data: bytes, mode: int, owner: int) -> None:
    descriptor = os.open(path, NEW_FILE, mode)
    try:
        if owner:
            os.fchown(descriptor, owner, owner)
        written = os.write(descriptor, data)
        while written < len(data):  # a signal, or more than the system takes at once
            written += os.write(descriptor, memoryview(data)[written:])
    finally:
        os.close(descriptor)
