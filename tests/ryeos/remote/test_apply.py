from pathlib import Path

import pytest

from lillux.digests import sha256_hex
from ryeos.remote.apply import AppliedChanges, FileChange, ReadyFiles, apply_changes
from ryeos.remote.errors import LocalChangeError
from ryeos.remote.new_files import IS_SUPPORTED
from ryeos.sync.paths import UnsafeManifestError

BLOBS = {sha256_hex(data): data for data in (b"old", b"new", b"#!/bin/sh\n")}
OLD, NEW, SCRIPT = BLOBS


def apply(root: Path, *changed: FileChange) -> AppliedChanges:
    return apply_changes(root, changed, BLOBS.__getitem__, root)


def test_files_are_written_replaced_and_removed(tmp_path: Path) -> None:
    (tmp_path / "replaced").write_bytes(b"old")
    (tmp_path / "removed").write_bytes(b"old")

    applied = apply(
        tmp_path,
        FileChange("deep/added", None, SCRIPT),
        FileChange("removed", OLD, None),
        FileChange("replaced", OLD, NEW),
    )

    assert applied == AppliedChanges(("deep/added", "replaced"), ("removed",), ("deep/added",))
    files = {path.name: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    assert files == {"added": b"#!/bin/sh\n", "replaced": b"new"}


def test_a_local_change_stops_all_changes(tmp_path: Path) -> None:
    (tmp_path / "mine").write_bytes(b"mine")

    with pytest.raises(LocalChangeError, match="changed here in the meantime: mine"):
        apply(tmp_path, FileChange("added", None, NEW), FileChange("mine", OLD, NEW))

    assert [path.name for path in tmp_path.iterdir()] == ["mine"]
    assert (tmp_path / "mine").read_bytes() == b"mine"


def test_a_new_local_file_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "added").write_bytes(b"mine")

    with pytest.raises(LocalChangeError):
        apply(tmp_path, FileChange("added", None, NEW))

    assert (tmp_path / "added").read_bytes() == b"mine"


def test_a_file_that_changes_meanwhile_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "b").write_bytes(b"old")

    def meddling(digest: str) -> bytes:
        (tmp_path / "b").write_bytes(b"mine")
        return BLOBS[digest]

    with pytest.raises(LocalChangeError, match="meantime: b"):
        apply_changes(
            tmp_path, [FileChange("a", None, NEW), FileChange("b", OLD, NEW)], meddling, tmp_path
        )

    assert (tmp_path / "b").read_bytes() == b"mine"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b"]


def test_applying_twice_equals_applying_once(tmp_path: Path) -> None:
    change = FileChange("a", None, NEW)
    apply(tmp_path, change)

    assert apply(tmp_path, change) == AppliedChanges()


def test_a_file_makes_room_for_a_folder_and_a_folder_for_a_file(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"old")
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "c").write_bytes(b"old")

    apply(
        tmp_path,
        FileChange("a", OLD, None),
        FileChange("a/c", None, NEW),
        FileChange("b", None, NEW),
        FileChange("b/c", OLD, None),
    )

    assert (tmp_path / "a" / "c").read_bytes() == b"new"
    assert (tmp_path / "b").read_bytes() == b"new"


def test_folders_that_become_empty_are_removed(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "b").write_bytes(b"old")

    apply(tmp_path, FileChange("a/b", OLD, None))

    assert list(tmp_path.iterdir()) == []


def test_a_folder_with_other_files_is_kept(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "b").write_bytes(b"old")
    (tmp_path / "a" / "mine").write_bytes(b"mine")

    apply(tmp_path, FileChange("a/b", OLD, None))

    assert [path.name for path in (tmp_path / "a").iterdir()] == ["mine"]


def test_changes_one_after_the_other_are_reported_as_one() -> None:
    first = AppliedChanges(("a", "b"), ("c",), ("a", "b"))

    assert first.followed_by(AppliedChanges(("c", "d"), ("b",), ("d",))) == AppliedChanges(
        ("a", "c", "d"), ("b",), ("a", "d")
    )


def test_a_received_file_is_moved_into_place(tmp_path: Path) -> None:
    root, file = tmp_path / "root", tmp_path / "file"
    root.mkdir()
    file.write_bytes(b"new")
    file_of = {NEW: str(file)}.get

    applied = apply_changes(
        root,
        [FileChange("deep/a", None, NEW)],
        BLOBS.__getitem__,
        tmp_path,
        ReadyFiles(file_of=file_of),
    )

    assert applied.added == ("deep/a",)
    assert (root / "deep" / "a").read_bytes() == b"new"
    assert not file.exists()


def test_two_files_with_the_same_bytes_are_two_files(tmp_path: Path) -> None:
    root, file = tmp_path / "root", tmp_path / "file"
    root.mkdir()
    file.write_bytes(b"new")
    changed = [FileChange("a", None, NEW), FileChange("b", None, NEW)]

    apply_changes(
        root, changed, BLOBS.__getitem__, tmp_path, ReadyFiles(file_of={NEW: str(file)}.get)
    )

    assert [(root / name).read_bytes() for name in "ab"] == [b"new", b"new"]
    assert [(root / name).stat().st_nlink for name in "ab"] == [1, 1]


