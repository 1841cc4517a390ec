import os
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ryeos.items.errors import RyeError
from ryeos.remote.difference import ADDED, CHANGED, REMOVED, Difference, compare
from ryeos.remote.errors import (
    InTheWayError,
    NotInConflictError,
    RemoteConflictError,
)
from ryeos.remote.pull import pull
from ryeos.remote.push import push
from ryeos.remote.settle import VersionChoice, resolve
from ryeos.sync.admission import InadmissibleError
from ryeos.sync.object_shapes import CasObjectError
from ryeos.sync.objects import SourceManifest
from ryeos.sync.paths import UnsafeManifestError
from tests.ryeos.remote.conftest import MakeProject
from tests.support.errors import coded
from tests.support.memory_node import MemoryNode
from tests.support.remote_project import RemoteProject


def settle(project: RemoteProject, *paths: str, choice: VersionChoice, merged: bytes = b"") -> None:
    link = project.link
    resolve(link.conflicts, project.root, "default", paths, choice=choice, merged=merged)


def in_conflict(project: RemoteProject, node: MemoryNode) -> RemoteProject:
    """A project that changed ``src/a.txt``, as another user did."""
    project.write({"src/a.txt": "base\n", "src/b.txt": "b\n"})
    push(project.link)
    node.edit({"src/a.txt": b"theirs\n", "src/c.txt": b"c\n"})
    project.write({"src/a.txt": "ours\n"})
    with pytest.raises(RemoteConflictError):
        pull(project.link)
    return project


def test_a_pull_of_a_missing_project_changes_no_file(project: RemoteProject) -> None:
    before = project.files()

    pulled = pull(project.link)

    assert pulled.snapshot_hash == ""
    assert project.files() == before


def test_a_new_folder_gets_the_whole_project(
    project: RemoteProject, make_project: MakeProject
) -> None:
    project.write({".ai/tools/mine/run.sh": "#!/bin/sh\n", "src/deep/a.txt": "a\n"})
    push(project.link)
    other = make_project("there")

    pulled = pull(other.link)

    assert other.files() == project.files()
    assert pulled.applied.written == (".ai/tools/mine/run.sh", "src/deep/a.txt")
    assert (other.root / ".ai/tools/mine/run.sh").stat().st_mode & 0o111
    assert not (other.root / "src/deep/a.txt").stat().st_mode & 0o111


def test_existing_files_are_forced_to_disk_before_the_base_is_recorded(
    project: RemoteProject, make_project: MakeProject
) -> None:
    files = {"src/a.txt": "a\n", "src/b.txt": "b\n"}
    project.write(files)
    push(project.link)
    other = make_project("there")
    other.write(files)  # as a pull has left it that failed, or was killed, before the disk had it
    opened: set[str] = set()
    watched = [opened]

    def note(event: str, arguments: tuple[Any, ...]) -> None:
        if watched and event == "open" and arguments[2] & os.O_RDWR:  # as what is forced is opened
            watched[0].add(str(arguments[0]))

    sys.addaudithook(note)  # (never goes away: it looks at nothing after this test)
    assert pull(other.link).applied.paths == ()
    watched.clear()

    assert opened >= {str(other.root / path) for path in files}


@pytest.mark.parametrize(
    "moves",
    [
        {"src/a.txt": "src/b.txt"},
        {"src/b.txt": "src/a2.txt"},
        {"src/a.txt": ".ai/knowledge/a.txt"},
        {"src/deep/c.txt": "src/other/c.txt", "src/deep/d.txt": "src/other/d.txt"},
        {"src/a.txt": "src/b.txt", "src/b.txt": "src/a.txt"},
        {"src/a.txt": "src/a.txt/inside", "src/deep/c.txt": "src/deep"},
    ],
    ids=["renamed", "sorted first", "now an item", "a folder", "swapped", "a folder for a file"],
)
def test_files_moved_by_others_are_moved_locally(
    project: RemoteProject, make_project: MakeProject, moves: dict[str, str]
) -> None:
    files = {f"src/{name}.txt": f"{name}\n" for name in ("a", "b", "deep/c", "deep/d")}
    project.write(files)
    push(project.link)
    other = make_project("there")
    pull(other.link)
    texts = {path: project.read(path) for path in moves}
    for path in moves:
        (project.root / path).unlink()
    for path in moves:
        with suppress(OSError):
            (project.root / path).parent.rmdir()
    if "src/deep" in moves.values():
        (project.root / "src/deep/d.txt").unlink()
        (project.root / "src/deep").rmdir()
    project.write({new: texts[old] for old, new in moves.items()})
    push(project.link)

    pull(other.link)

    assert other.files() == project.files()
    assert pull(other.link).applied.paths == ()


