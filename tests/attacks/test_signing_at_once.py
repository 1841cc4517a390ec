"""Several processes that sign one file, edits in between, and processes that die half-way."""

import sys
from pathlib import Path

import pytest

from ryeos.items.refs import Kind
from ryeos.trust.audit import targets_in_spaces
from ryeos.trust.resolver import locations
from tests.support.signing_process import SigningProcess
from tests.support.workspace import Workspace

TIMES = 25


@pytest.fixture
def path(workspace: Workspace) -> Path:
    return workspace.project.signed_tool("x", "# comment\n" * 500)


def assert_valid(workspace: Workspace, path: Path) -> None:
    assert workspace.rye().verifier.verify(workspace.project.target(path).verify_target).verified


def test_a_reader_sees_a_whole_and_valid_file_at_any_time(workspace: Workspace, path: Path) -> None:
    processes = [SigningProcess(workspace, path, times=TIMES) for _ in range(2)]
    for process in processes:
        process.start()

    for process in processes:
        for _ in range(TIMES):
            assert process.line() == "signed"
            assert_valid(workspace, path)

    assert [process.finish() for process in processes] == [(0, []), (0, [])]
    assert path.read_text(encoding="utf-8").count("rye:signed:") == 1
    assert [found.name for found in path.parent.iterdir()] == ["x.py"]


def test_an_edit_between_reading_and_writing_is_kept(workspace: Workspace, path: Path) -> None:
    process = SigningProcess(workspace, path, times=0)
    assert process.line() == "reading"
    edited = path.read_text(encoding="utf-8") + "# an edit\n"

    path.write_text(edited, encoding="utf-8")
    process.start()
    status, said = process.finish()

    assert status == 1
    assert said == [
        f"FileChangedError: {path}: changed by someone else while it was being written",
        "nothing was overwritten; run the command again",
    ]
    assert path.read_text(encoding="utf-8") == edited


def test_a_second_signer_waits_and_signs_the_text_of_that_time(
    workspace: Workspace, path: Path
) -> None:
    first = SigningProcess(workspace, path, times=0)
    assert first.line() == "reading"
    second = SigningProcess(workspace, path, times=1)
    second.start()
    edited = path.read_text(encoding="utf-8") + "# an edit\n"

    path.write_text(edited, encoding="utf-8")
    first.start()

    assert first.finish()[0] == 1
    assert second.finish() == (0, ["signed"])
    assert path.read_text(encoding="utf-8").endswith("# an edit\n")
    assert_valid(workspace, path)


@pytest.mark.skipif(sys.platform == "win32", reason="a kill that cannot be caught")
def test_a_killed_signer_leaves_the_file_whole_and_its_lock_free(
    workspace: Workspace, path: Path
) -> None:
    for count in range(1, 8):
        process = SigningProcess(workspace, path, times=1000)
        process.start()
        for _ in range(count):
            assert process.line() == "signed"
        process.kill()

        assert_valid(workspace, path)

    assert workspace.project.sign(path).signature


@pytest.mark.skipif(sys.platform == "win32", reason="a kill that cannot be caught")
def test_a_temporary_file_of_a_killed_signer_is_no_item(workspace: Workspace, path: Path) -> None:
    """A temporary file with the whole, signed text: hidden, and of a type that nothing reads."""
    space = workspace.project.space
    path.with_name(".x.py.0123456789ab.tmp").write_bytes(path.read_bytes())

    assert [location.path for location in locations(space, Kind.TOOL)] == [path]
    assert [target.path for target in targets_in_spaces([space])] == [path]
