"""Imports modules from the code of this interpreter's version, packed in one part of the archive.

Nothing is unpacked and nothing is compiled: a module is a piece of the part, unmarshalled. What the
index says about a module: is it a package, where its code is, how long, how it is packed, and the
checksum of the piece, which is looked at before `marshal` is: that crashes on other bytes.

A module of a rare command is compiled from its source, which is packed once instead of as code for
each version. Place, size and checksum are those of the source in the file of all sources, where
these modules come first: it is unpacked up to the last of them. Before them lie texts that a module
reads when asked (`CodeImporter.get_data`). Page: ``docs/building.md``.
"""

from __future__ import annotations

import marshal
from _frozen_importlib import ModuleSpec

from zipboot.parts import checksum

TYPE_CHECKING = False  # `typing` would cost more than everything else here
if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import CodeType, ModuleType
    from zipfile import ZipFile

    from zipboot.parts import Archive, Part

    # is a package, offset, size, one of the three below, checksum of the piece
    Entry = tuple[bool, int, int, int, bytes]

STORED, DEFLATED, SOURCE = 0, 1, 2
"""Form of a packed module: its code, that deflated with `DICTIONARY`, its source in `SOURCES`."""

SOURCES = "site-packages/rye.zip"
"""The sources of all modules, which shiv unpacks where no code is packed."""

DICTIONARY = "<dictionary>"
"""A key that is no module's name: the piece that deflated modules are deflated with."""


class CodeImporter:
    """Finder and loader (PEP 451) of the modules of one part.

    ``blocks`` are where the pieces begin and end that one start needs: they are read together.
    """

    def __init__(
        self,
        archive: Archive,
        part: Part,
        entries: dict[str, Entry],
        blocks: Sequence[tuple[int, int]] = (),
    ) -> None:
        self._archive = archive
        self._part = part
        self._entries = entries
        self._root = archive.path + "/"
        self._dictionary: bytes | memoryview = b""
        self._blocks: dict[tuple[int, int], memoryview | None] = dict.fromkeys(blocks)
        self._sources: ZipFile | None = None
        self._rare = b""

    def keep(self) -> None:
        """Keep the code of this interpreter in memory, see `zipboot.parts.Part`."""
        self._part.keep()

    def hold(self) -> None:
        """Keep all code in memory, see `zipboot.parts.Part`."""
        self._blocks = {}  # a new one: another thread may go through the old one
        entries = self._entries.values()
        self._part.hold(entry[1:3] for entry in entries if entry[3] != SOURCE)
        end = max((entry[1] + entry[2] for entry in entries if entry[3] == SOURCE), default=0)
        self._rare_sources(end)

    def find_spec(
        self,
        name: str,
        path: Sequence[str] | None = None,  # noqa: ARG002 - the protocol's
        target: ModuleType | None = None,  # noqa: ARG002 - the protocol's
    ) -> ModuleSpec | None:
        """The spec of a packed module, None for any other. Part of the finder protocol."""
        entry = self._entries.get(name)
        if entry is None:
            return None
        spec = ModuleSpec(name, self, is_package=entry[0])  # type: ignore[arg-type]
        if spec.submodule_search_locations is not None:
            spec.submodule_search_locations.append(self._root + name.replace(".", "/"))
        return spec

    def create_module(self, spec: ModuleSpec) -> None:
        """Let the interpreter make the module. Part of the loader protocol."""

    def exec_module(self, module: ModuleType) -> None:
        """Run the module's code. Part of the loader protocol."""
        name = module.__name__
        # Not by way of the spec, which would work out where bytecode of such a file were cached.
        module.__file__ = self.get_filename(name)
        exec(self.get_code(name), module.__dict__)  # noqa: S102 - what a loader does

    def get_code(self, name: str) -> CodeType:
        """The code of a module. Raises SystemExit when it is damaged."""
        packing = self._entries[name][3]
        data: bytes | memoryview = self._piece(name)
        if packing == SOURCE:
            return compile(data, self.get_filename(name), "exec", dont_inherit=True)
        if packing == DEFLATED:
            from zlib import decompressobj

            if not self._dictionary:
                self._dictionary = self._piece(DICTIONARY)
            data = decompressobj(zdict=self._dictionary).decompress(data)
        code: CodeType = marshal.loads(data)  # noqa: S302 - our own archive
        return code

    def _piece(self, name: str) -> bytes | memoryview:
        _, offset, size, packing, expected = self._entries[name]
        if packing == SOURCE:
            end = self._end_of_sources_like(name)
            data: bytes | memoryview = self._rare_sources(end)[offset : offset + size]
        else:
            data = self._read(offset, size)
        if checksum(data) != expected:
            raise self._part.differs(f"module {name}")
        return data

    def _read(self, offset: int, size: int) -> bytes | memoryview:
        for (start, end), known in self._blocks.items():
            if start <= offset and offset + size <= end:
                block = known or memoryview(self._part.read(start, end - start))
                self._blocks[start, end] = block
                return block[offset - start : offset - start + size]
        return self._part.read(offset, size)

    def _end_of_sources_like(self, name: str) -> int:
        """End of the last text, or of the last module that is compiled from its source."""
        is_text = "/" in name  # the names of modules have no slash
        return max(
            entry[1] + entry[2]
            for other, entry in self._entries.items()
            if entry[3] == SOURCE and ("/" in other) == is_text
        )

    def _rare_sources(self, end: int) -> bytes:
        """The file of sources, up to there at least."""
        if len(self._rare) < end:
            from zipboot.rare_sources import beginning

            self._rare = beginning(self._archive, SOURCES, end)
        return self._rare

    def get_filename(self, name: str) -> str:
        """The ``__file__`` of a module, below the archive."""
        tail = "/__init__.py" if self._entries[name][0] else ".py"
        return self._root + name.replace(".", "/") + tail

    def is_package(self, name: str) -> bool:
        """True if a module is a package. Part of the inspect-loader protocol."""
        return self._entries[name][0]

    def get_source(self, name: str) -> str | None:
        """The source, for tracebacks. Part of the inspect-loader protocol."""
        from io import BytesIO
        from zipfile import ZipFile

        path = self.get_filename(name)[len(self._root) :]
        try:
            if self._sources is None:
                with ZipFile(self._archive.path) as archive:
                    self._sources = ZipFile(BytesIO(archive.read(SOURCES)))
            return self._sources.read(path).decode("utf-8")
        except Exception:  # noqa: BLE001 - a traceback without lines is better than another one
            return None

    def get_data(self, path: str) -> bytes:
        """A text that is packed beside the modules, by its path below the archive.

        Part of the resource loader protocol, for `pkgutil.get_data`. Raises OSError when there is
        none, and SystemExit when it is damaged.
        """
        name = path.replace("\\", "/").removeprefix(self._root.replace("\\", "/"))
        if "/" not in name or name not in self._entries:
            raise FileNotFoundError(path)
        return bytes(self._piece(name))

    def invalidate_caches(self) -> None:
        """Nothing is cached. Part of the finder protocol."""
