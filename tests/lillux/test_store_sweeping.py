import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from lillux.store import Durability, Store
from lillux.store_layout import ObjectKind


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """An empty store."""
    return Store(tmp_path / "objects")


def test_content_that_was_touched_since_is_not_removed(store: Store) -> None:
    digest = store.put_blob(b"x")
    (stored,) = store.stored(ObjectKind.BLOB)

    assert not store.remove_older(ObjectKind.BLOB, digest, stored.modified_s)
    assert store.get_blob(digest) == b"x"


def test_old_content_is_removed_whole(store: Store) -> None:
    digest = store.put_blob(b"x")
    (stored,) = store.stored(ObjectKind.BLOB)

    assert store.remove_older(ObjectKind.BLOB, digest, stored.modified_s + 1)
    assert not store.remove_older(ObjectKind.BLOB, digest, stored.modified_s + 1)
    assert [path for path in store.root.rglob("*") if path.is_file()] == []


def test_a_touch_during_a_sweep_reports_whether_the_content_is_there(store: Store) -> None:
    digests = [store.put_blob(b"%d" % number, Durability.UNFORCED) for number in range(300)]
    for digest in digests:
        os.utime(store.root / "blobs" / digest[:2] / digest[2:4] / digest, (1, 1))

    with ThreadPoolExecutor(2) as pool:
        touched = pool.map(lambda digest: store.touch(ObjectKind.BLOB, digest), digests)
        removed = pool.map(lambda digest: store.remove_older(ObjectKind.BLOB, digest, 2), digests)
        affirmed, gone = list(touched), list(removed)

    assert [not is_there for is_there in affirmed] == gone
    assert [store.has_blob(digest) for digest in digests] == affirmed


def test_temporary_files_of_a_killed_writer_are_removed_when_they_are_old(store: Store) -> None:
    digest = store.put_blob(b"x")
    folder = store.root / "blobs" / digest[:2] / digest[2:4]
    for name, modified_s in ((".1-2-3.tmp", 1), (".1-2-4.tmp", 100), (".other", 1)):
        (folder / name).touch()
        os.utime(folder / name, (modified_s, modified_s))

    store.remove_leftovers(50)

    assert sorted(path.name for path in folder.iterdir()) == [".1-2-4.tmp", ".other", digest]
