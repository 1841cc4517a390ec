import os
import stat
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lillux.store import Durability, Store
from lillux.store_errors import ObjectMissingError
from ryeos.sync.checkout import TreeChanges, cleanup, materialize, read_manifest, write_tree
from ryeos.sync.object_shapes import CasObjectError
from ryeos.sync.objects import ItemSource, ManifestSpace, SourceManifest
from ryeos.sync.paths import UnsafeManifestError
from ryeos.sync.stat_table import StatTable, TreeEntry

ABSENT = "0" * 64
LONG_AFTER_NS = 2**62
TOOL = ".ai/tools/a.py"
posix = pytest.mark.skipif(sys.platform == "win32", reason="links and permissions are of POSIX")


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """An empty store."""
    return Store(tmp_path / "objects")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """The folder for trees; it does not exist yet."""
    return tmp_path / "root"


def put(store: Store, files: dict[str, str], space: ManifestSpace = "project") -> SourceManifest:
    """The manifest of these files, stored with its objects; files below .ai are items."""
    items, plain = {}, {}
    for path, text in files.items():
        digest = store.put_blob(text.encode(), Durability.UNFORCED)
        if path.startswith(".ai/"):
            source = ItemSource("tool:x", digest)
            items[path] = store.put_object(source.as_object(), Durability.UNFORCED)
        else:
            plain[path] = digest
    manifest = SourceManifest(space, items, plain)
    store.put_object(manifest.as_object(), Durability.UNFORCED)
    return manifest


def digest_of(store: Store, manifest: SourceManifest) -> str:
    """The digest of a stored manifest."""
    return store.put_object(manifest.as_object(), Durability.UNFORCED)


def files_in(folder: Path) -> dict[str, str]:
    """The text of every file below a folder; a folder with nothing in it is a path with a slash."""
    found = {}
    for path in folder.rglob("*"):
        relative = path.relative_to(folder).as_posix()
        if path.is_dir() and not path.is_symlink():
            if not any(path.iterdir()):
                found[f"{relative}/"] = ""
        else:
            found[relative] = path.read_text("utf-8")
    return found


def written(*changed: str, removed: tuple[str, ...] = ()) -> TreeChanges:
    """The expected result of a write."""
    return TreeChanges(changed, removed)


def known(store: Store, root: Path, manifest: SourceManifest) -> StatTable:
    """The table of a tree that was written long ago."""
    table = StatTable()
    for path, digest in manifest.files.items():
        table.record(path, (root / path).stat(), TreeEntry(digest), now_ns=LONG_AFTER_NS)
    for path, digest in manifest.items.items():
        source = store.get_object(digest)
        entry = TreeEntry(source["content_blob_hash"], digest, source)
        table.record(path, (root / path).stat(), entry, now_ns=LONG_AFTER_NS)
    return table


def until_it_shows(path: Path, change: Callable[[], object]) -> None:
    """Repeat a change until the file system gives the file a new time."""
    before = path.stat().st_ctime_ns
    while path.stat().st_ctime_ns == before:
        change()


FILES = {TOOL: "#!/usr/bin/env python3\n", "src/x.py": "x\n", "README": "read me\n"}


def test_a_tree_is_written_into_a_missing_folder(store: Store, root: Path) -> None:
    done = write_tree(put(store, FILES), store, root)

    assert files_in(root) == FILES
    assert done == written(TOOL, "README", "src/x.py")


@posix
def test_a_file_that_names_its_interpreter_is_a_program(store: Store, root: Path) -> None:
    write_tree(put(store, FILES), store, root)

    modes = {path: stat.S_IMODE((root / path).stat().st_mode) for path in FILES}
    assert {path: mode & 0o111 for path, mode in modes.items()} == {
        TOOL: 0o111,
        "src/x.py": 0,
        "README": 0,
    }


def test_only_differing_files_are_written(store: Store, root: Path) -> None:
    present, wanted = put(store, FILES), put(store, {TOOL: "changed", "README": FILES["README"]})
    write_tree(present, store, root)
    before = (root / "README").stat()

    done = write_tree(wanted, store, root, present=present)

    assert done == written(TOOL, removed=("src/x.py",))
    assert files_in(root) == {TOOL: "changed", "README": FILES["README"]}
    assert (root / "README").stat().st_ino == before.st_ino


def test_folders_that_become_empty_are_removed(store: Store, root: Path) -> None:
    present, wanted = put(store, {"a/b/c": "1", "a/d": "2"}), put(store, {"a/d": "2"})
    write_tree(present, store, root)

    write_tree(wanted, store, root, present=present)

    assert files_in(root) == {"a/d": "2"}


