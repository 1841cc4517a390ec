"""JSON documents that carry their own signature. Pure.

It stands under ``_signature``. Signed is the digest of ``rye/<kind>`` and, on the next line, of the
canonical JSON of all other keys; for kinds that other programs know, of the JSON alone. Format:
docs/remote.md.
"""

from collections.abc import Mapping
from typing import Any

from lillux.canonical_json import canonical_json, compute_integrity
from lillux.digests import sha256_hex
from lillux.errors import LilluxError
from lillux.signing import compute_key_fingerprint, verify_signature
from ryeos.items.errors import RyeError
from ryeos.remote.requests import principal_id
from ryeos.trust.signing_key import SigningKey

SIGNATURE_KEY = "_signature"
RECEIPT_KEY_KIND = "receipt-key/v1"
_KINDS_OF_OTHER_PROGRAMS = frozenset({"identity/v1", "namespace-claim/v1"})


class SignedDocumentError(RyeError):
    """A document that the key did not sign as it is."""

    code = "INTEGRITY"

    def __init__(self, problem: str) -> None:
        self.problem = problem
        super().__init__(f"signed document: {problem}")


def sign_document(document: Mapping[str, Any], key: SigningKey, signed_at: str) -> dict[str, Any]:
    """The document with its signature. Raises CanonicalJsonError for what is no JSON."""
    body = {name: value for name, value in document.items() if name != SIGNATURE_KEY}
    signature = {
        "signer": principal_id(key.fingerprint),
        "sig": key.digest_signature(_document_digest(body)).rstrip("="),
        "signed_at": signed_at,
    }
    return {**body, SIGNATURE_KEY: signature}


def _document_digest(body: Mapping[str, Any]) -> str:
    """The digest that a signature of a document is over: of its purpose and its canonical JSON.

    The form of other programs has no line for the purpose. It signs no item all the same: what an
    item's signature is over begins with the item's own line. Raises CanonicalJsonError.
    """
    kind = body.get("kind")
    if not isinstance(kind, str) or kind in _KINDS_OF_OTHER_PROGRAMS:
        return compute_integrity(body)
    return sha256_hex(f"rye/{kind}\n".encode() + canonical_json(body))


def verify_document(document: Mapping[str, Any], public_pem: bytes) -> None:
    """Verify that the key of ``public_pem`` signed the document as it is.

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
        digest = _document_digest(body)
    except (LilluxError, UnicodeEncodeError) as error:
        raise SignedDocumentError(str(error)) from error
    if not verify_signature(digest, str(signature.get("sig")), public_pem):
        raise SignedDocumentError(f"{SIGNATURE_KEY}.sig: not the key's over this document")
