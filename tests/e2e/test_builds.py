"""Builds of a checkout: the same bytes every time, and a wheel that works."""

import json
import os
import shutil
import sys
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path

import pytest

from lillux.file_locks import locked
from lillux.key_files import save_keypair
from lillux.signing import compute_key_fingerprint, generate_keypair
from packing.interpreters import MINORS
from packing.platforms import PLATFORMS
from tests.support.built import ANY_BUILD_S, BASE_PYTHON, PACKED, ROOT, Machine, build_pyz, run
from tests.support.other_pythons import builder
from tests.support.programs import require_program

pytestmark = [pytest.mark.e2e, pytest.mark.heavy]

PYTHON_CACHES = shutil.ignore_patterns("__pycache__")
MADE = {"rye.pyz", "rye.pyz.sha256", "rye.pyz.sig", "rye.pyz.cdx.json"}
PRIVATE = "private_key.pem"
EPOCH = {"SOURCE_DATE_EPOCH": "1767225600"}


def copy_checkout(target: Path) -> Path:
    """A copy of the packed sources and of the builder, with the wheels that are there already."""
    for name in PACKED:
        shutil.copytree(ROOT / name, target / name, ignore=PYTHON_CACHES)
    for name in ("LICENSE", "build_zipapp.py"):
        shutil.copy(ROOT / name, target)
    (target / "build" / "zipapp").mkdir(parents=True)
    wheels = ROOT / "build" / "zipapp" / "wheels"
    wheels.mkdir(parents=True, exist_ok=True)
    (target / "build" / "zipapp" / "wheels").symlink_to(wheels)
    # Compiled libraries of cargo; our own programs are compiled for each checkout.
    compiled = ROOT / "build" / "native"
    compiled.mkdir(parents=True, exist_ok=True)
    (target / "build" / "native").symlink_to(compiled)
    return target


