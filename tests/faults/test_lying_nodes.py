"""Nodes that lie: the client writes nothing of their answers, and reports the problem."""

import gzip
import json
from base64 import b64encode
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from lillux.canonical_json import canonical_json
from lillux.digests import sha256_hex
from ryeos.sync.framed_entries import START, end_of
from ryeos.sync.objects import SourceManifest
from tests.support.node import Node, Reply, running_node
from tests.support.node_proxy import Proxy, proxy_to
from tests.support.remote_client import Client, files_there

pytestmark = pytest.mark.heavy

REFUSED = (4, 7)
"""Integrity, and what a remote may do wrong."""


@pytest.fixture
def behind(proxy: Proxy, client: Client, other: Client) -> Client:
    """A client whose node has changes for it."""
    client.push()
    other.pull()
    other.write({"src/0.txt": "from elsewhere\n", "src/more.txt": "more\n"})
    other.push()
    proxy.requests.clear()
    return client


def with_body(reply: Reply, body: bytes, **headers: str) -> Reply:
    """Another body of the same reply."""
    return Reply(reply.status, {**reply.headers, **headers}, body)


def with_json(reply: Reply, value: object) -> Reply:
    """Another document of the same reply."""
    return with_body(reply, json.dumps(value).encode(), **{"content-type": "application/json"})


def frames_of(reply: Reply) -> list[tuple[bytes, bytes]]:
    """Kind and content of each entry of a reply in frames."""
    frames, position, data = [], len(START), reply.body
    while data[position : position + 1] != b"e":
        end = position + 5 + int.from_bytes(data[position + 1 : position + 5], "big")
        frames.append((data[position : position + 1], data[position + 5 : end]))
        position = end
    return frames


def in_frames(frames: list[tuple[bytes, bytes]]) -> bytes:
    """The body of these."""
    parts = (kind + len(data).to_bytes(4, "big") + data for kind, data in frames)
    return START + b"".join(parts) + end_of(len(frames))


def entries_of(reply: Reply) -> dict[str, Any]:
    """The answer of a node that knows no frames."""
    kinds = {b"b": "blob", b"o": "object"}
    entries = [
        {"hash": sha256_hex(data), "kind": kinds[kind], "data": b64encode(data).decode()}
        for kind, data in frames_of(reply)
    ]
    return {"entries": entries}


def pull_is_refused(client: Client) -> str:
    """The error of a pull, which has changed nothing of the project."""
    files, recorded = client.files(), client.recorded()

    ended = client("remote", "pull")

    assert ended.status in REFUSED, (ended.stdout, ended.stderr)
    assert (client.files(), client.recorded()) == (files, recorded)
    assert "Traceback" not in ended.stderr
    assert ended.stderr.count("error: ") == 1
    return ended.stderr


# --- content --------------------------------------------------------------------------------------


def other_bytes(entry: dict[str, Any]) -> None:
    entry["data"] = b64encode(b"something else").decode()


def not_requested(entry: dict[str, Any]) -> None:
    entry.update(hash=sha256_hex(b"x"), kind="blob", data=b64encode(b"x").decode())


def other_kind(entry: dict[str, Any]) -> None:
    entry["kind"] = "blob"


def no_base64(entry: dict[str, Any]) -> None:
    entry["data"] = "!!!"


def no_text(entry: dict[str, Any]) -> None:
    entry["data"] = 1


@pytest.mark.parametrize("change", [other_bytes, not_requested, no_base64, no_text])
def test_content_with_another_digest_is_refused(
    proxy: Proxy, behind: Client, change: Callable[[dict[str, Any]], None]
) -> None:
    def lie(path: str, reply: Reply) -> Reply:
        if path != "/objects/get":
            return reply
        value = entries_of(reply)
        change(value["entries"][0])
        return with_json(reply, value)

    proxy.rewrite = lie

    assert "remote default: /objects/get: " in pull_is_refused(behind)


def test_right_bytes_under_another_kind_do_no_harm(
    proxy: Proxy, behind: Client, other: Client
) -> None:
    def lie(path: str, reply: Reply) -> Reply:
        if path != "/objects/get":
            return reply
        value = entries_of(reply)
        for entry in value["entries"]:
            other_kind(entry)
        return with_json(reply, value)

    proxy.rewrite = lie

    pulled = behind("remote", "pull")

    assert pulled.status == 0, pulled.stderr
    assert behind.files() == other.files()


