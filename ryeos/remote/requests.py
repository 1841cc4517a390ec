"""Signed requests: the four headers, made and verified. Pure.

Format, with vectors: docs/remote.md. What is signed names the method, path, query, body, time,
nonce and the node itself (the audience), so that nothing of a request can be changed, and none can
be sent to another node. Whether a nonce was seen before is for the caller that keeps them.
"""

import os
import re
from collections.abc import Mapping
from urllib.parse import parse_qsl, urlencode

from lillux.digests import sha256_hex
from lillux.patterns import pattern
from lillux.pem import PemError
from lillux.signing import compute_key_fingerprint, verify_signature
from lillux.values import dataclass, field
from ryeos.items.errors import RyeError
from ryeos.trust.signing_key import SigningKey

LOG_CUT = "[cut: an execution's log has at most 1 MiB]\n"
"""The end of a log that is longer than what a node keeps of one."""

WINDOW_S = 300
"""The most by which a request's time may differ from the receiver's; this much still passes."""

NONCE_S = 2 * WINDOW_S + 60
"""The time for which a nonce is remembered: longer than a request with it is accepted, which may
come with a time that is still ahead, and then again as long after it."""

VERSION = "ryeos-request-v1"
KEY_ID, TIMESTAMP = "X-Rye-Key-Id", "X-Rye-Timestamp"
NONCE, SIGNATURE = "X-Rye-Nonce", "X-Rye-Signature"
HEADERS = (KEY_ID, TIMESTAMP, NONCE, SIGNATURE)

_KEY_ID = pattern(r"fp:([0-9a-f]{16})")
TIMESTAMP_PATTERN = pattern(r"0|[1-9][0-9]{0,14}")
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
    """The name of a key on the wire: ``fp:`` and its fingerprint."""
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
        _matching(TIMESTAMP_PATTERN, "timestamp", str(timestamp)),
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
        timestamp=int(_matching(TIMESTAMP_PATTERN, TIMESTAMP, found[TIMESTAMP])),
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
