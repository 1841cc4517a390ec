"""Health of a server: its checks, and how fast they answer."""

import asyncio
import json
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from sqlalchemy import create_engine

from rye_services.process.health import CheckFailedError, Health, probe_disk, probe_keys
from rye_services.process.keys import open_keys
from tests.support.databases import database_url
from tests.support.endings import wait_until
from tests.support.node import Node, running_node

CHECKS = ("database", "disk", "keys")
WELL = dict.fromkeys(CHECKS, "ok")


# --- a state --------------------------------------------------------------------------------------


def test_a_hanging_check_fails_in_time_and_is_started_once() -> None:
    begun, end = [], threading.Event()

    def hang() -> None:
        begun.append(1)
        end.wait(60)

    async def look_twice() -> tuple[float, float]:
        health = Health({"database": hang, "disk": lambda: None}, timeout_s=0.2)
        began_s = time.monotonic()
        first = await health.recent()
        first_s = time.monotonic() - began_s
        assert first.problems == {"database": "no answer within 0.2 s"}
        began_s = time.monotonic()
        second = await health._look()
        assert second.problems == first.problems
        return first_s, time.monotonic() - began_s

    try:
        first_s, second_s = asyncio.run(look_twice())
    finally:
        end.set()

    assert begun == [1]
    assert 0.2 <= first_s < 5
    assert second_s < 0.2  # it is known to hang


def test_the_event_loop_runs_while_a_check_hangs() -> None:
    end = threading.Event()

    def hang() -> None:
        end.wait(60)

    async def count_turns() -> int:
        health = Health({"database": hang}, timeout_s=0.3)
        looking, turns = asyncio.create_task(health.recent()), 0
        while not looking.done():
            await asyncio.sleep(0)
            turns += 1
        return turns

    try:
        turns = asyncio.run(count_turns())
    finally:
        end.set()

    assert turns > 100


def test_simultaneous_health_requests_share_one_check() -> None:
    looks = []

    async def ask_often() -> None:
        health = Health({"disk": lambda: looks.append(1)})
        states = await asyncio.gather(*(health.recent() for _ in range(50)))
        again = await health.recent()
        assert all(state.is_ready for state in (*states, again))

    asyncio.run(ask_often())

    assert looks == [1]


def test_an_unexpected_error_of_a_check_is_reported_by_its_class() -> None:
    def fail() -> None:
        raise ZeroDivisionError("/secret/place of password hunter2")

    async def look() -> dict[str, str]:
        return (await Health({"keys": fail}).recent()).shown()

    assert asyncio.run(look()) == {"keys": "cannot be used (ZeroDivisionError)"}


def test_an_error_about_a_full_disk_says_how_much_is_free(tmp_path: Path) -> None:
    with pytest.raises(CheckFailedError, match=r"^expected at least \d+ MiB free, found \d+ MiB$"):
        probe_disk((tmp_path,), room_bytes=2**60)


def test_the_disk_check_writes_and_removes_a_file(tmp_path: Path) -> None:
    probe_disk((tmp_path, tmp_path / "not made yet"), room_bytes=0)

    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_written_is_reported_without_its_path(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"")

    with pytest.raises(CheckFailedError) as error:
        probe_disk((file,))

    assert str(error.value) == "cannot be written: not a directory"


def test_keys_that_are_gone_are_reported_without_their_path(tmp_path: Path) -> None:
    open_keys(tmp_path / "signing")
    probe_keys(tmp_path / "signing")
    (tmp_path / "signing" / "box_key.pem").unlink()

    with pytest.raises(CheckFailedError) as error:
        probe_keys(tmp_path / "signing")

    assert str(error.value) == "a key of the node is missing"


# --- a server -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    """A node whose database and keys a test may remove and restore."""
    with running_node(tmp_path_factory.mktemp("ready") / "node") as running:
        yield running


@contextmanager
def without_users(node: Node) -> Iterator[None]:
    """The node's database without one of its tables."""
    engine = create_engine(node.settings.database_url)
    try:
        with engine.begin() as connection:
            connection.exec_driver_sql("ALTER TABLE users RENAME TO users_away")
        yield
        with engine.begin() as connection:
            connection.exec_driver_sql("ALTER TABLE users_away RENAME TO users")
    finally:
        engine.dispose()


