"""What the builders make of a checkout: the same bytes every time, and a wheel that works."""

import os
import shutil
import sys
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from pathlib import Path
from zipfile import ZipFile

import pytest

from lillux.signing import compute_key_fingerprint, generate_keypair, save_keypair
from tests.support.built import BASE_PYTHON, PACKED, ROOT, Machine, build_pyz, run

pytestmark = pytest.mark.e2e

PYTHON_CACHES = shutil.ignore_patterns("__pycache__")
PUBLIC_KEY = "site-packages/ryeos/bundle/public_key.pem"


def copy_checkout(target: Path) -> Path:
    """A copy of what is packed, and of what packs it."""
    for name in PACKED:
        shutil.copytree(ROOT / name, target / name, ignore=PYTHON_CACHES)
    shutil.copy(ROOT / "build_zipapp.py", target)
    return target


@pytest.fixture
def sign_key(tmp_path: Path) -> Path:
    """A publisher's private key."""
    save_keypair(tmp_path / "publisher", generate_keypair())
    return tmp_path / "publisher" / "private_key.pem"


def test_two_builds_of_one_tree_with_one_key_are_the_same_bytes(
    tmp_path: Path, sign_key: Path
) -> None:
    one, two = copy_checkout(tmp_path / "one"), copy_checkout(tmp_path / "and two")
    for path in two.rglob("*"):
        path.chmod(0o700 if path.is_dir() else 0o600)
        os.utime(path, (1_000_000_000, 1_000_000_000))
    surroundings = {
        one: {"TZ": "Asia/Tokyo", "LC_ALL": "C", "PYTHONHASHSEED": "1"},
        two: {"TZ": "America/Lima", "LC_ALL": "C.UTF-8", "PYTHONHASHSEED": "2"},
    }

    def build(checkout: Path) -> str:
        environ = surroundings[checkout] | {"SOURCE_DATE_EPOCH": "1767225600"}
        build_pyz(checkout, "--sign-key", str(sign_key), **environ)
        return sha256((checkout / "dist" / "rye.pyz").read_bytes()).hexdigest()

    with ThreadPoolExecutor(2) as pool:
        digests = list(pool.map(build, (one, two)))

    assert digests[0] == digests[1]


def test_a_build_says_what_it_made_and_who_signed_it(tmp_path: Path, sign_key: Path) -> None:
    said = build_pyz(ROOT, "--out", str(tmp_path), "--sign-key", str(sign_key))

    data = (tmp_path / "rye.pyz").read_bytes()
    with ZipFile(tmp_path / "rye.pyz") as archive:
        public_pem = archive.read(PUBLIC_KEY)
    assert public_pem == (sign_key.parent / "public_key.pem").read_bytes()
    assert sha256(data).hexdigest() in said
    assert f"{len(data):,} bytes" in said
    assert f"by {compute_key_fingerprint(public_pem)}, {sign_key}" in said


@pytest.mark.parametrize(
    ("arguments", "environ", "words"),
    [
        (
            ["--sign-key", "no such.pem"],
            {},
            "error: sign: expected a private key in no such.pem, found no file\n",
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
