import os
import sys
from pathlib import Path
from time import time

import pytest

from lillux.digests import sha256_hex
from lillux.store import Durability, Store
from lillux.store_errors import ObjectChangedError, ObjectMissingError, StoreLinkError
from lillux.store_layout import MIN_PIECES, PACKED_BYTES, ObjectKind

BLOB, OBJECT = ObjectKind.BLOB, ObjectKind.OBJECT
MANY = [b"piece %d" % number for number in range(MIN_PIECES + 8)]
LONG_AGO_S = 1_000_000_000.0
links = pytest.mark.skipif(sys.platform == "win32", reason="links need a privilege there")


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """A store that only its owner reads, empty."""
    return Store(tmp_path / "objects", levels=1)


def again(store: Store) -> Store:
    """The same store, as another process has it."""
    return Store(store.root, levels=1)


def put(store: Store, contents: list[bytes], space: ObjectKind = BLOB) -> list[str]:
    """Store contents at once; their digests."""
    digests = [sha256_hex(data) for data in contents]
    pieces = [(space, digest, data) for digest, data in zip(digests, contents, strict=True)]
    store.keep_all(pieces, Durability.AT_SYNC)
    return digests


def packs(store: Store) -> list[Path]:
    """The files of packs."""
    return sorted((store.root / "packs").glob("*"))


def age(store: Store) -> None:
    """Have all packs be from long ago."""
    for path in packs(store):
        os.utime(path, (LONG_AGO_S, LONG_AGO_S))


def files(store: Store) -> list[Path]:
    """All files of the store but those of packs."""
    return [path for path in store.root.rglob("*") if path.is_file() and path.suffix != ".pack"]


# --- writing --------------------------------------------------------------------------------------


def test_many_small_pieces_become_one_file_and_are_read_from_it(store: Store) -> None:
    digests = put(store, MANY)

    assert (len(packs(store)), files(store)) == (1, [])
    for one in (store, again(store)):
        assert [one.get_blob(digest) for digest in digests] == MANY
        assert one.sizes(BLOB, digests) == {
            digest: len(data) for digest, data in zip(digests, MANY, strict=True)
        }
        assert {piece.digest for piece in one.stored(BLOB)} == {*digests}
        assert [*one.stored(OBJECT)] == []


def test_few_pieces_and_large_ones_are_files_of_their_own(store: Store) -> None:
    few = put(store, MANY[: MIN_PIECES - 1])
    large = put(store, [b"%d" % number * PACKED_BYTES for number in range(2)])

    assert packs(store) == []
    assert len(files(store)) == len(few) + len(large)


def test_a_store_that_programs_share_has_no_packs(tmp_path: Path) -> None:
    store = Store(tmp_path / "objects")

    digests = put(store, MANY)

    assert len(files(store)) == len(digests)
    assert not (store.root / "packs").exists()


def test_existing_content_is_not_written_again(store: Store) -> None:
    digests = put(store, MANY)

    assert put(again(store), MANY) == digests
    store.put_blob(MANY[0])

    assert (len(packs(store)), files(store)) == (1, [])


def test_a_blob_and_an_object_of_the_same_bytes_are_two_pieces(store: Store) -> None:
    texts = [b"%d" % number for number in range(MIN_PIECES)]
    digests = put(store, texts)
    put(store, texts, OBJECT)

    assert [store.get_object(digest) for digest in digests] == [*range(MIN_PIECES)]
    store.remove(OBJECT, digests[0])

    assert (store.has_blob(digests[0]), store.has_object(digests[0])) == (True, False)


def test_packs_of_another_process_are_found_at_once(store: Store) -> None:
    other = again(store)
    assert not store.has_blob(sha256_hex(MANY[0]))

    digests = put(other, MANY)

    assert store.touch_all(BLOB, digests) == {*digests}