def test_more_entries_than_were_requested_are_refused(proxy: Proxy, behind: Client) -> None:
    def lie(path: str, reply: Reply) -> Reply:
        if path != "/objects/get":
            return reply
        entries = entries_of(reply)["entries"]
        return with_json(reply, {"entries": entries * 2})

    proxy.rewrite = lie

    assert "expected at most " in pull_is_refused(behind)


Frames = list[tuple[bytes, bytes]]


@pytest.mark.parametrize(
    "change",
    [
        lambda frames: in_frames([(frames[0][0], b"something else"), *frames[1:]]),
        lambda frames: in_frames([*frames, frames[0]]),
        lambda frames: in_frames([*frames, (b"b", b"not requested")]),
        lambda frames: in_frames([*frames, (b"x", b"of no kind")]),
        lambda frames: in_frames(frames)[:-1],
        lambda frames: in_frames(frames) + b"more",
        lambda frames: in_frames(frames).replace(START, b"rye entries 2\n"),
        lambda _: json.dumps({"entries": []}).encode(),
        lambda _: START + b"b" + b"\xff" * 4,
        lambda _: START + b"b\0\0\0\0" * 100_000 + end_of(100_000),
    ],
    ids=["bytes", "twice", "foreign", "kind", "cut", "more", "version", "JSON", "long", "many"],
)
def test_frames_that_were_not_requested_are_refused(
    proxy: Proxy, behind: Client, change: Callable[[Frames], bytes]
) -> None:
    proxy.rewrite = lambda path, reply: (
        with_body(reply, change(frames_of(reply))) if path == "/objects/get" else reply
    )

    assert "remote default: /objects/get: " in pull_is_refused(behind)


def test_frames_of_another_kind_do_no_harm(proxy: Proxy, behind: Client, other: Client) -> None:
    proxy.rewrite = lambda path, reply: (
        with_body(reply, in_frames([(b"b", data) for _, data in frames_of(reply)]))
        if path == "/objects/get"
        else reply
    )

    pulled = behind("remote", "pull")

    assert pulled.status == 0, pulled.stderr
    assert behind.files() == other.files()


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"[]", b'"text"', b'{"entries": 1}', b'{"entries": [1]}', b"[" * 100_000, b"\xff"],
    ids=["nothing", "cut", "a list", "a text", "no list", "a number", "deep", "no UTF-8"],
)
def test_an_answer_of_another_shape_is_refused(proxy: Proxy, behind: Client, body: bytes) -> None:
    proxy.rewrite = lambda path, reply: with_body(reply, body) if "get" in path else reply

    assert "remote default: /objects/get: " in pull_is_refused(behind)


def test_promised_content_that_is_missing_is_named(proxy: Proxy, behind: Client) -> None:
    proxy.rewrite = lambda path, reply: (
        with_json(reply, {"entries": []}) if path == "/objects/get" else reply
    )

    assert "found nothing" in pull_is_refused(behind)


# --- places ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("../evil.txt", "'..' segments are not allowed"),
        ("src/../../evil.txt", "'..' segments are not allowed"),
        ("/tmp/evil.txt", "expected a relative path, found an absolute one"),
        ("C:/evil.txt", "':' is not allowed"),
        ("src\\..\\..\\evil.txt", "expected '/' as separator, found a backslash"),
        ("src//evil.txt", "empty segments are not allowed"),
        ("src/evil.txt\x00", "control characters are not allowed"),
        (".ai/state/remote/default/lock", "do not trust who sent it"),
        (".AI/state/evil.txt", "do not trust who sent it"),
        ("src/0.txt/evil.txt", "'src/0.txt/evil.txt' needs a folder there"),
    ],
)
def test_a_path_that_leads_elsewhere_is_refused(
    proxy: Proxy, behind: Client, path: str, words: str
) -> None:
    blob = b"evil"
    files = {path: sha256_hex(blob), "src/0.txt": sha256_hex(blob)}
    manifest = canonical_json(SourceManifest("project", {}, files).as_object())

    def lie(requested: str, reply: Reply) -> Reply:
        if requested == "/history":
            value = reply.json
            value["snapshots"][0]["project_manifest_hash"] = sha256_hex(manifest)
            return with_json(reply, value)
        if requested == "/objects/get":  # the manifest comes first, and then the blob
            is_first = proxy.requests.count(requested) == 1
            kind, data = ("object", manifest) if is_first else ("blob", blob)
            entry = {"hash": sha256_hex(data), "kind": kind, "data": b64encode(data).decode()}
            return with_json(reply, {"entries": [entry]})
        return reply

    proxy.rewrite = lie
    around = {file for file in behind.root.parent.rglob("*") if file.name.startswith("evil")}

    said = pull_is_refused(behind)

    assert words in said
    assert around == set()
    assert not [file for file in behind.root.parent.rglob("*") if file.name.startswith("evil")]


