from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

import ryeos
from lillux.store_layout import ObjectKind
from rye_services.node.store.objects import UserStores
from ryeos.sync.objects import changes_between
from tests.support.node import Node, Reply, User
from tests.support.node_sync import (
    PROJECT,
    blob_entry,
    contents_of,
    history,
    push,
    push_tree,
    push_until_accepted,
    put,
    tree,
)

pytest_plugins = ("tests.support.node",)

NOWHERE = "0" * 64
FILES = {".ai/tools/probe/echo.py": b"print(1)\n", "src/x.py": b"x = 1\n"}


@pytest.fixture
def user(shared_node: Node) -> User:
    """A new user of a node."""
    return shared_node.user()


def test_a_push_is_answered_with_the_new_head(user: User) -> None:
    sent = tree(FILES)
    put(user, sent.entries)

    reply = push(user, sent.manifest_hash)

    head = history(user)[0]
    assert reply.answer == (
        200,
        {
            "status": "ok",
            "remote_name": "default",
            "project_path": PROJECT,
            "project_manifest_hash": sent.manifest_hash,
            "user_manifest_hash": None,
            "snapshot_hash": head["_hash"],
            "snapshot_revision": 1,
        },
    )
    assert head["project_manifest_hash"] == sent.manifest_hash
    assert set(contents_of(user, sent.digests)) == set(sent.digests)


def test_a_repeated_push_is_answered_with_the_same_head(user: User) -> None:
    snapshot = push_tree(user, FILES)

    assert push_tree(user, FILES, snapshot) == snapshot
    assert len(history(user)) == 1


def changed(
    user: User,
    snapshot: str,
    before: dict[str, bytes],
    after: dict[str, bytes],
    **more: Any,  # noqa: ANN401 - JSON
) -> Reply:
    """Push the changes between two trees in one request."""
    old, new = tree(before), tree(after)
    known = set(old.digests)
    changes = changes_between(old.manifest, new.manifest)
    body = {
        "changes": {"items": dict(changes.items), "files": dict(changes.files)},
        "entries": [one for one in new.entries[:-1] if one["hash"] not in known],
        **more,
    }
    return push(user, new.manifest_hash, snapshot, **body)


def test_a_push_may_send_only_its_changes(user: User) -> None:
    snapshot = push_tree(user, {**FILES, "src/y.py": b"y = 1\n"})
    after = {".ai/tools/probe/echo.py": b"print(2)\n", "src/x.py": b"x = 1\n", "new": b"new"}

    reply = changed(user, snapshot, {**FILES, "src/y.py": b"y = 1\n"}, after)

    assert reply.status == 200, reply.json
    assert reply.json["project_manifest_hash"] == tree(after).manifest_hash
    assert set(contents_of(user, tree(after).digests)) == set(tree(after).digests)
    assert history(user)[0]["_hash"] == reply.json["snapshot_hash"]


def test_changes_against_another_head_are_not_stored(user: User) -> None:
    push_tree(user, FILES)
    after = {**FILES, "new": b"new in a push that comes too late"}

    reply = changed(user, NOWHERE, FILES, after)

    assert reply.status == 409
    assert contents_of(user, tree(after).digests).keys() <= set(tree(FILES).digests)


def test_changes_that_make_another_manifest_are_refused(user: User) -> None:
    snapshot = push_tree(user, FILES)
    after = {**FILES, "new": b"1"}

    reply = changed(user, snapshot, FILES, after, changes={"files": {"other": "1" * 64}})

    assert reply.status == 400
    assert "they make" in reply.json["detail"]
    assert history(user)[0]["_hash"] == snapshot


def test_an_entry_that_is_damaged_stops_a_push(user: User) -> None:
    snapshot = push_tree(user, FILES)
    after = {**FILES, "new": b"1"}
    damaged = {**blob_entry(b"1"), "data": "AAAA"}

    reply = changed(user, snapshot, FILES, after, entries=[damaged])

    assert reply.status == 400
    assert history(user)[0]["_hash"] == snapshot


def test_a_key_for_pushes_alone_cannot_bring_content(shared_node: Node) -> None:
    pusher = shared_node.user(scopes=("remote:push",))

    replies = [push(pusher, NOWHERE, changes={}), push(pusher, NOWHERE, entries=[blob_entry(b"1")])]

    refused = (403, {"detail": "this key lacks the scope remote:objects"})
    assert [reply.answer for reply in replies] == [refused, refused]


