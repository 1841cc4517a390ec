"""Who a node is: the document that its ``/public-key`` answers with, made and checked. Pure.

Format, with a vector: docs/remote-wire.md. A document shows that its writer holds the signing key,
and nothing about whose node that is: pins do (`ryeos.remote.pins`).
"""

from collections.abc import Mapping
from typing import Any

from lillux.digests import decode_base64, encode_base64
from lillux.errors import LilluxError
from lillux.sealing import decode_box_key, encode_box_key
from lillux.signing import canonical_public_pem, compute_key_fingerprint
from lillux.values import dataclass
from ryeos.errors import RyeError
from ryeos.remote.signed_documents import check_document, sign_document
from ryeos.remote.signed_requests import principal_id
from ryeos.signing_key import SigningKey

KIND = "identity/v1"
_SIGNING, _BOX = "ed25519:", "x25519:"
_MAX_FIELD_CHARACTERS = 8192


class IdentityError(RyeError):
    """A document that does not show who its sender is. ``field`` is which part of it."""

    code, exit_status = "INTEGRITY", 4

    def __init__(self, field: str, problem: str) -> None:
        self.field, self.problem = field, problem
        super().__init__(
            f"identity document: {field}: {problem}",
            hint="is this the address of a node? nothing was sent to it",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeIdentity:
    """A node's keys, checked against each other.

    fingerprint  of the signing key, 16 hex digits
    box_public   the X25519 key that secrets for it are sealed to, 32 bytes
    """

    fingerprint: str
    public_key_pem: bytes
    box_public: bytes
    created_at: str

    @property
    def node_id(self) -> str:
        """The audience of requests to it: ``fp:`` and the fingerprint."""
        return principal_id(self.fingerprint)


def encode_public_key(public_pem: bytes) -> str:
    """A signing key on the wire: ``ed25519:`` and base64 of its PEM. Raises PemError."""
    return _SIGNING + encode_base64(canonical_public_pem(public_pem))


def decode_public_key(text: object, field: str = "public_key") -> bytes:
    """The PEM of a signing key on the wire. Raises IdentityError that names the field."""
    pem = _decoded(text, _SIGNING, field)
    try:
        return canonical_public_pem(pem)
    except LilluxError as error:
        raise IdentityError(field, str(error)) from None


def identity_document(
    key: SigningKey, box_public: bytes, created_at: str, *, items_pem: bytes = b""
) -> dict[str, Any]:
    """The signed document of a node; ``items_pem`` is the key that it signs users' items with.

    Raises SealingError for a box key that is none.
    """
    items = {"items_key": encode_public_key(items_pem)} if items_pem else {}
    document = {
        "kind": KIND,
        "principal_id": principal_id(key.fingerprint),
        "signing_key": encode_public_key(key.public_pem),
        "box_key": _BOX + encode_base64(encode_box_key(box_public).encode()),
        "created_at": created_at,
        "public_key_pem": key.public_pem.decode("ascii"),
        **items,
    }
    return sign_document(document, key, created_at)


def read_identity(document: object) -> NodeIdentity:
    """The identity in a document, all of which is checked. Raises IdentityError."""
    if not isinstance(document, Mapping):
        raise IdentityError("document", "expected a JSON object")
    if document.get("kind") != KIND:
        raise IdentityError("kind", f"expected {KIND}")
    public_pem = decode_public_key(document.get("signing_key"), "signing_key")
    fingerprint = compute_key_fingerprint(public_pem)
    if document.get("principal_id") != principal_id(fingerprint):
        raise IdentityError("principal_id", f"expected {principal_id(fingerprint)} of its own key")
    if document.get("public_key_pem", public_pem.decode()) != public_pem.decode():
        raise IdentityError("public_key_pem", "expected the key of signing_key")
    _check_signature(document, public_pem)
    created_at = document.get("created_at")
    return NodeIdentity(
        fingerprint=fingerprint,
        public_key_pem=public_pem,
        box_public=_box_public(document.get("box_key")),
        created_at=created_at if isinstance(created_at, str) else "",
    )


def _check_signature(document: Mapping[str, Any], public_pem: bytes) -> None:
    try:
        check_document(document, public_pem)
    except LilluxError as error:
        raise IdentityError("_signature", str(error).removeprefix("signed document: ")) from None


def _box_public(text: object) -> bytes:
    try:
        key = decode_box_key(_decoded(text, _BOX, "box_key").decode("ascii"))
    except (LilluxError, UnicodeDecodeError) as error:
        if isinstance(error, IdentityError):
            raise
        raise IdentityError("box_key", "expected the text of an X25519 key in base64") from None
    return key


def _decoded(text: object, prefix: str, field: str) -> bytes:
    if not isinstance(text, str) or len(text) > _MAX_FIELD_CHARACTERS:
        raise IdentityError(field, "expected a short text")
    data = decode_base64(text.removeprefix(prefix)) if text.startswith(prefix) else None
    if data is None:
        raise IdentityError(field, f"expected {prefix} and base64")
    return data
