import json
from base64 import b64encode
from pathlib import Path

import pytest

from lillux.digests import sha256_hex
from lillux.store import Durability, Store
from lillux.store_layout import ObjectKind
from ryeos.remote import transfer
from ryeos.remote.errors import RemoteReplyError, ReplyTooLargeError
from ryeos.remote.node import Node
from ryeos.remote.pins import Pins
from ryeos.remote.transfer import fetch, fetch_available, send
from ryeos.sync.entries import SizedContent
from tests.support.memory_node import MemoryNode, reply

MIB = 1024 * 1024


@pytest.fixture
def node(memory_node: MemoryNode, tmp_path: Path) -> Node:
    return Node(memory_node, Pins(tmp_path / "user"))


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store")


def size_in(store: Store, digest: str) -> SizedContent:
    return SizedContent(digest, len(store.get_blob(digest)))


def sent(node: Node, store: Store, digests: list[str]) -> int:
    return send(node, digests, store, lambda digest: size_in(store, digest))


def test_sent_objects_can_be_fetched(node: Node, store: Store, tmp_path: Path) -> None:
    digests = [store.put_blob(b"%d" % number) for number in range(700)]
    other = Store(tmp_path / "other")

    assert sent(node, store, digests) == 700
    assert fetch(node, digests, other) == 700

    assert [other.get_blob(digest) for digest in digests] == [b"%d" % n for n in range(700)]


def test_present_objects_are_neither_sent_nor_fetched(node: Node, store: Store) -> None:
    digests = [store.put_blob(b"a")]
    sent(node, store, digests)

    assert sent(node, store, digests) == 0
    assert fetch(node, digests, store) == 0


def test_requests_are_bounded(node: Node, store: Store, memory_node: MemoryNode) -> None:
    digests = [store.put_blob(bytes([number]) * 3 * MIB) for number in range(6)]

    sent(node, store, digests)

    assert memory_node.count("POST /objects/put") == 3  # two of 3 MiB in each


def test_after_a_too_large_reply_fewer_objects_are_requested(
    node: Node, store: Store, memory_node: MemoryNode, tmp_path: Path
) -> None:
    digests = [store.put_blob(b"%d" % number) for number in range(40)]
    sent(node, store, digests)
    other = Store(tmp_path / "other")

    def limited(_: str, path: str) -> None:
        if path == "/objects/get" and len(memory_node.requests) < 5:
            raise ReplyTooLargeError("remote", "too large")

    memory_node.before = limited

    assert fetch(node, digests, other) == 40


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("count", "size", "requests"),
    [
        (1200, 8, 3),  # 200 and 200, then all the others
        (4000, 8, 4),  # and never more than 2000
        (600, 1024, 6),  # 200 and 200, then 64 at a time
    ],
)
def test_the_size_of_requests_adapts_to_the_size_of_replies(
    node: Node,
    memory_node: MemoryNode,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    *,
    count: int,
    size: int,
    requests: int,
) -> None:
    monkeypatch.setattr(transfer, "GOOD_REPLY", 64 * 1024)
    store = Store(tmp_path / "here")
    digests = [
        store.put_blob(b"%08d" % one * (size // 8), Durability.UNFORCED) for one in range(count)
    ]
    sent(node, store, digests)

    assert fetch(node, digests, Store(tmp_path / "other")) == count

    assert memory_node.count("POST /objects/get") == requests


def test_a_digest_is_looked_up_in_its_own_object_kind(
    node: Node, store: Store, tmp_path: Path
) -> None:
    digest = store.put_object({"a": 1})
    send(node, [digest], store, lambda digest: SizedContent(digest, 7))
    other = Store(tmp_path / "other")
    other.put_object({"a": 1})

    assert fetch(node, [digest], other, space=ObjectKind.OBJECT) == 0
    assert fetch(node, [digest], other, space=ObjectKind.BLOB) == 1


def test_objects_left_out_of_a_reply_are_requested_again(
    node: Node, store: Store, memory_node: MemoryNode, tmp_path: Path
) -> None:
    digests = [store.put_blob(b"%d" % number) for number in range(5)]
    sent(node, store, digests)
    left = list(digests)

    def one_at_a_time(_: str, path: str) -> object:
        if path != "/objects/get":
            return None
        digest = left.pop(0)
        data = b64encode(store.get_blob(digest)).decode()
        return reply({"entries": [{"hash": digest, "kind": "blob", "data": data}]})

    memory_node.before = one_at_a_time  # type: ignore[assignment]

    assert fetch(node, digests, Store(tmp_path / "other")) == 5


def test_missing_objects_of_a_node_are_named(node: Node, store: Store) -> None:
    digests = [store.put_blob(b"a")]
    sent(node, store, digests)
    gone = sha256_hex(b"gone")

    with pytest.raises(RemoteReplyError, match=f"expected {gone}, found nothing"):
        fetch(node, [*digests, gone], store)

    assert fetch_available(node, [gone], store) == (0, (gone,))


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        ({"hash": sha256_hex(b"a"), "kind": "blob", "data": "Yg=="}, "expected that of the data"),
        ({"hash": sha256_hex(b"b"), "kind": "blob", "data": "Yg=="}, "was not asked for"),
        ({"hash": "x", "kind": "blob", "data": "Yg=="}, "hex digits"),
        ("x", "expected a list of objects"),
    ],
)
def test_false_content_of_a_node_is_refused(
    node: Node, store: Store, memory_node: MemoryNode, answer: object, problem: str
) -> None:
    memory_node.before = lambda _, path: (
        reply({"entries": [answer]}) if path == "/objects/get" else None
    )

    with pytest.raises(RemoteReplyError, match=problem):
        fetch(node, [sha256_hex(b"a")], store)

    assert not store.has_blob(sha256_hex(b"a"))


def test_a_node_has_to_answer_for_each_digest(
    node: Node, store: Store, memory_node: MemoryNode
) -> None:
    digests = [store.put_blob(b"a")]
    memory_node.before = lambda _, path: (
        reply({"present": [], "missing": []}) if path == "/objects/has" else None
    )

    with pytest.raises(RemoteReplyError, match="an answer for each digest"):
        sent(node, store, digests)


def test_a_missing_object_cannot_be_sent(node: Node, store: Store) -> None:
    gone = sha256_hex(b"gone")

    with pytest.raises(Exception, match=gone):
        send(node, [gone], store, lambda digest: SizedContent(digest, 1))


def test_the_body_of_a_put_is_json_of_entries(
    node: Node, store: Store, memory_node: MemoryNode
) -> None:
    digests = [store.put_blob(b'"\\'), store.put_object({"a": 1})]

    send(node, digests, store, lambda digest: SizedContent(digest, 1))

    entries = memory_node.bodies[-1]["entries"]
    assert [entry["hash"] for entry in entries] == digests
    assert [entry["kind"] for entry in entries] == ["blob", "object"]
    assert json.dumps(entries)


def test_many_digests_are_compared_in_parts(
    node: Node, store: Store, memory_node: MemoryNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transfer, "MAX_COMPARED", 3)
    digests = [store.put_blob(b"%d" % number) for number in range(8)]

    sent(node, store, digests)

    assert memory_node.count("POST /objects/has") == 3
