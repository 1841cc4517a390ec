"""Rows of executions on several servers: each begins once, and is folded back once."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import update

from rye_services.node.queue.rows import (
    LEASE_S,
    MOST_ATTEMPTS,
    ExecutionLostError,
    NewThread,
    ThreadRows,
)
from rye_services.node.store.heads import Heads
from rye_services.storage.database import Database, threads
from tests.support.databases import made_database

USER = "a" * 16
NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


@pytest.fixture
def database(tmp_path: Path) -> Database:
    return made_database(tmp_path)


@pytest.fixture
def server(tmp_path: Path) -> Callable[[str], ThreadRows]:
    """Another server of the same database, without shared objects, like another process."""
    return lambda name: ThreadRows(made_database(tmp_path), name, lambda _: False)


def thread(thread_id: str = "t", *, is_async: bool = True) -> NewThread:
    return NewThread(
        thread_id=thread_id,
        user_id=USER,
        item_ref="tool:echo",
        remote_name="default",
        project_path="project",
        project_manifest_hash="1" * 64,
        user_manifest_hash=None,
        system_version="0.1.0",
        job={"action": "execute"} if is_async else None,
    )


def row(rows: ThreadRows, thread_id: str = "t") -> dict[str, Any]:
    found = rows.one(USER, thread_id)
    assert found is not None
    return found


def begun(rows: ThreadRows, thread_id: str, *, retryable: bool = False, attempt: int = 1) -> bool:
    """Record that an item runs; true if it may."""
    return rows.mark_begun(thread_id, attempt, retryable=retryable, given=None)


def expire(database: Database) -> None:
    """Let every lease expire."""
    with database.writing() as connection:
        ago = threads.c.lease_until_s - LEASE_S - 1
        connection.execute(update(threads).values(lease_until_s=ago))


def test_of_200_simultaneous_claims_each_execution_has_one(
    database: Database, server: Callable[[str], ThreadRows]
) -> None:
    first, second = server("one"), server("two")
    names = [f"t{number}" for number in range(25)]
    for name in names:
        first.begin(thread(name))
    expire(database)

    def claim(number: int) -> str | None:
        rows = (first, second)[number % 2]
        pending = rows.claim(names[number // 8])
        return pending.thread_id if pending else None

    with ThreadPoolExecutor(16) as pool:
        claimed = [one for one in pool.map(claim, range(200)) if one]

    assert sorted(claimed) == sorted(names)
    assert {row(first, name)["attempt"] for name in names} == {1}


def test_servers_with_different_clocks_do_not_take_over_each_others_executions(
    tmp_path: Path,
) -> None:
    here = made_database(tmp_path)
    first = ThreadRows(here, "one", lambda _: False)
    first.begin(thread(is_async=False))
    second = ThreadRows(here, "two", lambda _: False)

    assert second.take_over() == ()
    assert row(second)["state"] == "running"
    with here.reading() as connection:
        time = here.now(connection)
    assert abs((time - datetime.now(UTC)).total_seconds()) < 90


def test_a_lost_execution_does_not_move_a_head(
    database: Database, server: Callable[[str], ThreadRows]
) -> None:
    first, second, heads = server("one"), server("two"), Heads(database)
    head = heads.advance(USER, "default", "project", expected=None, **values("1"))
    first.begin(thread(is_async=False))
    expire(database)
    second.take_over()

    with pytest.raises(ExecutionLostError, match="t was taken for lost"):
        heads.advance(
            USER,
            "default",
            "project",
            expected=head,
            **values("2"),
            first=lambda connection: first.hold(connection, "t", 1),
        )

    now = heads.read(USER, "default", "project")
    assert now is not None
    assert now.snapshot_hash == "1" * 64
    assert (row(second)["state"], row(second)["error_phase"]) == ("error", "lost")
    assert not first.end("t", 1, "completed")


def values(digit: str) -> dict[str, Any]:
    return {
        "snapshot_hash": digit * 64,
        "project_manifest_hash": digit * 64,
        "user_manifest_hash": None,
        "system_version": "0.1.0",
        "now": NOW,
    }


def test_an_execution_that_is_held_is_not_taken_over(
    database: Database, server: Callable[[str], ThreadRows]
) -> None:
    first, second = server("one"), server("two")
    first.begin(thread(is_async=False))
    expire(database)

    with database.writing() as connection:
        first.hold(connection, "t", 1)

    assert second.take_over() == ()
    assert row(first)["state"] == "running"


def test_an_earlier_attempt_cannot_end_the_execution(server: Callable[[str], ThreadRows]) -> None:
    rows = server("one")
    rows.begin(thread())
    assert rows.claim("t")
    assert begun(rows, "t", retryable=True)
    assert rows.put_back("t", 1)

    again = rows.claim("t")

    assert again is not None
    assert again.attempt == 2
    assert not rows.end("t", 1, "completed")
    assert rows.end("t", 2, "completed")


def test_a_retryable_execution_of_a_server_that_died_waits_again(
    database: Database, server: Callable[[str], ThreadRows]
) -> None:
    first, second = server("one"), server("two")
    for name in ("t", "once"):
        first.begin(thread(name))
        assert first.claim(name)
        assert begun(first, name, retryable=name == "t")
    expire(database)

    assert second.take_over() == ("t",)

    assert row(second)["state"] == "running"
    assert row(second, "once")["error_phase"] == "lost"
    pending = second.claim("t")
    assert pending is not None
    assert (pending.attempt, pending.job) == (2, {"action": "execute"})


def test_a_retryable_execution_with_a_waiting_request_is_lost(
    database: Database, server: Callable[[str], ThreadRows]
) -> None:
    first, second = server("one"), server("two")
    first.begin(thread(is_async=False))
    assert begun(first, "t", retryable=True)
    expire(database)

    assert second.take_over() == ()
    assert row(second)["error_phase"] == "lost"


def test_a_claimed_execution_that_did_not_begin_is_taken_over(
    database: Database, server: Callable[[str], ThreadRows]
) -> None:
    first, second = server("one"), server("two")
    first.begin(thread())
    assert first.claim("t")
    expire(database)

    assert second.take_over() == ("t",)
    again = second.claim("t")

    assert again is not None
    assert again.attempt == 2
    with pytest.raises(ExecutionLostError):
        begun(first, "t")
    assert begun(second, "t", attempt=2)


def test_only_an_execution_that_has_not_begun_is_put_back(
    server: Callable[[str], ThreadRows],
) -> None:
    rows = server("one")
    for name in ("taken", "begun"):
        rows.begin(thread(name))
        assert rows.claim(name)
    assert begun(rows, "begun")

    assert rows.put_back("taken", 1)
    assert not rows.put_back("begun", 1)


def test_an_execution_that_begins_meanwhile_is_not_taken_over(
    database: Database, server: Callable[[str], ThreadRows]
) -> None:
    first, second = server("one"), server("two")
    first.begin(thread())
    assert first.claim("t")
    expire(database)
    assert begun(first, "t")  # a server that was paused, after another one has looked

    assert not second._adopt("t", "one", is_dead=False, again=True)

    assert row(second)["state"] == "running"
    assert second.take_over() == ()
    assert row(second)["error_phase"] == "lost"


def test_an_execution_is_lost_after_ten_servers_died_with_it(
    database: Database, server: Callable[[str], ThreadRows]
) -> None:
    rows = server("one")
    rows.begin(thread())
    for number in range(MOST_ATTEMPTS):
        expire(database)
        taking, other = server(f"s{number}"), server("other")
        assert taking.claim("t")
        expire(database)
        assert other.take_over() == (("t",) if number < MOST_ATTEMPTS - 1 else ())

    assert row(rows)["error_phase"] == "lost"
    assert row(rows)["error_message"].endswith("before it was over, 10 times")


@pytest.mark.parametrize("is_begun", [False, True])
def test_a_cancelled_execution_ends_as_cancelled_though_its_server_died(
    database: Database, server: Callable[[str], ThreadRows], *, is_begun: bool
) -> None:
    first, second = server("one"), server("two")
    first.begin(thread())
    assert first.claim("t")
    assert not is_begun or begun(first, "t", retryable=True)
    assert second.cancel(USER, "t", "eve") == "running"
    expire(database)

    assert second.take_over() == ()

    assert (row(second)["state"], row(second)["error_phase"]) == ("cancelled", "cancelled")
    assert row(second)["error_message"] == "cancelled by eve"


def test_an_execution_cancelled_after_its_claim_does_not_begin(
    server: Callable[[str], ThreadRows],
) -> None:
    rows = server("one")
    rows.begin(thread())
    assert rows.claim("t")
    rows.cancel(USER, "t", USER)

    assert not begun(rows, "t")


def test_a_waiting_execution_is_cancelled_at_once_and_a_running_one_by_its_server(
    server: Callable[[str], ThreadRows],
) -> None:
    first, second = server("one"), server("two")
    for name in ("waits", "runs"):
        first.begin(thread(name))
    assert first.claim("runs")

    assert second.cancel(USER, "waits", USER) == "cancelled"
    assert second.cancel(USER, "runs", USER) == "running"
    assert second.cancel("b" * 16, "runs", "eve") is None

    assert first.claim("waits") is None
    assert (first.to_be_ended(), second.to_be_ended()) == (("runs",), ())
    assert row(first, "runs")["cancelled_by"] == USER
    assert first.end("runs", 1, "cancelled")
    assert second.cancel(USER, "runs", "eve") == "cancelled"
    assert row(first, "runs")["cancelled_by"] == USER


def test_times_in_a_row_are_from_the_clock_of_the_database(tmp_path: Path) -> None:
    database = made_database(tmp_path, clock=lambda: NOW + timedelta(days=1))
    rows = ThreadRows(database, "one", lambda _: False)
    rows.begin(thread())

    assert row(rows)["created_at"] == "2026-01-03T03:04:05.000000+00:00"
