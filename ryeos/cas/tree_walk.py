"""The files below a folder, and whether each may be read: no pathlib here, as there are many.

Links to folders are not followed. A link to a file is, as long as that lies below the same root: a
project is somebody else's, and must not send what lies elsewhere.
"""

import os
import re
import stat
import unicodedata
from collections.abc import Callable, Iterator
from os.path import realpath
from typing import NamedTuple

from lillux.errors import UnsafePathError
from lillux.files import check_relative, file_system_error
from lillux.values import dataclass
from ryeos.cas.errors import LinkedFolderError
from ryeos.cas.safe_paths import MAX_PATH_BYTES

_MAX_NAME_BYTES = 255
_MAX_PATH = MAX_PATH_BYTES // 4  # characters that may be more bytes than that
_PLAIN_NAME = re.compile(
    r"(?!(?:con|prn|aux|nul|com[0-9]|lpt[0-9])(?:\.|$))[a-z0-9_.@+=-]{0,99}[a-z0-9_]",
    re.IGNORECASE | re.ASCII,
)
_UNSEEN = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
_REPARSE_POINT = 0x400  # of Windows: links and junctions


@dataclass(frozen=True, slots=True)
class Skipped:
    """A file that is left out, by its relative path, and why."""

    path: str
    problem: str


class Found(NamedTuple):  # made for each file, each time: a tuple is made in a third of the time
    """A regular file. ``status`` is of the file itself, also where a link leads there.

    ``target`` is where a link leads, relative to the same root; ``""`` for no link.
    """

    relative: str
    name: str
    status: os.stat_result
    target: str = ""


def walk(
    root: str, top: str, enter: Callable[[str, str], bool], skip: Callable[[Skipped], None]
) -> Iterator[Found]:
    """Every regular file below the folder ``top`` of ``root``, both without a ``/`` at the end.

    ``enter`` is asked of each folder with its relative path and its name. Nothing below a folder
    that is not there, or no folder. Raises FileSystemError, LinkedFolderError: a folder that cannot
    be read is not taken for an empty one.
    """
    waiting = [top] if not top or _is_folder(f"{root}/{top}") else []
    while waiting:
        folder = waiting.pop()
        above = f"{folder}/" if folder else ""
        for entry in _listing(f"{root}/{folder}"):
            try:
                status = entry.stat(follow_symlinks=False)
            except FileNotFoundError:
                continue
            relative, mode = above + entry.name, status.st_mode
            if len(relative) > _MAX_PATH and len(os.fsencode(relative)) > MAX_PATH_BYTES:
                # No manifest has it, and what is below may be too long for the system to name.
                skip(Skipped(relative, f"expected a path of at most {MAX_PATH_BYTES} bytes"))
            elif stat.S_ISDIR(mode) and not _is_reparse_point(status):
                if enter(relative, entry.name) and _is_named(entry.name, f"{relative}/", skip):
                    waiting.append(relative)
            elif stat.S_ISREG(mode):
                if _is_named(entry.name, relative, skip):
                    yield Found(relative, entry.name, status)
            elif stat.S_ISLNK(mode):
                yield from _linked(root, relative, entry.name, skip)
            else:
                skip(Skipped(relative, "expected a file, found something else"))


def _is_named(name: str, relative: str, skip: Callable[[Skipped], None]) -> bool:
    problem = name_problem(name)
    if problem:
        skip(Skipped(relative, problem))
    return not problem


def name_problem(name: str) -> str:
    """Why a file of this name could not be made on every platform; ``""`` when it can."""
    if _PLAIN_NAME.fullmatch(name):
        return ""
    try:
        check_relative(name)
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


def _linked(
    root: str, relative: str, name: str, skip: Callable[[Skipped], None]
) -> Iterator[Found]:
    try:
        real, top = realpath(f"{root}/{relative}", strict=True), f"{realpath(root)}{os.sep}"
        status = os.stat(real)  # noqa: PTH116 - as above
    except OSError:  # leads nowhere, or in a circle
        skip(Skipped(relative, "a link that leads nowhere"))
        return
    if stat.S_ISDIR(status.st_mode):
        skip(Skipped(f"{relative}/", "a link, and links to folders are not followed"))
        return
    if not stat.S_ISREG(status.st_mode) or not _is_named(name, relative, skip):
        return
    if not real.startswith(top):
        skip(Skipped(relative, "a link that leads out of the folder"))
        return
    yield Found(relative, name, status, real[len(top) :].replace(os.sep, "/"))


def _listing(path: str) -> "list[os.DirEntry[str]]":
    try:
        with os.scandir(path) as entries:
            return list(entries)
    except (FileNotFoundError, NotADirectoryError):  # removed meanwhile
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
        raise LinkedFolderError(path)
    return stat.S_ISDIR(status.st_mode)


def _is_reparse_point(status: os.stat_result) -> bool:
    return bool(getattr(status, "st_file_attributes", 0) & _REPARSE_POINT)