def test_the_history_includes_the_terms_for_the_next_push(user: User) -> None:
    push_tree(user, FILES)
    sent = tree({".ai/config/a.yaml": b"a: 1\n"}, "user")
    put(user, sent.entries)

    def terms() -> Any:  # noqa: ANN401 - JSON
        return user.ask("GET", f"/history?project_path={PROJECT}&limit=1").json["push_terms"]

    expected = {"takes_changes": True, "engine_version": ryeos.__version__}
    assert terms() == {**expected, "user_manifest_hash": None}
    body = {"user_manifest_hash": sent.manifest_hash, "expected_revision": None}
    assert user.ask("POST", "/push/user-space", body).status == 200
    assert terms() == {**expected, "user_manifest_hash": sent.manifest_hash}


def test_a_push_names_content_that_was_not_uploaded(user: User) -> None:
    sent = tree({"a": b"1"})
    put(user, sent.entries[1:])

    reply = push(user, sent.manifest_hash)

    missing = f"files: 'a': blob {sent.digests[0]} is missing"
    assert reply.answer == (400, {"detail": f"manifest {sent.manifest_hash}: {missing}"})
    assert user.ask("GET", f"/history?project_path={PROJECT}").status == 404


def test_a_push_on_another_head_says_where_the_head_is(user: User) -> None:
    snapshot = push_tree(user, FILES)
    sent = tree({"a": b"1"})
    put(user, sent.entries)

    reply = push(user, sent.manifest_hash, NOWHERE)

    detail = {"error": "HEAD has moved", "expected": NOWHERE, "actual": snapshot, "revision": 1}
    assert reply.answer == (409, {"detail": detail})


def test_another_version_is_refused_with_a_reason(user: User) -> None:
    sent = tree(FILES)
    put(user, sent.entries)

    reply = push(user, sent.manifest_hash, system_version="7.0.0")

    assert reply.status == 409
    assert reply.json["detail"].startswith("system_version: expected 0.1.x")


@pytest.mark.parametrize(
    "body",
    [
        {"project_path": ""},
        {"project_path": "x" * 1025},
        {"project_path": "a\nb"},
        {"project_path": None},
        {"project_manifest_hash": 1},
        {"system_version": None},
        {"expected_snapshot_hash": 1},
    ],
)
def test_a_body_of_another_shape_is_refused(user: User, body: dict[str, Any]) -> None:
    assert push(user, NOWHERE, **body).status == 422


def test_a_key_for_objects_only_cannot_push(shared_node: Node) -> None:
    uploader = shared_node.user(scopes=("remote:objects",))

    assert push(uploader, NOWHERE).status == 403


def test_each_project_has_its_own_head(user: User) -> None:
    snapshot = push_tree(user, FILES)

    other = push(user, tree(FILES).manifest_hash, project_path="ada/other")

    assert other.json["snapshot_revision"] == 1
    assert [one["_hash"] for one in history(user)] == [snapshot]


@pytest.mark.heavy
def test_every_push_of_fifty_simultaneous_clients_is_an_ancestor_of_the_head(user: User) -> None:
    start = push_tree(user, FILES)
    trees = [tree({**FILES, "number": b"%d" % number}) for number in range(50)]
    put(user, [entry for sent in trees for entry in sent.entries])

    with ThreadPoolExecutor(50) as clients:
        manifests = [sent.manifest_hash for sent in trees]
        accepted = list(clients.map(lambda one: push_until_accepted(user, one), manifests))

    snapshots = [one["_hash"] for one in history(user)]
    assert len(set(accepted)) == 50
    assert sorted(snapshots) == sorted([start, *accepted])


