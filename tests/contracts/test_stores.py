"""One contract for every store of a server: folders, a bucket in memory, S3 by versitygw."""

from collections.abc import Iterator
from pathlib import Path
from time import time

import pytest

from lillux.digests import sha256_hex
from lillux.store import Durability, Store
from lillux.store_errors import DigestError, ObjectChangedError, ObjectMissingError
from lillux.store_layout import ObjectKind
from rye_services.node.store.bucket_store import BucketStore, BucketStores
from rye_services.node.store.packs import MemoryPacks, PackCache, PackFiles
from rye_services.storage.object_storage import Bucket, ObjectStorageError
from ryeos.sync.contents import ContentStore
from ryeos.sync.garbage import collect_garbage
from tests.support.databases import made_database
from tests.support.object_storage import FailingBucket, bucket_of, memory_bucket, versity

BLOB, OBJECT = ObjectKind.BLOB, ObjectKind.OBJECT
NOWHERE = "0" * 64
KINDS = ["folder", "memory", pytest.param("s3", marks=pytest.mark.heavy)]


def bucket_stores(bucket: Bucket, folder: Path, cache: PackCache | None = None) -> BucketStores:
    return BucketStores(bucket, made_database(folder), cache or MemoryPacks(1024 * 1024))


@pytest.fixture(params=KINDS)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ContentStore]:
    if request.param == "folder":
        yield Store(tmp_path / "store", levels=1)
    elif request.param == "memory":
        yield bucket_stores(memory_bucket(), tmp_path).of("ada")
    else:
        with versity(tmp_path / "s3", "bucket") as environ:
            yield bucket_stores(bucket_of(environ, tmp_path), tmp_path).of("ada")


def many(count: int) -> list[tuple[ObjectKind, str, bytes]]:
    contents = [f"content {number}".encode() * 20 for number in range(count)]
    return [(BLOB, sha256_hex(data), data) for data in contents]


def test_stored_content_is_returned(store: ContentStore) -> None:
    blob, value = store.put_blob(b"hello"), store.put_object({"kind": "thing", "n": 1})

    assert store.get_blob(blob) == b"hello"
    assert store.get_object(value) == {"kind": "thing", "n": 1}
    assert (store.size(BLOB, blob), store.has_object(value)) == (5, True)


def test_an_empty_blob_is_stored(store: ContentStore) -> None:
    assert store.get_blob(store.put_blob(b"")) == b""


def test_content_that_waits_for_sync_can_be_read_at_once(store: ContentStore) -> None:
    digest = store.put_blob(b"waits", Durability.AT_SYNC)

    read, size = store.get_blob(digest), store.size(BLOB, digest)
    store.sync()

    assert (read, size, store.touch(BLOB, digest)) == (b"waits", 5, True)


def test_many_are_stored_at_once_and_each_is_returned(store: ContentStore) -> None:
    contents = many(700)
    store.keep_all(contents, Durability.AT_SYNC)
    store.sync()

    assert store.touch_all(BLOB, [one[1] for one in contents]) == {one[1] for one in contents}
    assert all(store.get_blob(digest) == data for _, digest, data in contents)
    assert {one.digest for one in store.stored(BLOB)} == {one[1] for one in contents}


def test_a_blob_and_an_object_of_one_digest_are_two(store: ContentStore) -> None:
    digest = store.put_blob(b"{}")

    assert (store.has_blob(digest), store.has_object(digest)) == (True, False)


def test_absent_content_is_missing(store: ContentStore) -> None:
    with pytest.raises(ObjectMissingError):
        store.get_blob(NOWHERE)

    assert store.size(BLOB, NOWHERE) is None
    assert store.sizes(BLOB, [NOWHERE, "no digest"]) == {}
    assert store.touch_all(BLOB, [NOWHERE, "no digest"]) == set()


def test_a_text_that_is_no_digest_is_refused(store: ContentStore) -> None:
    with pytest.raises(DigestError):
        store.get_blob("../../etc/passwd")


