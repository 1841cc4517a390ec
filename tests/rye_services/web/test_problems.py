"""Refusals of a node: always JSON, without internal details."""

import re

import pytest
from sqlalchemy import text

from rye_services.storage.database import Database
from ryeos.remote.identity import encode_public_key
from tests.support.node import Node, User

KEYS = "/admin/authorized-keys"


@pytest.fixture
def owner(shared_node: Node) -> User:
    """A new user who may do everything."""
    return shared_node.user(scopes=("*",))


def test_an_unknown_route_is_reported_in_json(shared_node: Node) -> None:
    assert shared_node.ask("GET", "/nothing").answer == (404, {"detail": "Not Found"})
    assert shared_node.ask("PUT", "/health").answer == (405, {"detail": "Method Not Allowed"})


def test_a_field_of_another_type_is_named_without_its_value(owner: User) -> None:
    reply = owner.ask("POST", KEYS, {"public_key": {"secret": "hunter2"}})

    assert reply.answer == (
        422,
        {
            "detail": [
                {
                    "type": "string_type",
                    "loc": ["body", "public_key"],
                    "msg": "Input should be a valid string",
                }
            ]
        },
    )
    assert b"hunter2" not in reply.body


@pytest.mark.parametrize(
    "body",
    [b"{", b"\xff", b"[" * 100_000, b'{"public_key": ' + b"9" * 5000 + b"}", b"null", b"[]"],
    ids=["cut", "no UTF-8", "deep", "long number", "null", "list"],
)
def test_a_body_that_is_not_an_object_is_refused_with_a_detail(owner: User, body: bytes) -> None:
    reply = owner.ask("POST", KEYS, body)

    assert reply.status in {400, 422}
    assert list(reply.json) == ["detail"]


def test_an_unexpected_error_returns_a_request_id_and_is_logged(node: Node) -> None:
    owner = node.owner
    database = Database(node.settings.database_url)
    with database.writing() as connection:
        connection.execute(text("ALTER TABLE authorized_keys RENAME TO away"))
    database.close()
    body = {"public_key": encode_public_key(owner.key.public_pem)}

    reply = owner.ask("POST", KEYS, body, auth="bearer")

    found = re.fullmatch(r"internal error ([0-9a-f]{8}): the log .*", reply.json["detail"])
    assert reply.status == 500
    assert found is not None
    assert f"error {found[1]} at POST {KEYS}" in node.wait_for_line(found[1])
    assert "Traceback" in node.wait_for_line("Traceback")
