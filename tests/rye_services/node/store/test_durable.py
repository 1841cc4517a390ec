"""A push forces its content to disk before the head moves, whichever server stored it."""

import os
import re
from pathlib import Path

import pytest

from lillux.store import Durability, Store
from rye_services.node.store.objects import DurableStores
from rye_services.node.store.servers import ServerLease, ServersElsewhere
from tests.support.node import CHECKOUT_COMMAND, User, running_node
from tests.support.node_sync import push, push_tree, put, tree
from tests.support.programs import require_program

LONG_AGO = (1, 1)


class Disk:
    """A disk that records which folders it was to write as a whole."""

    def __init__(self) -> None:
        self.forced: list[str] = []

    def __call__(self, folder: str) -> bool:
        self.forced.append(folder)
        return True


@pytest.fixture
def servers(tmp_path: Path) -> Path:
    """The folder of server leases."""
    folder = tmp_path / "servers"
    folder.mkdir()
    os.utime(folder, LONG_AGO)
    return folder


@pytest.fixture
def disk() -> Disk:
    """A disk without a request yet."""
    return Disk()


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """A store with a blob."""
    store = Store(tmp_path / "objects")
    store.put_blob(b"1", Durability.AT_SYNC)
    return store


@pytest.fixture
def begun(servers: Path) -> ServerLease:
    """The lease of a running server."""
    lease = ServerLease(servers)
    lease.begin()
    os.utime(servers, LONG_AGO)
    return lease


def test_a_server_alone_forces_a_whole_store_once(
    begun: ServerLease, disk: Disk, store: Store
) -> None:
    durable = DurableStores(begun, disk)

    for _ in range(3):
        durable.force(store)

    assert disk.forced == [str(store.root)]


def test_with_another_server_each_push_forces_the_whole_store(
    begun: ServerLease, servers: Path, disk: Disk, store: Store
) -> None:
    durable = DurableStores(begun, disk)
    durable.force(store)
    ServerLease(servers).begin()

    durable.force(store)
    durable.force(store)

    assert len(disk.forced) == 3


def test_on_many_machines_each_push_forces_the_whole_store(disk: Disk, store: Store) -> None:
    durable = DurableStores(ServersElsewhere(), disk)

    for _ in range(3):
        durable.force(store)

    assert disk.forced == [str(store.root)] * 3


def test_a_server_that_started_and_ended_meanwhile_is_noticed(
    begun: ServerLease, servers: Path, disk: Disk, store: Store
) -> None:
    durable, other = DurableStores(begun, disk), ServerLease(servers)
    durable.force(store)
    other.begin()
    other.end()
    begun.forget_others()
    assert begun.look().others == frozenset()

    durable.force(store)

    assert len(disk.forced) == 2


def test_a_recent_time_of_the_folder_of_servers_is_not_relied_on(
    begun: ServerLease, servers: Path, disk: Disk, store: Store
) -> None:
    durable = DurableStores(begun, disk)
    os.utime(servers)  # just now

    durable.force(store)
    durable.force(store)

    assert len(disk.forced) == 2


def test_where_no_call_forces_a_file_system_each_file_is_forced(
    begun: ServerLease, store: Store, tmp_path: Path
) -> None:
    (tmp_path / "elsewhere").mkdir()
    forced: list[str] = []

    def cannot(folder: str) -> bool:
        forced.append(folder)
        return False

    DurableStores(begun, cannot).force(store)

    assert forced == [str(store.root)]


@pytest.mark.heavy
def test_a_push_forces_objects_that_another_server_stored(tmp_path: Path) -> None:
    strace, calls = require_program("strace"), tmp_path / "calls"
    traced = (str(strace), "-D", "-f", "-qq", "-e", "trace=syncfs,fsync", "-y", "-o", str(calls))
    data = tmp_path / "node"
    with (
        running_node(data, command=(*traced, *CHECKOUT_COMMAND)) as second,
        running_node(data) as first,
    ):
        user = second.user()
        at_first = User(first, user.keypair, user.token)
        head = push_tree(user, {"file": b"1"})
        more = tree({"file": b"1", "other": b"2"})
        assert put(at_first, more.entries).status == 200
        has = user.ask("POST", "/objects/has", {"hashes": more.digests})
        before = forced_calls(calls)

        reply = push(user, more.manifest_hash, head)

        assert (has.json["missing"], reply.status) == ([], 200)
        made = forced_calls(calls)[len(before) :]
        store = second.settings.cas_base_path / user.user_id
        assert any(call.startswith("syncfs") and str(store) in call for call in made), made


def forced_calls(calls: Path) -> list[str]:
    """The calls that forced files or file systems, in order."""
    lines = calls.read_text(encoding="utf-8", errors="replace").splitlines()
    return [re.sub(r"^\d+ +", "", line) for line in lines]
