from typing import Any, Literal

import pytest

from lillux.signing import compute_key_fingerprint, generate_keypair
from ryeos.remote.identity import encode_public_key
from tests.support.node import Node, User

KEYS = "/admin/authorized-keys"
NEW = generate_keypair()
NEW_FINGERPRINT = f"fp:{compute_key_fingerprint(NEW.public_pem)}"


@pytest.fixture
def owner(shared_node: Node) -> User:
    """A new user who may do everything."""
    return shared_node.user(scopes=("*",))


def test_an_authorised_key_is_valid_at_once(owner: User) -> None:
    pair = generate_keypair()
    body = {"public_key": encode_public_key(pair.public_pem), "label": "ci", "scopes": ["*"]}

    reply = owner.ask("POST", KEYS, body)

    fingerprint = f"fp:{compute_key_fingerprint(pair.public_pem)}"
    assert reply.answer == (
        200,
        {
            "fingerprint": fingerprint,
            "label": "ci",
            "scopes": ["*"],
            "authorized_by": f"fp:{owner.user_id}",
        },
    )
    listed = User(owner.node, pair, "").ask("GET", KEYS)
    assert fingerprint in [key["fingerprint"] for key in listed.json["keys"]]


def test_a_key_without_named_scopes_may_push_and_run_only(owner: User) -> None:
    reply = owner.ask("POST", KEYS, {"public_key": encode_public_key(NEW.public_pem)})

    assert (reply.json["label"], reply.json["scopes"]) == ("operator", ["remote:*"])


def test_a_revoked_key_is_not_valid(owner: User) -> None:
    other = owner.node.user(scopes=("*",))

    reply = owner.ask("DELETE", f"{KEYS}/{other.user_id}")

    assert reply.answer == (200, {"revoked": f"fp:{other.user_id}"})
    assert other.ask("GET", KEYS).status == 401


def test_an_unknown_key_cannot_be_revoked(owner: User) -> None:
    reply = owner.ask("DELETE", f"{KEYS}/0000000000000000")

    assert reply.answer == (
        404,
        {"detail": "key 0000000000000000: expected an authorised key, found none"},
    )


def test_the_last_managing_key_cannot_be_revoked(node: Node) -> None:
    reply = node.owner.ask("DELETE", f"{KEYS}/{node.owner.user_id}")

    assert reply.answer == (
        400,
        {"detail": f"key {node.owner.user_id}: the last one that may manage keys"},
    )


@pytest.mark.parametrize(
    "body",
    [
        {"public_key": "ed25519:nonsense"},
        {"public_key": encode_public_key(NEW.public_pem), "scopes": ['x"]']},
        {"public_key": encode_public_key(NEW.public_pem), "label": 'x"\nscopes = ["*"]'},
    ],
    ids=["key", "scope", "label"],
)
def test_a_key_with_invalid_fields_is_refused(owner: User, body: object) -> None:
    reply = owner.ask("POST", KEYS, body)

    assert reply.status == 400


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_a_key_with_other_scopes_cannot_manage_keys(shared_node: Node, method: str) -> None:
    reply = shared_node.user(scopes=("remote:*",)).ask(method, KEYS, {"public_key": ""})

    assert reply.answer == (403, {"detail": "this key lacks the scope node.auth.manage"})


@pytest.mark.parametrize("scopes", [["*"], ["remote:push"], ["node.auth.manage", "remote:*"], None])
@pytest.mark.parametrize("auth", ["signed", "bearer"])
def test_a_key_cannot_grant_scopes_that_it_lacks(
    shared_node: Node, scopes: list[str] | None, auth: Literal["signed", "bearer"]
) -> None:
    manager = shared_node.user(scopes=("node.auth.manage",))
    body: dict[str, Any] = {"public_key": encode_public_key(manager.key.public_pem)}
    body |= {} if scopes is None else {"scopes": scopes}

    reply = manager.ask("POST", KEYS, body, auth=auth)

    lacked = "remote:*" if scopes and len(scopes) > 1 else (scopes or ["remote:*"])[0]
    assert reply.answer == (403, {"detail": f"this key lacks the scope {lacked}"})
    rows = manager.ask("GET", KEYS).json["keys"]
    (mine,) = [row for row in rows if row["fingerprint"] == f"fp:{manager.user_id}"]
    assert mine["scopes"] == ["node.auth.manage"]


def test_a_manager_authorises_further_managers(shared_node: Node) -> None:
    manager = shared_node.user(scopes=("node.auth.manage",))
    body = {
        "public_key": encode_public_key(generate_keypair().public_pem),
        "scopes": ["node.auth.manage"],
    }

    assert manager.ask("POST", KEYS, body).status == 200


def test_an_unknown_scope_is_refused_with_the_known_ones(owner: User) -> None:
    body = {"public_key": encode_public_key(NEW.public_pem), "scopes": ["remote:exceute"]}

    reply = owner.ask("POST", KEYS, body)

    assert reply.status == 400
    assert "did you mean remote:execute?" in reply.json["detail"]
