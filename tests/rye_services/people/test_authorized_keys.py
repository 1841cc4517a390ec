"""The keys that an operator authorises: rows of the database."""

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lillux.signing import KeyPair, compute_key_fingerprint, generate_keypair
from rye_services.people.credentials import (
    AuthorizedKey,
    AuthorizedKeyMissingError,
    AuthorizedKeys,
    LastManagerError,
    PublicKeyError,
)
from rye_services.people.people import People
from rye_services.refusal import RefusedError
from rye_services.storage.database import Database
from rye_services.storage.migrations import make_tables
from ryeos.items.errors import RyeError
from ryeos.remote.identity import encode_public_key
from tests.support.databases import database_url, made_database
from tests.support.errors import coded
from tests.support.workspace import NOW, fixed_clock

ADA, BOB = generate_keypair(), generate_keypair()


def fingerprint(pair: KeyPair) -> str:
    """The fingerprint of a key."""
    return compute_key_fingerprint(pair.public_pem)


@pytest.fixture
def database(tmp_path: Path) -> Database:
    """A database with its tables."""
    return made_database(tmp_path)


@pytest.fixture
def authorized(database: Database) -> AuthorizedKeys:
    """The authorised keys of a new node."""
    return AuthorizedKeys(database, fixed_clock)


def authorize(
    authorized: AuthorizedKeys, pair: KeyPair, *scopes: str, **more: str
) -> AuthorizedKey:
    """Authorise a key for these scopes."""
    label = more.pop("label", "")
    return authorized.authorize(
        pair.public_pem, label=label, scopes=scopes, via="command", expires_at=more.get("until")
    )


def test_an_authorised_key_is_found(authorized: AuthorizedKeys, database: Database) -> None:
    added = authorize(authorized, ADA, "remote:push", label="Ada's laptop")

    found = authorized.find(fingerprint(ADA))

    assert found == added
    assert (added.label, added.scopes) == ("Ada's laptop", ("remote:push",))
    assert (added.created_at, added.created_by) == ("2026-01-02T03:04:05Z", "node")
    assert authorized.find(fingerprint(BOB)) is None
    assert authorized.all() == (added,)
    known = People(database).of_key(fingerprint(ADA))
    assert (known.row, known.state, known.authorized) == (None, "open", added)
    assert People(database).of_key(fingerprint(BOB)).authorized is None


def test_a_change_on_one_server_is_effective_on_all_at_once(
    authorized: AuthorizedKeys, tmp_path: Path
) -> None:
    other = Database(database_url(tmp_path))
    elsewhere = AuthorizedKeys(other, fixed_clock)

    added = authorize(authorized, ADA, "*")
    assert elsewhere.find(fingerprint(ADA)) == added
    elsewhere.revoke(fingerprint(ADA))

    assert authorized.find(fingerprint(ADA)) is None
    other.close()


@given(label=st.text(st.characters(exclude_categories=["C", "Z"]), max_size=50))
def test_any_visible_label_comes_back(tmp_path_factory: pytest.TempPathFactory, label: str) -> None:
    authorized = AuthorizedKeys(_one_database(tmp_path_factory), fixed_clock)

    authorize(authorized, ADA, "remote:push", label=label)

    found = authorized.find(fingerprint(ADA))
    assert found is not None
    assert (found.label, found.scopes) == (label, ("remote:push",))


_databases: list[Database] = []


def _one_database(factory: pytest.TempPathFactory) -> Database:
    """One for all examples."""
    if not _databases:
        made = Database(database_url(factory.mktemp("labels")))
        make_tables(made)
        _databases.append(made)
    return _databases[0]


@pytest.mark.parametrize("label", ['x"\nscopes = ["*"]', "a\tb", "x" * 201, "\ud800", "a\0b"])
def test_a_label_is_one_short_visible_line(authorized: AuthorizedKeys, label: str) -> None:
    with pytest.raises(RyeError, match=r"^label: expected", check=coded("CONFIG_ERROR")):
        authorize(authorized, ADA, "remote:push", label=label)

    assert authorized.all() == ()


def test_an_invalid_scope_is_refused(authorized: AuthorizedKeys) -> None:
    with pytest.raises(RefusedError, match="expected one of", check=coded("INVALID_PARAMS")):
        authorize(authorized, ADA, 'remote:push"]')


