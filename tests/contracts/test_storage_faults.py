"""A store in a bucket whose storage answers late, wrong, partly, with errors, or not at all."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from time import monotonic, time
from urllib.parse import urlsplit

import pytest

from lillux.digests import sha256_hex
from lillux.store import Durability
from lillux.store_errors import ObjectChangedError
from lillux.store_layout import ObjectKind
from rye_services.node.store.bucket_store import BucketStore, BucketStores
from rye_services.node.store.packs import MemoryPacks
from rye_services.storage.object_storage import ObjectStorageError, ObstoreBucket
from ryeos.sync.garbage import GarbageRefusedError, collect_garbage
from tests.support.databases import made_database
from tests.support.object_storage import bucket_of, versity
from tests.support.storage_proxy import Fault, StorageProxy, storage_proxy

pytestmark = pytest.mark.heavy
BLOB = ObjectKind.BLOB
TRIES = 4
MOST_S = 12.0
# Wrong answers to a read; the last two look whole.
OF_READS = [one for one in Fault if one not in (Fault.UNSAID, Fault.TORN)]
OF_WRITES = [Fault.LATE, Fault.CUT, Fault.TORN, Fault.UNSAID, Fault.BUSY, Fault.FULL, Fault.DENIED]


@dataclass(slots=True)
class Place:
    """A store in a bucket behind a proxy."""

    proxy: StorageProxy
    bucket: ObstoreBucket
    folder: Path

    @property
    def store(self) -> BucketStore:
        """The store as a server sees it that has nothing in its cache."""
        return BucketStores(self.bucket, made_database(self.folder), MemoryPacks(1024)).of("ada")

    @property
    def packs(self) -> list[str]:
        """The packs that are there."""
        return [one.key for one in self.bucket.listed("users/ada/packs/")]


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    for name, seconds in (("CONNECT_S", 1), ("REQUEST_S", 1), ("ALL_TRIES_S", 3)):
        monkeypatch.setattr(f"rye_services.storage.object_storage.{name}", seconds)
    with versity(tmp_path / "s3", "bucket") as environ:
        port = urlsplit(environ["RYE_NODE_STORE_ENDPOINT"]).port
        assert port
        with storage_proxy(port) as proxy:
            environ["RYE_NODE_STORE_ENDPOINT"] = proxy.url
            yield Place(proxy, bucket_of(environ, tmp_path), tmp_path)


def contents(count: int) -> list[tuple[ObjectKind, str, bytes]]:
    texts = [f"content {number}".encode() * 50 for number in range(count)]
    return [(BLOB, sha256_hex(data), data) for data in texts]


@pytest.mark.parametrize("fault", OF_READS)
def test_a_read_gives_the_right_bytes_or_an_error_after_a_bounded_number_of_requests(
    place: Place, fault: Fault
) -> None:
    given = contents(20)
    place.store.keep_all(given)
    place.proxy.fail(fault, "GET")
    began_s = monotonic()

    with pytest.raises((ObjectStorageError, ObjectChangedError)) as raised:
        place.store.get_blob(given[-1][1])

    assert monotonic() - began_s < MOST_S
    assert place.proxy.requests["GET"] <= 2 * TRIES
    assert "secret-text" not in str(raised.value)
    place.proxy.lift()
    assert place.store.get_blob(given[-1][1]) == given[-1][2]


@pytest.mark.parametrize(
    "fault", [one for one in OF_READS if one not in (Fault.DENIED, Fault.FULL)]
)
def test_a_single_fault_is_never_seen(place: Place, fault: Fault) -> None:
    given = contents(20)
    place.store.keep_all(given)
    place.proxy.fail(fault, "GET", times=1)

    assert place.store.get_blob(given[-1][1]) == given[-1][2]


@pytest.mark.parametrize("fault", OF_WRITES)
def test_an_unacknowledged_write_is_refused_and_an_upload_goes_on_afterwards(
    place: Place, fault: Fault
) -> None:
    given, store = contents(20), place.store
    place.proxy.fail(fault, "PUT")
    began_s = monotonic()

    with pytest.raises(ObjectStorageError) as raised:
        store.keep_all(given)

    assert monotonic() - began_s < MOST_S
    assert place.proxy.requests["PUT"] <= TRIES
    assert "secret-text" not in str(raised.value)
    assert store.touch_all(BLOB, [one[1] for one in given]) == set()
    place.proxy.lift()
    store.keep_all(given)
    assert all(place.store.get_blob(digest) == data for _, digest, data in given)


def test_a_full_storage_is_reported_in_words(place: Place) -> None:
    place.proxy.fail(Fault.FULL, "PUT")

    with pytest.raises(ObjectStorageError, match=r"there is no space left \(XAdminStorageFull\)"):
        place.store.put_blob(b"more")


def test_content_that_waits_for_sync_stays_until_the_storage_takes_it(place: Place) -> None:
    store = place.store
    digest = store.put_blob(b"waits", Durability.AT_SYNC)
    place.proxy.fail(Fault.UNSAID, "PUT")
    with pytest.raises(ObjectStorageError):
        store.sync()
    place.proxy.lift()

    store.sync()

    assert place.store.get_blob(digest) == b"waits"


@pytest.mark.parametrize("fault", [Fault.CUT, Fault.HALF, Fault.SHORT, Fault.PAGE, Fault.BUSY])
def test_a_list_that_is_not_whole_removes_nothing(place: Place, fault: Fault) -> None:
    given, store = contents(20), place.store
    store.keep_all(given)
    before = place.packs
    place.proxy.fail(fault, "GET", "list-type")

    with pytest.raises((ObjectStorageError, GarbageRefusedError)):
        collect_garbage(store, [given[0][1]], now_s=time() + 7200, grace_s=3600)

    place.proxy.lift()
    assert place.packs == before
    assert place.store.get_blob(given[0][1]) == given[0][2]


@pytest.mark.parametrize("fault", [Fault.WRONG, Fault.OTHER, Fault.SHORT, Fault.HALF])
def test_a_sweep_that_reads_wrong_bytes_keeps_the_pack_that_it_read(
    place: Place, fault: Fault
) -> None:
    given, store = contents(40), place.store
    store.keep_all(given)
    before = place.packs
    place.proxy.fail(fault, "GET", "/packs/")

    try:
        collect_garbage(store, [given[-1][1]], now_s=time() + 7200, grace_s=3600)
    except ObjectStorageError:
        assert fault is Fault.HALF

    place.proxy.lift()
    assert set(before) <= set(place.packs)
    assert place.store.get_blob(given[-1][1]) == given[-1][2]


@pytest.mark.parametrize("fault", [Fault.CUT, Fault.UNSAID, Fault.BUSY])
def test_a_removal_that_fails_is_made_up_by_the_next_sweep(place: Place, fault: Fault) -> None:
    given, store = contents(20), place.store
    store.keep_all(given)
    place.proxy.fail(fault, "POST")
    with pytest.raises(ObjectStorageError):
        collect_garbage(store, [], now_s=time() + 7200, grace_s=3600)
    place.proxy.lift()

    collect_garbage(place.store, [], now_s=time() + 7200, grace_s=3600)

    assert place.packs == []
