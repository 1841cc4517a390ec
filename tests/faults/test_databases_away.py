"""A database that goes away for a while and comes back: clients get errors, nothing is lost."""

import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event
from time import monotonic

import pytest

from rye_services.storage.database import BUSY_TIMEOUT_S as BUSY_S
from tests.support.databases import Cluster, private_cluster
from tests.support.endings import wait_until
from tests.support.node import Node, Reply, User, running_node
from tests.support.remote_projects import TEXT, RemoteProject
from tests.support.workspace import Workspace

pytestmark = [
    pytest.mark.skipif(os.name == "nt", reason="PostgreSQL is started by POSIX means here"),
    pytest.mark.heavy,
]
CLIENTS, MANY = 4, 50
PASSWORD = "hunter2"


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with private_cluster() as running:
        yield running


@pytest.fixture
def away_node(cluster: Cluster, tmp_path: Path) -> Iterator[Node]:
    """A node on that database."""
    url = cluster.url.replace("rye@", f"rye:{PASSWORD}@")
    with running_node(tmp_path / "node", environ={"RYE_NODE_DATABASE_URL": url}) as node:
        yield node


@dataclass(slots=True)
class Client:
    """A client that requests webhooks, one after the other."""

    user: User
    replies: list[Reply] = field(default_factory=list)
    made: list[str] = field(default_factory=list)

    def work(self, end: Event) -> None:
        """Until it is to end."""
        while not end.is_set():
            body = {"item_id": "tool:a/b", "project_path": "garden"}
            reply = self.user.ask("POST", "/webhook-bindings", body, auth="bearer")
            self.replies.append(reply)
            if reply.status == 200:
                self.made.append(reply.json["hook_id"])

    @property
    def refused(self) -> int:
        """How often it was not served."""
        return sum(reply.status != 200 for reply in self.replies)

    @property
    def known(self) -> set[str]:
        """The ids of the webhooks that the node lists."""
        reply = self.user.ask("GET", "/webhook-bindings")
        return {one["hook_id"] for one in reply.json["bindings"]}


def test_clients_of_a_database_that_is_away_have_to_retry(
    cluster: Cluster, away_node: Node
) -> None:
    clients, end = [Client(away_node.user()) for _ in range(CLIENTS)], Event()
    with ThreadPoolExecutor(CLIENTS) as pool:
        working = [pool.submit(client.work, end) for client in clients]
        try:
            wait_until(lambda: all(len(client.made) >= 2 for client in clients))
            cluster.stop()
            wait_until(lambda: all(client.replies[-1].status == 503 for client in clients))
            wait_until(lambda: away_node.ask("GET", "/ready").status == 503)
            live, page = away_node.ask("GET", "/live"), away_node.ask("GET", "/threads")
            wait_until(lambda: all(client.refused >= MANY for client in clients))
            cluster.start()
            before = [len(client.made) for client in clients]
            wait_until(
                lambda: all(
                    len(client.made) > count for client, count in zip(clients, before, strict=True)
                )
            )
        finally:
            end.set()
    for one in working:
        one.result()
    wait_until(lambda: away_node.ask("GET", "/ready").status == 200)

    answers = [reply for client in clients for reply in client.replies]
    refused = [reply for reply in answers if reply.status != 200]
    assert {reply.status for reply in refused} == {503}
    assert {reply.body for reply in refused} == {b'{"detail":"the database does not answer"}'}
    assert {reply.headers["retry-after"] for reply in refused} == {"5"}
    assert (live.status, page.status) == (200, 401)
    for client in clients:
        assert set(client.made) <= client.known
    assert not any(PASSWORD in line for line in away_node.log)


