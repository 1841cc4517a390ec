"""Which paths a manifest may have: one file below the root, on every platform.

A manifest comes from another machine, and its paths become files. Rules and reasons:
``docs/sync.md``, Paths.
"""

import os
import re
import shlex
import stat
import unicodedata
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from os.path import realpath
from pathlib import Path
from typing import NamedTuple, TypeAlias

from lillux.digests import sha256_hex
from lillux.errors import UnsafePathError
from lillux.files import file_system_error, require_plain_path
from lillux.patterns import pattern
from lillux.values import dataclass
from ryeos.items.errors import RyeError
from ryeos.items.refs import AI_DIRECTORY, PRIVATE_FOLDERS, Kind, kind_of_directory
from ryeos.sync.objects import ItemSource, SourceManifest
from ryeos.sync.rules import ManifestRules, NameRules, PathPatterns, rules_of
from ryeos.trust.signature import CORE_PATTERN

# --- safe paths -----------------------------------------------------------------------------------

MAX_SEGMENT_BYTES = 255
"""Of the file systems in use, the least that one takes as a name."""

MAX_PATH_BYTES = 2048
"""Half of what systems take, so that there is room for the root."""

_RUN_STATE = ".ai/state"
_REPOSITORY = ".git"
# What Windows calls files whose names are no 8.3 names, where that is on.
_SHORT_NAMES = {f"ai~{digit}": ".ai" for digit in range(10)} | {
    f"git~{digit}": _REPOSITORY for digit in range(10)
}
# Invisible, and left out by some file systems when they compare names: Cf. Cc steers
# terminals, Zl and Zp end lines, Cs has no UTF-8.
_NEVER = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
_REPARSE_POINT = 0x400  # of Windows: links and junctions
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
    """What a path has in common with all that some file system takes for the same."""
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
    """As `safe_target` for many paths: what is there of them. Each folder is looked at once."""

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
    """Whether this leads elsewhere: a link, on Windows a junction too."""
    is_elsewhere = getattr(status, "st_file_attributes", 0) & _REPARSE_POINT
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
    if folded == _REPOSITORY or folded.startswith(f"{_REPOSITORY}/"):
        return f"{_REPOSITORY}/ is the repository itself, whose hooks are programs"
    return ""


# --- private files --------------------------------------------------------------------------------
# Which files stay here though they are items: an allow-list for keys, and no pinned nodes. Pure.
#
# Runs on a node need the user's configuration, trusted keys and items. They do not need private
# keys, nor the pinned keys of nodes: ``docs/store.md``, User spaces.

_PRIVATE = tuple(f"{AI_DIRECTORY}/{folder}/" for folder in PRIVATE_FOLDERS)
_PUBLIC = frozenset(f"{_PRIVATE[0]}{name}" for name in ("public_key.pem", "box_pub.pem"))
_TRUSTED = ".ai/config/keys/trusted/"
_PINS = ".ai/config/remotes/pins"
_CONFIG = ".ai/config/"
_PRIVATE_MARK = b"PRIVATE KEY-----"
_OF_A_REMOTE = pattern(rb"""^[ \t]*owner[ \t]*=[ \t]*["']remote:""", re.MULTILINE)


