"""Deliveries of webhooks, signed: an HMAC over their time and body.

Made and checked, pure. Format, with a vector: docs/remote.md. Whether a delivery was seen is for
the code that keeps their ids.
"""

from collections.abc import Mapping

from lillux.patterns import pattern
from ryeos.items.errors import RyeError
from ryeos.remote.requests import TIMESTAMP_PATTERN

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

    if not TIMESTAMP_PATTERN.fullmatch(timestamp):
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
    """True if a text may name a delivery: 1 to 200 visible ASCII characters."""
    return _DELIVERY_ID.fullmatch(text) is not None