def test_a_sweep_removes_old_content_that_is_not_referenced(store: ContentStore) -> None:
    kept, gone = store.put_blob(b"kept"), store.put_blob(b"gone")

    found = collect_garbage(store, [kept], now_s=time() + 7200, grace_s=3600)

    assert (found.removed, found.kept, found.freed_bytes) == (1, 1, 4)
    assert (store.has_blob(kept), store.has_blob(gone)) == (True, False)
    assert store.get_blob(kept) == b"kept"


def test_a_sweep_keeps_content_that_was_stored_within_the_grace(store: ContentStore) -> None:
    digest = store.put_blob(b"young")

    found = collect_garbage(store, [], now_s=time() + 60, grace_s=3600)

    assert (found.removed, store.get_blob(digest)) == (0, b"young")


def test_content_that_a_sweep_removed_can_be_stored_again(store: ContentStore) -> None:
    digest = store.put_blob(b"again")
    store.remove_all_older(BLOB, [digest], time() + 100)

    assert store.touch(BLOB, digest) is False
    assert store.put_blob(b"again") == digest
    assert store.get_blob(digest) == b"again"


def test_refs_are_written_listed_and_removed(store: ContentStore) -> None:
    store.write_ref("lost/one", {"hash": NOWHERE})
    store.write_ref("lost/one", {"hash": "1" * 64})
    store.write_ref("lost/two", {"hash": NOWHERE})
    store.remove_ref("lost/two")

    assert list(store.refs()) == [("lost/one", {"hash": "1" * 64})]


# --- object storage alone -------------------------------------------------------------------------


def pack_keys(bucket: Bucket, user: str = "ada") -> list[str]:
    return [one.key for one in bucket.listed(f"users/{user}/packs/")]


def test_a_push_is_few_files_of_a_bucket(tmp_path: Path) -> None:
    bucket = memory_bucket()
    bucket_stores(bucket, tmp_path).of("ada").keep_all(many(1000))

    assert len(pack_keys(bucket)) == 1


def test_content_of_one_server_is_seen_at_once_by_another(tmp_path: Path) -> None:
    bucket, contents = memory_bucket(), many(10)
    one, other = (bucket_stores(bucket, tmp_path).of("ada") for _ in range(2))
    one.keep_all(contents)

    digests = {digest for _, digest, _ in contents}
    assert other.touch_all(BLOB, digests) == digests
    assert other.get_blob(contents[3][1]) == contents[3][2]


def test_bytes_of_another_file_are_refused_and_not_kept(tmp_path: Path) -> None:
    bucket, cache = memory_bucket(), MemoryPacks(1024 * 1024)
    stores = bucket_stores(bucket, tmp_path, cache)
    digest = stores.of("ada").put_blob(b"the right bytes")
    (key,) = pack_keys(bucket)
    right = bucket.get(key) or b""
    bucket.put(key, right.replace(b"the right bytes", b"the wrong bytes"))
    cache.forget(key.rpartition("/")[2])

    with pytest.raises(ObjectChangedError):
        stores.of("ada").get_blob(digest)
    bucket.put(key, right)

    assert stores.of("ada").get_blob(digest) == b"the right bytes"


def test_a_pack_that_is_gone_is_damage_and_its_content_can_be_stored_again(tmp_path: Path) -> None:
    bucket, cache = memory_bucket(), MemoryPacks(1024 * 1024)
    store = bucket_stores(bucket, tmp_path, cache).of("ada")
    digest = store.put_blob(b"lost")
    (key,) = pack_keys(bucket)
    bucket.delete([key])
    cache.forget(key.rpartition("/")[2])

    with pytest.raises(ObjectChangedError, match="no such file"):
        store.get_blob(digest)
    assert store.set_aside(BLOB, digest) is True
    store.put_blob(b"lost")

    assert store.get_blob(digest) == b"lost"


def test_a_damaged_file_of_the_cache_is_read_from_the_storage_again(tmp_path: Path) -> None:
    bucket, folder = memory_bucket(), tmp_path / "cache"
    store = bucket_stores(bucket, tmp_path, PackFiles(folder, 1024 * 1024)).of("ada")
    digest = store.put_blob(b"content")
    (kept,) = folder.glob("*.pack")
    kept.write_bytes(kept.read_bytes().replace(b"content", b"tnetnoc"))

    assert store.get_blob(digest) == b"content"


