"""Servers, workers and the database are killed under 20 clients: acknowledged work is there.

``RYE_TEST_KILLS`` is how often, ``RYE_TEST_SEED`` repeats when and whom. With more than in CI:

    RYE_TEST_KILLS=200 RYE_TEST_READY_S=300 build/venv/bin/python -m pytest -s -m heavy \
        -o faulthandler_timeout=7200 tests/faults/test_random_kills.py -k sqlite
"""

import json
import os
import random
import signal
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from http.client import HTTPException
from pathlib import Path
from threading import Event, Thread

import pytest

from rye_services.node.queue.rows import MOST_ATTEMPTS
from ryeos.remote.envelopes import seal_secrets
from tests.support.databases import Cluster, children_of, database_url, mortal_cluster
from tests.support.endings import wait_until
from tests.support.node import Node, Reply, User, run_command
from tests.support.node_sync import blob_entry, contents_of, put, tree
from tests.support.remote_projects import RemoteProject
from tests.support.workspace import Workspace

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="finds workers as Linux does"),
    pytest.mark.heavy,
]
_MARK = f"rye-kills-{os.getpid()}-"
KILLS = int(os.environ.get("RYE_TEST_KILLS", "8"))
SEED = int(os.environ.get("RYE_TEST_SEED", "18"))
CLIENTS = 20
PATIENCE_S = 150.0  # a lease, and some beats of a server
_TOOL = 'config: {command: "bash -c \\"$SCRIPT\\""}'


class Beginnings:
    """Sees every tool that begins: no tool of a node reaches anything outside, so its process does.

    It looks often enough that none is over in between, unless this machine stands still.
    """

    def __init__(self) -> None:
        self._seen: set[tuple[str, str, str]] = set()
        self._stop = Event()
        self._thread = Thread(target=self._look, daemon=True)
        self._thread.start()

    @property
    def counted(self) -> Counter[str]:
        """How often each began, by the word that its execution was given."""
        return Counter(word for word, _, _ in self._seen.copy())

    def script(self, word: str) -> str:
        """A script that is a process of that name for a while."""
        return f"exec -a {_MARK}{word} sleep 0.4"

    def close(self) -> None:
        """Look no more."""
        self._stop.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._stop.wait(0.1):
            for path in Path("/proc").glob("[0-9]*/cmdline"):
                with suppress(OSError):
                    name = path.read_bytes().partition(b"\0")[0].decode(errors="replace")
                    if name.startswith(_MARK):
                        began = (
                            path.with_name("stat").read_text("utf-8").rpartition(")")[2].split()[19]
                        )
                        self._seen.add((name.removeprefix(_MARK), path.parent.name, began))


@dataclass
class Said:
    """The acknowledged requests of one client."""

    snapshots: list[str] = field(default_factory=list)
    blobs: list[str] = field(default_factory=list)
    accepted: list[str] = field(default_factory=list)
    done: dict[str, str] = field(default_factory=dict)
    secrets: dict[str, None] = field(default_factory=dict)
    statuses: Counter[str] = field(default_factory=Counter)


