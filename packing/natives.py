"""The compiled modules of the locked libraries, for every platform and CPython they are packed for.

Wheels come from the package index by the hashes of ``requirements/runtime.txt`` and are kept under
``build/``. ELF files lose their debug information, which is nine tenths of PyNaCl's.
"""

import shutil
import subprocess
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from zipfile import ZipFile

from packing.dependencies import LOCK
from packing.errors import BuildError
from packing.folders import move_unless_made
from packing.platforms import Platform
from zipboot.places import digest_of

_ELF = b"\x7fELF"
_EXTENSIONS = (".so", ".pyd")
_STRIPPERS = ("llvm-strip", "llvm-strip-19", "llvm-strip-16", "llvm-strip-14")
# Of the locked libraries, those that have compiled modules which run without.
_COMPILED = ("cffi", "pynacl", "pyyaml")

Strip = Callable[[bytes], bytes]


@dataclass(frozen=True, slots=True)
class NativeFile:
    """A compiled module: its import name, its file name, its content."""

    module: str
    file_name: str
    data: bytes


def native_part(
    checkout: Path, platforms: Sequence[Platform], minors: Iterable[int], strip: Strip
) -> tuple[bytes, dict[str, dict[str, tuple[str, str, int, int]]]]:
    """The part with all compiled modules, and the index: platform key -> module -> where it is.

    Equal files are packed once. Raises BuildError when wheels cannot be had or stripped.
    """
    pieces: list[bytes] = []
    places: dict[str, tuple[int, int]] = {}
    index: dict[str, dict[str, tuple[str, str, int, int]]] = {}
    offset = 0
    for platform, minor in [(p, m) for p in platforms for m in sorted(minors)]:
        entries = {}
        for native in _natives(wheels(checkout, platform, minor), strip):
            digest = digest_of(native.data)
            if digest not in places:
                piece = zlib.compress(native.data, 9)
                places[digest] = offset, len(piece)
                pieces.append(piece)
                offset += len(piece)
            entries[native.module] = (native.file_name, digest, *places[digest])
        index[platform.key(minor)] = entries
    return b"".join(pieces), index


def _natives(folder: Path, strip: Strip) -> Iterator[NativeFile]:
    for wheel in sorted(folder.glob("*.whl")):
        with ZipFile(wheel) as archive:
            for name in sorted(archive.namelist()):
                if name.endswith(_EXTENSIONS):
                    path = PurePosixPath(name)
                    module = ".".join((*path.parts[:-1], path.name.partition(".")[0]))
                    yield NativeFile(module, path.name, strip(archive.read(name)))


def wheels(checkout: Path, platform: Platform, minor: int) -> Path:
    """A folder with the wheels for a platform and a minor version; fetched once per lock."""
    lock = compiled_lock((checkout / LOCK).read_text("utf-8"))
    name = f"{platform.name}-3{minor}-{sha256(lock.encode()).hexdigest()[:16]}"
    folder = checkout / "build" / "zipapp" / "wheels" / name
    if not folder.is_dir():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(prefix=".", dir=folder.parent) as temporary:
            fetched = Path(temporary, "wheels")
            listed = Path(temporary, "lock.txt")
            listed.write_text(lock, "utf-8")
            _download(listed, fetched, platform, minor)
            move_unless_made(fetched, folder)
    return folder


def compiled_lock(lock: str) -> str:
    """The lines of a lock that pin libraries with compiled modules, hashes included."""
    kept: list[str] = []
    keeping = False
    for line in lock.splitlines():
        if line and not line[0].isspace() and not line.startswith("#"):
            keeping = line.partition("=")[0].strip().lower() in _COMPILED
        if keeping and not line.lstrip().startswith("#"):
            kept.append(line.partition(" ; ")[0] if "==" in line and ";" in line else line)
    return "\n".join(kept) + "\n"


def _download(lock: Path, target: Path, platform: Platform, minor: int) -> None:
    command = [
        *(sys.executable, "-m", "pip", "download", "--disable-pip-version-check", "--quiet"),
        *("--require-hashes", "--no-deps", "--only-binary", ":all:", "--implementation", "cp"),
        *("--python-version", f"3.{minor}", "--abi", f"cp3{minor}", "--abi", "abi3"),
        *(word for tag in platform.tags for word in ("--platform", tag)),
        *("--dest", str(target), "--requirement", str(lock)),
    ]
    ended = subprocess.run(command, capture_output=True, text=True, encoding="utf-8", check=False)
    if ended.returncode:
        words = ended.stderr.strip() or "pip said nothing"
        raise BuildError(
            f"wheels for {platform.name}, CPython 3.{minor}",
            words,
            hint="is the package index within reach?",
        )


def strip_if_possible(data: bytes) -> bytes:
    """A compiled module without debug information, where this machine can remove it."""
    stripper = next(filter(None, map(shutil.which, (*_STRIPPERS, "strip"))), None)
    return _stripped(data, stripper) if stripper else data


def strip_any_processor(data: bytes) -> bytes:
    """A compiled module of any processor without debug information.

    Raises BuildError without llvm-strip, the one program that does so.
    """
    stripper = next(filter(None, map(shutil.which, _STRIPPERS)), None)
    if stripper is None:
        raise BuildError("strip", "found no llvm-strip", hint="apt-get install llvm")
    return _stripped(data, stripper)


def _stripped(data: bytes, stripper: str) -> bytes:
    if not data.startswith(_ELF):
        return data  # other formats are signed as they are
    with TemporaryDirectory() as folder:
        file = Path(folder, "module.so")
        file.write_bytes(data)
        subprocess.run([stripper, "--strip-unneeded", str(file)], check=True, capture_output=True)
        return file.read_bytes()
