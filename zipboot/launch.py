"""From an index to the running program: importers in place, then the entry point.

The index is what ``_rye/<interpreter>.idx`` holds, made by ``packing.parts``. Page:
``docs/boot.md``.
"""

from __future__ import annotations

import os
import sys

from zipboot.importer import SOURCES, CodeImporter
from zipboot.parts import Part

TYPE_CHECKING = False  # `typing` would cost more than everything else here
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType
    from typing import Any
    from zipimport import zipimporter

    from zipboot.layout import Layout
    from zipboot.natives import Native

USAGE = 2
SETTINGS = {
    "RYE_BOOT": ("auto", "shiv"),
    "RYE_NATIVE": ("auto", "cache", "memfd", "temp", "off"),
    "RYE_EXIT": ("fast", "normal"),
}
GARBAGE_THRESHOLD = 100_000
"""New objects between two collections: no start makes so many, and a long run still collects."""


class Program:
    """The archive that runs in this process, and what it holds besides code."""

    def __init__(self, index: dict[str, Any], archive: zipimporter, way: str) -> None:
        self.archive = archive.archive
        self.way = way
        self._index = index
        self._loader = archive
        self._layout: Layout | None = None
        self._code: Part | None = None
        self.natives = Natives(self, index["natives"].get(platform_key(), {}))

    def part(self, name: str) -> Part:
        """One of the parts that the index knows: ``code``, ``native``, ``bundle``."""
        entry, mark, size = self._index["parts"][name]
        return Part(self._loader, entry, mark, size)

    def code_importer(self) -> CodeImporter:
        """What imports the modules packed for this version of the interpreter."""
        self._code = self.part("code")
        return CodeImporter(self._loader, self._code, self._index["modules"])

    def hold(self) -> None:
        """Keep all code in memory: for a server, whose file may be written over while it runs."""
        if self._code is not None:
            self._code.hold()

    def locate(self) -> str:
        """The folder that holds the bundle's files; laid out now if it was not yet.

        Raises OSError where nothing can be written.
        """
        return self._bundle().folder()

    def restore(self, path: str) -> bool:
        """Write one file of the bundle anew; False for a path that is none of its files."""
        return self._bundle().restore(path)

    def bundle_files(self) -> tuple[str, ...]:
        """The paths of the bundle's files, with ``/``, whether they are laid out or not."""
        return tuple(self._index["bundle"]["files"])

    def bundle_file(self, path: str) -> bytes:
        """One of them as the archive has it."""
        return self._bundle().content(path)

    def sources(self) -> bytes:
        """A zip file with the sources of all modules, and the licences of the libraries."""
        return self._loader.get_data(SOURCES)

    def cache(self) -> str | None:
        """The folder for what can be made again, which may not be there; None without a home."""
        from zipboot.places import cache_root

        return cache_root(os.environ, sys.platform)

    def kept(self) -> list[str]:
        """Everything of ours in that folder, whichever build of this program made it."""
        from zipboot.kept import kept_in
        from zipboot.places import KINDS

        root = self.cache()
        folders = [os.path.join(root, kind) for kind in KINDS] if root else []
        return [path for folder in folders if os.path.isdir(folder) for path in kept_in(folder)]

    def remove(self, path: str) -> None:
        """Remove one of these. Raises OSError when some of it is left."""
        from zipboot.kept import remove

        remove(path)

    def _bundle(self) -> Layout:
        if self._layout is None:
            from zipboot.layout import Layout

            bundle = self._index["bundle"]
            self._layout = Layout(
                self.part("bundle"), bundle["name"], bundle["files"], bundle["anchors"]
            )
        return self._layout


class Natives:
    """Finder of the compiled modules that are packed for this interpreter.

    What loads one is imported when the first is asked for. ``loaded`` is from where each came,
    ``problems`` why one did not.
    """

    def __init__(self, program: Program, entries: dict[str, Native]) -> None:
        self._program = program
        self._part: Part | None = None
        self.entries = entries
        self.loaded: dict[str, str] = {}
        self.problems: dict[str, str] = {}

    def part(self) -> Part:
        """What they are read from."""
        if self._part is None:
            self._part = self._program.part("native")
        return self._part

    def find_spec(
        self,
        name: str,
        path: Sequence[str] | None = None,  # noqa: ARG002 - the protocol's
        target: ModuleType | None = None,  # noqa: ARG002 - the protocol's
    ) -> ModuleSpec | None:
        """The spec of a packed compiled module, None for any other."""
        if name not in self.entries:
            return None
        from zipboot.natives import spec_of

        return spec_of(name, self)

    def invalidate_caches(self) -> None:
        """Nothing is cached. Part of the finder protocol."""


program: Program | None = None


def run(index: dict[str, Any], archive: zipimporter) -> object:
    """Run the program with the code packed for this interpreter; its exit status."""
    running = Program(index, archive, "code")
    sys.meta_path.insert(0, running.code_importer())
    return enter(running)


def enter(running: Program) -> object:
    """Run the entry point, wherever its module comes from; its exit status.

    Does not come back but for ``RYE_EXIT=normal``, see `zipboot.leave`.
    """
    global program  # noqa: PLW0603 - there is one archive to a process
    program = running
    problem = wrong_setting(os.environ)
    if problem:
        sys.stderr.write(f"error: {problem}\n")
        return USAGE
    sys.meta_path.insert(0, running.natives)
    if sys.path and sys.path[0] == running.archive:
        del sys.path[0]
    import gc

    gc.set_threshold(GARBAGE_THRESHOLD)
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


def wrong_setting(environ: Mapping[str, str]) -> str:
    """What is wrong with a variable that this program's start reads; ``""`` if nothing is."""
    for name, choices in SETTINGS.items():
        value = environ.get(name)
        if value and value not in choices:
            return f"{name}: expected one of {', '.join(choices)}, found {value!r}"
    return ""


def platform_key() -> str:
    """What the index calls this interpreter: its own suffix of extension files.

    ABI, C library and processor are all in it, but for the processor on macOS.
    """
    import _imp

    suffixes = _imp.extension_suffixes()
    key = suffixes[0] if suffixes else ""
    return f"{key}:{os.uname().machine}" if sys.platform == "darwin" else key
