"""Loads modules of the standard library from the one file that each of them is.

The ordinary finder asks the system for each folder of `sys.path` up to the right one, twice
for the file, and for the size of what it has opened. Which file a module is was asked of this
version of the interpreter when the program was packed. It is looked at once: where it is missing,
as in a library that is a zip file, the ordinary finders continue. Page: ``docs/building.md``.
"""

from __future__ import annotations

import os
import sys
from _frozen_importlib import ModuleSpec, module_from_spec
from _frozen_importlib_external import ExtensionFileLoader, SourceFileLoader
from _thread import RLock
from types import ModuleType

TYPE_CHECKING = False  # `typing` would cost more than everything else here
if TYPE_CHECKING:
    from typing import Any

CHUNK_BYTES = 1 << 17
"""More than nearly all modules have."""
LATE: dict[str, tuple[str, ...]] = {
    "ipaddress": (),
    "locale": (),
    "urllib.parse": ("quote_from_bytes",),
}
"""Modules that `subprocess` and `pathlib` import for functions that few runs call, at 3 ms a start.
They are loaded when they are used. The names are of functions that are imported by name.
"""
_COMPILED_FOLDERS = ("lib-dynload", "DLLs")


def spec_of(name: str, file: str) -> ModuleSpec | None:
    """The spec of a module; None where it is not in that file.

    ``file`` is its path below the library; ``""`` for a compiled module.
    """
    path = os.path.join(_FOLDER, file) if file else _compiled_path(name)
    try:
        status = os.stat(path)
    except OSError:
        return None
    loader = _SourceLoader(name, path, status) if file else ExtensionFileLoader(name, path)
    spec = ModuleSpec(name, loader, origin=path, is_package=file.endswith("__init__.py"))
    spec.has_location = True
    if spec.submodule_search_locations is not None:
        spec.submodule_search_locations.append(os.path.dirname(path))
    if name in LATE:
        late: Any = _LateLoader()
        return ModuleSpec(name, late, origin=path, loader_state=spec)
    return spec


class _SourceLoader(SourceFileLoader):
    """The interpreter's own loader of sources and their bytecode, with fewer questions.

    ``status`` is of the source; whether the bytecode is made from it is judged as always.
    """

    def __init__(self, name: str, path: str, status: os.stat_result) -> None:
        super().__init__(name, path)
        self._status = status

    def path_stats(self, path: str) -> dict[str, Any]:  # noqa: ARG002 - the protocol's
        """Time and size of the source."""
        return {"mtime": self._status.st_mtime, "size": self._status.st_size}

    def get_data(self, path: str) -> bytes:
        """The content of a file. Raises OSError."""
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_BINARY", 0))
        try:
            data = os.read(descriptor, CHUNK_BYTES)
            while more := os.read(descriptor, CHUNK_BYTES):
                data += more
            return data
        finally:
            os.close(descriptor)


class _LateLoader:
    """Loader of a module of `LATE`: its spec, in `loader_state`, is used when the module is."""

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """Stand-in for the module. Part of the loader protocol."""
        return _LateModule(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """Run nothing yet. Part of the loader protocol."""


class _LateModule(ModuleType):
    """Stands in for a module, which is loaded when the first of its attributes is wanted."""

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - as the module's
        if name in LATE[self.__name__] and self.__name__ not in _loaded:

            def late(*given: object, **named: object) -> object:
                return getattr(_load(self), name)(*given, **named)

            return late
        if name.startswith("__") and name != "__all__":
            raise AttributeError(name)  # asked of every module, by those who do not want this one
        return getattr(_load(self), name)


def _load(late: ModuleType) -> ModuleType:
    """The module that another one stands in for; who imports it from now on gets itself."""
    name = late.__name__
    with _lock:
        if name not in _loaded:
            spec: Any = vars(late)["__spec__"].loader_state
            module = _loaded[name] = module_from_spec(spec)
            try:
                spec.loader.exec_module(module)
            except BaseException:
                del _loaded[name]
                raise
            sys.modules[name] = module
        return _loaded[name]


def _compiled_path(name: str) -> str:
    """The path of a compiled module of the library, "" where it has no folder for them."""
    folders = (folder for folder in sys.path if os.path.basename(folder) in _COMPILED_FOLDERS)
    folder = next(folders, "")
    return folder and os.path.join(folder, name + _SUFFIX)


def _suffix() -> str:
    import _imp

    suffixes: list[str] = _imp.extension_suffixes()
    return suffixes[0] if suffixes else ""


_loaded: dict[str, ModuleType] = {}
_lock = RLock()
_FOLDER = os.path.dirname(getattr(os, "__file__", ""))
_SUFFIX = _suffix()
