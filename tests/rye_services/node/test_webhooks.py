import json
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import func, select

from lillux.sealing import generate_box_pair
from lillux.values import replace
from rye_services.node.secrets import open_for_hook
from rye_services.node.webhooks import (
    KEPT_S,
    Binding,
    SignedDelivery,
    WebhookFieldError,
    WebhookRefusedError,
    Webhooks,
    accepted_delivery,
    canonical_item,
    read_delivery,
    record_delivery,
    valid_hook_project,
    valid_vault_keys,
)
from rye_services.refusal import RefusedError
from rye_services.storage.database import Database, webhook_deliveries_replay
from ryeos.remote.deliveries import sign_delivery
from ryeos.remote.envelopes import FOR_EXECUTION, EnvelopeError, seal_secrets
from tests.support.databases import made_database, on_sqlite_alone
from tests.support.errors import coded

PRIVATE, PUBLIC = generate_box_pair()
NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
NOW_S = int(NOON.timestamp())
BINDING = Binding(
    hook_id="", user_id="ann", item_id="tool:a/b", project_path="p", vault_keys=("TOKEN",)
)


@pytest.fixture
def database(tmp_path: Path) -> Database:
    return made_database(tmp_path)


@pytest.fixture
def webhooks(database: Database) -> Webhooks:
    return Webhooks(database, box_private=PRIVATE, box_public=PUBLIC, clock=lambda: NOON)


def signed(
    secret: str, body: object, *, at_s: int = NOW_S, delivery_id: str = "d1"
) -> SignedDelivery:
    raw = json.dumps(body).encode()
    return SignedDelivery(
        timestamp=str(at_s),
        signature=sign_delivery(secret, str(at_s), raw),
        delivery_id=delivery_id,
        body=raw,
    )


def test_a_delivery_chooses_only_the_parameters(webhooks: Webhooks) -> None:
    made, secret = webhooks.create(BINDING, "node")
    body = {"hook_id": made.hook_id, "parameters": {"x": 1}, "item_id": "tool:evil", "async": True}

    binding, delivery = accepted_delivery(webhooks, body, signed(secret, body))

    assert (binding.item_id, binding.project_path, binding.user_id) == ("tool:a/b", "p", "ann")
    assert delivery is not None
    assert (delivery.parameters, delivery.is_async) == ({"x": 1}, True)


def test_ids_and_secrets_have_the_documented_shape(webhooks: Webhooks) -> None:
    made, secret = webhooks.create(BINDING, "node")

    assert made.hook_id.startswith("wh_")
    assert len(made.hook_id) == 35
    assert secret.startswith("whsec_")
    assert len(secret) == 70


@on_sqlite_alone
def test_the_secret_is_in_no_answer_and_not_readable_in_the_database(
    webhooks: Webhooks, tmp_path: Path
) -> None:
    made, secret = webhooks.create(BINDING, "node")

    contents = b"".join(path.read_bytes() for path in tmp_path.iterdir() if path.is_file())

    assert made.hook_id.encode() in contents
    assert secret.encode() not in contents
    assert secret not in json.dumps([each.as_answer() for each in webhooks.listed("ann")])


@pytest.mark.parametrize(
    "change",
    [
        {"signature": "sha256=" + "0" * 64},
        {"signature": ""},
        {"timestamp": str(NOW_S - 301)},
        {"timestamp": str(NOW_S + 31)},
        {"timestamp": "now"},
        {"body": b"{}"},
    ],
)
def test_all_refused_deliveries_get_the_same_message(
    webhooks: Webhooks, change: dict[str, Any]
) -> None:
    made, secret = webhooks.create(BINDING, "node")
    body = {"hook_id": made.hook_id}

    with pytest.raises(WebhookRefusedError) as error:
        accepted_delivery(webhooks, body, replace(signed(secret, body), **change))

    assert str(error.value) == "Webhook authentication failed"


def test_a_changed_time_is_refused_even_if_it_is_recent(webhooks: Webhooks) -> None:
    made, secret = webhooks.create(BINDING, "node")
    body = {"hook_id": made.hook_id}

    with pytest.raises(WebhookRefusedError):
        webhooks.check(made.hook_id, replace(signed(secret, body), timestamp=str(NOW_S - 1)))


def test_a_hook_that_is_unknown_or_revoked_is_refused(webhooks: Webhooks) -> None:
    made, secret = webhooks.create(BINDING, "node")
    body = {"hook_id": made.hook_id}

    assert webhooks.revoke("ann", made.hook_id)
    for hook_id in (made.hook_id, "wh_unknown"):
        with pytest.raises(WebhookRefusedError):
            webhooks.check(hook_id, signed(secret, body))


def test_a_hook_of_a_former_box_key_is_refused_like_any_other(
    webhooks: Webhooks, database: Database
) -> None:
    made, secret = webhooks.create(BINDING, "node")
    private, public = generate_box_pair()
    later = Webhooks(database, box_private=private, box_public=public, clock=lambda: NOON)

    with pytest.raises(WebhookRefusedError):
        later.check(made.hook_id, signed(secret, {"hook_id": made.hook_id}))


def test_only_its_user_sees_and_revokes_a_binding(webhooks: Webhooks) -> None:
    made, _ = webhooks.create(BINDING, "node")

    assert not webhooks.revoke("eve", made.hook_id)
    assert webhooks.listed("eve") == ()
    assert webhooks.revoke("ann", made.hook_id)
    assert not webhooks.revoke("ann", made.hook_id)
    assert [each.revoked_at is not None for each in webhooks.listed("ann")] == [True]


