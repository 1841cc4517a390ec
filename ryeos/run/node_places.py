"""Folders where a file of Node.js takes its packages from, by its path. Runs nothing of it.

A file of its own: an import proposes rights by it, and a start of a server holds folders by it.
"""

from pathlib import Path

_MODULES = "node_modules"
_MARKS = ("package.json", _MODULES)
_SUFFIXES = (".js", ".mjs", ".cjs", ".ts")
_MAX_ABOVE = 8


def packages_root(file: Path) -> Path | None:
    """The folder that a file of Node.js may import from, None where that is its own folder.

    The outermost ``node_modules`` that it lies in; for any other script the folder of its package.
    """
    folders = list(file.parents)
    inside = [folder for folder in folders if folder.name == _MODULES]
    if inside:
        return inside[-1]
    if file.suffix.lower() not in _SUFFIXES:
        return None
    for folder in folders[:_MAX_ABOVE]:
        if folder == folder.parent or folder == Path("~").expanduser():
            return None
        if any((folder / mark).exists() for mark in _MARKS):
            return folder if folder != file.parent else None
    return None
