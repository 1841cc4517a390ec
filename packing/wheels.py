"""Wheels of the locked libraries, by the hashes of the lock, and the compiled modules in them.

They are kept under ``build/zipapp/wheels``, a folder for each lock, platform and minor version.
"""

import subprocess
import sys
from collections.abc import Iterable, Mapping
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory

from packing import BuildError, move_unless_made
from packing.platforms import PLATFORMS, Platform

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
