"""A user of a node who has messages that another user sealed for it, and wants to read them."""

from typing import Any

import pytest

from ryeos.remote.envelopes import FOR_EXECUTION, FOR_VAULT, seal_secrets
from tests.support.node import Node, User

pytest_plugins = ("tests.support.node",)


@pytest.fixture
def victim(shared_node: Node) -> User:
    return shared_node.user()


def sealed_by(victim: User, purpose: str) -> dict[str, Any]:
    """The message of the victim, as an eavesdropper has it."""
    box_public = victim.node.keys.box_public
    return seal_secrets({"TOKEN": "secret"}, box_public, user=victim.user_id, purpose=purpose)


def test_a_sealed_secret_opens_for_no_other_user(shared_node: Node, victim: User) -> None:
    body = {"name": "TOKEN", "envelope": sealed_by(victim, FOR_VAULT)}

    refused = shared_node.user().ask("POST", "/vault/set", body)

    assert refused.status == 400
    assert "aad_fields.user: sealed for another one" in refused.json["detail"]
    assert victim.ask("POST", "/vault/set", body).status == 200


def test_a_secret_for_the_vault_is_no_secret_of_a_run(victim: User) -> None:
    binding = {"item_id": "tool:a/b", "project_path": "p"}
    for purpose, status in ((FOR_VAULT, 400), (FOR_EXECUTION, 200)):
        body = {**binding, "secret_envelope": sealed_by(victim, purpose)}

        assert victim.ask("POST", "/webhook-bindings", body).status == status


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/execute", {"item_id": "tool:\ud800", "project_path": "p"}),
        ("/fetch", {"item_id": "tool:a/\udfff", "project_path": "p"}),
        ("/sign", {"item_id": "tool:\ud800", "project_path": "p"}),
        ("/vault/delete", {"name": "\ud800"}),
    ],
)
def test_half_of_a_surrogate_pair_is_a_bad_request(
    victim: User, path: str, body: dict[str, str]
) -> None:
    assert victim.ask("POST", path, body).status in (400, 404, 422)
