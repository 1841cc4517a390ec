from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path

import pytest

from rye_services.people.credentials import Nonces
from rye_services.storage.database import Database
from tests.support.databases import made_database
from tests.support.workspace import NOW

ADA, BOB = "3d4c030534b1c1c6", "07097e6443239d36"


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    """A database in a file."""
    opened = made_database(tmp_path)
    yield opened
    opened.close()


def test_a_nonce_is_valid_once_per_key(database: Database) -> None:
    nonces = Nonces(database)

    used = [nonces.use(key, "n") for key in (ADA, ADA, BOB, BOB)]

    assert used == [True, False, True, False]


def test_of_many_simultaneous_uses_of_a_nonce_one_succeeds(database: Database) -> None:
    nonces = Nonces(database)

    with ThreadPoolExecutor(8) as pool:
        used = list(pool.map(lambda _: nonces.use(ADA, "n"), range(32)))

    assert used.count(True) == 1


def test_a_nonce_is_kept_as_long_as_its_request_is_valid(database: Database) -> None:
    now = NOW
    nonces = Nonces(database, lambda: now)
    nonces.use(ADA, "n")

    # The clock of the sender may be 300 s ahead, so that it may come again 600 s from now.
    now = NOW + timedelta(seconds=601)
    nonces.forget_old()
    again = nonces.use(ADA, "n")
    now = NOW + timedelta(seconds=661)
    forgotten = nonces.forget_old()

    assert again is False
    assert forgotten == 1
