import json
from base64 import b64encode
from pathlib import Path
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lillux.redaction import MASK, SHORTEST, Redaction
from lillux.store import Store
from lillux.store_layout import ObjectKind
from rye_services.node.runs.outputs import promote

SECRET = 'p"ss/w\u00f6rd+1'


@pytest.mark.parametrize(
    "form",
    [
        SECRET,
        json.dumps(SECRET)[1:-1],
        json.dumps(SECRET, ensure_ascii=False)[1:-1],
        quote(SECRET, safe=""),
        quote(SECRET, safe="").replace("%2F", "%2f").replace("%2B", "%2b").lower(),
        SECRET.encode().hex(),
        SECRET.encode().hex().upper(),
        b64encode(SECRET.encode()).decode().rstrip("="),
    ],
)
def test_a_secret_is_masked_in_every_form_that_programs_usually_write(form: str) -> None:
    redaction = Redaction({"TOKEN": SECRET})

    assert redaction.text(f"<{form}>") == f"<{MASK}>"
    assert redaction.data(f"<{form}>".encode()) == f"<{MASK}>".encode()


@given(secret=st.text(min_size=8), before=st.binary(max_size=9), after=st.binary(max_size=9))
def test_no_base64_shows_more_of_a_secret_than_its_edges(
    secret: str, before: bytes, after: bytes
) -> None:
    whole = b64encode(before + secret.encode() + after).decode()

    masked = Redaction({"TOKEN": secret}).text(whole)

    assert MASK in masked
    start, end = len(before) * 8 // 6, -(-(len(before) + len(secret.encode())) * 8 // 6)
    assert masked.startswith(whole[:start])
    assert len(masked) <= len(whole) - (end - start) + 2 + len(MASK)


def test_a_password_of_basic_authentication_is_masked() -> None:
    header = b64encode(b"user:hunter22").decode()

    assert MASK in Redaction({"PASSWORD": "hunter22"}).text(f"Authorization: Basic {header}")


def test_each_line_of_a_key_is_masked() -> None:
    key = "-----BEGIN KEY-----\nMC4CAQAwBQYDK2VwBCIEIAabcdefgh\n-----END KEY-----\n"
    redaction = Redaction({"KEY": key})

    assert redaction.text("it is MC4CAQAwBQYDK2VwBCIEIAabcdefgh here") == f"it is {MASK} here"


def test_a_longer_secret_is_masked_whole_where_a_shorter_one_is_a_part_of_it() -> None:
    redaction = Redaction({"A": "abcd", "B": "abcdefgh"})

    assert redaction.text("abcdefgh abcd") == f"{MASK} {MASK}"


def test_very_short_values_are_not_masked() -> None:
    redaction = Redaction({"A": "1", "B": "x" * (SHORTEST - 1)})

    assert not redaction.is_needed
    assert redaction.text("1 xxx") == "1 xxx"


def test_values_and_keys_of_json_are_masked() -> None:
    redaction = Redaction({"A": "secret"})

    masked = redaction.value({"secret": ["a secret", 1, None, {"x": "secret"}]})

    assert masked == {MASK: [f"a {MASK}", 1, None, {"x": MASK}]}


@given(secret=st.text(min_size=SHORTEST), around=st.text())
def test_no_masked_text_contains_a_secret(secret: str, around: str) -> None:
    if secret.strip() != secret or set(secret) & set(MASK):
        return
    masked = Redaction({"A": secret}).text(f"{around}{secret}{around}")

    assert MASK in masked
    assert masked.count(secret) <= (around + MASK + around).count(secret)


@pytest.fixture
def stores(tmp_path: Path) -> tuple[Store, Store]:
    """The store of a run, and that of the user."""
    return Store(tmp_path / "local"), Store(tmp_path / "user")


def test_objects_without_secrets_are_promoted_unchanged(stores: tuple[Store, Store]) -> None:
    local, store = stores
    state = local.put_object({"kind": "state_snapshot", "state": {"x": 1}})
    blob = local.put_blob(b"blob")

    promoted = promote(local, store, Redaction({"A": "secret"}))

    assert (set(promoted.new), promoted.renamed) == ({state, blob}, {})
    assert store.get_object(state) == local.get_object(state)
    assert promoted.new_bytes == sum(
        store.size(space, digest) or 0
        for space, digest in ((ObjectKind.OBJECT, state), (ObjectKind.BLOB, blob))
    )


def test_an_object_with_a_secret_and_all_objects_above_it_are_masked(
    stores: tuple[Store, Store],
) -> None:
    local, store = stores
    blob = local.put_blob(b"the secret")
    state = local.put_object({"kind": "state_snapshot", "state": {"token": "secret"}})
    inner = local.put_object({"kind": "node_receipt", "node_result_hash": state, "blob": blob})
    outer = local.put_object({"kind": "execution_snapshot", "node_receipts": [inner]})

    promoted = promote(local, store, Redaction({"A": "secret"}))

    assert promoted.renamed.keys() == {blob, state, inner, outer}
    top = store.get_object(promoted.renamed[outer])
    receipt = store.get_object(top["node_receipts"][0])
    assert store.get_object(receipt["node_result_hash"])["state"] == {"token": MASK}
    assert store.get_blob(receipt["blob"]) == f"the {MASK}".encode()
    assert promoted.renamed_in(outer.encode()) == promoted.renamed[outer].encode()
    assert not any(store.has_object(old) or store.has_blob(old) for old in promoted.renamed)


def test_a_store_that_was_tampered_with_is_refused(stores: tuple[Store, Store]) -> None:
    local, store = stores
    digest = local.put_blob(b"blob")
    path = next((local.root / "blobs").rglob(digest))
    path.write_bytes(b"BLOB")

    with pytest.raises(Exception, match=digest):
        promote(local, store, Redaction({}))
