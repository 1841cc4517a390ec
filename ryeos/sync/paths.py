"""Paths of a manifest: one file below the root, on every platform.

A manifest comes from another machine, and its paths become files. Rules and reasons:
``docs/sync.md``, Paths.
"""

import os
import re
import stat
import unicodedata
from collections.abc import Iterable, Iterator
from pathlib import Path

from lillux.contained_paths import require_plain_path
from lillux.errors import UnsafePathError
from lillux.files import file_system_error
from lillux.patterns import pattern
from lillux.values import dataclass
from ryeos.items.errors import RyeError

MAX_SEGMENT_BYTES = 255
"""Of the file systems in use, the least that one takes as a name."""

MAX_PATH_BYTES = 2048
"""Half of what systems take, so that there is room for the root."""

_RUN_STATE = ".ai/state"
REPOSITORY = ".git"
# What Windows calls files whose names are no 8.3 names, where that is on.
_SHORT_NAMES = {f"ai~{digit}": ".ai" for digit in range(10)} | {
    f"git~{digit}": REPOSITORY for digit in range(10)
}
# Invisible, and left out by some file systems when they compare names: Cf. Cc steers
# terminals, Zl and Zp end lines, Cs has no UTF-8.
_NEVER = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
REPARSE_POINT = 0x400  # of Windows: links and junctions
# Most paths: plain on every platform, by every rule. The others are looked at closely.
_PLAIN_SEGMENT = (
    r"(?!(?:con|prn|aux|nul|com[0-9]|lpt[0-9])(?:[./]|\Z))[a-z0-9_.@+=-]{0,99}[a-z0-9_@+=-]"
)
_PLAIN_PATH = pattern(
    rf"(?!\.git(?:/|\Z)|\.ai/state(?:/|\Z))(?:{_PLAIN_SEGMENT}/){{0,9}}{_PLAIN_SEGMENT}",
    re.IGNORECASE | re.ASCII,
)


class UnsafeManifestError(RyeError):
    """A manifest holds a path that must not become a file. Nothing of it was written."""

    code = "UNSAFE_PATH"

    def __init__(self, path: str, problem: str) -> None:
        self.path, self.problem = path, problem
        super().__init__(
            f"unsafe path {path[:200]!r} in a manifest: {problem}",
            hint="rename the file where it comes from, and push again",
        )


PATH_PREFIX, PATH_CASE = "path_prefix", "path_case"


@dataclass(frozen=True, slots=True, kw_only=True)
class Clash:
    """Two paths of which one file system or another can hold only one.

    ``type`` is `PATH_PREFIX` where ``path`` would have to be a folder, `PATH_CASE` where letter
    case or the Unicode form is all that tells the two, or their folders, apart.
    """

    path: str
    other: str
    type: str

    @property
    def problem(self) -> str:
        """Why the two cannot be, said of ``path``."""
        if self.type == PATH_PREFIX:
            return f"{self.other[:200]!r} needs a folder there"
        other = repr(self.other[:200])
        return f"only letter case or Unicode form differs, of it or of a folder, from {other}"


def require_safe_paths(paths: Iterable[str]) -> None:
    """Refuse paths that would leave the root, or would not be the same files everywhere.

    A path that stands twice is refused as well. Raises UnsafeManifestError for the first.
    """
    known = list(paths)
    for path in known:
        problem = path_problem(path)
        if problem:
            raise UnsafeManifestError(path, problem)
    for clash in clashes(known):
        raise UnsafeManifestError(clash.path, clash.problem)


def clashes(paths: Iterable[str]) -> Iterator[Clash]:
    """The paths that cannot be files side by side, each with the first one that it meets."""
    spelled: dict[str, str] = {}  # the first path or folder of each folded form
    files: dict[str, str] = {}
    folders: dict[str, str] = {}  # a folded folder, and a path in it
    known = {""}  # folders that met no other: most paths are in one of a path before
    for path in sorted(paths):
        folded = fold(path)
        if folded in files:
            yield Clash(path=path, other=files[folded], type=PATH_CASE)
            continue
        files[folded] = path
        folder = path.rpartition("/")[0]
        if folder not in known:
            found = [*_folder_clash(path, folded, spelled, folders)]
            if not found:
                known.add(folder)
            yield from found
    for folded, path in files.items():
        if folded in folders:
            yield Clash(path=path, other=folders[folded], type=PATH_PREFIX)


def _folder_clash(
    path: str, folded: str, spelled: dict[str, str], folders: dict[str, str]
) -> Iterator[Clash]:
    """One for the outermost folder of a path that an earlier path spells in another way."""
    end = path.find("/")
    folded_end = folded.find("/")
    while end >= 0:
        folder, key = path[:end], folded[:folded_end]
        first = spelled.setdefault(key, folder)
        if first != folder:
            yield Clash(path=path, other=folders[key], type=PATH_CASE)
            return
        folders.setdefault(key, path)
        end, folded_end = path.find("/", end + 1), folded.find("/", folded_end + 1)


