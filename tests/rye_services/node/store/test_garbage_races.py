"""Collections that run while others push: a head never leads to collected content."""

import os
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event

import pytest

from lillux.store import Store
from lillux.store_layout import ObjectKind
from rye_services.node.services import NodeServices, open_services
from rye_services.node.store.heads import first_parents
from rye_services.node.store.objects import KnownItems
from rye_services.node.store.push import (
    HeadMovedError,
    ManifestGraphError,
    ProjectPush,
    verify_pushed_objects,
)
from rye_services.settings import read_settings
from ryeos.sync.garbage import collect_garbage
from tests.support.pushed_trees import folder_stores, put_project

USER = "3d4c030534b1c1c6"
GRACE_S = 5.0  # longer than any push takes here


@pytest.fixture
def services(tmp_path: Path) -> Iterator[NodeServices]:
    """The services of a node with empty data and no server."""
    settings = read_settings({"data_dir": str(tmp_path / "node")}, {}, tmp_path)
    services = open_services(settings, tmp_path)
    services.sync.usage.read(USER, store=folder_stores(services).of(USER))  # a known user
    yield services
    services.database.close()


def contents(number: int) -> dict[str, bytes]:
    """A project that shares most of its files with the others."""
    shared = {f".ai/tools/t{one}.py": b"%d" % one for one in range(20)}
    return {**shared, "number": b"%d" % number, f"more/{number}": b"%d" % number}


def age(store: Store) -> None:
    """Set the time of all stored objects to 1970."""
    for space in ObjectKind:
        for stored in store.stored(space):
            os.utime(store.path_of(space, stored.digest), (1, 1))


def push(services: NodeServices, number: int) -> str:
    """Push a project as a client does that learns which content is missing. Its snapshot."""
    store = folder_stores(services).of(USER)
    expected: str | None = None
    manifest_hash = put_project(store, contents(number))
    while True:
        wanted = ProjectPush(
            project_path="ada/p",
            project_manifest_hash=manifest_hash,
            expected_snapshot_hash=expected,
        )
        try:
            return services.sync.pushing.push_project(USER, store, wanted).snapshot_hash
        except ManifestGraphError:
            put_project(store, contents(number))
        except HeadMovedError as error:
            expected = error.actual.snapshot_hash if error.actual else None


def test_collection_during_pushes_keeps_all_that_heads_reach(services: NodeServices) -> None:
    store = folder_stores(services).of(USER)
    for number in range(12):
        put_project(store, contents(number))
    age(store)
    enough = Event()

    def collect_on_and_on() -> int:
        removed = 0
        while not enough.is_set():
            roots = {root.reference.digest for root in services.sync.storage.roots(USER)}
            found = collect_garbage(store, roots, now_s=time.time(), grace_s=GRACE_S)
            removed += found.removed
        return removed

    with ThreadPoolExecutor(4) as pool:
        collecting = pool.submit(collect_on_and_on)
        snapshots = list(pool.map(lambda number: push(services, number), range(12)))
        enough.set()

    head = services.sync.heads.read(USER, "default", "ada/p")
    assert head
    assert collecting.result() > 0
    history = dict(first_parents(store, head.snapshot_hash))
    assert sorted(history) == sorted(snapshots)
    for snapshot in history.values():
        verify_pushed_objects(snapshot["project_manifest_hash"], "project", store, KnownItems())
