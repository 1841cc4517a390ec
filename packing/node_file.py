"""``rye-node.pyz``: the node with its libraries, for this machine and one CPython, packed by shiv.

Why it is a plain file of shiv while ``rye.pyz`` is not: ADR 0001.
"""

import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from zipfile import ZipFile

from packing import BuildError, move_unless_made
from packing.archive import run_shiv, zipped
from packing.build_time import BuildTime
from packing.natives import NativePart
from packing.node_start import python_platform
from packing.parts import Part
from packing.programs import ProgramsPart
from packing.signed_bundle import Edition, stage_bundle
from packing.stage import Stage, copy_notes_of_shiv
from packing.wheels import requirements
from ryeos.trust.signing_key import SigningKey

NAME = "rye-node.pyz"
ENTRY_POINT = "rye_services.operations.cli:main"
PACKAGES = ("lillux", "rye_services", "ryeos")
LOCKS = ("requirements/runtime.txt", "requirements/node.txt")
CLUSTER_LOCKS = (*LOCKS, "requirements/cluster.txt")
"""Of the edition for many machines: what PostgreSQL, object storage and the queue take."""

# PyNaCl is compiled with cffi, which needs this; at run time neither does.
_BUILD_TIME = frozenset({"pycparser"})
_INSTALLATION_NOTES = frozenset({"RECORD", "WHEEL"})
_LEVEL = 7  # a third of the time of the smallest file, which is 0.3 % smaller
_PYTHON = f"{sys.version_info[0]}.{sys.version_info[1]}"


def build_node(
    checkout: Path,
    scratch: Path,
    key: SigningKey,
    build_time: BuildTime,
    *,
    edition: Edition = Edition.FULL,
    locks: tuple[str, ...] = LOCKS,
) -> tuple[bytes, Stage]:
    """The bytes of the file and what is in it, made in ``scratch``, an empty folder.

    ``locks`` name the libraries. For the interpreter that runs this; the same bytes for the same
    arguments.
    Raises BuildError, and ItemValidationError for an item of the bundle that breaks a rule.
    """
    tree, target = scratch / "site", scratch / "shiv.pyz"
    for package in PACKAGES:
        sources = shutil.ignore_patterns("__pycache__", "*.pyc", "bundle")
        shutil.copytree(checkout / package, tree / package, ignore=sources)
    wheels = node_wheels(checkout, locks)
    for wheel in wheels:
        _unpack(wheel, tree)
    copy_notes_of_shiv(tree)
    shutil.copy(checkout / "LICENSE", tree / "LICENSE")
    bundle = tree / "ryeos" / "bundle"
    stage_bundle(checkout, bundle, key, edition)
    shebang = f"/usr/bin/env python{_PYTHON}"
    run_shiv(tree, target, build_time, entry_point=ENTRY_POINT, python=shebang)
    with ZipFile(target) as shivs:
        head = f"#!{shebang}\n".encode("ascii")
        data = head + zipped(_parts(checkout, shivs), build_time, offset=len(head), level=_LEVEL)
    none = ProgramsPart(b"", {})
    stage = Stage(tree=tree, bundle=bundle, natives=_no_natives(), programs=none, wheels=wheels)
    return data, stage


def node_wheels(checkout: Path, locks: tuple[str, ...] = LOCKS) -> list[Path]:
    """A wheel of each library of the node for the interpreter that runs this.

    Kept under ``build/zipapp/wheels``. Raises BuildError, which names what could not be had.
    """
    pins = _pins(checkout, locks)
    digest = sha256(pins.encode()).hexdigest()[:16]
    tag = f"{sys.implementation.cache_tag}-{sysconfig.get_platform()}"
    folder = checkout / "build" / "zipapp" / "wheels" / f"node-{tag}-{digest}"
    if not folder.is_dir():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(prefix=".", dir=folder.parent) as temporary:
            fetched = Path(temporary, "fetched")
            _download(pins, fetched)
            move_unless_made(fetched, folder)
    return sorted(folder.glob("*.whl"))


def _pins(checkout: Path, locks: tuple[str, ...]) -> str:
    locked: dict[str, str] = {}
    for lock in locks:
        locked |= requirements((checkout / lock).read_text("utf-8"))
    return "".join(locked[name] for name in sorted(locked.keys() - _BUILD_TIME))


def _download(pins: str, target: Path) -> None:
    lock = target.with_name("lock.txt")
    lock.write_text(pins, "utf-8")
    command = [
        *(sys.executable, "-m", "pip", "download", "--disable-pip-version-check", "--quiet"),
        *("--require-hashes", "--no-deps", "--only-binary", ":all:"),
        *("--dest", str(target), "--requirement", str(lock)),
    ]
    ended = subprocess.run(command, capture_output=True, text=True, encoding="utf-8", check=False)
    if ended.returncode:
        words = ended.stderr.strip() or "pip said nothing"
        raise BuildError("wheels for the node", words, hint="is the package index within reach?")


def _unpack(wheel: Path, tree: Path) -> None:
    """Everything but notes of the installation, and commands that are not called."""
    with ZipFile(wheel) as archive:
        for name in archive.namelist():
            folder, *inner = PurePosixPath(name).parts
            if folder.endswith(".data"):
                if inner[:1] != ["scripts"]:
                    raise BuildError(wheel.name, f"holds {name}, which would have to be installed")
            elif not name.endswith("/") and PurePosixPath(name).name not in _INSTALLATION_NOTES:
                archive.extract(name, tree)


def _parts(checkout: Path, shivs: ZipFile) -> Iterator[Part]:
    """Our start in place of shiv's, and what shiv packed, in an order of our own."""
    start = (checkout / "packing" / "node_start.py").read_bytes()
    yield Part("__main__.py", start)
    yield Part("_first_line.py", (checkout / "zipboot" / "__main__.py").read_bytes())
    yield Part("_built_for.py", f"MODULES = {python_platform()!r}\n".encode())
    for name in sorted(shivs.namelist()):
        if name != "__main__.py" and not name.endswith("/"):
            yield Part(name, shivs.read(name))


def _no_natives() -> NativePart:
    """None apart: the compiled modules lie in their libraries, as the wheels have them."""
    return NativePart(b"", {}, ())
