"""A client is killed while a user settles conflicts: both versions are kept all the time."""

import os
import shutil
import sys
from pathlib import Path

import pytest

from ryeos.remote.conflicts import ConflictFolder, ConflictRecord
from tests.support.remote_client import RYE, Client, Ended, files_there
from tests.support.workspace import ROOT

KILLED = -9
KILLING = (sys.executable, str(ROOT / "tests" / "support" / "killed_at_step.py"))
PATHS = ["src/0.txt", "src/gone.txt", "src/here.txt"]
MOST_STEPS = 100
pytestmark = [pytest.mark.skipif(os.name == "nt", reason="kills as POSIX does"), pytest.mark.heavy]


@pytest.fixture
def torn(client: Client, other: Client) -> Client:
    """A client in conflict: a file changed on both sides, one removed there, one removed here."""
    client.write(dict.fromkeys(PATHS, "base\n"))
    client.push()
    other.pull()
    other.write({"src/0.txt": "theirs\n", "src/here.txt": "theirs\n"})
    (other.root / "src/gone.txt").unlink()
    other.push()
    client.write({"src/0.txt": "ours\n", "src/gone.txt": "ours\n"})
    (client.root / "src/here.txt").unlink()
    assert client("remote", "push").status != 0
    assert record_of(client).open_paths() == PATHS
    return client


def conflicts_of(client: Client) -> ConflictFolder:
    return ConflictFolder(client.root / ".ai", "default")


def record_of(client: Client) -> ConflictRecord:
    """The kept conflicts. Fails the test where there are none."""
    record = conflicts_of(client).read()
    assert record is not None
    return record


def killed_at(step: int, client: Client, *argv: str) -> Ended:
    """Run a command that is killed right before its so many-th change of the project."""
    client.command = (*KILLING, str(step), str(client.root), RYE[1])
    try:
        return client(*argv)
    finally:
        client.command = RYE


def is_everything_kept(client: Client) -> bool:
    """Whether each version of each file can still be found, and no file is half of one."""
    folder, there = conflicts_of(client), client.files()
    ours = {"src/0.txt": b"ours\n", "src/gone.txt": b"ours\n", "src/here.txt": None}
    theirs = {"src/0.txt": b"theirs\n", "src/gone.txt": None, "src/here.txt": b"theirs\n"}
    for path in PATHS:
        if there.get(path) not in {ours[path], theirs[path], b"merged\n"}:
            return False
        if ours[path] not in {there.get(path), folder.kept("ours", path)}:
            return False
        if folder.kept("theirs", path) != theirs[path]:
            return False
    return True


WAYS = {
    "--ours": {"src/0.txt": b"ours\n", "src/gone.txt": b"ours\n", "src/here.txt": None},
    "--theirs": {"src/0.txt": b"theirs\n", "src/gone.txt": None, "src/here.txt": b"theirs\n"},
}


@pytest.mark.parametrize("way", WAYS)
def test_whenever_resolving_is_killed_both_versions_are_kept_and_it_can_be_done_again(
    torn: Client, tmp_path: Path, way: str
) -> None:
    before = tmp_path / "before"
    shutil.copytree(torn.root, before)

    for step in range(1, MOST_STEPS):
        ended = killed_at(step, torn, "remote", "resolve", *PATHS, way)
        if ended.status != KILLED:
            break
        assert is_everything_kept(torn), step
        settled = {*PATHS} - {*record_of(torn).open_paths()}
        assert all(torn.files().get(path) == WAYS[way][path] for path in settled), step

        again = torn("remote", "resolve", *PATHS, way)

        assert again.status == 0, (step, again.stderr)
        assert record_of(torn).open_paths() == []
        assert {path: torn.files().get(path) for path in PATHS} == WAYS[way]
        assert is_everything_kept(torn), step
        put_back(before, torn.root)

    assert ended.status == 0, ended.stderr
    assert step > 2 * len(PATHS)  # a change of the record at least for each, and it is two steps
    pushed = torn("remote", "push")
    assert pushed.status == 0, pushed.stderr
    assert {path: files_there(torn.user).get(path) for path in PATHS} == WAYS[way]
    assert files_there(torn.user) == torn.files()


def put_back(before: Path, root: Path) -> None:
    """The project as it was, and its conflicts with it."""
    shutil.rmtree(root)
    shutil.copytree(before, root)


@pytest.mark.parametrize("step", [1, 2, 3, 5, 8, 18])
def test_a_push_after_resolving_was_killed_sends_only_versions_that_the_user_chose(
    torn: Client, step: int
) -> None:
    killed_at(step, torn, "remote", "resolve", *PATHS, "--theirs")
    there = files_there(torn.user)

    refused = torn("remote", "push")

    assert refused.status != 0
    assert files_there(torn.user) == there
    assert is_everything_kept(torn)
    again = torn("remote", "resolve", *PATHS, "--theirs")
    assert again.status == 0, again.stderr
    assert torn("remote", "push").status == 0
    assert files_there(torn.user) == torn.files()


def test_a_file_that_a_user_merged_is_taken_whole_or_not_when_resolving_is_killed(
    torn: Client, tmp_path: Path
) -> None:
    before, merged = tmp_path / "before", tmp_path / "merged.txt"
    merged.write_bytes(b"merged\n")
    shutil.copytree(torn.root, before)

    for step in range(1, MOST_STEPS):
        argv = ("remote", "resolve", "src/0.txt", "--merged", str(merged))
        ended = killed_at(step, torn, *argv)
        if ended.status != KILLED:
            break
        assert is_everything_kept(torn), step
        assert torn(*argv).status == 0
        assert torn.files()["src/0.txt"] == b"merged\n"
        assert is_everything_kept(torn), step
        put_back(before, torn.root)

    assert ended.status == 0, ended.stderr
    assert torn.files()["src/0.txt"] == b"merged\n"
