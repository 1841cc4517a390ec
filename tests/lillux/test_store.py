import json
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lillux.canonical_json import CanonicalJsonError, canonical_json
from lillux.digests import sha256_hex
from lillux.errors import FileSystemError
from lillux.store import Durability, Store
from lillux.store_errors import (
    DigestError,
    ObjectChangedError,
    ObjectMissingError,
    ObjectUnreadableError,
    RefNameError,
    RefUnreadableError,
    StoreLinkError,
)
from lillux.store_layout import ObjectKind

VECTORS = json.loads((Path(__file__).parents[1] / "vectors" / "cas.json").read_text("utf-8"))
EMPTY_BLOB = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
links = pytest.mark.skipif(sys.platform == "win32", reason="links need a privilege there")

JSON_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=12,
)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """An empty store, its folder not yet made."""
    return Store(tmp_path / "objects")


def object_file(store: Store, digest: str) -> Path:
    """The path of an object in the layout."""
    return store.root / "objects" / digest[:2] / digest[2:4] / f"{digest}.json"


@pytest.mark.parametrize("vector", VECTORS["canonical_json"])
def test_a_known_value_has_its_known_text_and_digest(vector: dict[str, object]) -> None:
    text = canonical_json(vector["value"])

    assert (text.decode(), sha256_hex(text)) == (vector["canonical"], vector["sha256"])


def test_an_object_is_canonical_json_below_two_levels_of_its_digest(store: Store) -> None:
    digest = store.put_object({"b": 1, "a": [True, None, "x"]})

    assert digest == "54a65415ad370228851a1da4b31b6fd42dc58b19a50d35cae759325f7388ce64"
    assert object_file(store, digest).read_bytes() == b'{"a":[true,null,"x"],"b":1}'


def test_an_empty_blob_is_stored_too(store: Store) -> None:
    digest = store.put_blob(b"")

    path = store.root / "blobs" / "e3" / "b0" / EMPTY_BLOB
    assert (digest, path.read_bytes(), store.get_blob(digest)) == (EMPTY_BLOB, b"", b"")


def test_a_digest_may_name_a_blob_and_not_an_object(store: Store) -> None:
    digest = store.put_blob(b"{}")

    assert (store.has_blob(digest), store.has_object(digest)) == (True, False)


@pytest.mark.parametrize("vector", VECTORS["objects"])
def test_a_known_object_has_its_known_path(store: Store, vector: dict[str, Any]) -> None:
    if "object" in vector:
        digest = store.put_object(vector["object"])
    else:
        digest = store.put_blob(vector["blob_utf8"].encode())

    assert digest == vector["hash"]
    assert (store.root / vector["path"]).is_file()


@pytest.mark.property
@given(value=JSON_VALUES)
def test_stored_content_is_read_back(
    tmp_path_factory: pytest.TempPathFactory, value: object
) -> None:
    store = Store(tmp_path_factory.mktemp("store"))

    digest = store.put_object(value, Durability.UNFORCED)

    assert store.get_object(digest) == value


@pytest.mark.parametrize("durability", list(Durability))
def test_every_durability_can_be_read_at_once(store: Store, durability: Durability) -> None:
    digest = store.put_object({"n": 1}, durability)

    store.sync()
    store.sync_objects([digest])
    assert store.get_object(digest) == {"n": 1}


def test_no_temporary_file_is_left_beside_stored_content(store: Store) -> None:
    digest = store.put_object({"n": 1})

    assert [path for path in store.root.rglob("*") if path.is_file()] == [
        object_file(store, digest)
    ]


def test_a_changed_file_is_named(store: Store) -> None:
    digest = store.put_object({"n": 1})
    object_file(store, digest).write_bytes(b'{"n":2}')

    with pytest.raises(ObjectChangedError) as error:
        store.get_object(digest)

    assert (error.value.path, error.value.expected) == (str(object_file(store, digest)), digest)


def test_a_file_that_was_cut_short_is_stored_again(store: Store) -> None:
    digest = store.put_object({"n": 1})
    object_file(store, digest).write_bytes(b"")

    store.put_object({"n": 1})

    assert store.get_object(digest) == {"n": 1}


def test_absent_content_is_missing(store: Store) -> None:
    with pytest.raises(ObjectMissingError):
        store.get_blob("0" * 64)

    assert not store.has_blob("0" * 64)


@pytest.mark.parametrize(
    "text", ["", "../../../../etc/passwd", "A" * 64, "0" * 63, "0" * 300, "0" * 63 + "\n"]
)
def test_an_invalid_digest_becomes_no_path(store: Store, text: str) -> None:
    with pytest.raises(DigestError):
        store.get_object(text)

    assert not store.has_object(text)


