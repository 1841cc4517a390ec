"""Held programs: the compared bytes of an approved program and of its package, in Rye's own cache.

An interpreter opens the files of its package by their paths, again and again, so these paths lead
to where nothing that Rye confines may write. An entry is named by the digest of what was compared:

(1) it is made of what one comparison has read, and of nothing else that lies in the project
(2) it is written into a folder beside and renamed: an entry that is there is whole
(3) links stay relative; one that leads out of the project is absolute
(4) a file may be executed if its first bytes say that it is a program, whatever its mode was

Of a virtual environment whose Python is a copy an entry holds that Python, and the ``pyvenv.cfg``
by which it finds its library; or a link to the Python that it is a copy of (`HeldPython`).

Entries go when they were unused for 30 days (``zipboot.places``). Page: ``docs/trust.md``.
"""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from lillux.digests import sha256_hex
from lillux.files import file_system_error, make_directory, read_bytes
from lillux.values import dataclass, field
from ryeos.items.errors import IntegrityError
from ryeos.trust.start_files import MAX_BYTES, RUNNERS, StartFiles

KIND = "approved"  # of the folders of the cache
NOTED_EVERY_S = 24 * 3600.0
_LOOK = "to look at it, and approve it: rye trust"
_FORMAT = "rye/approved/v1"
_MAX_LINKS = 40
_DIGITS = 64
_MAX_COMPONENTS = 10_000
# ELF, a script, Mach-O (of one processor and of several), Windows.
_STARTS_OF_PROGRAMS = (
    *(b"\x7fELF", b"#!", b"\xcf\xfa\xed\xfe", b"\xce\xfa\xed\xfe", b"\xca\xfe\xba\xbe", b"MZ"),
)


@dataclass(frozen=True, slots=True)
class HeldPrograms:
    """The entry of one approved folder of programs, ``folder`` below the project.

    digest  that of the approved part: the entry is made of nothing that has another one
    """

    cache: Path
    project: str
    folder: str
    digest: str = field(repr=False)

    @property
    def path(self) -> Path:
        """Its path, there or not; the paths below it are those below the project."""
        words = (_FORMAT, self.project, self.folder, self.digest)
        return self.cache / sha256_hex("\0".join(words).encode("utf-8", "surrogateescape"))

    def is_there(self) -> bool:
        """True if the entry is whole."""
        return _is_there(self.path)

    def write(self, files: StartFiles) -> None:
        """Make the entry of what was read (1), (2). Raises FileSystemError."""
        with _new_entry(self.path) as new:
            for place, target in _Places(self.project, files.found).links():
                _make_link(new / place, target)
            for place, data in self._files(files):
                _write(new / place, data)

    def _files(self, files: StartFiles) -> Iterator[tuple[str, bytes]]:
        places = _Places(self.project, files.found)
        written: dict[str, bytes] = {}
        for path, data in files.copies.items():
            place = places.of(path)
            if place and place not in written:
                written[place] = data
                yield place, self._moved(path, data)

    def _moved(self, path: str, data: bytes) -> bytes:
        """A script of pnpm names its packages by their whole paths."""
        folder, _, name = path.rpartition("/")
        if folder != self.folder or name not in RUNNERS or not data.startswith(b"#!"):
            return data
        before, after = (
            os.fsencode(f"{top}/node_modules") for top in (self.project, str(self.path))
        )
        return data.replace(before, after)


class _Places:
    """Places of files and links in an entry: each link that was compared is followed, no other.

    Paths are relative to the project. ``found`` is as `StartFiles` has it.
    """

    def __init__(self, project: str, found: Mapping[str, str]) -> None:
        self._project = project
        self._links: dict[str, str] = {}
        named = ((key[:-1], what) for key, what in found.items() if key.endswith("@"))
        for path, what in sorted(named, key=lambda one: one[0].count("/")):
            place = self._followed(path, whole=False)
            if place and what.startswith("link "):
                self._links[place] = what.removeprefix("link ")

    def of(self, path: str) -> str | None:
        """The place of a file; None for one outside of the project."""
        return self._followed(path, whole=True)

    def links(self) -> Iterator[tuple[str, str]]:
        """The place and the target of each link (3)."""
        for place, target in self._links.items():
            folder = os.path.dirname(place)
            inside = self._followed(self._below_project(folder, target), whole=False)
            if inside is None:
                yield place, os.path.normpath(os.path.join(self._project, folder, target))
            elif inside != place:
                yield place, os.path.relpath(inside or ".", folder or ".")

    def _below_project(self, folder: str, target: str) -> str:
        """A target as a path below the project; one that leads there from outside by its end."""
        below = os.path.join(self._project, folder, target)
        if not os.path.normpath(below).startswith(self._project + os.sep):
            below = os.path.realpath(below)
        elif not os.path.isabs(target):
            return f"{folder}/{target}"  # as it is: a link may stand before a `..`
        return os.path.relpath(below, self._project)

    def _followed(self, path: str, *, whole: bool) -> str | None:
        """The path without links on its way, nor at its end if ``whole``; None for one outside."""
        place: list[str] = []
        rest = [part for part in reversed(path.split("/")) if part not in ("", ".")]
        links = 0
        for _ in range(_MAX_COMPONENTS):
            if not rest:
                return "/".join(place)
            part = rest.pop()
            if part == "..":
                if not place:
                    return None
                place.pop()
                continue
            place.append(part)
            target = self._links.get("/".join(place)) if rest or whole else None
            if target is None:
                continue
            links += 1
            folder = "/".join(place[:-1])
            below = self._below_project(folder, target)
            if links > _MAX_LINKS:
                return None
            place = []
            rest += [one for one in reversed(below.split("/")) if one not in ("", ".")]
        return None