def test_a_delivery_without_an_id_is_refused_after_its_signature_was_checked(
    webhooks: Webhooks,
) -> None:
    made, secret = webhooks.create(BINDING, "node")
    body = {"hook_id": made.hook_id}

    with pytest.raises(
        RefusedError, match="X-Webhook-Delivery-Id: expected", check=coded("VALIDATION_FAILED")
    ):
        accepted_delivery(webhooks, body, signed(secret, body, delivery_id=""))


def test_a_delivery_that_comes_again_with_a_new_signature_is_known(
    webhooks: Webhooks, database: Database
) -> None:
    made, secret = webhooks.create(BINDING, "node")
    body = {"hook_id": made.hook_id, "parameters": "not even looked at"}
    with database.writing() as connection:
        assert record_delivery(
            connection, made.hook_id, "d1", signed_once="signed d1", now_s=NOW_S - 3600
        )

    _, delivery = accepted_delivery(webhooks, body, signed(secret, body))

    assert delivery is None


def test_a_signature_is_valid_once_under_any_id(webhooks: Webhooks, database: Database) -> None:
    made, secret = webhooks.create(BINDING, "node")
    body = {"hook_id": made.hook_id}
    first, captured = (signed(secret, body, delivery_id=each) for each in ("d1", "d2"))
    for delivery, is_new in ((first, True), (captured, False)):
        with database.writing() as connection:
            recorded = record_delivery(
                connection,
                made.hook_id,
                delivery.delivery_id,
                signed_once=delivery.signed_once,
                now_s=NOW_S,
            )
        assert recorded is is_new

    assert accepted_delivery(webhooks, body, captured)[1] is None
    later = signed(secret, body, at_s=NOW_S + 1, delivery_id="d2")
    assert accepted_delivery(webhooks, body, later)[1] is not None, "the id was not used up"


def test_of_simultaneous_deliveries_one_is_recorded(database: Database) -> None:
    def record(_: int) -> bool:
        with database.writing() as connection:
            return record_delivery(connection, "wh_1", "d1", signed_once="signed d1", now_s=NOW_S)

    with ThreadPoolExecutor(8) as pool:
        recorded = list(pool.map(record, range(32)))

    assert recorded.count(True) == 1


def test_a_delivery_whose_transaction_fails_is_not_recorded(database: Database) -> None:
    def fail_after_recording() -> None:
        with database.writing() as connection:
            record_delivery(connection, "wh_1", "d1", signed_once="signed d1", now_s=NOW_S)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail_after_recording()

    with database.writing() as connection:
        assert record_delivery(connection, "wh_1", "d1", signed_once="signed d1", now_s=NOW_S)


def test_deliveries_are_forgotten_after_two_days(database: Database) -> None:
    with database.writing() as connection:
        record_delivery(
            connection, "wh_1", "old", signed_once="signed old", now_s=NOW_S - KEPT_S - 1
        )
        record_delivery(connection, "wh_1", "new", signed_once="signed new", now_s=NOW_S)
        count = connection.scalar(select(func.count()).select_from(webhook_deliveries_replay))

    assert count == 2, "the id and the signature of the new one"


def test_a_binding_with_an_envelope_that_cannot_be_opened_is_refused(webhooks: Webhooks) -> None:
    _, other = generate_box_pair()
    binding = replace(BINDING, secret_envelope=seal_secrets({"A": "1"}, other))

    with pytest.raises(EnvelopeError):
        webhooks.create(binding, "node")

    assert webhooks.listed("ann") == ()


def test_the_secrets_of_a_binding_open_for_its_row_alone(webhooks: Webhooks) -> None:
    sent = seal_secrets({"A": "1"}, PUBLIC, user="ann", purpose=FOR_EXECUTION)
    made, _ = webhooks.create(replace(BINDING, secret_envelope=sent), "node")
    kept = made.secret_envelope
    assert kept is not None

    assert open_for_hook(kept, PRIVATE, user="ann", hook_id=made.hook_id) == {"A": "1"}
    for user, hook_id in (("eve", made.hook_id), ("ann", "wh_other")):
        with pytest.raises(EnvelopeError):
            open_for_hook(kept, PRIVATE, user=user, hook_id=hook_id)


def test_an_item_has_one_name_in_a_binding() -> None:
    assert canonical_item("tool:a/b", None) == "tool:a/b"
    assert canonical_item("a/b", "directive") == "directive:a/b"


@pytest.mark.parametrize(
    ("item_id", "item_type"),
    [("a/b", None), ("tool:", None), ("tool:../x", None), ("tool:a", "directive"), ("x:a", None)],
)
def test_a_binding_with_an_impossible_item_id_is_refused(
    item_id: str, item_type: str | None
) -> None:
    with pytest.raises(WebhookFieldError):
        canonical_item(item_id, item_type)


@pytest.mark.parametrize("path", ["", "x" * 1025, "a\nb", "a\x00b"])
def test_the_id_of_a_project_has_only_visible_characters(path: str) -> None:
    with pytest.raises(WebhookFieldError):
        valid_hook_project(path)


def test_duplicate_vault_keys_are_listed_once() -> None:
    assert valid_vault_keys(["A", "B", "A"]) == ("A", "B")
    with pytest.raises(WebhookFieldError):
        valid_vault_keys(["PATH"])


@pytest.mark.parametrize(
    "fields", [{"parameters": []}, {"thread": "spawn"}, {"async": "yes"}, {"thread": {}}]
)
def test_a_field_of_another_type_is_refused_by_name(fields: dict[str, object]) -> None:
    with pytest.raises(WebhookFieldError) as error:
        read_delivery({"hook_id": "wh_1", **fields}, "d1")

    assert error.value.field in fields