class Neighbours:
    """Paths that can be files side by side, taken one after the other, whatever their number."""

    def __init__(self) -> None:
        self._files: set[str] = set()
        self._folders: dict[str, str] = {}  # by folded form, how the first path spells it

    def add(self, path: str) -> str:
        """Take a path; why it cannot be beside those before, and is not taken, ``""`` if it can."""
        folded = fold(path)
        if folded in self._files:
            return "only letter case or Unicode form differs from another file"
        if folded in self._folders:
            return "another file needs a folder there"
        above = list(zip(folders_above(folded), folders_above(path), strict=True))
        for key, folder in above:
            if key in self._files:
                return "another file is where it needs a folder"
            if self._folders.get(key, folder) != folder:
                return "only letter case or Unicode form of a folder differs from another"
        self._files.add(folded)
        self._folders.update(above)
        return ""


def folders_above(path: str) -> Iterator[str]:
    """The folders that a path leads through, the outermost first."""
    end = path.find("/")
    while end >= 0:
        yield path[:end]
        end = path.find("/", end + 1)


def fold(path: str) -> str:
    """Common form of all paths that some file system takes for the same."""
    if path.isascii():
        return path.lower()
    folded = unicodedata.normalize("NFD", path).casefold()
    kept = (one for one in folded if unicodedata.category(one) != "Cf")
    return unicodedata.normalize("NFC", "".join(kept))


def safe_target(root: Path, relative: str) -> Path:
    """The path of ``relative`` below ``root``; no part of it that is there is a link.

    Of the root itself nothing is asked. A folder or file that is not there yet is fine. Raises
    UnsafeManifestError, FileSystemError.
    """
    problem = path_problem(relative)
    if problem:
        raise UnsafeManifestError(relative, problem)
    path = str(root)
    segments = relative.split("/")
    for position, segment in enumerate(segments, 1):
        path = f"{path}{os.sep}{segment}"
        try:
            status = os.lstat(path)
        except FileNotFoundError:
            return root.joinpath(*segments)
        except OSError as error:
            raise file_system_error(path, error) from error
        if is_link(status):
            raise UnsafeManifestError(relative, f"{path} is a link")
        if position < len(segments) and not stat.S_ISDIR(status.st_mode):
            raise UnsafeManifestError(relative, f"{path} is no folder")
    return Path(path)


class PresentTargets:
    """The same as `safe_target`, for many paths. Each folder is looked at once."""

    def __init__(self, root: Path) -> None:
        self._root = str(root)
        self._folders = {"": True}  # whether it is there

    def find(self, relative: str) -> Path | None:
        """The path of what is there, None where nothing is. Raises as `safe_target`."""
        problem = path_problem(relative)
        if problem:
            raise UnsafeManifestError(relative, problem)
        if not self._has_folder(relative.rpartition("/")[0], relative):
            return None
        path = self._path(relative)
        return None if self._status(path, relative) is None else Path(path)

    def _has_folder(self, folder: str, wanted_for: str) -> bool:
        known = self._folders.get(folder)
        if known is not None:
            return known
        missing = [folder]
        while (above := missing[-1].rpartition("/")[0]) not in self._folders:
            missing.append(above)
        is_there = self._folders[above]
        for one in reversed(missing):
            is_there = is_there and self._is_folder(one, wanted_for)
            self._folders[one] = is_there
        return is_there

    def _is_folder(self, folder: str, wanted_for: str) -> bool:
        path = self._path(folder)
        status = self._status(path, wanted_for)
        if status is not None and not stat.S_ISDIR(status.st_mode):
            raise UnsafeManifestError(wanted_for, f"{path} is no folder")
        return status is not None

    @staticmethod
    def _status(path: str, wanted_for: str) -> os.stat_result | None:
        try:
            status = os.lstat(path)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise file_system_error(path, error) from error
        if is_link(status):
            raise UnsafeManifestError(wanted_for, f"{path} is a link")
        return status

    def _path(self, relative: str) -> str:
        return os.sep.join((self._root, *relative.split("/")))  # noqa: PTH118 - many times


def is_link(status: os.stat_result) -> bool:
    """True if this leads elsewhere: a link, on Windows a junction too."""
    is_elsewhere = getattr(status, "st_file_attributes", 0) & REPARSE_POINT
    return stat.S_ISLNK(status.st_mode) or bool(is_elsewhere)


def path_problem(path: str) -> str:
    """Why no file may have this relative path; ``""`` when one may."""
    if _PLAIN_PATH.fullmatch(path):
        return ""
    try:
        require_plain_path(path)
    except UnsafePathError as error:
        return error.problem
    if not path.isascii() and any(unicodedata.category(one) in _NEVER for one in path):
        return "characters that cannot be seen are not allowed"
    size = len(path.encode())
    if size > MAX_PATH_BYTES:
        return f"expected at most {MAX_PATH_BYTES} bytes, found {size}"
    if size > MAX_SEGMENT_BYTES and _longest_segment(path) > MAX_SEGMENT_BYTES:
        return f"expected at most {MAX_SEGMENT_BYTES} bytes in a segment"
    return _reserved(path)


def _longest_segment(path: str) -> int:
    return max(len(segment.encode()) for segment in path.split("/"))


def _reserved(path: str) -> str:
    first, slash, rest = fold(path).partition("/")
    folded = _SHORT_NAMES.get(first, first) + slash + rest
    if folded == _RUN_STATE or folded.startswith(f"{_RUN_STATE}/"):
        return f"{_RUN_STATE}/ is what runs keep, and never travels"
    if folded == REPOSITORY or folded.startswith(f"{REPOSITORY}/"):
        return f"{REPOSITORY}/ is the repository itself, whose hooks are programs"
    return ""