def test_an_execution_that_began_before_is_over_afterwards(
    cluster: Cluster, away_node: Node, workspace: Workspace
) -> None:
    project = RemoteProject.with_tools(workspace, away_node.user())
    running = project.begun("echo new > src/x.txt")
    cluster.stop()
    refused = project.ask("tool:echo", **{"async": True})
    project.release()
    away_node.wait_for_line("its end is not in its row yet")
    cluster.start()

    row = project.ended(running)
    later = project.ask("tool:echo")

    assert (refused.status, refused.headers["retry-after"]) == (503, "5")
    assert (row["state"], row["error_phase"]) == ("error", "database")
    assert (
        row["error_message"] == "the database went away: look at HEAD before you execute it again"
    )
    assert project.text("src/x.txt") == "one\ntwo\nthree\n"
    assert (later.status, later.json["status"]) == (200, "success")


@dataclass(slots=True)
class Holder:
    """Another process that has the file of SQLite locked."""

    path: Path
    held: "subprocess.Popen[str] | None" = None

    def lock(self) -> None:
        """Lock it; it is when this returns."""
        script = (
            "import sqlite3, sys;"
            "c = sqlite3.connect(sys.argv[1], timeout=60, isolation_level=None);"
            "c.execute('BEGIN IMMEDIATE'); print('locked', flush=True); sys.stdin.read()"
        )
        self.held = subprocess.Popen(
            [sys.executable, "-c", script, str(self.path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            encoding="utf-8",
        )
        assert self.held.stdout is not None
        assert self.held.stdout.readline() == "locked\n"

    def free(self) -> None:
        """Let it go."""
        if self.held is not None:
            self.held.kill()
            self.held.communicate()
            self.held = None


@pytest.fixture
def sqlite_node(tmp_path: Path) -> Iterator[tuple[Node, Holder]]:
    """A node on a file of SQLite, and a connection that can lock it."""
    path = tmp_path / "node" / "node.db"
    with running_node(
        tmp_path / "node", environ={"RYE_NODE_DATABASE_URL": f"sqlite:///{path}"}
    ) as node:
        holder = Holder(path)
        try:
            yield node, holder
        finally:
            holder.free()


def test_clients_of_a_file_of_sqlite_that_is_locked_for_long_have_to_retry_in_time(
    sqlite_node: tuple[Node, Holder], workspace: Workspace
) -> None:
    node, holder = sqlite_node
    project = RemoteProject.with_tools(workspace, node.user())
    clients, end = [Client(node.user()) for _ in range(2 * CLIENTS)], Event()
    with ThreadPoolExecutor(2 * CLIENTS) as pool:
        working = [pool.submit(client.work, end) for client in clients]
        try:
            wait_until(lambda: all(len(client.made) >= 2 for client in clients))
            running = project.begun("echo new > src/x.txt")
            holder.lock()
            locked_s = monotonic()
            wait_until(lambda: all(client.refused >= 1 for client in clients), 2 * BUSY_S + 10)
            waited_s = monotonic() - locked_s
            ready, live = node.ask("GET", "/ready").status, node.ask("GET", "/live").status
            project.release()
            # As long as the other database is away: the rest of the run's output has to wait too.
            wait_until(lambda: monotonic() - locked_s > 30.0, 60)
            holder.free()
            before = [len(client.made) for client in clients]
            wait_until(
                lambda: all(
                    len(client.made) > count for client, count in zip(clients, before, strict=True)
                ),
                2 * BUSY_S + 10,
            )
        finally:
            holder.free()
            end.set()
    for one in working:
        one.result()
    row = project.ended(running)

    refused = [one for client in clients for one in client.replies if one.status != 200]
    assert {(one.status, one.body) for one in refused} == {
        (503, b'{"detail":"the database does not answer"}')
    }
    assert {one.headers["retry-after"] for one in refused} == {"5"}
    assert waited_s < 2 * BUSY_S + 5
    assert (ready, live) == (200, 200)  # it is read as always
    for client in clients:
        assert set(client.made) <= client.known
    assert (row["state"], row["attempt"]) in (("completed", 1), ("error", 1))
    assert project.text("src/x.txt") == ("new\n" if row["state"] == "completed" else TEXT)
