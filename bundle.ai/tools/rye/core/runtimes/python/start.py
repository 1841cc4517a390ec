"""Starts Python for Rye: what is imported from verified folders are bytes that Rye has read.

Executed by ``python -c`` (``PYTHON_START`` in ``ryeos/run/held.py``), never opened by its path.
What `hold` gets are the files of the run, read from a file without a name that nothing can change.
In a folder that was verified, and in folders of tools anywhere, nothing else can be imported: no
file that came later, no extension, no bytecode. This file runs under the interpreter of the tool,
so it keeps to what Python 3.8 has.
"""

import _frozen_importlib_external as external  # always loaded; `importlib.machinery` may not be
import os
import sys
from _frozen_importlib import ModuleSpec
from errno import EACCES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from types import ModuleType, TracebackType
    from typing import Any

__version__ = "1.0.0"
__tool_type__ = "library"
__executor_id__ = None
__category__ = "rye/core/runtimes/python"
__description__ = "Starts Python for a tool, with the verified bytes of its modules"

SOURCE, INITIAL = ".py", "__init__.py"
CODE_SUFFIXES = (SOURCE, ".pyw", ".pyc", *external.EXTENSION_SUFFIXES)

TOOLS = os.sep.join(("", ".ai", "tools", ""))  # in the path of every tool, of any space
NOT_HELD = "not among the verified files of this tool"

ENVIRONMENT = "rye:environment"  # the key of what sets up an approved virtual environment

# Variables of the environment that an interpreter would act upon at its own start are set later.
files: "dict[str, bytes]" = {}  # by path
folders: "dict[str, str]" = {}  # the real path of each verified folder by the path that names it
variables: "dict[str, str]" = {}
module_folders: "list[str]" = []  # their modules are held files, and no others
later = b""  # the last part of this file, which is compiled when it is needed


def hold(packed: bytes) -> None:
    """Take over the files of a run: two numbers, the starter, an index, then the bytes."""
    numbers, _, rest = packed.partition(b"\n")
    at, size = map(int, numbers.split())
    index = rest[at : at + size].decode("utf-8", "surrogateescape").split("\0")
    at += size
    for kind, name, value in zip(index[::3], index[1::3], index[2::3]):
        if kind == "file":
            files[name] = rest[at : at + int(value)]
            at += int(value)
        elif kind == "folder":
            folders[name] = folders[value] = value
        elif kind == "modules":
            module_folders.append(name)
        else:
            variables[name] = value


def begin() -> None:
    """Let modules of the held files be imported, ahead of all others."""
    sys.excepthook = _show_error
    os.environ.update(variables)
    listed = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    first = [entry for entry in dict.fromkeys(listed) if entry]
    sys.path[:] = first + [entry for entry in sys.path if entry not in first]
    if folders:
        sys.path_hooks.insert(0, _finder)
        if LastFinder not in sys.meta_path:
            sys.meta_path.append(LastFinder)
    if module_folders:
        at = sys.meta_path.index(external.PathFinder) if external.PathFinder in sys.meta_path else 0
        sys.meta_path.insert(at, _with_finders()["HeldModules"])
    # Once: an approved environment has a check of its own around these.
    if (folders or module_folders) and external.FileLoader.get_data is _get_data_from_disk:
        setattr(external.FileLoader, "get_data", read_held)  # noqa: B010 - a method
        setattr(external.ExtensionFileLoader, "create_module", load_extension)  # noqa: B010 - too
    code = files.pop(ENVIRONMENT, None)
    if code is not None:
        given = {"start": sys.modules[__name__], "said": files.pop(f"{ENVIRONMENT}.said")}
        exec(compile(code, "environment.py", "exec"), given)  # noqa: S102 - of the bundle


def _show_error(
    kind: "type[BaseException]", error: BaseException, trace: "TracebackType | None"
) -> None:
    """Show what ended the tool as Python does, from the first frame of the tool on."""
    while trace is not None and trace.tb_frame.f_code.co_filename == "<string>":
        trace = trace.tb_next  # what `python -c` has executed
    error.__traceback__ = trace
    sys.__excepthook__(kind, error, trace)


def held_bytes(path: str) -> "bytes | None":
    """The verified bytes of a file; None for one that was not verified."""
    if path in files:
        return files[path]
    return files.get(_real(path) or "")


def _real(path: str) -> "str | None":
    """The path as the files are named, for one in a verified folder; None for any other."""
    for folder, real in folders.items():
        if path.startswith(folder) and path[len(folder) : len(folder) + 1] in ("", os.sep):
            return real + path[len(folder) :]
    return None


def _is_governed(path: str) -> bool:
    """Whether a folder or a file is where everything must be verified."""
    return not _is_installed(path) and (_real(path) is not None or _is_of_tools(path))


def _is_of_tools(path: str) -> bool:
    """Whether it lies below ``.ai/tools`` of any space, by its path or by that of what it links."""
    return any(TOOLS in f"{of(path)}{os.sep}".lower() for of in (os.path.abspath, os.path.realpath))


_get_data_from_disk = external.FileLoader.get_data
_load_extension = external.ExtensionFileLoader.create_module


def load_extension(self: external.ExtensionFileLoader, spec: ModuleSpec) -> "ModuleType":
    """A compiled module, which no tool has among its verified files."""
    path = os.path.normpath(str(self.path))
    if _is_governed(path):
        raise ImportError(_with_finders()["advice"](path), name=spec.name, path=path)
    return _load_extension(self, spec)