def is_ready(node: Node) -> bool:
    return node.ask("GET", "/ready").status == 200


def test_a_running_node_is_live_and_ready(node: Node) -> None:
    wait_until(lambda: is_ready(node))

    assert node.ask("GET", "/live").answer == (200, {"status": "live"})
    assert node.ask("GET", "/ready").answer == (200, {"status": "ready", "checks": WELL})
    assert node.ask("GET", "/health").json["status"] == "ok"


def test_without_its_database_a_node_is_live_and_not_ready(node: Node) -> None:
    with without_users(node):
        wait_until(lambda: not is_ready(node))
        ready, health = node.ask("GET", "/ready"), node.ask("GET", "/health")
        live, status = node.ask("GET", "/live"), node.ask("GET", "/status")
    wait_until(lambda: is_ready(node))

    problem = ready.json["checks"].pop("database")
    assert ready.status == 503
    assert problem.startswith("cannot be read (")
    assert (health.status, health.json["status"]) == (503, "degraded")
    assert set(health.json) == {"status", "version", "engine_version", "ryeos_version"}
    assert (live.status, status.status, status.json["healthy"]) == (200, 200, False)
    assert node.ask("GET", "/health").status == 200
    assert "not ready: database: cannot be read" in node.wait_for_line("not ready: database")
    node.wait_for_line("ready again")


def test_without_its_keys_a_node_is_not_ready_but_runs(node: Node) -> None:
    signing = node.settings.signing_key_dir
    aside = signing.rename(signing.with_name("aside"))
    try:
        wait_until(lambda: not is_ready(node))
        ready, health = node.ask("GET", "/ready"), node.ask("GET", "/health")
    finally:
        aside.rename(signing)
    wait_until(lambda: is_ready(node))

    assert ready.json["checks"] == WELL | {"keys": "a key of the node is missing"}
    assert (health.status, health.json["status"]) == (200, "degraded")


def test_health_answers_contain_no_path_and_no_password(node: Node) -> None:
    with without_users(node):
        wait_until(lambda: not is_ready(node))
        answers = [node.ask("GET", path).body for path in ("/ready", "/health", "/status")]
    wait_until(lambda: is_ready(node))

    assert not any(str(node.data).encode() in answer for answer in answers)
    assert not any(b"node.db" in answer for answer in answers)


@pytest.mark.heavy
@pytest.mark.skipif(os.name == "nt", reason="PostgreSQL is started by POSIX means here")
def test_a_database_that_hangs_keeps_no_caller_waiting(tmp_path: Path) -> None:
    import psycopg

    url = database_url(tmp_path / "node", "postgresql")
    environ = {"RYE_NODE_DATABASE_URL": url, "RYE_NODE_LOG_FORMAT": "json"}
    with running_node(tmp_path / "node", environ=environ) as node:
        token = node.user(scopes=("node.metrics",)).bearer
        assert node.ask("GET", "/metrics", headers=token).status == 200
        with psycopg.connect(url.replace("+psycopg", "")) as holder:
            holder.execute("LOCK TABLE users, api_keys IN ACCESS EXCLUSIVE MODE")
            wait_until(lambda: not is_ready(node))
            began_s = time.monotonic()
            answers = {path: node.ask("GET", path) for path in ("/ready", "/live", "/health")}
            figures = node.ask("GET", "/metrics", headers=token)
            other = node.ask("GET", "/metrics", headers={"Authorization": "Bearer rye_sk_x"})
            took_s = time.monotonic() - began_s
        wait_until(lambda: is_ready(node))
        assert node.end() == 0

    assert answers["/ready"].json["checks"]["database"] == "no answer within 2 s"
    assert [answers[path].status for path in ("/ready", "/live", "/health")] == [503, 200, 503]
    assert took_s < 10
    assert (figures.status, other.status) == (200, 503)
    assert b'rye_check_ok{check="database"} 0.0' in figures.body
    assert not any("password" in json.dumps(answer.json) for answer in answers.values())
