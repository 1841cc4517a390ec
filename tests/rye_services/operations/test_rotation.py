"""``rye-node.pyz keys rotate``: new keys of a node, and all data that depends on them."""

import json
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
from sqlalchemy import insert, select, update

from lillux.errors import LilluxError
from lillux.signing import generate_keypair
from rye_services.node.rotation import finish_resealing, rotate
from rye_services.node.secrets import (
    SEALED_PARAMETERS,
    SecretNotFoundError,
    Vault,
    open_for_execution,
    open_for_hook,
    open_parameters,
    seal_parameters,
)
from rye_services.node.store.servers import ServerLease
from rye_services.node.webhooks import Binding, Webhooks
from rye_services.operations.cli import main
from rye_services.people.audit import Audit, AuditFilter
from rye_services.people.credentials import AuthorizedKeys
from rye_services.process.data_folder import open_database
from rye_services.process.keys import NodeKeys, open_keys
from rye_services.settings import Settings, read_settings
from rye_services.storage.database import Database, threads, user_secrets
from ryeos.items.context import utc_now
from ryeos.remote.envelopes import FOR_EXECUTION, seal_secrets
from ryeos.remote.identity import identity_document, read_identity
from ryeos.remote.pins import PinMismatchError, Pins
from tests.support.databases import database_environ
from tests.support.errors import coded
from tests.support.killed_at_step import kill_before
from tests.support.node_forks import run_forked
from tests.support.workspace import PLAIN_ENV

STEPS = 48
"""More changes of files than a rotation makes below the data folder."""


class Place:
    """A node that is stopped, with a key, a secret, a hook and an execution that waits."""

    def __init__(self, data: Path) -> None:
        self.data = data
        self.environ = database_environ(data)
        self.settings: Settings = read_settings({"data_dir": str(data)}, self.environ, data)
        data.mkdir(parents=True, exist_ok=True)
        keys = self.keys
        open_database(self.settings, make=True).close()
        pair = generate_keypair()
        with self.database() as database:
            self.authorized = AuthorizedKeys(database).authorize(
                pair.public_pem, label="Ada's", scopes=["*"], via="command"
            )
            self._vault(database, keys).put("ada", {"TOKEN": "one"})
            self.hook, self.hook_secret = self._hooks(database, keys).create(
                _binding(keys), "default"
            )
            with database.writing() as connection:
                envelope = seal_secrets(
                    {"WAITS": "two"}, keys.box_public, user="ada", purpose=FOR_EXECUTION
                )
                sealed = seal_parameters({"text": "four"}, keys.box_public, "ada", "t1")
                row = {
                    "job": {"action": "execute", SEALED_PARAMETERS: sealed},
                    "job_secrets": json.dumps(envelope).encode(),
                }
                connection.execute(insert(threads).values(**_thread(), **row))

    @property
    def keys(self) -> NodeKeys:
        """The current keys of the node."""
        return open_keys(self.settings.signing_key_dir)

    def database(self) -> "_Closing":
        """The node's database, closed at the end of a block."""
        return _Closing(open_database(self.settings))

    def secrets(self, keys: NodeKeys) -> tuple[Any, ...]:
        """Every secret that these keys open."""
        with self.database() as database:
            vault = self._vault(database, keys).values("ada", None)
            hooks = self._hooks(database, keys)
            (bound,) = hooks.listed("ada")
            assert bound.secret_envelope is not None
            hook = open_for_hook(
                bound.secret_envelope, keys.box_private, user="ada", hook_id=bound.hook_id
            )
            with database.reading() as connection:
                waiting = json.loads(connection.scalar(select(threads.c.job_secrets)) or b"")
                job = connection.scalar(select(threads.c.job)) or {}
            own = hooks._secret(_row(database, bound.hook_id))
        given = open_parameters(job, keys.box_private, "ada", "t1")
        return vault, hook, own, open_for_execution(waiting, keys.box_private, user="ada"), given

    @property
    def all_secrets(self) -> tuple[Any, ...]:
        """The value of `secrets` while no secret is lost."""
        return (
            {"TOKEN": "one"},
            {"BOUND": "three"},
            self.hook_secret,
            {"WAITS": "two"},
            {"text": "four"},
        )

    def accepts_key(self) -> bool:
        """Whether the authorised key is valid."""
        with self.database() as database:
            return AuthorizedKeys(database).find(self.authorized.fingerprint) == self.authorized

    def _vault(self, database: Database, keys: NodeKeys) -> Vault:
        return Vault(database, **_box(keys), clock=utc_now)

    def _hooks(self, database: Database, keys: NodeKeys) -> Webhooks:
        return Webhooks(database, **_box(keys), clock=utc_now)


