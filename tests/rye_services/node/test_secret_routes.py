import json

import pytest

from ryeos.remote.envelopes import seal_secrets
from tests.support.node import Node


def test_secrets_are_set_listed_and_deleted_and_no_value_comes_back(shared_node: Node) -> None:
    user = shared_node.user()
    body = {"secrets": [{"name": "API_KEY", "value": "s3cret"}, {"name": "B", "value": "2"}]}

    stored = user.ask("POST", "/secrets", body)
    listed = user.ask("GET", "/secrets")
    deleted = user.ask("DELETE", "/secrets/API_KEY")

    assert stored.answer == (200, {"stored": ["API_KEY", "B"], "count": 2, "skipped": []})
    assert [each["name"] for each in listed.json["secrets"]] == ["API_KEY", "B"]
    assert b"s3cret" not in listed.body
    assert deleted.answer == (200, {"deleted": "API_KEY"})
    assert user.ask("DELETE", "/secrets/API_KEY").status == 404


def test_secrets_that_are_never_injected_are_skipped_and_reported(shared_node: Node) -> None:
    body = {
        "secrets": [
            {"name": "GOOD", "value": "1"},
            {"name": "PATH", "value": "/evil"},
            {"name": "", "value": "1"},
            {"name": "EMPTY", "value": ""},
        ]
    }

    answer = shared_node.user().ask("POST", "/secrets", body).json

    assert answer["stored"] == ["GOOD"]
    assert [each["name"] for each in answer["skipped"]] == ["PATH"]


def test_both_routes_manage_the_same_secrets(shared_node: Node) -> None:
    user = shared_node.user()
    envelope = seal_secrets({"TOKEN": "t"}, shared_node.keys.box_public)

    stored = user.ask("POST", "/vault/set", {"name": "TOKEN", "envelope": envelope}, auth="bearer")

    assert stored.answer == (200, {"stored": "TOKEN"})
    assert user.ask("GET", "/vault/list").answer == (200, {"names": ["TOKEN"]})
    assert [each["name"] for each in user.ask("GET", "/secrets").json["secrets"]] == ["TOKEN"]
    assert user.ask("POST", "/vault/delete", {"name": "TOKEN"}).answer == (
        200,
        {"deleted": "TOKEN"},
    )
    assert user.ask("POST", "/vault/delete", {"name": "TOKEN"}).status == 404
    assert user.ask("POST", "/vault/delete", {"name": "PATH"}).status == 400


@pytest.mark.parametrize(
    "envelope", [{}, {"version": 1}, {"version": 1, "enc": "!", "ciphertext": [], "aad_fields": 3}]
)
def test_an_envelope_that_does_not_open_is_refused(
    shared_node: Node, envelope: dict[str, object]
) -> None:
    reply = shared_node.user().ask("POST", "/vault/set", {"name": "A", "envelope": envelope})

    assert reply.status == 400
    assert reply.json["detail"].startswith("secret envelope: ")


def test_a_user_does_not_see_secrets_of_others(shared_node: Node) -> None:
    shared_node.user().ask("POST", "/secrets", {"secrets": [{"name": "A", "value": "1"}]})

    assert shared_node.user().ask("GET", "/secrets").answer == (200, {"secrets": []})


def test_a_key_with_other_scopes_is_refused(shared_node: Node) -> None:
    user = shared_node.user(scopes=("remote:push",))

    assert user.ask("GET", "/secrets").status == 403
    assert user.ask("GET", "/webhook-bindings").status == 403
    assert shared_node.ask("GET", "/vault/list").status == 401


@pytest.mark.heavy
def test_no_value_is_in_the_log_or_readable_on_the_disk(node: Node) -> None:
    value = "recognisable-0451"
    body = {"secrets": [{"name": "A", "value": value}]}

    assert node.owner.ask("POST", "/secrets", body).status == 200
    node.end()

    written = b"".join(path.read_bytes() for path in node.data.rglob("*") if path.is_file())
    assert value.encode() not in written
    assert value not in "".join(node.log)


def test_a_lone_surrogate_is_refused(shared_node: Node) -> None:
    body = json.dumps({"secrets": [{"name": "A", "value": "\ud800"}]}).encode()

    assert shared_node.user().ask("POST", "/secrets", body).status in {400, 422}
