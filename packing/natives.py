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

from packing import BuildError
from packing.wheels import COMPILED, Platform, compiled_wheels
from zipboot.places import digest_of

_ELF = b"\x7fELF"
_EXTENSIONS = (".so", ".pyd")
# Of modules for the stable ABI; on Windows the name does not say so.
_ANY_VERSION = (".abi3.so", "_sodium.pyd")
# Of these, any can strip for any processor; plain `strip` does so only for its own.
_LLVM_STRIP = ("llvm-strip", *(f"llvm-strip-{version}" for version in range(22, 13, -1)))

_DISPENSABLE = frozenset({"yaml._yaml"})

Strip = Callable[[bytes], bytes]

# Digest; offset and size of the packed piece; start and length inside of it; offset and size of
# the piece that it differs from, if it is a difference.
Place = tuple[str, int, int, int, int, tuple[int, int] | None]
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

    ``index`` is by what an interpreter calls its platform, then by module. ``files`` are those of
    each library, by its name: file names with SHA-256 digests stand in the list of contents.
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
    found = {
        (platform, minor): _natives_for(checkout, platform, minor, strip)
        for platform in platforms
        for minor in sorted(minors)
    }
    pieces = _Pieces()
    for platform in platforms:
        own = [
            native
            for (where, _), natives in found.items()
            if where is platform
            for native in natives
        ]
        pieces.add_together([native for native in own if native.module in _DISPENSABLE])
        for module in sorted({native.module for native in own} - _DISPENSABLE):
            pieces.add_alike([native for native in own if native.module == module])
    index = {
        platform.key(minor): {
            native.module: (native.file_name, *pieces.places[digest_of(native.data)])
            for native in natives
        }
        for (platform, minor), natives in found.items()
    }
    return NativePart(b"".join(pieces.packed), index, tuple(pieces.files))


class _Pieces:
    """Packed pieces one behind the other, each file once.

    Some Pythons are built without xz: what is packed by it must be something that they can do
    without. The compiled half of PyYAML only makes it faster: those for all versions of Python are
    packed together. Nothing signs without the others: of those for all versions one is deflated,
    and of each other its difference from that.
    """

    def __init__(self) -> None:
        self.packed: list[bytes] = []
        self.files: list[NativeFile] = []
        self.places: dict[str, Place] = {}

    def add_alike(self, natives: Sequence[NativeFile]) -> None:
        """Files of one module, by the version they are for: each that is not there already."""
        base = natives[len(natives) // 2]
        place = self.places.get(digest_of(base.data))
        if place is None or place[-1]:
            self._append(zlib.compress(base.data, 9), [base])
            place = self.places[digest_of(base.data)]
        for native in natives:
            if digest_of(native.data) not in self.places:
                told = difference(base.data, native.data)
                self._append(zlib.compress(told, 9), [native], base=place[1:3])

    def add_together(self, natives: Sequence[NativeFile]) -> None:
        """Files that are alike."""
        new = {digest_of(native.data): native for native in natives}
        files = [native for digest, native in new.items() if digest not in self.places]
        if files:
            whole = b"".join(native.data for native in files)
            self._append(min(_compressed(whole), key=len), files)

    def _append(
        self, piece: bytes, files: Sequence[NativeFile], base: tuple[int, int] | None = None
    ) -> None:
        offset, start = sum(map(len, self.packed)), 0
        for native in files:
            digest, length = digest_of(native.data), len(native.data)
            self.places[digest] = digest, offset, len(piece), start, length, base
            start += length
        self.packed.append(piece)
        self.files.extend(files)


def _compressed(data: bytes) -> Iterator[bytes]:
    """The data by xz, as they are and with the addresses of x86 code made alike."""
    last = {"id": lzma.FILTER_LZMA2, "preset": 9 | lzma.PRESET_EXTREME}
    for before in ([], [{"id": lzma.FILTER_X86}]):
        yield lzma.compress(data, format=lzma.FORMAT_XZ, filters=[*before, last])


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


# --- differences ----------------------------------------------------------------------------------
# What a file does not have in common with another: the making of what `zipboot` restores.
#
# After bsdiff (Colin Percival, "Naive differences of executable code"): code that was compiled for
# another version of Python is the same code elsewhere, with other addresses in it. So runs of the
# new file are laid over the place of the old one that they are like, and the bytes' differences,
# mostly zero, are deflated.

_WORD = 12
_GAIN = 8
_STRIDE = 4
_LEAP = 256

Run = tuple[int, int]  # the place in the base that it is like, its length


def difference(base: bytes, data: bytes) -> bytes:
    """What `zipboot.natives.restored` makes ``data`` of, given ``base``."""
    runs = list(_runs(base, data))
    alike = b"".join(base[start : start + size].ljust(size, b"\0") for start, size in runs)
    added = bytes((new - old) & 0xFF for new, old in zip(data, alike, strict=True))
    numbers = [number for run in runs for number in run]
    return b"".join(number.to_bytes(4, "little") for number in (len(runs), *numbers)) + added


def _runs(base: bytes, data: bytes) -> Iterator[Run]:
    """Runs that cover the data: another begins where that is like far more of what follows."""
    places = _places(base)
    begin = shift = at = 0
    while at < len(data):
        word = data[at : at + _WORD]
        place = places.get(word)
        if place is None or place == at - shift or base.startswith(word, at - shift):
            at += 1 if place is None else _WORD
            continue
        size = _common(base, place, data, at)
        if size > _alike(base, at - shift, data[at : at + size]) + _GAIN:
            if at > begin:
                yield begin - shift, at - begin
            begin, shift = at, at - place
        at += size
    if at > begin:
        yield begin - shift, len(data) - begin


def _places(base: bytes) -> dict[bytes, int]:
    """The first place of words of the base, at every fourth byte."""
    starts = range((len(base) - _WORD) // _STRIDE * _STRIDE, -1, -_STRIDE)
    return {base[start : start + _WORD]: start for start in starts}


def _common(base: bytes, place: int, data: bytes, at: int) -> int:
    """How many bytes are the same from these places on."""
    longest = min(len(base) - place, len(data) - at)
    size = _WORD
    while size < longest:
        step = min(_LEAP, longest - size)
        if base[place + size : place + size + step] == data[at + size : at + size + step]:
            size += step
            continue
        pairs = zip(
            base[place + size : place + size + step],
            data[at + size : at + size + step],
            strict=True,
        )
        return size + next(index for index, (old, new) in enumerate(pairs) if old != new)
    return size


def _alike(base: bytes, place: int, piece: bytes) -> int:
    """How many bytes of the piece are those of the base at the place."""
    return sum(
        old == new for old, new in zip(base[place : place + len(piece)], piece, strict=False)
    )
