"""Sets up the packages of an approved virtual environment, from the bytes that Rye has compared.

The Python that the environment was made with is started without ``site``; this does what ``site``
and ``pyvenv.cfg`` would do. ``*.pth``, ``sitecustomize`` and what they import come from the held
files; a file of such a name that was not compared is not imported. While they run, no code of
project or environment is read that was not compared, however it is asked for: by an import, by a
loader, by `open`; and no entry points. Data may be read, and what lies outside of both. Executed by
``start.py``, under the interpreter of the tool: it keeps to what Python 3.8 has.
"""

from __future__ import annotations

import _frozen_importlib_external as external
import _io
import builtins
import io
import os
import site
import sys
from errno import EACCES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__version__ = "1.0.0"
__tool_type__ = "library"
__executor_id__ = None
__category__ = "rye/core/runtimes/python"
__description__ = "Sets up an approved virtual environment from compared bytes"

CODE_SUFFIXES = (".py", ".pyw", ".pyc", *external.EXTENSION_SUFFIXES)
# What is read by its name at a start and decides what runs, besides modules.
STEERING = (".pth", ".start", ".zip", ".egg", ".whl", ".pyz", "entry_points.txt")
CODE_AND_STEERING = (*CODE_SUFFIXES, *STEERING)
ADVICE = (
    "not among what was compared of this environment, so its start may not load it: import it by a "
    "statement, import NAME, in the module that needs it at the start, then: rye trust"
)
OPENS = ((builtins, "open"), (io, "open"), (io, "open_code"), (_io, "open"), (_io, "open_code"))
READ = frozenset({"r", "rb", "rt", "br", "tr"})


def set_up(start: Any, said: bytes) -> None:
    """Make this process one of the environment. ``start`` is the module of ``start.py``."""
    text = said.decode("utf-8", "surrogateescape")
    prefix, program, home, has_system_packages, names, *own = text.split("\0")
    base = list(dict.fromkeys((sys.prefix, sys.exec_prefix)))
    sys.executable = program
    setattr(sys, "_home", home)  # noqa: B010 - as `site` does
    sys.prefix = sys.exec_prefix = prefix
    guard = Guard(start, frozenset(names.split()), own)
    guard.install()
    known = site.removeduppaths()
    try:
        add_packages(guard, prefix, base, known, has_system_packages=bool(has_system_packages))
    finally:
        guard.end_start()


def add_packages(
    guard: Guard, prefix: str, base: list[str], known: set[str], *, has_system_packages: bool
) -> None:
    """Add the folders of packages, and run what runs at each start."""
    for folder in site.getsitepackages([prefix]):
        guard.add_folder(folder, known)
    if has_system_packages:
        site.PREFIXES.insert(0, prefix)
        site.ENABLE_USER_SITE = site.check_enableusersite()
        known = site.addusersitepackages(known)
        site.addsitepackages(known, base)
    else:
        site.PREFIXES = [prefix]
        site.ENABLE_USER_SITE = False
    site.setquit()
    site.setcopyright()
    site.sethelper()
    site.execsitecustomize()
    if site.ENABLE_USER_SITE:
        site.execusercustomize()


class Opening:
    """A function that opens files, as it is called during the start.

    An object, for it may be kept as an attribute of a class, where a function would be a method.
    """

    def __init__(self, guard: Guard, original: Any) -> None:
        self.guard, self.original = guard, original
        self.mode = "r" if original is builtins.open else "rb"

    def __call__(self, *args: Any, **named: Any) -> Any:
        """The compared bytes of a held file, an error for other code, else as the original."""
        file = args[0] if args else named.get("file", named.get("path"))
        if self.guard.is_starting and not isinstance(file, int):
            others = {name: value for name, value in named.items() if name not in ("file", "path")}
            mode = () if len(args) > 1 or "mode" in others else (self.mode,)
            opened = self._compared(file, *args[1:], *mode, **others)
            if opened is not None:
                return opened
        return self.original(*args, **named)

    def _compared(  # noqa: PLR0917 - as `open` has them
        self,
        file: Any,
        mode: str,
        buffering: int = -1,  # noqa: ARG002
        encoding: str | None = None,
        errors: str | None = None,
        newline: str | None = None,
        *_more: Any,
        **_named: Any,
    ) -> Any:
        path = os.path.abspath(os.fsdecode(file))
        if self.guard.is_refused(path):
            raise PermissionError(EACCES, ADVICE, path)
        data = self.guard.compared_bytes(path) if mode in READ else None
        if data is None:
            return None
        opened = io.BytesIO(data)
        return opened if "b" in mode else io.TextIOWrapper(opened, encoding, errors, newline)