@pytest.fixture(scope="session")
def signed_build(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of this run's one signed build of the checkout for this machine.

    It holds ``dist``, ``key`` and ``said``, the output of the builder. Tests of one file run in
    several processes, and a build takes long: the first one that asks builds for all.
    """
    own = tmp_path_factory.getbasetemp()
    folder = (own.parent if "PYTEST_XDIST_WORKER" in os.environ else own) / "shared-build"
    with locked(folder.with_suffix(".lock"), timeout_s=ANY_BUILD_S):
        if not (folder / "said").exists():
            save_keypair(folder / "key", generate_keypair())
            options = ("--host", "--sign-key", str(folder / "key" / PRIVATE))
            said = build_pyz(ROOT, *options, "--out", str(folder / "dist"), **EPOCH)
            (folder / "said").write_text(said, "utf-8")
    return folder


def build(python: Path, checkout: Path, key: Path, environ: Mapping[str, str]) -> None:
    """Build for this machine, into the checkout."""
    command: list[str | Path] = [python, checkout / "build_zipapp.py", "--host", "--sign-key", key]
    ended = run(command, environ={**os.environ, **EPOCH, **environ}, umask=int(environ["UMASK"], 8))
    assert ended.returncode == 0, ended.stderr


def digests(dist: Path) -> dict[str, str]:
    """The digest of each file that a build made."""
    return {path.name: sha256(path.read_bytes()).hexdigest() for path in dist.iterdir()}


def another_python() -> Path:
    """One of another version, where this machine has it."""
    try:
        return builder("3.12" if sys.version_info[:2] != (3, 12) else "3.11")
    except pytest.skip.Exception:
        return Path(sys.executable)


def test_a_build_of_another_copy_in_another_environment_is_the_same_bytes(
    tmp_path: Path, signed_build: Path
) -> None:
    checkout = copy_checkout(tmp_path / "another copy")
    for path in checkout.rglob("*"):
        if not path.is_symlink():
            path.chmod(0o700 if path.is_dir() else 0o600)
            os.utime(path, (1_000_000_000, 1_000_000_000))
    lima = {"TZ": "America/Lima", "LC_ALL": "C.UTF-8", "PYTHONHASHSEED": "2", "UMASK": "077"}

    build(another_python(), checkout, signed_build / "key" / PRIVATE, lima)

    made = digests(checkout / "dist")
    assert made.keys() == MADE
    assert made == digests(signed_build / "dist")


def test_a_build_prints_its_files_and_its_signer(tmp_path: Path, signed_build: Path) -> None:
    said = (signed_build / "said").read_text("utf-8")
    data = (signed_build / "dist" / "rye.pyz").read_bytes()
    private, public = signed_build / "key" / PRIVATE, signed_build / "key" / "public_key.pem"
    machine = Machine(tmp_path, BASE_PYTHON, signed_build / "dist" / "rye.pyz")
    assert sha256(data).hexdigest() in said
    assert f"{len(data):,} bytes" in said
    assert f"by {compute_key_fingerprint(public.read_bytes())}, {private}" in said
    assert machine.ask("self", "verify", "--key", str(public)).startswith("valid    ")


def test_a_file_for_this_machine_alone_is_small(signed_build: Path) -> None:
    assert "; without code, and so slower to start: " in (signed_build / "said").read_text("utf-8")
    assert (signed_build / "dist" / "rye.pyz").stat().st_size < 6_000_000


def test_the_file_for_every_platform_has_its_compiled_modules_and_is_not_too_large(
    tmp_path: Path, signed_build: Path
) -> None:
    require_program("llvm-strip")
    key = signed_build / "key" / PRIVATE

    said = build_pyz(ROOT, "--out", str(tmp_path / "out"), "--sign-key", str(key))

    pyz = tmp_path / "out" / "rye.pyz"
    listed = json.loads(pyz.with_name("rye.pyz.cdx.json").read_text("utf-8"))["components"]
    files = [part["name"] for lib in listed for part in lib.get("components", ())]
    compiled = {name for name in files if name.startswith("_cffi_backend")}
    machine = Machine(tmp_path, BASE_PYTHON, pyz)
    assert f"compiled  for {', '.join(platform.name for platform in PLATFORMS)}\n" in said
    # One file serves both processors of macOS, and every version of Python.
    assert files.count("_sodium.abi3.so") == len(PLATFORMS) - 2
    assert files.count("_sodium.pyd") == 1
    # Here macOS has the same names for both of its processors.
    assert len(compiled) == (len(PLATFORMS) - 1) * len(MINORS)
    assert pyz.stat().st_size < 16_800_000
    assert machine.ask("run", "rye/bash/bash", "command=echo hi") == "hi\n"


def test_a_wheel_that_cannot_be_had_is_named(tmp_path: Path) -> None:
    checkout = copy_checkout(tmp_path / "checkout")
    (checkout / "build" / "zipapp" / "wheels").unlink()

    command: list[str | Path] = [sys.executable, checkout / "build_zipapp.py", "--host"]
    ended = run(command, environ=os.environ | {"PIP_NO_INDEX": "1"})

    assert ended.returncode == 1
    assert ended.stderr.startswith("error: wheels for linux-x86_64-311: ")
    assert "cffi==2.1.1" in ended.stderr
    assert ended.stderr.endswith("  hint: is the package index within reach?\n")
    assert not (checkout / "dist").exists()


@pytest.mark.parametrize(
    ("arguments", "environ", "words"),
    [
        (
            ["--sign-key", "no such.pem"],
            {},
            "error: sign: expected a key in no such.pem, found no file\n",
        ),
        (
            [],
            {"SOURCE_DATE_EPOCH": "?"},
            "error: SOURCE_DATE_EPOCH: expected seconds from 1970, in 1980 or later, found '?'\n",
        ),
    ],
)
def test_a_failed_build_is_reported_in_one_line(
    arguments: list[str], environ: dict[str, str], words: str, tmp_path: Path
) -> None:
    command: list[str | Path] = [sys.executable, ROOT / "build_zipapp.py", "--out", tmp_path]

    ended = run([*command, *arguments], environ=os.environ | environ, cwd=tmp_path)

    assert (ended.stderr, ended.returncode) == (words, 1)
    assert list(tmp_path.iterdir()) == []


def test_the_wheel_made_from_the_source_archive_runs_in_a_bare_environment(tmp_path: Path) -> None:
    made, venv = tmp_path / "made", tmp_path / "venv"
    _succeed(sys.executable, "-m", "build", "--outdir", made, ROOT)
    (wheel,) = made.glob("*.whl")

    _succeed(BASE_PYTHON, "-m", "venv", "--without-pip", venv)
    programs = venv / ("Scripts" if os.name == "nt" else "bin")
    install: list[str | Path] = [
        sys.executable,
        "-m",
        "pip",
        "--python",
        programs / "python",
        "install",
        "--quiet",
    ]
    _succeed(*install, "--require-hashes", "--requirement", ROOT / "requirements" / "runtime.txt")
    _succeed(*install, "--no-deps", wheel)
    machine = Machine(tmp_path, programs / "rye")

    assert machine.ask("run", "rye/bash/bash", "command=echo hi") == "hi\n"
    assert machine.run("run", "no/such/tool").returncode == 3


def _succeed(*command: str | Path) -> None:
    ended = run(list(command), environ=os.environ)
    assert ended.returncode == 0, ended.stdout + ended.stderr