PLACES = st.sampled_from(["src/a", "src/b", "src/c", "src/d/e", "src/d/f", ".ai/knowledge/g.md"])
TREES = st.dictionaries(PLACES, st.sampled_from([b"1\n", b"2\n", b"#!/bin/sh\n"]), max_size=6)


@pytest.mark.property
@given(before=TREES, after=TREES)
def test_after_a_pull_the_project_equals_the_head(
    tmp_path_factory: pytest.TempPathFactory, before: dict[str, bytes], after: dict[str, bytes]
) -> None:
    folder = tmp_path_factory.mktemp("moves")
    node = MemoryNode(folder / "node")
    here = RemoteProject(folder / "here", node)
    here.write({path: data.decode() for path, data in before.items()})
    push(here.link)
    node.edit({**dict.fromkeys(before), **after})

    pull(here.link)

    assert {path: here.read(path) for path in after} == {
        path: data.decode() for path, data in after.items()
    }
    assert not [path for path in before if path not in after and (here.root / path).exists()]


def test_a_manifest_of_another_space_is_refused(
    project: RemoteProject, memory_node: MemoryNode
) -> None:
    push(project.link)
    digest = memory_node.store.put_object(SourceManifest("user").as_object())

    with pytest.raises(CasObjectError, match='expected "project", found "user"'):
        project.link.received(digest, project.link.working_tree.project_tree())


def test_a_second_pull_writes_no_file(project: RemoteProject, memory_node: MemoryNode) -> None:
    push(project.link)
    memory_node.edit({"src/a.txt": b"a\n"})
    pull(project.link)

    assert pull(project.link).applied.written == ()


def test_a_pull_keeps_local_changes(project: RemoteProject, memory_node: MemoryNode) -> None:
    project.write({"src/a.txt": "a\n"})
    push(project.link)
    memory_node.edit({"src/b.txt": b"b\n"})
    project.write({"src/a.txt": "mine\n"})

    pull(project.link)

    assert project.read("src/a.txt") == "mine\n"
    assert project.read("src/b.txt") == "b\n"


def test_a_file_keeps_its_mode_when_it_is_replaced(
    project: RemoteProject, memory_node: MemoryNode
) -> None:
    project.write({"src/a.txt": "a\n"})
    push(project.link)
    (project.root / "src/a.txt").chmod(0o600)
    memory_node.edit({"src/a.txt": b"new\n"})

    pull(project.link)

    assert (project.root / "src/a.txt").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    ("path", "error"),
    [
        ("../evil.txt", UnsafeManifestError),
        ("/etc/evil.txt", UnsafeManifestError),
        ("a\\b.txt", UnsafeManifestError),
        (".git/hooks/pre-commit", InadmissibleError),
        (".ai/state/x", InadmissibleError),
    ],
)
def test_an_unsafe_path_is_refused(
    project: RemoteProject, memory_node: MemoryNode, path: str, error: type[Exception]
) -> None:
    push(project.link)
    memory_node.edit({path: b"x\n", "src/good.txt": b"x\n"})
    before = project.files()

    with pytest.raises(error):
        pull(project.link)

    assert project.files() == before


def test_a_link_in_the_project_is_not_followed(
    project: RemoteProject, memory_node: MemoryNode
) -> None:
    push(project.link)
    outside = project.root.parent / "outside"
    outside.mkdir()
    (project.root / "src").symlink_to(outside)
    memory_node.edit({"src/a.txt": b"x\n"})

    with pytest.raises(UnsafeManifestError, match="is a link"):
        pull(project.link)

    assert list(outside.iterdir()) == []


def test_a_conflict_settled_with_ours_is_pushed(
    project: RemoteProject, memory_node: MemoryNode
) -> None:
    in_conflict(project, memory_node)

    settle(project, "src/a.txt", choice=VersionChoice.OURS)
    push(project.link)

    assert memory_node.files() == project.files()
    assert project.read("src/a.txt") == "ours\n"
    assert project.read("src/c.txt") == "c\n"
    assert project.link.conflicts.read() is None


def test_a_conflict_settled_with_theirs_is_written(
    project: RemoteProject, memory_node: MemoryNode
) -> None:
    in_conflict(project, memory_node)

    settle(project, "src/a.txt", choice=VersionChoice.THEIRS)

    assert project.read("src/a.txt") == "theirs\n"
    pull(project.link)
    assert project.files() == memory_node.files()


def test_a_conflict_merged_by_hand_is_pushed(
    project: RemoteProject, memory_node: MemoryNode
) -> None:
    in_conflict(project, memory_node)

    settle(project, "src/a.txt", choice=VersionChoice.MERGED, merged=b"both\n")
    push(project.link)

    assert memory_node.files()["src/a.txt"] == b"both\n"