class BusyClient:
    """A client that does one thing after the other, on either server, until it is stopped."""

    def __init__(self, users: list[User], beginnings: Beginnings, seed: int) -> None:
        self.said, self._users, self._beginnings = Said(), users, beginnings
        self._random = random.Random(seed)  # noqa: S311 - the choice is no secret
        self._number, self._head = 0, ""

    @property
    def user(self) -> User:
        """Their account, on the first server."""
        return self._users[0]

    def work_until(self, stop: Event) -> None:
        """Send a request; a node that is away or refuses gets another one after a pause."""
        acts = (self._push, self._push, self._execute, self._accept, self._read, self._put_secret)
        while not stop.is_set():
            self._number += 1
            act = self._random.choice(acts)
            try:
                status = str(act(self._random.choice(self._users)))
            except (OSError, HTTPException) as error:
                status = type(error).__name__
            self.said.statuses[f"{act.__name__[1:]} {status}"] += 1
            stop.wait(self._random.uniform(0.3, 2.0))

    @property
    def project(self) -> str:
        """The project that they push to."""
        return f"pushed/{self.user.user_id}"

    def _push(self, user: User) -> int:
        data = f"{self.user.user_id} {self._number}".encode()
        sent = tree({"src/n.txt": data, ".ai/tools/n.txt": data})
        reply = put(user, sent.entries)
        if reply.status != 200:
            return reply.status
        body = {
            "project_path": self.project,
            "project_manifest_hash": sent.manifest_hash,
            "system_version": "",
            "expected_snapshot_hash": self._head or None,
        }
        reply = user.ask("POST", "/push", body)
        if reply.status == 409:  # one that was not acknowledged came through
            self._head = reply.json["detail"]["actual"] or ""
        if reply.status == 200:
            self._head = reply.json["snapshot_hash"]
            self.said.snapshots.append(self._head)
            self.said.blobs.append(blob_entry(data)["hash"])
        return reply.status

    def _run(self, user: User, **more: bool) -> tuple[str, Reply]:
        word = f"{self.user.user_id}-{self._number}"
        script = self._beginnings.script(word)
        envelope = seal_secrets({"SCRIPT": script}, user.node.keys.box_public)
        body = {"item_id": "tool:say", "project_path": "project", "secret_envelope": envelope}
        return word, user.ask("POST", "/execute", {**body, **more})

    def _execute(self, user: User) -> int:
        word, reply = self._run(user)
        if reply.status == 200:
            self.said.done[reply.json["thread_id"]] = word
        if reply.status == 202:
            self.said.accepted.append(reply.json["thread_id"])
        return reply.status

    def _accept(self, user: User) -> int:
        _, reply = self._run(user, **{"async": True})
        if reply.status == 202:
            self.said.accepted.append(reply.json["thread_id"])
        return reply.status

    def _read(self, user: User) -> int:
        return user.ask("GET", "/threads").status

    def _put_secret(self, user: User) -> int:
        name = f"S{self._number % 40}"
        reply = user.ask("POST", "/secrets", {"secrets": [{"name": name, "value": "v"}]})
        if reply.status == 200:
            self.said.secrets[name] = None
        return reply.status


class Killer:
    """Kills processes at random times, and starts them again."""

    def __init__(self, nodes: list[Node], cluster: Cluster | None) -> None:
        self._nodes, self._cluster = nodes, cluster
        self.killed: Counter[str] = Counter()
        self._random = random.Random(SEED)  # noqa: S311 - when to kill is no secret

    def kill(self) -> None:
        """Kill one, after a while: each kind in turn, so that few kills are of all kinds."""
        Event().wait(self._random.uniform(0.0, 1.5))
        what = [self._server, self._worker]
        if self._cluster is not None:
            what.append(self._database)
        self.killed[what[self.killed.total() % len(what)]()] += 1

    def _server(self) -> str:
        self._random.choice(self._nodes).restart()
        return "server"

    def _worker(self) -> str:
        """A worker if there is one within some seconds, which is so under load."""
        workers: list[int] = []

        def is_there() -> bool:
            workers.extend(pid for node in self._nodes for pid in children_of(node.pid))
            return bool(workers)

        with suppress(AssertionError):
            wait_until(is_there, 10.0)
        if not workers:
            return self._server()
        with suppress(ProcessLookupError):
            os.kill(self._random.choice(workers), signal.SIGKILL)
        return "worker"

    def _database(self) -> str:
        assert self._cluster is not None
        self._cluster.kill()
        Event().wait(self._random.uniform(0.0, 1.0))
        self._cluster.start()
        return "database"


@pytest.fixture
def cluster(request: pytest.FixtureRequest) -> Iterator[Cluster | None]:
    """The database, killed with the servers; None for SQLite, which has no process."""
    if request.param == "sqlite":
        yield None
        return
    with mortal_cluster() as made:
        yield made


@pytest.mark.parametrize("cluster", ["sqlite", "postgresql"], indirect=True)
def test_no_acknowledged_work_is_lost_and_no_run_begins_twice(
    tmp_path: Path, workspace: Workspace, cluster: Cluster | None
) -> None:
    data = tmp_path / "node"
    url = database_url(data, "sqlite") if cluster is None else cluster.url
    environ = {"RYE_NODE_DATABASE_URL": url, "RYE_NODE_MAX_CONCURRENT": "4"}
    nodes = [Node(data, environ=environ) for _ in range(2)]
    beginnings = Beginnings()
    with ExitStack() as ending:
        ending.callback(beginnings.close)
        for node in nodes:
            ending.callback(node.kill)
            node.start()
        clients = clients_of(nodes, workspace, beginnings)
        killer = Killer(nodes, cluster)
        try:
            under_load(clients, killer, beginnings)
        finally:
            report(killer.killed, clients, beginnings)

        for client in clients:
            assert_pushes_are_there(client)
            assert_executions_ended(client)
            listed = client.user.ask("GET", "/secrets").json["secrets"]
            assert set(client.said.secrets) <= {one["name"] for one in listed}
        twice = {word: count for word, count in beginnings.counted.items() if count > 1}
        assert twice == {}
        done = [word for client in clients for word in client.said.done.values()]
        assert 2 * len(set(done) & set(beginnings.counted)) >= len(done)  # they can be seen at all
        for node in nodes:
            node.end()
    assert_sound(data, environ)