def test_a_blob_among_the_objects_is_no_value(store: Store) -> None:
    digest = sha256_hex(b"no json")
    path = object_file(store, digest)
    path.parent.mkdir(parents=True)
    path.write_bytes(b"no json")

    with pytest.raises(ObjectUnreadableError):
        store.get_object(digest)


def test_a_value_that_is_no_json_is_named_by_its_place(store: Store) -> None:
    with pytest.raises(CanonicalJsonError) as error:
        store.put_object({"state": [float("nan")]})

    assert error.value.pointer == "/state/0"


def test_many_writers_of_the_same_object_agree(store: Store) -> None:
    values = [{"n": number % 3} for number in range(60)]

    with ThreadPoolExecutor(8) as pool:
        digests = set(pool.map(store.put_object, values))

    assert sorted(store.get_object(digest)["n"] for digest in digests) == [0, 1, 2]


def test_a_store_whose_folders_were_removed_makes_them_again(store: Store) -> None:
    digest = store.put_object({"n": 1})
    object_file(store, digest).unlink()
    object_file(store, digest).parent.rmdir()

    store.put_object({"n": 1})

    assert store.get_object(digest) == {"n": 1}


def test_a_file_where_the_store_should_be_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "objects").write_text("x", "utf-8")

    with pytest.raises((FileSystemError, StoreLinkError)):
        Store(tmp_path / "objects").put_blob(b"x")


# --- refs -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("durability", list(Durability))
def test_a_ref_is_replaced_whole(store: Store, durability: Durability) -> None:
    store.write_ref("graphs/run-1", {"hash": "a"}, durability)
    store.write_ref("graphs/run-1", {"hash": "b"}, durability)
    store.sync()

    path = store.root / "refs" / "graphs" / "run-1.json"
    assert store.read_ref("graphs/run-1") == {"hash": "b"}
    assert list(path.parent.iterdir()) == [path]


def test_a_missing_ref_gives_none(store: Store) -> None:
    assert store.read_ref("graphs/run-1") is None


@pytest.mark.parametrize("name", ["", "../x", "/x", "a//b", "graphs/.x", "a\\b", "c:x", "x" * 241])
def test_a_hostile_name_of_a_ref_is_refused(store: Store, name: str) -> None:
    with pytest.raises(RefNameError):
        store.write_ref(name, {})


@pytest.mark.parametrize("data", [b"", b"\x00" * 80, b"[]", b"{"])
def test_a_ref_with_invalid_contents_is_named(store: Store, data: bytes) -> None:
    store.write_ref("run", {})
    (store.root / "refs" / "run.json").write_bytes(data)

    with pytest.raises(RefUnreadableError):
        store.read_ref("run")


# --- links ----------------------------------------------------------------------------------------


@links
@pytest.mark.parametrize("planted", ["objects", "objects/44", "objects/44/13"])
def test_no_write_follows_a_link_out_of_the_store(tmp_path: Path, planted: str) -> None:
    outside, link = tmp_path / "outside", tmp_path / "store" / planted
    outside.mkdir()
    link.parent.mkdir(parents=True)
    link.symlink_to(outside)

    with pytest.raises(StoreLinkError) as error:
        Store(tmp_path / "store").put_object({})

    assert (error.value.path, list(outside.iterdir())) == (str(link), [])


@links
def test_no_read_and_no_write_goes_through_a_linked_file(store: Store, tmp_path: Path) -> None:
    digest = store.put_object({})
    outside = tmp_path / "outside"
    outside.write_bytes(b"{}")
    object_file(store, digest).unlink()
    object_file(store, digest).symlink_to(outside)

    for act in (lambda: store.get_object(digest), lambda: store.put_object({})):
        with pytest.raises(StoreLinkError):
            act()


@links
def test_no_ref_is_written_through_a_link(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (tmp_path / "store").mkdir()
    (tmp_path / "store" / "refs").symlink_to(outside)

    with pytest.raises(StoreLinkError):
        Store(tmp_path / "store").write_ref("graphs/x", {})

    assert list(outside.iterdir()) == []


def test_only_content_that_was_not_touched_since_a_time_is_removed(store: Store) -> None:
    old, young = store.put_blob(b"old"), store.put_blob(b"young")
    os.utime(store.root / "blobs" / old[:2] / old[2:4] / old, (1000, 1000))

    removed = [
        store.remove_older(ObjectKind.BLOB, digest, 2000.0) for digest in (old, young, EMPTY_BLOB)
    ]

    assert removed == [True, False, False]
    assert [store.has_blob(digest) for digest in (old, young)] == [False, True]
    assert [path.name for path in store.root.rglob("*") if path.is_file()] == [young]
