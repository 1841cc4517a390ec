"""Pythons of the machine besides the one that runs the tests."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

import pytest

from lillux.file_locks import locked
from packing.interpreters import PYTHONS
from packing.wheels import requirements
from tests.support.built import ROOT
from tests.support.programs import unavailable

INSTALLED = "3.14"
"""What `.ci/run` installs: a test of it may not be skipped there."""


def require_python(version: str) -> Path:
    """A Python of that minor, like ``3.12``; the test is skipped on a machine without one.

    It is started, not only found: a version manager's shim can be there without its version.
    """
    ask = "import sys; sys.stdout.write('%d.%d' % sys.version_info[:2])"
    for candidate in _candidates(version):
        if not candidate.exists():
            continue
        ended = subprocess.run([candidate, "-c", ask], capture_output=True, check=False)
        if ended.stdout == version.encode():
            return candidate
    reason = f"there is no Python {version} on this machine"
    if version == INSTALLED:
        unavailable(f"{reason}: scripts/install_python_314")
    pytest.skip(reason)


def _candidates(version: str) -> Iterator[Path]:
    root = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    yield from sorted(root.glob(f"versions/{version}.*/bin/python"))
    yield PYTHONS / version / "bin" / f"python{version}"
    found = shutil.which(f"python{version}")
    if found:
        yield Path(found)


def builder(version: str) -> Path:
    """A Python of that minor in an environment that can run ``build_zipapp.py``; made once."""
    python = require_python(version)
    locks = [ROOT / "requirements" / name for name in ("runtime.txt", "dev.txt")]
    pinned = {
        name: pin for lock in locks for name, pin in requirements(lock.read_text("utf-8")).items()
    }
    wanted = {*requirements(locks[0].read_text("utf-8")), "click", "pip", "setuptools", "shiv"}
    text = "".join(pinned[name] for name in sorted(wanted))
    folder = ROOT / "build" / "builders" / f"{version}-{sha256(text.encode()).hexdigest()[:16]}"
    with locked(folder.with_suffix(".lock"), timeout_s=300):
        if not (folder / "ready").exists():
            subprocess.run([python, "-m", "venv", "--clear", folder], check=True)
            (folder / "lock.txt").write_text(text, "utf-8")
            command: list[str | Path] = [folder / "bin" / "python", "-m", "pip", "install", "-q"]
            options = ["--disable-pip-version-check", "--no-deps", "--require-hashes", "-r"]
            subprocess.run([*command, *options, folder / "lock.txt"], check=True)
            (folder / "ready").touch()
    return folder / "bin" / "python"
