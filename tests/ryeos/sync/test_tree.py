import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from lillux.canonical_json import compute_integrity
from lillux.digests import sha256_hex
from lillux.errors import FileSystemError
from lillux.store import Store
from lillux.store_errors import ObjectMissingError
from lillux.values import replace
from ryeos.items.errors import RyeError
from ryeos.sync.contents import Contents, LayeredContents
from ryeos.sync.item_files import item_source
from ryeos.sync.objects import SourceManifest, item_source_of, manifest_of
from ryeos.sync.rules import ManifestRules, rules_of
from ryeos.sync.stat_table import StatTable, TreeEntry
from ryeos.sync.tree import Tree, build_project_tree, build_user_tree
from ryeos.sync.tree_walk import SkippedFile
from tests.support.errors import coded

LONG_AGO = 1_000_000_000.5
links = pytest.mark.skipif(sys.platform == "win32", reason="links need a privilege there")
posix = pytest.mark.skipif(os.name == "nt", reason="pipes and permissions of POSIX")
any_name = pytest.mark.skipif(sys.platform != "linux", reason="others refuse such names")


def rules(*include: str, **lists: Any) -> ManifestRules:  # noqa: ANN401 - of a configuration
    """The built-in rules, with files to include and more."""
    sync = {"include": list(include), "exclude": lists.pop("exclude", [])}
    return rules_of([("test", {"sync": sync, **lists})])


def write(root: Path, files: Mapping[str, bytes]) -> Path:
    """A folder with these files."""
    for relative, data in files.items():
        path = root / relative
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return root


def project(root: Path, chosen: ManifestRules | None = None) -> Tree:
    """The tree of a project, with an empty stat table."""
    return build_project_tree(root, chosen or rules(), StatTable())


def user(root: Path) -> Tree:
    """The tree of a user space, with an empty stat table."""
    return build_user_tree(root, rules(), StatTable())


# --- which files ----------------------------------------------------------------------------------


def test_below_ai_only_items_are_synced(tmp_path: Path) -> None:
    items = [".ai/tools/a/b.py", ".ai/directives/d.md", ".ai/knowledge/k.txt", ".ai/config/c.yaml"]
    others = [".ai/state/x.py", ".ai/bundles/b.py", ".ai/top.md", ".ai/tools2/x.py", "src/a.py"]
    write(tmp_path, dict.fromkeys([*items, *others], b"text"))

    tree = project(tmp_path)

    assert tree.manifest.paths() == sorted(items)
    assert tree.manifest.files == {}
    assert tree.skipped == ()


def test_an_item_is_listed_by_its_source_object_and_has_its_bytes(tmp_path: Path) -> None:
    write(tmp_path, {".ai/tools/a.py": b"x = 1\n"})

    tree = project(tmp_path)

    source = item_source(".ai/tools/a.py", b"x = 1\n")
    assert source is not None
    digest = compute_integrity(source.as_object())
    assert tree.manifest == SourceManifest("project", {".ai/tools/a.py": digest})
    assert tree.get_object(digest) == source.as_object()
    assert tree.get_blob(source.content_blob_hash) == b"x = 1\n"


def test_folders_are_skipped_only_directly_below_ai(tmp_path: Path) -> None:
    write(tmp_path, {".ai/tools/x/node_modules/m/i.js": b"x", ".ai/node_modules/tools/i.js": b"x"})

    assert project(tmp_path).manifest.paths() == [".ai/tools/x/node_modules/m/i.js"]


def test_a_kind_may_be_skipped(tmp_path: Path) -> None:
    write(tmp_path, {".ai/knowledge/a.md": b"x", ".ai/tools/knowledge/a.py": b"x"})

    tree = project(tmp_path, rules(manifest={"skip_dirs": ["knowledge"]}))

    assert tree.manifest.paths() == [".ai/tools/knowledge/a.py"]


def test_secrets_are_never_synced(tmp_path: Path) -> None:
    secrets = [".ai/config/private_key.pem", ".ai/tools/.env", "src/.env.local", "src/a.secrets"]
    write(tmp_path, dict.fromkeys([*secrets, "src/a.py"], b"x"))

    tree = project(tmp_path, rules("*"))

    assert tree.manifest.paths() == ["src/a.py"]


def test_private_signing_keys_are_not_synced_if_the_project_is_the_user_space(
    tmp_path: Path,
) -> None:
    keys = ".ai/config/keys/signing"
    write(tmp_path, {f"{keys}/public_key.pem": b"public", f"{keys}/spare": b"secret"})

    assert project(tmp_path).manifest.paths() == [f"{keys}/public_key.pem"]


