"""The start of an MCP server from the very bytes of its files that were compared.

(1) a program that is itself such a file is started by what its first line names
(2) Python gets the bytes in a sealed file: it imports the modules of the server's folder from there
    and from nowhere else
(3) another interpreter opens copies, in a folder of this run

A module (``python -m NAME``) and code (``python -c``) are run in the way of (2). What names no
file, or names it inside of a line for a shell, is compared and started as it stands.
"""

import os
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from lillux.program_files import find_on_path
from lillux.values import dataclass, field, replace
from ryeos.run.held import started_by
from ryeos.run.held_folder import COPIES, HeldFolder, new_place
from ryeos.run.model import HeldFiles, Invocation
from ryeos.run.process_call import with_copies
from ryeos.run.server_command import PYTHON_FLAG, NamedFile

MAX_FIRST_LINE = 256
_PYTHON = re.compile(r"(python|pypy|graalpy)[0-9.]*(\.exe)?")
# Options of Python that are one letter and take no value; the rest keeps (2) from being used.
_LETTERS = re.compile(r"-[bBdEIOPqsSuvx]+")


@dataclass(frozen=True, slots=True)
class ServerFiles:
    """The bytes of a server's files by path, which of them its command names, and the starter."""

    files: Mapping[str, bytes] = field(repr=False)
    named: Sequence[NamedFile]
    starter: bytes = field(repr=False)


def held_server(
    invocation: Invocation, held: ServerFiles, *, user_ai: Path, root: str
) -> Invocation:
    """The invocation with the files held. ``root`` is the project, or the space of the server."""
    files = held.files
    words, root = _without_first_line(invocation, files), os.path.realpath(root)
    more = len(words) - len(invocation.argv)
    places = {
        at: ("", path)
        for at, word in enumerate(words)
        if (path := os.path.normpath(os.path.join(invocation.cwd, word))) in files
    }
    for one in held.named:
        if one.at >= 0 and not one.module and str(one.path) in files:
            places[one.at + more] = (one.prefix, str(one.path))
    is_python = _PYTHON.fullmatch(os.path.basename(words[0]).lower()) is not None
    if held.starter and is_python:
        started = _python(replace(invocation, argv=words), held, places)
        if started is not None:
            return started
    if not places:
        return invocation
    folders = {os.path.dirname(path) for _, path in places.values()}
    own = {folder: os.path.realpath(folder) for folder in sorted(folders)}
    is_inside = all(f"{one}{os.sep}".startswith(root + os.sep) for one in own.values())
    copies = HeldFolder(
        path=new_place(user_ai),
        files=files,
        folders=own,
        is_guarded=True,
        root=root if is_inside else _packages_of(own, places.values()),
    )
    moved = list(words)
    for at, (prefix, path) in places.items():
        moved[at] = f"{prefix}{copies.place_of(path) or path}"
    return replace(invocation, argv=tuple(moved), folder=copies)


def _packages_of(own: Mapping[str, str], named: Iterable[tuple[str, str]]) -> str:
    """The folder whose other entries these files may import. ``own`` are their real folders."""
    from ryeos.run.node_places import packages_root

    tops = []
    for _, path in named:
        real = Path(own[os.path.dirname(path)], os.path.basename(path))
        tops.append(packages_root(real) or real.parent)
    return os.path.commonpath(tops)


def moved_server(invocation: Invocation) -> Invocation:
    """The invocation on the copies of its folder, which was made."""
    folder = invocation.folder
    if folder is None:
        return invocation
    moved = with_copies(invocation, folder)
    return replace(moved, env={name: moved.env[name] for name in moved.env if name != COPIES})


def _python(
    invocation: Invocation, held: ServerFiles, places: Mapping[int, tuple[str, str]]
) -> Invocation | None:
    """The start of Python from held bytes: (2); None for options that keep it from being used."""
    program, *words = invocation.argv
    at = 0
    while at < len(words) and _LETTERS.fullmatch(words[at]):
        at += 1
    letters = "".join(word[1:] for word in words[:at])
    if at + 1 in places:
        path = places[at + 1][1]
        start, rest, folder = held.files[path], words[at + 1 :], os.path.dirname(path)
    else:
        flag = PYTHON_FLAG.match(words[at]) if at < len(words) else None
        if flag is None:
            return None
        letters += flag[1]
        said = [words[at][flag.end() :], *words[at + 1 :]]
        said = said if said[0] else said[1:]
        module = next((one for one in held.named if one.module), None)
        if flag[2] == "m" and module is not None:
            start, folder = _MODULE.format(module.module).encode(), str(module.folder)
        elif flag[2] == "c" and held.named and said:
            start, folder = _CODE.format(said[0]).encode("utf-8", "surrogateescape"), ""
            folder = str(held.named[0].folder)
        else:
            return None
        path, rest = os.path.join(folder, f"rye -{flag[2]}"), said[1:]
    has_folder = not {"I", "P"} & set(letters) or at + 1 not in places
    given = HeldFiles(
        starter=held.starter,
        files={**held.files, path: start},
        modules_in=(folder,) if has_folder else (),
    )
    started = started_by(replace(invocation, argv=(program,)), given, path, *rest)
    return replace(started, argv=(program, f"-{letters}c", *started.argv[2:]))


_MODULE = """\
import runpy
runpy.run_module({!r}, run_name="__main__", alter_sys=True)
"""
_CODE = """\
import sys
sys.argv[0] = "-c"
exec(compile({!r}, "<string>", "exec"))
"""


def _without_first_line(invocation: Invocation, files: Mapping[str, bytes]) -> tuple[str, ...]:
    """The command, a script in place of its program replaced by what its first line names: (1)."""
    program, *words = invocation.argv
    data = files.get(os.path.normpath(os.path.join(invocation.cwd, program)))
    if data is None or not data.startswith(b"#!"):
        return invocation.argv
    line = data[2:MAX_FIRST_LINE].partition(b"\n")[0].decode("utf-8", "surrogateescape")
    named = line.split(None, 1)
    if len(named) > 1 and os.path.basename(named[0]) == "env":
        search_path = invocation.env.get("PATH", os.defpath)
        found = find_on_path(named[1].strip(), search_path, platform=sys.platform)
        named = [found] if found else named
    return (*(one.strip() for one in named), program, *words)
