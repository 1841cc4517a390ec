"""From an index to the running program: importers in place, then the entry point.

The index is what ``_rye/<interpreter>.idx`` holds, made by ``packing.indexes``. Page:
``docs/boot.md``.
"""

from __future__ import annotations

import os
import sys

from zipboot.importer import CodeImporter
from zipboot.parts import Part

TYPE_CHECKING = False  # `typing` would cost more than everything else here
if TYPE_CHECKING:
    from collections.abc import Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType
    from typing import Any
    from zipimport import zipimporter

    from zipboot.layout import Layout
    from zipboot.natives import Native, NativeImporter


class Program:
    """The archive that runs in this process."""

    def __init__(self, index: dict[str, Any], archive: zipimporter) -> None:
        self.archive = archive.archive
        self.natives = LateNatives(self, index["natives"].get(platform_key(), {}))
        self._index = index
        self._loader = archive
        self._layout: Layout | None = None

    def part(self, name: str) -> Part:
        """One of the parts that the index knows: code, native, bundle."""
        entry, mark, size = self._index["parts"][name]
        return Part(self._loader, entry, mark, size)

    def code_importer(self) -> CodeImporter:
        """What imports the modules packed for this version of the interpreter."""
        return CodeImporter(self._loader, self.part("code"), self._index["modules"])

    def locate(self) -> str:
        """The folder that holds the bundle's files; laid out now if it was not yet."""
        return self._bundle().folder()

    def restore(self, path: str) -> bool:
        """Write one file of the bundle anew; False for a path that is none of its files."""
        return self._bundle().restore(path)

    def _bundle(self) -> Layout:
        if self._layout is None:
            from zipboot.layout import Layout

            bundle = self._index["bundle"]
            self._layout = Layout(
                self.part("bundle"), bundle["name"], bundle["files"], bundle["anchors"]
            )
        return self._layout


class LateNatives:
    """Finder of packed compiled modules; the real one comes in when a name is asked for."""

    def __init__(self, running: Program, natives: dict[str, Native]) -> None:
        self._running = running
        self._natives = natives
        self.importer: NativeImporter | None = None

    def find_spec(
        self,
        name: str,
        path: Sequence[str] | None = None,  # noqa: ARG002 - the protocol's
        target: ModuleType | None = None,  # noqa: ARG002 - the protocol's
    ) -> ModuleSpec | None:
        """The spec of a packed compiled module, None for any other."""
        if name not in self._natives:
            return None
        if self.importer is None:
            from zipboot.natives import NativeImporter

            self.importer = NativeImporter(self._running.part("native"), self._natives)
        return self.importer.find_spec(name)

    def invalidate_caches(self) -> None:
        """Nothing is cached. Part of the finder protocol."""


program: Program | None = None


def run(index: dict[str, Any], archive: zipimporter) -> object:
    """Run the program with the code packed for this interpreter; its exit status."""
    running = Program(index, archive)
    sys.meta_path.insert(0, running.code_importer())
    return enter(running)


def enter(running: Program) -> object:
    """Run the entry point, wherever its module comes from; its exit status.

    Does not come back but for ``RYE_EXIT=normal``, see `zipboot.leave`.
    """
    global program  # noqa: PLW0603 - there is one archive to a process
    program = running
    sys.meta_path.insert(0, running.natives)
    if sys.path and sys.path[0] == running.archive:
        del sys.path[0]
    import gc

    gc.disable()  # nothing cyclic is worth collecting while importing; a server turns it on again
    from ryeos.cli.entry import main

    if os.environ.get("RYE_EXIT") == "normal":
        return main(bundle=running)
    try:
        status: object = main(bundle=running)
    except SystemExit as error:
        status = error.code
    from zipboot.leave import leave

    leave(status)
    return status


def platform_key() -> str:
    """What the index calls this interpreter: its own suffix of extension files.

    ABI, C library and processor are all in it, but for the processor on macOS.
    """
    import _imp

    suffixes = _imp.extension_suffixes()
    key = suffixes[0] if suffixes else ""
    return f"{key}:{os.uname().machine}" if sys.platform == "darwin" else key
