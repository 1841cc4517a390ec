"""Files of a project that decide what one of its interpreters runs at each start, with digests.

Python, of a virtual environment:

(1) ``pyvenv.cfg``, the interpreter with each link that leads to it, and what lies beside it to
    steer it (``python311._pth``, ``pybuilddir.txt``, shared libraries)
(2) in each folder of ``site-packages``: every ``*.pth``, the modules that its lines import,
    ``sitecustomize`` and ``usercustomize``, as a file, a package or bytecode alone, with their
    ``__pycache__``; and what those import of the environment, by import statements. What they
    import otherwise is not followed: ``environment.py`` refuses it at the start
(3) the whole standard library, where the interpreter or its ``home`` lies in the project

Node.js, of ``node_modules/.bin``: each program, and the whole package, with what it depends on, of
one that runs the files of others (`RUNNERS`).

Each file is read once. A file outside of project and environment is named, not read: who may write
there needs no approval. Page: ``docs/trust.md``.
"""

import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path

from lillux.digests import sha256_hex
from lillux.errors import FileSystemError
from lillux.files import FileTooLargeError, read_bytes
from lillux.patterns import pattern
from lillux.values import dataclass, field

MAX_FILES, MAX_BYTES = 20_000, 512 * 1024 * 1024
RUNNERS = frozenset({"node", "tsx", "ts-node", "bun", "deno", "jiti", "esno", "swc-node"})
"""Programs of ``node_modules/.bin`` that run other files: interpreters of tools."""
PROGRAM_FOLDERS = ("bin", "Scripts")
_SETTINGS = "pyvenv.cfg"
_PYTHONS = ("python", "pypy", "graalpy")
# What steers an interpreter that lies in the same folder, or what its loader takes from there.
_SETTINGS_BESIDE = (_SETTINGS, "pybuilddir.txt")
_LIBRARIES = (".so", ".dylib", ".dll")
_SITE_FOLDERS = frozenset({"site-packages", "dist-packages"})
_MARKS = ("os.py", "os.pyc", "lib-dynload")  # what makes a folder a standard library
_ARCHIVES = (".zip", ".egg", ".whl", ".pyz")
_READ_BY_IMPORT = (".py", ".pyw", ".pyc", ".pth", "pyvenv.cfg", *_ARCHIVES)
_START_ENDINGS = (".pth", ".start")
_NAME = pattern(r"\w+")
# Blanks, with lines that a backslash continues: few, so that no text makes the search slow.
_GAP = rb"[ \t\f]*(?:\\\n[ \t\f]*){0,9}"
_REST = rb"[^\n;:#()\\,=]*"
_IMPORT = pattern(
    rb"(?m)(?:^|[;:])%b(?:import\b%b(?!\()((?:[^\n;#\\]|\\\n)+)"
    rb"|from\b%b([^\s;:#\\.()]+)%b(?:\\\n%b){0,9}?\bimport\b)" % (_GAP, _GAP, _GAP, _REST, _REST)
)
_MAX_LINKS = 40


def is_environment(folder: str) -> bool:
    """True if a folder is a virtual environment, or a whole installation of Python."""
    if os.path.isfile(os.path.join(folder, "pyvenv.cfg")):
        return True
    return any(_pythons_in(os.path.join(folder, below)) for below in PROGRAM_FOLDERS)


def is_runner(name: str) -> bool:
    """True if a program runs the files of others by its name, so that its package counts."""
    return os.path.splitext(name)[0] in RUNNERS


def is_python(name: str) -> bool:
    """True if a program is a Python by its name."""
    return _has_python_name(name) and not name.endswith(("-config", ".cfg", "._pth"))


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldEnvironment:
    """An approved environment, with the bytes that were compared: for one start of its Python.

    program     the Python of the environment
    base        what is started: the one that it was made with, or a copy of the one that was
                compared, outside of the project
    home        the folder that ``pyvenv.cfg`` names
    files       the bytes by path; empty for what no import reads as bytes
    names       modules that a start may import
    own         folders of which a start imports nothing but these files: project and environment
    """

    program: str
    base: str
    home: str
    has_system_packages: bool
    files: Mapping[str, bytes] = field(repr=False)
    names: frozenset[str] = field(repr=False)
    own: tuple[str, ...]
    digest: str

    def words(self) -> bytes:
        """The text that ``environment.py`` of the Python runtimes reads."""
        prefix = os.path.dirname(os.path.dirname(self.program))
        system = "1" if self.has_system_packages else ""
        names = " ".join(sorted(self.names))
        said = (prefix, self.program, self.home, system, names, *self.own)
        return "\0".join(said).encode("utf-8", "surrogateescape")


