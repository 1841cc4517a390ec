"""From an index to the running program: importers in place, then the entry point.

The index is what ``_rye/<interpreter>.idx`` holds, made by ``packing.archive``. Page:
``docs/building.md``.
"""

from __future__ import annotations

import os
import sys

from zipboot.importer import SOURCES, CodeImporter
from zipboot.parts import Archive, Part

TYPE_CHECKING = False  # importing typing costs more than this start may take

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
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
    """The archive that runs in this process, and what it holds besides code.

    ``way`` is how it was started: ``code`` that is packed, or sources that ``shiv`` unpacked.
    """

    def __init__(self, index: dict[str, Any], loader: zipimporter, way: str) -> None:
        self.archive = loader.archive
        self.way = way
        self._file = Archive(loader)
        self._index = index
        self._bundle: Layout | None = None
        self._code: CodeImporter | None = None
        self._programs: str | None = None
        self.natives = Natives(self._part("native"), index["natives"].get(platform_key(), {}))

    def code_importer(self) -> CodeImporter:
        """Importer of the modules packed for this version of the interpreter."""
        if self._code is None:
            code, blocks = self._part("code"), self._index["blocks"]
            self._code = CodeImporter(self._file, code, self._index["modules"], blocks)
        return self._code

    def keep_code(self) -> None:
        """Keep the code in memory from now on: for a server, before it answers anything."""
        if self._code:
            self._code.keep()

    def hold(self) -> None:
        """Keep in memory what may still be read: for a server, whose file may be written over."""
        if self._code:
            self._code.hold()
        self.natives.hold()
        self.bundle.hold()

    @property
    def is_written_over(self) -> bool:
        """True if its file holds something else by now: to start it again would run that."""
        return self._file.is_written_over

    @property
    def bundle(self) -> Layout:
        """The files of the bundle, as they are packed, and as they are laid out on disk."""
        if self._bundle is None:
            from zipboot.layout import Layout

            bundle = self._index["bundle"]
            self._bundle = Layout(
                self._part("bundle"), bundle["name"], bundle["files"], bundle["anchors"]
            )
        return self._bundle

    def locate(self) -> str:
        """The folder that holds the bundle's files; laid out now if it was not yet.

        Raises OSError where nothing can be written.
        """
        return self.bundle.folder()

    def restore(self, path: str) -> bool:
        """Write one file of the bundle anew; False for an invalid path of its files."""
        return self.bundle.restore(path)

    def vouches(self, path: str, data: bytes) -> bool:
        """True if this is the content of a file of the bundle, as it is packed."""
        return self.bundle.names(path, data)

    def programs(self) -> str | None:
        """A folder with ``lillux-proc`` and ``lillux-watch`` for tools, or None.

        The compiled ones once one of them was used, see `compiled_program`.
        """
        if self._programs is None:
            from zipboot.programs import folder

            packed = self._index["programs"].get(platform_name())
            self._programs = folder(self.archive, packed) or ""
        return self._programs or None

    def compiled_program(self, name: str) -> str | None:
        """The path of one of them as it is packed for this machine; None where it is not."""
        from zipboot.programs import compiled

        packed = self._index["programs"].get(platform_name())
        return compiled(self._part("programs"), packed, name) if packed else None

    def program_files(self) -> Iterator[tuple[str, bytes]]:
        """File names and contents of the programs that are packed for this machine, if any are.

        Raises OSError when they are damaged, ImportError in a Python without LZMA.
        """
        packed = self._index["programs"].get(platform_name())
        if packed:
            from zipboot.programs import contents

            yield from contents(self._part("programs"), packed)

    def sources(self) -> bytes:
        """A zip file with the sources of all modules, and the licences of the libraries.

        Raises SystemExit when it is damaged.
        """
        from zipboot.fallback import read_whole

        return read_whole(self.archive, SOURCES)

    def cache(self) -> str | None:
        """The folder for what can be made again, which may not be there; None without a home."""
        from zipboot.places import cache_root

        return cache_root(os.environ, sys.platform)

    def cache_folders(self) -> dict[str, str]:
        """Those of its folders that are there, by what they are for."""
        from zipboot.places import KINDS

        root = self.cache()
        folders = {kind: os.path.join(root, kind) for kind in KINDS} if root else {}
        return {kind: folder for kind, folder in folders.items() if os.path.isdir(folder)}

    def kept(self) -> list[str]:
        """Everything of ours in these, whichever build of this program made it."""
        from zipboot.places import kept_in

        return [path for folder in self.cache_folders().values() for path in kept_in(folder)]

    def remove(self, path: str) -> None:
        """Remove one of these. Raises OSError when some of it is left."""
        from zipboot.places import remove

        remove(path)

    def _part(self, name: str) -> Part:
        entry, mark = self._index["parts"][name]
        return Part(self._file, entry, mark)


