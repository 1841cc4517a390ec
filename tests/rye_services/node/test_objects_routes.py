import json
from base64 import b64encode
from pathlib import Path
from typing import Literal

import pytest

from lillux.digests import sha256_hex
from lillux.store_layout import ObjectKind
from rye_services.node.store.objects import UserStores
from ryeos.sync.entries import ContentEntry, decode
from ryeos.sync.framed_entries import MEDIA_TYPE, framed, read_entries
from tests.support.node import Node, User, running_node
from tests.support.node_sync import blob_entry, contents_of, object_entry, put

pytest_plugins = ("tests.support.node",)

NOWHERE = "0" * 64


@pytest.fixture
def user(shared_node: Node) -> User:
    """A new user of a node."""
    return shared_node.user()


@pytest.mark.parametrize("auth", ["signed", "bearer"])
def test_stored_entries_are_present_and_returned(
    user: User, auth: Literal["signed", "bearer"]
) -> None:
    blob, value = blob_entry(b"\0\xff"), object_entry({"kind": "mine", "n": [1]})
    digests = [value["hash"], NOWHERE, blob["hash"], value["hash"]]

    stored = user.ask("POST", "/objects/put", {"entries": [blob, value]}, auth=auth)
    has = user.ask("POST", "/objects/has", {"hashes": digests}, auth=auth)
    got = user.ask("POST", "/objects/get", {"hashes": digests}, auth=auth)

    assert stored.answer == (200, {"stored": [blob["hash"], value["hash"]]})
    assert has.answer == (
        200,
        {"present": [value["hash"], blob["hash"]], "missing": [NOWHERE]},
    )
    assert got.answer == (200, {"entries": [value, blob, value]})


def test_a_verifying_request_reports_damaged_objects_and_sets_them_aside(
    user: User,
) -> None:
    sound, damaged = blob_entry(b"sound"), blob_entry(b"damaged")
    value = object_entry({"kind": "mine"})
    put(user, [sound, damaged, value])
    store = UserStores(user.node.settings.cas_base_path).of(user.user_id)
    store.path_of(ObjectKind.BLOB, damaged["hash"]).write_bytes(b"damageD")
    store.path_of(ObjectKind.OBJECT, value["hash"]).write_bytes(b"")
    digests = [damaged["hash"], sound["hash"], value["hash"], NOWHERE, "no digest"]

    looked = user.ask("POST", "/objects/has", {"hashes": digests})
    read = user.ask("POST", "/objects/has", {"hashes": digests, "verify": True})

    assert looked.json["missing"] == [NOWHERE, "no digest"]
    assert read.json == {
        "present": [sound["hash"]],
        "missing": [damaged["hash"], value["hash"], NOWHERE, "no digest"],
    }
    aside = sorted(path.read_bytes() for path in (store.root / "damaged").iterdir())
    assert aside == [b"", b"damageD"]


def test_a_put_replaces_damaged_content(user: User) -> None:
    entry = blob_entry(b"content")
    put(user, [entry])
    store = UserStores(user.node.settings.cas_base_path).of(user.user_id)
    store.path_of(ObjectKind.BLOB, entry["hash"]).write_bytes(b"CONTENT")

    assert put(user, [entry]).status == 200

    assert contents_of(user, [entry["hash"]]) == {entry["hash"]: b"content"}


def test_a_client_that_accepts_frames_gets_a_binary_answer(user: User) -> None:
    blob, value = blob_entry(b"\0\xff"), object_entry({"kind": "mine", "n": [1]})
    put(user, [blob, value])
    wanted = {"hashes": [value["hash"], NOWHERE, blob["hash"]]}

    got = user.ask("POST", "/objects/get", wanted, headers={"Accept": f"{MEDIA_TYPE}, */*;q=0.1"})

    assert got.headers["content-type"] == MEDIA_TYPE
    assert got.headers["vary"] == "Accept"
    assert list(read_entries(got.body, {*wanted["hashes"]})) == [decode(value), decode(blob)]


