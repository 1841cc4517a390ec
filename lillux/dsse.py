"""Signed envelopes: DSSE 1.0 with Ed25519, as in-toto tools read them.

The signed bytes begin with ``DSSEv1`` and the payload type, so a signature is not valid for another
format or type. Source: github.com/secure-systems-lab/dsse, ``envelope.md`` and ``protocol.md``.
It is a file of its own because an outside specification fixes the format.
"""

import json
from base64 import b64decode, b64encode
from collections.abc import Mapping
from typing import Any

from lillux.errors import LilluxError
from lillux.signing import compute_key_digest, sign_bytes, verify_bytes


class EnvelopeError(LilluxError):
    """Not a DSSE envelope, or without a valid signature of the expected key."""

    code, exit_status = "INTEGRITY", 4


def encoded(payload_type: str, payload: bytes) -> bytes:
    """The bytes to sign: the pre-authentication encoding (PAE) of a payload."""
    kind = payload_type.encode()
    return b"DSSEv1 %d %b %d %b" % (len(kind), kind, len(payload), payload)


def signed(payload_type: str, payload: bytes, private_pem: bytes, key_id: str) -> dict[str, Any]:
    """An envelope with one signature. Raises PemError, NativeCryptoMissingError."""
    signature = sign_bytes(encoded(payload_type, payload), private_pem)
    return {
        "payload": b64encode(payload).decode("ascii"),
        "payloadType": payload_type,
        "signatures": [{"keyid": key_id, "sig": b64encode(signature).decode("ascii")}],
    }


def opened(envelope: object, payload_type: str, public_pem: bytes) -> Any:  # noqa: ANN401 - JSON
    """The JSON in an envelope that the key signed as this type. Raises EnvelopeError, PemError."""
    if not isinstance(envelope, Mapping):
        raise EnvelopeError("expected a signed envelope, found something else")
    if envelope.get("payloadType") != payload_type:
        raise EnvelopeError(f"expected a payload of type {payload_type}, found another type")
    try:
        payload = b64decode(envelope["payload"], validate=True)
        found = [(one["keyid"], b64decode(one["sig"], validate=True)) for one in _all(envelope)]
    except (KeyError, TypeError, ValueError):
        raise EnvelopeError("expected a payload and signatures in base64") from None
    key_id, message = compute_key_digest(public_pem), encoded(payload_type, payload)
    ours = [signature for key, signature in found if key == key_id]
    if not ours:
        raise EnvelopeError(f"expected a signature of the key {key_id[:16]}, found none")
    if not any(verify_bytes(message, signature, public_pem) for signature in ours):
        raise EnvelopeError(f"the signature of the key {key_id[:16]} is not over this payload")
    try:
        return json.loads(payload)
    except (ValueError, RecursionError):
        raise EnvelopeError("expected JSON in the payload") from None


def _all(envelope: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    found = envelope["signatures"]
    return found if isinstance(found, list) else []
