"""Sets up the packages of an approved virtual environment, from the bytes that Rye has compared.

The Python that the environment was made with is started without ``site``; this does what ``site``
and ``pyvenv.cfg`` would do. ``*.pth``, ``sitecustomize`` and what they import come from the held
files; a file of such a name that was not compared is not imported. Executed by ``start.py``, under
the interpreter of the tool: it keeps to what Python 3.8 has.
"""

from __future__ import annotations

import _frozen_importlib_external as external
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


def set_up(start: Any, said: bytes) -> None:
    """Make this process one of the environment. ``start`` is the module of ``start.py``."""
    text = said.decode("utf-8", "surrogateescape")
    prefix, program, home, has_system_packages, names = text.split("\0")
    base = list(dict.fromkeys((sys.prefix, sys.exec_prefix)))
    sys.executable = program
    setattr(sys, "_home", home)  # noqa: B010 - as `site` does
    sys.prefix = sys.exec_prefix = prefix
    guard = Guard(start, frozenset(names.split()))
    guard.install()
    known = site.removeduppaths()
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


class Guard:
    """Knows the folders that modules of a start may come from, and the names of these modules."""

    def __init__(self, start: Any, names: frozenset[str]) -> None:
        self._start, self._names = start, names
        self._folders: list[str] = []

    def install(self) -> None:
        """From now on refuse modules of these names that were not compared."""
        read, create = self._start.read_held, external.ExtensionFileLoader.create_module

        def get_data(loader: Any, path: str) -> bytes:
            self._require_compared(os.path.normpath(str(path)))
            data: bytes = read(loader, path)
            return data

        def create_module(loader: Any, spec: Any) -> Any:
            self._require_compared(os.path.normpath(loader.path))
            return create(loader, spec)

        setattr(external.FileLoader, "get_data", get_data)  # noqa: B010 - a method
        setattr(external.ExtensionFileLoader, "create_module", create_module)  # noqa: B010

    def _require_compared(self, path: str) -> None:
        if path in self._start.files or not path.endswith(CODE_SUFFIXES):
            return
        for folder in self._folders:
            if path.startswith(folder + os.sep):
                parts = path[len(folder) + 1 :].split(os.sep)
                first = parts[1] if parts[0] == "__pycache__" and len(parts) > 1 else parts[0]
                if first.partition(".")[0].lower() in self._names:
                    raise PermissionError(EACCES, "not as it was approved: rye trust", path)

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
