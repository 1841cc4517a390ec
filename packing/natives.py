"""Compiled modules of the locked libraries, for every platform and CPython.

ELF files lose their debug information, which is nine tenths of PyNaCl's.
"""

import lzma
import shutil
import subprocess
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from zipfile import ZipFile

from packing import BuildError
from packing.platforms import Platform
from packing.wheels import COMPILED, compiled_wheels
from zipboot.places import digest_of

_ELF = b"\x7fELF"
_EXTENSIONS = (".so", ".pyd")
# Of modules for the stable ABI; on Windows the name does not say so.
_ANY_VERSION = (".abi3.so", "_sodium.pyd")
# Of these, any can strip for any processor; plain `strip` does so only for its own.
_LLVM_STRIP = ("llvm-strip", *(f"llvm-strip-{version}" for version in range(22, 13, -1)))

Strip = Callable[[bytes], bytes]

# Digest; offset and size of the packed piece; start and length of the file inside of it.
Place = tuple[str, int, int, int, int]
# Module -> file name, and its place.
Entries = dict[str, tuple[str, *Place]]


@dataclass(frozen=True, slots=True)
class NativeFile:
    """A compiled module: its import name, its file name, its content."""

    module: str
    file_name: str
    data: bytes


@dataclass(frozen=True, slots=True)
class NativePart:
    """All compiled modules, equal files once.

    ``index`` is by minor version, by what an interpreter of it calls its platform, by module.
    ``files`` are those of each library, by its name: file names with SHA-256 digests stand in the
    list of contents.
    """

    data: bytes
    index: dict[int, dict[str, Entries]]
    files: tuple[NativeFile, ...]


def native_part(
    checkout: Path, platforms: Sequence[Platform], minors: Iterable[int], strip: Strip
) -> NativePart:
    """The compiled modules for each platform and minor version.

    Raises BuildError when a wheel cannot be had, lacks its module, or cannot be stripped.
    """
    found = {
        (one, minor): _natives_for(checkout, one, minor, strip)
        for one in platforms
        for minor in sorted(minors)
    }
    pieces = _Pieces()
    for wanted in platforms:
        own = [
            native for (where, _), natives in found.items() if where is wanted for native in natives
        ]
        for module in sorted({native.module for native in own}):
            pieces.add([native for native in own if native.module == module])
    index: dict[int, dict[str, Entries]] = {minor: {} for _, minor in found}
    for (where, minor), natives in found.items():
        index[minor][where.key(minor)] = {
            native.module: (native.file_name, *pieces.places[digest_of(native.data)])
            for native in natives
        }
    return NativePart(b"".join(pieces.packed), index, tuple(pieces.files))


class _Pieces:
    """Packed pieces one behind the other, each file once.

    A piece is one module of a platform for all versions of Python: its files are much alike.
    """

    def __init__(self) -> None:
        self.packed: list[bytes] = []
        self.files: list[NativeFile] = []
        self.places: dict[str, Place] = {}

    def add(self, natives: Sequence[NativeFile]) -> None:
        """Files of one module, by the version they are for: each that is not there already."""
        by_digest = {digest_of(native.data): native for native in natives}
        new = {digest: one for digest, one in by_digest.items() if digest not in self.places}
        if not new:
            return
        packed = _packed(b"".join(native.data for native in new.values()))
        offset, start = sum(map(len, self.packed)), 0
        for digest, native in new.items():
            self.places[digest] = digest, offset, len(packed), start, len(native.data)
            start += len(native.data)
        self.packed.append(packed)
        self.files.extend(new.values())


def _packed(data: bytes) -> bytes:
    """The data as a ``.lzma`` file, which `zipboot.lzma_alone` can unpack, too."""
    # A byte depends on its place less than on the byte before it, whatever the processor.
    last = {"id": lzma.FILTER_LZMA1, "preset": 9 | lzma.PRESET_EXTREME, "pb": 0}
    return lzma.compress(data, format=lzma.FORMAT_ALONE, filters=[last])


def _natives_for(checkout: Path, platform: Platform, minor: int, strip: Strip) -> list[NativeFile]:
    wheels = compiled_wheels(checkout, platform, minor)
    found = [native for wheel in wheels for native in _natives_in(wheel, strip)]
    problem = _problem(found, platform.suffix.format(minor=minor))
    if problem:
        raise BuildError(f"compiled modules for {platform.name}, CPython 3.{minor}", problem)
    return found


def _problem(found: Sequence[NativeFile], suffix: str) -> str:
    """Fault in the modules for an interpreter with this suffix; ``""`` if nothing is."""
    modules, expected = sorted(native.module for native in found), sorted(COMPILED.values())
    if modules != expected:
        return f"expected {', '.join(expected)}, found {', '.join(modules) or 'none'}"
    names = [native.file_name for native in found]
    foreign = [name for name in names if not name.endswith((suffix, *_ANY_VERSION))]
    return f"expected names that end in {suffix}, found {', '.join(foreign)}" if foreign else ""


def _natives_in(wheel: Path, strip: Strip) -> Iterator[NativeFile]:
    with ZipFile(wheel) as archive:
        for name in sorted(archive.namelist()):
            path = PurePosixPath(name)
            if path.parts[0].endswith((".libs", ".dylibs")):
                raise BuildError(wheel.name, f"needs a library beside its module: {name}")
            if path.name.endswith(_EXTENSIONS):
                module = ".".join((*path.parts[:-1], path.name.partition(".")[0]))
                yield NativeFile(module, path.name, strip(archive.read(name)))


def strip_if_possible(data: bytes) -> bytes:
    """A compiled module without debug information, where this machine can remove it."""
    stripper = _first_of((*_LLVM_STRIP, "strip"))
    return _stripped(data, stripper) if stripper else data


def strip_any_processor(data: bytes) -> bytes:
    """A compiled module of any processor without debug information.

    Raises BuildError without llvm-strip, the one program that does so.
    """
    stripper = _first_of(_LLVM_STRIP)
    if stripper is None:
        raise BuildError("strip", "found no llvm-strip", hint="apt-get install llvm")
    return _stripped(data, stripper)


@cache
def _first_of(programs: tuple[str, ...]) -> str | None:
    return next(filter(None, map(shutil.which, programs)), None)


@cache  # PyNaCl has one file for all versions of Python
def _stripped(data: bytes, stripper: str) -> bytes:
    if not data.startswith(_ELF):
        return data  # files of macOS and Windows may carry a signature over themselves
    with TemporaryDirectory() as folder:
        file = Path(folder, "module.so")
        file.write_bytes(data)
        command = [stripper, "--strip-unneeded", str(file)]
        ended = subprocess.run(command, capture_output=True, check=False)
        if ended.returncode:
            raise BuildError("strip", ended.stderr.decode("utf-8", "replace").strip())
        return file.read_bytes()
