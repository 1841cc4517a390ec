"""``lillux-proc`` and ``lillux-watch`` as files, for the PATH of tools.

At first they are scripts that start this file. Where compiled ones are packed for this machine, the
first that is used lays both out and becomes it; from then on tools find these: unpacking them takes
longer than everything else of a first start. They lie in a private folder named by their content.
What is written is checked; later starts look at the folder's rights and the size of each file,
which takes some system calls and reads nothing. Page: ``docs/building.md``.
"""

from __future__ import annotations

import os
import stat
import sys

from zipboot.places import (
    cache_folder,
    digest_of,
    make_private,
    note_use,
    temporary_folder,
    write_file,
)

TYPE_CHECKING = False  # `typing` would cost more than everything else here
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from zipboot.parts import Part

NAMES = ("lillux-proc", "lillux-watch")
_MODE = 0o700


def folder(archive: str, packed: dict[str, Any] | None) -> str | None:
    """The folder that has both; None where nothing can be written that could be run.

    ``packed`` is what the index says of this machine: the name of the folder, offset and size of
    the compressed programs in the part, and of each its file name, digest and size.
    """
    kept = _kept()
    if kept is None:
        return _temporary(archive)
    target = os.path.join(kept, packed["name"]) if packed else ""
    if packed and _is_whole(target, _sizes(packed)):
        note_use(target, is_new=False)
        return target
    try:
        return _scripts(kept, archive)
    except OSError:
        return _temporary(archive)


def compiled(part: Part, packed: dict[str, Any], name: str) -> str | None:
    """The path of a compiled program, laid out now if it was not; None where that cannot be."""
    kept = _kept()
    if kept is None:
        return None
    target = os.path.join(kept, packed["name"])
    try:
        if not _is_whole(target, _sizes(packed)):
            make_private(target)
            for file_name, data in contents(part, packed):
                write_file(os.path.join(target, file_name), data, _MODE, aside=kept)
            note_use(target, is_new=True)
    except (OSError, ImportError):  # no room, no LZMA in this Python
        return None
    return os.path.join(target, name)


def _kept() -> str | None:
    """The cache's folder for programs, if what lies there can be run."""
    try:
        kept = cache_folder("programs")
    except OSError:
        return None  # read-only, full, not ours alone
    return kept if _can_run_from(kept) else None


def _sizes(packed: dict[str, Any]) -> list[tuple[str, int]]:
    return [(name, size) for name, _, size in packed["files"]]


def write_scripts(kept: str, command: tuple[str, ...], platform: str = sys.platform) -> str:
    """Scripts for both in a folder below ``kept``, each ``command`` with its name behind it.

    Raises OSError.
    """
    scripts = list(_script_files(command, platform))
    name = digest_of(b"\0".join(data for _, data in scripts))
    files = [(file_name, len(data)) for file_name, data in scripts]
    target = os.path.join(kept, name)
    is_new = not _is_whole(target, files)
    if is_new:
        make_private(target)
        for file_name, data in scripts:
            write_file(os.path.join(target, file_name), data, _MODE, aside=kept)
    note_use(target, is_new=is_new)
    return target


def contents(part: Part, packed: dict[str, Any]) -> Iterator[tuple[str, bytes]]:
    """File names and contents of the packed programs. Raises OSError, ImportError."""
    import lzma

    try:
        whole = lzma.decompress(part.read(packed["offset"], packed["size"]))
    except lzma.LZMAError as error:
        raise OSError(f"the programs are damaged in the archive: {error}") from None
    position = 0
    for file_name, digest, size in packed["files"]:
        data = whole[position : position + size]
        position += size
        if digest_of(data) != digest:
            raise OSError(f"{file_name} is damaged in the archive")
        yield file_name, data


def _scripts(kept: str, archive: str) -> str:
    return write_scripts(kept, (sys.executable, "-s", "-E", os.path.abspath(archive)))


def _temporary(archive: str) -> str | None:
    try:
        folder = temporary_folder()
        return _scripts(folder, archive) if _can_run_from(folder) else None
    except OSError:
        return None


def _script_files(command: tuple[str, ...], platform: str) -> Iterator[tuple[str, bytes]]:
    for name in NAMES:
        if platform == "win32":
            words = " ".join(f'"{word}"' for word in command).replace("%", "%%")
            yield f"{name}.cmd", os.fsencode(f"@echo off\r\n{words} {name} %*\r\n")
        else:
            words = " ".join("'" + word.replace("'", "'\\''") + "'" for word in command)
            yield name, os.fsencode(f'#!/bin/sh\nexec {words} {name} "$@"\n')


def _is_whole(target: str, files: list[tuple[str, int]]) -> bool:
    """True if the folder is there, ours alone, and has these files with these sizes."""
    try:
        make_private(target)
        return all(_is_program(os.path.join(target, name), size) for name, size in files)
    except OSError:
        return False


def _is_program(path: str, size: int) -> bool:
    status = os.lstat(path)
    is_ours = not hasattr(os, "geteuid") or status.st_uid == os.geteuid()
    is_closed = sys.platform == "win32" or stat.S_IMODE(status.st_mode) == _MODE
    return stat.S_ISREG(status.st_mode) and status.st_size == size and is_ours and is_closed


def _can_run_from(folder: str) -> bool:
    """True if the file system lets files be run."""
    if not hasattr(os, "statvfs"):
        return True
    return not os.statvfs(folder).f_flag & getattr(os, "ST_NOEXEC", 0)
