"""Folders of this user for what must lie on disk: a cache, else a temporary folder.

Only a folder that no other user can enter is used. Page: ``docs/building.md``.
"""

from __future__ import annotations

import os
import stat
import sys

TYPE_CHECKING = False  # importing typing costs more than this start may take

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


DIGEST_BYTES = 20
_OF_OTHERS = ("approved", "path", "search", "servers", "trees")  # written by other parts of Rye
KINDS = ("bundle", "native", "programs", "unpacked", *_OF_OTHERS)
"""Content of the cache, a folder each: laid out bundles, compiled modules, programs for tools,
shiv's copies; copies of approved programs, folders in the place of some of the PATH, catalogs for
searches, marks of MCP servers, digests of the files of projects."""


def folders(kind: str) -> Iterator[str]:
    """Private folders for one of `KINDS`, best first, made as they are asked for.

    The last one is temporary and removed at exit. A cache that cannot be made or is not private is
    left out. Raises OSError when not even a temporary folder can be made.
    """
    try:
        folder = cache_folder(kind)
    except OSError:
        pass  # read-only, full, not ours alone: a temporary folder always works
    else:
        yield folder
    yield temporary_folder()


def cache_folder(kind: str) -> str:
    """The private folder of the cache for one of `KINDS`, made if need be. Raises OSError."""
    root = cache_root(os.environ, sys.platform)
    if root is None:
        raise FileNotFoundError("no folder for a cache")
    folder = os.path.join(root, kind)
    make_private(folder)
    _require_steady(root)
    return folder


def cache_root(environ: Mapping[str, str], platform: str) -> str | None:
    """Folder of this user for what can be made again, or None where there is none.

    ``RYE_CACHE_DIR``, else ``rye`` in ``XDG_CACHE_HOME`` or in the platform's folder for caches.
    """
    configured = environ.get("RYE_CACHE_DIR")
    if configured:
        return os.path.abspath(configured)
    if platform == "win32":
        return _inside(environ.get("LOCALAPPDATA", ""), "rye")
    if platform == "darwin":
        return _inside(_home(environ), "Library", "Caches", "rye")
    xdg = environ.get("XDG_CACHE_HOME", "")
    if os.path.isabs(xdg):
        return None if _is_of_another_user(xdg) else os.path.abspath(os.path.join(xdg, "rye"))
    return _inside(_home(environ), ".cache", "rye")


def make_private(folder: str) -> None:
    """Make a folder that no other user can enter, or make sure that it is one.

    Raises OSError when it is not, or cannot be.
    """
    try:
        status = os.lstat(folder)
    except FileNotFoundError:
        _make_folder(folder)
        status = os.lstat(folder)
    if not stat.S_ISDIR(status.st_mode) or not _is_ours_alone(status):
        raise PermissionError(f"{folder}: expected a folder of this user only")


