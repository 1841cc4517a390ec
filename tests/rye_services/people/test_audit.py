"""The audit: entries about changes, and limits so that no user can fill it."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import func, select

from lillux.sealing import generate_box_pair
from lillux.signing import generate_keypair
from rye_services.node.secrets import Vault
from rye_services.node.webhooks import Binding, Webhooks
from rye_services.people.actors import Actor, acting
from rye_services.people.audit import (
    MANY,
    MOST_AN_HOUR,
    Audit,
    AuditEntry,
    AuditFilter,
    FailedLogIns,
)
from rye_services.people.credentials import ApiKeys, AuthorizedKeyMissingError, AuthorizedKeys
from rye_services.refusal import RefusedError
from rye_services.registry.accounts import Accounts, Namespaces
from rye_services.storage.database import Database, audit
from ryeos.items.context import utc_now
from ryeos.remote.secret_names import MAX_SECRETS
from tests.support.databases import made_database
from tests.support.errors import coded
from tests.support.workspace import ROOT

ADA = Actor("3d4c030534b1c1c6", "192.0.2.7", "")


class Hand:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.now = datetime(2026, 11, 24, 8, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.now


@pytest.fixture
def clock() -> Hand:
    """The database's own clock."""
    return Hand()


@pytest.fixture
def database(tmp_path: Path, clock: Hand) -> Database:
    """A database with its tables."""
    return made_database(tmp_path, clock)


def written(database: Database, **wanted: Any) -> list[tuple[str, str, Any]]:  # noqa: ANN401 - fields of a filter
    """Action, target and details of every entry, the oldest first."""
    found = Audit(database).entries(AuditFilter(**wanted), limit=1000)
    return [(one.action, one.target, one.details) for one in reversed(found)]


def test_an_entry_has_actor_time_address_and_action(database: Database) -> None:
    with acting(ADA), database.writing() as connection:
        Audit(database).write(connection, "keys.add", "fp:1", {"label": "Ada's"})

    assert Audit(database).entries(AuditFilter(), limit=10) == (
        AuditEntry(
            id=1,
            at="2026-11-24T08:00:00.000000+00:00",
            actor="3d4c030534b1c1c6",
            address="192.0.2.7",
            action="keys.add",
            target="fp:1",
            details={"label": "Ada's"},
        ),
    )


def test_a_rolled_back_change_leaves_no_entry(database: Database) -> None:
    vault = _vault(database)

    most = {f"N{number}": "v" for number in range(MAX_SECRETS)}

    vault.put("ada", most)
    with pytest.raises(
        RefusedError, match="secrets: expected at most", check=coded("VALIDATION_FAILED")
    ):
        vault.put("ada", {"ONE_MORE": "v"})

    assert [action for action, _, _ in written(database)] == ["secrets.put"]


def test_secrets_are_recorded_by_name_without_values(database: Database) -> None:
    vault = _vault(database)

    vault.put("ada", {"TOKEN": "very-secret-value"})
    vault.delete("ada", "TOKEN")
    vault.delete("ada", "TOKEN")

    assert written(database) == [
        ("secrets.put", "ada", {"names": ["TOKEN"]}),
        ("secrets.delete", "ada", {"names": ["TOKEN"]}),
    ]
    with database.reading() as connection:
        assert "very-secret-value" not in str(connection.execute(select(audit)).all())


def test_api_keys_accounts_and_hooks_are_written(database: Database) -> None:
    keys, accounts = ApiKeys(database), Accounts(database)
    private, public = generate_box_pair()
    hooks = Webhooks(database, box_private=private, box_public=public, clock=utc_now)

    with acting(ADA):
        _, key = keys.create("ada", name="ci", scopes=("remote:push",))
        keys.revoke(key.id)
        keys.revoke(key.id)
        accounts.add("bob")
        fingerprint = accounts.add_key("bob", generate_keypair().public_pem)
        accounts.remove_key("bob", fingerprint)
        accounts.disable("bob")
        accounts.enable("bob")
        Namespaces(database).claim("rye", "bob", reserved=True)
        hook, _ = hooks.create(
            Binding(hook_id="", user_id="ada", item_id="tool:a", project_path="ada/p"), "default"
        )
        hooks.revoke("ada", hook.hook_id)

    of_key = {"fingerprint": fingerprint}
    bound = {"item_id": "tool:a", "project_path": "ada/p", "vault_keys": []}
    assert written(database) == [
        ("api-keys.create", key.id, {"user_id": "ada", "name": "ci", "scopes": ["remote:push"]}),
        ("api-keys.revoke", key.id, {"user_id": "ada", "name": "ci"}),
        ("accounts.add", "bob", None),
        ("accounts.add-key", "bob", of_key),
        ("accounts.remove-key", "bob", of_key),
        ("accounts.disable", "bob", None),
        ("accounts.enable", "bob", None),
        ("accounts.grant", "rye", {"owner": "bob"}),
        ("webhooks.create", hook.hook_id, bound),
        ("webhooks.revoke", hook.hook_id, None),
    ]