class LastFinder:
    """Finds nothing: it raises an error that names the file, where one was not verified."""

    @staticmethod
    def find_spec(
        fullname: str, path: "Iterable[str] | None" = None, _target: object = None
    ) -> None:
        """As `require_verified` has it."""
        _with_finders()["require_verified"](fullname, path)


def read_held(self: external.FileLoader, path: str) -> bytes:
    """What a loader reads of a file: the held bytes, and in their folders no code but these."""
    path = os.path.normpath(str(path))
    data = held_bytes(path)
    if data is not None:
        return data
    if path.endswith(CODE_SUFFIXES) and _is_governed(path):
        # An OSError, which for bytecode means that there is none.
        raise PermissionError(EACCES, NOT_HELD, path)
    if path.endswith(".pyc") and _source_of(path) in files:
        raise PermissionError(EACCES, "bytecode of a held file", path)
    read: bytes = _get_data_from_disk(self, path)
    return read


def _source_of(path: str) -> str:
    """The source that a file of bytecode is of, by its place; ``""`` for any other place."""
    try:
        return external.source_from_cache(path)
    except (ValueError, NotImplementedError):
        return ""


def _is_installed(path: str) -> bool:
    """Whether it is part of the standard library, or of packages of a virtual environment."""
    library = os.path.dirname(os.__file__)
    inside = library[len(sys.base_prefix) :] if library.startswith(sys.base_prefix) else None
    places = [library] if inside is None else [library, sys.prefix + inside]
    return any(f"{path}{os.sep}".startswith(one + os.sep) for one in places)


def _finder(folder: str) -> "HeldFinder":
    """A path hook: what finds the modules of a verified folder. Raises ImportError for others."""
    folder = os.path.abspath(folder)
    if not _is_governed(folder):
        raise ImportError(f"{folder} is no verified folder", path=folder)
    finder: HeldFinder = _with_finders()["HeldFinder"](folder)
    return finder


def _with_finders() -> "dict[str, Any]":
    """The names of this module, with those of its last part."""
    names = globals()
    if "HeldFinder" not in names:
        exec(compile(later, "<start.py>", "exec"), names)  # noqa: S102 - the rest of this file
    return names


# Compiled when a verified folder is first searched: most tools are one file.


class HeldFinder:
    """Finds the modules of one verified folder.

    A loader of Python itself makes the modules, so that all that works with files works with them;
    what it reads comes from the held files, see `read_held`.
    """

    def __init__(self, folder: str) -> None:
        self.path = folder

    def find_spec(self, fullname: str, _target: object = None) -> "ModuleSpec | None":
        """The spec of a held module, package, or folder without ``__init__.py``."""
        base = os.path.join(self.path, fullname.rpartition(".")[2])
        initial = os.path.join(base, INITIAL)
        for path, searched in ((initial, [base]), (base + SOURCE, None)):
            if held_bytes(path) is not None:
                loader = external.SourceFileLoader(fullname, path)
                return external.spec_from_file_location(
                    fullname, path, loader=loader, submodule_search_locations=searched
                )
        if not os.path.isdir(base) or os.path.isfile(initial):
            return None
        spec = ModuleSpec(fullname, None)
        spec.submodule_search_locations = [base]
        return spec

    def iter_modules(self, prefix: str = "") -> "Iterator[tuple[str, bool]]":
        """The names of the modules in the folder, as `pkgutil` asks for them."""
        start = (_real(self.path) or self.path) + os.sep
        below = [path[len(start) :].split(os.sep) for path in files if path.startswith(start)]
        packages = {parts[0] for parts in below if parts[1:] == [INITIAL]}
        sources = [parts[0] for parts in below if len(parts) == 1 and parts[0].endswith(SOURCE)]
        modules = {name[: -len(SOURCE)] for name in sources if name != INITIAL}
        for name in sorted(packages | modules):
            yield prefix + name, name in packages


class HeldModules:
    """Finds the modules beside a program: held files. What else lies there cannot be imported."""

    @staticmethod
    def find_spec(
        fullname: str, path: object = None, _target: object = None
    ) -> "ModuleSpec | None":
        """The spec of a held module, package, or folder without ``__init__.py``."""
        for folder in module_folders if path is None else ():
            base = os.path.join(folder, fullname)
            for found, searched in ((os.path.join(base, INITIAL), [base]), (base + SOURCE, None)):
                if found in files:
                    loader = external.SourceFileLoader(fullname, found)
                    return external.spec_from_file_location(
                        fullname, found, loader=loader, submodule_search_locations=searched
                    )
            if any(one.startswith(base + os.sep) for one in files):
                spec = ModuleSpec(fullname, None)
                spec.submodule_search_locations = [base]
                return spec
        return None


def require_verified(fullname: str, path: "Iterable[str] | None" = None) -> None:
    """Raise an error that names the file of a module that nothing has found, if there is one."""
    name = fullname.rpartition(".")[2]
    for folder in dict.fromkeys([*sys.path, *folders] if path is None else path):
        base = os.path.join(os.path.abspath(folder), name)
        for found in (os.path.join(base, INITIAL), *(base + one for one in CODE_SUFFIXES)):
            if os.path.isfile(found) and _is_governed(found):
                raise ModuleNotFoundError(advice(found), name=fullname, path=found)


def advice(path: str) -> str:
    """Why a module is not loaded, and what would let it be."""
    return (
        f"{path} is {NOT_HELD}: add __init__.py beside the tool, or in a folder of .ai/tools above "
        f"both, and sign that folder: rye sign FOLDER"
    )
