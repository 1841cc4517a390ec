"""Content of a client becomes a piece of a pack under its own digest, and never a pack."""

import os
from base64 import b64encode
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from lillux.digests import sha256_hex
from lillux.store import Store
from lillux.store_layout import MIN_PIECES, ObjectKind
from rye_services.node.store.objects import KnownItems, PutResult, Usage, find_present, put_entries
from tests.support.databases import made_database

COUNT = MIN_PIECES + 1


@pytest.fixture
def usage(tmp_path: Path) -> Iterator[Usage]:
    """The stores of users, still empty."""
    database = made_database(tmp_path)
    yield Usage(database, lambda: datetime(2026, 1, 2, tzinfo=UTC))
    database.close()


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """A store of a node."""
    return Store(tmp_path / "objects", levels=1)


def sent(store: Store, usage: Usage, contents: dict[str, bytes]) -> PutResult:
    """Put contents under the digests that a client claims."""
    entries = [
        {"hash": digest, "kind": "blob", "data": b64encode(data).decode()}
        for digest, data in contents.items()
    ]
    return put_entries(
        entries, user_id="ada", store=store, usage=usage, known=KnownItems(), max_bytes=10**9
    )


def test_pieces_under_forged_digests_are_in_no_pack(store: Store, usage: Usage) -> None:
    forged = {f"{number:064x}": b"%d" % number for number in range(COUNT)}

    put = sent(store, usage, forged)

    assert (put.stored, len(put.failures)) == ((), COUNT)
    assert not (store.root / "packs").exists()


def test_a_pack_that_is_sent_as_a_blob_is_a_blob(store: Store, usage: Usage) -> None:
    pieces = {sha256_hex(data): data for data in (b"%d" % number for number in range(COUNT))}
    sent(store, usage, pieces)
    (pack,) = (store.root / "packs").iterdir()
    poison = pack.read_bytes()
    other = Store(store.root.with_name("other"), levels=1)

    sent(other, usage, {sha256_hex(poison): poison})

    assert not (other.root / "packs").exists()
    assert find_present(other, pieces).present == ()
    assert other.get_blob(sha256_hex(poison)) == poison


def test_a_name_of_a_pack_is_no_digest(store: Store, usage: Usage) -> None:
    pieces = {sha256_hex(data): data for data in (b"%d" % number for number in range(COUNT))}
    sent(store, usage, pieces)
    (pack,) = (store.root / "packs").iterdir()
    names = [pack.name, pack.stem, f"../packs/{pack.name}", os.fspath(pack)]

    assert find_present(store, names).missing == tuple(names)
    assert store.sizes(ObjectKind.BLOB, names) == {}
