"""The start of an MCP server from the very bytes of its files that were compared.

(1) a program that is itself such a file is started by what its first line names
(2) Python gets the bytes in a sealed file: it imports the modules of the server's folder from there
    and from nowhere else
(3) another interpreter opens copies, in a folder of this run

A command that names none of the files, like ``python -m NAME``, is started as it stands.
"""

import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path

from lillux.interpreter_searches import find_on_path
from lillux.values import replace
from ryeos.run.command import with_copies
from ryeos.run.held import started_by
from ryeos.run.held_folder import COPIES, HeldFolder, new_place
from ryeos.run.model import HeldFiles, Invocation

MAX_FIRST_LINE = 256
_PYTHON = re.compile(r"(python|pypy|graalpy)[0-9.]*(\.exe)?")
# Options of Python that are one letter and take no value; the rest keeps (2) from being used.
_LETTERS = re.compile(r"-[bBdEIOPqsSuvx]+")


def held_server(
    invocation: Invocation, files: Mapping[str, bytes], starter: bytes, *, user_ai: Path, root: str
) -> Invocation:
    """The invocation with the files held. ``root`` is the project, or the space of the server."""
    words, root = _without_first_line(invocation, files), os.path.realpath(root)
    paths = [os.path.normpath(os.path.join(invocation.cwd, word)) for word in words]
    at = next((at for at, path in enumerate(paths) if path in files), 0)
    if not at:
        return invocation
    words = (*words[:at], paths[at], *words[at + 1 :])
    is_python = _PYTHON.fullmatch(os.path.basename(words[0]).lower()) is not None
    if starter and is_python and all(map(_LETTERS.fullmatch, words[1:at])):
        return _python(replace(invocation, argv=words), files, starter, at)
    folder = os.path.dirname(paths[at])
    own = os.path.realpath(folder)
    copies = HeldFolder(
        path=new_place(user_ai),
        files=files,
        folders={folder: own},
        is_guarded=True,
        root=root
        if own.startswith(root + os.sep)
        else _packages_of(os.path.join(own, os.path.basename(paths[at]))),
    )
    return replace(invocation, argv=words, folder=copies)


def _packages_of(folder: str, path: str) -> str:
    """The folder whose other entries a server's file may import; ``folder`` is its real one."""
    from ryeos.run.node_places import packages_root

    return str(packages_root(Path(folder, os.path.basename(path))) or folder)


def moved_server(invocation: Invocation) -> Invocation:
    """The invocation on the copies of its folder, which was made."""
    folder = invocation.folder
    if folder is None:
        return invocation
    moved = with_copies(invocation, folder)
    return replace(moved, env={name: moved.env[name] for name in moved.env if name != COPIES})


def _python(
    invocation: Invocation, files: Mapping[str, bytes], starter: bytes, at: int
) -> Invocation:
    program, *words = invocation.argv
    letters = "".join(word[1:] for word in words[: at - 1])
    has_folder = not {"I", "P"} & set(letters)
    folder = os.path.dirname(words[at - 1])
    held = HeldFiles(starter=starter, files=files, modules_in=(folder,) if has_folder else ())
    started = started_by(replace(invocation, argv=(program,)), held, *words[at - 1 :])
    return replace(started, argv=(program, f"-{letters}c", *started.argv[2:]))


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
