"""The compiled modules of the locked libraries, for every platform and CPython they are packed for.

ELF files lose their debug information, which is nine tenths of PyNaCl's.
"""

import lzma
import shutil
import subprocess
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from zipfile import ZipFile

from packing.errors import BuildError
from packing.platforms import Platform
from packing.wheels import COMPILED, compiled_wheels
from zipboot.places import digest_of

_ELF = b"\x7fELF"
_EXTENSIONS = (".so", ".pyd")
# Of modules for the stable ABI; on Windows the name does not say so.
_ANY_VERSION = (".abi3.so", "_sodium.pyd")
# Of these, any can strip for any processor; plain `strip` does so only for its own.
_LLVM_STRIP = ("llvm-strip", *(f"llvm-strip-{version}" for version in range(22, 13, -1)))

_DISPENSABLE = frozenset({"yaml._yaml"})

Strip = Callable[[bytes], bytes]

# Module -> file name, digest, offset and size of the packed file in the part.
Entries = dict[str, tuple[str, str, int, int]]


@dataclass(frozen=True, slots=True)
class NativeFile:
    """A compiled module: its import name, its file name, its content."""

    module: str
    file_name: str
    data: bytes


@dataclass(frozen=True, slots=True)
class NativePart:
    """All compiled modules, equal files once.

    ``index`` is by what an interpreter calls its platform, then by module. ``files`` are those of
    each library, by its name: file names with SHA-256 digests are told in the list of contents.
    """

    data: bytes
    index: dict[str, Entries]
    files: tuple[NativeFile, ...]


def native_part(
    checkout: Path, platforms: Sequence[Platform], minors: Iterable[int], strip: Strip
) -> NativePart:
    """The compiled modules for each platform and minor version.

    Raises BuildError when a wheel cannot be had, lacks its module, or cannot be stripped.
    """
    pieces: list[bytes] = []
    packed: dict[str, tuple[int, int]] = {}
    files: list[NativeFile] = []
    index: dict[str, Entries] = {}
    for platform, minor in [(p, m) for p in platforms for m in sorted(minors)]:
        entries: Entries = {}
        for native in _natives_for(checkout, platform, minor, strip):
            digest = digest_of(native.data)
            if digest not in packed:
                piece = _packed(native)
                packed[digest] = sum(map(len, pieces)), len(piece)
                pieces.append(piece)
                files.append(native)
            entries[native.module] = (native.file_name, digest, *packed[digest])
        index[platform.key(minor)] = entries
    return NativePart(b"".join(pieces), index, tuple(files))


def _packed(native: NativeFile) -> bytes:
    """The file as small as may be.

    Some Pythons are built without xz: what is packed by it must be something that they can do
    without. The compiled half of PyYAML only makes it faster; nothing signs without the others.
    """
    if native.module in _DISPENSABLE:
        return lzma.compress(native.data, preset=9 | lzma.PRESET_EXTREME)
    return zlib.compress(native.data, 9)


def _natives_for(checkout: Path, platform: Platform, minor: int, strip: Strip) -> list[NativeFile]:
    wheels = compiled_wheels(checkout, platform, minor)
    found = [native for wheel in wheels for native in _natives_in(wheel, strip)]
    problem = _problem(found, platform.suffix.format(minor=minor))
    if problem:
        raise BuildError(f"compiled modules for {platform.name}, CPython 3.{minor}", problem)
    return found


def _problem(found: Sequence[NativeFile], suffix: str) -> str:
    """What is wrong with the modules for an interpreter with this suffix; ``""`` if nothing is."""
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