def test_other_files_are_synced_if_included_and_not_excluded(tmp_path: Path) -> None:
    taken = ["src/a.py", "src/deep/b.bin", "top.toml"]
    left = ["src/gen/x.py", "node_modules/m.js", ".git/config", "readme.md", "src/a.tmp"]
    write(tmp_path, {**dict.fromkeys(taken, b"\xff\x00"), **dict.fromkeys(left, b"x")})

    tree = project(tmp_path, rules("src/", "*.toml", exclude=["src/gen/", "*.tmp"]))

    assert tree.manifest.files == dict.fromkeys(taken, sha256_hex(b"\xff\x00"))
    assert tree.manifest.items == {}


def test_with_all_files_included_items_are_listed_once(tmp_path: Path) -> None:
    write(tmp_path, {".ai/tools/a.py": b"x", ".ai/state/s": b"x", "a/.ai/tools/b.py": b"x"})

    tree = project(tmp_path, rules("*"))

    assert list(tree.manifest.items) == [".ai/tools/a.py"]
    assert list(tree.manifest.files) == ["a/.ai/tools/b.py"]


def test_a_folder_without_anything_is_an_empty_manifest(tmp_path: Path) -> None:
    tree = project(tmp_path / "none", rules("*"))

    assert (tree.manifest, tree.skipped) == (SourceManifest("project"), ())
    assert tree.has_object(tree.manifest_hash)


def test_an_item_that_is_not_text_is_left_out_and_reported(tmp_path: Path) -> None:
    write(tmp_path, {".ai/knowledge/logo.png": b"\x89PNG", ".ai/knowledge/a.md": b"x"})

    tree = project(tmp_path)

    assert tree.manifest.paths() == [".ai/knowledge/a.md"]
    assert tree.skipped == (
        SkippedFile(".ai/knowledge/logo.png", "expected UTF-8 text: items travel as text"),
    )


@any_name
@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("a:b.md", "':' is not allowed (drive letters, alternate streams)"),
        ("a\\b.md", "expected '/' as separator, found a backslash"),
        ("CON.md", "'CON.md' names a device on Windows"),
        ("a.", "segment 'a.' ends in a dot or a blank, which Windows drops"),
        ("a\u202eb.md", "characters that cannot be seen are not allowed"),
        ("a\nb", "control characters are not allowed"),
        (os.fsdecode(b"a\xff"), "expected a name in UTF-8, found other bytes"),
    ],
)
def test_a_name_invalid_on_some_platform_is_left_out_and_reported(
    tmp_path: Path, name: str, problem: str
) -> None:
    write(tmp_path, {f".ai/knowledge/{name}": b"x", f".ai/tools/{name}/b.py": b"x"})

    tree = project(tmp_path)

    assert tree.manifest.items == {}
    assert tree.skipped == (
        SkippedFile(f".ai/knowledge/{name}", problem),
        SkippedFile(f".ai/tools/{name}/", problem),
    )


@posix
def test_a_pipe_is_left_out_and_reported(tmp_path: Path) -> None:
    (tmp_path / ".ai" / "tools").mkdir(parents=True)
    os.mkfifo(tmp_path / ".ai" / "tools" / "pipe")

    assert project(tmp_path).skipped == (
        SkippedFile(".ai/tools/pipe", "expected a file, found something else"),
    )


@posix
@pytest.mark.skipif(os.name == "posix" and os.geteuid() == 0, reason="root may read everything")
@pytest.mark.parametrize("closed", [".ai/tools/a.py", ".ai/tools"])
def test_an_unreadable_path_is_an_error_and_not_a_removal(tmp_path: Path, closed: str) -> None:
    write(tmp_path, {".ai/tools/a.py": b"x"})
    (tmp_path / closed).chmod(0)

    try:
        with pytest.raises(FileSystemError) as error:
            project(tmp_path)
    finally:
        (tmp_path / closed).chmod(0o700)

    assert error.value.path == str(tmp_path / closed)


# --- user spaces ----------------------------------------------------------------------------------


