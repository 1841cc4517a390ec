"""Decisions that depend on missing rows, made simultaneously, on both databases."""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import pytest
from sqlalchemy import func, insert, select

from lillux.errors import LilluxError
from lillux.sealing import generate_box_pair
from lillux.signing import generate_keypair
from lillux.store import Store
from rye_services.node.secrets import Vault
from rye_services.node.store.objects import Usage
from rye_services.node.webhooks import MOST_BINDINGS, Binding, Webhooks
from rye_services.people.credentials import MAX_NAMED_KEYS, ApiKeys
from rye_services.registry.accounts import (
    MAX_ACCOUNT_KEYS,
    MAX_NAMESPACES,
    Accounts,
    Namespaces,
)
from rye_services.storage.database import Database, api_keys, user_secrets, users, webhook_bindings
from rye_services.storage.registry_tables import account_keys
from ryeos.remote.secret_names import MAX_SECRETS
from tests.support.databases import KINDS, made_database
from tests.support.races import MANY, at_once
from tests.support.workspace import fixed_clock

PRIVATE, PUBLIC = generate_box_pair()
ROOM = 3
"""How many more there may be than there are, of what many want at once."""


@pytest.fixture(params=KINDS)
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Database:
    return made_database(tmp_path, kind=request.param)


def refused(text: str, call: Callable[[], object]) -> str:
    """The refusal of a call, which has this text in it; ``""`` when there was none."""
    try:
        call()
    except LilluxError as error:
        if text not in str(error):
            raise
        return str(error)
    return ""


def served(text: str, calls: Sequence[Callable[[], object]]) -> int:
    """The number of these simultaneous calls that succeeded."""
    return at_once([partial(refused, text, call) for call in calls]).count("")


# --- keys -----------------------------------------------------------------------------------------


def test_of_many_simultaneous_keys_with_one_name_one_is_created(database: Database) -> None:
    keys = ApiKeys(database)

    for number in range(5):
        create = partial(keys.create_named, "ann", name=f"k{number}", scopes=None)

        assert served("there is one with this name", [create] * MANY) == 1


def test_simultaneous_requests_create_no_more_keys_than_allowed(database: Database) -> None:
    keys = ApiKeys(database)
    for number in range(MAX_NAMED_KEYS - ROOM):
        keys.create("ann", name=f"k{number}", scopes=None)
    more = [partial(keys.create_named, "ann", name=f"m{n}", scopes=None) for n in range(MANY)]

    assert served(f"API keys: expected at most {MAX_NAMED_KEYS} of a user", [*more]) == ROOM
    assert count(database, api_keys.c.id) == MAX_NAMED_KEYS


def test_the_first_keys_of_a_user_are_all_made(database: Database) -> None:
    keys = ApiKeys(database)

    for number in range(5):
        create = [
            partial(keys.create, f"u{number}", name=f"k{n}", scopes=None) for n in range(MANY)
        ]
        at_once(create)

    assert count(database, users.c.id) == 5
    assert count(database, api_keys.c.id) == 5 * MANY


# --- limits of each user --------------------------------------------------------------------------


def test_simultaneous_requests_store_no_more_secrets_than_allowed(database: Database) -> None:
    vault = Vault(database, box_private=PRIVATE, box_public=PUBLIC, clock=fixed_clock)
    vault.put("ann", {f"S{number}": "x" for number in range(MAX_SECRETS - ROOM)})
    more = [partial(vault.put, "ann", {f"M{number}": "x"}) for number in range(MANY)]

    assert served(f"secrets: expected at most {MAX_SECRETS} of a user", [*more]) == ROOM
    assert count(database, user_secrets.c.name) == MAX_SECRETS


def test_the_same_secrets_are_set_at_once_in_any_order(database: Database) -> None:
    vault = Vault(database, box_private=PRIVATE, box_public=PUBLIC, clock=fixed_clock)
    values = {f"S{number}": "x" for number in range(40)}
    backwards = dict(reversed(values.items()))

    at_once([partial(vault.put, "ann", one) for one in [values, backwards] * 4])

    assert vault.values("ann", None) == values


