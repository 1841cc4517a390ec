import os
from pathlib import Path
from typing import Any

import pytest

from lillux.store import Store
from lillux.store_layout import ObjectKind
from rye_services.node.store.objects import KnownItems
from rye_services.node.store.push import ManifestGraphError, verify_pushed_objects
from tests.support.pushed_trees import put_item, put_project, put_user_space

TREE = {
    ".ai/tools/probe/echo.py": b"print(1)\n",
    ".ai/knowledge/page.md": b"# Page\n",
    "src/x.py": b"x = 1\n",
    "empty": b"",
}
NOWHERE = "0" * 64


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """An empty store of one user."""
    return Store(tmp_path / "objects")


def manifest(store: Store, **changes: Any) -> str:  # noqa: ANN401 - anything a client may send
    """The digest of a manifest object with these keys."""
    value = {"schema": 2, "kind": "source_manifest", "space": "project", "items": {}, "files": {}}
    return store.put_object({**value, **changes})


def defects(store: Store, digest: str, known: KnownItems | None = None) -> tuple[str, ...]:
    """The defects of the project manifest of a digest; empty for a sound one."""
    try:
        verify_pushed_objects(digest, "project", store, known or KnownItems())
    except ManifestGraphError as error:
        return error.defects
    return ()


def test_a_manifest_with_all_its_objects_is_sound(store: Store) -> None:
    digest = put_project(store, TREE)

    found = verify_pushed_objects(digest, "project", store, KnownItems())

    assert found.paths() == sorted(TREE)


def test_an_empty_manifest_is_sound(store: Store) -> None:
    assert defects(store, put_project(store, {})) == ()


def test_a_known_item_that_is_missing_is_reported(store: Store) -> None:
    known = KnownItems()
    digest = put_project(store, TREE)
    verify_pushed_objects(digest, "project", store, known)
    item = put_item(store, ".ai/knowledge/page.md", TREE[".ai/knowledge/page.md"])

    store.remove(ObjectKind.OBJECT, item)

    expected = f"items: '.ai/knowledge/page.md': object {item} is missing"
    assert defects(store, digest, known) == (expected,)


def test_every_missing_part_is_named(store: Store) -> None:
    digest = put_project(store, TREE)
    item = put_item(store, ".ai/tools/probe/echo.py", TREE[".ai/tools/probe/echo.py"])
    echo, source = store.put_blob(b"print(1)\n"), store.put_blob(b"x = 1\n")
    store.remove(ObjectKind.BLOB, echo)
    store.remove(ObjectKind.BLOB, source)

    found = defects(store, digest)

    assert item
    assert found == (
        f"items: '.ai/tools/probe/echo.py': blob {echo} is missing",
        f"files: 'src/x.py': blob {source} is missing",
    )


def test_the_message_names_twenty_defects_and_counts_the_rest(store: Store) -> None:
    digest = manifest(store, files={f"f{number:02}": NOWHERE for number in range(23)})

    with pytest.raises(ManifestGraphError) as error:
        verify_pushed_objects(digest, "project", store, KnownItems())

    named = "; ".join(f"files: 'f{number:02}': blob {NOWHERE} is missing" for number in range(20))
    assert str(error.value) == f"manifest {digest}: {named}; and 3 more"


def test_a_missing_manifest_is_reported(store: Store) -> None:
    assert defects(store, NOWHERE) == (f"object {NOWHERE} is missing",)


def test_an_invalid_digest_of_a_manifest_is_reported(store: Store) -> None:
    assert defects(store, "../../etc/passwd") == ("expected 64 lower-case hex digits",)


def test_a_user_space_manifest_is_refused_as_a_project(store: Store) -> None:
    digest = put_user_space(store, {".ai/config/a.yaml": b"a: 1\n"})

    assert defects(store, digest) == (
        "expected a manifest of the project space, found one of 'user'",
    )
    assert verify_pushed_objects(digest, "user", store, KnownItems()).paths() == [
        ".ai/config/a.yaml"
    ]


def test_another_schema_is_refused(store: Store) -> None:
    digest = manifest(store, schema=1)

    assert defects(store, digest) == ("manifest: schema: expected 2, found 1",)


def test_another_kind_is_refused(store: Store) -> None:
    digest = manifest(store, kind="item_source")

    assert defects(store, digest) == (
        "manifest: kind: expected \"source_manifest\", found 'item_source'",
    )


def test_a_manifest_that_is_a_list_is_refused(store: Store) -> None:
    digest = store.put_object([1])

    assert defects(store, digest) == ("manifest: expected an object, found a list",)


def test_a_digest_in_a_manifest_is_checked(store: Store) -> None:
    digest = manifest(store, files={"x": "../../etc/passwd"})

    assert defects(store, digest) == (
        "manifest: files['x']: expected a digest, found '../../etc/passwd'",
    )


@pytest.mark.parametrize(
    "path", ["/etc/passwd", "../x", "a/../../x", "a\\b", "", "C:/x", "a\0b", ".ai/state/x", "a "]
)
def test_an_unsafe_path_is_refused_at_the_push(store: Store, path: str) -> None:
    blob = store.put_blob(b"x")

    (defect,) = defects(store, manifest(store, files={path: blob}))

    assert defect.startswith(f"unsafe path {path!r} in a manifest: ")


def test_paths_that_are_equal_on_some_file_systems_are_refused(store: Store) -> None:
    blob = store.put_blob(b"x")

    assert len(defects(store, manifest(store, files={"Read": blob, "read": blob}))) == 1


def test_a_path_cannot_be_item_and_file(store: Store) -> None:
    item = put_item(store, ".ai/tools/a.py", b"a")
    blob = store.put_blob(b"a")
    digest = manifest(store, items={".ai/tools/a.py": item}, files={".ai/tools/a.py": blob})

    assert len(defects(store, digest)) == 1


def test_an_item_outside_of_the_folder_of_items_is_refused(store: Store) -> None:
    digest = manifest(store, items={"src/x.py": put_item(store, ".ai/tools/x.py", b"x")})

    assert defects(store, digest) == (
        "'src/x.py': expected an item below .ai/{directives,tools,knowledge,config}/",
    )


def test_an_item_of_another_object_kind_is_reported(store: Store) -> None:
    other = store.put_object({"schema": 2, "kind": "config_snapshot", "resolved_config": {}})

    (defect,) = defects(store, manifest(store, items={".ai/tools/x.py": other}))

    assert defect == (
        f"items: '.ai/tools/x.py': item_source {other}: "
        "kind: expected \"item_source\", found 'config_snapshot'"
    )


def test_a_damaged_item_is_removed_and_can_be_uploaded_again(store: Store) -> None:
    digest = put_project(store, TREE)
    item = put_item(store, ".ai/knowledge/page.md", TREE[".ai/knowledge/page.md"])
    path = store.path_of(ObjectKind.OBJECT, item)
    path.write_bytes(path.read_bytes().replace(b"item_source", b"item_sourcf"))

    found = defects(store, digest)

    assert found == (
        f"items: '.ai/knowledge/page.md': object {item} was damaged here, upload it again",
    )
    assert not store.has_object(item)


def test_verified_objects_are_young_again(store: Store) -> None:
    digest = put_project(store, TREE)
    for space in ObjectKind:
        for stored in store.stored(space):
            os.utime(store.path_of(space, stored.digest), (1, 1))

    verify_pushed_objects(digest, "project", store, KnownItems())

    assert all(one.modified_s > 1 for space in ObjectKind for one in store.stored(space))
