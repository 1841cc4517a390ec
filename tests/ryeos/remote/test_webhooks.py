import json
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from lillux.http.client import HttpClient
from lillux.sealing import generate_box_pair
from lillux.signing import generate_keypair
from ryeos.items.errors import UsageError
from ryeos.remote.deliveries import (
    DELIVERY_ID,
    WEBHOOK_SIGNATURE,
    WEBHOOK_TIMESTAMP,
    DeliverySignatureError,
    verify_delivery,
)
from ryeos.remote.errors import RemoteError
from ryeos.remote.identity import identity_document
from ryeos.remote.node import Node
from ryeos.remote.pins import Pins
from ryeos.remote.settings import RemoteConfig
from ryeos.remote.transport import HttpTransport
from ryeos.remote.webhooks import DeliveryCredentials, deliver
from ryeos.trust.signing_key import SigningKey

SECRET, NOW_S = "whsec_1", 1_700_000_000
DeliverAs = Callable[..., dict[str, Any]]


class Receiver:
    """A receiver like a node: verifies deliveries, accepts each id once, refuses the first."""

    def __init__(self) -> None:
        self.document = identity_document(
            SigningKey(generate_keypair()), generate_box_pair()[1], "2026"
        )
        self.seen: list[str] = []
        self.bodies: list[Any] = []
        self.is_busy = True

    def answer(self, headers: dict[str, str], body: bytes) -> tuple[int, object]:
        if "Authorization" in headers or "X-Rye-Signature" in headers:
            return 401, {"detail": "expected one way to show who you are"}
        try:
            timestamp, signature = headers[WEBHOOK_TIMESTAMP], headers[WEBHOOK_SIGNATURE]
            verify_delivery(SECRET, timestamp, body, signature, now_s=NOW_S)
        except (KeyError, DeliverySignatureError):
            return 401, {"detail": "Unauthorized"}
        if self.is_busy:
            self.is_busy = False
            return 503, {"detail": "busy"}
        if headers[DELIVERY_ID] in self.seen:
            return 200, {"detail": "Already processed"}
        self.seen.append(headers[DELIVERY_ID])
        self.bodies.append(json.loads(body))
        return 200, {"status": "success", "thread_id": "t-1"}


@pytest.fixture
def receiver() -> Receiver:
    return Receiver()


@pytest.fixture
def url(receiver: Receiver) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.reply(200, receiver.document)

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            self.reply(*receiver.answer(dict(self.headers), body))

        def reply(self, status: int, body: object) -> None:
            data = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: object) -> None:
            """Log nothing."""

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def deliver_as(url: str, tmp_path: Path) -> DeliverAs:
    """A function that delivers with an id, parameters and the secret."""
    return partial(deliver_to, url, tmp_path)


def deliver_to(
    url: str,
    user: Path,
    delivery_id: str,
    parameters: Mapping[str, Any],
    secret: str = SECRET,
) -> dict[str, Any]:
    transport = HttpTransport(
        RemoteConfig(name="default", url=url),
        DeliveryCredentials(secret, delivery_id),
        HttpClient({}),
        now=lambda: float(NOW_S),
        wait=lambda *_: None,
    )
    return deliver(Node(transport, Pins(user)), "wh_0", parameters, delivery_id=delivery_id)


def test_a_delivery_to_a_busy_node_runs_once(deliver_as: DeliverAs, receiver: Receiver) -> None:
    first = deliver_as("d1", {"tag": "v1"})
    again = deliver_as("d1", {"tag": "v1"})

    assert first == {"status": "success", "thread_id": "t-1"}
    assert again == {"detail": "Already processed"}
    assert receiver.bodies == [
        {"hook_id": "wh_0", "delivery_id": "d1", "parameters": {"tag": "v1"}}
    ]


def test_empty_parameters_are_left_out_of_the_body(
    deliver_as: DeliverAs, receiver: Receiver
) -> None:
    deliver_as("d1", {})

    assert receiver.bodies == [{"hook_id": "wh_0", "delivery_id": "d1"}]


def test_two_deliveries_in_one_second_sign_different_ids(
    deliver_as: DeliverAs, receiver: Receiver
) -> None:
    deliver_as("d1", {})
    deliver_as("d2", {})

    assert [body["delivery_id"] for body in receiver.bodies] == ["d1", "d2"]


def test_another_secret_is_refused(deliver_as: DeliverAs) -> None:
    with pytest.raises(RemoteError) as error:
        deliver_as("d1", {}, "whsec_2")

    assert error.value.status == 401


@pytest.mark.parametrize("delivery_id", ["", "a b", "x" * 201])
def test_a_delivery_needs_a_plain_id(delivery_id: str) -> None:
    with pytest.raises(UsageError):
        DeliveryCredentials(SECRET, delivery_id)
