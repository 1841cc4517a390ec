"""Admission of paths to a manifest, from any sender, on both sides of every exchange.

What never travels is left out by the sender (`ryeos.sync.tree`). The receiver of a manifest asks
the same again: else a hostile side would have files written that decide what runs. Pure. Rules
and reasons: ``docs/store.md``, Admission.
"""

import re
import shlex
from collections.abc import Container, Iterable, Sequence
from functools import lru_cache

from lillux.patterns import pattern
from ryeos.items.errors import RyeError
from ryeos.items.refs import AI_DIRECTORY, PRIVATE_FOLDERS
from ryeos.sync.item_files import kind_of
from ryeos.sync.objects import SourceManifest
from ryeos.sync.paths import MAX_PATH_BYTES, REPOSITORY, fold
from ryeos.sync.rules import ManifestRules, NameRules, PathPatterns, rules_of
from ryeos.sync.tree_walk import SkippedFile

_PRIVATE = tuple(f"{AI_DIRECTORY}/{folder}/" for folder in PRIVATE_FOLDERS)
_PUBLIC = frozenset(f"{_PRIVATE[0]}{name}" for name in ("public_key.pem", "box_pub.pem"))
_TRUSTED = ".ai/config/keys/trusted/"
_PINS = ".ai/config/remotes/pins"
_CONFIG = ".ai/config/"
_PRIVATE_MARK = b"PRIVATE KEY-----"
_OF_A_REMOTE = pattern(rb"""^[ \t]*owner[ \t]*=[ \t]*["']remote:""", re.MULTILINE)


def is_private_path(path: str) -> bool:
    """True if a file never travels because of its path: private keys, pins of nodes.

    In a project too, which may be the folder of a user space at the same time.
    """
    folded = path.casefold()  # a file system that does not tell case apart has one file for both
    if not folded.startswith(_CONFIG):
        return False
    if folded.startswith(_PRIVATE):
        return path not in _PUBLIC
    return folded.startswith((f"{_PINS}/", f"{_PINS}."))


def why_it_stays(path: str, data: bytes) -> str:
    """Why a file of a user space stays here for what it holds; ``""`` when it may travel."""
    folded = path.casefold()
    if folded.startswith(_CONFIG) and _PRIVATE_MARK in data:
        return "holds a private key"
    if folded.startswith(_TRUSTED) and _OF_A_REMOTE.search(data):
        return "the pinned key of a node, which is no key for items"
    return ""


MAX_FOLDERS = 100
"""More are no project but an accident, and some programs do not find out of them."""

