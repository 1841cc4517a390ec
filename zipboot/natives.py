"""Compiled modules of this platform, loaded only when something imports one.

Ways, in order: a private cache file whose digest is checked at every load, an anonymous file in
memory (Linux), a temporary file. Where none works the import fails, and callers have pure Python:
signatures verify, YAML parses, only signing needs the compiled code. ``RYE_NATIVE`` narrows the
choice: ``auto``, ``cache``, ``memfd``, ``temp``, ``off``. Page: ``docs/building.md``.
"""

from __future__ import annotations

import os
from _frozen_importlib import ModuleSpec
from _frozen_importlib_external import ExtensionFileLoader

from zipboot.places import (
    cache_folder,
    digest_of,
    make_private,
    note_use,
    temporary_folder,
    write_all,
    write_file,
)

TYPE_CHECKING = False  # importing typing costs more than this start may take


if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

    from zipboot.launch import Natives
    from zipboot.parts import Part

    # file name, digest of the file; offset and size in the part of the packed piece that it is in;
    # start and length in the piece when that is unpacked
    Native = tuple[str, str, int, int, int, int]

ONLY_FASTER = "_yaml."
"""Prefixes of file names that a Python without LZMA does without: unpacking takes too long."""


def spec_of(name: str, natives: Natives) -> ModuleSpec:
    """The spec of a packed compiled module."""
    ways = _WAYS[os.environ.get("RYE_NATIVE") or "auto"]
    return ModuleSpec(name, _Loader(name, natives, ways))


class _Loader(ExtensionFileLoader):
    """Gives a compiled module a path, which is all that the interpreter's loader needs."""

    def __init__(self, name: str, natives: Natives, ways: tuple[Way, ...]) -> None:
        super().__init__(name, natives.entries[name][0])
        self._natives = natives
        self._ways = ways

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """Load the module by the first way that works. Raises ImportError when none does."""
        name, natives = spec.name, self._natives
        problems = []
        for way in self._ways:
            try:
                self.path = spec.origin = way(natives.part, natives.entries[name])
                module: ModuleType = super().create_module(spec)
            except (OSError, ImportError) as error:  # no exec allowed there, or a policy forbids it
                problems.append(f"{way.__name__}: {error}")
            else:
                natives.loaded[name] = self.path
                return module
        natives.problems[name] = "; ".join(problems) or "RYE_NATIVE=off"
        raise ImportError(f"no way to load {name} here: {natives.problems[name]}", name=name)


def cache(part: Part, native: Native) -> str:
    """The path of a copy in the cache whose digest was checked just now."""
    file_name, digest = native[:2]
    folder = cache_folder("native")
    kept = os.path.join(folder, digest)
    make_private(kept)
    path = os.path.join(kept, file_name)
    is_new = not _holds(path, digest)
    if is_new:
        write_file(path, content(part, native), 0o500, aside=folder)
    note_use(kept, is_new=is_new)
    return path


def memfd(part: Part, native: Native) -> str:
    """The path of an anonymous file.

    Its descriptor stays open: the system's loader knows files by path, and a number used again
    would give it the first module once more.
    """
    if not hasattr(os, "memfd_create"):
        raise OSError("no anonymous files on this platform")
    descriptor = os.memfd_create(f"rye-{native[0]}")
    write_all(descriptor, content(part, native))
    path = f"/proc/self/fd/{descriptor}"
    os.stat(path)  # without /proc there is no such path
    return path


def temp(part: Part, native: Native) -> str:
    """The path of a copy that is removed at exit."""
    folder = temporary_folder()
    path = os.path.join(folder, native[0])
    write_file(path, content(part, native), 0o500, aside=folder)
    return path


def content(part: Part, native: Native) -> bytes:
    """The bytes of a compiled module. Raises SystemExit when they are damaged.

    Raises ImportError where it is only faster and this Python was built without LZMA.
    """
    file_name, digest, offset, size, start, length = native
    data = _unpacked(part.read(offset, size), file_name)[start : start + length]
    if digest_of(data) != digest:
        raise part.differs(file_name)
    return data


def _unpacked(packed: bytes, file_name: str) -> bytes:
    """Content packed by LZMA; nothing when it is damaged. Raises ImportError, see `content`."""
    try:
        import lzma
    except ImportError:
        if file_name.startswith(ONLY_FASTER):
            raise
        return _unpacked_slowly(packed)
    try:
        return lzma.decompress(packed, lzma.FORMAT_ALONE)
    except (lzma.LZMAError, EOFError):
        return b""


def _unpacked_slowly(packed: bytes) -> bytes:
    from zipboot.lzma_alone import decompress

    try:
        return decompress(packed)
    except (ValueError, IndexError):
        return b""


def _holds(path: str, digest: str) -> bool:
    """True if the file is what its digest says. A link is not."""
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
    try:
        descriptor = os.open(path, flags)
    except OSError:
        return False  # written now, which says what is wrong
    with open(descriptor, "rb") as file:
        return digest_of(file.read()) == digest


if TYPE_CHECKING:
    Way = Callable[[Part, Native], str]
_WAYS: dict[str, tuple[Way, ...]] = {
    "auto": (cache, memfd, temp),
    "cache": (cache,),
    "memfd": (memfd,),
    "temp": (temp,),
    "off": (),
}
