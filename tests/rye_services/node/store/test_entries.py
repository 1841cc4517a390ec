import json
import os
from base64 import b64encode
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from lillux.digests import sha256_hex
from lillux.store import Store
from lillux.store_layout import ObjectKind
from rye_services.node.store.objects import (
    AnswerTooLargeError,
    DigestPresence,
    KnownItems,
    PutResult,
    QuotaExceededError,
    Usage,
    answer_pieces,
    find_present,
    put_entries,
)
from ryeos.sync.objects import ItemSource
from tests.support.databases import made_database

NOWHERE = "0" * 64
NOW = datetime(2026, 1, 2, tzinfo=UTC)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """An empty store of one user."""
    return Store(tmp_path / "objects")


@pytest.fixture
def usage(tmp_path: Path) -> Iterator[Usage]:
    """The usage of users: no bytes yet."""
    database = made_database(tmp_path)
    yield Usage(database, lambda: NOW)
    database.close()


def blob(data: bytes) -> dict[str, Any]:
    return {"hash": sha256_hex(data), "kind": "blob", "data": b64encode(data).decode()}


def put(store: Store, usage: Usage, *entries: dict[str, Any], max_bytes: int = 1000) -> PutResult:
    return put_entries(
        entries,
        user_id="ada",
        store=store,
        usage=usage,
        known=KnownItems(),
        max_bytes=max_bytes,
    )


def answer(store: Store, *digests: str) -> Any:  # noqa: ANN401 - JSON
    return json.loads(b"".join(answer_pieces(store, digests, max_bytes=10**9)))


def test_present_digests_are_listed_once_in_the_order_of_the_request(store: Store) -> None:
    one, two = store.put_blob(b"1"), store.put_object({"n": 2})

    found = find_present(store, [two, NOWHERE, one, two, "../../etc/passwd", "", NOWHERE])

    assert found == DigestPresence((two, one), (NOWHERE, "../../etc/passwd", ""))


def test_a_digest_that_was_looked_up_is_young_again(store: Store) -> None:
    digest = store.put_blob(b"1")
    os.utime(store.path_of(ObjectKind.BLOB, digest), (1, 1))

    find_present(store, [digest])

    (stored,) = store.stored(ObjectKind.BLOB)
    assert stored.modified_s > 1


def test_entries_are_stored_and_counted(store: Store, usage: Usage) -> None:
    result = put(store, usage, blob(b"abc"), blob(b"de"), blob(b"abc"))

    stored = (sha256_hex(b"abc"), sha256_hex(b"de"), sha256_hex(b"abc"))
    assert result == PutResult(stored, ())
    assert usage.read("ada", store=store) == 5


def test_stored_content_needs_no_further_quota(store: Store, usage: Usage) -> None:
    put(store, usage, blob(b"abc"), max_bytes=3)

    assert put(store, usage, blob(b"abc"), max_bytes=3).stored == (sha256_hex(b"abc"),)
    assert usage.read("ada", store=store) == 3


def test_sound_entries_are_kept_when_others_are_refused(store: Store, usage: Usage) -> None:
    wrong = {**blob(b"x"), "hash": NOWHERE}

    result = put(store, usage, blob(b"good"), wrong, {})

    assert result.stored == (sha256_hex(b"good"),)
    assert [failure.digest for failure in result.failures] == [NOWHERE, "unknown"]
    assert usage.read("ada", store=store) == 4


def test_a_request_over_the_quota_stores_no_object(store: Store, usage: Usage) -> None:
    put(store, usage, blob(b"abc"), max_bytes=10)

    with pytest.raises(QuotaExceededError) as error:
        put(store, usage, blob(b"12345"), blob(b"678"), max_bytes=10)

    assert str(error.value) == "storage quota exceeded: 10 bytes allowed, 3 stored, 8 more sent"
    assert not store.has_blob(sha256_hex(b"12345"))
    assert usage.read("ada", store=store) == 3


def test_the_store_of_a_user_without_a_count_is_measured(store: Store, usage: Usage) -> None:
    store.put_blob(b"from a backup")

    assert usage.read("ada", store=store) == 13


def test_a_wrong_count_is_corrected(store: Store, usage: Usage) -> None:
    put(store, usage, blob(b"abc"))
    usage.add("ada", 1000, store=store)

    assert usage.measure("ada", store=store) == 3
    assert usage.read("ada", store=store) == 3


def test_an_uploaded_item_is_known_to_the_push_that_follows(store: Store, usage: Usage) -> None:
    known = KnownItems()
    item = json.dumps(ItemSource("tool:a", NOWHERE).as_object(), indent=1).encode()
    digest = store.put_object(ItemSource("tool:a", NOWHERE).as_object())
    entry = {"hash": digest, "kind": "object", "data": b64encode(item).decode()}

    put_entries([entry], user_id="ada", store=store, usage=usage, known=known, max_bytes=10**6)

    assert known.blob_of(digest) == NOWHERE


def test_an_answer_repeats_a_digest_that_is_requested_twice(store: Store) -> None:
    one, two = store.put_blob(b"1"), store.put_object({"b": 1, "a": 2})

    found = answer(store, two, NOWHERE, one, "nonsense", two)

    an_object = {"hash": two, "kind": "object", "data": b64encode(b'{"a":2,"b":1}').decode()}
    assert found == {"entries": [an_object, blob(b"1"), an_object]}


def test_an_empty_request_gets_an_empty_answer(store: Store) -> None:
    assert answer(store) == {"entries": []}


def test_a_blob_is_preferred_to_an_object_of_the_same_digest(store: Store) -> None:
    store.put_object({})
    digest = store.put_blob(b"{}")

    (entry,) = answer(store, digest)["entries"]

    assert entry["kind"] == "blob"


def test_damaged_content_is_left_out_of_an_answer(store: Store) -> None:
    digest, other = store.put_blob(b"abc"), store.put_blob(b"x")
    (store.path_of(ObjectKind.BLOB, digest)).write_bytes(b"abd")

    assert answer(store, digest, other) == {"entries": [blob(b"x")]}


def test_a_large_answer_comes_in_pieces(store: Store) -> None:
    digests = [store.put_blob(bytes([number]) * 100_000) for number in range(20)]

    pieces = list(answer_pieces(store, digests, max_bytes=10**9))

    assert len(json.loads(b"".join(pieces))["entries"]) == 20
    assert max(len(piece) for piece in pieces) < 500_000


def test_a_request_for_the_same_large_blob_many_times_is_refused(store: Store) -> None:
    digest = store.put_blob(b"x" * 1000)

    with pytest.raises(AnswerTooLargeError) as error:
        answer_pieces(store, [digest] * 11, max_bytes=10_000)

    assert str(error.value) == (
        "expected hashes of at most 10000 bytes together, found 11000 bytes"
    )