class _Closing:
    def __init__(self, database: Database) -> None:
        self._database = database

    def __enter__(self) -> Database:
        return self._database

    def __exit__(self, *_: object) -> None:
        self._database.close()


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """A node that is stopped."""
    return Place(tmp_path / "data")


def rotated(place: Place) -> None:
    """Rotate its keys."""
    with place.database() as database:
        rotate(place.settings, database)


def test_all_secrets_open_with_the_new_keys_and_not_with_the_old(place: Place) -> None:
    former = place.keys

    rotated(place)

    keys = place.keys
    assert keys.fingerprint != former.fingerprint
    assert keys.box_public != former.box_public
    assert place.secrets(keys) == place.all_secrets
    with pytest.raises(SecretNotFoundError, check=coded("SECRET_UNREADABLE")):
        place.secrets(former)


def test_authorised_keys_stay_valid(place: Place) -> None:
    rotated(place)

    assert place.accepts_key()


def test_the_key_for_items_is_kept(place: Place) -> None:
    before = place.keys

    rotated(place)

    after = place.keys
    assert after.items.fingerprint == before.items.fingerprint
    assert after.receipts.public_pem == before.receipts.public_pem


def test_the_identity_names_the_previous_key_for_pins(place: Place, tmp_path: Path) -> None:
    pins = Pins(tmp_path / "home")
    first = _identity(place.keys)
    pins.check("gpu", "node:1", first, expected=None)

    rotated(place)
    rotated(place)

    now = _identity(place.keys)
    assert (len(now.previous), now.followed_at(first.digest)) == (2, now.previous[1].ended_at)
    with pytest.raises(PinMismatchError) as refused:
        pins.check("gpu", "node:1", now, expected=None)
    assert refused.value.hint == (
        f"the pinned key signed on {now.previous[1].ended_at} that this one takes its place;"
        " unless that key was stolen, accept it: rye remote forget gpu"
    )
    with pytest.raises(PinMismatchError) as refused:
        pins.check("gpu", "node:1", now, expected=first.node_id)
    assert refused.value.hint.endswith("accept it: change node_id of gpu in remotes.yaml")


@pytest.mark.parametrize(
    "change",
    [
        lambda one: {**one, "ended_at": "2020-01-01T00:00:00Z"},
        lambda one: {**one, "_signature": {}},
        lambda one: {**one, "kind": "identity/v1"},
        lambda one: {name: value for name, value in one.items() if name != "successor"},
        lambda _: "no document",
    ],
    ids=["changed", "unsigned", "of another kind", "of nothing", "no document"],
)
def test_a_statement_without_the_former_signature_is_ignored(
    place: Place, change: Callable[[Mapping[str, Any]], Any]
) -> None:
    former = _identity(place.keys)
    rotated(place)
    keys = place.keys
    previous = [change(keys.previous[0])]
    forged = identity_document(keys.signing, keys.box_public, keys.created_at)
    document = {**forged, "previous": previous}
    document = _signed(keys, document)

    assert read_identity(document).followed_at(former.digest) == ""


