"""JSON documents that carry their own signature under ``_signature``. Pure.

Signed is the digest of the canonical JSON of all other keys. Format: docs/remote-wire.md.
"""

from collections.abc import Mapping
from typing import Any

from lillux.digests import compute_integrity
from lillux.errors import LilluxError
from lillux.signing import compute_key_fingerprint, verify_signature
from ryeos.errors import RyeError
from ryeos.remote.signed_requests import principal_id
from ryeos.signing_key import SigningKey

SIGNATURE_KEY = "_signature"


class SignedDocumentError(RyeError):
    """A document that the key did not sign as it is."""

    code, exit_status = "INTEGRITY", 4

    def __init__(self, problem: str) -> None:
        self.problem = problem
        super().__init__(f"signed document: {problem}")


def sign_document(document: Mapping[str, Any], key: SigningKey, signed_at: str) -> dict[str, Any]:
    """The document with its signature. Raises CanonicalJsonError for what is no JSON."""
    body = {name: value for name, value in document.items() if name != SIGNATURE_KEY}
    signature = {
        "signer": principal_id(key.fingerprint),
        "sig": key.digest_signature(compute_integrity(body)).rstrip("="),
        "signed_at": signed_at,
    }
    return {**body, SIGNATURE_KEY: signature}


def check_document(document: Mapping[str, Any], public_pem: bytes) -> None:
    """Nothing, when the key of ``public_pem`` signed the document as it is.

    Raises SignedDocumentError, PemError.
    """
    signature = document.get(SIGNATURE_KEY)
    if not isinstance(signature, Mapping):
        raise SignedDocumentError(f"expected {SIGNATURE_KEY}, found none")
    expected = principal_id(compute_key_fingerprint(public_pem))
    if signature.get("signer") != expected:
        raise SignedDocumentError(f"{SIGNATURE_KEY}.signer: expected {expected}, found another")
    body = {name: value for name, value in document.items() if name != SIGNATURE_KEY}
    try:
        digest = compute_integrity(body)
    except LilluxError as error:
        raise SignedDocumentError(str(error)) from error
    if not verify_signature(digest, str(signature.get("sig")), public_pem):
        raise SignedDocumentError(f"{SIGNATURE_KEY}.sig: not the key's over this document")