class Library:
    """Finder of the modules of the standard library that starts need.

    ``files`` says which file each of them is. The first one imports `zipboot.library`.
    """

    def __init__(self, files: dict[str, str]) -> None:
        self._files = files

    def find_spec(
        self,
        name: str,
        path: Sequence[str] | None = None,  # noqa: ARG002 - the protocol's
        target: ModuleType | None = None,  # noqa: ARG002 - the protocol's
    ) -> ModuleSpec | None:
        """The spec of one of these modules, None for any other, and where it is built in."""
        file = self._files.get(name)
        if file is None or name in sys.builtin_module_names:
            return None
        from zipboot.library import spec_of

        return spec_of(name, file)

    def invalidate_caches(self) -> None:
        """Nothing is cached. Part of the finder protocol."""


class Natives:
    """Finder of the compiled modules that are packed for this interpreter.

    What loads one is imported when the first is asked for. ``loaded`` is from where each came,
    ``problems`` why one did not.
    """

    def __init__(self, part: Part, entries: dict[str, Native]) -> None:
        self.part = part
        self.entries = entries
        self.loaded: dict[str, str] = {}
        self.problems: dict[str, str] = {}

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

    def hold(self) -> None:
        """Keep them in memory, see `zipboot.parts.Part`."""
        self.part.hold(entry[2:4] for entry in self.entries.values())

    def invalidate_caches(self) -> None:
        """Nothing is cached. Part of the finder protocol."""


program: Program | None = None


def run(index: dict[str, Any], loader: zipimporter) -> object:
    """Run the program with the code packed for this interpreter; its exit status."""
    running = Program(index, loader, "code")
    sys.meta_path[:0] = running.code_importer(), Library(index["library"]), running.natives
    return enter(running)


def enter(running: Program) -> object:
    """Run the entry point, wherever its module comes from; its exit status.

    Does not come back but for ``RYE_EXIT=normal``: see `leave`.
    """
    global program  # noqa: PLW0603 - there is one archive to a process
    program = running
    problem = wrong_setting(os.environ)
    if problem:
        sys.stderr.write(f"error: {problem}\n")
        return USAGE
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
    leave(status)
    return status


def wrong_setting(environ: Mapping[str, str]) -> str:
    """Fault in a variable that this program's start reads; ``""`` if nothing is."""
    for name, choices in SETTINGS.items():
        value = environ.get(name)
        if value and value not in choices:
            return f"{name}: expected one of {', '.join(choices)}, found {value!r}"
    return ""


def platform_name() -> str:
    """Name in the index of the machine that packed programs are for; any Python will do."""
    if sys.platform == "win32":
        return "windows-" + os.environ.get("PROCESSOR_ARCHITECTURE", "").lower()
    machine = os.uname().machine
    # What is packed for Linux is linked with all it needs: any of its C libraries will do.
    return f"{'macos' if sys.platform == 'darwin' else sys.platform}-{machine}"


def platform_key() -> str:
    """Name of this interpreter in the index: its own suffix of extension files.

    ABI, C library and processor are all in it, but for the processor on macOS.
    """
    import _imp

    suffixes = _imp.extension_suffixes()
    key = suffixes[0] if suffixes else ""
    return f"{key}:{os.uname().machine}" if sys.platform == "darwin" else key


# Leaving without the interpreter's own teardown, which would take longer than a short command.
#
# All that has an effect still happens: threads are waited for, ``atexit`` runs, streams are
# flushed, and a flush that fails is an exit status. ``RYE_EXIT=normal`` leaves the ordinary way,
# which coverage and debuggers want. Page: ``docs/building.md``.

FLUSH_FAILED = 120  # what Python itself answers
READER_GONE = 141  # what a shell says of a program that SIGPIPE ended


def leave(status: object) -> None:
    """End the process with what a program returned or gave to ``sys.exit``; does not come back."""
    code = _code(status)
    try:
        threading = sys.modules.get("threading")
        if threading is not None:
            threading._shutdown()  # noqa: SLF001 - what the interpreter calls
        import atexit

        atexit._run_exitfuncs()  # noqa: SLF001 - what the interpreter calls
    except BaseException:  # noqa: BLE001 - as the interpreter: said, and on we go
        sys.excepthook(*sys.exc_info())
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream is not None:
                stream.flush()
        except BrokenPipeError:
            code = code or READER_GONE
        except (OSError, ValueError):
            code = code or FLUSH_FAILED
    os._exit(code & 0xFF)


def _code(status: object) -> int:
    if status is None:
        return 0
    if isinstance(status, int):
        return status
    if sys.stderr is not None:
        sys.stderr.write(f"{status}\n")
    return 1
