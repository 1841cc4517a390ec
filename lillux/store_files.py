"""The files of a content-addressed store. Layout: ``docs/store.md``."""

import errno
import os
import stat
import sys
from collections.abc import Callable, Collection, Iterator, Sequence
from enum import StrEnum
from itertools import count
from pathlib import Path
from threading import Thread
from time import time
from typing import TYPE_CHECKING

from lillux.errors import LilluxError, UnsafePathError
from lillux.files import (
    NEW_FILE,
    PLAIN_FILE,
    FileTooLargeError,
    file_system_error,
    force_and_close,
    require_plain_path,
)

if TYPE_CHECKING:
    from typing import Any

# --- layout ---------------------------------------------------------------------------------------

_HEX_DIGITS = "0123456789abcdef"
_DIGEST_LENGTH = 64
PACKS = ("packs",)
"""The folder of files that have many small pieces each (`lillux.store_packs`)."""

PACKED_BYTES = 64 * 1024
"""Of one piece in a pack. Larger ones are files of their own: little is saved there."""

MIN_PIECES = 32
"""Of a pack: fewer new pieces at a time are files of their own."""

MAX_NAME_BYTES = 240
"""Of a segment of a ref; a suffix and a temporary name still have to fit beside it."""


class ObjectKind(StrEnum):
    """The two kinds of content; one digest may name something in both."""

    BLOB = "blob"
    OBJECT = "object"

    @property
    def folder(self) -> str:
        """Its folder below the root."""
        return f"{self.value}s"

    def file_name(self, digest: str) -> str:
        """The last part of the path."""
        return digest if self is ObjectKind.BLOB else f"{digest}.json"

    def digest_of(self, name: str) -> str | None:
        """The digest that a file of this name holds; None for a name that no store gives."""
        digest = name if self is ObjectKind.BLOB else name.removesuffix(".json")
        return digest if is_digest(digest) and self.file_name(digest) == name else None


def is_digest(text: object) -> bool:
    """Whether this is 64 lower-case hex digits."""
    # (`strip` leaves nothing of a text of these digits alone: a tenth of the time of a set.)
    return isinstance(text, str) and len(text) == _DIGEST_LENGTH and not text.strip(_HEX_DIGITS)


def are_digests(values: "Collection[Any]") -> bool:
    """Whether each of many values is one, by one look at all of them."""
    return (
        {*map(type, values)} <= {str}
        and {*map(len, values)} <= {_DIGEST_LENGTH}
        and not "".join(values).strip(_HEX_DIGITS)
    )


def valid_digest(text: str) -> str:
    """The digest itself. Raises DigestError: no path is made from anything else."""
    if not is_digest(text):
        raise DigestError(text)
    return text


def shard(space: ObjectKind, digest: str, levels: int) -> tuple[str, ...]:
    """The folders of a digest, from the root down. The digest is checked by the caller."""
    return (space.folder, *(digest[at : at + 2] for at in range(0, 2 * levels, 2)))


def is_shard(name: str) -> bool:
    """Whether a folder of this name may lie between a kind and its files."""
    return len(name) == 2 and not name.strip(_HEX_DIGITS)  # noqa: PLR2004 - two digits a level


def ref_folders(name: str) -> tuple[tuple[str, ...], str]:
    """The folders and the file of a ref like ``graphs/my-run``. Raises RefNameError."""
    try:
        require_plain_path(name)
    except UnsafePathError as error:
        raise RefNameError(name, error.problem) from None
    segments = name.split("/")
    for segment in segments:
        if segment.startswith("."):
            raise RefNameError(name, "a segment starts with a dot")
        if len(segment.encode("utf-8", "surrogateescape")) > MAX_NAME_BYTES:
            raise RefNameError(name, f"expected at most {MAX_NAME_BYTES} bytes in a segment")
    return tuple(segments[:-1]), f"{segments[-1]}.json"


# --- errors ---------------------------------------------------------------------------------------
# What can be wrong with a store, or with asking it for something.


class DigestError(LilluxError):
    """A text that is no digest, where the name of a blob or an object was expected."""

    code, exit_status = "INVALID_REF", 2

    def __init__(self, text: str) -> None:
        self.text = text
        super().__init__(f"digest: expected 64 lower-case hex digits, found {text[:80]!r}")


class RefNameError(LilluxError):
    """A name that no ref of a store can have."""

    code, exit_status = "INVALID_REF", 2

    def __init__(self, name: str, problem: str) -> None:
        self.name, self.problem = name, problem
        super().__init__(f"ref {name[:200]!r}: {problem}")


class ObjectMissingError(LilluxError):
    """The store has no blob or object of that digest. ``space`` is which of the two."""

    code, exit_status = "OBJECT_NOT_FOUND", 3

    def __init__(self, space: str, digest: str, root: str) -> None:
        self.space, self.digest, self.root = space, digest, root
        super().__init__(f"{space} {digest} is not in {root}")


