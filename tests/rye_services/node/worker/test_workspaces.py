import os
from pathlib import Path

import pytest

from lillux.store import Store
from lillux.store_errors import ObjectMissingError
from lillux.uids import UidRange, Uids, UidsInUseError, obstacle_to
from rye_services.node.store.objects import KnownManifests
from rye_services.node.worker.workspaces import CheckoutRequest, Checkouts
from ryeos.sync.objects import SourceManifest, manifest_of
from tests.support.pushed_trees import put_project, put_user_space

Files = dict[str, bytes]
USER = {".ai/config/x.yaml": b"x: 1\n"}


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """A user's store."""
    return Store(tmp_path / "objects")


@pytest.fixture
def workspaces(tmp_path: Path) -> Checkouts:
    """A pool that keeps two."""
    return Checkouts(tmp_path / "workspaces", kept=2)


def wanted(
    store: Store, files: Files, user: Files | None = None, project: str = "p"
) -> CheckoutRequest:
    """A project and a user space to be checked out."""
    manifest = manifest_of(store.get_object(put_project(store, files)), "the project")
    if user is None:
        space = None
    else:
        space = manifest_of(store.get_object(put_user_space(store, user)), "the user space")
    return CheckoutRequest(
        user_id="0123456789abcdef",
        remote_name="default",
        project_path=project,
        project=manifest,
        user=space,
        contents=store,
    )