def held_environment(
    files: "StartFiles",
    folder: str,
    program: str,
    digest: str,
    copy: Callable[[str, str, str], str],
) -> HeldEnvironment | None:
    """The files of an environment that were compared, to start its ``program`` from them.

    ``copy`` gives what is started where that is not simply a link to the Python that the
    environment was made with, by the real path of the program when it was compared, the ``home`` of
    ``pyvenv.cfg`` and the path of that Python. None where the library lies in the project. Raises
    as ``copy``.
    """
    places = (os.path.join(folder, *name) for name in (("bin", _SETTINGS), (_SETTINGS,)))
    settings = next((files.kept[path] for path in places if path in files.kept), b"")  # as Python
    home = _setting(settings, "home")
    real = base = files.ends.get(os.path.join(folder, "bin", os.path.basename(program)), "")
    if not real or not os.path.isabs(home) or files.is_own(os.path.realpath(home)):
        return None
    if files.is_own(real) or os.path.realpath(home) != os.path.dirname(real):
        names = (_setting(settings, name) for name in ("executable", "base-executable"))
        beside = (os.path.join(home, name) for name in (os.path.basename(program), "python3"))
        others = [one for one in (*names, *beside) if os.path.isfile(one)]
        made_with = next((one for one in others if not files.is_own(os.path.realpath(one))), "")
        base = copy(real, home, made_with)
    spelled = os.path.dirname(os.path.dirname(program))
    return HeldEnvironment(
        program=program,
        base=base,
        home=home,
        has_system_packages=_setting(settings, "include-system-site-packages").lower() == "true",
        files={
            **files.kept,
            **{
                spelled + path[len(folder) :]: data
                for path, data in files.kept.items()
                if spelled != folder and path.startswith(folder + os.sep)
            },
        },
        names=files.names(),
        own=tuple(dict.fromkeys((*files.own, spelled))),
        digest=digest,
    )


