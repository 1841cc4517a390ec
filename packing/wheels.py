"""Wheels of the locked libraries, by the hashes of the lock, and the compiled modules in them.

They are kept under ``build/zipapp/wheels``, a folder for each lock, platform and minor version.
"""

import lzma
import platform
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from zipfile import ZipFile

from packing import BuildError, move_unless_made
from zipboot.places import digest_of

# --- platforms ------------------------------------------------------------------------------------
# The platforms that compiled modules are packed for, and what each calls its files.

_GLIBC = ("2_17", "2_24", "2_26", "2_27", "2_28")


@dataclass(frozen=True, slots=True, kw_only=True)
class Platform:
    """A platform.

    name      of the folder that its wheels are kept in
    tags      what ``pip download --platform`` is asked for, all of them
    suffix    of extension files, with the minor version of CPython at ``{minor}``
    machine   added to the suffix where that does not name the processor
    """

    name: str
    tags: tuple[str, ...]
    suffix: str
    machine: str = ""

    def key(self, minor: int) -> str:
        """What the index calls an interpreter; `zipboot.launch.platform_key` says the same."""
        suffix = self.suffix.format(minor=minor)
        return f"{suffix}:{self.machine}" if self.machine else suffix


def _glibc(machine: str) -> Platform:
    return Platform(
        name=f"linux-{machine}",
        tags=(*(f"manylinux_{v}_{machine}" for v in _GLIBC), f"manylinux2014_{machine}"),
        suffix=f".cpython-3{{minor}}-{machine}-linux-gnu.so",
    )


def _musl(machine: str) -> Platform:
    return Platform(
        name=f"musl-{machine}",
        tags=(f"musllinux_1_1_{machine}", f"musllinux_1_2_{machine}"),
        suffix=f".cpython-3{{minor}}-{machine}-linux-musl.so",
    )


def _macos(machine: str) -> Platform:
    versions = ("10_9", "10_10", "10_13", "11_0")
    tags = tuple(f"macosx_{v}_{arch}" for v in versions for arch in (machine, "universal2"))
    return Platform(
        name=f"macos-{machine}", tags=tags, suffix=".cpython-3{minor}-darwin.so", machine=machine
    )


PLATFORMS = (
    _glibc("x86_64"),
    _glibc("aarch64"),
    _musl("x86_64"),
    _musl("aarch64"),
    _macos("x86_64"),
    _macos("arm64"),
    Platform(name="windows-amd64", tags=("win_amd64",), suffix=".cp3{minor}-win_amd64.pyd"),
)


def this_platform() -> Platform | None:
    """The platform of this machine, None for one that nothing is packed for."""
    import _imp

    own = _imp.extension_suffixes()[0]
    for known in PLATFORMS:
        key = known.suffix.format(minor=sys.version_info[1])
        if key == own and known.machine in ("", platform.machine()):
            return known
    return None


# --- wheels ---------------------------------------------------------------------------------------

LOCK = "requirements/runtime.txt"

COMPILED = {"cffi": "_cffi_backend", "pynacl": "nacl._sodium", "pyyaml": "yaml._yaml"}
"""The libraries with a compiled module, and its name."""

# PyNaCl is compiled with cffi, which needs this; at run time neither does.
_BUILD_TIME = frozenset({"pycparser"})
# Whose wheels the Python files of compiled libraries are taken from, whatever a build is for.
_REFERENCE = PLATFORMS[0], 11


def compiled_wheels(checkout: Path, platform: Platform, minor: int) -> list[Path]:
    """The wheels of libraries with compiled modules, for a platform and a minor version.

    Raises BuildError, which names what could not be had.
    """
    tags = [word for tag in platform.tags for word in ("--platform", tag)]
    abis = ["--implementation", "cp", "--abi", f"cp3{minor}", "--abi", "abi3"]
    options = [*tags, "--python-version", f"3.{minor}", *abis]
    return _wheels(checkout, f"{platform.name}-3{minor}", COMPILED, options)


def all_wheels(checkout: Path) -> list[Path]:
    """A wheel of each library that is packed: the same ones on every machine that builds.

    Raises BuildError, which names what could not be had.
    """
    locked = requirements((checkout / LOCK).read_text("utf-8"))
    pure = locked.keys() - COMPILED.keys() - _BUILD_TIME
    # For no platform: of a library that has compiled parts too, the index gives the wheel without.
    options = ["--platform", "any", "--python-version", "3.11", "--implementation", "py"]
    return [*compiled_wheels(checkout, *_REFERENCE), *_wheels(checkout, "pure", pure, options)]


def requirements(lock: str) -> dict[str, str]:
    """The pins of a lock by name, each with its hashes, as pip reads them; without markers."""
    found: dict[str, list[str]] = {}
    name = ""
    for line in lock.splitlines():
        if not line or line.lstrip().startswith("#"):
            continue
        if not line[0].isspace():
            name = line.partition("==")[0].strip().lower()
            pin, marker, _ = line.partition(" ;")
            line = f"{pin} \\" if marker else line  # noqa: PLW2901 - the same line, shorter
        found.setdefault(name, []).append(line)
    return {name: "\n".join(lines) + "\n" for name, lines in found.items()}


def _wheels(checkout: Path, kind: str, names: Iterable[str], options: list[str]) -> list[Path]:
    wanted = _pins((checkout / LOCK).read_text("utf-8"), names)
    digest = sha256(wanted.encode()).hexdigest()[:16]
    folder = checkout / "build" / "zipapp" / "wheels" / f"{kind}-{digest}"
    if not folder.is_dir():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(prefix=".", dir=folder.parent) as temporary:
            fetched = Path(temporary, "fetched")
            _download(kind, wanted, fetched, options)
            move_unless_made(fetched, folder)
    return sorted(folder.glob("*.whl"))


def _pins(lock: str, names: Iterable[str]) -> str:
    locked: Mapping[str, str] = requirements(lock)
    missing = sorted(set(names) - locked.keys())
    if missing:
        raise BuildError(LOCK, f"expected a pin for {', '.join(missing)}, found none")
    return "".join(locked[name] for name in sorted(names))


def _download(kind: str, pins: str, target: Path, options: list[str]) -> None:
    with TemporaryDirectory() as folder:
        lock = Path(folder, "lock.txt")
        lock.write_text(pins, "utf-8")
        command = [
            *(sys.executable, "-m", "pip", "download", "--disable-pip-version-check", "--quiet"),
            *("--require-hashes", "--no-deps", "--only-binary", ":all:", *options),
            *("--dest", str(target), "--requirement", str(lock)),
        ]
        ended = subprocess.run(
            command, capture_output=True, text=True, encoding="utf-8", check=False
        )
    if ended.returncode:
        words = ended.stderr.strip() or "pip said nothing"
        raise BuildError(f"wheels for {kind}", words, hint="is the package index within reach?")


# --- natives --------------------------------------------------------------------------------------
# The compiled modules of the locked libraries, for every platform and CPython they are packed for.
#
# ELF files lose their debug information, which is nine tenths of PyNaCl's.

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
