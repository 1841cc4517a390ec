from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

import pytest

from rye_services.node.store.heads import Head, Heads, UserSpaceRef, UserSpaceRefs
from rye_services.storage.database import Database
from tests.support.databases import made_database

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
STAMP = "2026-01-02T03:04:05.000000+00:00"


def digest(number: int) -> str:
    return f"{number:064x}"


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    """An empty database of a node."""
    database = made_database(tmp_path)
    yield database
    database.close()


@pytest.fixture
def heads(database: Database) -> Heads:
    """Heads of an empty database."""
    return Heads(database)


def advance(heads: Heads, expected: Head | None, number: int, project: str = "me/p") -> bool:
    return None is not heads.advance(
        "ada",
        "node",
        project,
        expected=expected,
        snapshot_hash=digest(number),
        project_manifest_hash=digest(number + 100),
        user_manifest_hash=None,
        system_version="0.1.0",
        now=NOW,
    )


def test_a_project_never_pushed_has_no_head(heads: Heads) -> None:
    assert heads.read("ada", "node", "me/p") is None


def test_the_first_head_has_the_first_revision(heads: Heads) -> None:
    assert advance(heads, None, 1)

    assert heads.read("ada", "node", "me/p") == Head(
        snapshot_hash=digest(1),
        revision=1,
        project_manifest_hash=digest(101),
        user_manifest_hash=None,
        system_version="0.1.0",
        pushed_at=STAMP,
    )


def test_a_head_moves_from_where_it_is(heads: Heads) -> None:
    advance(heads, None, 1)
    first = heads.read("ada", "node", "me/p")

    assert advance(heads, first, 2)

    second = heads.read("ada", "node", "me/p")
    assert second
    assert (second.snapshot_hash, second.revision) == (digest(2), 2)


def test_a_head_does_not_move_from_where_it_was(heads: Heads) -> None:
    advance(heads, None, 1)
    first = heads.read("ada", "node", "me/p")
    advance(heads, first, 2)

    assert not advance(heads, first, 3)
    assert not advance(heads, None, 4)


def test_a_head_with_an_earlier_snapshot_is_another_revision(heads: Heads) -> None:
    advance(heads, None, 1)
    first = heads.read("ada", "node", "me/p")
    advance(heads, first, 2)
    advance(heads, heads.read("ada", "node", "me/p"), 1)

    assert not advance(heads, first, 3)


def test_each_user_remote_and_project_has_its_own_head(heads: Heads) -> None:
    advance(heads, None, 1)

    others = [("bob", "node", "me/p"), ("ada", "other", "me/p"), ("ada", "node", "me/P")]
    assert [heads.read(*key) for key in others] == [None, None, None]


def test_of_many_moves_from_one_head_one_succeeds(heads: Heads) -> None:
    advance(heads, None, 1)
    first = heads.read("ada", "node", "me/p")

    with ThreadPoolExecutor(8) as pool:
        moved = list(pool.map(lambda number: advance(heads, first, number), range(2, 26)))

    assert moved.count(True) == 1


def test_of_many_first_heads_one_succeeds(heads: Heads) -> None:
    with ThreadPoolExecutor(8) as pool:
        moved = list(pool.map(lambda number: advance(heads, None, number), range(24)))

    assert moved.count(True) == 1


def test_a_user_space_is_replaced_revision_by_revision(database: Database) -> None:
    refs = UserSpaceRefs(database)

    def push(expected: int | None, number: int) -> bool:
        return None is not refs.advance(
            "ada",
            "node",
            expected_revision=expected,
            user_manifest_hash=digest(number),
            now=NOW,
        )

    assert [push(3, 1), push(None, 2), push(None, 3), push(2, 4), push(1, 5)] == [
        False,
        True,
        False,
        False,
        True,
    ]
    assert refs.read("ada", "node") == UserSpaceRef(digest(5), 2, STAMP)


def test_a_move_returns_its_own_head_even_if_it_has_moved_since(heads: Heads) -> None:
    first = heads.advance(
        "ada",
        "node",
        "me/p",
        expected=None,
        snapshot_hash=digest(1),
        project_manifest_hash=digest(101),
        user_manifest_hash=None,
        system_version="0.1.0",
        now=NOW,
    )

    assert first == heads.read("ada", "node", "me/p")
    assert advance(heads, first, 2)
    assert heads.read("ada", "node", "me/p") != first
