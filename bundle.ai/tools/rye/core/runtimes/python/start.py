"""Starts Python for Rye: what is imported from verified folders are bytes that Rye has read.

Executed by ``python -c`` (``PYTHON_START`` in ``ryeos/run/held.py``), never opened by its path.
What `hold` gets are the files of the run, read from a file without a name that nothing can change.
In a folder that was verified nothing else can be imported: no file that came later, no extension,
no bytecode. This file runs under the interpreter of the tool, so it keeps to what Python 3.8 has.
"""

import _frozen_importlib_external as external  # always loaded; `importlib.machinery` may not be
import os
import sys
from _frozen_importlib import ModuleSpec
from errno import EACCES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

__version__ = "1.0.0"
__tool_type__ = "library"
__executor_id__ = None
__category__ = "rye/core/runtimes/python"
__description__ = "Starts Python for a tool, with the verified bytes of its modules"

SOURCE, INITIAL = ".py", "__init__.py"
CODE_SUFFIXES = (SOURCE, ".pyw", ".pyc", *external.EXTENSION_SUFFIXES)

# Variables of the environment that an interpreter would act upon at its own start are set later.
files: "dict[str, bytes]" = {}  # by path
folders: "dict[str, str]" = {}  # the real path of each verified folder by the path that names it
variables: "dict[str, str]" = {}
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
        else:
            variables[name] = value


def begin() -> None:
    """Let modules of the held files be imported, ahead of all others."""
    os.environ.update(variables)
    listed = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    first = [entry for entry in dict.fromkeys(listed) if entry]
    sys.path[:] = first + [entry for entry in sys.path if entry not in first]
    if folders:
        sys.path_hooks.insert(0, _finder)
        setattr(external.FileLoader, "get_data", _get_data)  # noqa: B010 - a method


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
    return _real(path) is not None and not _is_installed(path)


_get_data_from_disk = external.FileLoader.get_data


def _get_data(self: external.FileLoader, path: str) -> bytes:
    """What a loader reads of a file: the held bytes, and in their folders no code but these."""
    path = os.path.normpath(str(path))
    data = held_bytes(path)
    if data is not None:
        return data
    if path.endswith(CODE_SUFFIXES) and _is_governed(path):
        # An OSError, which for bytecode means that there is none.
        raise PermissionError(EACCES, "not among the verified files of this tool", path)
    read: bytes = _get_data_from_disk(self, path)
    return read


def _is_installed(path: str) -> bool:
    """Whether it is part of the standard library, or of packages of a virtual environment."""
    library = os.path.dirname(os.__file__)
    inside = library[len(sys.base_prefix) :] if library.startswith(sys.base_prefix) else None
    places = [library] if inside is None else [library, sys.prefix + inside]
    return any(f"{path}{os.sep}".startswith(one + os.sep) for one in places)


def _finder(folder: str) -> "HeldFinder":
    """A path hook: what finds the modules of a verified folder. Raises ImportError for others."""
    folder = os.path.normpath(folder)
    if not _is_governed(folder):
        raise ImportError(f"{folder} is no verified folder", path=folder)
    if "HeldFinder" not in globals():
        exec(compile(later, "<start.py>", "exec"), globals())  # noqa: S102 - the rest of this file
    return HeldFinder(folder)


# --- finder
# Compiled when a verified folder is first searched: most tools are one file.


class HeldFinder:
    """Finds the modules of one verified folder.

    A loader of Python itself makes the modules, so that all that works with files works with them;
    what it reads comes from the held files, see `_get_data`.
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
        if not os.path.isdir(base):
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