def test_of_a_user_space_items_and_public_keys_are_synced(tmp_path: Path) -> None:
    keys = ".ai/config/keys"
    travels = {
        f"{keys}/signing/public_key.pem": b"public",
        f"{keys}/signing/box_pub.pem": b"public",
        f"{keys}/trusted/a.toml": b'owner = "me"\n',
        ".ai/config/rye/aliases.yaml": b"x: 1\n",
        ".ai/tools/a.py": b"x",
        ".ai/directives/d.md": b"x",
        ".ai/knowledge/k.md": b"x",
    }
    stays = {
        f"{keys}/signing/private_key.pem": b"secret",
        f"{keys}/signing/box_key.pem": b"secret",
        f"{keys}/signing/copy": b"secret",
        f"{keys}/trusted/b.toml": b'owner = "remote:default:localhost"\n',
        ".ai/config/remotes/pins.yaml": b"x: 1\n",
        ".ai/node/pins/x.toml": b"x",
        ".ai/secrets/store.enc": b"x",
        ".ai/state/x": b"x",
        "notes.txt": b"x",
    }
    write(tmp_path, {**travels, **stays})

    tree = build_user_tree(tmp_path, rules("*"), StatTable())

    assert tree.manifest.space == "user"
    assert tree.manifest.paths() == sorted(travels)
    assert tree.manifest.files == {}


def test_a_private_key_under_any_name_is_left_out_and_reported(tmp_path: Path) -> None:
    mark = b"-----BEGIN PRIVATE " + b"KEY-----\n"
    write(tmp_path, {".ai/config/backup.pem": mark, ".ai/knowledge/pem.md": mark})

    tree = user(tmp_path)

    assert tree.manifest.paths() == [".ai/knowledge/pem.md"]
    assert tree.skipped == (SkippedFile(".ai/config/backup.pem", "holds a private key"),)


def test_a_private_key_in_the_table_is_left_out(tmp_path: Path) -> None:
    mark = b"-----BEGIN PRIVATE " + b"KEY-----\n"
    write(tmp_path, {".ai/config/backup.pem": mark})
    table = StatTable()
    status = (tmp_path / ".ai/config/backup.pem").stat()
    entry = TreeEntry("a" * 64, "b" * 64, {"kind": "item_source"})
    table.record(".ai/config/backup.pem", status, entry, now_ns=status.st_ctime_ns + 10**10)

    assert build_user_tree(tmp_path, rules(), table).manifest.items == {}


# --- links ----------------------------------------------------------------------------------------


@links
def test_a_link_to_a_file_of_the_project_is_read_through(tmp_path: Path) -> None:
    write(tmp_path, {"src/a.md": b"text", ".ai/knowledge/x.md": b"x"})
    (tmp_path / ".ai/knowledge/a.md").symlink_to("../../src/a.md")

    tree = project(tmp_path)

    assert tree.manifest.paths() == [".ai/knowledge/a.md", ".ai/knowledge/x.md"]
    assert tree.get_blob(sha256_hex(b"text")) == b"text"


@links
def test_a_link_to_a_folder_is_not_followed(tmp_path: Path) -> None:
    write(tmp_path, {"src/a.md": b"text", ".ai/knowledge/x.md": b"x"})
    (tmp_path / ".ai/knowledge/src").symlink_to("../../src")

    tree = project(tmp_path)

    assert tree.manifest.paths() == [".ai/knowledge/x.md"]
    assert tree.skipped == (
        SkippedFile(".ai/knowledge/src/", "a link, and links to folders are not followed"),
    )


@links
@pytest.mark.parametrize("target", ["nowhere.md", "loop.md"])
def test_a_broken_link_is_reported(tmp_path: Path, target: str) -> None:
    write(tmp_path, {".ai/knowledge/x.md": b"x"})
    (tmp_path / ".ai/knowledge/loop.md").symlink_to(target)

    assert project(tmp_path).skipped == (
        SkippedFile(".ai/knowledge/loop.md", "a link that leads nowhere"),
    )


# --- content --------------------------------------------------------------------------------------


def test_a_tree_holds_its_manifest_and_all_objects_of_it(tmp_path: Path) -> None:
    write(tmp_path, {".ai/tools/a.py": b"x", "src/a": b"y", "src/b": b"y"})

    tree = project(tmp_path, rules("src/"))

    manifest = manifest_of(tree.get_object(tree.manifest_hash), "manifest")
    assert compute_integrity(manifest.as_object()) == tree.manifest_hash
    (item,) = manifest.items.values()
    source = item_source_of(tree.get_object(item), "item_source")
    assert all(map(tree.has_blob, (source.content_blob_hash, *manifest.files.values())))
    assert set(manifest.files) == {"src/a", "src/b"}


def test_reading_a_project_writes_no_file(tmp_path: Path) -> None:
    write(tmp_path, {".ai/tools/a.py": b"x"})

    project(tmp_path)

    assert [path.name for path in tmp_path.rglob("*")] == [".ai", "tools", "a.py"]


def test_an_object_outside_of_the_tree_is_missing(tmp_path: Path) -> None:
    tree = project(tmp_path)

    for get in (tree.get_blob, tree.get_object):
        with pytest.raises(ObjectMissingError):
            get("0" * 64)
    assert not tree.has_blob(tree.manifest_hash)


