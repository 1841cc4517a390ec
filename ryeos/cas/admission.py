"""Which paths a manifest may have at all, whoever sends it: asked on both sides of every exchange.

What never travels is left out by who sends it (`ryeos.cas.tree`). Who receives a manifest asks the
same again: else a hostile side would have files written that decide what runs. Pure. Rules and
reasons: ``docs/cas.md``, What is taken in.
"""

import re
from collections.abc import Iterable
from functools import lru_cache

from ryeos.cas.item_files import kind_of
from ryeos.cas.objects import SourceManifest
from ryeos.cas.private_files import stays_by_path
from ryeos.cas.rules import ManifestRules, NameRules, PathPatterns, rules_of
from ryeos.cas.safe_paths import MAX_PATH_BYTES, fold
from ryeos.cas.tree_walk import Skipped
from ryeos.errors import RyeError
from ryeos.items import AI_DIRECTORY

__all__ = [
    "InadmissibleError",
    "check_admissible",
    "check_incoming",
    "problem_of",
    "why_never",
    "why_never_below",
]

MAX_FOLDERS = 100
"""More are no project but an accident, and some programs do not find out of them."""

_NAMED = 5
_REPOSITORY = ".git"
_NEVER_FOLDERS = frozenset({_REPOSITORY, ".venv", ".virtualenv", "__pycache__"})
_PROGRAM_FOLDERS = ("venv/bin/", "venv/scripts/", "node_modules/.bin/")
_PACKAGES = "node_modules"
_NEVER_NAMES = frozenset({".envrc"})  # run by shells that enter the folder
_FLOOR_NAMES = NameRules(rules_of([]))
# What Windows calls files whose names are no 8.3 names, where that is on.
_SHORT = re.compile(r"(ai|git|venv|virtua|__pyca|node_m|env|envrc|privat|box_ke)~[0-9](\.[^/]*)?")
_LONG = {
    "ai": AI_DIRECTORY,
    "git": _REPOSITORY,
    "venv": ".venv",
    "virtua": ".virtualenv",
    "__pyca": "__pycache__",
    "node_m": _PACKAGES,
    "env": ".env",
    "envrc": ".envrc",
    "privat": "private_key.pem",
    "box_ke": "box_key.pem",
}


class InadmissibleError(RyeError):
    """A manifest has paths that never travel. Nothing of it was written.

    ``refused`` has all of them, each with the reason.
    """

    code, exit_status = "INADMISSIBLE_PATH", 7

    def __init__(self, refused: Iterable[Skipped]) -> None:
        self.refused = tuple(refused)
        named = "; ".join(f"{one.path[:200]!r}: {one.problem}" for one in self.refused[:_NAMED])
        more = len(self.refused) - _NAMED
        super().__init__(
            f"a manifest has paths that are not taken in: {named}"
            f"{f'; and {more} more' if more > 0 else ''}",
            hint="do not trust who sent it before you know why; what your own rules keep out is in"
            " .ai/config/cas/manifest.yaml",
        )


def check_admissible(manifest: SourceManifest) -> None:
    """Refuse a manifest with a path that no honest side sends. Raises InadmissibleError."""
    asked = [(path, problem_of(path, is_item=True)) for path in manifest.items]
    asked += [(path, problem_of(path, is_item=False)) for path in manifest.files]
    _refuse(Skipped(path, problem) for path, problem in asked if problem)


def check_incoming(paths: Iterable[str], rules: ManifestRules) -> None:
    """Refuse paths that are about to be written and that the project's own rules keep at home.

    ``rules`` are those from before anything was written. Raises InadmissibleError.
    """
    names = NameRules(rules)
    exclude = PathPatterns(rules.exclude)
    folders = PathPatterns(fold(entry) for entry in rules.exclude if entry.endswith("/"))
    skipped = PathPatterns(f"{AI_DIRECTORY}/{fold(name)}/" for name in rules.skip_dirs)

    def is_kept_out(path: str) -> bool:
        folded, name = fold(path), path.rpartition("/")[2]
        if names.forbids(name) or names.forbids(fold(name)) or skipped.match(folded):
            return True
        if kind_of(path):
            return False  # items travel whatever is excluded
        return exclude.match(path) or folders.match(folded)

    problem = "the rules of this project keep such files at home"
    _refuse(Skipped(path, problem) for path in paths if is_kept_out(path))


def problem_of(path: str, *, is_item: bool) -> str:
    """Why no manifest has this path, as an item or as another file; ``""`` where one may."""
    if path.count("/") > MAX_FOLDERS:
        return f"expected at most {MAX_FOLDERS} folders above a file"
    if is_item and kind_of(path) is None:
        return "expected an item below .ai/{directives,tools,knowledge,config}/"
    folded = _folded(path)
    if not is_item and folded.partition("/")[0] == AI_DIRECTORY:
        return "below .ai/ there are only items"
    return _why_never(path, folded, is_item=is_item)


def why_never(path: str, *, is_item: bool) -> str:
    """Why a file never travels, by its path alone; ``""`` where it may."""
    return _why_never(path, _folded(path), is_item=is_item)


def why_never_below(folder: str, *, is_item: bool) -> str:
    """Why no file below a folder travels; ``""`` where some may."""
    return _why_never_below.__wrapped__(_folded(folder), is_item)


def _why_never(path: str, folded: str, *, is_item: bool) -> str:
    """``folded`` is what the path may come to on a disk; the rules of files hold for both."""
    folder = folded.rpartition("/")[0]
    # (What is longer is no path anywhere, and nobody's to be kept in memory.)
    below = _why_never_below if len(folder) <= MAX_PATH_BYTES else _why_never_below.__wrapped__
    problem = (folder and below(folder, is_item)) or _why_no_file(folded)
    return problem if problem or path == folded else _why_no_file(path)


def _why_no_file(path: str) -> str:
    name = path.rpartition("/")[2]
    if name == _REPOSITORY:  # a file of this name leads to a repository
        return f"{_REPOSITORY} never travels"
    if name in _NEVER_NAMES or _FLOOR_NAMES.forbids(name):
        return "files of this name never travel"
    if stays_by_path(path):
        return "private keys and pins of nodes never travel"
    return ""


@lru_cache(maxsize=1024)
def _why_never_below(folded: str, is_item: bool) -> str:  # noqa: FBT001 - one key of the cache
    """Asked for each file, and most files of a folder come one after the other."""
    segments = folded.split("/")
    found = _NEVER_FOLDERS.intersection(segments)
    if not is_item and _PACKAGES in segments:
        found |= {_PACKAGES}
    if found:
        return f"what is in {min(found)} never travels"
    for programs in _PROGRAM_FOLDERS:
        if f"/{programs}" in f"/{folded}/":
            return f"programs of {programs} never travel"
    return ""


def _folded(path: str) -> str:
    """What a path may come to on a disk: letter case, Unicode form, short names of Windows."""
    folded = fold(path)
    if "~" not in folded:
        return folded
    return "/".join(_long(segment) for segment in folded.split("/"))


def _long(segment: str) -> str:
    found = _SHORT.fullmatch(segment)
    return _LONG[found[1]] if found else segment


def _refuse(refused: Iterable[Skipped]) -> None:
    found = tuple(refused)
    if found:
        raise InadmissibleError(found)