_NAMED = 5
_ORDERS = frozenset({"makefile", "gnumakefile", "justfile"})
_NEVER_FOLDERS = frozenset({REPOSITORY, ".venv", ".virtualenv", "__pycache__"})
_PROGRAM_FOLDERS = ("venv/bin/", "venv/scripts/", "node_modules/.bin/")
_PACKAGES = "node_modules"
_NEVER_NAMES = frozenset({".envrc"})  # run by shells that enter the folder
_FLOOR_NAMES = NameRules(rules_of([]))
# What Windows calls files whose names are no 8.3 names, where that is on.
_SHORT = pattern(r"(ai|git|venv|virtua|__pyca|node_m|env|envrc|privat|box_ke)~[0-9](\.[^/]*)?")
_LONG = {
    "ai": AI_DIRECTORY,
    "git": REPOSITORY,
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

    code = "INADMISSIBLE_PATH"

    def __init__(self, refused: Iterable[SkippedFile]) -> None:
        self.refused = tuple(refused)
        named = "; ".join(f"{one.path[:200]!r}: {one.problem}" for one in self.refused[:_NAMED])
        more = len(self.refused) - _NAMED
        super().__init__(
            f"a manifest has paths that are not taken in: {named}"
            f"{f'; and {more} more' if more > 0 else ''}",
            hint="do not trust who sent it before you know why; what your own rules keep out is in"
            " .ai/config/cas/manifest.yaml",
        )


def require_admissible(manifest: SourceManifest) -> None:
    """Refuse a manifest with a path that no correct sender sends. Raises InadmissibleError."""
    judged = [(path, problem_of(path, is_item=True)) for path in manifest.items]
    judged += [(path, problem_of(path, is_item=False)) for path in manifest.files]
    _refuse(SkippedFile(path, problem) for path, problem in judged if problem)


def _control_path_error(paths: Sequence[str]) -> RyeError:
    """New files that other programs take orders from: a person has to want each of them."""
    named = ", ".join(repr(path[:200]) for path in paths[:_NAMED])
    more = len(paths) - _NAMED
    return RyeError(
        f"new files that other programs take orders from: {named}"
        f"{f', and {more} more' if more > 0 else ''}; nothing was written",
        code="APPROVAL_REQUIRED",
        hint=f"if you want them: rye remote pull {_accept_flags(paths[:_NAMED])}",
    )


def _accept_flags(paths: Sequence[str]) -> str:
    return " ".join(f"--accept {shlex.quote(path)}" for path in paths)


def is_control_path(path: str) -> bool:
    """True if programs do what a file of this name says: dotfiles, Makefiles and similar."""
    folded = fold(path)
    return folded.startswith(".") or "/." in folded or folded.rpartition("/")[2] in _ORDERS


def require_incoming_allowed(
    paths: Iterable[str],
    rules: ManifestRules,
    *,
    present: Container[str] = (),
    accepted: Iterable[str] = (),
) -> None:
    """Refuse paths that are about to be written and that the project's own rules do not let travel.

    ``rules`` are those from before anything was written, ``present`` what is here already, and
    ``accepted`` the patterns of what the user wants although programs take orders from it. Raises
    InadmissibleError, RyeError `APPROVAL_REQUIRED`.
    """
    paths = tuple(paths)
    names = NameRules(rules)
    include, exclude = rules.file_rules()
    folders = PathPatterns(fold(entry) for entry in rules.exclude if entry.endswith("/"))
    skipped = PathPatterns(f"{AI_DIRECTORY}/{fold(name)}/" for name in rules.skip_dirs)

    def is_kept_out(path: str) -> bool:
        folded, name = fold(path), path.rpartition("/")[2]
        other = fold(name)
        if names.forbids(name) or (other != name and names.forbids(other)):
            return True
        if skipped.match(folded):
            return True
        if kind_of(path):
            return False  # items travel whatever is excluded
        is_sent = include.match(path)  # what would not be sent does not arrive either
        return not is_sent or exclude.match(path) or folders.match(folded)

    problem = "the rules of this project keep such files at home"
    _refuse(SkippedFile(path, problem) for path in paths if is_kept_out(path))
    wanted = PathPatterns(accepted)
    orders = [
        path
        for path in paths
        if not kind_of(path) and is_control_path(path) and path not in present
        if not wanted.match(path)
    ]
    if orders:
        raise _control_path_error(orders)


def problem_of(path: str, *, is_item: bool) -> str:
    """Why no manifest has this path, as an item or as another file; ``""`` where one may."""
    if path.count("/") > MAX_FOLDERS:
        return f"expected at most {MAX_FOLDERS} folders above a file"
    if is_item and kind_of(path) is None:
        return "expected an item below .ai/{directives,tools,knowledge,config}/"
    folded = _fold_short_names(path)
    if not is_item and folded.partition("/")[0] == AI_DIRECTORY:
        return "below .ai/ there are only items"
    return _why_never(path, folded, is_item=is_item)


def why_never(path: str, *, is_item: bool) -> str:
    """Why a file never travels, by its path alone; ``""`` where it may."""
    return _why_never(path, _fold_short_names(path), is_item=is_item)


def why_never_below(folder: str, *, is_item: bool) -> str:
    """Why no file below a folder travels; ``""`` where some may."""
    return _why_never_below.__wrapped__(_fold_short_names(folder), is_item)


def _why_never(path: str, folded: str, *, is_item: bool) -> str:
    """``folded`` is what the path may come to on a disk; the rules of files hold for both."""
    folder = folded.rpartition("/")[0]
    # (What is longer is no path on any system, and is not kept in memory.)
    below = _why_never_below if len(folder) <= MAX_PATH_BYTES else _why_never_below.__wrapped__
    problem = (folder and below(folder, is_item)) or _why_no_file(folded)
    return problem if problem or path == folded else _why_no_file(path)


def _why_no_file(path: str) -> str:
    name = path.rpartition("/")[2]
    if name == REPOSITORY:  # a file of this name leads to a repository
        return f"{REPOSITORY} never travels"
    if name in _NEVER_NAMES or _FLOOR_NAMES.forbids(name):
        return "files of this name never travel"
    if is_private_path(path):
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


def _fold_short_names(path: str) -> str:
    """Forms that a path may take on a disk: letter case, Unicode form, short names of Windows."""
    folded = fold(path)
    if "~" not in folded:
        return folded
    return "/".join(_long(segment) for segment in folded.split("/"))


def _long(segment: str) -> str:
    found = _SHORT.fullmatch(segment)
    return _LONG[found[1]] if found else segment


def _refuse(refused: Iterable[SkippedFile]) -> None:
    found = tuple(refused)
    if found:
        raise InadmissibleError(found)