def stays_by_path(path: str) -> bool:
    """Whether a file never travels because of its path: private keys, pins of nodes.

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


# --- item files -----------------------------------------------------------------------------------
# What an item file is to a manifest: its kind, its reference, its signature line. Pure.
#
# The rules are shared with other programs, whose digests of the same file must be ours. They are
# not those by which Rye finds and verifies items. They are in ``docs/store.md``, Items.

_AI = f"{AI_DIRECTORY}/"
_MARKDOWN = pattern(f"<!-- {CORE_PATTERN} -->")
_HASH = pattern(f"# {CORE_PATTERN}")
_HASH_OR_BELOW_SHEBANG = pattern(rf"(?:#!/[^\n]*\n)?# {CORE_PATTERN}")
_SLASHES = pattern(f"// {CORE_PATTERN}")

_ANY_SUFFIX = ""
_LINES: Mapping[Kind, Mapping[str, re.Pattern[str]]] = {
    Kind.DIRECTIVE: {_ANY_SUFFIX: _MARKDOWN},
    Kind.KNOWLEDGE: {_ANY_SUFFIX: _MARKDOWN},
    Kind.TOOL: {
        **dict.fromkeys((".py", ".yaml", ".yml", ".json", ".sh", ".toml"), _HASH_OR_BELOW_SHEBANG),
        **dict.fromkeys((".js", ".ts", ".mjs", ".cjs"), _SLASHES),
    },
    Kind.CONFIG: dict.fromkeys((".yaml", ".yml", ".toml"), _HASH),
}
_ASCII_LOWER = str.maketrans("ABCDEFGHIJKLMNOPQRSTUVWXYZ", "abcdefghijklmnopqrstuvwxyz")


def kind_of(path: str) -> Kind | None:
    """The kind of the item at a relative path like ``.ai/tools/a/b.py``; None for no item."""
    if not path.startswith(_AI):
        return None
    directory, slash, rest = path[len(_AI) :].partition("/")
    return kind_of_directory(directory) if slash and rest else None


def item_ref(kind: Kind, path: str) -> str:
    """What an item is called: its kind, and its path below the kind's folder without a suffix."""
    below = path[len(_AI) + len(kind.directory) + 1 :]
    suffix = suffix_of(below)
    return f"{kind.value}:{below[: -len(suffix)] if suffix else below}"


def suffix_of(path: str) -> str:
    """The last suffix with its dot; ``""`` for ``.gitkeep`` and for ``name.``."""
    name = path[path.rfind("/") + 1 :]
    dot = name.rfind(".")
    return name[dot:] if 0 < dot < len(name) - 1 else ""


def signature_info(kind: Kind, path: str, text: str) -> dict[str, str] | None:
    """The fields of the signature line at the top of a text, unverified, or None."""
    lines = _LINES[kind]
    line = lines.get(_ANY_SUFFIX) or lines.get(suffix_of(path).translate(_ASCII_LOWER))
    match = line.match(text) if line else None
    if match is None:
        return None
    timestamp, digest, value, fingerprint, provenance = match.groups()
    fields = {
        "timestamp": timestamp,
        "hash": digest,
        "ed25519_sig": value,
        "pubkey_fp": fingerprint,
    }
    if provenance:
        provider, _, username = provenance[1:].partition("@")
        fields |= {"registry_provider": provider, "registry_username": username}
    return fields


def item_source(path: str, data: bytes, digest: str = "") -> ItemSource | None:
    """The item that a file is; None for one that is no item, by its path or as it is no UTF-8.

    ``digest`` is that of the data, where it is known.
    """
    kind = kind_of(path)
    if kind is None:
        return None
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        return None
    content = digest or sha256_hex(data)
    return ItemSource(item_ref(kind, path), content, signature_info(kind, path, text))


# --- tree walk ------------------------------------------------------------------------------------
# The files below a folder, and whether each may be read: no pathlib here, as there are many.
#
# Links to folders are not followed. A link to a file is, as long as that lies below the same root:
# a project is foreign data, and must not send what lies elsewhere.

_MAX_NAME_BYTES = 255
_MAX_PATH = MAX_PATH_BYTES // 4  # characters that may be more bytes than that
_PLAIN_NAME = pattern(
    r"(?!(?:con|prn|aux|nul|com[0-9]|lpt[0-9])(?:\.|$))[a-z0-9_.@+=-]{0,99}[a-z0-9_]",
    re.IGNORECASE | re.ASCII,
)
_UNSEEN = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
_FOLDER = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_CLOEXEC", 0)


