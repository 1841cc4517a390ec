"""Folders of this user for what must lie on disk: a cache, else a temporary folder.

Only a folder that nobody else can write to is used. Page: ``docs/boot.md``.
"""

from __future__ import annotations

import os
import stat
import sys

DIGEST_BYTES = 20

TYPE_CHECKING = False  # `typing` would cost more than everything else here
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


def folders(kind: str) -> Iterator[str]:
    """Private folders for ``kind`` in order of preference, made as they are asked for.

    The last one is temporary and removed at exit. A folder that cannot be made or is not private is
    left out.
    """
    cache = cache_root(os.environ, sys.platform)
    if cache:
        folder = os.path.join(cache, kind)
        try:
            make_private(folder)
        except OSError:
            pass  # read-only, full, not ours alone: a temporary folder needs nobody's consent
        else:
            yield folder
    yield temporary_folder()


def cache_root(environ: Mapping[str, str], platform: str) -> str | None:
    """Where this user keeps what can be made again, or None where there is no such place.

    ``RYE_CACHE_DIR``, else ``rye`` in ``XDG_CACHE_HOME`` or in the platform's folder for caches.
    """
    asked = environ.get("RYE_CACHE_DIR")
    if asked:
        return os.path.abspath(asked)
    if platform == "win32":
        return _inside(environ.get("LOCALAPPDATA", ""), "rye")
    if platform == "darwin":
        return _inside(_home(environ), "Library", "Caches", "rye")
    if os.path.isabs(environ.get("XDG_CACHE_HOME", "")):
        return os.path.join(environ["XDG_CACHE_HOME"], "rye")
    return _inside(_home(environ), ".cache", "rye")


def make_private(folder: str) -> None:
    """Make a folder that no other user can enter, or make sure that it is one.

    Raises OSError when it is not, or cannot be.
    """
    try:
        status = os.lstat(folder)
    except FileNotFoundError:
        os.makedirs(os.path.dirname(folder), exist_ok=True)
        try:
            os.mkdir(folder, 0o700)
        except FileExistsError:
            pass  # another process was quicker; looked at like any other
        status = os.lstat(folder)
    if not stat.S_ISDIR(status.st_mode) or not _is_ours(status):
        raise PermissionError(f"{folder}: expected a folder of this user only")


def temporary_folder() -> str:
    """A new private folder, removed when the program ends."""
    import atexit
    import shutil
    import tempfile

    folder = tempfile.mkdtemp(prefix="rye-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def write_file(path: str, data: bytes, mode: int) -> None:
    """Give ``path`` this content and mode, whole or not at all. Raises OSError.

    Not synced to the disk: whoever reads it checks its digest.
    """
    temporary = f"{path}.{os.getpid()}.{os.urandom(4).hex()}.tmp"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0)
    flags |= getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
    descriptor = os.open(temporary, flags, mode)
    try:
        try:
            rest = memoryview(data)
            while rest:
                rest = rest[os.write(descriptor, rest) :]
        finally:
            os.close(descriptor)
        os.replace(temporary, path)
    except OSError:
        try:
            os.unlink(temporary)
        except OSError:
            pass  # the first failure is the one to tell
        raise


def digest_of(data: bytes) -> str:
    """What names a file by its content: BLAKE2b, 20 bytes, in hex."""
    try:
        from _blake2 import blake2b
    except ImportError:
        from hashlib import blake2b
    return blake2b(data, digest_size=DIGEST_BYTES).hexdigest()


def _is_ours(status: os.stat_result) -> bool:
    if not hasattr(os, "geteuid"):
        return True
    return status.st_uid in {os.geteuid(), 0} and not status.st_mode & 0o077


def _inside(base: str, *names: str) -> str | None:
    """A path below an existing folder of our own user; a home that is missing is not made."""
    if not os.path.isabs(base) or base == os.path.dirname(base) or not os.path.isdir(base):
        return None
    if hasattr(os, "geteuid") and os.geteuid() == 0 and os.stat(base).st_uid != 0:
        return None  # sudo: what root leaves in a user's home, that user cannot change or remove
    return os.path.join(base, *names)


def _home(environ: Mapping[str, str]) -> str:
    if "HOME" in environ:
        return environ["HOME"]
    try:
        import pwd

        return pwd.getpwuid(os.getuid()).pw_dir
    except (ImportError, KeyError):  # no such module on Windows, no such user in a container
        return ""
