"""Searches of interpreters that know by themselves which folders to look into.

Loaded only when a block has such a type: see `lillux.interpreters.SEARCHES`.
"""

from pathlib import Path

from lillux.interpreter_searches import (
    InterpreterBlock,
    Search,
    SearchEnvironment,
    search_folders,
    search_names,
    spaces_of,
)
from lillux.program_files import unique
from lillux.values import replace

_NODE = "node"
_NODE_FOLDERS = ("node_modules/.bin",)
_PROGRAM_FOLDERS = (".ai/bin", ".venv/bin", ".venv/Scripts", "node_modules/.bin", "bin")


def search_node_modules(block: InterpreterBlock, around: SearchEnvironment) -> Search:
    """``binary`` in the ``search_paths`` of the project."""
    folders = block.texts("search_paths") or _NODE_FOLDERS
    return _search_space("project", (block.name("binary", _NODE),), folders, around)


def search_venv_node(block: InterpreterBlock, around: SearchEnvironment) -> Search:
    """``binary`` in the ``search_paths`` of each space in ``search``; ``system`` is PATH."""
    folders = block.texts("search_paths") or _NODE_FOLDERS
    spaces = spaces_of(block, default=("project", "system"))
    return _search_spaces(spaces, (block.name("binary", _NODE),), folders, around)


def search_binary(block: InterpreterBlock, around: SearchEnvironment) -> Search:
    """``binary`` in the usual program folders of each space in ``search``."""
    name = block.name("binary", Path(block.fallback).name)
    spaces = spaces_of(block, default=("project", "user", "system"))
    return _search_spaces(spaces, (name,), _PROGRAM_FOLDERS, around)


def _search_spaces(
    spaces: tuple[str, ...],
    names: tuple[str, ...],
    folders: tuple[str, ...],
    around: SearchEnvironment,
) -> Search:
    search = Search(found=None, names=names)
    for space in spaces:
        one = _search_space(space, names, folders, around)
        if one.found:
            return one
        search = replace(search, directories=unique((*search.directories, *one.directories)))
    return search


def _search_space(
    space: str, names: tuple[str, ...], folders: tuple[str, ...], around: SearchEnvironment
) -> Search:
    if space == "system":
        return search_names(names, around)
    base = around.project_path if space == "project" else around.user_base
    places = tuple(str(base / folder) for folder in folders) if base else ()
    return search_folders(places, names, around)