def test_simultaneous_requests_create_no_more_webhooks_than_allowed(database: Database) -> None:
    webhooks = Webhooks(database, box_private=PRIVATE, box_public=PUBLIC, clock=fixed_clock)
    binding = Binding(hook_id="", user_id="ann", item_id="tool:a", project_path="p")
    made, _ = webhooks.create(binding, "node")
    with database.writing() as connection:
        row = connection.execute(select(webhook_bindings)).mappings().one()
        more = [{**row, "hook_id": f"wh_{n}"} for n in range(MOST_BINDINGS - ROOM - 1)]
        connection.execute(insert(webhook_bindings), more)

    create = partial(webhooks.create, binding, "node")
    text = f"webhook bindings: expected at most {MOST_BINDINGS} of a user"

    assert served(text, [create] * MANY) == ROOM
    assert len(webhooks.listed("ann")) == MOST_BINDINGS
    assert made.hook_id in {one.hook_id for one in webhooks.listed("ann")}


def test_simultaneous_reservations_stay_within_the_quota(
    database: Database, tmp_path: Path
) -> None:
    usage, store = Usage(database, fixed_clock), Store(tmp_path / "store")
    reserve = partial(usage.reserve, "ann", 10, max_bytes=35, store=store)

    assert served("quota exceeded", [reserve] * MANY) == 3
    assert usage.read("ann", store=store) == 30


def test_simultaneous_measurements_count_a_store_once(database: Database, tmp_path: Path) -> None:
    usage, store = Usage(database, fixed_clock), Store(tmp_path / "store")
    for number in range(200):
        store.put_blob(f"blob {number}".encode())
    right = usage.measure("ann", store=store)

    for _ in range(5):
        usage.add("ann", 1000, store=store)  # of what a crash left uncounted
        at_once([partial(usage.measure, "ann", store=store)] * MANY)

        assert usage.read("ann", store=store) == right


# --- names ----------------------------------------------------------------------------------------


def test_of_many_simultaneous_accounts_with_one_name_one_is_created(database: Database) -> None:
    accounts = Accounts(database)

    for number in range(5):
        names = [f"an-n{number}", f"an_n{number}"] * 4

        calls = [partial(accounts.add, name) for name in names]

        assert served("there is one with this name, or one too like it", calls) == 1


def test_a_name_is_not_both_an_account_and_a_namespace_of_another_user(database: Database) -> None:
    accounts, namespaces = Accounts(database), Namespaces(database)
    accounts.add("bob")

    for number in range(10):
        name = f"wanted{number}"
        calls: list[Callable[[], object]] = [
            partial(accounts.add, name),
            partial(namespaces.claim, name, "bob"),
        ]
        messages = at_once([partial(refused, "", call) for call in calls])

        assert messages.count("") == 1, messages


def test_simultaneous_claims_get_no_more_namespaces_than_allowed(database: Database) -> None:
    accounts, namespaces = Accounts(database), Namespaces(database)
    accounts.add("bob")
    for number in range(MAX_NAMESPACES - ROOM):
        namespaces.claim(f"bobs{number}", "bob")
    more = [partial(namespaces.claim, f"more{number}", "bob") for number in range(MANY)]

    assert served(f"expected at most {MAX_NAMESPACES} of one owner", [*more]) == ROOM
    assert len(namespaces.of("bob")) == MAX_NAMESPACES


def test_a_signing_key_added_at_once_by_several_belongs_to_one(database: Database) -> None:
    accounts = Accounts(database)
    names = [f"user{number}" for number in range(MANY)]
    for name in names:
        accounts.add(name)

    for _ in range(5):
        pem = generate_keypair().public_pem

        calls = [partial(accounts.add_key, name, pem) for name in names]

        assert served("belongs to another account", calls) == 1


def test_simultaneous_requests_add_no_more_signing_keys_than_allowed(database: Database) -> None:
    accounts = Accounts(database)
    accounts.add("bob")
    for _ in range(MAX_ACCOUNT_KEYS - ROOM):
        accounts.add_key("bob", generate_keypair().public_pem)
    more = [partial(accounts.add_key, "bob", generate_keypair().public_pem) for _ in range(MANY)]

    assert served(f"expected at most {MAX_ACCOUNT_KEYS} keys", [*more]) == ROOM
    assert count(database, account_keys.c.fingerprint) == MAX_ACCOUNT_KEYS


def count(database: Database, column: object) -> int:
    """How many rows there are of the table of a column."""
    with database.reading() as connection:
        return int(connection.scalar(select(func.count(column))) or 0)  # type: ignore[arg-type]
