"""The identity of a node: the document that its ``/public-key`` answers with.

Made and checked, pure. Format, with a vector: docs/remote.md. A document shows that its writer
holds the signing key, and nothing about whose node that is: pins do (`ryeos.remote.pins`).
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from lillux.digests import decode_base64, encode_base64
from lillux.errors import LilluxError
from lillux.patterns import pattern
from lillux.sealing import decode_box_key, encode_box_key
from lillux.signing import canonical_public_pem, compute_key_digest, compute_key_fingerprint
from lillux.values import dataclass
from ryeos.items.errors import RyeError
from ryeos.remote.requests import principal_id
from ryeos.remote.signed_documents import sign_document, verify_document
from ryeos.trust.signing_key import SigningKey

KIND = "identity/v1"
SUCCESSION = "node-succession/v1"
MAX_PREVIOUS = 10
"""Of the former keys of a node, as many are listed."""

_UTC_TIME = pattern(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")
_SIGNING, _BOX = "ed25519:", "x25519:"
_MAX_FIELD_CHARACTERS = 8192


class IdentityError(RyeError):
    """A document that does not show who its sender is. ``field`` is which part of it."""

    code = "INTEGRITY"

    def __init__(self, field: str, problem: str) -> None:
        self.field, self.problem = field, problem
        super().__init__(
            f"identity document: {field}: {problem}",
            hint="is this the address of a node? nothing was sent to it",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Succession:
    """A statement of a node's former key: which key takes its place, from when. Digests."""

    former: str
    successor: str
    ended_at: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeIdentity:
    """A node's keys, checked against each other.

    fingerprint  of the signing key, 16 hex digits
    box_public   the X25519 key that secrets for it are sealed to, 32 bytes
    items_pem    what the node signs items of users with; ``b""`` where it names no such key
    previous     what its former keys signed of those that came after them, the newest first
    """

    fingerprint: str
    public_key_pem: bytes
    box_public: bytes
    created_at: str
    items_pem: bytes = b""
    previous: tuple[Succession, ...] = ()

    def followed_at(self, former: str) -> str:
        """When a key said that this one takes its place, perhaps by way of others; "" for never.

        ``former`` is its digest, or its fingerprint.
        """
        said = {one.former: one for one in self.previous}
        found = next((one for name, one in said.items() if name.startswith(former)), None)
        first = found
        for _ in range(MAX_PREVIOUS):
            if found is None or found.successor == self.digest:
                break
            found = said.get(found.successor)
        if first is None or found is None or found.successor != self.digest:
            return ""
        return first.ended_at

    @property
    def digest(self) -> str:
        """Of the signing key, 64 hex digits, which a pin is compared by."""
        return compute_key_digest(self.public_key_pem)

    @property
    def node_id(self) -> str:
        """The audience of requests to it: ``fp:`` and the fingerprint."""
        return principal_id(self.fingerprint)


def encode_public_key(public_pem: bytes) -> str:
    """A signing key on the wire: ``ed25519:`` and base64 of its PEM. Raises PemError."""
    return _SIGNING + encode_base64(canonical_public_pem(public_pem))


def decode_public_key(text: object, field: str = "public_key") -> bytes:
    """The PEM of a signing key on the wire. Raises IdentityError that names the field."""
    pem = _decode_key(text, _SIGNING, field)
    try:
        return canonical_public_pem(pem)
    except LilluxError as error:
        raise IdentityError(field, str(error)) from None


def succession_document(
    key: SigningKey, successor_pem: bytes, successor_box: bytes, ended_at: str
) -> dict[str, Any]:
    """The statement of a node's key that another one takes its place, signed by the former.

    Raises PemError, SealingError for invalid keys.
    """
    document = {
        "kind": SUCCESSION,
        "signing_key": encode_public_key(key.public_pem),
        "successor": encode_public_key(successor_pem),
        "box_key": _BOX + encode_base64(encode_box_key(successor_box).encode()),
        "ended_at": ended_at,
    }
    return sign_document(document, key, ended_at)


def identity_document(
    key: SigningKey,
    box_public: bytes,
    created_at: str,
    *,
    items_pem: bytes = b"",
    previous: Sequence[Mapping[str, Any]] = (),
) -> dict[str, Any]:
    """The signed document of a node; ``items_pem`` is the key that it signs users' items with.

    ``previous`` is what its former keys said (`succession_document`), the newest first.
    Raises SealingError for an invalid box key.
    """
    items: dict[str, Any] = {"items_key": encode_public_key(items_pem)} if items_pem else {}
    if previous:
        items["previous"] = [dict(one) for one in previous]
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
    _require_signature(document, public_pem)
    created_at, items = document.get("created_at"), document.get("items_key")
    return NodeIdentity(
        fingerprint=fingerprint,
        public_key_pem=public_pem,
        box_public=_box_public(document.get("box_key")),
        created_at=created_at if isinstance(created_at, str) else "",
        items_pem=b"" if items is None else decode_public_key(items, "items_key"),
        previous=_successions(document.get("previous")),
    )


def _successions(previous: object) -> tuple[Succession, ...]:
    """The statements of former keys that hold; any other one says nothing."""
    found = []
    for one in previous[:MAX_PREVIOUS] if isinstance(previous, list) else ():
        with suppress(LilluxError):
            is_one = isinstance(one, Mapping) and one.get("kind") == SUCCESSION
            if is_one and _UTC_TIME.fullmatch(str(one.get("ended_at"))):
                former = decode_public_key(one.get("signing_key"))
                verify_document(one, former)
                found.append(
                    Succession(
                        former=compute_key_digest(former),
                        successor=compute_key_digest(decode_public_key(one.get("successor"))),
                        ended_at=str(one.get("ended_at")),
                    )
                )
    return tuple(found)


def _require_signature(document: Mapping[str, Any], public_pem: bytes) -> None:
    try:
        verify_document(document, public_pem)
    except LilluxError as error:
        raise IdentityError("_signature", str(error).removeprefix("signed document: ")) from None


def _box_public(text: object) -> bytes:
    try:
        key = decode_box_key(_decode_key(text, _BOX, "box_key").decode("ascii"))
    except (LilluxError, UnicodeDecodeError) as error:
        if isinstance(error, IdentityError):
            raise
        raise IdentityError("box_key", "expected the text of an X25519 key in base64") from None
    return key


def _decode_key(text: object, prefix: str, field: str) -> bytes:
    if not isinstance(text, str) or len(text) > _MAX_FIELD_CHARACTERS:
        raise IdentityError(field, "expected a short text")
    data = decode_base64(text.removeprefix(prefix)) if text.startswith(prefix) else None
    if data is None:
        raise IdentityError(field, f"expected {prefix} and base64")
    return data
