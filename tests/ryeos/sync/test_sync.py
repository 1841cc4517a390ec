import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lillux.canonical_json import canonical_json, compute_integrity
from lillux.digests import sha256_hex
from lillux.store import Store
from lillux.store_layout import ObjectKind
from ryeos.items.errors import RyeError
from ryeos.sync.entries import (
    MAX_BATCH_BYTES,
    MAX_ENTRIES,
    MAX_ENTRY_BYTES,
    ContentEntry,
    SizedContent,
    batches,
    decode,
    encode,
    export_entries,
)
from ryeos.sync.object_shapes import EntryError
from ryeos.sync.objects import ItemSource, SourceManifest
from tests.support.errors import coded

ZERO = "0" * 64
HELLO = sha256_hex(b"hello")


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """An empty store."""
    return Store(tmp_path / "objects")


# --- entries --------------------------------------------------------------------------------------


def test_an_encoded_entry_has_digest_kind_and_base64() -> None:
    assert encode(ContentEntry(HELLO, "blob", b"hello")) == {
        "hash": HELLO,
        "kind": "blob",
        "data": "aGVsbG8=",
    }


@pytest.mark.property
@given(data=st.binary(max_size=300))
def test_a_blob_is_decoded_as_it_was_encoded(data: bytes) -> None:
    entry = ContentEntry(sha256_hex(data), "blob", data)

    assert decode(json.loads(json.dumps(encode(entry)))) == entry


@pytest.mark.property
@given(
    value=st.dictionaries(st.text(), st.none() | st.booleans() | st.integers() | st.text()),
    indent=st.sampled_from([None, 2]),
)
def test_an_object_is_verified_by_its_value_in_any_spelling(
    value: dict[str, Any], indent: int | None
) -> None:
    digest = compute_integrity(value)
    text = json.dumps(value, indent=indent, ensure_ascii=indent is None)
    written = text.encode("utf-8", "surrogatepass")

    try:
        text.encode("utf-8")
    except UnicodeEncodeError:  # half of a pair, unescaped: no UTF-8 has that
        return
    entry = decode(encode(ContentEntry(digest, "object", written)))

    assert entry == ContentEntry(digest, "object", canonical_json(value))


@pytest.mark.parametrize(
    ("entry", "problem"),
    [
        ([], "entry unknown: expected an object, found a list"),
        ({}, "entry unknown: hash: expected 64 lower-case hex digits, found nothing"),
        (
            {"hash": "../x", "kind": "blob", "data": ""},
            "entry ../x: hash: expected 64 lower-case hex digits, found '../x'",
        ),
        (
            {"hash": HELLO.upper(), "kind": "blob", "data": "aGVsbG8="},
            (
                f"entry {HELLO.upper()}: hash: expected 64 lower-case hex digits,"
                f" found '{HELLO.upper()}'"
            ),
        ),
        ({"hash": ZERO, "kind": "blob"}, f"entry {ZERO}: data: expected base64, found nothing"),
        (
            {"hash": ZERO, "kind": "tree", "data": ""},
            f"entry {ZERO}: kind: expected blob or object, found 'tree'",
        ),
        (
            {"hash": HELLO, "kind": "blob", "data": "aGVsbG8"},
            f"entry {HELLO}: data: expected base64: Incorrect padding",
        ),
        (
            {"hash": HELLO, "kind": "blob", "data": "aGVsbG9="},
            f"entry {HELLO}: data: expected base64 in its one form, found another",
        ),
        (
            {"hash": ZERO, "kind": "blob", "data": "aGVsbG8="},
            f"entry {ZERO}: hash: expected that of the data, {HELLO}, found this",
        ),
    ],
)
def test_an_entry_with_a_wrong_digest_is_refused(entry: Any, problem: str) -> None:  # noqa: ANN401
    with pytest.raises(EntryError) as error:
        decode(entry)

    assert str(error.value) == problem


@pytest.mark.parametrize("data", ["aGVs bG8=", "aGVsbG8=\n", "aGVsbG8=aGVsbG8=", "é", "-_-_"])
def test_base64_of_another_form_is_refused(data: str) -> None:
    with pytest.raises(EntryError, match="data: expected base64"):
        decode({"hash": HELLO, "kind": "blob", "data": data})


