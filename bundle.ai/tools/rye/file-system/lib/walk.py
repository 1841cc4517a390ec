"""The files below a folder, folder by folder, without following a link."""

import os

from confined import FOLDER, NO_FOLLOW, UNREADABLE, is_below
from ignored import rules_in

__version__ = "1.0.0"
__tool_type__ = "library"
__executor_id__ = None
__category__ = "rye/file-system/lib"
__tool_description__ = "Walks the files below a folder of the project"

MAX_DEPTH, MAX_ENTRIES = 100, 1_000_000


class Walk:
    """What to pass over: ``hidden`` names and ``ignored`` ones unless they are wanted.

    ``.git`` and private keys are passed over always. ``is_cut`` tells that there was too much.
    """

    def __init__(self, *, hidden: bool, ignored: bool) -> None:
        self.hidden, self.ignored = hidden, ignored
        self.is_cut = False
        self.entries = 0

    def folders(self, place: object) -> object:
        """``(relative path, descriptor or path, folders, files)`` of each folder below a place.

        Paths are relative to the place and end with a slash, the place's own is empty; the two
        lists hold entries of `os.scandir`, sorted by name. A descriptor is good for one turn.
        """
        above = [] if self.ignored else rules_above(place)
        top = place.open_folder()
        yield from self._below(top, "", list(place.parts), above, 0)

    def _below(self, folder: object, path: str, parts: list, rules: list, depth: int) -> object:
        """One folder and all below it; ``rules`` are pairs of names above and what they say."""
        try:
            found = None if self.ignored else rules_in(folder)
            if found:
                rules = [*rules, (len("/".join(parts)) + bool(parts), found)]
            folders, files = self._kept(folder, parts, rules)
            yield path, folder, folders, files
            if depth >= MAX_DEPTH or self.entries > MAX_ENTRIES:
                self.is_cut = self.is_cut or bool(folders)
                return
            for entry in folders:
                inner = opened(folder, entry)
                if inner is not None:
                    name = entry.name
                    yield from self._below(
                        inner, f"{path}{name}/", [*parts, name], rules, depth + 1
                    )
        finally:
            if isinstance(folder, int):
                os.close(folder)

    def _kept(self, folder: object, parts: list, rules: list) -> tuple:
        """The folders and the other entries that are not passed over."""
        folders, files = [], []
        whole = "/".join([*parts, ""]) if parts else ""
        is_near_keys = ".ai" in whole.casefold()
        with os.scandir(folder) as entries:
            for entry in entries:
                name = entry.name
                if name[0] == "." and (not self.hidden or name.casefold() == ".git"):
                    continue
                is_folder = entry.is_dir(follow_symlinks=False)
                if rules and is_ignored(whole + name, name, rules, is_folder=is_folder):
                    continue
                if is_near_keys and is_below([*parts, name], UNREADABLE):
                    continue
                (folders if is_folder else files).append(entry)
        self.entries += len(folders) + len(files)
        folders.sort(key=by_name)
        files.sort(key=by_name)
        return folders, files


def by_name(entry: object) -> str:
    """What entries are sorted by."""
    return entry.name


def is_ignored(path: str, name: str, rules: list, *, is_folder: bool) -> bool:
    """What the nearest file of rules says that says something."""
    for start, found in reversed(rules):
        verdict = found.verdict(path[start:], name, is_folder=is_folder)
        if verdict is not None:
            return verdict
    return False


def opened(folder: object, entry: object) -> object:
    """The folder of an entry; None if it is gone, a link by now, or not ours to read."""
    if not isinstance(folder, int):
        real = os.path.realpath(entry.path)  # a junction of Windows is no link by its name
        return entry.path if os.path.normcase(real) == os.path.normcase(entry.path) else None
    try:
        return os.open(entry.name, FOLDER | NO_FOLLOW, dir_fd=folder)
    except OSError:
        return None


def rules_above(place: object) -> list:
    """The rules of the folders from the allowed one down to above the place."""
    found, path = [], place.root
    for at, name in enumerate(place.parts):
        rules = rules_in(path)
        if rules:
            found.append((sum(len(part) + 1 for part in place.parts[:at]), rules))
        path = os.path.join(path, name)
    return found


def printable(path: str) -> str:
    """A path as JSON can hold it; bytes that are no UTF-8 as Python writes them."""
    if path.isascii():
        return path
    return os.fsencode(path).decode("utf-8", "backslashreplace")