@dataclass(frozen=True, slots=True)
class SkippedFile:
    """A file that is left out, by its relative path, and why."""

    path: str
    problem: str


class WalkedFile(
    NamedTuple
):  # made for each file, each time: a tuple is made in a third of the time
    """A regular file. ``status`` is of the file itself, also where a link leads there.

    ``target`` is where a link leads, relative to the same root; ``""`` for no link.
    """

    relative: str
    name: str
    status: os.stat_result
    target: str = ""


TakeKnown: TypeAlias = Callable[[str, os.stat_result], bool]
"""Is asked of each regular file that is no link; one that it takes is not in the walk."""


def take_nothing(_relative: str, _status: os.stat_result) -> bool:
    """Take no file."""
    return False


def walk(
    root: str,
    top: str,
    enter: Callable[[str, str], bool],
    skip: Callable[[SkippedFile], None],
    *,
    take: TakeKnown = take_nothing,
    named: Container[str] = (),
) -> Iterator[WalkedFile]:
    """Every regular file below the folder ``top`` of ``root``, both without a ``/`` at the end.

    ``enter`` is asked of each folder with its relative path and its name. ``named`` are paths whose
    names were found good before; what ``take`` takes has such a path. Nothing below a folder that
    is not there, or no folder. Raises FileSystemError, RyeError `CONFIG_ERROR`: a folder that
    cannot be read is not taken for an empty one.
    """
    waiting = [top] if not top or _is_folder(f"{root}/{top}") else []
    is_regular = stat.S_ISREG
    while waiting:
        folder = waiting.pop()
        above = f"{folder}/" if folder else ""
        with _listing(f"{root}/{folder}") as entries:
            for entry in entries:
                name = entry.name
                try:
                    status = entry.stat(follow_symlinks=False)
                except FileNotFoundError:
                    continue
                relative, mode = above + name, status.st_mode
                if is_regular(mode) and take(relative, status):
                    continue
                if len(relative) > _MAX_PATH and len(os.fsencode(relative)) > MAX_PATH_BYTES:
                    # No manifest has it, and what is below may be too long for the system to name.
                    skip(
                        SkippedFile(relative, f"expected a path of at most {MAX_PATH_BYTES} bytes")
                    )
                elif stat.S_ISDIR(mode) and not _is_reparse_point(status):
                    if enter(relative, name) and _is_named(name, f"{relative}/", skip):
                        waiting.append(relative)
                elif is_regular(mode):
                    if relative in named or _is_named(name, relative, skip):
                        yield WalkedFile(relative, name, status)
                else:
                    yield from _linked_file(root, relative, name, mode, skip)


def _is_named(name: str, relative: str, skip: Callable[[SkippedFile], None]) -> bool:
    problem = name_problem(name)
    if problem:
        skip(SkippedFile(relative, problem))
    return not problem


def name_problem(name: str) -> str:
    """Why a file of this name could not be made on every platform; ``""`` when it can."""
    if _PLAIN_NAME.fullmatch(name):
        return ""
    try:
        require_plain_path(name)
        size = len(name.encode("utf-8"))
    except UnsafePathError as error:
        return error.problem
    except UnicodeEncodeError:
        return "expected a name in UTF-8, found other bytes"
    if size > _MAX_NAME_BYTES:
        return f"expected a name of at most {_MAX_NAME_BYTES} bytes, found {size}"
    if any(unicodedata.category(character) in _UNSEEN for character in name):
        return "characters that cannot be seen are not allowed"
    return ""