@pytest.mark.parametrize(
    ("before", "after"),
    [({"a": "1"}, {"a/b": "2"}), ({"a/b": "1"}, {"a": "2"}), ({"A": "1"}, {"a": "1"})],
)
def test_files_and_folders_replace_each_other(
    store: Store, root: Path, before: dict[str, str], after: dict[str, str]
) -> None:
    present, wanted = put(store, before), put(store, after)
    write_tree(present, store, root)

    write_tree(wanted, store, root)
    after_looking = files_in(root)
    write_tree(present, store, root, present=wanted)
    write_tree(wanted, store, root, present=present)

    assert (after_looking, files_in(root)) == (after, after)


def leave_a_file(root: Path) -> None:
    (root / "src" / "left.txt").write_text("left", "utf-8")


def leave_folders(root: Path) -> None:
    (root / ".ai" / "state" / "objects").mkdir(parents=True)
    (root / "empty").mkdir()


def change_a_file(root: Path) -> None:
    path = root / "src" / "x.py"
    until_it_shows(path, lambda: path.write_text("y\n", "utf-8"))


def change_a_file_and_hide_it(root: Path) -> None:
    path = root / "src" / "x.py"
    before = path.stat()
    change_a_file(root)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def remove_a_file(root: Path) -> None:
    (root / TOOL).unlink()


def make_a_file_a_folder(root: Path) -> None:
    (root / "README").unlink()
    (root / "README").mkdir()
    (root / "README" / "x").touch()


def make_a_file_a_link(root: Path) -> None:
    (root / "README").unlink()
    (root / "README").symlink_to("src/x.py")


def make_a_folder_a_link(root: Path) -> None:
    (root / "src").rename(root.parent / "elsewhere")
    (root / "src").symlink_to(root.parent / "elsewhere")


def link_a_file_from_elsewhere(root: Path) -> None:
    (root.parent / "other name").hardlink_to(root / "README")


def make_a_fifo(root: Path) -> None:
    (root / "README").unlink()
    os.mkfifo(root / "README")


def shut_a_file(root: Path) -> None:
    path = root / "README"
    until_it_shows(path, lambda: path.chmod(0))


def shut_a_folder(root: Path) -> None:
    change_a_file(root)
    (root / "src").chmod(0)


def shut_a_folder_that_is_left(root: Path) -> None:
    (root / "left" / "in").mkdir(parents=True)
    (root / "left" / "in" / "x").touch()
    (root / "left" / "in").chmod(0)
    (root / "left").chmod(0)


def give_permissions(root: Path) -> None:
    path = root / "README"
    until_it_shows(path, lambda: path.chmod(0o777))


def nest_folders_deeper_than_a_path(root: Path) -> None:
    here = Path.cwd()
    os.chdir(root)
    try:
        for _ in range(300):
            Path("d" * 100).mkdir()
            os.chdir("d" * 100)
        Path("x").touch()
    finally:
        os.chdir(here)


HARM = [
    leave_a_file,
    leave_folders,
    change_a_file,
    change_a_file_and_hide_it,
    remove_a_file,
    make_a_file_a_folder,
    *(
        pytest.param(harm, marks=posix)
        for harm in (
            make_a_file_a_link,
            make_a_folder_a_link,
            link_a_file_from_elsewhere,
            make_a_fifo,
            shut_a_file,
            shut_a_folder,
            shut_a_folder_that_is_left,
            give_permissions,
            nest_folders_deeper_than_a_path,
        )
    ),
]


@pytest.mark.parametrize("harm", HARM)
def test_all_changes_of_a_program_are_undone(
    store: Store, root: Path, harm: Callable[[Path], None]
) -> None:
    manifest = put(store, FILES)
    write_tree(manifest, store, root)
    table = known(store, root, manifest)

    harm(root)
    write_tree(manifest, store, root, present=manifest, table=table)

    assert files_in(root) == FILES
    modes = [path.lstat() for path in root.rglob("*") if path.is_file()]
    assert all(status.st_nlink == 1 and not status.st_mode & 0o022 for status in modes)


@posix
def test_the_target_of_a_link_is_not_changed(store: Store, root: Path) -> None:
    manifest = put(store, FILES)
    write_tree(manifest, store, root, table=(table := StatTable()))
    make_a_folder_a_link(root)
    (root.parent / "elsewhere" / "mine").write_text("mine", "utf-8")

    write_tree(manifest, store, root, table=table)

    assert files_in(root.parent / "elsewhere") == {"x.py": "x\n", "mine": "mine"}


@posix
def test_without_a_scan_links_are_not_followed(store: Store, root: Path) -> None:
    present = put(store, FILES)
    write_tree(present, store, root)
    make_a_folder_a_link(root)

    with pytest.raises(UnsafeManifestError, match="src is a link"):
        write_tree(put(store, {**FILES, "src/x.py": "z"}), store, root, present=present)

    assert files_in(root.parent / "elsewhere") == {"x.py": "x\n"}