def test_a_user_space_is_replaced_revision_by_revision(user: User) -> None:
    one, two = (tree({".ai/config/a.yaml": data}, "user") for data in (b"a: 1\n", b"a: 2\n"))
    put(user, [*one.entries, *two.entries])

    def push_space(manifest_hash: str, revision: int | None) -> int:
        body = {"user_manifest_hash": manifest_hash, "expected_revision": revision}
        return user.ask("POST", "/push/user-space", body).status

    assert user.ask("GET", "/user-space").status == 404
    assert push_space(one.manifest_hash, 1) == 404
    assert push_space(one.manifest_hash, None) == 200
    assert push_space(two.manifest_hash, None) == 409
    assert push_space(two.manifest_hash, 2) == 409
    assert push_space(two.manifest_hash, 1) == 200
    present = user.ask("GET", "/user-space").json
    assert (present["user_manifest_hash"], present["revision"], present["snapshot_revision"]) == (
        two.manifest_hash,
        2,
        2,
    )


@pytest.mark.parametrize("revision", [-1, 2**63, "1", 1.5])
def test_an_invalid_revision_is_refused(user: User, revision: object) -> None:
    body = {"user_manifest_hash": NOWHERE, "expected_revision": revision}

    assert user.ask("POST", "/push/user-space", body).status in {400, 422}


def test_a_snapshot_carries_the_user_space_of_its_time(user: User) -> None:
    space = tree({".ai/config/a.yaml": b"a: 1\n"}, "user")
    put(user, space.entries)
    body = {"user_manifest_hash": space.manifest_hash, "expected_revision": None}
    user.ask("POST", "/push/user-space", body)

    push_tree(user, FILES)

    assert history(user)[0]["user_manifest_hash"] == space.manifest_hash


@pytest.mark.parametrize(("limit", "shown"), [(50, 3), (2, 2), (0, 0), (-1, 0), (10**30, 3)])
def test_a_history_is_limited_to_the_requested_length(user: User, limit: int, shown: int) -> None:
    expected = None
    for number in range(3):
        expected = push_tree(user, {"number": b"%d" % number}, expected)

    assert len(history(user, limit)) == shown


def test_a_history_ends_where_a_snapshot_is_damaged(shared_node: Node, user: User) -> None:
    first = push_tree(user, {"number": b"1"})
    second = push_tree(user, {"number": b"2"}, first)
    store = UserStores(shared_node.settings.cas_base_path).of(user.user_id)
    store.path_of(ObjectKind.OBJECT, first).write_bytes(b"{}")

    assert [one["_hash"] for one in history(user)] == [second]


# The entries of a user space as ryeos-core 0.1.46 pushes it: it always sends both box keys.
PUBLIC_CLIENT_SPACE = {
    ".ai/config/keys/signing/box_key.pem": b"0" * 42 + b"A",
    ".ai/config/keys/signing/box_pub.pem": b"1" * 42 + b"A",
    ".ai/config/keys/signing/public_key.pem": b"-----BEGIN PUBLIC KEY-----\n",
    ".ai/config/keys/trusted/f1c08a332644a703.toml": b'category = "keys/trusted"\n',
}
PRIVATE = ".ai/config/keys/signing/box_key.pem"


def test_the_private_box_key_that_public_clients_push_is_left_out(user: User) -> None:
    sent = tree(PUBLIC_CLIENT_SPACE, "user")
    rest = {path: data for path, data in PUBLIC_CLIENT_SPACE.items() if path != PRIVATE}
    kept = tree(rest, "user").manifest_hash
    put(user, sent.entries)

    reply = user.ask("POST", "/push/user-space", {"user_manifest_hash": sent.manifest_hash})

    assert reply.answer == (
        200,
        {
            "status": "ok",
            "user_manifest_hash": kept,
            "revision": 1,
            "snapshot_revision": 1,
            "remote_name": "default",
            "left_out": [{"path": PRIVATE, "problem": "files of this name never travel"}],
        },
    )
    assert user.ask("GET", "/user-space").json["user_manifest_hash"] == kept


def test_a_path_outside_of_the_user_space_is_refused(user: User) -> None:
    sent = tree({PRIVATE: b"0" * 43, ".ai/config/../../x": b"x"}, "user")
    put(user, sent.entries)

    reply = user.ask("POST", "/push/user-space", {"user_manifest_hash": sent.manifest_hash})

    assert reply.status == 400
    assert user.ask("GET", "/user-space").status == 404


def test_a_project_with_a_private_box_key_is_refused(user: User) -> None:
    sent = tree({PRIVATE: b"0" * 43})
    put(user, sent.entries)

    reply = push(user, sent.manifest_hash)

    assert reply.status == 400
    assert PRIVATE in reply.json["detail"]