# --- size, addresses, identity --------------------------------------------------------------------


@pytest.mark.parametrize("path", ["/public-key", "/history", "/objects/get"])
@pytest.mark.parametrize("is_packed", [False, True])
def test_an_answer_without_end_is_not_read_to_its_end(
    proxy: Proxy, behind: Client, path: str, *, is_packed: bool
) -> None:
    huge = b" " * (80 * 1024 * 1024)
    body = gzip.compress(huge, 1) if is_packed else huge
    headers = {"content-encoding": "gzip"} if is_packed else {}
    proxy.rewrite = lambda requested, reply: (
        with_body(reply, body, **headers) if requested == path else reply
    )

    said = pull_is_refused(behind)

    assert f"remote default: {path}: " in said
    assert proxy.requests.count(path) == 1


@pytest.fixture
def stranger(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    """Another node."""
    with running_node(tmp_path_factory.mktemp("stranger") / "node") as running:
        yield running


@pytest.mark.parametrize("status", [301, 302, 307, 308])
@pytest.mark.parametrize("path", ["/public-key", "/history"])
def test_a_node_redirects_no_client(proxy: Proxy, behind: Client, status: int, path: str) -> None:
    with proxy_to(proxy.node) as elsewhere:
        location = {"location": f"{elsewhere.url}{path}?project_path=project&limit=1"}
        proxy.rewrite = lambda requested, reply: (
            Reply(status, {**reply.headers, **location}, b"") if requested == path else reply
        )

        pull_is_refused(behind)

        assert elsewhere.requests == []


def test_another_node_at_the_same_address_learns_nothing(
    proxy: Proxy, behind: Client, stranger: Node
) -> None:
    proxy.node = stranger

    said = pull_is_refused(behind)

    assert proxy.requests == ["/public-key"]
    assert stranger.keys.node_id.removeprefix("fp:") in said


# --- a push to a lying node -----------------------------------------------------------------------


def test_a_node_that_claims_to_have_missing_content_gets_no_head(
    proxy: Proxy, client: Client
) -> None:
    client.push()
    before = client.recorded()
    client.write({"src/0.txt": "changed\n" * 100_000})  # too much to be sent without a question

    def lie(path: str, reply: Reply) -> Reply:
        if path != "/objects/has":
            return reply
        value = reply.json
        return with_json(reply, {"missing": [], "present": value["present"] + value["missing"]})

    proxy.rewrite = lie
    refused = client("remote", "push")
    proxy.rewrite = lambda _, reply: reply
    again = client("remote", "push")

    assert refused.status == 7
    assert before is not None
    assert files_there(client.user, before.snapshot_hash)["src/0.txt"] == b"0\n"
    assert again.status == 0, again.stderr
    assert files_there(client.user) == client.files()


def test_a_head_that_is_no_digest_is_not_recorded(proxy: Proxy, client: Client) -> None:
    client.push()
    before = client.recorded()
    client.write({"src/0.txt": "changed\n"})
    proxy.rewrite = lambda path, reply: (
        with_json(reply, {"snapshot_hash": "../../evil"}) if path == "/push" else reply
    )

    refused = client("remote", "push")

    assert refused.status == 7
    assert client.recorded() == before
