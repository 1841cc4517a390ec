"""A pack gives the bytes that were put into it, or an error, whatever happens to its file."""

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lillux.digests import sha256_hex
from lillux.errors import LilluxError
from lillux.store import Durability, Store
from lillux.store_layout import MIN_PIECES, ObjectKind

BLOB = ObjectKind.BLOB
pieces = st.lists(st.binary(max_size=40), min_size=MIN_PIECES, max_size=MIN_PIECES + 4, unique=True)


def stored(folder: Path, contents: list[bytes]) -> tuple[Store, Path, dict[str, bytes]]:
    """A store with one pack; the file, and its contents."""
    store = Store(folder / "objects", levels=1)
    by_digest = {sha256_hex(data): data for data in contents}
    store.keep_all([(BLOB, *item) for item in by_digest.items()], Durability.UNFORCED)
    (path,) = (store.root / "packs").iterdir()
    return store, path, by_digest


def reread(store: Store, by_digest: dict[str, bytes]) -> dict[str, bytes]:
    """The content that another process reads of all that was stored."""
    found, other = {}, Store(store.root, levels=1)
    for digest in by_digest:
        try:
            found[digest] = other.get_blob(digest)
        except LilluxError:
            continue
    return found


def require_healing(store: Store, by_digest: dict[str, bytes]) -> None:
    """Damaged content is refused, and can be stored again; other content stays."""
    found = reread(store, by_digest)
    assert found.items() <= by_digest.items()
    other = Store(store.root, levels=1)
    for digest in by_digest:
        if digest not in found:
            other.set_aside(BLOB, digest)
    assert reread(store, by_digest) == found
    other.keep_all([(BLOB, *item) for item in by_digest.items()], Durability.UNFORCED)
    assert reread(store, by_digest) == by_digest


@pytest.mark.property
@given(contents=pieces, data=st.data())
def test_flipped_bytes_are_refused_or_healed(
    tmp_path_factory: pytest.TempPathFactory, contents: list[bytes], data: st.DataObject
) -> None:
    store, path, by_digest = stored(tmp_path_factory.mktemp("store"), contents)
    whole = bytearray(path.read_bytes())
    places = st.integers(0, len(whole) - 1)
    for place in data.draw(st.lists(places, min_size=1, max_size=4, unique=True)):
        whole[place] ^= data.draw(st.integers(1, 255))
    path.write_bytes(whole)

    require_healing(store, by_digest)


@pytest.mark.property
@given(contents=pieces, data=st.data())
def test_a_pack_that_a_power_loss_has_cut_short_is_refused_or_healed(
    tmp_path_factory: pytest.TempPathFactory, contents: list[bytes], data: st.DataObject
) -> None:
    store, path, by_digest = stored(tmp_path_factory.mktemp("store"), contents)
    whole = path.read_bytes()
    end = data.draw(st.integers(0, len(whole) - 1))
    rest = data.draw(st.sampled_from([b"", bytes(len(whole) - end)]))  # zeros, as disks leave them
    path.write_bytes(whole[:end] + rest)

    require_healing(store, by_digest)


@pytest.mark.property
@given(contents=pieces, rounds=st.lists(st.sets(st.integers(0, MIN_PIECES + 3)), max_size=4))
def test_sweeps_remove_only_pieces_that_they_were_given(
    tmp_path_factory: pytest.TempPathFactory, contents: list[bytes], rounds: list[set[int]]
) -> None:
    store, _, by_digest = stored(tmp_path_factory.mktemp("store"), contents)
    digests = sorted(by_digest)

    for round_ in rounds:
        for path in (store.root / "packs").iterdir():
            os.utime(path, (1e9, 1e9))
        gone = {digests[number] for number in round_ if number < len(digests)}
        removed = store.remove_all_older(BLOB, gone, 2e9)
        assert removed == gone & by_digest.keys()
        by_digest = {digest: one for digest, one in by_digest.items() if digest not in gone}
        assert reread(store, dict.fromkeys(digests, b"")) == by_digest
