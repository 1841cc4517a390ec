"""Paths that ``.gitignore`` files leave out: https://git-scm.com/docs/gitignore. Pure.

Tools of the bundle for files run without this package and have the same rules in a module of their
own (``file-system/lib/ignored.py``); a test holds their globs against each other, and these rules
against git.
"""

import re
from collections.abc import Iterable, Iterator

from lillux.patterns import pattern

NAME = ".gitignore"
MAX_BYTES = 128 * 1024
"""Of one file."""
_BRACKETS = pattern(r"([!^]?+)(\]?+(?:\\.|[^\]\\])*)\]", re.DOTALL)
_BLANKS = pattern(r"(?<!\\) +$")
_OPEN_ESCAPE = pattern(r"(?<!\\)(\\\\)*\\$")
_MEMBERS = pattern(r"\\?(.)(?:(-)(?:\\?(.))?)?", re.DOTALL)


class IgnoredPaths:
    """True if a path is left out by some ``.gitignore`` files, each with the folder it lies in.

    What lies in a folder that is left out is left out too, whatever deeper files say.
    """

    def __init__(self, files: Iterable[tuple[str, str]]) -> None:
        self._rules = {folder: tuple(_rules(text)) for folder, text in files}
        self._folders: dict[str, bool] = {}

    def match(self, path: str) -> bool:
        """True if a relative path is left out. Of a folder the path ends in ``/``."""
        if not self._rules:
            return False
        folder, _, name = path.removesuffix("/").rpartition("/")
        if folder and self._leaves_out(folder):
            return True
        if path.endswith("/"):
            return self._leaves_out(path[:-1])
        return bool(name) and self._verdict(path, is_folder=False)

    def _leaves_out(self, folder: str) -> bool:
        known = self._folders.get(folder)
        if known is None:
            above = folder.rpartition("/")[0]
            known = bool(above) and self._leaves_out(above)
            known = known or self._verdict(folder, is_folder=True)
            self._folders[folder] = known
        return known

    def _verdict(self, path: str, *, is_folder: bool) -> bool:
        for folder in _folders_above(path):
            below = path[len(folder) + 1 :] if folder else path
            for rule in self._rules.get(folder, ()):
                if (is_folder or not rule.folders_only) and rule.matches(below):
                    return not rule.is_negated
        return False


def _folders_above(path: str) -> Iterator[str]:
    """The folders that a path lies in, the deepest first, ``""`` for the outermost."""
    while path:
        path = path.rpartition("/")[0]
        yield path


class _Rule:
    """One line."""

    def __init__(self, glob: str, *, is_negated: bool, folders_only: bool) -> None:
        self.is_negated, self.folders_only = is_negated, folders_only
        start = "(?:.*/)?" if "/" not in glob else ""
        self._expression = re.compile(start + _translated(glob.removeprefix("/")), re.DOTALL)

    def matches(self, path: str) -> bool:
        """True if the rule is about a path."""
        return bool(self._expression.fullmatch(path))


def _rules(text: str) -> Iterator[_Rule]:
    """The rules of a file, the last one first: it counts."""
    for line in reversed(text.removeprefix("\ufeff").split("\n")):
        line = _BLANKS.sub("", line.rstrip("\r"))  # noqa: PLW2901
        is_negated = line.startswith("!")
        glob = line[is_negated:]
        folders_only = glob.endswith("/")
        glob = glob.removesuffix("/")
        if glob and not line.startswith("#") and not _OPEN_ESCAPE.search(glob):
            yield _Rule(glob, is_negated=is_negated, folders_only=folders_only)


def _translated(glob: str) -> str:
    """A glob as a regular expression for whole relative paths; a star never takes a slash.

    Between two stars the first place that fits is as good as any later one: atomic groups there
    keep a glob of many stars from taking exponential time.
    """
    runs: list[list[str]] = [[]]
    for segment in _segments(glob):
        if len(segment) > 1 and not segment.strip("*"):
            runs.append([])
        else:
            runs[-1].append(_segment_source(segment) + "/")
    first, inner, last = "".join(runs[0]), runs[1:-1], "".join(runs[-1])
    if len(runs) == 1:
        return first.removesuffix("/")
    middle = "".join(f"(?>(?:[^/]+/)*?{''.join(run)})" for run in inner if run)
    return first + middle + (f"(?:[^/]+/)*{last}".removesuffix("/") if last else ".+")


def _segments(glob: str) -> list[str]:
    """The names of a glob. A slash in brackets ends none, and matches nothing, as for git."""
    found, at = [""], 0
    while at < len(glob):
        bracket = _BRACKETS.match(glob, at + 1) if glob[at] == "[" else None
        end = bracket.end() if bracket else at + 1 + (glob[at] == "\\")
        if glob[at:end] in ("/", "\\/"):
            found.append("")
        else:
            found[-1] += glob[at:end]
        at = end
    return found


def _segment_source(segment: str) -> str:
    """One name of a glob as a regular expression."""
    parts, at = [""], 0
    while at < len(segment):
        mark = segment[at]
        at += 1
        if mark == "*":
            parts += [""] if parts[-1] or len(parts) == 1 else []
        elif mark == "?":
            parts[-1] += "[^/]"
        elif mark == "[":
            found = _BRACKETS.match(segment, at)
            if not found:
                return "(?!)"  # as for git
            members = _members_source(_MEMBERS.findall(found[2]))
            parts[-1] += (
                f"[^/{members}]" if found[1] else f"(?!/)[{members}]" if members else "(?!)"
            )
            at = found.end()
        elif mark == "\\" and at < len(segment):
            parts[-1] += re.escape(segment[at])
            at += 1
        else:
            parts[-1] += re.escape(mark)
    if len(parts) == 1:
        return parts[0]
    inner = "".join(f"(?>[^/]*?{part})" for part in parts[1:-1] if part)
    return f"{parts[0]}{inner}[^/]*{parts[-1]}"


def _members_source(members: Iterable[tuple[str, str, str]]) -> str:
    """Content of brackets, ``(first, dash, last)`` of each, for a regular expression."""
    out: list[str] = []
    for first, dash, last in members:
        out.append(re.escape(first))
        if dash and not last:
            out.append(r"\-")
        elif dash and first <= last:
            out.append(f"-{re.escape(last)}")
    return "".join(out)
