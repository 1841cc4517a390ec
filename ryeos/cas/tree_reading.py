"""The bytes of files that a walk has found, and their digests: without pathlib, as of a walk."""

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256

from lillux.files import PLAIN_FILE, file_system_error
from ryeos.cas.tree_walk import Found

_LARGE_BYTES = 8 * 1024 * 1024
_PART_BYTES = 1024 * 1024


def read_found(root: str, found: Found) -> bytes | None:
    """All of a file; None for one that was removed meanwhile. Raises FileSystemError."""
    with _opened(f"{root}/{found.target or found.relative}") as descriptor:
        if descriptor is None:
            return None
        # One byte more tells a file that has grown from one that was read whole.
        data = os.read(descriptor, found.status.st_size + 1)
        parts = [data]
        while data:
            data = os.read(descriptor, _PART_BYTES)
            parts.append(data)
    return parts[0] if len(parts) <= 2 else b"".join(parts)  # noqa: PLR2004 - bytes, and none


def digest_found(root: str, found: Found) -> str | None:
    """The digest of a file of any size; None as `read_found`. Raises FileSystemError."""
    if found.status.st_size < _LARGE_BYTES:
        data = read_found(root, found)
        return None if data is None else sha256(data).hexdigest()
    with _opened(f"{root}/{found.target or found.relative}") as descriptor:
        if descriptor is None:
            return None
        digest = sha256()
        while part := os.read(descriptor, _PART_BYTES):
            digest.update(part)
    return digest.hexdigest()


@contextmanager
def _opened(path: str) -> Iterator[int | None]:
    try:
        descriptor = os.open(path, PLAIN_FILE)
    except (FileNotFoundError, NotADirectoryError):
        yield None
        return
    except OSError as error:
        raise file_system_error(path, error) from error
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            yield None  # removed, and something else put there
        else:
            yield descriptor
    except OSError as error:
        raise file_system_error(path, error) from error
    finally:
        os.close(descriptor)
