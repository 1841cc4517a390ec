"""Wheels of the locked libraries, from the package index by the hashes of the lock.

They are kept under ``build/zipapp/wheels``, a folder for each lock, platform and minor version.
"""

import platform
import subprocess
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory

from packing import BuildError, move_unless_made

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
