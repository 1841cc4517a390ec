"""An attacker who may write to a node's bucket, and to nothing else of the node."""

import json
from pathlib import Path

import pytest

from lillux.store import Store
from lillux.store_errors import ObjectChangedError, RefNameError
from rye_services.node.store.bucket_store import BucketStores
from rye_services.node.store.objects import UserStores
from rye_services.node.store.packs import MemoryPacks
from rye_services.node.store.stores import MARKER, Stores, _require_own
from rye_services.operations.backup import copy_stores
from rye_services.storage.object_storage import ObjectStorageError, ObstoreBucket
from ryeos.items.errors import RyeError
from tests.support.databases import made_database
from tests.support.errors import coded
from tests.support.object_storage import memory_bucket


def stores_in(bucket: ObstoreBucket, folder: Path) -> BucketStores:
    return BucketStores(bucket, made_database(folder), MemoryPacks(1024))


def test_contents_that_were_changed_for_one_another_are_refused(tmp_path: Path) -> None:
    bucket = memory_bucket()
    stores = stores_in(bucket, tmp_path)
    ada, bob = stores.of("ada").put_blob(b"one"), stores.of("bob").put_blob(b"two")
    packs = [one.key for one in bucket.listed("users/")]
    first, second = (bucket.get(one) or b"" for one in packs)
    bucket.put(packs[0], second)
    bucket.put(packs[1], first)
    later = stores_in(bucket, tmp_path)

    for user, digest in (("ada", ada), ("bob", bob)):
        with pytest.raises(ObjectChangedError):
            later.of(user).get_blob(digest)


@pytest.mark.parametrize(
    "head",
    [
        b"rye-pack 1\nffffffff\n",
        b"rye-pack 1\n-0000001\n",
        b"rye-pack 9\n00000002\n[]",
        b"rye-pack 1\n00000002\n[]more",
        b"rye-pack 1\n0000000d\n[[1,2,3,4,5]]",
        b"rye-pack 1\n00000064\n" + b"[" * 100,
        b"",
    ],
)
def test_a_pack_with_a_false_index_gives_no_rows(tmp_path: Path, head: bytes) -> None:
    bucket = memory_bucket()
    store = stores_in(bucket, tmp_path).of("ada")
    sound = store.put_blob(b"sound")
    bucket.put(f"users/ada/packs/{'0' * 32}", head)

    assert store.recover() == 0
    assert store.get_blob(sound) == b"sound"


def test_a_pack_does_not_give_a_content_that_its_bytes_are_not(tmp_path: Path) -> None:
    bucket = memory_bucket()
    listed = json.dumps([["blob", "a" * 64, 4]], separators=(",", ":")).encode()
    bucket.put(
        "users/ada/packs/" + "0" * 32, b"rye-pack 1\n%08x\n" % len(listed) + listed + b"evil"
    )
    store = stores_in(bucket, tmp_path).of("ada")

    assert store.recover() == 1
    with pytest.raises(ObjectChangedError):
        store.get_blob("a" * 64)


def test_a_file_larger_than_any_that_a_node_writes_is_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bucket = memory_bucket()
    digest = stores_in(bucket, tmp_path).of("ada").put_blob(b"small")
    (pack,) = bucket.listed("users/ada/packs/")
    bucket.put(pack.key, (bucket.get(pack.key) or b"") + bytes(2000))
    monkeypatch.setattr("rye_services.storage.object_storage.MAX_FILE_BYTES", 1000)

    with pytest.raises(ObjectStorageError, match="which no node has written"):
        stores_in(bucket, tmp_path).of("ada").get_blob(digest)


def test_a_ref_or_a_user_of_another_form_leads_to_no_file_elsewhere(tmp_path: Path) -> None:
    bucket = memory_bucket()
    stores = stores_in(bucket, tmp_path)
    stores.of("ada").put_blob(b"one")
    bucket.put("users/ada/refs/.hidden/x.json", b'{"hash": "x"}')
    bucket.put("users/Not A User/packs/x", b"x")
    target = Stores(users=UserStores(tmp_path / "out"), registry=Store(tmp_path / "registry"))
    source = Stores(users=stores, registry=Store(tmp_path / "none"))

    with pytest.raises(RefNameError):
        copy_stores(source, target, lambda *_: None)

    assert stores.users() == ("ada",)
    assert not [*(tmp_path / "out").rglob(".hidden*")]


@pytest.mark.parametrize(
    "marker", [b'{"format": 1, "node": "another"}', b"[]", b"\xff", b"[" * 5000, b'{"node": {}}']
)
def test_a_marker_of_another_node_stops_the_start(tmp_path: Path, marker: bytes) -> None:
    bucket = memory_bucket()
    bucket.put(MARKER, marker)

    with pytest.raises(RyeError, match="expected the files of node", check=coded("WRONG_STORE")):
        _require_own(bucket, "0" * 32, make=False)
