"""Authentication over the network: a real node, real signatures, real API keys."""

import time
from collections.abc import Mapping

import pytest

from lillux.signing import generate_keypair
from rye_services.people.credentials import ApiKeys, AuthorizedKeys
from rye_services.storage.database import Database
from ryeos.remote.requests import sign_request
from tests.support.node import Node, Reply, User

UNAUTHORIZED = (401, {"detail": "unauthorized"})
KEYS = "/admin/authorized-keys"


def ask(user: User, headers: Mapping[str, str], target: str = KEYS) -> Reply:
    """A request with exactly these headers."""
    return user.node.ask("GET", target, headers=headers)


def signed(user: User, **changes: object) -> dict[str, str]:
    """Headers for ``GET /admin/authorized-keys`` with one part changed before it is signed."""
    parts: dict[str, object] = {
        "method": "GET",
        "path": KEYS,
        "query": "",
        "body": b"",
        "audience": user.node.keys.node_id,
        "now_s": time.time(),
        "nonce": "0123456789abcdef",
    }
    return sign_request(user.key, **{**parts, **changes})  # type: ignore[arg-type]


@pytest.fixture
def owner(shared_node: Node) -> User:
    """A new user who may do everything."""
    return shared_node.user(scopes=("*",))


def test_a_signed_request_is_authenticated_by_its_key(owner: User) -> None:
    reply = owner.ask("GET", KEYS)

    assert reply.status == 200
    assert f"fp:{owner.user_id}" in [key["fingerprint"] for key in reply.json["keys"]]


def test_a_request_with_an_api_key_is_authenticated(owner: User) -> None:
    assert owner.ask("GET", KEYS, auth="bearer").status == 200


def test_a_request_of_an_unknown_caller_is_refused(owner: User) -> None:
    reply = ask(owner, {})

    assert reply.answer == UNAUTHORIZED
    assert reply.headers["www-authenticate"] == "Bearer"


@pytest.mark.parametrize(
    "changes",
    [
        {"audience": "fp:0000000000000000"},
        {"method": "POST"},
        {"path": "/admin"},
        {"query": "all=1"},
        {"body": b"{}"},
        {"now_s": time.time() - 4000},
        {"now_s": time.time() + 4000},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_a_signature_for_another_request_is_refused(
    owner: User, changes: dict[str, object]
) -> None:
    assert ask(owner, signed(owner, **changes)).answer == UNAUTHORIZED


def test_a_repeated_request_is_refused(owner: User) -> None:
    headers = owner.signed_headers("GET", KEYS)

    first, second = ask(owner, headers), ask(owner, headers)

    assert first.status == 200
    assert second.answer == UNAUTHORIZED


@pytest.mark.heavy
def test_a_used_nonce_is_refused_after_a_restart(node: Node) -> None:
    headers = node.owner.signed_headers("GET", KEYS)
    assert ask(node.owner, headers).status == 200

    node.restart()

    assert ask(node.owner, headers).answer == UNAUTHORIZED


def test_a_bad_signature_does_not_use_up_the_nonce_of_another(owner: User) -> None:
    headers = owner.signed_headers("GET", KEYS)
    foreign = {**headers, "X-Rye-Signature": "A" * 86}

    assert ask(owner, foreign).answer == UNAUTHORIZED
    assert ask(owner, headers).status == 200


def test_an_unauthorised_key_gets_the_same_refusal(owner: User) -> None:
    stranger = User(owner.node, generate_keypair(), "rye_sk_nothing")

    assert stranger.ask("GET", KEYS).answer == UNAUTHORIZED
    assert stranger.ask("GET", KEYS, auth="bearer").answer == UNAUTHORIZED


def test_a_revoked_key_is_refused(owner: User) -> None:
    node = owner.node
    database = Database(node.settings.database_url)
    AuthorizedKeys(database).revoke(owner.user_id)
    database.close()

    assert owner.ask("GET", KEYS).answer == UNAUTHORIZED


def test_a_revoked_api_key_is_refused(owner: User) -> None:
    database = Database(owner.node.settings.database_url)
    keys = ApiKeys(database)
    own = next(key for key in keys.all() if key.user_id == owner.user_id)
    keys.revoke(own.id)
    database.close()

    assert owner.ask("GET", KEYS, auth="bearer").answer == UNAUTHORIZED


def test_a_request_with_two_ways_to_authenticate_is_refused(owner: User) -> None:
    headers = owner.signed_headers("GET", KEYS)

    assert ask(owner, headers | owner.bearer).answer == UNAUTHORIZED
    assert ask(owner, headers | {"X-Webhook-Timestamp": "1"}).answer == UNAUTHORIZED


def test_a_webhook_signature_is_for_executions_only(owner: User) -> None:
    assert ask(owner, {"X-Webhook-Timestamp": "1"}).answer == UNAUTHORIZED


@pytest.mark.parametrize("value", ["Basic YTpi", "Bearer", "Bearer rye_sk_", "Bearer \xff"])
def test_an_authorization_of_another_form_is_refused(owner: User, value: str) -> None:
    assert ask(owner, {"Authorization": value}).answer == UNAUTHORIZED


def test_a_refusal_names_the_missing_scope(shared_node: Node) -> None:
    user = shared_node.user(scopes=("remote:push",))

    for auth in ("signed", "bearer"):
        reply = user.ask("GET", KEYS, auth=auth)
        assert reply.answer == (403, {"detail": "this key lacks the scope node.auth.manage"})


def test_the_order_of_a_query_is_not_signed(owner: User) -> None:
    headers = owner.signed_headers("GET", f"{KEYS}?a=1&b=x%20y")

    assert ask(owner, headers, f"{KEYS}?b=x+y&a=1").status == 200


def test_why_a_request_was_refused_is_in_the_log_alone(owner: User) -> None:
    ask(owner, signed(owner, audience="fp:0000000000000000"))
    owner.ask("GET", KEYS)  # its line comes later

    assert any("refused a request: X-Rye-Signature" in line for line in owner.node.log)


def test_the_case_of_headers_does_not_change_the_caller(owner: User) -> None:
    headers = {name.upper(): value for name, value in owner.signed_headers("GET", KEYS).items()}

    assert ask(owner, headers).status == 200