@dataclass(frozen=True, slots=True)
class HeldPython:
    """The program for the Python of an environment that is not simply a link to its base.

    files      what was compared of the environment
    real       the real path of its Python, when that was compared
    home       the folder that ``pyvenv.cfg`` names
    made_with  the Python that it was made with, ``""`` where that is not known
    """

    cache: Path
    files: StartFiles = field(repr=False)
    real: str
    home: str
    made_with: str

    def base(self) -> str:
        """The path of what is started. Raises IntegrityError, FileSystemError.

        The Python that it was made with, where this is a copy of it: compared once for as long as
        that one is the same file. Else the bytes that were compared, from an entry.
        """
        compared = self._digest()
        other = os.stat(self.made_with) if self.made_with else None
        identity = (
            (other.st_ino, other.st_size, other.st_mtime_ns, other.st_ctime_ns) if other else ()
        )
        libraries = sorted(self.files.libraries.items()) if compared else ()
        words = (
            _FORMAT,
            self.real,
            compared,
            self.home,
            self.made_with,
            repr((identity, libraries)),
        )
        entry = self.cache / sha256_hex("\0".join(words).encode("utf-8", "surrogateescape"))
        place = entry / "bin" / "python"
        if not _is_there(entry):
            with _new_entry(entry) as new:
                self._fill(new, compared)
        base = os.path.realpath(place)
        is_base = os.path.dirname(base) == os.path.realpath(self.home)
        return base if is_base else str(place)

    def _digest(self) -> str:
        """The digest of a Python of the project, ``""`` for one outside. Raises IntegrityError."""
        if not self.files.is_own(self.real):
            return ""
        digest = self.files.programs.get(self.real, "")
        if len(digest) != _DIGITS:
            raise IntegrityError(self.real, "expected a program that can be read", hint=_LOOK)
        return digest

    def _fill(self, new: Path, compared: str) -> None:
        real = self.real
        _write(new / "pyvenv.cfg", os.fsencode(f"home = {self.home}\n"))
        place = new / "bin" / "python"
        if not compared:
            _make_link(place, real)
        elif self.made_with and _digest(self.made_with) == compared:
            _make_link(place, os.path.realpath(self.made_with))
        else:
            _write(place, _compared_bytes(real, compared))
            top = os.path.dirname(os.path.dirname(real))
            for path, digest in self.files.libraries.items():
                _write(new / os.path.relpath(path, top), _compared_bytes(path, digest))


def _digest(path: str) -> str:
    return sha256_hex(read_bytes(Path(path), MAX_BYTES))


def _compared_bytes(path: str, digest: str) -> bytes:
    """The bytes of a file that was compared. Raises IntegrityError for others."""
    data = read_bytes(Path(path), MAX_BYTES)
    if sha256_hex(data) != digest:
        raise IntegrityError(path, "expected the file that you approved, found another", hint=_LOOK)
    return data


def _is_there(entry: Path) -> bool:
    """True if an entry is there, and so is whole; its use is noted, once a day."""
    from time import time

    try:
        if time() - entry.lstat().st_mtime > NOTED_EVERY_S:
            os.utime(entry)
    except FileNotFoundError:
        return False
    except OSError:  # a cache that cannot be written
        return entry.is_dir()
    return True


@contextmanager
def _new_entry(entry: Path) -> Iterator[Path]:
    """A folder that becomes the entry when all is in it (2). Raises FileSystemError."""
    make_directory(entry.parent, mode=0o700)
    new = entry.with_name(f"{os.urandom(8).hex()}.tmp")
    try:
        new.mkdir(mode=0o700)
        yield new
        new.rename(entry)
    except OSError as error:
        if not entry.is_dir():  # another process was quicker
            raise file_system_error(entry, error) from error
    finally:
        _remove(new)


def _make_link(place: Path, target: str) -> None:
    place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    place.symlink_to(target)


def _write(place: Path, data: bytes) -> None:
    """A new file, for this user alone (4)."""
    place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    mode = 0o500 if data.startswith(_STARTS_OF_PROGRAMS) else 0o400
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    with open(os.open(place, flags, mode), "wb") as file:
        file.write(data)


def _remove(folder: Path) -> None:
    if folder.is_dir():
        from shutil import rmtree

        rmtree(folder, ignore_errors=True)
