"""Limits of the size and the time of requests, over real sockets."""

import gzip
import json
import socket
import zlib
from collections.abc import Iterator

import pytest

from tests.support.node import Node, Reply, User, running_node

KEYS = "/admin/authorized-keys"
MAX_BYTES = 256 * 1024
TOO_LARGE = (413, {"detail": f"Request body exceeds {MAX_BYTES} bytes"})


@pytest.fixture(scope="module")
def small_node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    """A node with a small limit of bodies and a timeout of one second."""
    environ = {
        "RYE_NODE_MAX_REQUEST_BYTES": str(MAX_BYTES),
        "RYE_NODE_BODY_IDLE_TIMEOUT_S": "1",
    }
    with running_node(tmp_path_factory.mktemp("small") / "node", environ=environ) as running:
        yield running


@pytest.fixture
def owner(small_node: Node) -> User:
    """A user of that node who may do everything."""
    return small_node.owner


def connect(node: Node) -> socket.socket:
    """A connection to a node."""
    return socket.create_connection(("127.0.0.1", node.port), timeout=30)


def read_answer(connection: socket.socket) -> bytes:
    """Everything until the node closes the connection."""
    parts = []
    while part := connection.recv(65536):
        parts.append(part)
    return b"".join(parts)


def chunked(node: Node, chunks: list[bytes], path: str = KEYS) -> bytes:
    """The answer to an unauthenticated body in chunks."""
    with connect(node) as connection:
        connection.sendall(
            f"POST {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
            "Transfer-Encoding: chunked\r\n\r\n".encode()
        )
        for chunk in chunks:
            connection.sendall(f"{len(chunk):x}\r\n".encode() + chunk + b"\r\n")
        connection.sendall(b"0\r\n\r\n")
        return read_answer(connection)


# --- size -----------------------------------------------------------------------------------------


def test_a_body_that_is_announced_as_too_large_is_refused_before_anything_else(
    small_node: Node,
) -> None:
    assert small_node.ask("POST", KEYS, b"x" * (MAX_BYTES + 1)).answer == TOO_LARGE


def test_the_refusal_comes_before_the_body(small_node: Node) -> None:
    with connect(small_node) as connection:
        connection.sendall(
            f"POST {KEYS} HTTP/1.1\r\nHost: x\r\nContent-Length: {10**12}\r\n\r\n".encode()
        )
        answer = connection.recv(65536)

    assert answer.startswith(b"HTTP/1.1 413 ")


def test_a_body_of_exactly_the_limit_is_read(owner: User) -> None:
    start = b'{"public_key": "'
    body = start + b"x" * (MAX_BYTES - len(start) - 2) + b'"}'

    assert owner.ask("POST", KEYS, body).status == 400
    assert owner.ask("POST", KEYS, body + b" ").answer == TOO_LARGE


def test_a_body_that_turns_out_to_be_too_large_is_refused(small_node: Node) -> None:
    answer = chunked(small_node, [b"x" * 65536] * 5)

    assert answer.startswith(b"HTTP/1.1 413 ")
    assert json.loads(answer.split(b"\r\n\r\n", 1)[1]) == TOO_LARGE[1]


def test_a_client_that_sends_too_much_still_reads_the_answer(small_node: Node) -> None:
    replies = [small_node.ask("POST", KEYS, b"x" * (MAX_BYTES * 2)) for _ in range(5)]

    assert [reply.answer for reply in replies] == [TOO_LARGE] * 5


@pytest.mark.parametrize("path", ["/health", "/status"])
def test_health_is_answered_even_with_a_large_body(small_node: Node, path: str) -> None:
    assert small_node.ask("GET", path, b"x" * (MAX_BYTES + 1)).status == 200


# --- time -----------------------------------------------------------------------------------------


def test_a_body_that_does_not_come_is_not_waited_for(small_node: Node) -> None:
    with connect(small_node) as connection:
        connection.sendall(
            f"POST {KEYS} HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n12345".encode()
        )
        answer = read_answer(connection)

    assert answer.startswith(b"HTTP/1.1 408 ")
    assert b"the body of this request came too slowly" in answer


def test_other_requests_do_not_wait_for_slow_ones(small_node: Node) -> None:
    waiting = [connect(small_node) for _ in range(50)]
    for connection in waiting:
        connection.sendall(f"POST {KEYS} HTTP/1.1\r\nContent-Le".encode())

    reply = small_node.ask("GET", "/health", timeout_s=5)

    assert reply.status == 200
    for connection in waiting:
        connection.close()


