"""Envelopes of secrets on their way to a node. Pure.

Sealed to the node's box key, bound to it and to their purpose. Format, with a vector:
docs/remote.md. An envelope does not say who sealed it; the signed request around it does. No
message here shows a value.
"""

import json
from collections.abc import Mapping
from typing import Any

from lillux.canonical_json import canonical_json
from lillux.digests import decode_base64url
from lillux.errors import LilluxError
from lillux.sealing import SealingError, box_fingerprint, box_public, open_sealed, seal
from ryeos.items.errors import RyeError
from ryeos.remote.requests import principal_id
from ryeos.remote.secret_names import MAX_TOTAL_BYTES, SecretValuesError, valid_secrets

KIND = "execution-secrets/v1"
VERSION = 1
FOR_VAULT, FOR_EXECUTION = "vault", "execution"

_ENVELOPE_INFO = KIND.encode()
_MAX_CIPHERTEXT_CHARACTERS = 16 * MAX_TOTAL_BYTES
"""Every byte of a value may become six characters of JSON, and those four thirds in base64."""
_MAX_AAD_BYTES = 4096


class EnvelopeError(RyeError):
    """A sealed envelope that cannot be opened here. ``field`` is which part of it is wrong."""

    code = "ENVELOPE_INVALID"

    def __init__(self, field: str, problem: str) -> None:
        self.field, self.problem = field, problem
        super().__init__(f"secret envelope: {field}: {problem}")


def seal_secrets(
    values: Mapping[str, str], box_public: bytes, *, user: str = "", purpose: str = ""
) -> dict[str, Any]:
    """The envelope of secrets for the node with this box key; another one every time.

    ``user`` is who alone may have it opened there, ``purpose`` is `FOR_VAULT` or `FOR_EXECUTION`.
    Raises SecretValuesError for what no node would take, SealingError for an invalid key.
    """
    recipient = principal_id(box_fingerprint(box_public))
    bound = {"user": user, "purpose": purpose}
    aad_fields = {"kind": KIND, "recipient": recipient}
    aad_fields |= {name: value for name, value in bound.items() if value}
    plaintext = canonical_json(valid_secrets(values))
    enc, ciphertext = seal(
        plaintext, box_public, aad=canonical_json(aad_fields), info=_ENVELOPE_INFO
    )
    return {
        "version": VERSION,
        "recipient": recipient,
        "enc": _padded(enc),
        "ciphertext": _padded(ciphertext),
        "aad_fields": aad_fields,
    }


def open_envelope(
    envelope: object, box_private: bytes, *, user: str = "", purpose: str = ""
) -> dict[str, str]:
    """The secrets in an envelope. Raises EnvelopeError; nothing of a wrong one is given.

    One that names a user or a purpose opens for no other than ``user`` and ``purpose``.
    """
    if not isinstance(envelope, Mapping):
        raise EnvelopeError("envelope", "expected a JSON object")
    aad = _checked_aad(envelope, principal_id(box_fingerprint(box_public(box_private))))
    bound = envelope.get("aad_fields", {})
    for name, expected in (("user", user), ("purpose", purpose)):
        if expected and bound.get(name, expected) != expected:
            raise EnvelopeError(f"aad_fields.{name}", "sealed for another one")
    enc, ciphertext = _bytes(envelope, "enc"), _bytes(envelope, "ciphertext")
    try:
        plaintext = open_sealed(enc, ciphertext, box_private, aad=aad, info=_ENVELOPE_INFO)
    except SealingError as error:
        raise EnvelopeError("ciphertext", error.problem) from None
    return _values(plaintext)


def _checked_aad(envelope: Mapping[str, Any], recipient: str) -> bytes:
    """The canonical JSON of ``aad_fields``, once they say that the envelope is ours."""
    version, aad_fields = envelope.get("version"), envelope.get("aad_fields")
    if type(version) is not int or version != VERSION:
        raise EnvelopeError("version", f"expected {VERSION}")
    if not isinstance(aad_fields, Mapping):
        raise EnvelopeError("aad_fields", "expected a JSON object")
    if aad_fields.get("kind") != KIND:
        raise EnvelopeError("aad_fields.kind", f"expected {KIND}")
    for where, found in (("recipient", envelope), ("aad_fields.recipient", aad_fields)):
        if found.get("recipient") != recipient:
            raise EnvelopeError(where, f"expected {recipient}: sealed for another key")
    try:
        aad = canonical_json(aad_fields)
    except LilluxError as error:
        raise EnvelopeError("aad_fields", str(error)) from None
    if len(aad) > _MAX_AAD_BYTES:
        raise EnvelopeError("aad_fields", f"expected at most {_MAX_AAD_BYTES} bytes")
    return aad


def _bytes(envelope: Mapping[str, Any], field: str) -> bytes:
    text = envelope.get(field)
    if not isinstance(text, str) or len(text) > _MAX_CIPHERTEXT_CHARACTERS:
        raise EnvelopeError(field, "expected base64url text of a bounded size")
    data = decode_base64url(text)
    if data is None:
        raise EnvelopeError(field, "expected base64url")
    return data


def _values(plaintext: bytes) -> dict[str, str]:
    try:
        values = json.loads(plaintext)
    except (ValueError, RecursionError):
        raise EnvelopeError("ciphertext", "expected JSON inside, found something else") from None
    if not isinstance(values, dict):
        raise EnvelopeError("ciphertext", "expected a JSON object inside")
    try:
        return valid_secrets(values)
    except SecretValuesError as error:
        raise EnvelopeError("ciphertext", error.problem) from None


def _padded(data: bytes) -> str:
    """The form that other programs write; they read both."""
    from base64 import urlsafe_b64encode

    return urlsafe_b64encode(data).decode("ascii")