def test_a_version_replaced_by_a_settlement_is_kept(
    project: RemoteProject, memory_node: MemoryNode
) -> None:
    in_conflict(project, memory_node)
    project.write({"src/a.txt": "ours, and more\n"})

    settle(project, "src/a.txt", choice=VersionChoice.THEIRS)

    kept = project.link.conflicts.kept("ours", "src/a.txt")
    assert kept == b"ours, and more\n"


def test_a_removal_against_a_change_can_be_settled_both_ways(
    project: RemoteProject, memory_node: MemoryNode
) -> None:
    project.write({"src/a.txt": "a\n", "src/b.txt": "b\n"})
    push(project.link)
    memory_node.edit({"src/a.txt": None, "src/b.txt": b"new\n"})
    project.write({"src/a.txt": "changed\n", "src/b.txt": None})
    with pytest.raises(RemoteConflictError):
        pull(project.link)

    settle(project, "src/a.txt", choice=VersionChoice.THEIRS)
    settle(project, "src/b.txt", choice=VersionChoice.OURS)
    push(project.link)

    assert project.read("src/a.txt") is None
    assert project.read("src/b.txt") is None
    assert memory_node.files() == project.files()


def test_a_settled_conflict_that_changes_again_is_in_conflict(
    project: RemoteProject, memory_node: MemoryNode
) -> None:
    in_conflict(project, memory_node)
    settle(project, "src/a.txt", choice=VersionChoice.OURS)
    memory_node.edit({"src/a.txt": b"theirs, changed\n"})

    with pytest.raises(RemoteConflictError):
        push(project.link)


def test_only_files_in_conflict_can_be_settled(
    project: RemoteProject, memory_node: MemoryNode
) -> None:
    in_conflict(project, memory_node)

    with pytest.raises(NotInConflictError, match=r"src/b\.txt: in no conflict"):
        settle(project, "src/b.txt", choice=VersionChoice.OURS)


def test_a_comparison_lists_changes_of_both_sides(
    project: RemoteProject, memory_node: MemoryNode
) -> None:
    project.write({f"src/{name}.txt": name for name in "abcd"})
    push(project.link)
    memory_node.edit({"src/a.txt": b"x", "src/b.txt": None, "src/e.txt": b"e", "src/d.txt": b"y"})
    project.write({"src/c.txt": "changed", "src/d.txt": "z"})

    compared = compare(project.link)

    assert compared.has_base
    assert compared.differences == (
        Difference("src/a.txt", None, CHANGED),
        Difference("src/b.txt", None, REMOVED),
        Difference("src/c.txt", CHANGED, None),
        Difference("src/d.txt", CHANGED, CHANGED),
        Difference("src/e.txt", None, ADDED),
    )


def test_a_comparison_changes_no_file(project: RemoteProject, memory_node: MemoryNode) -> None:
    push(project.link)
    memory_node.edit({"src/a.txt": b"x"})
    before = project.files()

    compare(project.link)

    assert project.files() == before
    assert compare(project.link).differences != ()


def test_many_changes_are_downloaded_in_few_requests(
    project: RemoteProject, memory_node: MemoryNode
) -> None:
    push(project.link)
    memory_node.edit({f".ai/tools/mine/{number}.py": b"%d\n" % number for number in range(300)})
    memory_node.requests.clear()

    pull(project.link)

    assert memory_node.count("POST /objects/get") == 5  # the manifest; 300 items; 300 texts


def file_and_folder(project: RemoteProject, node: MemoryNode) -> None:
    """``src/x`` becomes a folder of two files locally, and a new file on the node."""
    push(project.link)
    node.edit({"src/x": b"a file\n"})
    project.write({"src/x/1.txt": "1\n", "src/x/2.txt": "2\n"})


def folder_and_file(project: RemoteProject, node: MemoryNode) -> None:
    """``src/x`` becomes a new file locally, and a folder of two files on the node."""
    push(project.link)
    node.edit({"src/x/1.txt": b"1\n", "src/x/2.txt": b"2\n"})
    project.write({"src/x": "a file\n"})


@pytest.mark.parametrize("make", [file_and_folder, folder_and_file])
@pytest.mark.parametrize("choice", [VersionChoice.OURS, VersionChoice.THEIRS])
def test_a_file_and_a_folder_with_one_name_can_be_settled_both_ways(
    project: RemoteProject,
    memory_node: MemoryNode,
    make: Callable[[RemoteProject, MemoryNode], None],
    choice: VersionChoice,
) -> None:
    make(project, memory_node)
    side = project.files() if choice is VersionChoice.OURS else memory_node.files()
    with pytest.raises(RemoteConflictError) as error:
        pull(project.link)
    assert error.value.paths == ("src/x", "src/x/1.txt", "src/x/2.txt")

    settle(project, *error.value.paths, choice=choice)
    push(project.link)

    assert project.files() == memory_node.files() == side