def clients_of(nodes: list[Node], workspace: Workspace, beginnings: Beginnings) -> list[BusyClient]:
    """Clients with accounts of their own, each with a project that has a tool."""
    workspace.project.signed_yaml("say", _TOOL)
    made = []
    for number in range(CLIENTS):
        user = nodes[0].user()
        RemoteProject(workspace, user).pushed()
        users = [replace(user, node=node) for node in nodes]
        made.append(BusyClient(users, beginnings, SEED * 1000 + number))
    return made


def under_load(clients: list[BusyClient], killer: Killer, beginnings: Beginnings) -> None:
    """Kill while the clients work, and print the progress now and then."""
    stop = Event()
    threads = [Thread(target=client.work_until, args=(stop,)) for client in clients]
    for thread in threads:
        thread.start()
    try:
        for number in range(KILLS):
            killer.kill()
            if number % 20 == 19:
                report(killer.killed, clients, beginnings)
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def report(killed: Counter[str], clients: list[BusyClient], beginnings: Beginnings) -> None:
    """Figures, which pytest shows with ``-s``, and where the test fails."""
    answered = [client.said for client in clients]
    statuses = sum((said.statuses.copy() for said in answered), Counter[str]())
    counted: dict[str, Callable[[Said], int]] = {
        "pushes": lambda said: len(said.snapshots),
        "executed": lambda said: len(said.done),
        "accepted": lambda said: len(said.accepted),
        "secrets": lambda said: len(said.secrets),
    }
    figures = {name: sum(map(count, answered)) for name, count in counted.items()}
    print(f"seed {SEED}, killed {dict(killed)}, acknowledged {figures}", flush=True)  # noqa: T201 - for a person
    print(f"begun {len(beginnings.counted)}, answers {dict(sorted(statuses.items()))}")  # noqa: T201 - for a person


def assert_pushes_are_there(client: BusyClient) -> None:
    """Every acknowledged push is the head or before it, and all of it can be read."""
    if not client.said.snapshots:
        return
    listed = client.user.ask("GET", f"/history?project_path={client.project}&limit=200")
    snapshots = listed.json["snapshots"]
    found = [one["_hash"] for one in snapshots]
    while parents := snapshots[-1]["parent_hashes"]:  # an answer holds 200 of them
        data = contents_of(client.user, parents[:1])[parents[0]]
        snapshots.append(json.loads(data))
        found.append(parents[0])
    assert set(client.said.snapshots) <= set(found)
    wanted = [*found, *client.said.blobs]
    for start in range(0, len(wanted), 100):
        part = wanted[start : start + 100]
        reply = client.user.ask("POST", "/objects/get", {"hashes": part})
        assert {one["hash"] for one in reply.json["entries"]} == set(part)


def assert_executions_ended(client: BusyClient) -> None:
    """Every acknowledged execution has a row, and none runs for ever."""

    def row(thread_id: str) -> dict[str, object]:
        reply = client.user.ask("GET", f"/threads/{thread_id}")
        assert reply.status == 200, reply.json
        return dict(reply.json)

    def runs() -> list[str]:
        listed = client.user.ask("GET", "/threads?limit=200").json["threads"]
        return [one["thread_id"] for one in listed if one["state"] == "running"]

    wait_until(lambda: not runs(), PATIENCE_S)
    for thread_id in client.said.accepted:
        found = row(thread_id)
        assert found["state"] in {"completed", "error", "interrupted"}
        # Taken again as long as it had not begun: how often it did begin, `Beginnings` counts.
        assert 0 <= int(str(found["attempt"])) <= MOST_ATTEMPTS
    for thread_id in client.said.done:
        assert row(thread_id)["state"] in {"completed", "error"}


def assert_sound(data: Path, environ: dict[str, str]) -> None:
    """Stored content has the digests of its names, and is whole."""
    ended = run_command("fsck", "--json", "--data", str(data), environ=environ)
    assert ended.returncode == 0, ended.stdout[-2000:] + ended.stderr[-2000:]
    assert {one["state"] for one in json.loads(ended.stdout)["stores"]} == {"sound"}