def test_a_key_that_is_added_again_gets_the_new_scopes_alone(authorized: AuthorizedKeys) -> None:
    authorize(authorized, ADA, "*")

    again = authorize(authorized, ADA, "remote:push")

    assert authorized.all() == (again,)


def test_a_key_is_valid_until_it_expires(database: Database) -> None:
    now = NOW
    authorized = AuthorizedKeys(database, lambda: now)
    authorize(authorized, ADA, "*", until="2026-01-02T03:04:10Z")
    assert authorized.find(fingerprint(ADA)) is not None

    now = NOW + timedelta(seconds=5)

    assert authorized.find(fingerprint(ADA)) is None
    assert authorized.all() == ()
    authorized.revoke(fingerprint(ADA))


@pytest.mark.parametrize("name", ["", "../x", "A" * 16, "0" * 15, "0" * 16 + ".toml", "x" * 999])
def test_a_text_that_is_not_a_fingerprint_finds_no_key(
    authorized: AuthorizedKeys, name: str
) -> None:
    assert authorized.find(name) is None
    with pytest.raises(AuthorizedKeyMissingError):
        authorized.revoke(name)


def test_a_revoked_key_is_not_found(authorized: AuthorizedKeys) -> None:
    authorize(authorized, ADA, "*")

    authorized.revoke(fingerprint(ADA))

    assert authorized.find(fingerprint(ADA)) is None
    with pytest.raises(AuthorizedKeyMissingError):
        authorized.revoke(fingerprint(ADA))


def test_the_last_managing_key_cannot_be_revoked(authorized: AuthorizedKeys) -> None:
    authorize(authorized, ADA, "*")
    authorize(authorized, BOB, "remote:*")

    with pytest.raises(LastManagerError):
        authorized.revoke_unless_last(fingerprint(ADA))
    authorize(authorized, BOB, "node.auth.manage")
    authorized.revoke_unless_last(fingerprint(ADA))

    assert [key.fingerprint for key in authorized.all()] == [fingerprint(BOB)]


def test_two_managers_cannot_revoke_each_other_at_once(
    authorized: AuthorizedKeys,
) -> None:
    for pair in (ADA, BOB):
        authorize(authorized, pair, "*")

    def revoke(pair: KeyPair) -> bool:
        try:
            authorized.revoke_unless_last(fingerprint(pair))
        except LastManagerError:
            return False
        return True

    with ThreadPoolExecutor(2) as pool:
        assert sorted(pool.map(revoke, (ADA, BOB))) == [False, True]

    assert len(authorized.all()) == 1


def test_the_first_key_may_come_from_the_environment(authorized: AuthorizedKeys) -> None:
    first = authorized.bootstrap(encode_public_key(ADA.public_pem), "first")
    second = authorized.bootstrap(encode_public_key(BOB.public_pem), "second")

    assert first is not None
    assert (first.fingerprint, first.label, first.scopes) == (fingerprint(ADA), "first", ("*",))
    assert first.created_via == "bootstrap"
    assert second is None
    assert authorized.all() == (first,)


def test_of_simultaneous_starts_one_authorises_the_first_key(
    authorized: AuthorizedKeys,
) -> None:
    def begin(pair: KeyPair) -> bool:
        return authorized.bootstrap(encode_public_key(pair.public_pem), "first") is not None

    with ThreadPoolExecutor(4) as pool:
        made = list(pool.map(begin, [generate_keypair() for _ in range(4)]))

    assert made.count(True) == len(authorized.all()) == 1


def test_an_invalid_first_key_is_refused(authorized: AuthorizedKeys) -> None:
    with pytest.raises(PublicKeyError, match="BOOTSTRAP_PUBLIC_KEY: "):
        authorized.bootstrap("ed25519:nonsense", "first")


def test_an_expiry_without_a_time_zone_is_in_utc(database: Database) -> None:
    now = datetime(2026, 1, 2, 3, 4, 6, tzinfo=UTC)
    authorized = AuthorizedKeys(database, lambda: now)
    authorize(authorized, ADA, "*", until="2026-01-02T03:04:07")

    assert authorized.find(fingerprint(ADA)) is not None


def test_an_expiry_that_is_not_a_time_is_refused(authorized: AuthorizedKeys) -> None:
    with pytest.raises(RyeError, check=coded("CONFIG_ERROR")) as error:
        authorize(authorized, ADA, "*", until="tomorrow")

    assert str(error.value) == (
        "expires_at: expected a moment like 2027-01-31T00:00:00Z, found 'tomorrow'"
    )
