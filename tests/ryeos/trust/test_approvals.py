import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from lillux.errors import FileSystemError
from lillux.files import FileTooLargeError
from ryeos.items.errors import RyeError
from ryeos.trust.store import MAX_APPROVALS_BYTES, Approvals
from tests.support.errors import coded

ROOT = Path(__file__).resolve().parents[3]
ONE, TWO = "1" * 16, "2" * 16


@pytest.fixture
def approvals(tmp_path: Path) -> Approvals:
    return Approvals(tmp_path / ".ai")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    path = tmp_path / "project"
    path.mkdir()
    return path


def write(approvals: Approvals, text: str | bytes) -> None:
    approvals.path.parent.mkdir(parents=True, exist_ok=True)
    approvals.path.write_bytes(text if isinstance(text, bytes) else text.encode())


def test_no_key_is_approved_at_first(approvals: Approvals, project: Path) -> None:
    assert not approvals.is_approved(project, ONE)
    assert not approvals.path.exists()


def test_an_approval_is_for_one_key_in_one_project(approvals: Approvals, project: Path) -> None:
    approvals.approve(project, ONE)

    assert approvals.is_approved(project, ONE)
    assert not approvals.is_approved(project, TWO)
    assert not approvals.is_approved(project.parent, ONE)


def test_the_file_has_the_documented_format(approvals: Approvals, project: Path) -> None:
    approvals.approve(project, TWO)
    approvals.approve(project, ONE)
    approvals.approve(project, ONE)

    document = {"version": 1, "projects": {os.path.realpath(project): [ONE, TWO]}}
    assert json.loads(approvals.path.read_bytes()) == document


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX permissions")
def test_only_the_user_can_read_the_file(approvals: Approvals, project: Path) -> None:
    approvals.approve(project, ONE)

    assert stat.S_IMODE(approvals.path.stat().st_mode) == 0o600
    assert stat.S_IMODE(approvals.path.parent.stat().st_mode) == 0o700


def test_an_approval_can_be_withdrawn(approvals: Approvals, project: Path) -> None:
    approvals.approve(project, ONE)
    approvals.approve(project, TWO)

    assert approvals.withdraw(project, ONE)
    assert not approvals.withdraw(project, ONE)

    assert not approvals.is_approved(project, ONE)
    assert approvals.is_approved(project, TWO)


def test_withdrawing_an_unknown_approval_writes_no_file(
    approvals: Approvals, project: Path
) -> None:
    assert not approvals.withdraw(project, ONE)

    assert not approvals.path.parent.parent.exists()


def test_a_running_process_sees_approvals_of_another(approvals: Approvals, project: Path) -> None:
    other = Approvals(approvals.path.parents[2])
    other.approve(project, ONE)
    assert approvals.is_approved(project, ONE)

    other.withdraw(project, ONE)

    assert not approvals.is_approved(project, ONE)


@pytest.mark.skipif(sys.platform == "win32", reason="links need a privilege there")
def test_a_project_is_known_by_its_real_path(approvals: Approvals, project: Path) -> None:
    link = project.parent / "link"
    link.symlink_to(project)
    approvals.approve(link, ONE)

    assert approvals.is_approved(project, ONE)
    link.unlink()
    link.symlink_to(project.parent)
    assert not approvals.is_approved(link, ONE)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "expected JSON, found: Expecting value: line 1 column 1 (char 0)"),
        ("[]", "expected an approvals file of version 1"),
        ('{"version": 2, "projects": {}}', "expected an approvals file of version 1"),
        ('{"version": 1, "projects": []}', "expected an approvals file of version 1"),
        ('{"version": 1}', "expected an approvals file of version 1"),
    ],
)
def test_a_broken_file_is_an_error(
    approvals: Approvals, project: Path, text: str, problem: str
) -> None:
    write(approvals, text)

    with pytest.raises(RyeError, check=coded("CONFIG_ERROR")) as error:
        approvals.is_approved(project, ONE)

    assert str(error.value) == f"{approvals.path}: {problem}"


@pytest.mark.skipif(sys.platform == "win32", reason="a FIFO")
def test_a_pipe_in_the_place_of_the_file_is_an_error(approvals: Approvals, project: Path) -> None:
    approvals.path.parent.mkdir(parents=True)
    os.mkfifo(approvals.path)

    with pytest.raises(FileSystemError, match="expected a regular file"):
        approvals.is_approved(project, ONE)


@pytest.mark.parametrize("data", [b"\xff", b"[" * 100_000, b'{"a": ' + b"1" * 10_000 + b"}"])
def test_any_invalid_file_is_a_key_document_error(
    approvals: Approvals, project: Path, data: bytes
) -> None:
    write(approvals, data)

    with pytest.raises(RyeError, check=coded("CONFIG_ERROR")):
        approvals.approve(project, ONE)

    assert approvals.path.read_bytes() == data


def test_a_very_large_file_is_refused(approvals: Approvals, project: Path) -> None:
    write(approvals, b" " * (MAX_APPROVALS_BYTES + 1))

    with pytest.raises(FileTooLargeError):
        approvals.is_approved(project, ONE)


def test_entries_of_another_type_approve_no_key(approvals: Approvals, project: Path) -> None:
    real = os.path.realpath(project)
    write(approvals, json.dumps({"version": 1, "projects": {real: [1, None, TWO], "/x": "abc"}}))

    approvals.approve(project, ONE)

    assert approvals.is_approved(project, ONE)
    assert approvals.is_approved(project, TWO)
    assert json.loads(approvals.path.read_bytes())["projects"] == {real: [ONE, TWO]}


APPROVE_MANY = """
import sys
from pathlib import Path
from ryeos.trust.store import Approvals
approvals = Approvals(Path(sys.argv[1]))
sys.stdin.readline()
for number in range(20):
    approvals.approve(Path(sys.argv[2]), f"{sys.argv[3]}{number:015d}")
"""


def test_simultaneous_processes_lose_no_approval(approvals: Approvals, project: Path) -> None:
    command = [sys.executable, "-c", APPROVE_MANY, str(approvals.path.parents[2]), str(project)]
    workers = [
        subprocess.Popen([*command, digit], stdin=subprocess.PIPE, cwd=ROOT) for digit in "123"
    ]
    for worker in workers:
        assert worker.stdin
        worker.stdin.write(b"\n")
        worker.stdin.flush()
    for worker in workers:
        worker.communicate()

    assert [worker.returncode for worker in workers] == [0, 0, 0]
    approved = json.loads(approvals.path.read_bytes())["projects"][os.path.realpath(project)]
    assert len(approved) == 60
