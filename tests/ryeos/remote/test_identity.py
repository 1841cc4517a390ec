from typing import Any

import pytest

from lillux.canonical_json import canonical_json, compute_integrity
from lillux.digests import sha256_hex
from lillux.sealing import SealingError, box_public
from lillux.signing import verify_signature
from ryeos.remote.identity import (
    IdentityError,
    NodeIdentity,
    decode_public_key,
    encode_public_key,
    identity_document,
    read_identity,
)
from ryeos.remote.signed_documents import SignedDocumentError, sign_document, verify_document
from tests.support.wire_vectors import BOX_PRIVATE, CALLER, NODE, VECTORS

VECTOR = VECTORS["identity_document"]
KEYS = VECTORS["keys"]
AT = "2026-01-01T00:00:00Z"
BOX_PUBLIC = box_public(BOX_PRIVATE)
IDENTITY = NodeIdentity(
    fingerprint=KEYS["node_fingerprint"],
    public_key_pem=KEYS["node_public_pem"].encode(),
    box_public=BOX_PUBLIC,
    created_at=AT,
)


def resigned(**changes: Any) -> dict[str, Any]:  # noqa: ANN401 - any document
    """The vector with changes that its own key signed."""
    return sign_document({**VECTOR, **changes}, NODE, AT)


def test_a_document_of_another_program_is_read() -> None:
    assert read_identity(VECTOR) == IDENTITY
    assert read_identity(VECTOR).node_id == "fp:07097e6443239d36"


def test_the_signature_of_a_document_matches_other_programs() -> None:
    assert sign_document(VECTOR, NODE, AT) == VECTOR


def test_our_document_adds_only_the_plain_key() -> None:
    document = identity_document(NODE, BOX_PUBLIC, AT)

    assert read_identity(document) == IDENTITY
    assert document.pop("public_key_pem") == KEYS["node_public_pem"]
    assert sign_document(document, NODE, AT) == VECTOR


def test_a_key_is_sent_as_its_pem_in_base64() -> None:
    assert encode_public_key(CALLER.public_pem) == KEYS["authorized_key_public_key_field"]
    assert decode_public_key(KEYS["authorized_key_public_key_field"]) == CALLER.public_pem


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"kind": "identity/v2"}, "kind"),
        ({"principal_id": f"fp:{CALLER.fingerprint}"}, "principal_id"),
        ({"principal_id": None}, "principal_id"),
        ({"signing_key": "ed25519:"}, "signing_key"),
        ({"signing_key": 5}, "signing_key"),
        ({"signing_key": VECTOR["box_key"]}, "signing_key"),
        ({"public_key_pem": KEYS["caller_public_pem"]}, "public_key_pem"),
        ({"box_key": None}, "box_key"),
        ({"box_key": "x25519:AAAA"}, "box_key"),
        ({"box_key": "x25519://///w=="}, "box_key"),
        ({"box_key": VECTOR["signing_key"]}, "box_key"),
    ],
    ids=str,
)
def test_an_invalid_field_is_named(changes: dict[str, Any], field: str) -> None:
    with pytest.raises(IdentityError) as error:
        read_identity(resigned(**changes))

    assert error.value.field == field
    assert str(error.value).startswith(f"identity document: {field}: ")


@pytest.mark.parametrize("document", [None, [], "fp:07097e6443239d36", KEYS["node_public_pem"]])
def test_a_value_that_is_not_an_object_is_refused(document: object) -> None:
    with pytest.raises(IdentityError) as error:
        read_identity(document)

    assert str(error.value) == "identity document: document: expected a JSON object"


@pytest.mark.parametrize("name", ["created_at", "box_key"])
def test_a_part_that_was_changed_after_signing_is_refused(name: str) -> None:
    changed = {**VECTOR, name: identity_document(NODE, bytes(31) + b"\x09", "2027")[name]}

    with pytest.raises(IdentityError) as error:
        read_identity(changed)

    assert str(error.value) == (
        "identity document: _signature: _signature.sig: not the key's over this document"
    )


def test_an_added_part_is_refused() -> None:
    with pytest.raises(IdentityError):
        read_identity({**VECTOR, "note": ""})


def test_a_document_without_signature_is_refused() -> None:
    unsigned = {name: value for name, value in VECTOR.items() if name != "_signature"}

    with pytest.raises(IdentityError) as error:
        read_identity(unsigned)

    assert str(error.value) == "identity document: _signature: expected _signature, found none"


def test_a_document_that_another_key_signed_is_refused() -> None:
    with pytest.raises(IdentityError) as error:
        read_identity(sign_document(VECTOR, CALLER, AT))

    assert str(error.value) == (
        "identity document: _signature: _signature.signer:"
        f" expected fp:{NODE.fingerprint}, found another"
    )


def test_a_document_deeper_than_json_may_be_is_refused() -> None:
    deep: object = 0
    for _ in range(200):
        deep = [deep]

    with pytest.raises(SignedDocumentError):
        verify_document({**VECTOR, "deep": deep}, NODE.public_pem)


def test_a_box_key_of_another_size_makes_no_document() -> None:
    with pytest.raises(SealingError):
        identity_document(NODE, b"short", AT)


def test_a_document_of_our_own_kinds_is_signed_for_its_purpose() -> None:
    body = {"kind": "registry-key/v1", "account": "ada"}
    signed = sign_document(body, NODE, AT)

    digest = sha256_hex(b"rye/registry-key/v1\n" + canonical_json(body))
    assert verify_signature(digest, signed["_signature"]["sig"], NODE.public_pem)
    assert not verify_signature(
        compute_integrity(body), signed["_signature"]["sig"], NODE.public_pem
    )
    verify_document(signed, NODE.public_pem)


def test_a_kind_without_a_text_form_is_refused() -> None:
    with pytest.raises(SignedDocumentError):
        verify_document({**sign_document({"a": 1}, NODE, AT), "kind": "\ud800/v1"}, NODE.public_pem)
