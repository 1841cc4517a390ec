"""The private folder of a run: copies of the verified bytes, for interpreters that open files.

(1) each folder that was verified has a copy, its files at their relative places
(2) what else lies there is linked, for tools that read data beside them; code that was not verified
    is left out, and the files of package managers are copied: an interpreter acts upon them; of
    an unsigned ``package.json`` a guarded runtime gets what says nothing about which file is loaded
(3) the command and the search paths of the anchor name the copies; the working folder stays
(4) the folder goes when the run ends; one that a crash left goes with a later run

It lies in user space, where nothing that Rye confines may write. Page: ``docs/writing-tools.md``.
"""

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from lillux.files import file_system_error, make_directory, read_bytes
from lillux.values import dataclass, field
from ryeos.items.errors import SpecError
from ryeos.trust.dependencies import MANAGED_JSON, DependencyRules
from ryeos.trust.signature import MAX_ITEM_BYTES, detached_path

PLACE = "state/held"
"""The place of such folders, below the ``.ai`` of user space."""
COPIES = "RYE_NODE_COPIES"
"""The variable that tells a guarded runtime where the folder is."""
MAX_LINKS = 10_000
_DATA = frozenset({".json", ".yaml", ".yml"})
_CACHE, _PACKAGE, _PACKAGES = "__pycache__", "package.json", "node_modules"
_SIGNATURE = ".sig"
# Not `imports`, `exports`, `main`: they choose files. `type` says how `.js` is read, which a tool
# needs; it cannot say which.
_HARMLESS = ("name", "version", "description", "license", "type")
_LEFT_BEHIND_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldFolder:
    """A folder that is not there yet: `made` makes it for as long as it is needed.

    files       the verified bytes, by path
    folders     the real path of each verified folder, by the path that names it
    names       variables that hold paths of these folders
    is_bare     the tool asks for nothing that lies beside its file
    is_guarded  the runtime itself refuses to load what is no copy: all else is linked, also what
                lies beside the folders above, as far as ``root``
    """

    path: Path
    files: Mapping[str, bytes] = field(repr=False)
    folders: Mapping[str, str]
    names: tuple[str, ...] = ()
    rules: DependencyRules = field(default_factory=DependencyRules)
    is_guarded: bool = False
    is_bare: bool = False
    root: str = ""

    @contextmanager
    def made(self) -> Iterator[None]:
        """The folder with all its files. Raises FileSystemError, SpecError."""
        parent = self.path.parent
        make_directory(parent, mode=0o700)
        _remove_left_behind(parent)
        try:
            with ExitStack() as used:
                try:
                    self.path.mkdir(mode=0o700)
                    used.enter_context(_marked_as_used(self.path))
                    self._fill()
                except OSError as error:
                    raise file_system_error(self.path, error) from error
                yield
        finally:
            _remove(self.path)

    def _fill(self) -> None:
        copy = _Copy(self)
        for top in self._tops() if not self.is_bare else ():
            copy.folder(top)
        copy.files()
        for top in self._tops() if self.is_guarded else ():
            copy.above(top, self.root)

    def variables(self, env: Mapping[str, str]) -> dict[str, str]:
        """The variables that name the copies, in place of those that name the folders (3)."""
        changed = {
            name: os.pathsep.join(
                self.copy_of(self.real(entry)) for entry in env[name].split(os.pathsep)
            )
            for name in self.names
            if name in env
        }
        return {**changed, **({COPIES: str(self.path)} if self.is_guarded else {})}

    def place_of(self, path: str) -> str | None:
        """The path of the copy of a verified file; None for what is none."""
        real = self.real(path)
        return self.copy_of(real) if real in self.real_files() else None

    def copy_of(self, real: str) -> str:
        """The place of a file or folder by its real path; anything else is where it is."""
        if not any(_is_within(real, top) for top in self.folders.values()):
            return real
        return self.below(real)

    def below(self, real: str) -> str:
        """The place in the copy of whatever has this real path."""
        return f"{self.path}{os.sep}{os.path.splitdrive(real)[1].lstrip(os.sep)}".rstrip(os.sep)

    def real(self, path: str) -> str:
        """A path as the files are named, if it is in one of the folders."""
        for named, real in self.folders.items():
            if _is_within(path, named):
                return real + path[len(named) :]
        return path

    def _tops(self) -> tuple[str, ...]:
        """The folders that are in none of the others."""
        several = sorted({*self.folders.values()})
        return tuple(
            one
            for one in several
            if not any(_is_within(one, other) for other in several if other != one)
        )

    def real_files(self) -> dict[str, bytes]:
        """The verified bytes by the real path of each file."""
        return {self.real(path): data for path, data in self.files.items()}


