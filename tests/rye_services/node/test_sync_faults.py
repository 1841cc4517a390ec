"""Killed nodes, broken connections, late and repeated requests."""

import http.client
import json
import random
import socket
from collections.abc import Callable
from threading import Event, Thread
from typing import TypeVar

import pytest

from tests.support.node import Node, Reply, User
from tests.support.node_sync import (
    PROJECT,
    SentTree,
    contents_of,
    history,
    push,
    push_tree,
    push_until_accepted,
    put,
    tree,
)

pytestmark = pytest.mark.heavy

pytest_plugins = ("tests.support.node",)

Answer = TypeVar("Answer")
FILES = {".ai/tools/probe/echo.py": b"print(1)\n", "src/x.py": b"x = 1\n"}


def is_whole(user: User, sent: SentTree) -> bool:
    """Whether the node has all of a tree."""
    return set(contents_of(user, sent.digests)) == set(sent.digests)


def half_sent(user: User, sent: SentTree, share: float) -> socket.socket:
    """A connection on which only a part of an upload was sent."""
    body = json.dumps({"entries": sent.entries}).encode()
    lines = {"Content-Length": str(len(body)), **user.signed_headers("POST", "/objects/put", body)}
    head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
    connection = socket.create_connection(("127.0.0.1", user.node.port), timeout=30)
    start = f"POST /objects/put HTTP/1.1\r\nHost: node\r\n{head}\r\n".encode()
    connection.sendall(start + body[: int(len(body) * share)])
    return connection


def insist(ask: Callable[[], Answer], is_up: Event) -> Answer:
    """The answer of a request that is repeated until the node is running."""
    while True:
        try:
            return ask()
        except (OSError, http.client.HTTPException):
            is_up.wait()


@pytest.mark.parametrize("share", [0.0, 0.5, 0.999])
def test_an_interrupted_upload_stores_no_object(node: Node, share: float) -> None:
    user, sent = node.user(), tree(FILES)

    half_sent(user, sent, share).close()

    assert contents_of(user, sent.digests) == {}
    assert put(user, sent.entries).status == 200


def test_a_node_killed_during_an_upload_accepts_it_again(node: Node) -> None:
    user, sent = node.user(), tree(FILES)
    with half_sent(user, sent, 0.5):
        node.restart()

    assert contents_of(user, sent.digests) == {}
    assert push_tree(user, FILES) == history(user)[0]["_hash"]


def test_uploads_before_a_kill_can_be_pushed_after_it(node: Node) -> None:
    user, sent = node.user(), tree(FILES)
    put(user, sent.entries)

    node.restart()

    assert push(user, sent.manifest_hash).status == 200
    assert is_whole(user, sent)


def test_a_head_survives_a_kill_of_the_node(node: Node) -> None:
    user = node.user()
    first = push_tree(user, FILES)
    second = push_tree(user, {**FILES, "more": b"1"}, first)

    node.restart()

    assert [one["_hash"] for one in history(user)] == [second, first]


def test_a_push_before_its_upload_is_refused_and_then_taken(node: Node) -> None:
    user, sent = node.user(), tree(FILES)
    *contents, manifest = sent.entries

    statuses = [
        push(user, sent.manifest_hash).status,
        put(user, [manifest]).status,
        push(user, sent.manifest_hash).status,
        put(user, reversed(contents)).status,
        push(user, sent.manifest_hash).status,
    ]

    assert statuses == [400, 200, 400, 200, 200]


def test_a_late_push_does_not_reset_the_head(node: Node) -> None:
    user, late = node.user(), tree(FILES)
    first = push_tree(user, {"number": b"0"})
    put(user, late.entries)
    body = json.dumps(
        {
            "project_path": PROJECT,
            "project_manifest_hash": late.manifest_hash,
            "expected_snapshot_hash": first,
        }
    ).encode()
    headers = user.signed_headers("POST", "/push", body)
    second = push_tree(user, {"number": b"1"}, first)

    reply = node.ask("POST", "/push", body, headers=headers)

    assert (reply.status, reply.json["detail"]["actual"]) == (409, second)
    assert history(user)[0]["_hash"] == second


def test_a_repeated_request_is_accepted_once_even_by_another_process(node: Node) -> None:
    user, sent = node.user(), tree(FILES)
    body = json.dumps({"entries": sent.entries}).encode()
    headers = user.signed_headers("POST", "/objects/put", body)

    def send() -> Reply:
        return node.ask("POST", "/objects/put", body, headers=headers)

    statuses = [send().status, send().status]
    node.restart()
    statuses.append(send().status)

    assert statuses == [200, 401, 401]


def test_every_accepted_push_survives_kills(node: Node) -> None:
    user = node.user()
    times = random.Random(7)  # noqa: S311 - when to kill is no secret
    accepted: dict[str, SentTree] = {}
    enough, is_up = Event(), Event()

    def sync(number: int) -> None:
        sent = tree({**FILES, "number": b"%d" % number, "size": b"%d" % number * 50_000})
        insist(lambda: put(user, sent.entries), is_up)
        accepted[insist(lambda: push_until_accepted(user, sent.manifest_hash), is_up)] = sent

    def sync_on_and_on() -> None:
        number = 0
        while not enough.is_set():
            sync(number)
            number += 1

    client = Thread(target=sync_on_and_on)
    client.start()
    for _ in range(5):
        enough.wait(times.uniform(0.0, 0.4))
        is_up.clear()
        node.restart()
        is_up.set()
    enough.set()
    client.join()

    assert accepted
    assert [one["_hash"] for one in history(user)] == list(reversed(accepted))
    assert all(is_whole(user, sent) for sent in accepted.values())