# --- gzip -----------------------------------------------------------------------------------------


def new_key(owner: User, label: str) -> bytes:
    """A body that authorises the user's own key again."""
    key = "ed25519:x" if label else ""
    return json.dumps({"public_key": key, "label": label or owner.user_id}).encode()


def send_packed(owner: User, plain: bytes, packed: bytes, encoding: str = "gzip") -> Reply:
    """A request whose signature is over ``plain`` and whose body is ``packed``."""
    headers = owner.signed_headers("POST", KEYS, plain)
    return owner.node.ask("POST", KEYS, packed, headers=headers | {"Content-Encoding": encoding})


def test_the_signature_of_a_compressed_body_covers_the_plain_bytes(owner: User) -> None:
    plain = new_key(owner, "x")

    reply = send_packed(owner, plain, gzip.compress(plain))

    assert reply.status == 400  # the key is invalid: the body was read
    assert "identity document" in reply.json["detail"]


@pytest.mark.parametrize(
    ("packed", "detail"),
    [
        (b"not gzip", "the body is not gzip"),
        (gzip.compress(b"{}")[:-4], "the gzipped body is cut short, or something follows it"),
        (gzip.compress(b"{}") + b"x", "the gzipped body is cut short, or something follows it"),
        (b"", "the gzipped body is cut short, or something follows it"),
    ],
    ids=["other bytes", "cut", "more", "nothing"],
)
def test_a_body_with_a_false_encoding_is_refused(owner: User, packed: bytes, detail: str) -> None:
    assert send_packed(owner, b"{}", packed).answer == (400, {"detail": detail})


def test_another_encoding_is_refused(owner: User) -> None:
    reply = send_packed(owner, b"{}", zlib.compress(b"{}"), "deflate")

    assert reply.answer == (400, {"detail": "expected a plain or gzipped body, found 'deflate'"})


def test_a_compressed_body_over_the_limit_is_refused(owner: User) -> None:
    bomb = gzip.compress(bytes(100 * MAX_BYTES))
    assert len(bomb) < MAX_BYTES

    assert send_packed(owner, b"", bomb).answer == TOO_LARGE


def test_long_answers_are_compressed_for_clients_that_accept_it(small_node: Node) -> None:
    plain = small_node.ask("GET", "/openapi.json")
    packed = small_node.ask("GET", "/openapi.json", headers={"Accept-Encoding": "br, gzip"})
    refused = small_node.ask("GET", "/openapi.json", headers={"Accept-Encoding": "gzip;q=0"})

    assert "content-encoding" not in plain.headers
    assert "content-encoding" not in refused.headers
    assert packed.headers["content-encoding"] == "gzip"
    assert packed.headers["vary"] == "Accept-Encoding"
    assert packed.json == plain.json


def test_short_answers_are_not_compressed(small_node: Node) -> None:
    reply = small_node.ask("GET", "/health", headers={"Accept-Encoding": "gzip"})

    assert "content-encoding" not in reply.headers
    assert reply.json["status"] == "ok"


# --- two lengths, and an unfinished body ----------------------------------------------------------


@pytest.mark.parametrize("path", [KEYS, "/health"])
def test_a_body_whose_length_is_reported_in_two_ways_is_refused(
    small_node: Node, path: str
) -> None:
    with connect(small_node) as connection:
        connection.sendall(
            f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n"
            "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /status HTTP/1.1\r\n\r\n".encode()
        )
        answer = read_answer(connection)

    assert answer.startswith(b"HTTP/1.1 400 ")
    assert b"expected Content-Length or Transfer-Encoding, found both" in answer
    assert answer.count(b"HTTP/1.1 ") == 1, "the connection is closed behind it"


def test_a_client_that_disconnects_in_its_body_is_logged_in_one_line(node: Node) -> None:
    with connect(node) as connection:
        connection.sendall(
            b"POST /execute HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer x\r\n"
            b"Content-Length: 100\r\n\r\nabc"
        )

    assert "the caller hung up: POST /execute [" in node.wait_for_line("hung up")
    assert " cut " in node.wait_for_line("access: POST /execute ")
    assert not [line for line in node.log if "Traceback" in line or "ERROR" in line]