def test_a_change_is_in_the_audit_once(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    former = place.keys.node_id

    with pytest.MonkeyPatch.context() as patch:
        for name, value in place.environ.items():
            patch.setenv(name, value)
        assert main(["keys", "rotate", "--json", "--data", str(place.data)]) == 0

    shown = json.loads(capsys.readouterr().out)
    assert (shown["former_node_id"], shown["resealed"]) == (former, 5)
    assert shown["node_id"] == place.keys.node_id
    with place.database() as database:
        finish_resealing(place.settings.signing_key_dir, database, place.keys)
        (one,) = Audit(database).entries(AuditFilter(action="keys.rotate"), limit=5)
    assert (one.target, one.details) == (place.keys.node_id, {"former": former})
    assert one.actor.startswith("command:")


def test_a_secret_of_an_older_key_is_unchanged(place: Place) -> None:
    with place.database() as database, database.writing() as connection:
        broken = {"enc": "AAAA", "ciphertext": "AAAA"}
        connection.execute(update(user_secrets).values(envelope=broken))

    with place.database() as database:
        done = rotate(place.settings, database)
        with database.reading() as connection:
            kept = connection.scalar(select(user_secrets.c.envelope))

    assert (done.resealed, done.unreadable, kept) == (4, 1, broken)


def test_rotation_refuses_a_running_node(place: Place) -> None:
    lease = ServerLease(place.data / "servers")
    lease.begin()
    before = place.keys.fingerprint

    with pytest.raises(LilluxError, match="expected a node that is stopped"):
        rotated(place)
    lease.end()

    assert place.keys.fingerprint == before


@pytest.mark.heavy
def test_a_kill_at_any_step_leaves_the_old_keys_or_the_new_and_every_secret(
    tmp_path: Path,
) -> None:
    place = Place(tmp_path / "data")
    outcomes = set()
    for step in (*range(1, STEPS, 4), 10_000):
        former = place.keys.fingerprint
        for lock in (place.data / "servers").glob("*.lock"):  # of who was killed: a step each
            lock.unlink()
        ended = run_forked(
            ("keys", "rotate", "-q", "--data", str(place.data)),
            {**PLAIN_ENV, "HOME": str(tmp_path), **place.environ},
            60,
            partial(kill_before, step, str(place.data)),
        )

        keys = place.keys
        outcomes.add((ended.returncode, keys.fingerprint != former))
        assert place.secrets(keys) == place.all_secrets, step
        assert place.accepts_key(), step
        with place.database() as database:
            finish_resealing(place.settings.signing_key_dir, database, keys)
        assert place.secrets(keys) == place.all_secrets, step

    assert outcomes == {(-9, False), (-9, True), (0, True)}


def _identity(keys: NodeKeys) -> Any:  # noqa: ANN401 - NodeIdentity
    document = identity_document(
        keys.signing, keys.box_public, keys.created_at, previous=keys.previous
    )
    return read_identity(json.loads(json.dumps(document)))


def _signed(keys: NodeKeys, document: Mapping[str, Any]) -> dict[str, Any]:
    from ryeos.remote.signed_documents import sign_document

    return sign_document(document, keys.signing, keys.created_at)


def _box(keys: NodeKeys) -> Mapping[str, bytes]:
    return MappingProxyType({"box_private": keys.box_private, "box_public": keys.box_public})


def _binding(keys: NodeKeys) -> Binding:
    envelope = seal_secrets({"BOUND": "three"}, keys.box_public, user="ada", purpose=FOR_EXECUTION)
    return Binding(
        hook_id="", user_id="ada", item_id="tool:a", project_path="ada/p", secret_envelope=envelope
    )


def _row(database: Database, hook_id: str) -> Any:  # noqa: ANN401 - a row
    from rye_services.storage.database import webhook_bindings

    with database.reading() as connection:
        wanted = select(webhook_bindings).where(webhook_bindings.c.hook_id == hook_id)
        return connection.execute(wanted).one()


def _thread() -> Mapping[str, Any]:
    return {
        "thread_id": "t1",
        "user_id": "ada",
        "item_type": "tool",
        "item_id": "tool:a",
        "remote_name": "default",
        "project_path": "ada/p",
        "state": "running",
        "created_at": "2001-02-03T04:05:06.000000+00:00",
    }
