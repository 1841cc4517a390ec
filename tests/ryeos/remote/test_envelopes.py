import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lillux.canonical_json import canonical_json
from lillux.digests import encode_base64url
from lillux.sealing import box_public, generate_box_pair, seal
from ryeos.remote.envelopes import (
    FOR_EXECUTION,
    FOR_VAULT,
    EnvelopeError,
    open_envelope,
    seal_secrets,
)
from ryeos.remote.secret_names import SecretValuesError
from tests.support.wire_vectors import BOX_PRIVATE, VECTORS

VECTOR = VECTORS["sealed_envelope"]
ENVELOPE = VECTOR["envelope"]
BOX_PUBLIC = box_public(BOX_PRIVATE)
VALUES = {"API_KEY": "sk-1", "B": "two"}
INFO = b"execution-secrets/v1"

names = st.text("ABCabc_0", min_size=1, max_size=8)
texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=20)


def sealed_raw(plaintext: bytes, **aad: str) -> dict[str, Any]:
    """An envelope of a hostile sender: any bytes, any fields."""
    aad_fields = {**ENVELOPE["aad_fields"], **aad}
    enc, ciphertext = seal(plaintext, BOX_PUBLIC, aad=canonical_json(aad_fields), info=INFO)
    return {
        "version": 1,
        "recipient": ENVELOPE["recipient"],
        "enc": encode_base64url(enc),
        "ciphertext": encode_base64url(ciphertext),
        "aad_fields": aad_fields,
    }


def test_an_envelope_of_another_program_opens() -> None:
    assert open_envelope(ENVELOPE, BOX_PRIVATE) == VALUES


def test_padding_is_optional() -> None:
    bare = {name: ENVELOPE[name].rstrip("=") for name in ("enc", "ciphertext")}

    assert open_envelope({**ENVELOPE, **bare}, BOX_PRIVATE) == VALUES


@given(st.dictionaries(names, texts, max_size=5))
def test_a_sealed_envelope_opens(values: dict[str, str]) -> None:
    envelope = seal_secrets(values, BOX_PUBLIC)

    assert open_envelope(json.loads(json.dumps(envelope)), BOX_PRIVATE) == values
    assert envelope["recipient"] == ENVELOPE["recipient"]
    assert envelope["aad_fields"] == ENVELOPE["aad_fields"]


def test_an_envelope_for_another_node_is_not_opened() -> None:
    private, _ = generate_box_pair()

    with pytest.raises(EnvelopeError) as error:
        open_envelope(ENVELOPE, private)

    assert error.value.field == "recipient"


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"version": 2}, "version"),
        ({"version": True}, "version"),
        ({"version": None}, "version"),
        ({"recipient": "fp:0000000000000000"}, "recipient"),
        ({"recipient": None}, "recipient"),
        ({"aad_fields": None}, "aad_fields"),
        ({"aad_fields": {"kind": "other"}}, "aad_fields.kind"),
        ({"aad_fields": {"kind": "execution-secrets/v1"}}, "aad_fields.recipient"),
        ({"aad_fields": {**ENVELOPE["aad_fields"], "x": float("nan")}}, "aad_fields"),
        ({"aad_fields": {**ENVELOPE["aad_fields"], "x": "y" * 5000}}, "aad_fields"),
        ({"aad_fields": {**ENVELOPE["aad_fields"], "x": "y"}}, "ciphertext"),
        ({"enc": None}, "enc"),
        ({"enc": "AAAA"}, "ciphertext"),
        ({"enc": "A" * 43}, "ciphertext"),
        ({"enc": "+" * 43}, "enc"),
        ({"ciphertext": ""}, "ciphertext"),
        ({"ciphertext": "AA"}, "ciphertext"),
        ({"ciphertext": 5}, "ciphertext"),
    ],
    ids=str,
)
def test_an_invalid_field_is_named(changes: dict[str, Any], field: str) -> None:
    with pytest.raises(EnvelopeError) as error:
        open_envelope({**ENVELOPE, **changes}, BOX_PRIVATE)

    assert error.value.field == field
    assert "sk-1" not in str(error.value)


@pytest.mark.parametrize("envelope", [None, [], "x", 5])
def test_a_value_that_is_not_an_object_is_refused(envelope: object) -> None:
    with pytest.raises(EnvelopeError) as error:
        open_envelope(envelope, BOX_PRIVATE)

    assert str(error.value) == "secret envelope: envelope: expected a JSON object"


@pytest.mark.parametrize(
    "plaintext",
    [
        b"not json sk-1",
        b'["sk-1"]',
        b'{"A": 1}',
        b'{"A": "sk-1\\u0000"}',
        b'{"": "sk-1"}',
        b'{"A": "\\ud800"}',
        b"\xff",
        b"[" * 100_000,
        json.dumps({"A": "x" * 65_537}).encode(),
        json.dumps({f"A{number}": "" for number in range(257)}).encode(),
        json.dumps({f"A{number}": "x" * 65_000 for number in range(17)}).encode(),
    ],
    ids=range(11),
)
def test_an_envelope_over_a_limit_is_refused_without_its_values(plaintext: bytes) -> None:
    with pytest.raises(EnvelopeError) as error:
        open_envelope(sealed_raw(plaintext), BOX_PRIVATE)

    assert error.value.field == "ciphertext"
    assert "sk-1" not in str(error.value)


def test_unknown_authenticated_fields_are_accepted() -> None:
    assert open_envelope(sealed_raw(b'{"A":"b"}', note="new"), BOX_PRIVATE) == {"A": "b"}


def test_values_over_the_limits_of_a_node_are_not_sealed() -> None:
    with pytest.raises(SecretValuesError) as error:
        seal_secrets({"A": "x" * 65_537}, BOX_PUBLIC)

    assert str(error.value) == "secrets: 'A': expected at most 65536 bytes, found 65537"


def test_an_envelope_opens_for_its_user_and_purpose_alone() -> None:
    sealed = seal_secrets({"A": "b"}, BOX_PUBLIC, user="ada", purpose=FOR_EXECUTION)

    assert open_envelope(sealed, BOX_PRIVATE, user="ada", purpose=FOR_EXECUTION) == {"A": "b"}
    for user, purpose in (("eve", FOR_EXECUTION), ("ada", FOR_VAULT)):
        with pytest.raises(EnvelopeError, match="sealed for another one"):
            open_envelope(sealed, BOX_PRIVATE, user=user, purpose=purpose)


@pytest.mark.parametrize("name", ["user", "purpose"])
def test_the_binding_of_an_envelope_cannot_be_removed_or_changed(name: str) -> None:
    sealed = seal_secrets({"A": "b"}, BOX_PUBLIC, user="ada", purpose=FOR_EXECUTION)
    fields = sealed["aad_fields"]

    for changed in ({**fields, name: "eve"}, {k: v for k, v in fields.items() if k != name}):
        with pytest.raises(EnvelopeError):
            open_envelope({**sealed, "aad_fields": changed}, BOX_PRIVATE, user="eve", purpose="eve")