def test_all_of_a_pack_is_on_the_disk_with_the_next_sync(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    forced: list[int] = []
    fsync = os.fsync

    def force(descriptor: int) -> None:
        forced.append(os.fstat(descriptor).st_ino)
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", force)
    put(store, MANY)

    store.sync()

    inodes = {path.stat().st_ino for path in (*packs(store), store.root / "packs", store.root)}
    assert inodes <= {*forced}


# --- sweeping -------------------------------------------------------------------------------------


def test_a_sweep_removes_pieces_and_keeps_the_others_as_old_as_they_were(store: Store) -> None:
    digests = put(store, MANY)
    age(store)
    other = again(store)
    assert other.has_blob(digests[0])

    removed = store.remove_all_older(BLOB, digests[:5], LONG_AGO_S + 1)

    assert removed == {*digests[:5]}
    for one in (store, other, again(store)):
        assert one.touch_all(OBJECT, digests) == set()
        assert one.sizes(BLOB, digests).keys() == {*digests[5:]}
        assert [one.get_blob(digest) for digest in digests[5:]] == MANY[5:]
        with pytest.raises(ObjectMissingError):
            again(one).get_blob(digests[0])
    assert {piece.modified_s for piece in store.stored(BLOB)} == {LONG_AGO_S}
    assert len(packs(store)) == 1


def test_a_pack_without_pieces_is_removed(store: Store) -> None:
    digests = put(store, MANY)
    age(store)

    assert store.remove_all_older(BLOB, digests, LONG_AGO_S + 1) == {*digests}
    assert packs(store) == []


def test_no_sweep_removes_content_that_was_touched_after_it_began(store: Store) -> None:
    digests = put(store, MANY)
    age(store)
    began_s = time() - 60

    assert again(store).touch(BLOB, digests[0])

    assert store.remove_all_older(BLOB, digests, began_s) == set()
    assert again(store).sizes(BLOB, digests).keys() == {*digests}


def test_a_touch_in_the_middle_of_a_sweep_brings_all_of_the_pack_back(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    digests = put(store, MANY)
    age(store)
    rename = os.rename

    def touched_first(path: str, aside: str) -> None:
        os.utime(path)
        rename(path, aside)

    monkeypatch.setattr(os, "rename", touched_first)

    assert store.remove_all_older(BLOB, digests[:5], LONG_AGO_S + 1) == set()
    assert again(store).sizes(BLOB, digests).keys() == {*digests}
    assert len(packs(store)) == 1


def test_a_touch_finds_no_content_that_was_swept_meanwhile(store: Store) -> None:
    digests = put(store, MANY)
    age(store)
    late = again(store)
    assert late.sizes(BLOB, digests).keys() == {*digests}

    store.remove_all_older(BLOB, digests[:5], LONG_AGO_S + 1)

    assert late.touch_all(BLOB, digests) == {*digests[5:]}


def test_many_small_packs_are_made_one_as_old_as_the_newest(store: Store) -> None:
    digests = [
        digest
        for number in range(9)
        for digest in put(store, [b"%d %d" % (number, piece) for piece in range(MIN_PIECES)])
    ]
    age(store)
    os.utime(packs(store)[3], (LONG_AGO_S + 5, LONG_AGO_S + 5))

    store.remove_leftovers(LONG_AGO_S + 10)

    assert len(packs(store)) == 1
    assert {piece.modified_s for piece in store.stored(BLOB)} == {LONG_AGO_S + 5}
    for one in (store, again(store)):
        assert one.sizes(BLOB, digests).keys() == {*digests}


def test_half_a_pack_of_a_killed_writer_is_removed(store: Store) -> None:
    put(store, MANY)
    half = store.root / "packs" / ".1-a-0.tmp"
    half.write_bytes(b"rye pack 1\n")
    os.utime(half, (LONG_AGO_S, LONG_AGO_S))

    found = store.leftovers(LONG_AGO_S + 1)
    store.remove_leftovers(LONG_AGO_S + 1)

    assert (found, half.exists()) == (1, False)


# --- damage ---------------------------------------------------------------------------------------


def damage(store: Store, content: bytes) -> Path:
    """Change a piece of a pack on the disk."""
    (path,) = packs(store)
    data = path.read_bytes()
    assert data.count(content) == 1
    path.write_bytes(data.replace(content, content[::-1]))
    return path


def test_a_damaged_piece_is_refused_and_the_others_are_read(store: Store) -> None:
    digests = put(store, MANY)
    path = damage(store, MANY[-1])

    with pytest.raises(ObjectChangedError, match=f"{path}: expected content of the digest"):
        again(store).get_blob(digests[-1])

    assert [again(store).get_blob(digest) for digest in digests[:-1]] == MANY[:-1]


def test_a_damaged_piece_makes_place_for_the_sound_one(store: Store) -> None:
    digests = put(store, MANY)
    path = damage(store, MANY[-1])
    damaged = path.read_bytes()

    assert store.set_aside(BLOB, digests[-1])
    assert again(store).sizes(BLOB, digests).keys() == {*digests[:-1]}
    put(store, MANY)

    assert [again(store).get_blob(digest) for digest in digests] == MANY
    (aside,) = (store.root / "damaged").iterdir()
    assert aside.read_bytes() == damaged


def test_a_sound_piece_stays_where_it_is(store: Store) -> None:
    digests = put(store, MANY)

    assert not store.set_aside(BLOB, digests[0])
    assert not store.set_aside(OBJECT, digests[0])
    assert store.get_blob(digests[0]) == MANY[0]


def test_a_pack_without_its_index_is_read_piece_by_piece_and_rewritten(store: Store) -> None:
    digests = put(store, MANY)
    (path,) = packs(store)
    path.write_bytes(path.read_bytes()[:-20])
    os.utime(path, (LONG_AGO_S, LONG_AGO_S))

    assert [again(store).get_blob(digest) for digest in digests] == MANY
    other = again(store)
    other.remove_leftovers(LONG_AGO_S + 1)

    assert [again(store).get_blob(digest) for digest in digests] == MANY
    (new,) = packs(store)
    assert new.read_bytes().endswith(b"rye pack end\n")
    assert new.stat().st_mtime == LONG_AGO_S


def test_an_invalid_pack_holds_no_content_and_is_set_aside(store: Store) -> None:
    digests = put(store, MANY)
    other = store.root / "packs" / f"{'a' * 64}.pack"
    other.write_bytes(b"something else")
    os.utime(other, (LONG_AGO_S, LONG_AGO_S))
    seen = again(store)

    assert {piece.digest for piece in seen.stored(BLOB)} == {*digests}
    seen.remove_leftovers(LONG_AGO_S + 1)

    assert not other.exists()


@links
def test_a_link_in_the_place_of_packs_is_refused(store: Store, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    store.put_blob(b"x")
    (store.root / "packs").symlink_to(elsewhere)

    with pytest.raises(StoreLinkError):
        put(store, MANY)

    assert [*elsewhere.iterdir()] == []


@links
def test_a_link_in_the_place_of_a_pack_is_refused(store: Store, tmp_path: Path) -> None:
    digests = put(store, MANY)
    (path,) = packs(store)
    path.rename(tmp_path / "moved")
    path.symlink_to(tmp_path / "moved")

    with pytest.raises(StoreLinkError):
        again(store).get_blob(digests[0])
