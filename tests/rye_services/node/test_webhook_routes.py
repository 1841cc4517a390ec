import pytest

from ryeos.remote.envelopes import seal_secrets
from tests.support.node import Node

BINDING = {"item_id": "tool:a/b", "project_path": "p", "description": "on push"}


def test_a_binding_is_made_listed_and_revoked_and_its_secret_is_shown_once(
    shared_node: Node,
) -> None:
    user = shared_node.user()
    envelope = seal_secrets({"A": "1"}, shared_node.keys.box_public)

    made = user.ask(
        "POST",
        "/webhook-bindings",
        {**BINDING, "secret_envelope": envelope, "vault_keys": ["TOKEN"]},
    ).json
    hook_id = made.pop("hook_id")
    secret = made.pop("hmac_secret")
    listed = user.ask("GET", "/webhook-bindings")

    assert made == {
        "item_id": "tool:a/b",
        "project_path": "p",
        "has_secret_envelope": True,
        "vault_keys": ["TOKEN"],
    }
    assert secret.encode() not in listed.body
    assert [each["hook_id"] for each in listed.json["bindings"]] == [hook_id]
    assert user.ask("DELETE", f"/webhook-bindings/{hook_id}").answer == (200, {"revoked": hook_id})
    assert user.ask("DELETE", f"/webhook-bindings/{hook_id}").status == 404
    assert user.ask("GET", "/webhook-bindings").json["bindings"][0]["revoked_at"] is not None


def test_the_older_form_of_an_item_is_taken(shared_node: Node) -> None:
    body = {"item_type": "directive", "item_id": "a/b", "project_path": "p"}

    made = shared_node.user().ask("POST", "/webhook-bindings", body, auth="bearer")

    assert made.json["item_id"] == "directive:a/b"


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"item_id": "a/b"}, "item_id"),
        ({"project_path": ""}, "project_path"),
        ({"vault_keys": ["LD_PRELOAD"]}, "vault_keys"),
        ({"description": "x" * 1001}, "description"),
        ({"secret_envelope": {"version": 2}}, "secret envelope"),
    ],
)
def test_a_wrong_field_of_a_binding_is_reported(
    shared_node: Node, change: dict[str, object], field: str
) -> None:
    reply = shared_node.user().ask("POST", "/webhook-bindings", {**BINDING, **change})

    assert reply.status == 400
    assert reply.json["detail"].startswith(field)


def test_a_user_cannot_revoke_a_binding_of_another(shared_node: Node) -> None:
    hook_id = shared_node.user().ask("POST", "/webhook-bindings", BINDING).json["hook_id"]

    assert shared_node.user().ask("DELETE", f"/webhook-bindings/{hook_id}").status == 404
