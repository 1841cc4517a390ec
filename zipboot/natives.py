"""Compiled modules of this platform, loaded only when something imports one.

Ways, in order: a private cache file whose digest is checked at every load, an anonymous file in
memory (Linux), a temporary file. Where none works the import fails, and callers have pure Python:
signatures verify, YAML parses, only signing needs the compiled code. ``RYE_NATIVE`` narrows the
choice: ``auto``, ``cache``, ``memfd``, ``temp``, ``off``. Page: ``docs/boot.md``.
"""

from __future__ import annotations

import os
import sys
from _frozen_importlib import ModuleSpec
from _frozen_importlib_external import ExtensionFileLoader

from zipboot import places

TYPE_CHECKING = False  # `typing` would cost more than everything else here
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import ModuleType

    from zipboot.parts import Part

    # file name, digest of the file, offset and size of its deflated form in the part
    Native = tuple[str, str, int, int]


class NativeImporter:
    """Finder of the compiled modules that the index lists for this interpreter."""

    def __init__(self, part: Part, natives: dict[str, Native]) -> None:
        self._part = part
        self._natives = natives
        self.loaded: dict[str, str] = {}
        self.problems: list[str] = []

    def find_spec(
        self,
        name: str,
        path: Sequence[str] | None = None,  # noqa: ARG002 - the protocol's
        target: ModuleType | None = None,  # noqa: ARG002 - the protocol's
    ) -> ModuleSpec | None:
        """The spec of a packed compiled module, None for any other."""
        native = self._natives.get(name)
        ways = _WAYS.get(os.environ.get("RYE_NATIVE", "auto"), ())
        if native is None or not ways:
            return None
        return ModuleSpec(name, _NativeLoader(self, name, native, ways), origin=native[0])

    def content(self, native: Native) -> bytes:
        """The bytes of a compiled module. Raises OSError when the archive is damaged."""
        from zlib import decompress

        file_name, digest, offset, size = native
        data = decompress(self._part.read(offset, size))
        if places.digest_of(data) != digest:
            raise OSError(f"{file_name} is damaged in the archive")
        return data

    def invalidate_caches(self) -> None:
        """Nothing is cached. Part of the finder protocol."""


class _NativeLoader(ExtensionFileLoader):
    """Gives a compiled module a path, which is all that the interpreter's loader needs."""

    def __init__(
        self,
        importer: NativeImporter,
        name: str,
        native: Native,
        ways: tuple[Way, ...],
    ) -> None:
        super().__init__(name, native[0])
        self._importer = importer
        self._native = native
        self._ways = ways

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """Load the module by the first way that works. Raises ImportError when none does."""
        importer, cause = self._importer, None
        for way in self._ways:
            try:
                self.path = spec.origin = way(importer, self._native)
                module: ModuleType = super().create_module(spec)
            except (OSError, ImportError) as error:  # no exec allowed there, or a policy forbids it
                importer.problems.append(f"{spec.name}: {way.__name__}: {error}")
                cause = error
            else:
                importer.loaded[spec.name] = self.path
                return module
        problems = "; ".join(importer.problems)
        raise ImportError(
            f"no way to load {spec.name} here ({problems})", name=spec.name
        ) from cause


def cached(importer: NativeImporter, native: Native) -> str:
    """The path of a copy in the cache whose digest was checked just now."""
    file_name, digest, _, _ = native
    root = places.cache_root(os.environ, sys.platform)
    if root is None:
        raise OSError("no folder for a cache")
    folder = os.path.join(root, "native", digest)
    places.make_private(os.path.join(root, "native"))
    places.make_private(folder)
    path = os.path.join(folder, file_name)
    if _read(path, digest) is None:
        places.write_file(path, importer.content(native), 0o500)
        if _read(path, digest) is None:
            raise OSError(f"could not keep a good copy in {folder}")
    return path


def in_memory(importer: NativeImporter, native: Native) -> str:
    """The path of an anonymous file.

    Its descriptor stays open: the system's loader knows files by path, and a number used again
    would give it the first module once more.
    """
    if not hasattr(os, "memfd_create"):
        raise OSError("no anonymous files on this platform")
    data = importer.content(native)
    descriptor = os.memfd_create(f"rye-{native[0]}")
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(descriptor, rest) :]
    path = f"/proc/self/fd/{descriptor}"
    os.stat(path)
    return path


def temporary(importer: NativeImporter, native: Native) -> str:
    """The path of a copy that is removed at exit."""
    path = os.path.join(places.temporary_folder(), native[0])
    places.write_file(path, importer.content(native), 0o500)
    return path


def _read(path: str, digest: str) -> bytes | None:
    """The file if it is what the digest says."""
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
    try:
        descriptor = os.open(path, flags | getattr(os, "O_CLOEXEC", 0))
    except FileNotFoundError:
        return None
    with open(descriptor, "rb") as file:
        data = file.read()
    return data if places.digest_of(data) == digest else None


if TYPE_CHECKING:
    Way = Callable[[NativeImporter, Native], str]
_WAYS: dict[str, tuple[Way, ...]] = {
    "auto": (cached, in_memory, temporary),
    "cache": (cached,),
    "memfd": (in_memory,),
    "temp": (temporary,),
    "off": (),
}
