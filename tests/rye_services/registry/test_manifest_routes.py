import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lillux.sealing import generate_box_pair
from ryeos.remote.identity import identity_document
from ryeos.remote.signed_documents import sign_document
from tests.support.node import Reply, User
from tests.support.node_sync import push_tree, put, tree
from tests.support.registry import Registry, running_registry

FILES = {".ai/tools/probe/echo.py": b"print(1)\n"}
SCOPES = ("registry:*", "remote:*")
NOW = "2026-11-21T00:00:00Z"


@pytest.fixture
def registry_of_a_node(tmp_path: Path) -> Iterator[Registry]:
    with running_registry(tmp_path / "node", role="all") as running:
        yield running


def age_files(registry: Registry) -> None:
    """Make every stored file older than any grace period."""
    for path in registry.node.settings.cas_base_path.rglob("*"):
        if path.is_file():
            os.utime(path, (0, 0))


def publisher(registry: Registry, *namespaces: str) -> User:
    return registry.node.user(scopes=SCOPES, publish_namespaces=namespaces)


def pushed(user: User, files: dict[str, bytes] = FILES) -> str:
    """Push a project; the digest of its manifest in the store of the user."""
    sent = tree(files)
    put(user, sent.entries)
    return sent.manifest_hash


def publish(user: User, item_id: str, manifest_hash: str, **changed: Any) -> Reply:  # noqa: ANN401
    body = {"kind": "tool", "item_id": item_id, "version": "1.0.0", "manifest_hash": manifest_hash}
    return user.ask("POST", "/registry/publish", {**body, **changed})


def test_a_manifest_is_published_once_and_found(shared_both: Registry) -> None:
    user = publisher(shared_both, "probe-*")
    digest = pushed(user)

    first = publish(user, "probe-a/echo", digest)
    again = publish(user, "probe-a/echo", digest)
    other = publish(user, "probe-a/echo", pushed(user, {"x": b"x"}))
    publish(user, "probe-a/echo", digest, version="1.10.0")
    publish(user, "probe-a/echo", digest, version="1.9.0")

    assert (first.status, first.json["ok"]) == (200, True)
    assert again.json == {**first.json, "skipped": True}
    assert other.status == 409
    item = user.ask("GET", "/registry/items/tool/probe-a/echo").json
    owner = f"fp:{user.user_id}"
    assert (item["namespace"], item["owner"], item["latest_version"]) == (
        "probe-a",
        owner,
        "1.10.0",
    )
    assert item["versions"]["1.0.0"]["manifest_hash"] == digest
    one = user.ask("GET", "/registry/items/tool/probe-a/echo/versions/1.9.0").json
    assert (one["manifest_hash"], one["publisher"]) == (digest, owner)
    found = user.ask("GET", "/registry/search?query=BE-A/E").json
    assert found == {
        "results": [
            {
                "kind": "tool",
                "item_id": "probe-a/echo",
                "namespace": "probe-a",
                "latest_version": "1.10.0",
                "owner": owner,
            }
        ],
        "total": 1,
    }
    assert user.ask("GET", "/registry/search?query=BE-A/E&kind=bundle").json["total"] == 0
    assert user.ask("GET", "/registry/items/tool/probe-a/none").status == 404
    assert user.ask("GET", "/registry/items/tool/probe-a/echo/versions/9.9.9").status == 404


def test_a_manifest_outside_of_the_publishers_store_is_refused(shared_both: Registry) -> None:
    user, other = publisher(shared_both, "*"), publisher(shared_both, "*")
    digest = pushed(other, {"y": b"of another user"})
    incomplete = tree({"z": b"z"})
    put(user, [entry for entry in incomplete.entries if entry["kind"] != "blob"])

    for missing in (digest, "0" * 64, incomplete.manifest_hash):
        assert publish(user, "probe-b/echo", missing).status == 400
    assert user.ask("GET", "/registry/search?query=probe-b").json["total"] == 0


def test_a_key_says_to_which_namespaces_it_may_publish(shared_both: Registry) -> None:
    nowhere, narrow = publisher(shared_both), publisher(shared_both, "probe-c")
    owner = publisher(shared_both, "*")
    publish(owner, "probe-d/echo", pushed(owner))
    wide = publisher(shared_both, "*")

    assert publish(nowhere, "probe-c/echo", pushed(nowhere)).status == 403
    assert publish(narrow, "probe-e/echo", pushed(narrow)).status == 403
    assert publish(narrow, "probe-c/echo", pushed(narrow)).status == 200
    assert publish(wide, "probe-d/echo", pushed(wide)).status == 403
    assert publish(wide, "rye/echo", pushed(wide)).status == 403
    body = {"kind": "tool", "item_id": "a/b", "version": "1.0.0", "manifest_hash": "0" * 64}
    assert wide.ask("POST", "/registry/publish", body, auth="bearer").status == 403


