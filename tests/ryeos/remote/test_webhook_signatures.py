import pytest

from ryeos.remote.deliveries import (
    DeliverySignatureError,
    delivery_headers,
    is_delivery_id,
    sign_delivery,
    verify_delivery,
)
from tests.support.wire_vectors import VECTORS

VECTOR = VECTORS["webhook_hmac"]
SECRET, TIMESTAMP, BODY = VECTOR["secret"], VECTOR["timestamp"], VECTOR["body"].encode()
SIGNATURE = VECTOR["signature_header"]
NOW_S = int(TIMESTAMP)


def test_the_signature_of_a_delivery_matches_other_programs() -> None:
    assert sign_delivery(SECRET, TIMESTAMP, BODY) == SIGNATURE


def test_a_signed_delivery_passes() -> None:
    headers = delivery_headers(SECRET, body=BODY, now_s=NOW_S + 0.9, delivery_id="d1")

    assert headers == {
        "X-Webhook-Timestamp": TIMESTAMP,
        "X-Webhook-Signature": SIGNATURE,
        "X-Webhook-Delivery-Id": "d1",
    }
    verify_delivery(SECRET, TIMESTAMP, BODY, SIGNATURE, now_s=NOW_S)


@pytest.mark.parametrize("now_s", [NOW_S + 300, NOW_S - 30])
def test_a_delivery_at_the_limits_of_the_time_window_passes(now_s: int) -> None:
    verify_delivery(SECRET, TIMESTAMP, BODY, SIGNATURE, now_s=now_s)


@pytest.mark.parametrize("now_s", [NOW_S + 301, NOW_S - 31])
def test_another_time_is_refused(now_s: int) -> None:
    with pytest.raises(DeliverySignatureError) as error:
        verify_delivery(SECRET, TIMESTAMP, BODY, SIGNATURE, now_s=now_s)

    assert str(error.value) == (
        "webhook delivery: X-Webhook-Timestamp: expected at most 300 s ago and 30 s ahead"
    )


@pytest.mark.parametrize(
    "timestamp", ["", "now", "1700000000.0", " 1700000000", "-1", "\u0661\u0667"]
)
def test_an_invalid_time_is_refused(timestamp: str) -> None:
    with pytest.raises(DeliverySignatureError) as error:
        verify_delivery(SECRET, timestamp, BODY, SIGNATURE, now_s=NOW_S)

    assert error.value.problem == "X-Webhook-Timestamp: expected Unix time in whole seconds"


@pytest.mark.parametrize(
    ("secret", "body", "signature"),
    [
        ("whsec_1", BODY, SIGNATURE),
        (SECRET, BODY + b" ", SIGNATURE),
        (SECRET, BODY, SIGNATURE.removeprefix("sha256=")),
        (SECRET, BODY, SIGNATURE.upper()),
        (SECRET, BODY, ""),
        (SECRET, BODY, "sha256=é\udcff"),
    ],
    ids=["secret", "body", "no scheme", "case", "empty", "no ascii"],
)
def test_another_signature_is_refused(secret: str, body: bytes, signature: str) -> None:
    with pytest.raises(DeliverySignatureError) as error:
        verify_delivery(secret, TIMESTAMP, body, signature, now_s=NOW_S)

    assert error.value.problem == "X-Webhook-Signature: not the hook's over this body"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("d-1", True),
        ("0" * 200, True),
        ("", False),
        ("a b", False),
        ("é", False),
        ("0" * 201, False),
    ],
)
def test_a_delivery_id_is_short_and_visible(text: str, *, expected: bool) -> None:
    assert is_delivery_id(text) is expected
