"""Environments that are hard on a program: file systems made for a test, unknown users."""

import os
import stat
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.built import BASE_PYTHON, Machine, run

STRANGER = 12345
"""A user number that no system knows."""


@contextmanager
def mounted(folder: Path, options: str) -> Iterator[Path]:
    """A file system of its own in ``folder``; the test is skipped where none can be mounted."""
    folder.mkdir(exist_ok=True)
    command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)]
    try:
        ended = subprocess.run(
            command, capture_output=True, text=True, encoding="utf-8", check=False
        )
    except FileNotFoundError:
        pytest.skip("there is no mount on this machine")
    if ended.returncode:
        pytest.skip(f"no file system can be mounted here: {ended.stderr.strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=True)


class SharedFile:
    """The built file where every user of the machine can read it, and a folder for everyone."""

    def __init__(self, folder: Path, built_pyz: Path) -> None:
        folder.chmod(0o755)
        self.folder = folder
        self.pyz = folder / "rye.pyz"
        self.pyz.write_bytes(built_pyz.read_bytes())
        self.temporary = self.make("tmp", 0o1777)

    def make(self, name: str, mode: int) -> Path:
        """A folder with that mode."""
        made = self.folder / name
        made.mkdir()
        made.chmod(mode)
        return made

    def run(self, *arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
        """Rye as a user who is not root; if root runs the tests, it is an unknown user."""
        for parent in BASE_PYTHON.resolve().parents:
            if not parent.stat().st_mode & stat.S_IXOTH:
                pytest.skip(f"{BASE_PYTHON} is in a folder that other users cannot enter")
        settings = {"PATH": os.environ["PATH"], "TMPDIR": str(self.temporary)} | environ
        command: list[str | Path] = [BASE_PYTHON, self.pyz, *arguments]
        if os.geteuid() == 0:
            return run(command, environ=settings, cwd=self.folder, user=STRANGER)
        return run(command, environ=settings, cwd=self.folder)


@contextmanager
def shared_file(built_pyz: Path) -> Iterator[SharedFile]:
    """The built file for every user; not below pytest's folders, which only their owner enters."""
    with tempfile.TemporaryDirectory() as name:
        yield SharedFile(Path(name), built_pyz)


def without_room(machine: Machine) -> None:
    """From now on no byte can be written to any file."""
    machine.rye = ("sh", "-c", 'ulimit -f 0; exec "$@"', "sh", *machine.rye)
