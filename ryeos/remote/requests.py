"""Signed requests: the four headers, made and verified. Pure.

Format, with vectors: docs/remote.md. What is signed names the method, path, query, body, time,
nonce and the node itself (the audience), so that nothing of a request can be changed, and none can
be sent to another node. Whether a nonce was seen before is for the caller that keeps them.
"""

import os
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any
from urllib.parse import parse_qsl, urlencode

from lillux.digests import (
    canonical_json,
    compute_integrity,
    decode_base64,
    encode_base64,
    sha256_hex,
)
from lillux.errors import LilluxError
from lillux.patterns import pattern
from lillux.sealing import decode_box_key, encode_box_key
from lillux.signing import (
    PemError,
    canonical_public_pem,
    compute_key_digest,
    compute_key_fingerprint,
    verify_signature,
)
from lillux.values import dataclass, field
from ryeos.items.errors import RyeError
from ryeos.trust.keys import SigningKey

LOG_CUT = "[cut: an execution's log has at most 1 MiB]\n"
"""How a node ends a log that is longer than what it keeps of one."""

# --- signed requests ------------------------------------------------------------------------------

WINDOW_S = 300
"""How far the time of a request may be from the receiver's; exactly as far still passes."""

NONCE_S = 2 * WINDOW_S + 60
"""How long a nonce has to be remembered: longer than any request with it is accepted, which may
come with a time that is still ahead, and then again as long after it."""

VERSION = "ryeos-request-v1"
KEY_ID, TIMESTAMP = "X-Rye-Key-Id", "X-Rye-Timestamp"
NONCE, SIGNATURE = "X-Rye-Nonce", "X-Rye-Signature"
HEADERS = (KEY_ID, TIMESTAMP, NONCE, SIGNATURE)

_KEY_ID = pattern(r"fp:([0-9a-f]{16})")
_TIMESTAMP = pattern(r"0|[1-9][0-9]{0,14}")
_NONCE = pattern(r"[\x21-\x7e]{1,128}")
_METHOD = pattern(r"[A-Z]{1,20}")
_DIGEST = pattern(r"[0-9a-f]{64}")
_NONCE_BYTES = 16
# A path has come here decoded: these would start another part of an address, or be one of these.
_ESCAPES = str.maketrans({"%": "%25", "?": "%3F", "#": "%23", "\\": "%5C"})


class RequestSignatureError(RyeError):
    """A request that is not signed as it should be. ``problem`` is for logs, never for senders."""

    code = "REQUEST_SIGNATURE"

    def __init__(self, problem: str) -> None:
        self.problem = problem
        super().__init__(f"request signature: {problem}")


@dataclass(frozen=True, slots=True, kw_only=True)
class SignedRequest:
    """The headers of a signed request, not verified yet.

    fingerprint  of the sender's key, 16 hex digits
    timestamp    Unix time in whole seconds
    """

    fingerprint: str
    timestamp: int
    nonce: str
    signature: str = field(repr=False)


def new_nonce() -> str:
    """32 random hex digits, used once."""
    return os.urandom(_NONCE_BYTES).hex()


def principal_id(fingerprint: str) -> str:
    """What a key is called on the wire: ``fp:`` and its fingerprint."""
    return f"fp:{fingerprint}"


def canonical_query(query: str) -> str:
    """The one form of a query: its pairs sorted, in form encoding. Sent like this, it is safe."""
    return urlencode(sorted(parse_qsl(query, keep_blank_values=True)))


def canonical_path(path: str, query: str = "") -> str:
    """The path (decoded, as a server sees it) and the canonical query, as they are signed."""
    escaped = path.translate(_ESCAPES)
    return f"{escaped}?{canonical_query(query)}" if query else escaped


def string_to_sign(
    *,
    method: str,
    path: str,
    query: str,
    body_sha256: str,
    timestamp: int,
    nonce: str,
    audience: str,
) -> str:
    """The seven lines that a signature is about; ``audience`` is ``fp:`` of the receiving node.

    Raises RequestSignatureError for a part that could be taken for two lines, or no audience.
    """
    parts = (
        VERSION,
        _matching(_METHOD, "method", method.upper()),
        canonical_path(path, query),
        _matching(_DIGEST, "body", body_sha256),
        _matching(_TIMESTAMP, "timestamp", str(timestamp)),
        _matching(_NONCE, "nonce", nonce),
        _matching(_KEY_ID, "audience", audience),
    )
    if not path.isprintable():
        raise RequestSignatureError("path: expected visible characters")
    return "\n".join(parts)


