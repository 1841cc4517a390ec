"""The disk is full, or read-only, while a file is being signed: nothing is lost or half-written."""

import errno
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from lillux.errors import FileSystemError
from ryeos.items.refs import PROJECT, Space
from tests.support.programs import require_program
from tests.support.signing_process import SigningProcess
from tests.support.workspace import SpaceFolder, Workspace

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="limits and mounts of POSIX")


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


# --- a limit on the size of files, which fails like a full disk -----------------------------------


def test_a_write_that_fails_half_way_leaves_the_file_as_it_was(workspace: Workspace) -> None:
    path = workspace.project.tool("x", "# comment\n" * 1000)
    before = path.read_bytes()
    process = SigningProcess(workspace, path, max_file_bytes=4096)

    process.start()
    status, said = process.finish()

    assert status == 1
    assert said[0].startswith(f"FileSystemError: {path}: ")
    assert path.read_bytes() == before
    assert names_in(path.parent) == ["x.py"]


def test_a_signature_beside_is_whole_or_absent(workspace: Workspace) -> None:
    path = workspace.project.write("tools/data.json", "{}")
    process = SigningProcess(workspace, path, max_file_bytes=100)

    process.start()
    status, said = process.finish()

    assert status == 1
    assert said[0].startswith("FileSystemError: ")
    assert names_in(path.parent) == ["data.json"]


def test_an_old_signature_stays_valid_when_the_new_one_does_not_fit(workspace: Workspace) -> None:
    path = workspace.project.signed_tool("x", "# comment\n" * 1000)
    process = SigningProcess(workspace, path, max_file_bytes=4096)

    process.start()
    process.finish()

    target = workspace.project.target(path).verify_target
    assert workspace.rye().verifier.verify(target).verified


# --- a small file system of our own ---------------------------------------------------------------


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 64 KiB."""
    mount, umount = require_program("mount"), require_program("umount")
    folder = tmp_path / "disk"
    folder.mkdir()
    done = subprocess.run(
        [mount, "-t", "tmpfs", "-o", "size=64k", "tmpfs", folder], capture_output=True, check=False
    )
    if done.returncode:
        pytest.skip(f"mounting needs a privilege: {done.stderr.decode().strip()}")
    yield folder
    subprocess.run([umount, "-l", folder], check=True)


@pytest.fixture
def on_disk(workspace: Workspace, small_disk: Path) -> SpaceFolder:
    """A project on it."""
    (small_disk / ".ai" / "state").mkdir(parents=True)
    (small_disk / ".ai" / "state" / "sign.lock").touch()
    return SpaceFolder(workspace, Space(PROJECT, small_disk))


def fill(folder: Path) -> Path:
    """Fill a disk to the last byte."""
    filler = folder / "filler"
    with suppress(OSError), filler.open("wb", buffering=0) as file:
        while file.write(b"x" * 512):
            pass
    return filler


def test_a_full_disk_is_named_and_nothing_is_lost(
    workspace: Workspace, on_disk: SpaceFolder
) -> None:
    path = on_disk.tool("x", "# comment\n" * 600)
    before = path.read_bytes()
    filler = fill(on_disk.space.base)

    with pytest.raises(FileSystemError) as error:
        on_disk.sign(path)

    assert error.value.problem == os.strerror(errno.ENOSPC).lower()
    assert error.value.hint == "free some disk space and try again; nothing was changed"
    assert path.read_bytes() == before
    assert names_in(path.parent) == ["x.py"]
    filler.unlink()
    assert on_disk.sign(path).signature


def test_a_read_only_disk_is_named_and_signed_items_on_it_verify(
    workspace: Workspace, on_disk: SpaceFolder
) -> None:
    path = on_disk.tool("x")
    on_disk.sign(path)
    subprocess.run(["mount", "-o", "remount,ro", on_disk.space.base], check=True)

    assert workspace.rye().verifier.verify(on_disk.target(path).verify_target).verified
    with pytest.raises(FileSystemError) as error:
        on_disk.sign(path)

    assert error.value.problem == os.strerror(errno.EROFS).lower()
    assert error.value.hint == "the file system is read-only; nothing was changed"