def test_the_cache_keeps_to_its_bound_and_lets_the_oldest_go(tmp_path: Path) -> None:
    cache = PackFiles(tmp_path, 10_000)
    for number in range(30):
        cache.keep(f"{number:032x}", bytes(1000))

    assert sum(path.stat().st_size for path in tmp_path.glob("*.pack")) <= 10_000
    assert cache.read(f"{29:032x}", 10, 5) == bytes(5)
    assert cache.read(f"{0:032x}", 10, 5) is None


def test_a_sweep_rewrites_packs_and_readers_go_on(tmp_path: Path) -> None:
    bucket = memory_bucket()
    stores, reader = bucket_stores(bucket, tmp_path), bucket_stores(bucket, tmp_path)
    contents = many(100)
    stores.of("ada").keep_all(contents)
    kept = contents[0]
    assert reader.of("ada").get_blob(kept[1]) == kept[2]
    (before,) = pack_keys(bucket)

    collect_garbage(stores.of("ada"), [kept[1]], now_s=time() + 7200, grace_s=3600)

    (after,) = pack_keys(bucket)
    assert after != before
    assert reader.of("ada").get_blob(kept[1]) == kept[2]


def test_an_unreferenced_pack_stays_for_the_grace(tmp_path: Path) -> None:
    bucket = memory_bucket()
    store = bucket_stores(bucket, tmp_path).of("ada")
    digest = store.put_blob(b"its rows come later")
    store.remove_all_older(BLOB, [digest], time() + 100)

    store.remove_leftovers(time() - 3600)
    young = len(pack_keys(bucket))
    store.remove_leftovers(time() + 100)

    assert (young, len(pack_keys(bucket))) == (1, 0)


def test_rows_that_are_lost_are_made_again_from_packs(tmp_path: Path) -> None:
    bucket, contents = memory_bucket(), many(20)
    bucket_stores(bucket, tmp_path / "one").of("ada").keep_all(contents)
    restored = bucket_stores(bucket, tmp_path / "two").of("ada")

    assert restored.touch(BLOB, contents[0][1]) is False
    assert restored.recover() == 20
    assert all(restored.get_blob(digest) == data for _, digest, data in contents)
    assert restored.recover() == 0


@pytest.mark.parametrize("seed", range(5))
def test_content_that_a_failing_storage_acknowledged_is_there(tmp_path: Path, seed: int) -> None:
    bucket = memory_bucket()
    failing = bucket_stores(FailingBucket(bucket, seed), tmp_path).of("ada")
    acknowledged, failed = [], 0
    for number in range(60):
        data = f"{seed} {number}".encode()
        try:
            acknowledged.append((failing.put_blob(data), data))
        except ObjectStorageError:
            failed += 1

    sound = bucket_stores(bucket, tmp_path).of("ada")

    assert failed > 0
    assert len(acknowledged) > 0
    assert all(sound.get_blob(digest) == data for digest, data in acknowledged)
    assert all(sound.get_blob(one.digest) for one in sound.stored(BLOB))


def test_content_that_could_not_be_synced_waits_for_the_next_sync(tmp_path: Path) -> None:
    bucket = memory_bucket()
    store = BucketStore(
        "users/ada",
        bucket=FailingBucket(bucket, 1, share=1.0),
        database=made_database(tmp_path),
        cache=MemoryPacks(1000),
        clock=bucket_stores(bucket, tmp_path)._clock,
    )
    digest = store.put_blob(b"later", Durability.AT_SYNC)
    with pytest.raises(ObjectStorageError):
        store.sync()
    store._bucket = bucket

    store.sync()

    assert bucket_stores(bucket, tmp_path).of("ada").get_blob(digest) == b"later"


def test_a_touch_in_time_keeps_a_content_from_a_sweep(tmp_path: Path) -> None:
    one, other = (bucket_stores(memory_bucket(), tmp_path).of("ada") for _ in range(2))
    digest = one.put_blob(b"wanted")
    before_s = time() - 1

    assert other.touch(BLOB, digest) is True
    assert one.remove_all_older(BLOB, [digest], before_s) == set()