def temporary_folder() -> str:
    """A new private folder, removed when the program ends. Raises OSError."""
    import atexit
    import shutil
    import tempfile

    folder = tempfile.mkdtemp(prefix="rye-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def write_file(path: str, data: bytes, mode: int, aside: str) -> None:
    """Give ``path`` this content and mode, whole or not at all. Raises OSError.

    It is written in ``aside`` first, a folder of the same file system. Not synced to the disk:
    the reader checks its digest.
    """
    temporary = os.path.join(aside, f"{os.getpid()}-{os.urandom(8).hex()}.tmp")
    try:
        write_new(temporary, data, mode)
        os.replace(temporary, path)
    except OSError:
        try:
            os.unlink(temporary)
        except OSError:
            pass  # the first failure is the one to tell
        raise


def write_new(path: str, data: bytes, mode: int) -> None:
    """Write a file that is not there yet. Raises OSError."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    descriptor = os.open(path, flags, mode)
    try:
        write_all(descriptor, data)
    finally:
        os.close(descriptor)


def write_all(descriptor: int, data: bytes) -> None:
    """Write all of ``data``, however much the system takes at once. Raises OSError."""
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def digest_of(data: bytes) -> str:
    """Digest that names a file by its content: BLAKE2b, 20 bytes, in hex."""
    try:
        from _blake2 import blake2b
    except ImportError:  # another implementation of Python
        from hashlib import blake2b
    return blake2b(data, digest_size=DIGEST_BYTES).hexdigest()


def _make_folder(folder: str) -> None:
    """Make a folder and what is missing above it, for this user alone, whatever the umask."""
    parent = os.path.dirname(folder)
    if parent != folder and not os.path.isdir(parent):
        _make_folder(parent)
    try:
        os.mkdir(folder, 0o700)
    except FileExistsError:
        pass  # another process was quicker


def _require_steady(folder: str) -> None:
    """Raise PermissionError if another user could put other folders in the place of ours."""
    if not hasattr(os, "geteuid"):
        return  # Windows: folders of a profile have the rights of the profile
    status = os.stat(folder)
    open_to_all = status.st_mode & stat.S_IWOTH and not status.st_mode & stat.S_ISVTX
    if open_to_all or status.st_uid not in (0, os.geteuid()):
        raise PermissionError(f"{folder}: expected a folder that no other user can change")


def _is_ours_alone(status: os.stat_result) -> bool:
    if not hasattr(os, "geteuid"):
        return True  # Windows: below the user's own folder, by its access list
    return status.st_uid == os.geteuid() and not status.st_mode & 0o077


def _inside(base: str, *names: str) -> str | None:
    """A path below an existing folder of our own user; a home that is missing is not made."""
    if not os.path.isabs(base) or base == os.path.dirname(base) or not os.path.isdir(base):
        return None
    if _is_of_another_user(base):
        return None
    return os.path.abspath(os.path.join(base, *names))


def _is_of_another_user(folder: str) -> bool:
    """True if we are root in the home of a user, as with sudo.

    What root leaves there, that user can neither change nor remove.
    """
    if not hasattr(os, "geteuid") or os.geteuid() != 0:
        return False
    try:
        return os.stat(folder).st_uid != 0
    except OSError:
        return False  # not there yet: it will be root's own


def _home(environ: Mapping[str, str]) -> str:
    if "HOME" in environ:
        return environ["HOME"]
    try:
        import pwd

        return pwd.getpwuid(os.getuid()).pw_dir
    except (ImportError, KeyError):  # no such module on Windows, no such user in a container
        return ""


# What is kept in the cache, and for how long: until it was unused for 30 days.
#
# When something was last used, its own modification time says, set once a day. What is new makes
# the others be looked at. Nothing is touched whose name is not one of ours: a cache may have been
# put where other things are. Page: ``docs/building.md``.

KEPT_UNUSED_S = 30 * 24 * 3600
NOTED_EVERY_S = 24 * 3600

# A name of ours ends in a digest or in random digits: of a bundle or a file being written, of a
# compiled module, of what shiv unpacked.
_DIGITS = (16, 40, 64)
_KINDS = ("bundle", "native", "programs", "unpacked")


def note_use(entry: str, *, is_new: bool) -> None:
    """Remember that an entry of a folder of the cache is used now; sweep the folder if it is new.

    A cache that cannot be written is no obstacle.
    """
    from time import time

    try:
        now = time()
        if is_new:
            folder = os.path.dirname(entry)
            sweep(folder, now)
            if os.path.basename(folder) in _KINDS:  # no temporary one, beside what is not ours
                for other in _OF_OTHERS:
                    beside = os.path.join(os.path.dirname(folder), other)
                    if os.path.isdir(beside):
                        sweep(beside, now)
        elif now - os.stat(entry).st_mtime > NOTED_EVERY_S:
            os.utime(entry)
    except OSError:
        pass  # a read-only cache that another user has filled


def sweep(folder: str, now: float) -> None:
    """Remove what was unused for `KEPT_UNUSED_S`, and what a killed process left behind."""
    for entry in kept_in(folder):
        if _modified(entry, now) < now - KEPT_UNUSED_S:
            remove(entry)


def kept_in(folder: str) -> Iterator[str]:
    """The paths in a folder of the cache that were made by this program."""
    with os.scandir(folder) as entries:
        names = sorted(entry.name for entry in entries)
    yield from (os.path.join(folder, name) for name in names if _is_name_of_ours(name))


def remove(entry: str) -> None:
    """Remove a file, a link or a whole folder. Raises OSError when some of it is left."""
    from shutil import rmtree

    if os.path.isdir(entry) and not os.path.islink(entry):
        rmtree(entry)
    else:
        os.unlink(entry)


def _is_name_of_ours(name: str) -> bool:
    stem = name.removesuffix(".tmp").removesuffix("_lock")
    digits = stem.replace("-", "_").rpartition("_")[2]
    return len(digits) in _DIGITS and not digits.strip("0123456789abcdef")


def _modified(entry: str, now: float) -> float:
    try:
        return os.lstat(entry).st_mtime
    except OSError:
        return now  # another process was quicker