@pytest.mark.parametrize(
    "accept",
    [
        *("*/*", "application/json", f"{MEDIA_TYPE};q=0", f"{MEDIA_TYPE}; q=0.000, */*", ";,;"),
        *(f"{MEDIA_TYPE};q=0.5, application/json", f"{MEDIA_TYPE};\tq=0;x=1, {MEDIA_TYPE}"),
    ],
)
def test_a_client_that_does_not_accept_frames_gets_json(user: User, accept: str) -> None:
    blob = blob_entry(b"plain")
    put(user, [blob])
    wanted = {"hashes": [blob["hash"]]}

    got = user.ask("POST", "/objects/get", wanted, headers={"Accept": accept})

    assert got.headers["content-type"] == "application/json"
    assert got.json == {"entries": [blob]}


def test_a_user_cannot_see_objects_of_another_user(user: User, shared_node: Node) -> None:
    blob = blob_entry(b"mine")
    put(user, [blob])

    other = shared_node.user()

    assert other.ask("POST", "/objects/has", {"hashes": [blob["hash"]]}).json["present"] == []
    assert contents_of(other, [blob["hash"]]) == {}


def test_sound_entries_of_a_request_are_kept(user: User) -> None:
    good, other = blob_entry(b"good"), blob_entry(b"other")
    wrong_hash = {**blob_entry(b"x"), "hash": NOWHERE}
    no_json = {**blob_entry(b"{"), "kind": "object"}
    no_base64 = {**other, "data": "#" + other["data"]}

    reply = put(user, [wrong_hash, good, no_json, no_base64, {}])

    assert reply.status == 400
    detail = reply.json["detail"]
    assert detail["stored"] == [good["hash"]]
    assert [error["hash"] for error in detail["errors"]] == [
        NOWHERE,
        no_json["hash"],
        no_base64["hash"],
        "unknown",
    ]
    assert contents_of(user, [good["hash"], other["hash"]]) == {good["hash"]: b"good"}


def test_an_object_is_stored_under_the_digest_of_its_value(user: User) -> None:
    value = object_entry({"a": "ä", "b": 1})
    indented = b64encode(json.dumps({"b": 1, "a": "ä"}, indent=4).encode()).decode()

    reply = put(user, [{**value, "data": indented}])

    assert reply.answer == (200, {"stored": [value["hash"]]})
    assert contents_of(user, [value["hash"]]) == {value["hash"]: b'{"a":"\\u00e4","b":1}'}


@pytest.mark.parametrize(
    "digest", ["../../../../etc/passwd", "", "A" * 64, "a" * 63, "a" * 300, "ä" * 64]
)
def test_an_invalid_digest_is_reported_as_missing(user: User, digest: str) -> None:
    reply = user.ask("POST", "/objects/has", {"hashes": [digest]})

    assert reply.answer == (200, {"present": [], "missing": [digest]})
    assert user.ask("POST", "/objects/get", {"hashes": [digest]}).answer == (200, {"entries": []})


@pytest.mark.parametrize(
    ("route", "body"),
    [
        ("has", {"hashes": "x"}),
        ("has", {"hashes": [1]}),
        ("has", {}),
        ("has", []),
        ("get", {"hashes": None}),
        ("get", b"{"),
        ("get", b"\xff"),
        ("put", {"entries": {}}),
        ("put", {"entries": ["x"]}),
        ("put", b'{"entries": ' + b"[" * 5000),
        ("put", b""),
        ("has", {"hashes": [""] * 200_001}),
    ],
)
def test_a_body_of_another_shape_is_refused(user: User, route: str, body: object) -> None:
    reply = user.ask("POST", f"/objects/{route}", body)

    assert reply.status == 422
    assert isinstance(reply.json["detail"], list)


