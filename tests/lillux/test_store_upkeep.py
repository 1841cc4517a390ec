"""Operations of a store for sweeps and uploads: listing, ages, removal, refs, the disk."""

import os
import sys
from pathlib import Path
from threading import Event

import pytest

from lillux.errors import FileSystemError
from lillux.store import Durability, Store, StoredEntry
from lillux.store_errors import DigestError, RefUnreadableError, StoreLinkError
from lillux.store_forcing import EarlyForce, force_file_system, force_files
from lillux.store_layout import ObjectKind

links = pytest.mark.skipif(sys.platform == "win32", reason="links need a privilege there")
LONG_AGO = 1_000_000_000.0
NOWHERE = "0" * 64


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """An empty store, its folder not yet made."""
    return Store(tmp_path / "objects")


def blob_file(store: Store, digest: str) -> Path:
    """The path of a blob in the layout."""
    return store.root / "blobs" / digest[:2] / digest[2:4] / digest


def age(path: Path, modified_s: float = LONG_AGO) -> None:
    """Have a file be old."""
    os.utime(path, (modified_s, modified_s))


def modified_s(store: Store, digest: str) -> float:
    """When a blob was written or touched last."""
    return blob_file(store, digest).stat().st_mtime


# --- listing --------------------------------------------------------------------------------------


def test_stored_content_is_listed_by_digest_with_size_and_age(store: Store) -> None:
    digests = [store.put_blob(data) for data in (b"one", b"three", b"")]
    for digest in digests:
        age(blob_file(store, digest))

    sizes = dict(zip(digests, (3, 5, 0), strict=True))
    assert list(store.stored(ObjectKind.BLOB)) == [
        StoredEntry(digest, sizes[digest], LONG_AGO) for digest in sorted(digests)
    ]
    assert list(store.stored(ObjectKind.OBJECT)) == []


def test_objects_are_listed_apart_from_blobs(store: Store) -> None:
    store.put_blob(b"{}")
    digest = store.put_object({"n": 1})

    assert [one.digest for one in store.stored(ObjectKind.OBJECT)] == [digest]


def test_a_missing_store_lists_no_content(store: Store) -> None:
    assert list(store.stored(ObjectKind.BLOB)) == []
    assert list(store.refs()) == []
    assert not store.root.exists()


@pytest.mark.parametrize(
    "foreign",
    ["blobs/README", "blobs/zz/aa/x", "blobs/44/13/.tmp", f"blobs/44/13/{NOWHERE}", "blobs/44/x"],
)
def test_foreign_files_are_not_listed(store: Store, foreign: str) -> None:
    digest = store.put_blob(b"one")
    path = store.root / foreign
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"x")

    assert [one.digest for one in store.stored(ObjectKind.BLOB)] == [digest]


@links
def test_a_listing_does_not_go_through_a_linked_folder(store: Store, tmp_path: Path) -> None:
    store.put_blob(b"one")
    elsewhere = Store(tmp_path / "elsewhere")
    digest = elsewhere.put_blob(b"other")
    (store.root / "blobs" / digest[:2]).symlink_to(elsewhere.root / "blobs" / digest[:2])

    assert digest not in [one.digest for one in store.stored(ObjectKind.BLOB)]


def test_the_size_of_missing_content_is_none(store: Store) -> None:
    digest = store.put_blob(b"one")

    sizes = [store.size(ObjectKind.BLOB, text) for text in (digest, NOWHERE, "../../etc/passwd")]
    assert sizes == [3, None, None]
    assert store.size(ObjectKind.OBJECT, digest) is None


# --- ages -----------------------------------------------------------------------------------------


def test_a_touch_makes_content_young_and_reports_whether_it_is_there(store: Store) -> None:
    digest = store.put_blob(b"one")
    age(blob_file(store, digest))

    touched = [store.touch(ObjectKind.BLOB, text) for text in (digest, NOWHERE, "../../etc/passwd")]

    assert touched == [True, False, False]
    assert modified_s(store, digest) > LONG_AGO


@pytest.mark.parametrize("durability", list(Durability))
def test_storing_existing_content_makes_it_young_again(
    store: Store, durability: Durability
) -> None:
    digest = store.put_blob(b"one")
    age(blob_file(store, digest))

    store.put_blob(b"one", durability)

    assert modified_s(store, digest) > LONG_AGO


def test_storing_young_content_leaves_the_file_alone(store: Store) -> None:
    digest = store.put_blob(b"one")
    before = blob_file(store, digest).stat()

    store.put_blob(b"one")

    assert blob_file(store, digest).stat().st_mtime_ns == before.st_mtime_ns


# --- removal --------------------------------------------------------------------------------------


def test_removed_content_is_gone_and_may_be_removed_again(store: Store) -> None:
    digest = store.put_blob(b"one")

    store.remove(ObjectKind.BLOB, digest)
    store.remove(ObjectKind.BLOB, digest)

    assert not store.has_blob(digest)
    assert store.put_blob(b"one") == digest