@pytest.mark.parametrize(
    "text",
    [b"", b"{", b"\xff", b"NaN", b"[1e999]", b"9" * 5000, b"[" * 200_000, b"[" * 200 + b"]" * 200],
    ids=range(8),
)
def test_an_object_with_invalid_json_is_refused(text: bytes) -> None:
    with pytest.raises(EntryError, match="data: expected an object's JSON"):
        decode(encode(ContentEntry(ZERO, "object", text)))


# --- manifests ------------------------------------------------------------------------------------


def stored_manifest(store: Store) -> SourceManifest:
    """A stored manifest of an item and a file, with its objects."""
    item = ItemSource("tool:a", store.put_blob(b"tool"))
    return SourceManifest(
        "project",
        {".ai/tools/a.py": store.put_object(item.as_object())},
        {"src/x": store.put_blob(b"file"), "src/y": store.put_blob(b"file")},
    )


def test_exported_entries_can_be_imported(store: Store, tmp_path: Path) -> None:
    manifest = stored_manifest(store)
    hashes = (*manifest.items.values(), sha256_hex(b"tool"), *manifest.files.values())
    other = Store(tmp_path / "other")

    for entry in map(encode, export_entries(hashes, store)):
        checked = decode(entry)
        other.keep(ObjectKind(checked.kind), checked.digest, checked.data)

    assert [one.digest for one in other.stored(ObjectKind.BLOB)] == [
        one.digest for one in store.stored(ObjectKind.BLOB)
    ]
    assert [one.digest for one in other.stored(ObjectKind.OBJECT)] == [
        one.digest for one in store.stored(ObjectKind.OBJECT)
    ]


def test_missing_objects_are_not_exported(store: Store) -> None:
    digest = store.put_blob(b"x")

    entries = list(export_entries([ZERO, digest, "no digest"], store))

    assert entries == [ContentEntry(digest, "blob", b"x")]


def test_a_digest_of_both_kinds_is_exported_as_blob(store: Store) -> None:
    digest = store.put_blob(b"{}")
    store.put_object({})

    assert list(export_entries([digest], store)) == [ContentEntry(digest, "blob", b"{}")]


# --- batches --------------------------------------------------------------------------------------


def test_a_batch_is_full_after_so_many_entries() -> None:
    sized = [SizedContent(str(number), 1) for number in range(MAX_ENTRIES + 1)]

    assert [len(batch) for batch in batches(sized)] == [MAX_ENTRIES, 1]


def test_a_batch_is_full_after_so_many_bytes() -> None:
    half = MAX_BATCH_BYTES // 2

    assert batches([SizedContent("a", half), SizedContent("b", half), SizedContent("c", 1)]) == (
        ("a", "b"),
        ("c",),
    )


def test_an_entry_larger_than_a_batch_is_alone() -> None:
    sized = [SizedContent("a", 1), SizedContent("b", MAX_ENTRY_BYTES), SizedContent("c", 1)]

    assert batches(sized) == (("a",), ("b",), ("c",))


@pytest.mark.parametrize(("name", "shown"), [("big.iso", "big.iso"), ("", ZERO)])
def test_an_entry_too_large_for_a_request_is_reported(name: str, shown: str) -> None:
    size = MAX_ENTRY_BYTES + 1

    with pytest.raises(RyeError, check=coded("RESOURCE_EXCEEDED")) as error:
        batches([SizedContent(HELLO, 1, "small"), SizedContent(ZERO, size, name)])

    assert str(error.value) == (
        f"{shown}: expected at most {MAX_ENTRY_BYTES} bytes in a file that travels, found {size}"
    )


def test_no_entries_make_no_batch() -> None:
    assert batches([]) == ()


@pytest.mark.property
@given(sizes=st.lists(st.integers(0, MAX_BATCH_BYTES * 2), max_size=60))
def test_batches_keep_the_order_and_their_bounds(sizes: list[int]) -> None:
    sized = [SizedContent(str(number), size) for number, size in enumerate(sizes)]

    groups = batches(sized)

    assert [digest for group in groups for digest in group] == [one.digest for one in sized]
    for group in groups:
        total = sum(sizes[int(digest)] for digest in group)
        assert len(group) == 1 or total <= MAX_BATCH_BYTES