def test_a_tree_and_a_store_are_read_as_one(tmp_path: Path) -> None:
    write(tmp_path / "project", {".ai/tools/a.py": b"x"})
    store = Store(tmp_path / "store")
    known = store.put_blob(b"known")

    both: Contents = LayeredContents(store, project(tmp_path / "project"))

    assert (both.get_blob(known), both.get_blob(sha256_hex(b"x"))) == (b"known", b"x")


@pytest.mark.parametrize("change", ["change", "remove"])
def test_a_file_that_changed_since_is_reported_and_read_again(tmp_path: Path, change: str) -> None:
    write(tmp_path, {".ai/tools/a.py": b"x"})
    table = StatTable()
    tree = build_project_tree(tmp_path, rules(), table)
    path = tmp_path / ".ai/tools/a.py"
    path.unlink() if change == "remove" else path.write_bytes(b"y")

    with pytest.raises(RyeError, check=coded("CONFLICT")) as error:
        tree.get_blob(sha256_hex(b"x"))

    assert error.value.path == str(path)
    assert len(table) == 0


# --- the table ------------------------------------------------------------------------------------


def known(root: Path, tree: Tree, relative: str, entry: TreeEntry) -> StatTable:
    """A table with another entry for a file than its content."""
    status = (root / relative).stat()
    tree.table.record(relative, status, entry, now_ns=status.st_ctime_ns + 10**10)
    return tree.table


def test_a_file_that_the_table_knows_is_not_read(tmp_path: Path) -> None:
    write(tmp_path, {"src/a": b"x"})
    table = known(tmp_path, project(tmp_path), "src/a", TreeEntry("a" * 64))

    tree = build_project_tree(tmp_path, rules("src/"), table)

    assert tree.manifest.files == {"src/a": "a" * 64}


def test_an_item_known_only_by_its_bytes_is_read(tmp_path: Path) -> None:
    write(tmp_path, {".ai/tools/a.py": b"x"})
    first = project(tmp_path)
    table = known(tmp_path, first, ".ai/tools/a.py", TreeEntry("a" * 64))

    assert build_project_tree(tmp_path, rules(), table).manifest_hash == first.manifest_hash


def test_a_table_does_not_change_the_result(tmp_path: Path) -> None:
    root = write(tmp_path / "project", {".ai/tools/a.py": b"x", "src/a": b"y", "src/b": b"z"})
    for path in root.rglob("*"):
        os.utime(path, (LONG_AGO, LONG_AGO))
    table = StatTable(tmp_path / "table.json")
    first = build_project_tree(root, rules("src/"), table)
    table.save()
    table.load()

    (root / "src/b").write_bytes(b"w")
    (root / "src/c").write_bytes(b"new")
    (root / "src/a").unlink()

    again = build_project_tree(root, rules("src/"), table)
    assert again.manifest_hash == project(root, rules("src/")).manifest_hash
    assert again.manifest_hash != first.manifest_hash


def test_a_table_made_with_other_rules_does_not_bypass_the_rules(
    tmp_path: Path,
) -> None:
    root = write(tmp_path / "project", {"src/a": b"x", "src/b.log": b"y", ".ai/tools/a.py": b"z"})
    table = StatTable(tmp_path / "table.json")
    for path in root.rglob("*"):
        os.utime(path, (LONG_AGO, LONG_AGO))
    build_project_tree(root, rules("src/"), table)
    table.save()
    table.load()

    stricter = replace(rules("src/"), names=("b.log",))
    tree = build_project_tree(root, stricter, table)

    assert tree.manifest.paths() == [".ai/tools/a.py", "src/a"]


@links
def test_a_link_in_the_place_of_a_known_file_is_checked_again(tmp_path: Path) -> None:
    root = write(tmp_path / "project", {"src/a": b"x", ".env": b"SECRET=1\n"})
    table = StatTable()
    build_project_tree(root, rules("src/"), table)

    (root / "src/a").unlink()
    (root / "src/a").symlink_to("../.env")
    tree = build_project_tree(root, rules("src/"), table)

    assert tree.manifest.paths() == []


def test_the_table_forgets_missing_files(tmp_path: Path) -> None:
    write(tmp_path, {"src/a": b"x", "src/b": b"x"})
    table = known(tmp_path, project(tmp_path), "src/a", TreeEntry("a" * 64))
    (tmp_path / "src/a").unlink()

    build_project_tree(tmp_path, rules("src/"), table)

    assert table.entry("src/a", (tmp_path / "src/b").stat()) is None
    assert len(table) <= 1