def test_an_unchanged_known_tree_is_not_read(store: Store, root: Path) -> None:
    manifest = put(store, FILES)
    write_tree(manifest, store, root)
    table = known(store, root, manifest)

    assert write_tree(manifest, Unreadable(), root, table=table) == written()


class Unreadable:
    """Contents that fail the test when they are read."""

    def _refuse(self, digest: str) -> bytes:
        raise AssertionError(digest)

    get_blob = get_object = _refuse

    def has_blob(self, digest: str) -> bool:
        raise AssertionError(digest)

    has_object = has_blob


def test_an_unknown_tree_is_read_and_equal_files_are_kept(store: Store, root: Path) -> None:
    manifest = put(store, FILES)
    write_tree(manifest, store, root)
    (root / "README").write_text("another\n", "utf-8")

    assert write_tree(manifest, store, root) == written("README")


def test_the_table_records_equal_files(store: Store, root: Path) -> None:
    manifest, table = put(store, FILES), StatTable()
    write_tree(manifest, store, root)
    status = (root / TOOL).stat()

    while table.entry(TOOL, status) is None:  # until it is no longer fresh
        write_tree(manifest, store, root, table=table)

    entry = table.entry(TOOL, status)
    assert entry is not None
    assert entry.item_digest == manifest.items[TOOL]
    assert entry.item == store.get_object(manifest.items[TOOL])
    assert store.get_blob(entry.blob) == FILES[TOOL].encode()


def test_a_missing_object_changes_no_file(store: Store, root: Path) -> None:
    manifest = put(store, FILES)
    write_tree(manifest, store, root)
    wanted = SourceManifest("project", manifest.items, {"new": ABSENT})

    with pytest.raises(ObjectMissingError):
        write_tree(wanted, store, root, present=manifest)

    assert files_in(root) == FILES


def test_an_unsafe_manifest_changes_no_file(store: Store, root: Path) -> None:
    wanted = put(store, {"fine": "1", "../out": "2"})

    with pytest.raises(UnsafeManifestError):
        write_tree(wanted, store, root)

    assert not root.exists()
    assert not (root.parent / "out").exists()


def test_an_execution_gets_copies_of_both_spaces(store: Store, tmp_path: Path) -> None:
    project = digest_of(store, put(store, FILES))
    user = digest_of(store, put(store, {".ai/config/x.yaml": "a: 1\n"}, "user"))

    paths = materialize(project, user, store.root, tmp_path / "runs")

    assert paths.project_path.parent.name.startswith("rye-exec-")
    assert files_in(paths.project_path) == FILES
    assert files_in(paths.user_space) == {".ai/config/x.yaml": "a: 1\n"}
    cleanup(paths)
    assert list((tmp_path / "runs").iterdir()) == []


def test_without_a_user_manifest_user_space_is_empty(store: Store, tmp_path: Path) -> None:
    paths = materialize(digest_of(store, put(store, FILES)), None, store.root, tmp_path / "runs")

    assert files_in(paths.user_space) == {}
    assert paths.user_space.is_dir()


def test_a_failed_checkout_leaves_no_folder(store: Store, tmp_path: Path) -> None:
    project = digest_of(store, put(store, FILES))

    with pytest.raises(ObjectMissingError):
        materialize(project, ABSENT, store.root, tmp_path / "runs")

    assert list((tmp_path / "runs").iterdir()) == []


def test_the_manifest_of_another_space_is_refused(store: Store) -> None:
    digest = digest_of(store, put(store, {}, "user"))

    with pytest.raises(CasObjectError) as error:
        read_manifest(digest, "project", store)

    assert str(error.value) == (
        f'source_manifest {digest}: space: expected "project", found "user"'
    )


NAMES = st.sampled_from(["a", "b", "c/a", "c/b", "c/d/e", ".ai/tools/a.py", ".ai/tools/b/c.sh"])
TREES = st.dictionaries(NAMES, st.sampled_from(["1", "2", "#!/bin/sh\n", ""]))


@pytest.mark.property
@given(steps=st.lists(st.tuples(TREES, st.sampled_from(["table", "present", "nothing"]))))
def test_a_tree_equals_the_last_manifest(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[dict[str, str], str]]
) -> None:
    folder = tmp_path_factory.mktemp("trees")
    store, root, table = Store(folder / "objects"), folder / "root", StatTable()
    present = None
    for files, way in steps:
        wanted = put(store, files)
        before = files_in(root) if root.exists() else {}

        done = write_tree(
            wanted,
            store,
            root,
            present=None if way == "nothing" else present,
            table=table if way == "table" else None,
        )

        assert files_in(root) == files
        differing = {path for path in files if before.get(path) != files[path]}
        assert differing <= set(done.changed)
        present = wanted