@pytest.mark.parametrize(
    ("make", "path", "others"),
    [
        (file_and_folder, "src/x", ("src/x/1.txt", "src/x/2.txt")),
        (folder_and_file, "src/x/1.txt", ("src/x",)),
    ],
)
def test_a_blocked_settlement_names_the_blocking_files_and_its_hint_works(
    project: RemoteProject,
    memory_node: MemoryNode,
    make: Callable[[RemoteProject, MemoryNode], None],
    path: str,
    others: tuple[str, ...],
) -> None:
    make(project, memory_node)
    with pytest.raises(RemoteConflictError):
        pull(project.link)
    before = project.files()

    with pytest.raises(InTheWayError) as error:
        settle(project, path, choice=VersionChoice.THEIRS)

    assert error.value.others == others
    assert error.value.hint == f"settle those first: rye remote resolve {' '.join(others)} --theirs"
    assert project.files() == before
    settle(project, *others, choice=VersionChoice.THEIRS)
    settle(project, path, choice=VersionChoice.MERGED, merged=b"mine\n")
    assert project.read(path) == "mine\n"


def test_files_that_are_not_synced_are_not_lost_with_their_folder(
    project: RemoteProject, memory_node: MemoryNode
) -> None:
    project.write({".ai/config/cas/manifest.yaml": "sync: {include: ['src/**/*.txt', 'src/x']}\n"})
    file_and_folder(project, memory_node)
    project.write({"src/x/notes.bin": "mine alone"})
    with pytest.raises(RemoteConflictError) as error:
        pull(project.link)
    before = project.files()

    with pytest.raises(InTheWayError, match=r"src/x: in its way: src/x/notes\.bin") as refused:
        settle(project, *error.value.paths, choice=VersionChoice.THEIRS)

    assert refused.value.hint == "move or remove those, then try again"
    assert project.files() == before


def test_empty_folders_do_not_block_a_settlement(
    project: RemoteProject, memory_node: MemoryNode
) -> None:
    file_and_folder(project, memory_node)
    (project.root / "src/x/empty/deep").mkdir(parents=True)
    with pytest.raises(RemoteConflictError) as error:
        pull(project.link)

    settle(project, *error.value.paths, choice=VersionChoice.THEIRS)

    assert project.read("src/x") == "a file\n"


def test_a_later_clash_keeps_earlier_settlements(
    project: RemoteProject, memory_node: MemoryNode
) -> None:
    project.write({"src/a.txt": "base\n", "src/b.txt": "base\n"})
    push(project.link)
    memory_node.edit({"src/a.txt": None, "src/b.txt": b"theirs\n", "src/A.txt": b"A\n"})
    project.write({"src/a.txt": "ours\n", "src/b.txt": "ours\n"})
    with pytest.raises(RemoteConflictError) as error:
        pull(project.link)
    assert error.value.details == (
        "src/a.txt: changed here, removed there",
        "src/b.txt: both changed it",
    )
    settle(project, "src/a.txt", "src/b.txt", choice=VersionChoice.OURS)

    with pytest.raises(RemoteConflictError) as error:
        pull(project.link)
    assert error.value.details == (
        "src/A.txt: differs only by case from src/a.txt",
        "src/a.txt: differs only by case from src/A.txt",
    )
    kept = project.link.conflicts
    assert kept.kept("theirs", "src/b.txt") == b"theirs\n"
    settle(project, "src/A.txt", choice=VersionChoice.OURS)
    settle(project, "src/a.txt", choice=VersionChoice.OURS)
    push(project.link)

    assert memory_node.files() == project.files()
    assert (project.read("src/a.txt"), project.read("src/b.txt")) == ("ours\n", "ours\n")


def test_a_version_that_is_no_longer_kept_removes_no_file(
    project: RemoteProject, memory_node: MemoryNode
) -> None:
    in_conflict(project, memory_node)
    (project.link.conflicts.folder / "theirs/src/a.txt").unlink()

    with pytest.raises(RyeError, check=coded("CONFIG_ERROR"), match="not the version"):
        settle(project, "src/a.txt", choice=VersionChoice.THEIRS)

    assert project.read("src/a.txt") == "ours\n"


def test_names_in_errors_contain_no_control_characters() -> None:
    name = "src/\x1b[31m\n\u202etxt.a"

    error = RemoteConflictError("default", {name: "both changed it"}, "x")

    assert r"src/\u001b[31m\u000a\u202etxt.a (both changed it)" in str(error)
    assert error.paths == (name,)