def sign_request(
    key: SigningKey,
    *,
    method: str,
    path: str,
    query: str,
    body: bytes,
    audience: str,
    now_s: float,
    nonce: str,
) -> dict[str, str]:
    """The headers that sign a request to one node, whose ``fp:`` is the audience.

    Raises RequestSignatureError, NativeCryptoMissingError.
    """
    timestamp = int(now_s)
    text = string_to_sign(
        method=method,
        path=path,
        query=query,
        body_sha256=sha256_hex(body),
        timestamp=timestamp,
        nonce=nonce,
        audience=audience,
    )
    return {
        KEY_ID: principal_id(key.fingerprint),
        TIMESTAMP: str(timestamp),
        NONCE: nonce,
        SIGNATURE: key.digest_signature(sha256_hex(text.encode())).rstrip("="),
    }


def parse_headers(headers: Mapping[str, str]) -> SignedRequest:
    """The four headers, in any case. Raises RequestSignatureError: missing, twice, another form."""
    found = _single_values(headers)
    key_id = _KEY_ID.fullmatch(found[KEY_ID])
    if not key_id:
        raise RequestSignatureError(f"{KEY_ID}: expected fp: and 16 hex digits")
    return SignedRequest(
        fingerprint=key_id[1],
        timestamp=int(_matching(_TIMESTAMP, TIMESTAMP, found[TIMESTAMP])),
        nonce=_matching(_NONCE, NONCE, found[NONCE]),
        signature=found[SIGNATURE],
    )


def require_recent(request: SignedRequest, now_s: float) -> None:
    """Refuse a request whose time is too far from now. Raises RequestSignatureError."""
    if abs(int(now_s) - request.timestamp) > WINDOW_S:
        raise RequestSignatureError(f"{TIMESTAMP}: expected at most {WINDOW_S} s from now")


def verify_request_signature(
    public_pem: bytes,
    headers: Mapping[str, str],
    *,
    method: str,
    path: str,
    query: str,
    body_sha256: str,
    audience: str,
) -> None:
    """Verify that the key signed exactly this request to this node.

    ``path`` is decoded, ``query`` as it was sent. Looks at no clock: see `require_recent`.
    Raises RequestSignatureError.
    """
    request = parse_headers(headers)
    _require_key(public_pem, request.fingerprint)
    _require_single_names(query)
    text = string_to_sign(
        method=method,
        path=path,
        query=query,
        body_sha256=body_sha256,
        timestamp=request.timestamp,
        nonce=request.nonce,
        audience=audience,
    )
    if not verify_signature(sha256_hex(text.encode()), request.signature, public_pem):
        raise RequestSignatureError(f"{SIGNATURE}: not the key's over this request")


def _require_key(public_pem: bytes, fingerprint: str) -> None:
    try:
        found = compute_key_fingerprint(public_pem)
    except PemError as error:
        raise RequestSignatureError(f"public key: {error.problem}") from None
    if found != fingerprint:
        raise RequestSignatureError(f"{KEY_ID}: expected {found}, found {fingerprint}")


def _require_single_names(query: str) -> None:
    """Sorted pairs do not say which of two values of one name came last, and would count."""
    names = [name for name, _ in parse_qsl(query, keep_blank_values=True)]
    if len(names) != len(set(names)):
        raise RequestSignatureError("query: expected each name once")


def _single_values(headers: Mapping[str, str]) -> dict[str, str]:
    wanted = {name.lower(): name for name in HEADERS}
    found: dict[str, str] = {}
    for name, value in headers.items():
        known = wanted.get(name.lower())
        if known in found:
            raise RequestSignatureError(f"{known}: expected once, found twice")
        if known:
            found[known] = value
    missing = [name for name in HEADERS if name not in found]
    if missing:
        raise RequestSignatureError(f"expected the headers {', '.join(missing)}, found none")
    return found