def test_an_invalid_digest_is_not_removed(store: Store, tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.write_bytes(b"x")

    with pytest.raises(DigestError):
        store.remove(ObjectKind.BLOB, "../../precious")

    assert precious.exists()


@links
def test_a_link_is_not_removed(store: Store, tmp_path: Path) -> None:
    digest = store.put_blob(b"one")
    blob_file(store, digest).unlink()
    blob_file(store, digest).symlink_to(tmp_path / "precious")

    with pytest.raises(StoreLinkError):
        store.remove(ObjectKind.BLOB, digest)


# --- refs -----------------------------------------------------------------------------------------


def test_refs_are_listed_by_name_below_a_prefix(store: Store) -> None:
    for name in ("graphs/b", "graphs/a", "remotes/x", "top"):
        store.write_ref(name, {"hash": name})

    names = [name for name, _ in store.refs()]
    assert names == ["graphs/a", "graphs/b", "remotes/x", "top"]
    assert list(store.refs("graphs/")) == [
        ("graphs/a", {"hash": "graphs/a"}),
        ("graphs/b", {"hash": "graphs/b"}),
    ]


def test_an_invalid_ref_is_not_listed(store: Store) -> None:
    store.write_ref("graphs/a", {})
    (store.root / "refs" / "graphs" / ".half.tmp").write_bytes(b"{")
    (store.root / "refs" / "graphs" / "note.txt").write_bytes(b"x")

    assert list(store.refs()) == [("graphs/a", {})]


def test_a_listing_names_the_ref_that_cannot_be_read(store: Store) -> None:
    store.write_ref("graphs/a", {})
    path = store.root / "refs" / "graphs" / "a.json"
    path.write_bytes(b"")

    with pytest.raises(RefUnreadableError) as error:
        list(store.refs())

    assert error.value.path == str(path)


def test_a_ref_that_is_removed_is_gone_and_may_be_removed_again(store: Store) -> None:
    store.write_ref("graphs/a", {})

    store.remove_ref("graphs/a")
    store.remove_ref("graphs/a")

    assert store.read_ref("graphs/a") is None


# --- the disk -------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [3, 200])
def test_a_sync_takes_few_files_and_many(store: Store, count: int) -> None:
    digests = [store.put_blob(bytes([n]), Durability.AT_SYNC) for n in range(count)]

    store.sync()

    assert all(store.has_blob(digest) for digest in digests)


@pytest.mark.skipif(sys.platform != "linux", reason="syncfs is Linux's")
def test_a_whole_file_system_is_forced_in_one_call(tmp_path: Path) -> None:
    assert force_file_system(str(tmp_path))


@pytest.mark.parametrize("platform", ["darwin", "win32"])
def test_without_such_a_call_forcing_reports_that(tmp_path: Path, platform: str) -> None:
    assert not force_file_system(str(tmp_path), platform=platform)


def test_forcing_may_begin_while_others_work(tmp_path: Path) -> None:
    begun, may_end = Event(), Event()

    def slow(_: str) -> bool:
        begun.set()
        return may_end.wait(30)

    early = EarlyForce(str(tmp_path), force=slow)

    assert begun.wait(30)
    may_end.set()
    assert early.succeeded()


def test_an_early_forcing_that_breaks_off_did_not_succeed(tmp_path: Path) -> None:
    assert not EarlyForce(str(tmp_path / "none")).succeeded()
    assert not EarlyForce(str(tmp_path), force=lambda _: False).succeeded()


def with_a_pipe(folder: Path, count: int) -> list[str]:
    """The names of so many files, of which one can never be forced, and one is not there."""
    names = [f"{number}" for number in range(count)]
    for name in names[2:]:
        folder.joinpath(name).write_bytes(b"new")
    os.mkfifo(folder / names[1])
    return names


@pytest.mark.skipif(sys.platform != "linux", reason="syncfs is Linux's")
def test_many_files_are_forced_in_one_call(tmp_path: Path) -> None:
    names = with_a_pipe(tmp_path, 100)

    force_files(tmp_path, names)
    force_files(tmp_path, names, EarlyForce(str(tmp_path)))

    assert not tmp_path.joinpath(names[0]).exists()


@pytest.mark.skipif(os.name == "nt", reason="Windows has no pipes in folders")
def test_each_file_is_forced_where_they_are_few_or_forcing_all_has_failed(tmp_path: Path) -> None:
    names = with_a_pipe(tmp_path, 100)
    failed = EarlyForce(str(tmp_path), force=lambda _: False)

    for few, early in ((names[:3], None), (names, failed)):
        with pytest.raises(FileSystemError, match=str(tmp_path / names[1])):
            force_files(tmp_path, few, early)


def test_a_missing_folder_is_not_forced(tmp_path: Path) -> None:
    assert not force_file_system(str(tmp_path / "none"))


@pytest.mark.parametrize("damage", [b"", b"changed", b"CONTENT"])
def test_damaged_content_is_set_aside_and_kept(store: Store, damage: bytes) -> None:
    digest = store.put_blob(b"content")
    blob_file(store, digest).write_bytes(damage)

    assert store.set_aside(ObjectKind.BLOB, digest)

    (aside,) = (store.root / "damaged").iterdir()
    assert (aside.name.partition(".")[0], aside.read_bytes()) == (digest, damage)
    assert not store.has_blob(digest)
    assert [*store.stored(ObjectKind.BLOB)] == []
    assert store.put_blob(b"content") == digest
    assert store.get_blob(digest) == b"content"


def test_sound_or_missing_content_is_not_set_aside(store: Store) -> None:
    digest = store.put_object({"a": 1})

    assert not store.set_aside(ObjectKind.OBJECT, digest)
    assert not store.set_aside(ObjectKind.OBJECT, NOWHERE)

    assert store.get_object(digest) == {"a": 1}


@links
def test_a_link_is_set_aside_and_its_target_stays(store: Store, tmp_path: Path) -> None:
    digest = store.put_blob(b"content")
    (tmp_path / "elsewhere").write_bytes(b"mine")
    blob_file(store, digest).unlink()
    blob_file(store, digest).symlink_to(tmp_path / "elsewhere")

    assert store.set_aside(ObjectKind.BLOB, digest)

    assert (tmp_path / "elsewhere").read_bytes() == b"mine"
    assert store.put_blob(b"content") == digest