class StartFiles:
    """Collects the files: each by its path below the project, and what it is there.

    Every method raises OSError, and FileTooLargeError where there is too much to compare at each
    start.

    copies     with ``copies`` all bytes that were read, by the path below the project
    programs   the digest of each program of the project by its real path
    ends       the real path of each program, where its links led when they were compared
    libraries  that of each shared library beside them, by its path
    """

    def __init__(self, project: str, *, keeps: bool = False, copies: bool = False) -> None:
        self._project = os.path.realpath(project)
        self._keeps, self._copies = keeps, copies
        self.copies: dict[str, bytes] = {}
        self.programs: dict[str, str] = {}
        self.ends: dict[str, str] = {}
        self.libraries: dict[str, str] = {}
        self.kept: dict[str, bytes] = {}
        self.own = [self._project]
        self._left = MAX_BYTES
        self._modules_in: dict[str, dict[str, list[str]]] = {}
        self._wanted = {"sitecustomize", "usercustomize"}
        self._seen: set[str] = set()
        self.found: dict[str, str] = {}

    def names(self) -> frozenset[str]:
        """The modules, in small letters, that may be imported at the start."""
        return frozenset(self._wanted)

    def digest(self) -> str:
        """One digest over all that is run at the start, of what was added."""
        self._add_modules()
        text = "".join(f"{name}\0{what}\n" for name, what in sorted(self.found.items()))
        return sha256_hex(text.encode("utf-8", "surrogateescape"))

    def add_environment(self, folder: str) -> None:
        """All that the Python of an environment runs at each start: (1) to (3)."""
        self._link(folder)
        self.own.append(os.path.realpath(folder))
        settings = (os.path.join(folder, *name) for name in (("bin", _SETTINGS), (_SETTINGS,)))
        for home in map(_home, [self._file(path) or b"" for path in settings]):
            self._library_of(home and os.path.join(self._project, home))
        for below in PROGRAM_FOLDERS:
            self.add_pythons(os.path.join(folder, below))
        self._site_folders_below(folder)
        if os.path.isdir(os.path.join(folder, "Scripts")):
            self._site_folder(folder)  # Windows: the folder itself is one

    def add_pythons(self, folder: str) -> None:
        """Each Python in a folder of programs, what steers it from there, and its library."""
        self._link(folder)
        names = _names(folder)
        pythons = [name for name in names if is_python(name)]
        for name in names:
            path = os.path.join(folder, name)
            if name in pythons:
                for place in self._program(path):
                    self._library_of(place)
                self._loaded_with(path)
            elif _affects_interpreter(name):
                self._any(path)
        if pythons:
            self._library_of(folder)

    def add_programs(self, folder: str) -> None:
        """Each program in a folder, and what those of them run that run files of others."""
        self._links_to(folder)
        if _pythons_in(folder):
            self.add_pythons(folder)
        for name in _names(folder):
            path = os.path.join(folder, name)
            if os.path.isdir(path):
                self._note(path, "folder")
                continue
            self._program(path)
            if is_runner(name):
                self._node_package(os.path.realpath(path))
                self._package_beside(folder, os.path.splitext(name)[0])

    def add_other_programs(self, folder: str) -> None:
        """The programs of an environment that are no Python."""
        for below in PROGRAM_FOLDERS:
            for name in _names(os.path.join(folder, below)):
                if not is_python(name):
                    self._program(os.path.join(folder, below, name))

    def _library_of(self, place: str) -> None:
        """The standard library that an interpreter in this folder finds, if it is the project's.

        It looks into the folder and each one above it.
        """
        for start in dict.fromkeys((os.path.abspath(place), os.path.realpath(place))):
            above = start
            while place and self.is_own(above) and self._is_new(f"library of {above}"):
                self._library_in(above)
                above = os.path.dirname(above)

    def _library_in(self, prefix: str) -> None:
        for libraries in (os.path.join(prefix, name) for name in _names(prefix) if _is_lib(name)):
            self._link(libraries)
            for below in _names(libraries):
                path = os.path.join(libraries, below)
                if not _has_python_name(below):
                    continue
                if below.endswith(".zip"):
                    self._file(path)
                elif _is_library(path):
                    self._tree(path, without=_SITE_FOLDERS)
            if _is_library(libraries):  # Windows: Lib itself
                self._tree(libraries, without=_SITE_FOLDERS)
        self._site_folders_below(prefix)

    def _site_folders_below(self, prefix: str) -> None:
        for top in (prefix, os.path.join(prefix, "local")):
            for place in (os.path.join(top, name) for name in _names(top) if _is_lib(name)):
                self._link(place)
                for folder in (place, *(os.path.join(place, name) for name in _names(place))):
                    if folder != place and not _has_python_name(os.path.basename(folder)):
                        continue
                    self._link(folder)
                    for name in _SITE_FOLDERS:
                        self._site_folder(os.path.join(folder, name))

    def _site_folder(self, folder: str) -> None:
        """A folder whose ``*.pth`` are run: step (2)."""
        if not os.path.isdir(folder):
            return
        self._link(folder)
        if not self._is_new(f"site {os.path.realpath(folder)}"):
            return
        self._module_folder(folder)
        for name in _names(folder):
            if name.lower().endswith(_START_ENDINGS):
                self._start_file(folder, os.path.join(folder, name))

    def _start_file(self, folder: str, path: str) -> None:
        for line in _lines(self._file(path) or b""):
            if "import" in line or path.lower().endswith(".start"):
                self._wanted.update(_NAME.findall(line.lower()))
            added = os.path.join(folder, line.strip().lstrip("\ufeff"))
            if line.strip() and "\0" not in line and self.is_own(os.path.realpath(added)):
                if os.path.isfile(added):
                    self._file(added)  # modules in an archive
                else:
                    self._module_folder(added)

    def _module_folder(self, folder: str) -> None:
        """A folder that modules are imported from."""
        if not os.path.isdir(folder):
            return
        self._link(folder)
        cache = f"{folder}/__pycache__"
        paths = [f"{folder}/{name}" for name in _names(folder)]
        modules: dict[str, list[str]] = {}
        for path in (*paths, *(f"{cache}/{name}" for name in _names(cache))):
            if not path.lower().endswith(_START_ENDINGS):
                modules.setdefault(_module_name(path), []).append(path)
        self._modules_in[folder] = modules

    def _add_modules(self) -> None:
        """Each module that is run at the start, in each folder that may have one."""
        done: set[str] = set()
        while self._wanted > done:
            new = sorted(self._wanted - done)
            done.update(new)
            for modules in self._modules_in.values():
                for path in (path for name in new for path in modules.get(name, ())):
                    if os.path.isdir(path):
                        self._tree(path, follows=True)
                    else:
                        self._file(path, follows=True)

    def _package_beside(self, folder: str, name: str) -> None:
        """The package that a script of pnpm starts: it is no link into it."""
        path = os.path.join(os.path.dirname(folder), name)
        if not os.path.islink(os.path.join(folder, name)) and os.path.isdir(path):
            self._link(path)
            self._node_package(os.path.realpath(path))

    def _node_package(self, program: str) -> None:
        """The package of a program, and what it depends on, as far as it lies in the project."""
        folder = program
        while self.is_own(folder) and not os.path.isfile(os.path.join(folder, "package.json")):
            folder = os.path.dirname(folder)
        if not self.is_own(folder) or folder == self._project or not self._is_new(folder):
            return
        self._link(folder)
        text = self._file(os.path.join(folder, "package.json")) or b""
        self._tree(folder, without=frozenset({"node_modules"}))
        try:
            said = json.loads(text)
            kinds = ("dependencies", "optionalDependencies", "peerDependencies")
            names = [name for kind in kinds for name in said.get(kind) or {}]
        except (ValueError, TypeError, AttributeError):
            return
        for name in names:
            above = folder
            while self.is_own(above):
                found = os.path.join(above, "node_modules", str(name))
                if os.path.isdir(found):
                    self._link(found)
                    self._node_package(os.path.realpath(found))
                    break
                above = os.path.dirname(above)

    def _program(self, path: str) -> list[str]:
        """Note a program, with each link to it; the folders on the way, less those outside."""
        folders, start = [], path
        for _ in range(_MAX_LINKS):
            self._link(path)
            if not os.path.islink(path):
                break
            folders.append(os.path.dirname(path))
            path = os.path.join(os.path.dirname(path), os.readlink(path))
            self._links_to(os.path.dirname(path))
        self.ends[start] = real = os.path.realpath(path)
        if not self.is_own(real):
            self._note(path, f"outside {real}")
            return folders
        self._file(path)
        self.programs[real] = self.found.get(self._shown(path), "").removeprefix("sha256 ")
        return [*folders, os.path.dirname(real)]

    def _loaded_with(self, program: str) -> None:
        """The shared libraries that a program of the project finds beside and above it."""
        folder, name = os.path.split(os.path.realpath(program))
        if not self.is_own(folder) or not os.path.isfile(os.path.join(folder, name)):
            return
        above = os.path.dirname(folder)
        libraries = (os.path.join(above, one) for one in _names(above) if _is_lib(one))
        for place, kind in (
            (folder, _affects_interpreter),
            *((one, _is_loaded) for one in libraries),
        ):
            for below in _names(place):
                if kind(below):
                    self._any(os.path.join(place, below))
                    self._note_library(os.path.join(place, below))

    def _note_library(self, path: str) -> None:
        what = self.found.get(self._shown(path), "")
        if _is_loaded(os.path.basename(path)) and what.startswith("sha256 "):
            self.libraries[path] = what.removeprefix("sha256 ")

    def _any(self, path: str) -> None:
        if os.path.isdir(path):
            self._tree(path)
        else:
            self._file(path)

    def _tree(
        self, folder: str, *, without: frozenset[str] = frozenset(), follows: bool = False
    ) -> None:
        """Each file in a folder and below; ``follows`` as in `_file`."""
        self._link(folder)
        if not self._is_new(f"tree {os.path.realpath(folder)}"):
            return
        for name in _names(folder):
            path = os.path.join(folder, name)
            if name in without:
                continue
            if os.path.isdir(path):
                self._tree(path, follows=follows)
            else:
                self._file(path, follows=follows)

    def _file(self, path: str, *, follows: bool = False) -> bytes | None:
        """Note a file by its bytes, which are given; None for no file, and for one noted before.

        ``follows`` says that what a Python source imports is run at the start as well.
        """
        self._link(path)
        if self.found.get(self._shown(path), "").startswith("sha256 "):
            return None
        try:
            data = read_bytes(Path(path), self._left)
        except FileNotFoundError:
            return None
        except FileSystemError as error:
            self._note(path, f"not read: {error.problem}")
            return None
        self._left -= len(data)
        self._note(path, f"sha256 {sha256_hex(data)}")
        if self._copies:
            self._copy(path, data)
        if self._keeps:
            self._keep(os.path.normpath(path), data)
        if follows and path.lower().endswith((".py", ".pyw")):
            self._wanted.update(imported_names(data))
        return data

    def _copy(self, path: str, data: bytes) -> None:
        shown = self._shown(path)
        self.copies[self._shown(os.path.realpath(path)) if shown[:3] == "../" else shown] = data

    def _links_to(self, folder: str) -> None:
        """Note each link on the way from the project to a folder, and the folder if it is one."""
        while folder.startswith(self._project + os.sep) and self._is_new(f"way {folder}"):
            self._link(folder)
            folder = os.path.dirname(folder)

    def _keep(self, path: str, data: bytes) -> None:
        """Keep what an import reads; of a library, which the system loads, that it was compared."""
        if path.endswith(_READ_BY_IMPORT):
            self.kept[path] = data
        elif _is_loaded(os.path.basename(path)):
            self.kept[path] = b""

    def _link(self, path: str) -> None:
        if os.path.islink(path):
            self._note(f"{path}@", f"link {os.readlink(path)}")

    def _note(self, path: str, what: str) -> None:
        self.found[self._shown(path)] = what
        if len(self.found) > MAX_FILES:
            raise FileTooLargeError(path, len(self.found), MAX_FILES)

    def _shown(self, path: str) -> str:
        if path.startswith(self._project + os.sep):
            path = path[len(self._project) + 1 :]  # much faster
            return path.replace(os.sep, "/")
        return os.path.relpath(path, self._project).replace(os.sep, "/")

    def is_own(self, path: str) -> bool:
        """True if a real path is in the project or in the environment."""
        return any(path == top or path.startswith(top + os.sep) for top in self.own)

    def _is_new(self, what: str) -> bool:
        is_new = what not in self._seen
        self._seen.add(what)
        return is_new