def _matching(form: re.Pattern[str], part: str, text: str) -> str:
    if not form.fullmatch(text):
        raise RequestSignatureError(f"{part}: expected the form {form.pattern}")
    return text


# --- signed documents -----------------------------------------------------------------------------
# JSON documents that carry their own signature under ``_signature``. Pure.
#
# Signed is the digest of ``rye/<kind>`` and, on the next line, of the canonical JSON of all other
# keys; for kinds that other programs know, of the JSON alone. Format: docs/remote.md.

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
    """What a signature of a document is over: what it is for, and its canonical JSON.

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


# --- identity -------------------------------------------------------------------------------------
# Who a node is: the document that its ``/public-key`` answers with, made and checked. Pure.
#
# Format, with a vector: docs/remote.md. A document shows that its writer holds the signing
# key, and nothing about whose node that is: pins do (`ryeos.remote.pins`).

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
    """What a former key of a node signed: which key takes its place, from when. Digests."""

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


# --- webhook signatures ---------------------------------------------------------------------------
# Deliveries of webhooks: an HMAC over their time and body, made and checked. Pure.
#
# Format, with a vector: docs/remote.md. Whether a delivery was seen is for the code that
# keeps their ids.

MAX_AGE_S, MAX_AHEAD_S = 300, 30

WEBHOOK_TIMESTAMP, WEBHOOK_SIGNATURE = "X-Webhook-Timestamp", "X-Webhook-Signature"
DELIVERY_ID = "X-Webhook-Delivery-Id"

_DELIVERY_ID = pattern(r"[\x21-\x7e]{1,200}")
_SCHEME = "sha256="


class DeliverySignatureError(RyeError):
    """A delivery that its hook did not sign. ``problem`` is for logs, never for senders."""

    code = "REQUEST_SIGNATURE"

    def __init__(self, problem: str) -> None:
        self.problem = problem
        super().__init__(f"webhook delivery: {problem}")


def sign_delivery(secret: str, timestamp: str, body: bytes) -> str:
    """The value of ``X-Webhook-Signature``: ``sha256=`` and 64 hex digits.

    ``timestamp`` is the header's text, ``secret`` the hook's as it was shown, ``whsec_...``.
    """
    import hmac

    message = timestamp.encode() + b"." + body
    return _SCHEME + hmac.digest(secret.encode(), message, "sha256").hex()


def delivery_headers(
    secret: str, *, body: bytes, now_s: float, delivery_id: str
) -> Mapping[str, str]:
    """The three headers of a delivery. A repeated one has the same id and a new time."""
    timestamp = str(int(now_s))
    return {
        WEBHOOK_TIMESTAMP: timestamp,
        WEBHOOK_SIGNATURE: sign_delivery(secret, timestamp, body),
        DELIVERY_ID: delivery_id,
    }


def verify_delivery(
    secret: str, timestamp: str, body: bytes, signature: str, *, now_s: float
) -> None:
    """Verify that the hook's secret signed this body just now; compared in constant time.

    Raises DeliverySignatureError.
    """
    import hmac

    if not _TIMESTAMP.fullmatch(timestamp):
        raise DeliverySignatureError(f"{WEBHOOK_TIMESTAMP}: expected Unix time in whole seconds")
    age_s = int(now_s) - int(timestamp)
    if age_s > MAX_AGE_S or age_s < -MAX_AHEAD_S:
        raise DeliverySignatureError(
            f"{WEBHOOK_TIMESTAMP}: expected at most {MAX_AGE_S} s ago and {MAX_AHEAD_S} s ahead"
        )
    expected = sign_delivery(secret, timestamp, body)
    if not hmac.compare_digest(expected.encode(), signature.encode("utf-8", "surrogateescape")):
        raise DeliverySignatureError(f"{WEBHOOK_SIGNATURE}: not the hook's over this body")


def is_delivery_id(text: str) -> bool:
    """Whether a text may name a delivery: 1 to 200 visible ASCII characters."""
    return _DELIVERY_ID.fullmatch(text) is not None