def test_a_key_that_cannot_be_revoked_leaves_no_entry(database: Database) -> None:
    authorized = AuthorizedKeys(database)
    pem = generate_keypair().public_pem

    key = authorized.authorize(pem, label="Ada's", scopes=["*"], via="command")
    with pytest.raises(AuthorizedKeyMissingError):
        authorized.revoke("0" * 16)
    authorized.revoke(key.fingerprint)

    target = f"fp:{key.fingerprint}"
    details = {"label": "Ada's", "scopes": ["*"], "via": "command"}
    assert written(database) == [("keys.add", target, details), ("keys.revoke", target, None)]


@pytest.mark.parametrize(
    "text",
    ["a\0b", "half \ud800 of a pair", "x" * 10_000_000, "\x1b[2J"],
    ids=["nul", "surrogate", "10 MB", "escape"],
)
def test_no_text_breaks_an_entry(database: Database, text: str) -> None:
    actor = Actor(text, text, text)

    with acting(actor), database.writing() as connection:
        Audit(database).write(connection, text, text, {text: text, "list": [text] * 200})

    (entry,) = Audit(database).entries(AuditFilter(), limit=10)
    assert len(str(entry)) < 20_000
    assert Audit(database).entries(AuditFilter(action=text, actor=text), limit=10) == (entry,)


def test_details_that_are_large_as_a_whole_are_left_out(database: Database) -> None:
    details = {f"n{one}": {f"m{two}": "x" * 300 for two in range(50)} for one in range(50)}

    Audit(database).note("gc", "", details)

    assert written(database) == [("gc", "", {"cut": True})]


def test_many_changes_of_a_user_are_recorded_as_a_count(database: Database, clock: Hand) -> None:
    trail = Audit(database)

    with acting(ADA), database.writing() as connection:
        for number in range(MOST_AN_HOUR + 30):
            trail.write(connection, "secrets.put", f"t{number}")

    found = written(database)
    assert len(found) == MOST_AN_HOUR + 1
    assert found[-1] == ("secrets.put", MANY, {"count": 30})
    clock.now += timedelta(hours=1, seconds=1)
    with acting(ADA), database.writing() as connection:
        trail.write(connection, "secrets.put", "later")
    assert written(database)[-1] == ("secrets.put", "later", None)


def test_commands_are_written_one_by_one(database: Database) -> None:
    with acting(Actor("command:root")), database.writing() as connection:
        for _ in range(MOST_AN_HOUR + 5):
            Audit(database).write(connection, "gc")

    assert len(written(database)) == MOST_AN_HOUR + 5


def test_many_failed_logins_are_recorded_as_counts(database: Database) -> None:
    failed = FailedLogIns(Audit(database), database)

    for number in range(5000):
        failed.note(f"2001:db8::{number:x}")
    failed.write()

    found = written(database)
    assert len(found) <= 102
    counts = [(details or {}).get("count", 1) for _, _, details in found]
    assert sum(counts) == 5000


def test_old_entries_are_removed(database: Database, clock: Hand) -> None:
    trail = Audit(database)
    trail.note("gc", "old")
    clock.now += timedelta(days=365)
    trail.note("gc", "young")
    clock.now += timedelta(seconds=1)

    assert (trail.forget_old(0), trail.forget_old(365)) == (0, 1)
    assert [target for _, target, _ in written(database)] == ["young"]


def test_entries_are_found_by_action_actor_and_time(database: Database, clock: Hand) -> None:
    trail = Audit(database)
    for name in ("keys.add", "keys.revoke", "keyserver", "gc"):
        with acting(Actor("bob" if name == "gc" else "ada")):
            trail.note(name)
        clock.now += timedelta(minutes=1)

    def actions(**wanted: str) -> list[str]:
        return [action for action, _, _ in written(database, **wanted)]

    assert actions(action="keys") == ["keys.add", "keys.revoke"]
    assert actions(action="keys.add") == ["keys.add"]
    assert actions(action="%") == []
    assert actions(actor="bob") == ["gc"]
    assert actions(since="2026-11-24T08:02", until="2026-11-24T08:03") == ["keyserver"]


def test_no_other_module_touches_the_table() -> None:
    allowed = {"audit.py", "database.py"}

    found = {
        path.name
        for path in (ROOT / "rye_services").rglob("*.py")
        if "import audit" in path.read_text("utf-8") or '"audit"' in path.read_text("utf-8")
    }

    # In the commands it is the name of one.
    assert found - {"commands.py", "operator_commands.py"} <= allowed


def test_reading_entries_adds_no_entry(database: Database) -> None:
    Audit(database).note("gc")

    Audit(database).entries(AuditFilter(), limit=1)

    with database.reading() as connection:
        assert connection.scalar(select(func.count()).select_from(audit)) == 1


def _vault(database: Database) -> Vault:
    private, public = generate_box_pair()
    return Vault(database, box_private=private, box_public=public, clock=utc_now)
