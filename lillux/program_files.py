"""Program files: those that PATH names, and those in folders."""

import os
import stat
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path
from typing import Protocol

_WINDOWS_SUFFIXES = (".exe", ".cmd", "")


class Allows(Protocol):
    """Says if an unsigned file counts: a program, ``.env``, one that names a version."""

    def __call__(self, path: str, data: bytes | None = None) -> bool:
        """``data`` is its text, where that was read already, to be used."""


def everything_counts(path: str, data: bytes | None = None) -> bool:  # noqa: ARG001 - whatever it is
    """Every file counts."""
    return True


def find_on_path(
    name: str, search_path: str, *, platform: str, allows: Allows | None = None
) -> str | None:
    """The program ``name`` in the folders of ``search_path``, as an absolute path, or None.

    Empty and relative entries are passed over: they mean whatever folder a process stands in. An
    absolute name is found where it is, a relative one with a separator nowhere. On Windows a name
    is tried with ``.exe`` and ``.cmd`` before it is tried as it stands. What ``allows`` refuses is
    passed over.
    """
    allows = allows or everything_counts
    if Path(name).is_absolute():
        return first_program((Path(name),), platform, allows)
    if not name or not is_bare(name, platform):
        return None
    folders = path_folders(search_path, platform)
    return first_program((Path(folder, name) for folder in folders), platform, allows)


def unique(texts: Iterable[str]) -> tuple[str, ...]:
    """The texts in order, each once."""
    return tuple(dict.fromkeys(texts))


def either(names: tuple[str, ...]) -> str:
    """The names as a sentence has them: ``a, b or c``."""
    return " or ".join(filter(None, (", ".join(names[:-1]), *names[-1:])))


@lru_cache(maxsize=32)
def path_folders(search_path: str, platform: str) -> tuple[str, ...]:
    """The absolute entries, each once. A graph asks for those of one PATH at every step."""
    entries = search_path.split(";" if platform == "win32" else ":")
    return unique(entry for entry in entries if Path(entry).is_absolute())


def first_program(
    paths: Iterable[Path], platform: str, allows: Allows = everything_counts
) -> str | None:
    """The first of the paths that is a program, with the suffix that makes it one on Windows."""
    suffixes = _WINDOWS_SUFFIXES if platform == "win32" else ("",)
    candidates = (f"{path}{suffix}" for path in paths for suffix in suffixes)
    found = (path for path in candidates if _is_program(path, platform))
    return next((path for path in found if allows(path)), None)


def _is_program(path: str, platform: str) -> bool:
    return is_file(path) and (platform == "win32" or os.access(path, os.X_OK))


def is_file(path: str) -> bool:
    """True if there is a regular file, perhaps behind links."""
    try:
        return stat.S_ISREG(os.stat(path).st_mode)  # noqa: PTH116 - asked for at every call
    except (OSError, ValueError):  # ValueError: a NUL, or what the system cannot encode
        return False


def is_folder(path: str) -> bool:
    """True if there is a folder, perhaps behind links."""
    try:
        return stat.S_ISDIR(os.stat(path).st_mode)  # noqa: PTH116 - asked for at every call
    except (OSError, ValueError):
        return False


def is_bare(name: str, platform: str) -> bool:
    """True if a name has no folder in front."""
    return "/" not in name and not (platform == "win32" and "\\" in name)


_MANAGER_PROGRAMS = ("mise", "rtx", "volta-shim")


def is_shim(path: str) -> bool:
    """True if a program of a version manager starts another one, which it chooses by a folder."""
    if os.path.basename(os.path.dirname(path)) == "shims":  # noqa: PTH119, PTH120 - at each start
        return True
    try:
        return os.path.basename(os.readlink(path)) in _MANAGER_PROGRAMS  # noqa: PTH115, PTH119
    except OSError:
        return False