@pytest.mark.parametrize(
    "changed",
    [
        {"kind": "config"},
        {"item_id": "../../etc/passwd"},
        {"item_id": ""},
        {"item_id": "probe-f"},
        {"item_id": "probe-f/.."},
        {"version": "latest"},
        {"version": "1.0"},
        {"manifest_hash": "../up"},
    ],
)
def test_a_publication_of_another_form_is_refused(
    shared_both: Registry, changed: dict[str, str]
) -> None:
    user = publisher(shared_both, "*")
    body = {"kind": "tool", "item_id": "probe-f/echo", "version": "1.0.0", **changed}

    reply = user.ask("POST", "/registry/publish", {"manifest_hash": "0" * 64, **body})

    assert reply.status in {400, 422}


@pytest.mark.heavy
def test_published_objects_survive_garbage_collection(registry_of_a_node: Registry) -> None:
    user = publisher(registry_of_a_node, "*")
    digest = pushed(user)
    publish(user, "probe/echo", digest)
    gone = pushed(user, {"other": b"unreferenced"})
    push_tree(user, {"src/x.py": b"x = 1\n"})  # so that no upload is going on

    registry_of_a_node.node.end()
    age_files(registry_of_a_node)
    registry_of_a_node.node.start()
    collected = registry_of_a_node.node.owner.ask("POST", "/gc").json

    assert {one["user_id"]: one["state"] for one in collected["users"]}[user.user_id] == "done"
    kept = user.ask("POST", "/objects/has", {"hashes": [digest, gone]}).json
    assert digest in kept["present"]
    assert gone in kept["missing"]


def test_an_identity_is_accepted_from_its_own_key_only(shared_both: Registry) -> None:
    user, other = publisher(shared_both), publisher(shared_both)
    own = identity_document(user.key, generate_box_pair()[1], NOW)
    newer = identity_document(user.key, generate_box_pair()[1], NOW)
    forged = {**own, "principal_id": f"fp:{other.user_id}"}

    sent = user.ask("POST", "/registry/identity", {"identity": own})
    again = user.ask("POST", "/registry/identity", {"identity": newer})

    assert (sent.status, again.status) == (200, 200)
    assert other.ask("GET", f"/registry/identity/{user.user_id}").json == newer
    assert other.ask("POST", "/registry/identity", {"identity": own}).status == 403
    assert user.ask("POST", "/registry/identity", {"identity": forged}).status == 400
    assert user.ask("GET", "/registry/identity/..%2f..%2fup").status == 404
    assert user.ask("GET", f"/registry/identity/{other.user_id}").status == 404


def claim(user: User, namespace: str, **changed: str) -> dict[str, Any]:
    document = {
        "kind": "namespace-claim/v1",
        "namespace": namespace,
        "owner": f"fp:{user.user_id}",
        "claimed_at": NOW,
        **changed,
    }
    return {"claim": sign_document(document, user.key, NOW)}


def test_a_namespace_belongs_to_the_first_valid_claim(shared_both: Registry) -> None:
    user, other = publisher(shared_both, "*"), publisher(shared_both, "*")

    first = user.ask("POST", "/registry/namespaces/claim", claim(user, "lab"))
    again = user.ask("POST", "/registry/namespaces/claim", claim(user, "lab"))
    taken = other.ask("POST", "/registry/namespaces/claim", claim(other, "lab"))
    passed_on = other.ask("POST", "/registry/namespaces/claim", claim(user, "lab-two"))
    in_anothers = other.ask(
        "POST", "/registry/namespaces/claim", claim(other, "lab-3", owner=f"fp:{user.user_id}")
    )
    outside = user.ask("POST", "/registry/namespaces/claim", claim(user, "../up"))

    assert first.json["ok"] is True
    assert again.json == {**first.json, "skipped": True}
    replies = (taken, passed_on, in_anothers, outside)
    assert [one.status for one in replies] == [403, 400, 400, 400]


def test_a_key_of_an_account_publishes_for_the_account(shared_both: Registry) -> None:
    account = shared_both.account(with_key=True)
    user = shared_both.node.user(scopes=SCOPES, publish_namespaces=("*",), keypair=account.keypair)

    assert publish(user, f"{account.name}/echo", pushed(user)).status == 200
    assert account.push(f"{account.name}/greetings/hello").status == 200
    item = user.ask("GET", f"/registry/items/tool/{account.name}/echo").json
    assert item["owner"] == account.name


def test_a_node_without_the_role_answers_404(shared_node: Any) -> None:  # noqa: ANN401
    assert shared_node.user().ask("GET", "/registry/search").status == 404