class ObjectChangedError(LilluxError):
    """A stored file does not hold what its name says it holds."""

    code, exit_status = "INTEGRITY", 4

    def __init__(self, path: str, expected: str, found: str) -> None:
        self.path, self.expected, self.found = path, expected, found
        super().__init__(
            f"{path}: expected content of the digest {expected}, found {found}",
            hint="the file was changed or cut short; remove it, and store it again from its source",
        )


class ObjectUnreadableError(LilluxError):
    """A stored object has the right digest and is no JSON: it was not stored as an object."""

    code, exit_status = "INTEGRITY", 4

    def __init__(self, path: str, problem: str) -> None:
        self.path, self.problem = path, problem
        super().__init__(f"{path}: expected canonical JSON: {problem}")


class RefUnreadableError(LilluxError):
    """The file of a ref does not hold a JSON object: cut short by a power loss, or by hand."""

    code, exit_status = "INTEGRITY", 4

    def __init__(self, path: str, problem: str) -> None:
        self.path, self.problem = path, problem
        super().__init__(f"{path}: expected a JSON object: {problem}")


class StoreLinkError(LilluxError):
    """A link, or anything else that is no plain folder or file, lies inside a store."""

    code, exit_status = "INTEGRITY", 4

    def __init__(self, path: str, expected: str) -> None:
        self.path, self.expected = path, expected
        super().__init__(
            f"{path}: expected {expected} of the store's own, found something else",
            hint="a store follows no links; remove it and look who put it there",
        )


class ObjectTooLargeError(LilluxError):
    """More bytes than a store takes as one blob or object."""

    code, exit_status = "RESOURCE_EXCEEDED", 6

    def __init__(self, size: int, limit: int) -> None:
        self.size, self.limit = size, limit
        super().__init__(f"expected at most {limit} bytes to store as one, found {size}")


# --- disk -----------------------------------------------------------------------------------------
# Files forced to the disk; many at once where the system has a call for that.

MANY = 64
"""Files, from which on one call for the whole file system is cheaper than one for each."""


def force_file_system(path: str, *, platform: str = sys.platform) -> bool:
    """Force the file system below a folder to the disk. Whether it did.

    Linux only, whose kernels tell of a failed write since 5.8. For many small files it takes a
    tenth of the time that each by itself would, as the journal is written once.
    """
    if platform != "linux":
        return False
    import ctypes

    try:
        syncfs = ctypes.CDLL(None, use_errno=True).syncfs
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except (OSError, AttributeError):  # a libc without it; a folder that may not be read
        return False
    try:
        return int(syncfs(descriptor)) == 0
    finally:
        os.close(descriptor)


class EarlyForce:
    """`force_file_system` in a thread of its own, while files are still being made.

    A caller that forces the same again waits less. The first caller that asks learns of a failure,
    later ones may not: where this one failed, each file has to be forced.
    """

    def __init__(self, path: str, *, force: Callable[[str], bool] = force_file_system) -> None:
        self._path, self._force = path, force
        self._succeeded = False
        self._thread = Thread(target=self._run, name="rye-early-force", daemon=True)
        self._thread.start()

    def succeeded(self) -> bool:
        """Wait for it. Whether the system could do it."""
        self._thread.join()
        return self._succeeded

    def _run(self) -> None:
        self._succeeded = self._force(self._path)


def force_files(root: Path, paths: Sequence[str], early: EarlyForce | None = None) -> None:
    """Force files below a folder to the disk; one that is gone needs no writing.

    ``early`` was begun when their content was written. Raises FileSystemError.
    """
    is_sound = len(paths) >= MANY and (early is None or early.succeeded())
    if is_sound and force_file_system(str(root)):
        return
    for path in paths:
        _force_file(root / path)


def _force_file(path: Path) -> None:
    try:
        descriptor = os.open(path, os.O_RDWR | getattr(os, "O_BINARY", 0))
    except OSError:  # removed, or read-only: nothing of ours is waiting there
        return
    force_and_close(descriptor, path)


# --- folders --------------------------------------------------------------------------------------
# The folders of a store: made when needed, plain ones only, and what is written into them.
#
# A store may lie in a foreign project: a link in it would lead writes elsewhere. Each folder
# is looked at once, when it is first used; the root itself is the caller's to judge.

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
        """What the system tells of a file there, or None. Raises as `size`."""
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
        """What a killed writer or sweep left in a folder before a time. Raises as above."""
        for entry in self.entries(folders):
            if entry.name.startswith(".") and entry.name.endswith(_TEMPORARY):
                status = self.status(folders, entry.name)
                if status is not None and status.st_mtime < before_s:
                    yield entry.name

    def entries(self, folders: tuple[str, ...]) -> Iterator["os.DirEntry[str]"]:
        """What is in a folder, by name; nothing for one that is not there.

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
        """Whether the folders are there, made if asked. Raises StoreLinkError, FileSystemError."""
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
