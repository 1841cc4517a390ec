"""What the builders make of a checkout: the same bytes every time, and a wheel that works."""

import json
import os
import shutil
import sys
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from pathlib import Path

import pytest

from lillux.signing import compute_key_fingerprint, generate_keypair, save_keypair
from packing.modules import MINORS
from packing.wheels import PLATFORMS
from tests.support.built import BASE_PYTHON, PACKED, ROOT, Machine, build_pyz, run
from tests.support.other_pythons import builder
from tests.support.programs import require_program

pytestmark = [pytest.mark.e2e, pytest.mark.heavy]

PYTHON_CACHES = shutil.ignore_patterns("__pycache__")
MADE = {"rye.pyz", "rye.pyz.sha256", "rye.pyz.sig", "rye.pyz.cdx.json"}
EPOCH = {"SOURCE_DATE_EPOCH": "1767225600"}


def copy_checkout(target: Path) -> Path:
    """A copy of what is packed, and of what packs it, with the wheels that are there already."""
    for name in PACKED:
        shutil.copytree(ROOT / name, target / name, ignore=PYTHON_CACHES)
    for name in ("LICENSE", "build_zipapp.py"):
        shutil.copy(ROOT / name, target)
    (target / "build" / "zipapp").mkdir(parents=True)
    wheels = ROOT / "build" / "zipapp" / "wheels"
    wheels.mkdir(parents=True, exist_ok=True)
    (target / "build" / "zipapp" / "wheels").symlink_to(wheels)
    # What cargo made of the libraries; our own programs are compiled for each checkout.
    compiled = ROOT / "build" / "native"
    compiled.mkdir(parents=True, exist_ok=True)
    (target / "build" / "native").symlink_to(compiled)
    return target


@pytest.fixture
def sign_key(tmp_path: Path) -> Path:
    """A publisher's private key."""
    save_keypair(tmp_path / "publisher", generate_keypair())
    return tmp_path / "publisher" / "private_key.pem"


def build(python: Path, checkout: Path, key: Path, environ: Mapping[str, str]) -> dict[str, str]:
    """Build for this machine; the digest of each file that was made."""
    command: list[str | Path] = [python, checkout / "build_zipapp.py", "--host", "--sign-key", key]
    ended = run(command, environ={**os.environ, **EPOCH, **environ}, umask=int(environ["UMASK"], 8))
    assert ended.returncode == 0, ended.stderr
    made = (checkout / "dist").iterdir()
    return {path.name: sha256(path.read_bytes()).hexdigest() for path in made}


def test_two_builds_of_one_tree_with_one_key_are_the_same_bytes(
    tmp_path: Path, sign_key: Path
) -> None:
    one, two = copy_checkout(tmp_path / "one"), copy_checkout(tmp_path / "and two")
    for path in two.rglob("*"):
        if not path.is_symlink():
            path.chmod(0o700 if path.is_dir() else 0o600)
            os.utime(path, (1_000_000_000, 1_000_000_000))
    tokyo = {"TZ": "Asia/Tokyo", "LC_ALL": "C", "PYTHONHASHSEED": "1", "UMASK": "022"}
    lima = {"TZ": "America/Lima", "LC_ALL": "C.UTF-8", "PYTHONHASHSEED": "2", "UMASK": "077"}

    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(build, Path(sys.executable), one, sign_key, tokyo)
        second = pool.submit(build, Path(sys.executable), two, sign_key, lima)

    assert first.result().keys() == MADE
    assert first.result() == second.result()


def test_a_build_by_another_version_of_python_is_the_same_bytes(
    tmp_path: Path, sign_key: Path
) -> None:
    other = builder("3.12" if sys.version_info[:2] != (3, 12) else "3.11")
    checkout = copy_checkout(tmp_path / "checkout")
    plain = {"UMASK": "022"}

    own = build(Path(sys.executable), checkout, sign_key, plain)
    others = build(other, checkout, sign_key, plain)

    assert own == others


def test_a_build_says_what_it_made_and_who_signed_it(tmp_path: Path, sign_key: Path) -> None:
    said = build_pyz(ROOT, "--host", "--out", str(tmp_path / "out"), "--sign-key", str(sign_key))

    data = (tmp_path / "out" / "rye.pyz").read_bytes()
    public = sign_key.parent / "public_key.pem"
    machine = Machine(tmp_path, BASE_PYTHON, tmp_path / "out" / "rye.pyz")
    assert sha256(data).hexdigest() in said
    assert f"{len(data):,} bytes" in said
    assert f"by {compute_key_fingerprint(public.read_bytes())}, {sign_key}" in said
    assert machine.ask("self", "verify", "--key", str(public)).startswith("valid    ")


def test_the_file_forevery_platform_has_its_compiled_modules_and_is_not_too_large(
    tmp_path: Path, sign_key: Path
) -> None:
    require_program("llvm-strip")

    said = build_pyz(ROOT, "--out", str(tmp_path / "out"), "--sign-key", str(sign_key))

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
    assert pyz.stat().st_size < 14_000_000
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
def test_what_cannot_be_built_is_said_in_a_line(
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
