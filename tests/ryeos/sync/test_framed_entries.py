"""Entries of a transfer as plain bytes."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lillux.canonical_json import canonical_json
from lillux.digests import sha256_hex
from ryeos.sync.entries import ContentEntry
from ryeos.sync.framed_entries import START, end_of, head_of, read_entries
from ryeos.sync.object_shapes import EntryError


def _digest(entry: ContentEntry) -> str:
    return entry.digest


BLOBS = st.binary(max_size=200).map(lambda data: ContentEntry(sha256_hex(data), "blob", data))
VALUES = st.dictionaries(st.text(max_size=5), st.none() | st.integers() | st.text(max_size=9))


def object_of(value: object) -> ContentEntry:
    data = canonical_json(value)
    return ContentEntry(sha256_hex(data), "object", data)


def framed(*entries: ContentEntry) -> bytes:
    parts = (head_of(entry) + entry.data for entry in entries)
    return START + b"".join(parts) + end_of(len(entries))


class Everything(frozenset[str]):
    """A set that contains every digest."""

    def __contains__(self, _: object) -> bool:
        return True


def refusal(data: bytes) -> str:
    with pytest.raises(EntryError) as refused:
        list(read_entries(data, Everything()))
    return refused.value.problem


def test_an_answer_has_a_start_entries_and_an_end() -> None:
    found = framed(ContentEntry(sha256_hex(b"hi"), "blob", b"hi"), object_of({"a": 1}))

    assert found == b'rye entries 1\nb\0\0\0\x02hio\0\0\0\x07{"a":1}e\0\0\0\x02'


@pytest.mark.property
@given(entries=st.lists(BLOBS | VALUES.map(object_of), max_size=5, unique_by=_digest))
def test_framed_entries_are_read_back(entries: list[ContentEntry]) -> None:
    requested = {entry.digest for entry in entries}

    assert list(read_entries(framed(*entries), requested)) == entries


@pytest.mark.property
@given(entries=st.lists(BLOBS, max_size=4, unique_by=_digest), data=st.data())
def test_an_answer_that_is_cut_short_is_refused(
    entries: list[ContentEntry], data: st.DataObject
) -> None:
    whole = framed(*entries)
    length = data.draw(st.integers(0, len(whole) - 1))

    refusal(whole[:length])


@pytest.mark.property
@given(junk=st.binary(max_size=60))
def test_other_bytes_are_refused_without_a_crash(junk: bytes) -> None:
    for data in (junk, START + junk):
        try:
            entries = list(read_entries(data, Everything()))
        except EntryError:
            continue
        assert data == framed(*entries)


def test_a_length_beyond_the_end_is_reported() -> None:
    data = START + b"b\xff\xff\xff\xffhi" + end_of(1)

    assert refusal(data) == "blob: expected 4294967295 bytes, found 7"


def test_data_after_the_end_is_refused() -> None:
    assert refusal(framed() + b"more") == "expected nothing behind the end, found 4 bytes"


def test_an_end_with_a_wrong_count_is_refused() -> None:
    entry = ContentEntry(sha256_hex(b""), "blob", b"")
    data = START + head_of(entry) + end_of(2)

    found = r"b'e\x00\x00\x00\x02'"
    assert refusal(data) == f"expected an entry, or the end that counts 1, found {found}"


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b'{"b":1,"a":2}', "data: expected canonical JSON, found another form"),
        (b'{"a": 1}', "data: expected canonical JSON, found another form"),
        ('{"a":"ä"}'.encode(), "data: expected canonical JSON, found another form"),
        (b"{", "data: expected an object's JSON: "),
        (b"\xff", "data: expected an object's JSON: "),
        (b"[" * 100_000, "data: expected an object's JSON: "),
        (b"NaN", "data: expected an object's JSON: "),
    ],
)
def test_an_object_has_only_its_canonical_form(content: bytes, problem: str) -> None:
    entry = ContentEntry(sha256_hex(content), "object", content)

    assert refusal(framed(entry)).startswith(problem)


def test_an_object_is_read_as_json() -> None:
    mine = object_of({"kind": "mine", "n": [1]})
    (entry,) = read_entries(framed(mine), {mine.digest})

    assert json.loads(entry.data) == {"kind": "mine", "n": [1]}


def test_an_entry_that_was_not_requested_is_refused_before_it_is_read() -> None:
    requested, other = object_of({"a": 1}), ContentEntry(sha256_hex(b"[" * 9), "object", b"[" * 9)

    with pytest.raises(EntryError, match=f"entry {other.digest}: was not asked for"):
        list(read_entries(framed(requested, other), {requested.digest}))


def test_an_entry_that_is_sent_twice_is_refused() -> None:
    entry = ContentEntry(sha256_hex(b""), "blob", b"")

    assert refusal(framed(entry, entry)) == "came twice"