def files_in(folder: Path) -> Files:
    """Every file below a folder."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


FILES = {"a.txt": b"a\n", "src/b.txt": b"b\n", "run.sh": b"#!/bin/sh\n"}


def test_a_workspace_holds_project_and_user_space_and_two_empty_folders(
    store: Store, workspaces: Checkouts
) -> None:
    with workspaces.checkout(wanted(store, FILES, USER)) as workspace:
        assert files_in(workspace.project) == FILES
        assert files_in(workspace.user) == USER
        assert list(workspace.home.iterdir()) == []
        assert list(workspace.temporary.iterdir()) == []


def test_all_changes_of_a_run_are_undone_for_the_next(
    store: Store, workspaces: Checkouts, tmp_path: Path
) -> None:
    with workspaces.checkout(wanted(store, FILES, USER)) as first:
        (first.project / "a.txt").write_bytes(b"A\n")
        (first.project / "src" / "b.txt").unlink()
        (first.project / "run.sh").chmod(0o777)
        (first.project / "left" / "deep").mkdir(parents=True)
        (first.project / "left" / "deep" / "x").write_bytes(b"x")
        (first.project / "src" / "link").symlink_to(tmp_path)
        (first.user / "new.txt").write_bytes(b"x")
        (first.home / "h").write_bytes(b"x")
        (first.temporary / "t").write_bytes(b"x")

    with workspaces.checkout(wanted(store, FILES, USER)) as second:
        assert second.project == first.project
        assert files_in(second.project) == FILES
        assert not (second.project / "left").exists()
        assert not (second.project / "src" / "link").is_symlink()
        assert files_in(second.user) == USER
        assert files_in(second.home) == files_in(second.temporary) == {}


def test_one_scan_finds_the_changes_of_a_run_for_report_and_undo(
    store: Store, workspaces: Checkouts
) -> None:
    with workspaces.checkout(wanted(store, FILES)) as first:
        (first.project / "a.txt").write_bytes(b"A\n")
        (first.project / "left").mkdir()
        (first.project / "src" / "new.txt").write_bytes(b"x")

        found = first.differences()

    assert (found.changed, found.removed) == (("a.txt",), ("left/", "src/new.txt"))
    assert files_in(first.project) == FILES
    assert not (first.project / "left").exists()


def test_an_unchanged_checkout_has_no_differences(store: Store, workspaces: Checkouts) -> None:
    with workspaces.checkout(wanted(store, FILES, USER)) as first:
        found = first.differences()

    assert (found.changed, found.removed) == ((), ())


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such permissions")
def test_permissions_set_by_a_run_are_reset(store: Store, workspaces: Checkouts) -> None:
    with workspaces.checkout(wanted(store, FILES)) as first:
        before = (first.project / "run.sh").stat().st_mode
        (first.project / "run.sh").chmod(0o4777)
        (first.project / "a.txt").chmod(0)
        (first.project / "src").chmod(0o100)

    with workspaces.checkout(wanted(store, FILES)) as second:
        assert (second.project / "run.sh").stat().st_mode == before
        assert files_in(second.project) == FILES


@pytest.mark.skipif(os.name == "nt", reason="times are set in another way there")
def test_a_change_with_an_old_modification_time_is_found(
    store: Store, workspaces: Checkouts
) -> None:
    with workspaces.checkout(wanted(store, FILES)) as first:
        path = first.project / "a.txt"
        before = path.stat()
        path.write_bytes(b"A\n")
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))

    with workspaces.checkout(wanted(store, FILES)) as second:
        assert files_in(second.project) == FILES


def test_only_differing_files_are_written_for_another_snapshot(
    store: Store, workspaces: Checkouts
) -> None:
    with workspaces.checkout(wanted(store, FILES)) as first:
        kept = (first.project / "src" / "b.txt").stat().st_ino

    with workspaces.checkout(wanted(store, {**FILES, "a.txt": b"other\n"})) as second:
        assert (second.project / "src" / "b.txt").stat().st_ino == kept
        assert (second.project / "a.txt").read_bytes() == b"other\n"


def test_simultaneous_executions_do_not_share_a_workspace(
    store: Store, workspaces: Checkouts
) -> None:
    with (
        workspaces.checkout(wanted(store, FILES)) as one,
        workspaces.checkout(wanted(store, FILES)) as other,
    ):
        (one.project / "a.txt").write_bytes(b"mine\n")

        assert one.project != other.project
        assert files_in(other.project) == FILES


def test_projects_do_not_share_workspaces(store: Store, workspaces: Checkouts) -> None:
    with workspaces.checkout(wanted(store, FILES, project="p")) as one:
        pass
    with workspaces.checkout(wanted(store, FILES, project="q")) as other:
        assert one.project != other.project


def test_the_oldest_workspaces_beyond_a_limit_are_removed(
    store: Store, workspaces: Checkouts
) -> None:
    seen = []
    for number in range(4):
        with workspaces.checkout(wanted(store, FILES, project=f"p{number}")) as workspace:
            seen.append(workspace.project)
            lock = workspace.project.parent.with_suffix(".lock")
        os.utime(lock, (1000 + number, 1000 + number))
    workspaces.trim()

    assert [path.exists() for path in seen] == [False, False, True, True]
    assert len(list(workspaces.root.glob("*/*/*.lock"))) == 2


def test_a_workspace_in_use_is_not_removed(store: Store, workspaces: Checkouts) -> None:
    with workspaces.checkout(wanted(store, FILES, project="busy")) as busy:
        for number in range(4):
            with workspaces.checkout(wanted(store, FILES, project=f"p{number}")):
                pass

        assert files_in(busy.project) == FILES


def test_missing_content_leaves_no_new_workspace(store: Store, workspaces: Checkouts) -> None:
    nowhere = SourceManifest("project", {}, {"a.txt": "0" * 64})
    request = wanted(store, FILES)
    broken = CheckoutRequest(
        user_id=request.user_id,
        remote_name=request.remote_name,
        project_path=request.project_path,
        project=nowhere,
        user=None,
        contents=store,
    )

    with pytest.raises(ObjectMissingError), workspaces.checkout(broken):
        pass

    assert list(workspaces.root.glob("*/*/*/project")) == []


def test_least_recently_used_manifests_are_evicted() -> None:
    known = KnownManifests(max_paths=5)
    first, second, third = (
        SourceManifest("project", {}, {f"{number}/{one}": "a" * 64 for one in range(2)})
        for number in range(3)
    )
    known.keep("1", first)
    known.keep("2", second)
    assert known.get("1") is first

    known.keep("3", third)

    assert (known.get("1"), known.get("2"), known.get("3")) == (first, None, third)


def test_a_manifest_above_the_cache_size_is_not_cached() -> None:
    known = KnownManifests(max_paths=1)

    known.keep("1", SourceManifest("project", {}, {"a": "a" * 64, "b": "b" * 64}))

    assert known.get("1") is None


# --- user ids -------------------------------------------------------------------------------------

NUMBERS = UidRange(300_000, 300_001)
as_root = pytest.mark.skipif(
    not hasattr(os, "geteuid") or obstacle_to(NUMBERS) != "", reason="gives files to other users"
)


@pytest.fixture
def given(tmp_path: Path) -> Checkouts:
    """A pool whose runs are users of their own, of two there are."""
    return Checkouts(tmp_path / "workspaces", kept=2, uids=Uids(NUMBERS, tmp_path / "locks"))


def owners(folder: Path) -> set[int]:
    """The users and groups of a folder and of all in it."""
    return {
        number
        for path in (folder, *folder.rglob("*"))
        for number in (path.lstat().st_uid, path.lstat().st_gid)
    }


@as_root
def test_a_workspace_belongs_to_the_user_of_its_run(store: Store, given: Checkouts) -> None:
    request = wanted(store, FILES, USER)

    with given.checkout(request) as first:
        assert first.uid in (NUMBERS.first, NUMBERS.last)
        for folder in (first.project, first.user, first.home, first.temporary):
            assert owners(folder) == {first.uid}
        around = first.project.parent
        assert (around.stat().st_gid, around.stat().st_mode & 0o777) == (first.uid, 0o710)
        assert {path.stat().st_mode & 0o777 for path in list(around.parents)[:3]} == {0o711}

    assert (around.stat().st_gid, around.stat().st_mode & 0o777) == (0, 0o700)
    assert owners(around / "project") == {first.uid}


@as_root
def test_a_workspace_keeps_its_user_and_its_files_for_the_next_run(
    store: Store, given: Checkouts
) -> None:
    request = wanted(store, FILES, USER)
    with given.checkout(request) as first:
        before = {path: path.stat().st_ino for path in first.project.rglob("*")}
    with given.checkout(request) as second:
        assert second.uid == first.uid
        assert {path: path.stat().st_ino for path in second.project.rglob("*")} == before


@as_root
def test_a_workspace_of_a_user_that_another_run_has_is_made_for_a_free_one(
    store: Store, given: Checkouts, tmp_path: Path
) -> None:
    request = wanted(store, FILES, USER)
    with given.checkout(request) as first:
        former = first.uid
    with Uids(NUMBERS, tmp_path / "locks").lease(former) as taken:
        assert taken == former
        with given.checkout(request) as second:
            assert second.project == first.project
            assert second.uid != former
            assert owners(second.project) == owners(second.user) == {second.uid}
            assert files_in(second.project) == FILES
            with pytest.raises(UidsInUseError), given.checkout(request):
                pass
    plain = Checkouts(given.root, kept=2)
    with plain.checkout(request) as third:
        assert third.uid == 0
        assert owners(third.project) == {0}


@as_root
def test_what_a_killed_process_left_open_is_closed(store: Store, given: Checkouts) -> None:
    with given.checkout(wanted(store, FILES)) as first:
        around = first.project.parent
    os.chown(around, 0, first.uid)
    around.chmod(0o710)
    again = Checkouts(given.root, kept=2, uids=given._uids)

    with again.checkout(wanted(store, FILES, project="q")):
        assert (around.stat().st_gid, around.stat().st_mode & 0o777) == (0, 0o700)
