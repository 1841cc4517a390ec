"""Requests as large as they may be, a little larger, and far larger once unpacked."""

import gzip
import json
import socket
from threading import Event

import pytest

from tests.support.node import Node, User

pytestmark = pytest.mark.heavy

MIB = 1024 * 1024
LIMIT = 50 * MIB
HAS = "/objects/has"
TOO_LARGE = {"detail": f"Request body exceeds {LIMIT} bytes"}


@pytest.fixture
def user(shared_node: Node) -> User:
    """A user of that node."""
    return shared_node.user()


def body_of(size: int) -> bytes:
    """A request about no content, of so many bytes."""
    return b'{"hashes": []}'.ljust(size)


def chunked(user: User, body: bytes) -> tuple[int, bytes]:
    """Status and body of the answer to a signed request without a length."""
    headers = {
        **user.signed_headers("POST", HAS, body),
        "Content-Type": "application/json",
        "Transfer-Encoding": "chunked",
        "Connection": "close",
    }
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    with socket.create_connection(("127.0.0.1", user.node.port), timeout=60) as connection:
        connection.sendall(f"POST {HAS} HTTP/1.1\r\nHost: x\r\n{lines}\r\n".encode())
        for start in range(0, len(body), MIB):
            part = body[start : start + MIB]
            connection.sendall(f"{len(part):x}\r\n".encode() + part + b"\r\n")
        connection.sendall(b"0\r\n\r\n")
        answer = b""
        while read := connection.recv(65536):
            answer += read
    head, _, rest = answer.partition(b"\r\n\r\n")
    return int(head.split()[1]), rest


def test_fifty_mebibytes_are_taken_and_one_byte_more_is_not(user: User) -> None:
    assert user.ask("POST", HAS, body_of(LIMIT)).status == 200
    assert user.ask("POST", HAS, body_of(LIMIT + 1)).answer == (413, TOO_LARGE)


def test_the_limit_holds_for_a_body_without_a_length_too(user: User) -> None:
    status, _ = chunked(user, body_of(LIMIT))
    refused, detail = chunked(user, body_of(LIMIT + 1))

    assert (status, refused) == (200, 413)
    assert json.loads(detail) == TOO_LARGE


@pytest.mark.parametrize("times", [1, 2])
def test_a_body_that_unpacks_to_more_than_fifty_mebibytes_is_refused(
    user: User, times: int
) -> None:
    plain = b" " * (LIMIT + 1)
    packed = plain
    for _ in range(times):
        packed = gzip.compress(packed, 1)
    headers = {**user.signed_headers("POST", HAS, plain), "Content-Encoding": "gzip"}

    reply = user.node.ask("POST", HAS, packed, headers=headers)

    assert reply.status == (413 if times == 1 else 400)  # packed twice it is no text
    assert user.ask("POST", HAS, {"hashes": []}).status == 200


def test_fifty_mebibytes_packed_are_taken(user: User) -> None:
    plain = body_of(LIMIT)
    headers = {**user.signed_headers("POST", HAS, plain), "Content-Encoding": "gzip"}

    assert user.node.ask("POST", HAS, gzip.compress(plain, 1), headers=headers).status == 200


@pytest.mark.parametrize(
    "lengths",
    [
        "Content-Length: 2\r\nContent-Length: 3\r\n",
        "Content-Length: -1\r\n",
        "Content-Length: +2\r\n",
        "Content-Length: 2\r\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding: chunked, identity\r\n",
    ],
)
def test_lengths_that_contradict_each_other_are_refused(shared_node: Node, lengths: str) -> None:
    with socket.create_connection(("127.0.0.1", shared_node.port), timeout=30) as connection:
        connection.sendall(
            f"POST {HAS} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{lengths}\r\n{{}}".encode()
            + b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n"
        )
        connection.shutdown(socket.SHUT_WR)
        answer = b""
        while read := connection.recv(65536):
            answer += read

    assert answer.count(b"HTTP/1.1 ") <= 1
    assert b'"status":"ok"' not in answer


def test_a_slow_sender_hinders_no_other_client(user: User) -> None:
    dripping = [
        socket.create_connection(("127.0.0.1", user.node.port), timeout=30) for _ in range(60)
    ]
    head = f"POST {HAS} HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n"
    for number, connection in enumerate(dripping):
        whole = number % 2
        connection.sendall(f"{head}\r\n{{".encode() if whole else head.encode())
    never = Event()
    for _ in range(5):
        never.wait(0.01)
        for number, connection in enumerate(dripping):
            connection.sendall(b" " if number % 2 else b"X-A: b\r\n")
        assert user.ask("POST", HAS, {"hashes": []}, timeout_s=10).status == 200
    for connection in dripping:
        connection.close()