class Guard:
    """Knows the folders that modules of a start may come from, and the names of these modules.

    own  the folders of which nothing but compared code is read during the start
    """

    def __init__(self, start: Any, names: frozenset[str], own: list[str]) -> None:
        self._start, self._names = start, names
        self._folders: list[str] = []
        self._own = tuple(one.rstrip(os.sep) + os.sep for one in own)
        self._library = os.path.dirname(os.__file__) + os.sep
        self.is_starting = True
        self._opens = [
            (module, name, Opening(self, getattr(module, name)))
            for module, name in OPENS
            if hasattr(module, name)
        ]

    def install(self) -> None:
        """From now on refuse modules of these names that were not compared."""
        read, create = self._start.read_held, external.ExtensionFileLoader.create_module

        def get_data(loader: Any, path: str) -> bytes:
            path = os.path.normpath(str(path))
            self._require_compared(path)
            if self.is_starting:
                self._require_held(loader, path)
            data: bytes = read(loader, path)
            return data

        def create_module(loader: Any, spec: Any) -> Any:
            path = os.path.normpath(loader.path)
            self._require_compared(path)
            if self.is_starting:
                self._require_held(loader, path)
            return create(loader, spec)

        setattr(external.FileLoader, "get_data", get_data)  # noqa: B010 - a method
        setattr(external.ExtensionFileLoader, "create_module", create_module)  # noqa: B010
        for module, name, opening in self._opens:
            setattr(module, name, opening)

    def end_start(self) -> None:
        """From now on it is the tool that imports and opens files."""
        self.is_starting = False
        for module, name, opening in self._opens:
            if getattr(module, name) is opening:
                setattr(module, name, opening.original)

    def _require_compared(self, path: str) -> None:
        if path in self._start.files or not path.endswith(CODE_SUFFIXES):
            return
        for folder in self._folders:
            if path.startswith(folder + os.sep):
                parts = path[len(folder) + 1 :].split(os.sep)
                first = parts[1] if parts[0] == "__pycache__" and len(parts) > 1 else parts[0]
                if first.partition(".")[0].lower() in self._names:
                    raise PermissionError(EACCES, "not as it was approved: rye trust", path)

    def _require_held(self, loader: Any, path: str) -> None:
        """Refuse what a loader reads at the start, if it is code that was not compared."""
        is_module = path == os.path.normpath(str(loader.path))
        if not self.is_refused(path, is_code=is_module):
            return
        if path.endswith(".pyc"):
            raise PermissionError(EACCES, ADVICE, path)  # to its source: there is no bytecode
        raise ImportError(f"{path}: {ADVICE}", path=path)  # without a name: `site` hides others

    def is_refused(self, path: str, *, is_code: bool = False) -> bool:
        """Whether a file is code of project or environment that was not compared."""
        if self.compared(path) or path.startswith(self._library):
            return False
        real = os.path.realpath(path)
        if self.compared(real) or not (path.startswith(self._own) or real.startswith(self._own)):
            return False
        return is_code or any(one.lower().endswith(CODE_AND_STEERING) for one in (path, real))

    def compared(self, path: str) -> bool:
        """Whether a file is among the held ones."""
        return path in self._start.files

    def compared_bytes(self, path: str) -> bytes | None:
        """The bytes that were compared of a file; None where it is not held, or held by name."""
        files = self._start.files
        if path.startswith(self._library):
            return None
        data: bytes | None = files.get(path) or files.get(os.path.realpath(path))
        return data

    def add_folder(self, folder: str, known: set[str]) -> None:
        """Add a folder of packages, and do what its held ``*.pth`` say."""
        folder, case = site.makepath(folder)
        if not os.path.isdir(folder):
            return
        self._folders.append(folder)
        if case not in known:
            sys.path.append(folder)
            known.add(case)
        for path in sorted(self._start.files):
            name = os.path.basename(path)
            is_hidden = name.startswith(".") and sys.version_info >= (3, 13)
            if path.endswith(".pth") and os.path.dirname(path) == folder and not is_hidden:
                self._add_package(folder, name, self._start.files[path], known)

    def _add_package(self, sitedir: str, name: str, data: bytes, known_paths: set[str]) -> None:
        """Execute the lines of one file; some of them ask for ``sitedir`` of their caller."""
        try:
            text = data.decode("utf-8-sig")
        except UnicodeDecodeError:
            text = data.decode("latin-1")
        lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
        for number, line in enumerate(lines, 1):
            if line.startswith("#") or not line.strip():
                continue
            try:
                if line.startswith(("import ", "import\t")):
                    exec(line)  # noqa: S102 - what an approved .pth says
                    continue
                added, case = site.makepath(sitedir, line.rstrip())
                if case not in known_paths and os.path.exists(added):
                    self._folders.append(added)
                    sys.path.append(added)
                    known_paths.add(case)
            except Exception as error:  # noqa: BLE001 - as `site`: one file less
                where = f"{os.path.join(sitedir, name)}, line {number}"
                sys.stderr.write(f"{where}: {type(error).__name__}: {error}\n")
                return


set_up(start, said)  # type: ignore[name-defined] # noqa: F821 - given by start.py
