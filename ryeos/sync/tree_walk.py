"""Walk of a folder: its files, and whether each may be read. Many, so without pathlib.

Links to folders are not followed. A link to a file is, as long as that lies below the same root:
a project is foreign data, and must not send what lies elsewhere.
"""

import os
import re
import stat
import unicodedata
from collections.abc import Callable, Container, Iterator
from contextlib import contextmanager
from os.path import realpath
from typing import NamedTuple, TypeAlias

from lillux.contained_paths import require_plain_path
from lillux.errors import UnsafePathError
from lillux.files import file_system_error
from lillux.patterns import pattern
from lillux.values import dataclass
from ryeos.items.errors import RyeError
from ryeos.sync.paths import MAX_PATH_BYTES, REPARSE_POINT

_MAX_NAME_BYTES = 255
_MAX_PATH = MAX_PATH_BYTES // 4  # characters that may be more bytes than that
_PLAIN_NAME = pattern(
    r"(?!(?:con|prn|aux|nul|com[0-9]|lpt[0-9])(?:\.|$))[a-z0-9_.@+=-]{0,99}[a-z0-9_]",
    re.IGNORECASE | re.ASCII,
)
_UNSEEN = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
_FOLDER = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_CLOEXEC", 0)


@dataclass(frozen=True, slots=True)
class SkippedFile:
    """A file that is left out, by its relative path, and why."""

    path: str
    problem: str


class WalkedFile(
    NamedTuple
):  # made for each file, each time: a tuple is made in a third of the time
    """A regular file. ``status`` is of the file itself, also where a link leads there.

    ``target`` is where a link leads, relative to the same root; ``""`` for no link.
    """

    relative: str
    name: str
    status: os.stat_result
    target: str = ""


TakeKnown: TypeAlias = Callable[[str, os.stat_result], bool]
"""Is asked of each regular file that is no link; one that it takes is not in the walk."""


def take_nothing(_relative: str, _status: os.stat_result) -> bool:
    """Take no file."""
    return False


def walk(
    root: str,
    top: str,
    enter: Callable[[str, str], bool],
    skip: Callable[[SkippedFile], None],
    *,
    take: TakeKnown = take_nothing,
    named: Container[str] = (),
) -> Iterator[WalkedFile]:
    """Every regular file below the folder ``top`` of ``root``, both without a ``/`` at the end.

    ``enter`` is asked of each folder with its relative path and its name. ``named`` are paths whose
    names were found good before; what ``take`` takes has such a path. Nothing below a folder that
    is not there, or no folder. Raises FileSystemError, RyeError `CONFIG_ERROR`: a folder that
    cannot be read is not taken for an empty one.
    """
    waiting = [top] if not top or _is_folder(f"{root}/{top}") else []
    is_regular = stat.S_ISREG
    while waiting:
        folder = waiting.pop()
        above = f"{folder}/" if folder else ""
        with _listing(f"{root}/{folder}") as entries:
            for entry in entries:
                name = entry.name
                try:
                    status = entry.stat(follow_symlinks=False)
                except FileNotFoundError:
                    continue
                relative, mode = above + name, status.st_mode
                if is_regular(mode) and take(relative, status):
                    continue
                if len(relative) > _MAX_PATH and len(os.fsencode(relative)) > MAX_PATH_BYTES:
                    # No manifest has it, and what is below may be too long for the system to name.
                    skip(
                        SkippedFile(relative, f"expected a path of at most {MAX_PATH_BYTES} bytes")
                    )
                elif stat.S_ISDIR(mode) and not _is_reparse_point(status):
                    if enter(relative, name) and _is_named(name, f"{relative}/", skip):
                        waiting.append(relative)
                elif is_regular(mode):
                    if relative in named or _is_named(name, relative, skip):
                        yield WalkedFile(relative, name, status)
                else:
                    yield from _linked_file(root, relative, name, mode, skip)


def _is_named(name: str, relative: str, skip: Callable[[SkippedFile], None]) -> bool:
    problem = name_problem(name)
    if problem:
        skip(SkippedFile(relative, problem))
    return not problem


def name_problem(name: str) -> str:
    """Why a file of this name could not be made on every platform; ``""`` when it can."""
    if _PLAIN_NAME.fullmatch(name):
        return ""
    try:
        require_plain_path(name)
        size = len(name.encode("utf-8"))
    except UnsafePathError as error:
        return error.problem
    except UnicodeEncodeError:
        return "expected a name in UTF-8, found other bytes"
    if size > _MAX_NAME_BYTES:
        return f"expected a name of at most {_MAX_NAME_BYTES} bytes, found {size}"
    if any(unicodedata.category(character) in _UNSEEN for character in name):
        return "characters that cannot be seen are not allowed"
    return ""


def _linked_file(
    root: str, relative: str, name: str, mode: int, skip: Callable[[SkippedFile], None]
) -> Iterator[WalkedFile]:
    """The file that a link leads to; nothing for what is no link."""
    if not stat.S_ISLNK(mode):
        skip(SkippedFile(relative, "expected a file, found something else"))
        return
    try:
        real, top = realpath(f"{root}/{relative}", strict=True), f"{realpath(root)}{os.sep}"
        status = os.stat(real)  # noqa: PTH116 - as above
    except OSError:  # leads nowhere, or in a circle
        skip(SkippedFile(relative, "a link that leads nowhere"))
        return
    if stat.S_ISDIR(status.st_mode):
        skip(SkippedFile(f"{relative}/", "a link, and links to folders are not followed"))
        return
    if not stat.S_ISREG(status.st_mode) or not _is_named(name, relative, skip):
        return
    if not real.startswith(top):
        skip(SkippedFile(relative, "a link that leads out of the folder"))
        return
    yield WalkedFile(relative, name, status, real[len(top) :].replace(os.sep, "/"))


@contextmanager
def _listing(path: str) -> "Iterator[list[os.DirEntry[str]]]":
    """Entries of a folder that is open: the system looks for each name in there alone."""
    try:
        descriptor = os.open(path, _FOLDER) if os.scandir in os.supports_fd else -1
    except (FileNotFoundError, NotADirectoryError):  # removed meanwhile
        yield []
        return
    except OSError as error:
        raise file_system_error(path, error) from error
    try:
        yield _entries(path, descriptor)
    finally:
        if descriptor >= 0:
            os.close(descriptor)


def _entries(path: str, descriptor: int) -> "list[os.DirEntry[str]]":
    try:
        with os.scandir(path) if descriptor < 0 else os.scandir(descriptor) as entries:
            return list(entries)
    except (FileNotFoundError, NotADirectoryError):  # as above
        return []
    except OSError as error:
        raise file_system_error(path, error) from error


def _is_folder(path: str) -> bool:
    try:
        status = os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as error:
        raise file_system_error(path, error) from error
    if stat.S_ISLNK(status.st_mode) or _is_reparse_point(status):
        raise RyeError(
            f"{path}: expected a folder of its own, found a link to another",
            code="CONFIG_ERROR",
            hint="what a link leads to is not sent; put a copy in its place",
            path=path,
        )
    return stat.S_ISDIR(status.st_mode)


def _is_reparse_point(status: os.stat_result) -> bool:
    return bool(getattr(status, "st_file_attributes", 0) & REPARSE_POINT)
