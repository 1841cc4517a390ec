"""An attacker between a client and a node, or a caller with a key, poses as another user."""

from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lillux.digests import sha256_hex
from lillux.signing import generate_keypair
from ryeos.remote.identity import IdentityError, read_identity
from ryeos.remote.requests import (
    HEADERS,
    RequestSignatureError,
    sign_request,
    string_to_sign,
    verify_request_signature,
)
from ryeos.remote.signed_documents import sign_document
from ryeos.trust.signing_key import SigningKey
from tests.support.wire_vectors import CALLER, NODE, VECTORS

AUDIENCE = f"fp:{NODE.fingerprint}"
NONCE = "00112233445566778899aabbccddeeff"
REQUEST = {"method": "POST", "path": "/push", "query": "", "audience": AUDIENCE}


def signed() -> dict[str, str]:
    return sign_request(CALLER, body=b"{}", now_s=1_700_000_000, nonce=NONCE, **REQUEST)


def assert_refused(headers: dict[str, str], **changes: Any) -> None:  # noqa: ANN401 - any part
    parts = {**REQUEST, "body_sha256": sha256_hex(b"{}"), **changes}
    with pytest.raises(RequestSignatureError):
        verify_request_signature(CALLER.public_pem, headers, **parts)


@given(st.sampled_from(HEADERS), st.integers(0, 200), st.characters(codec="ascii"))
def test_no_header_can_be_changed_in_one_character(name: str, at: int, new: str) -> None:
    headers = signed()
    at %= len(headers[name])
    changed = headers[name][:at] + new + headers[name][at + 1 :]

    if changed != headers[name]:
        assert_refused({**headers, name: changed})


def test_a_request_to_one_node_is_refused_by_another() -> None:
    other = SigningKey(generate_keypair())

    assert_refused(signed(), audience=f"fp:{other.fingerprint}")


def test_a_request_is_not_another_users() -> None:
    """The thief's key is known to the node, and named in the header instead of the caller's."""
    assert_refused({**signed(), "X-Rye-Key-Id": f"fp:{NODE.fingerprint}"})


def test_a_signature_of_an_item_signs_no_request() -> None:
    item = CALLER.detached_line(b"{}").split(":")

    assert_refused({**signed(), "X-Rye-Signature": item[-2]})


@pytest.mark.parametrize("length", [0, 1, 43, 85, 87])
def test_a_signature_that_was_cut_or_grew_is_refused(length: int) -> None:
    signature = (signed()["X-Rye-Signature"] + "AAAA")[:length]

    assert_refused({**signed(), "X-Rye-Signature": signature})


texts = st.text("/a%?#&=\n+ 1", max_size=6)


@given(texts, texts, texts, texts)
def test_no_two_requests_have_one_text(
    path: str, query: str, other_path: str, other_query: str
) -> None:
    """Two requests are read differently by a framework, or they are the same request."""
    from urllib.parse import parse_qsl

    def text(path: str, query: str) -> str | None:
        parts = {"method": "GET", "body_sha256": sha256_hex(b""), "audience": AUDIENCE}
        try:
            return string_to_sign(path=path, query=query, timestamp=1, nonce="n", **parts)
        except RequestSignatureError:
            return None

    def meaning(path: str, query: str) -> tuple[str, list[tuple[str, str]]]:
        return path, sorted(parse_qsl(query, keep_blank_values=True))

    first, second = text(path, query), text(other_path, other_query)
    if first is not None and first == second:
        assert meaning(path, query) == meaning(other_path, other_query)


def test_an_escaped_path_is_not_the_unescaped_path() -> None:
    """``/a%253Fb`` and ``/a%3Fb`` are decoded to different paths, and are signed differently."""
    parts: dict[str, Any] = {
        **REQUEST,
        "body_sha256": sha256_hex(b""),
        "timestamp": 1,
        "nonce": "n",
    }

    texts = {
        string_to_sign(**{**parts, "path": path}) for path in ("/a%3Fb", "/a?b", quote("/a?b%"))
    }

    assert len(texts) == 3


@pytest.mark.parametrize("claims", ["principal_id", "signer"])
def test_a_node_cannot_claim_the_id_of_another(claims: str) -> None:
    thief = SigningKey(generate_keypair())
    forged = sign_document(VECTORS["identity_document"], thief, "2026-01-01T00:00:00Z")
    if claims == "signer":
        forged["_signature"]["signer"] = AUDIENCE

    with pytest.raises(IdentityError):
        read_identity(forged)
