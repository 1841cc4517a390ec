"""Forged answers of a node, or of a machine before it: all of them are refused."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ryeos.remote.envelopes import EnvelopeError, open_envelope
from ryeos.remote.identity import IdentityError, read_identity
from ryeos.remote.requests import RequestSignatureError, parse_headers
from tests.support.wire_vectors import BOX_PRIVATE, NODE, VECTORS

IDENTITY, ENVELOPE = VECTORS["identity_document"], VECTORS["sealed_envelope"]["envelope"]

scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=8,
)


def changed(document: dict[str, Any]) -> st.SearchStrategy[dict[str, Any]]:
    """The document with some of its keys, or keys of its parts, gone or replaced by anything."""
    parts = [key for key, value in document.items() if isinstance(value, dict)]
    inner = [(part, key) for part in parts for key in document[part]]
    places = st.sampled_from([*((key,) for key in document), *inner])

    def with_change(change: tuple[tuple[str, ...], object]) -> dict[str, Any]:
        (*above, last), value = change
        copy: dict[str, Any] = json.loads(json.dumps(document))
        target = copy
        for key in above:
            target = target[key]
        target[last] = value
        return copy

    return st.tuples(places, values).map(with_change)


@given(changed(IDENTITY) | values)
def test_a_changed_identity_is_refused(document: object) -> None:
    if document == IDENTITY:
        return
    try:
        identity = read_identity(document)
    except IdentityError:
        return
    # Only the time of the signature is not signed.
    assert identity.fingerprint == NODE.fingerprint
    assert isinstance(document, dict)
    assert {k: v for k, v in document.items() if k != "_signature"} == {
        k: v for k, v in IDENTITY.items() if k != "_signature"
    }


@given(changed(ENVELOPE) | values)
def test_a_changed_envelope_is_refused(envelope: object) -> None:
    if envelope == ENVELOPE:
        return
    with pytest.raises(EnvelopeError):
        open_envelope(envelope, BOX_PRIVATE)


@given(st.dictionaries(st.sampled_from(["X-Rye-Key-Id", "x-rye-nonce", "X"]), st.text()))
def test_headers_that_say_too_little_are_refused(headers: dict[str, str]) -> None:
    with pytest.raises(RequestSignatureError):
        parse_headers(headers)
