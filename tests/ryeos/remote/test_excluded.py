"""Files that the rules newly exclude are not removed on the node."""

from pathlib import Path

import pytest

from ryeos.items.errors import RyeError
from ryeos.remote.difference import ADDED, EXCLUDED, REMOVED, compare, excluded_paths
from ryeos.remote.errors import ExcludedFilesError
from ryeos.remote.pull import pull
from ryeos.remote.push import push
from ryeos.remote.run import RemoteRun, execute
from ryeos.sync.admission import InadmissibleError
from ryeos.sync.objects import SourceManifest
from tests.ryeos.remote.conftest import MakeProject
from tests.support.errors import coded
from tests.support.memory_node import MemoryNode
from tests.support.remote_project import RemoteProject

PLACE = ".ai/config/cas/manifest.yaml"
NARROW = "sync: {include: ['*.txt']}\n"
FILES = {f"src/{number}.py": f"{number}\n" for number in range(27)}


@pytest.fixture
def pushed(project: RemoteProject) -> RemoteProject:
    project.write(FILES)
    push(project.link)
    return project


@pytest.mark.parametrize("call", [push, pull, compare], ids=["push", "pull", "diff"])
def test_rules_that_cannot_be_read_stop_the_push(
    pushed: RemoteProject, memory_node: MemoryNode, call: object
) -> None:
    pushed.write({PLACE: "sync: [\n"})
    head = memory_node.heads["project"]

    with pytest.raises(RyeError, check=coded("CONFIG_ERROR")) as error:
        call(pushed.link)  # type: ignore[operator]

    assert error.value.exit_status == 6
    assert memory_node.heads["project"] == head


@pytest.mark.parametrize("force", [False, True])
def test_a_narrower_rule_does_not_remove_files_on_the_node(
    pushed: RemoteProject, memory_node: MemoryNode, *, force: bool
) -> None:
    pushed.write({PLACE: NARROW})
    head = memory_node.heads["project"]

    with pytest.raises(ExcludedFilesError, match="27 of the files that were pushed") as error:
        push(pushed.link, force=force)

    assert error.value.paths == tuple(sorted(FILES))
    assert "--drop-excluded" in error.value.hint
    assert memory_node.heads["project"] == head


def test_a_narrower_rule_stops_a_run(pushed: RemoteProject, memory_node: MemoryNode) -> None:
    pushed.write({PLACE: NARROW})

    with pytest.raises(ExcludedFilesError):
        execute(pushed.link, RemoteRun(item_ref="tool:mine/hello"))

    assert memory_node.count("POST /execute") == 0


def test_drop_excluded_removes_files_on_the_node(
    pushed: RemoteProject, memory_node: MemoryNode
) -> None:
    pushed.write({PLACE: NARROW})

    push(pushed.link, drops_excluded=True)
    push(pushed.link)

    assert not FILES.keys() & memory_node.files().keys()
    assert FILES.keys() <= pushed.files().keys()


def test_local_removals_are_removed_on_the_node(
    pushed: RemoteProject, memory_node: MemoryNode
) -> None:
    pushed.write(dict.fromkeys(FILES))

    push(pushed.link)

    assert not FILES.keys() & memory_node.files().keys()


def test_files_of_others_that_local_rules_exclude_are_refused(
    pushed: RemoteProject, make_project: MakeProject, memory_node: MemoryNode
) -> None:
    other = make_project("there")
    pull(other.link)
    pushed.write_user(PLACE, "sync: {include: ['lib/']}\n")
    pushed.write({"lib/late.py": "late\n"})
    push(pushed.link)
    other.write({"src/other.py": "other\n"})

    with pytest.raises(InadmissibleError, match=r"lib/late\.py"):
        push(other.link)

    assert other.read("lib/late.py") is None
    assert "lib/late.py" in memory_node.files()


def test_the_difference_lists_excluded_files_separately_from_removals(
    pushed: RemoteProject,
) -> None:
    pushed.write({PLACE: NARROW, "src/0.py": None, "new.txt": "new\n"})

    found = {one.path: one.here for one in compare(pushed.link).differences}

    assert (found["src/0.py"], found["src/1.py"], found["new.txt"]) == (REMOVED, EXCLUDED, ADDED)


def test_a_file_replaced_by_a_folder_is_not_excluded(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()

    base = SourceManifest("project", {}, {"a": "0" * 64})

    assert excluded_paths(tmp_path, base, SourceManifest("project")) == []


def test_a_file_renamed_by_case_is_not_excluded(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("a", encoding="utf-8")
    (tmp_path / "A.txt").unlink(missing_ok=True)
    (tmp_path / "A.txt").hardlink_to(tmp_path / "a.txt")  # one file, as on a disk without case

    base = SourceManifest("project", {}, {"a.txt": "0" * 64})

    assert excluded_paths(tmp_path, base, SourceManifest("project", {}, {"A.txt": "0" * 64})) == []
