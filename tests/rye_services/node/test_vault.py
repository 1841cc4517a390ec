from datetime import UTC, datetime
from pathlib import Path

import pytest
from sqlalchemy import select

from lillux.sealing import generate_box_pair
from rye_services.node.secrets import (
    SecretEntry,
    SecretNotFoundError,
    Vault,
)
from rye_services.refusal import RefusedError
from rye_services.storage.database import Database, user_secrets
from ryeos.remote.envelopes import EnvelopeError, seal_secrets
from ryeos.remote.secret_names import MAX_SECRETS, SecretNameError, SecretValuesError
from tests.support.databases import made_database, on_sqlite_alone
from tests.support.errors import coded

PRIVATE, PUBLIC = generate_box_pair()
NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)


@pytest.fixture
def database(tmp_path: Path) -> Database:
    return made_database(tmp_path)


@pytest.fixture
def vault(database: Database) -> Vault:
    return Vault(database, box_private=PRIVATE, box_public=PUBLIC, clock=lambda: NOON)


def test_secrets_are_returned_to_their_user_only(vault: Vault) -> None:
    vault.put("ann", {"API_KEY": "s3cret", "OTHER": "x"})

    assert vault.values("ann", ["API_KEY"]) == {"API_KEY": "s3cret"}
    assert vault.values("ann", None) == {"API_KEY": "s3cret", "OTHER": "x"}
    assert vault.values("bob", None) == {}


@on_sqlite_alone
def test_values_are_encrypted_in_the_database(vault: Vault, tmp_path: Path) -> None:
    vault.put("ann", {"API_KEY": "very-recognisable-value"})

    files = [path.read_bytes() for path in tmp_path.iterdir() if path.is_file()]

    assert any(b"API_KEY" in content for content in files)
    assert not any(b"recognisable" in content for content in files)


def test_a_row_that_is_copied_to_another_user_does_not_open(
    vault: Vault, database: Database
) -> None:
    vault.put("ann", {"API_KEY": "s3cret"})
    with database.writing() as connection:
        row = connection.execute(select(user_secrets)).one()._asdict()
        connection.execute(user_secrets.insert().values(row | {"user_id": "eve"}))

    with pytest.raises(SecretNotFoundError, check=coded("SECRET_UNREADABLE")) as error:
        vault.values("eve", None)

    assert str(error.value) == "secret sealed to a former key of this node: 'API_KEY'"


def test_secrets_of_a_former_box_key_are_reported_until_they_are_set_again(
    vault: Vault, database: Database
) -> None:
    vault.put("ann", {"A": "1", "B": "2"})
    private, public = generate_box_pair()
    later = Vault(database, box_private=private, box_public=public, clock=lambda: NOON)

    with pytest.raises(SecretNotFoundError, check=coded("SECRET_UNREADABLE")) as error:
        later.values("ann", ["A", "B"])
    later.put("ann", {"A": "3"})

    assert str(error.value) == "secret sealed to a former key of this node: 'A', 'B'"
    assert later.values("ann", ["A"]) == {"A": "3"}


def test_a_secret_that_is_set_again_has_its_new_value_and_keeps_its_beginning(
    database: Database,
) -> None:
    times = iter([NOON, NOON.replace(hour=13)])
    vault = Vault(database, box_private=PRIVATE, box_public=PUBLIC, clock=lambda: next(times))

    vault.put("ann", {"A": "old"})
    vault.put("ann", {"A": "new"})

    assert vault.values("ann", ["A"]) == {"A": "new"}
    assert vault.entries("ann") == (
        SecretEntry("A", "2026-11-21T12:00:00.000000+00:00", "2026-11-21T13:00:00.000000+00:00"),
    )


def test_a_deleted_secret_is_gone(vault: Vault) -> None:
    vault.put("ann", {"A": "1"})

    assert vault.delete("ann", "A")
    assert not vault.delete("ann", "A")
    assert vault.values("ann", None) == {}


def test_all_missing_secrets_are_named(vault: Vault) -> None:
    vault.put("ann", {"A": "1"})

    with pytest.raises(SecretNotFoundError) as error:
        vault.values("ann", ["A", "B", "C"])

    assert str(error.value) == "secret not found: 'B', 'C'"


@pytest.mark.parametrize("name", ["PATH", "aws_key", "1x", "LD_AUDIT", "ü", "A B", ""])
def test_a_name_that_controls_programs_is_refused_with_its_request(vault: Vault, name: str) -> None:
    with pytest.raises(SecretNameError):
        vault.put("ann", {"GOOD": "1", name: "2"})

    assert vault.entries("ann") == ()


def test_a_value_that_is_too_long_is_refused(vault: Vault) -> None:
    with pytest.raises(SecretValuesError):
        vault.put("ann", {"A": "x" * 70_000})


def test_a_user_has_a_bounded_number_of_secrets(vault: Vault) -> None:
    vault.put("ann", {f"A{number}": "x" for number in range(MAX_SECRETS)})

    with pytest.raises(
        RefusedError, match="secrets: expected at most", check=coded("VALIDATION_FAILED")
    ):
        vault.put("ann", {"ONE_MORE": "x"})

    assert len(vault.entries("ann")) == MAX_SECRETS


def test_a_sealed_secret_is_kept_under_its_name(vault: Vault) -> None:
    vault.put_sealed("ann", "TOKEN", seal_secrets({"TOKEN": "t"}, PUBLIC))

    assert vault.values("ann", ["TOKEN"]) == {"TOKEN": "t"}


def test_an_envelope_with_another_name_is_refused(vault: Vault) -> None:
    envelope = seal_secrets({"TOKEN": "t", "MORE": "m"}, PUBLIC)

    with pytest.raises(EnvelopeError) as error:
        vault.put_sealed("ann", "TOKEN", envelope)

    assert str(error.value) == "secret envelope: ciphertext: expected exactly the secret 'TOKEN'"


def test_an_envelope_for_another_node_is_refused(vault: Vault) -> None:
    _, other = generate_box_pair()

    with pytest.raises(EnvelopeError):
        vault.put_sealed("ann", "TOKEN", seal_secrets({"TOKEN": "t"}, other))
