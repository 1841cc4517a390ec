"""Unmerged changes of a run are merged locally, settled and pushed."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from ryeos.items.errors import RyeError, error_envelope
from ryeos.remote.conflicts import ConflictFolder
from ryeos.remote.errors import RemoteConflictError, RemoteError
from ryeos.remote.pull import MOST, MergedRuns, pull
from ryeos.remote.push import push
from ryeos.remote.replies import RemoteExecution
from ryeos.remote.run import FinishedRun, RemoteRun, execute
from ryeos.remote.settle import VersionChoice, resolve
from ryeos.remote.unmerged_runs import UNMERGED, pull_run
from tests.support.errors import coded
from tests.support.memory_node import MemoryNode, reply
from tests.support.remote_project import RemoteProject


def run_in_conflict(project: RemoteProject, node: MemoryNode) -> FinishedRun:
    """A run that changes ``src/a.txt``, like another user, and makes ``src/new.txt``."""
    project.write({"src/a.txt": "base\n"})

    def run(node: MemoryNode, _: Any, files: dict[str, bytes]) -> Mapping[str, Any]:  # noqa: ANN401
        node.edit({"src/a.txt": b"another user's\n"})
        files["src/a.txt"] = b"the run's\n"
        files["src/new.txt"] = b"made\n"
        return {"status": "success", "data": 1}

    node.run = run
    return execute(project.link, RemoteRun(item_ref="tool:mine/x"))


def settle(project: RemoteProject, *paths: str, choice: VersionChoice) -> None:
    resolve(project.link.conflicts, project.root, "default", paths, choice=choice)


def test_a_run_in_conflict_says_how_it_is_merged(
    project: RemoteProject, memory_node: MemoryNode
) -> None:
    ran = run_in_conflict(project, memory_node)

    snapshot = ran.executed.unmerged_snapshot
    assert f"rye remote pull --thread {snapshot} --remote default" in ran.warnings[0]


@pytest.mark.parametrize("by_digest", [False, True])
@pytest.mark.parametrize(
    ("choice", "text"),
    [(VersionChoice.THEIRS, b"the run's\n"), (VersionChoice.OURS, b"another user's\n")],
)
def test_a_push_includes_settled_files_and_other_changes_of_the_run(
    project: RemoteProject,
    memory_node: MemoryNode,
    choice: VersionChoice,
    text: bytes,
    *,
    by_digest: bool,
) -> None:
    executed = run_in_conflict(project, memory_node).executed
    run = executed.unmerged_snapshot if by_digest else executed.thread_id

    with pytest.raises(RemoteConflictError) as error:
        pull_run(project.link, run)
    assert error.value.paths == ("src/a.txt",)
    assert project.read("src/new.txt") is None

    settle(project, "src/a.txt", choice=choice)
    pushed = push(project.link)

    assert "src/new.txt" in pushed.merged.paths
    assert memory_node.files() == project.files()
    assert memory_node.files()["src/a.txt"] == text
    assert memory_node.files()["src/new.txt"] == b"made\n"
    assert project.link.conflicts.read() is None


def test_a_second_pull_of_the_run_merges_after_a_settlement(
    project: RemoteProject, memory_node: MemoryNode
) -> None:
    thread_id = run_in_conflict(project, memory_node).executed.thread_id
    with pytest.raises(RemoteConflictError):
        pull_run(project.link, thread_id)
    settle(project, "src/a.txt", choice=VersionChoice.OURS)

    pulled = pull_run(project.link, thread_id)

    assert pulled.applied.written == ("src/new.txt",)
    assert project.read("src/a.txt") == "another user's\n"


def test_changes_merged_from_a_run_are_reported_even_if_the_push_fails(
    project: RemoteProject, memory_node: MemoryNode
) -> None:
    thread_id = run_in_conflict(project, memory_node).executed.thread_id
    with pytest.raises(RemoteConflictError):
        pull_run(project.link, thread_id)
    settle(project, "src/a.txt", choice=VersionChoice.OURS)
    memory_node.before = lambda _, path: reply({}, 500) if path == "/objects/put" else None
    del project.reported[:]

    with pytest.raises(RemoteError) as error:
        push(project.link)

    assert [applied.added for _, applied in project.reported] == [("src/new.txt",)]
    assert error_envelope(error.value)["merged"] == ["src/new.txt"]


def merged_here(project: RemoteProject, node: MemoryNode) -> RemoteExecution:
    """A run whose conflict was settled and merged locally."""
    executed = run_in_conflict(project, node).executed
    with pytest.raises(RemoteConflictError):
        pull_run(project.link, executed.thread_id)
    settle(project, "src/a.txt", choice=VersionChoice.OURS)
    pull_run(project.link, executed.thread_id)
    return executed


@pytest.mark.parametrize("is_pushed", [False, True])
def test_a_locally_merged_run_is_not_merged_again(
    project: RemoteProject, memory_node: MemoryNode, *, is_pushed: bool
) -> None:
    executed = merged_here(project, memory_node)
    if is_pushed:
        push(project.link)
    project.write({"src/new.txt": None})
    before = project.files()

    pulled = pull_run(project.link, executed.thread_id)

    assert (pulled.was_merged, pulled.applied.paths) == (True, ())
    assert pulled.snapshot_hash == executed.unmerged_snapshot
    assert project.files() == before
    assert project.link.conflicts.read() is None


def test_a_locally_merged_run_can_be_merged_again_by_its_digest(
    project: RemoteProject, memory_node: MemoryNode
) -> None:
    executed = merged_here(project, memory_node)

    with pytest.raises(RemoteConflictError) as error:
        pull_run(project.link, executed.unmerged_snapshot)

    assert error.value.paths == ("src/a.txt",)


def test_a_run_with_forgotten_conflicts_is_not_merged(
    project: RemoteProject, memory_node: MemoryNode
) -> None:
    executed = run_in_conflict(project, memory_node).executed
    with pytest.raises(RemoteConflictError):
        pull_run(project.link, executed.thread_id)
    push(project.link, force=True)

    with pytest.raises(RemoteConflictError):
        pull_run(project.link, executed.thread_id)


def test_the_list_of_merged_runs_may_be_damaged_or_long(tmp_path: Path) -> None:
    merged = MergedRuns(ConflictFolder(tmp_path / ".ai", "remote"))
    merged.add("0" * 64)
    for number in range(1, MOST + 1):
        merged.add(f"{number:064}")
    assert not merged.has("0" * 64)
    assert merged.has(f"{1:064}")

    merged.path.write_text("{", encoding="utf-8")
    assert not merged.has(f"{1:064}")
    merged.add("a" * 64)

    assert merged.has("a" * 64)


@pytest.mark.parametrize("command", [push, pull])
def test_unsettled_files_stay_in_conflict(
    project: RemoteProject,
    memory_node: MemoryNode,
    command: Any,  # noqa: ANN401
) -> None:
    thread_id = run_in_conflict(project, memory_node).executed.thread_id
    with pytest.raises(RemoteConflictError):
        pull_run(project.link, thread_id)
    before = memory_node.files()

    with pytest.raises(RemoteConflictError, match=r"src/a\.txt"):
        command(project.link)

    assert memory_node.files() == before


def test_a_head_that_moves_meanwhile_is_merged(
    project: RemoteProject, memory_node: MemoryNode
) -> None:
    thread_id = run_in_conflict(project, memory_node).executed.thread_id
    with pytest.raises(RemoteConflictError):
        pull_run(project.link, thread_id)
    memory_node.edit({"src/late.txt": b"late\n"})
    settle(project, "src/a.txt", choice=VersionChoice.THEIRS)

    push(project.link)

    assert memory_node.files() == project.files()
    assert project.read("src/late.txt") == "late\n"
    assert project.read("src/a.txt") == "the run's\n"


def test_a_merged_run_cannot_be_pulled(project: RemoteProject, memory_node: MemoryNode) -> None:
    push(project.link)
    memory_node.threads.append({"thread_id": "t-1", "project_path": "project", UNMERGED: None})
    memory_node.threads.append({"thread_id": "t-2", "project_path": "other", UNMERGED: "a" * 64})

    with pytest.raises(RyeError, check=coded("ITEM_NOT_FOUND"), match="nothing of it"):
        pull_run(project.link, "t-1")
    with pytest.raises(RyeError, check=coded("ITEM_NOT_FOUND"), match="another project"):
        pull_run(project.link, "t-2")