class _Copy:
    """Writes the folder of a run: (1) and (2)."""

    def __init__(self, held: HeldFolder) -> None:
        self._held = held
        self._verified = held.real_files()
        self._links = 0

    def folder(self, real: str) -> None:
        """A folder and everything below it but the verified files."""
        os.makedirs(self._held.below(real), mode=0o700, exist_ok=True)
        for entry in _entries(real):
            if entry.path in self._verified:
                continue
            if entry.is_dir(follow_symlinks=False) and not self._is_passed_over(entry):
                self.folder(entry.path)
            else:
                self._other(entry)

    def above(self, top: str, root: str) -> None:
        """Entries beside the folders that lead to it; above the root, what Node.js asks for."""
        child = top
        for folder in map(str, Path(top).parents):
            for entry in _entries(folder) if _is_within(folder, root) else _named(folder):
                if entry.path != child:
                    self._other(entry)
            child = folder
        end = self._held.path / _PACKAGE
        if not end.exists():  # Node.js looks no further
            _write(str(end), b"{}")

    def files(self) -> None:
        """The verified files."""
        for real, data in self._verified.items():
            place = self._held.below(real)
            os.makedirs(os.path.dirname(place), mode=0o700, exist_ok=True)
            _write(place, data)
            if os.path.basename(real) in MANAGED_JSON:  # these are verified where they are signed
                _write(str(detached_path(Path(place))), b"")

    def _other(self, entry: "os.DirEntry[str]") -> None:
        """Add what was not verified: a copy where interpreters use it, else a link, or nothing."""
        place, suffix = self._held.below(entry.path), Path(entry.name).suffix
        if os.path.lexists(place) or suffix == _SIGNATURE:
            return  # another verified folder lies there; signatures have been looked at
        if entry.name == _CACHE and not self._held.is_guarded:
            return
        if entry.name in MANAGED_JSON and entry.is_file():
            data = read_bytes(Path(entry.path), MAX_ITEM_BYTES)
            is_cut = self._held.is_guarded and entry.name == _PACKAGE
            _write(place, _without_directions(data) if is_cut else data)
        elif self._held.is_guarded or suffix in _DATA or suffix not in self._held.rules.extensions:
            self._link(entry.path, place)

    def _is_passed_over(self, entry: "os.DirEntry[str]") -> bool:
        """True if nothing in a folder was verified; it is linked then as a whole."""
        start = entry.path + os.sep
        if any(path.startswith(start) for path in self._verified):
            return False
        return not self._held.rules.enabled or entry.name in self._held.rules.exclude_dirs

    def _link(self, real: str, place: str) -> None:
        self._links += 1
        if self._links > MAX_LINKS:
            raise SpecError(
                real,
                f"expected at most {MAX_LINKS} files beside a tool that were not verified",
                hint="put the tool into a folder of its own",
            )
        os.symlink(real, place)


def _without_directions(data: bytes) -> bytes:
    """An unsigned ``package.json`` without what chooses the files that are loaded."""
    import json

    try:
        said = json.loads(data)
    except (ValueError, RecursionError):
        said = {}
    kept = said if isinstance(said, dict) else {}
    harmless = {name: kept[name] for name in _HARMLESS if isinstance(kept.get(name), str)}
    return json.dumps(harmless).encode()


def _entries(folder: str) -> "list[os.DirEntry[str]]":
    with os.scandir(folder) as found:
        return list(found)


def _named(folder: str) -> "list[os.DirEntry[str]]":
    """The names that Node.js looks for in every folder above a module."""
    try:
        return [entry for entry in _entries(folder) if entry.name in (_PACKAGE, _PACKAGES)]
    except OSError:
        return []  # it may be entered, but not be listed


def new_place(user_ai: Path) -> Path:
    """The path of a folder for one run, below the ``.ai`` of user space."""
    return user_ai / PLACE / os.urandom(8).hex()


def _is_within(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip(os.sep) + os.sep)


def _write(place: str, data: bytes) -> None:
    """A new file, which may be started as a program too."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    with open(os.open(place, flags, 0o500), "wb") as file:
        file.write(data)


@contextmanager
def _marked_as_used(path: Path) -> Iterator[None]:
    """A lock on the folder, which ends with this process: a folder without one was left behind.

    Who reads a folder can lock it, so this does not wait: a locked one is not removed either.
    """
    if sys.platform == "win32":
        yield
        return
    import fcntl

    descriptor = os.open(path, os.O_RDONLY)
    try:
        with suppress(BlockingIOError):
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        yield
    finally:
        os.close(descriptor)


def _remove_left_behind(parent: Path) -> None:
    """Remove the folders of runs whose process is no more."""
    if sys.platform == "win32":
        return
    import fcntl
    from time import time

    for name in os.listdir(parent):
        path = parent / name
        with suppress(OSError):
            if time() - path.stat().st_mtime < _LEFT_BEHIND_S:
                continue
            descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                _remove(path)
            finally:
                os.close(descriptor)


def _remove(path: Path) -> None:
    """Remove a folder; links in it are removed and not followed.

    By hand, as each start of a script does it: `shutil` imports every kind of archive.
    """
    for folder, folders, names in os.walk(path, topdown=False):
        for name in (*names, *folders):
            place = os.path.join(folder, name)
            with suppress(OSError):
                (os.rmdir if name in folders and not os.path.islink(place) else os.unlink)(place)
    with suppress(OSError):
        path.rmdir()