def test_a_received_file_does_not_replace_a_new_local_file(tmp_path: Path) -> None:
    root, file = tmp_path / "root", tmp_path / "file"
    root.mkdir()
    file.write_bytes(b"new")

    def meddling(digest: str) -> str | None:
        (root / "a").write_bytes(b"mine")
        return {NEW: str(file)}.get(digest)

    with pytest.raises(LocalChangeError, match="meantime: a"):
        apply_changes(
            root,
            [FileChange("a", None, NEW)],
            BLOBS.__getitem__,
            tmp_path,
            ReadyFiles(file_of=meddling),
        )

    assert (root / "a").read_bytes() == b"mine"


def test_a_folder_that_became_a_link_while_others_are_written_is_not_entered(
    tmp_path: Path,
) -> None:
    root, file, elsewhere = tmp_path / "root", tmp_path / "file", tmp_path / "elsewhere"
    (root / "deep").mkdir(parents=True)
    elsewhere.mkdir()
    file.write_bytes(b"new")

    def meddling(digest: str) -> str | None:
        (root / "deep").rmdir()
        (root / "deep").symlink_to(elsewhere)
        return {NEW: str(file)}.get(digest)

    with pytest.raises(UnsafeManifestError, match="is a link"):
        apply_changes(
            root,
            [FileChange("deep/a", None, NEW)],
            BLOBS.__getitem__,
            tmp_path,
            ReadyFiles(file_of=meddling),
        )

    assert list(elsewhere.iterdir()) == []


def test_a_received_file_that_is_missing_is_written_again(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    file_of = {NEW: str(tmp_path / "gone")}.get

    apply_changes(
        root, [FileChange("a", None, NEW)], BLOBS.__getitem__, tmp_path, ReadyFiles(file_of=file_of)
    )

    assert (root / "a").read_bytes() == b"new"


def placed_in(folder: Path, **files: bytes) -> ReadyFiles:
    """Received files at their paths in a tree."""
    tree = folder / "tree"
    placed = {}
    for path, data in files.items():
        tree.joinpath(path).parent.mkdir(parents=True, exist_ok=True)
        tree.joinpath(path).write_bytes(data)
        placed[path] = sha256_hex(data)
    paths = {digest: f"{tree}/{path}" for path, digest in placed.items()}
    return ReadyFiles(file_of=paths.get, tree=f"{tree}/", placed=placed)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "root"
    folder.mkdir()
    return folder


@pytest.mark.skipif(not IS_SUPPORTED, reason="this system has no such calls")
def test_a_new_folder_is_moved_as_a_whole(tmp_path: Path, root: Path) -> None:
    arrived = placed_in(tmp_path, **{"src/a": b"old", "src/deep/b": b"new"})
    inode = tmp_path.joinpath("tree/src").stat().st_ino
    changed = [FileChange("src/a", None, OLD), FileChange("src/deep/b", None, NEW)]

    applied = apply_changes(root, changed, BLOBS.__getitem__, tmp_path, arrived)

    assert applied.added == ("src/a", "src/deep/b")
    assert root.joinpath("src").stat().st_ino == inode
    assert root.joinpath("src/deep/b").read_bytes() == b"new"


def test_an_existing_folder_gets_the_files_and_keeps_its_own(tmp_path: Path, root: Path) -> None:
    root.joinpath("src").mkdir()
    root.joinpath("src/mine").write_bytes(b"mine")
    arrived = placed_in(tmp_path, **{"src/a": b"old", "src/deep/b": b"new"})
    changed = [FileChange("src/a", None, OLD), FileChange("src/deep/b", None, NEW)]

    apply_changes(root, changed, BLOBS.__getitem__, tmp_path, arrived)

    files = {p.relative_to(root).as_posix() for p in root.rglob("*") if p.is_file()}
    assert files == {"src/mine", "src/a", "src/deep/b"}


def test_a_file_that_the_merge_left_out_is_not_moved_with_its_folder(
    tmp_path: Path, root: Path
) -> None:
    arrived = placed_in(tmp_path, **{"src/a": b"old", "src/b": b"new"})

    apply_changes(root, [FileChange("src/a", None, OLD)], BLOBS.__getitem__, tmp_path, arrived)

    assert [path.name for path in root.joinpath("src").iterdir()] == ["a"]


def test_a_file_added_to_a_received_folder_is_not_moved(tmp_path: Path, root: Path) -> None:
    arrived = placed_in(tmp_path, **{"src/deep/a": b"old", "src/b": b"new"})
    tmp_path.joinpath("tree/src/deep/planted").write_bytes(b"evil")
    changed = [FileChange("src/b", None, NEW), FileChange("src/deep/a", None, OLD)]

    apply_changes(root, changed, BLOBS.__getitem__, tmp_path, arrived)

    assert [path.name for path in root.joinpath("src/deep").iterdir()] == ["a"]


def test_a_file_missing_from_a_received_folder_is_written_again(tmp_path: Path, root: Path) -> None:
    arrived = placed_in(tmp_path, **{"src/a": b"old", "src/b": b"new"})
    tmp_path.joinpath("tree/src/a").unlink()
    changed = [FileChange("src/a", None, OLD), FileChange("src/b", None, NEW)]

    apply_changes(root, changed, BLOBS.__getitem__, tmp_path, arrived)

    assert root.joinpath("src/a").read_bytes() == b"old"
    assert root.joinpath("src/b").read_bytes() == b"new"
