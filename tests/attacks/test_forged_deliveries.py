"""An attacker has seen deliveries of a webhook, or guesses its secret: nothing is executed."""

import os
import time
from pathlib import Path

import pytest

from tests.support.hooks import Hook, bind
from tests.support.node import Node

pytestmark = pytest.mark.skipif(os.name == "nt", reason="the node is tried on POSIX")

REFUSED = (401, {"detail": "unauthorized"})


@pytest.fixture
def hook(shared_node: Node) -> Hook:
    return bind(shared_node.user(), "tool:a/b", "p")


def test_a_delivery_with_another_body_is_refused(hook: Hook) -> None:
    headers = hook.headers(hook.body(parameters={"n": 1}))

    reply = hook.user.node.ask("POST", "/execute", hook.body(parameters={"n": 2}), headers=headers)

    assert reply.answer == REFUSED


def test_a_delivery_that_was_kept_for_later_is_refused(hook: Hook) -> None:
    body = hook.body()

    for now_s in (time.time() - 400, time.time() + 120):
        headers = hook.headers(body, now_s=now_s)
        assert hook.user.node.ask("POST", "/execute", body, headers=headers).answer == REFUSED


def test_the_signature_of_one_hook_does_not_count_for_another(hook: Hook) -> None:
    other = bind(hook.user, "tool:a/b", "p")
    body = other.body()

    reply = hook.user.node.ask("POST", "/execute", body, headers=hook.headers(body))

    assert reply.answer == REFUSED


def test_a_revoked_hook_an_unknown_one_and_a_wrong_secret_look_the_same(hook: Hook) -> None:
    revoked = bind(hook.user, "tool:a/b", "p")
    hook.user.ask("DELETE", f"/webhook-bindings/{revoked.hook_id}")
    unknown = Hook(hook.user, "wh_" + "0" * 32, hook.secret)
    guessed = Hook(hook.user, hook.hook_id, "whsec_" + "0" * 64)

    assert [each.deliver().answer for each in (revoked, unknown, guessed)] == [REFUSED] * 3


def test_a_delivery_cannot_borrow_the_rights_of_a_key(hook: Hook) -> None:
    body = hook.body()
    both = {**hook.headers(body), **hook.user.bearer}

    assert hook.user.node.ask("POST", "/execute", body, headers=both).answer == REFUSED


def test_a_delivery_is_refused_by_other_routes(hook: Hook) -> None:
    for method, path in (("GET", "/secrets"), ("POST", "/push"), ("POST", "/fetch")):
        body = hook.body()
        reply = hook.user.node.ask(method, path, body, headers=hook.headers(body))
        assert reply.status == 401


@pytest.mark.parametrize("body", [b"", b"[]", b"{", b'{"hook_id": 7}', b'{"hook_id": ""}'])
def test_a_delivery_without_a_hook_is_reported(hook: Hook, body: bytes) -> None:
    assert hook.user.node.ask("POST", "/execute", body, headers=hook.headers(body)).status == 400


def test_a_delivery_without_an_id_is_refused_only_once_it_is_known_to_be_signed(hook: Hook) -> None:
    body = hook.body()
    signed = {**hook.headers(body), "X-Webhook-Delivery-Id": ""}
    forged = {**signed, "X-Webhook-Signature": "sha256=" + "0" * 64}

    assert hook.user.node.ask("POST", "/execute", body, headers=signed).status == 400
    assert hook.user.node.ask("POST", "/execute", body, headers=forged).answer == REFUSED


@pytest.mark.heavy
def test_webhooks_can_be_closed(tmp_path: Path) -> None:
    from tests.support.node import running_node

    with running_node(tmp_path / "node", environ={"RYE_NODE_OPEN_WEBHOOKS": "false"}) as node:
        hook = bind(node.owner, "tool:a/b", "p")
        assert hook.deliver().answer == REFUSED