def test_only_the_too_deeply_nested_object_is_refused(user: User) -> None:
    data = b"[" * 100_000 + b"]" * 100_000
    entry = {"hash": sha256_hex(data), "kind": "object", "data": b64encode(data).decode()}

    reply = put(user, [entry, blob_entry(b"good")])

    assert reply.status == 400
    assert reply.json["detail"]["stored"] == [sha256_hex(b"good")]


def test_a_key_for_pushes_only_cannot_read_objects(shared_node: Node) -> None:
    pusher = shared_node.user(scopes=("remote:push",))

    reply = pusher.ask("POST", "/objects/has", {"hashes": []})

    assert reply.answer == (403, {"detail": "this key lacks the scope remote:objects"})


def test_a_large_blob_comes_back_whole(user: User) -> None:
    data = bytes(range(256)) * 40_000
    put(user, [blob_entry(data)])

    assert contents_of(user, [sha256_hex(data)]) == {sha256_hex(data): data}


@pytest.mark.heavy
def test_a_user_cannot_exceed_the_storage_quota(tmp_path: Path) -> None:
    limits = {"MAX_USER_STORAGE_BYTES": "1000"}
    with running_node(tmp_path / "node", environ=limits) as node:
        user = node.user()
        first, second = blob_entry(b"1" * 600), blob_entry(b"2" * 600)

        assert put(user, [first]).status == 200
        refused = put(user, [second])
        again = put(user, [first])
        too_much = user.ask("POST", "/objects/get", {"hashes": [first["hash"]] * 2})

        assert refused.answer == (
            507,
            {"detail": "storage quota exceeded: 1000 bytes allowed, 600 stored, 600 more sent"},
        )
        assert again.status == 200
        assert too_much.answer == (
            413,
            {"detail": "expected hashes of at most 1000 bytes together, found 1200 bytes"},
        )
        assert put(node.user(), [second]).status == 200


# --- frames that are sent -------------------------------------------------------------------------

FRAMES = {"Content-Type": MEDIA_TYPE}


def entries(*contents: bytes) -> list[ContentEntry]:
    """Blobs with these contents."""
    return [ContentEntry(sha256_hex(data), "blob", data) for data in contents]


def test_a_node_announces_and_accepts_frames(user: User) -> None:
    sent = [*entries(b"\0\xff", b""), decode(object_entry({"kind": "mine"}))]
    digests = [entry.digest for entry in sent]

    has = user.ask("POST", "/objects/has", {"hashes": digests})
    put_ = user.ask("POST", "/objects/put", b"".join(framed(sent)), headers=FRAMES)

    assert has.headers["rye-put"] == MEDIA_TYPE
    assert put_.answer == (200, {"stored": digests})
    assert user.ask("POST", "/objects/has", {"hashes": digests}).json["missing"] == []
    assert contents_of(user, digests) == {entry.digest: entry.data for entry in sent}


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        (b"".join(framed(entries(b"a", b"b")))[:-1], "expected an entry, or the end that counts 2"),
        (b"".join(framed(entries(b"a", b"a"))), "came twice"),
        (b'{"entries":[]}', "expected b'rye entries 1"),
        (b"".join(framed([ContentEntry("", "object", b'{"b": 1}')])), "expected canonical JSON"),
        (b"".join(framed([ContentEntry("", "object", b"no JSON")])), "expected an object's JSON"),
        (b"", "expected b'rye entries 1"),
    ],
    ids=range(6),
)
def test_invalid_frames_store_no_object(user: User, body: bytes, problem: str) -> None:
    answer = user.ask("POST", "/objects/put", body, headers=FRAMES)

    assert answer.status == 400
    assert problem in answer.json["detail"]["errors"][0]["error"]
    digests = [sha256_hex(b"a"), sha256_hex(b"b"), sha256_hex(b'{"b": 1}')]
    assert user.ask("POST", "/objects/has", {"hashes": digests}).json["present"] == []
