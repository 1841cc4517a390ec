"""What the browser of a person who logged in holds: a cookie that the node alone can make. Pure.

The cookie is ``v1.PAYLOAD.MAC``: base64url of a canonical JSON document, and the HMAC-SHA256 of
``v1.PAYLOAD``. It names the API key that the person logged in with; whether that key still counts
is asked for each request, so a revoked key ends its sessions. Nothing secret is in it. One that was
logged out of is remembered until its end (`ended_sessions`).

A form carries the HMAC of the cookie (`form_token`): a page of somebody else cannot know it.
"""

import hmac
import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from hashlib import sha256

from lillux.values import dataclass

COOKIE = "rye_session"
SESSION_S = 12 * 3600
LONGEST_COOKIE = 2048

_PURPOSE = b"rye-node page sessions v1"
_FORM_PURPOSE = b"form:"


@dataclass(frozen=True, slots=True)
class Session:
    """Who is logged in. ``key_id`` is the id of an API key, ``until_s`` seconds since 1970.

    session_id  makes the cookies of two logins differ, so that each is ended for itself
    """

    key_id: str
    until_s: int
    session_id: str = ""


def session_key(node_secret: bytes) -> bytes:
    """The key of the cookies: derived from a secret of the node, of no use for anything else."""
    return hmac.digest(node_secret, _PURPOSE, sha256)


def seal_session(session: Session, key: bytes) -> str:
    """The value of the cookie."""
    document = {"id": session.session_id, "key_id": session.key_id, "until_s": session.until_s}
    text = json.dumps(document, sort_keys=True, separators=(",", ":"))
    signed = "v1." + _base64(text.encode())
    return f"{signed}.{_mac(key, signed)}"


def read_session(cookie: str, key: bytes, *, now_s: float) -> Session | None:
    """Who the cookie is of; None where it is not ours, was changed, or is over."""
    if len(cookie) > LONGEST_COOKIE or not cookie.isascii():
        return None
    signed, _, mac = cookie.rpartition(".")
    if not signed.startswith("v1.") or not hmac.compare_digest(mac, _mac(key, signed)):
        return None
    payload = signed.removeprefix("v1.")
    document = json.loads(urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
    session = Session(document["key_id"], document["until_s"], document.get("id", ""))
    return session if session.until_s > now_s else None


def form_token(cookie: str, key: bytes) -> str:
    """What forms of this session carry."""
    return _base64(hmac.digest(key, _FORM_PURPOSE + cookie.encode(), sha256))


def is_form_token(token: str, cookie: str, key: bytes) -> bool:
    """Whether a form came from a page of this session; compared in constant time."""
    return hmac.compare_digest(token.encode(), form_token(cookie, key).encode())


def _mac(key: bytes, signed: str) -> str:
    return _base64(hmac.digest(key, signed.encode(), sha256))


def _base64(data: bytes) -> str:
    return urlsafe_b64encode(data).decode().rstrip("=")