def imported_names(source: bytes) -> set[str]:
    """The modules that statements of a Python source may import, in small letters; a few more."""
    names: set[str] = set()
    source = source.removeprefix(b"\xef\xbb\xbf")
    if b"\r" in source:
        source = source.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    for found in _IMPORT.finditer(source):
        words = (found[1] or found[2]).decode("utf-8", "replace")
        if not words.isascii():
            import unicodedata

            words = unicodedata.normalize("NFKC", words)  # as Python does with names
        names.update(_NAME.findall(words.lower()))
    return names


def _names(folder: str) -> list[str]:
    """The names in a folder, none where there is no folder."""
    try:
        return sorted(os.listdir(folder))
    except (FileNotFoundError, NotADirectoryError):
        return []


def _pythons_in(folder: str) -> bool:
    return any(map(is_python, _names(folder)))


def _is_library(folder: str) -> bool:
    return any(os.path.lexists(os.path.join(folder, mark)) for mark in _MARKS)


def _is_lib(name: str) -> bool:
    return name.lower().startswith("lib")


def _home(settings: bytes) -> str:
    """The folder of the interpreter that an environment was made with; ``""`` for none."""
    return _setting(settings, "home")


def _setting(settings: bytes, name: str) -> str:
    """A value of ``pyvenv.cfg``, ``""`` for none."""
    for line in _lines(settings):
        key, equals, value = line.partition("=")
        if equals and key.strip().lower() == name:
            return value.strip()
    return ""


def _module_name(path: str) -> str:
    """The module that a file or a folder may be imported as, in small letters."""
    return os.path.basename(path).lower().partition(".")[0]


def _has_python_name(name: str) -> bool:
    return name.lower().startswith(_PYTHONS)


def _affects_interpreter(name: str) -> bool:
    """True if a file beside an interpreter steers it, or is what its loader takes from there."""
    small = name.lower()
    return small in _SETTINGS_BESIDE or small.endswith(("._pth", ".zip")) or _is_loaded(small)


def _is_loaded(name: str) -> bool:
    """True if a file is a shared library, or the folder of those for one kind of processor."""
    return name.endswith(_LIBRARIES) or ".so." in name or name == "glibc-hwcaps"


def _lines(data: bytes) -> list[str]:
    """The lines of a file as Python reads them: no other character ends one."""
    text = data.decode("utf-8", "surrogateescape")
    return text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