def _linked_file(
    root: str, relative: str, name: str, mode: int, skip: Callable[[SkippedFile], None]
) -> Iterator[WalkedFile]:
    """The file that a link leads to; nothing for what is no link."""
    if not stat.S_ISLNK(mode):
        skip(SkippedFile(relative, "expected a file, found something else"))
        return
    try:
        real, top = realpath(f"{root}/{relative}", strict=True), f"{realpath(root)}{os.sep}"
        status = os.stat(real)  # noqa: PTH116 - as above
    except OSError:  # leads nowhere, or in a circle
        skip(SkippedFile(relative, "a link that leads nowhere"))
        return
    if stat.S_ISDIR(status.st_mode):
        skip(SkippedFile(f"{relative}/", "a link, and links to folders are not followed"))
        return
    if not stat.S_ISREG(status.st_mode) or not _is_named(name, relative, skip):
        return
    if not real.startswith(top):
        skip(SkippedFile(relative, "a link that leads out of the folder"))
        return
    yield WalkedFile(relative, name, status, real[len(top) :].replace(os.sep, "/"))


@contextmanager
def _listing(path: str) -> "Iterator[list[os.DirEntry[str]]]":
    """What is in a folder, while it is open: the system looks for each name in there alone."""
    try:
        descriptor = os.open(path, _FOLDER) if os.scandir in os.supports_fd else -1
    except (FileNotFoundError, NotADirectoryError):  # removed meanwhile
        yield []
        return
    except OSError as error:
        raise file_system_error(path, error) from error
    try:
        yield _entries(path, descriptor)
    finally:
        if descriptor >= 0:
            os.close(descriptor)


def _entries(path: str, descriptor: int) -> "list[os.DirEntry[str]]":
    try:
        with os.scandir(path) if descriptor < 0 else os.scandir(descriptor) as entries:
            return list(entries)
    except (FileNotFoundError, NotADirectoryError):  # as above
        return []
    except OSError as error:
        raise file_system_error(path, error) from error


def _is_folder(path: str) -> bool:
    try:
        status = os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as error:
        raise file_system_error(path, error) from error
    if stat.S_ISLNK(status.st_mode) or _is_reparse_point(status):
        raise RyeError(
            f"{path}: expected a folder of its own, found a link to another",
            code="CONFIG_ERROR",
            hint="what a link leads to is not sent; put a copy in its place",
            path=path,
        )
    return stat.S_ISDIR(status.st_mode)


def _is_reparse_point(status: os.stat_result) -> bool:
    return bool(getattr(status, "st_file_attributes", 0) & _REPARSE_POINT)


# --- admission ------------------------------------------------------------------------------------
# Which paths a manifest may have at all, from any sender: asked on both sides of every exchange.
#
# What never travels is left out by the sender (`ryeos.sync.tree`). The receiver of a manifest asks
# the same again: else a hostile side would have files written that decide what runs. Pure. Rules
# and reasons: ``docs/store.md``, Admission.

MAX_FOLDERS = 100
"""More are no project but an accident, and some programs do not find out of them."""

_NAMED = 5
_ORDERS = frozenset({"makefile", "gnumakefile", "justfile"})
_NEVER_FOLDERS = frozenset({_REPOSITORY, ".venv", ".virtualenv", "__pycache__"})
_PROGRAM_FOLDERS = ("venv/bin/", "venv/scripts/", "node_modules/.bin/")
_PACKAGES = "node_modules"
_NEVER_NAMES = frozenset({".envrc"})  # run by shells that enter the folder
_FLOOR_NAMES = NameRules(rules_of([]))
# What Windows calls files whose names are no 8.3 names, where that is on.
_SHORT = pattern(r"(ai|git|venv|virtua|__pyca|node_m|env|envrc|privat|box_ke)~[0-9](\.[^/]*)?")
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


def _orders_error(paths: Sequence[str]) -> RyeError:
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


def takes_orders(path: str) -> bool:
    """Whether programs do what a file of this name says: dotfiles, Makefiles and similar."""
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
        if not kind_of(path) and takes_orders(path) and path not in present
        if not wanted.match(path)
    ]
    if orders:
        raise _orders_error(orders)


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


def _fold_short_names(path: str) -> str:
    """What a path may come to on a disk: letter case, Unicode form, short names of Windows."""
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
