from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from rye_services.people.credentials import ApiKeyMissingError, ApiKeys, UserIdError
from rye_services.refusal import RefusedError
from rye_services.storage.database import Database
from tests.support.databases import made_database
from tests.support.errors import coded
from tests.support.workspace import NOW

USER = "3d4c030534b1c1c6"


class Clock:
    """A clock that a test moves."""

    now = NOW

    def __call__(self) -> object:
        """The current time of this clock."""
        return self.now


@pytest.fixture
def clock() -> Clock:
    """A clock that stands still."""
    return Clock()


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    """A database in a file."""
    opened = made_database(tmp_path)
    yield opened
    opened.close()


@pytest.fixture
def keys(database: Database, clock: Clock) -> ApiKeys:
    """The API keys of a new node."""
    return ApiKeys(database, clock)  # type: ignore[arg-type]


def test_an_api_key_authenticates_its_user(keys: ApiKeys) -> None:
    token, made = keys.create(USER, name="ci", scopes=("remote:push",))

    found = keys.find(token)

    assert found is not None
    assert (found.key.id, found.key.user_id, found.key.name) == (made.id, USER, "ci")
    assert found.key.scopes == ("remote:push",)
    assert found.user_state == "open"
    assert token.startswith("rye_sk_")
    assert token[7:15] == made.key_prefix
    assert len(token) == 7 + 43


def test_all_api_keys_differ(keys: ApiKeys) -> None:
    tokens = {keys.create(USER, name="ci", scopes=None)[0] for _ in range(20)}

    assert len(tokens) == 20


def test_the_text_of_an_api_key_is_not_stored(keys: ApiKeys, tmp_path: Path) -> None:
    token, _ = keys.create(USER, name="ci", scopes=None)

    stored = b"".join(path.read_bytes() for path in tmp_path.iterdir())

    assert token.encode() not in stored
    assert token[15:].encode() not in stored


@pytest.mark.parametrize("token", ["", "rye_sk_", "rye_sk_nothing", "sk_x", "rye_sk_" + "x" * 999])
def test_any_other_text_finds_no_api_key(keys: ApiKeys, token: str) -> None:
    keys.create(USER, name="ci", scopes=None)

    assert keys.find(token) is None


def test_a_revoked_key_is_invalid_and_stays_listed(keys: ApiKeys) -> None:
    token, made = keys.create(USER, name="ci", scopes=None)

    keys.revoke(made.id)

    assert keys.find(token) is None
    assert [key.revoked_at for key in keys.all()] == ["2026-01-02T03:04:05.000000+00:00"]


def test_a_key_can_be_revoked_by_its_prefix(keys: ApiKeys) -> None:
    token, made = keys.create(USER, name="ci", scopes=None)

    keys.revoke(made.key_prefix)

    assert keys.find(token) is None


def test_an_unknown_key_cannot_be_revoked(keys: ApiKeys) -> None:
    with pytest.raises(ApiKeyMissingError) as error:
        keys.revoke("nothing")

    assert str(error.value) == "API key 'nothing': expected the id of one, found none"


def test_a_key_is_valid_until_it_expires(keys: ApiKeys, clock: Clock) -> None:
    token, _ = keys.create(USER, name="ci", scopes=None, expires_after=timedelta(days=1))
    assert keys.find(token) is not None

    clock.now = NOW + timedelta(days=1)

    assert keys.find(token) is None


def test_the_last_use_of_a_key_is_recorded_to_the_minute(keys: ApiKeys, clock: Clock) -> None:
    token, _ = keys.create(USER, name="ci", scopes=None)
    uses = []
    for seconds in (0, 30, 90):
        clock.now = NOW + timedelta(seconds=seconds)
        keys.find(token)
        uses.append(keys.all()[0].last_used_at)

    assert uses == [
        "2026-01-02T03:04:05.000000+00:00",
        "2026-01-02T03:04:05.000000+00:00",
        "2026-01-02T03:05:35.000000+00:00",
    ]


@pytest.mark.parametrize("user_id", ["", "../x", "A", "a b", "con", "com1", "-a", "x" * 65, "ä"])
def test_a_user_has_a_name_that_is_safe_as_a_folder(keys: ApiKeys, user_id: str) -> None:
    with pytest.raises(UserIdError):
        keys.create(user_id, name="ci", scopes=None)


def test_an_invalid_scope_is_refused(keys: ApiKeys) -> None:
    with pytest.raises(RefusedError, match="expected one of", check=coded("INVALID_PARAMS")):
        keys.create(USER, name="ci", scopes=("remote push",))
