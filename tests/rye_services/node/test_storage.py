import os
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from sqlalchemy import insert, select

from lillux.file_locks import locked
from lillux.store import Store
from lillux.store_layout import ObjectKind
from rye_services.node.services import NodeServices, open_services
from rye_services.node.storage import FSCK_HINT, LOCK, UserGarbage, open_sync
from rye_services.node.store.bucket_store import BucketStores
from rye_services.node.store.objects import LEASE_S, Uploads
from rye_services.node.store.packs import MemoryPacks
from rye_services.node.store.push import ProjectPush
from rye_services.node.store.servers import ServerLease
from rye_services.people.actors import Actor, acting
from rye_services.settings import read_settings
from rye_services.storage.database import Database, stamp, threads, uploads_in_flight
from rye_services.storage.database import sweeps as table_of_sweeps
from tests.support.databases import KINDS, database_url, made_database
from tests.support.object_storage import memory_bucket
from tests.support.pushed_trees import folder_stores, put_project, put_user_space

USER = "3d4c030534b1c1c6"
NOW = datetime(2030, 1, 2, 3, 4, 5, tzinfo=UTC)


class Clock:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> datetime:
        return self.now

    def forward(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)


@pytest.fixture
def clock() -> Clock:
    """The node's clock."""
    return Clock()


@pytest.fixture
def services(tmp_path: Path, clock: Clock) -> Iterator[NodeServices]:
    """The services of a node with empty data and no server."""
    settings = read_settings({"data_dir": str(tmp_path / "node")}, {}, tmp_path)
    services = open_services(settings, tmp_path, clock)
    yield services
    services.database.close()


@pytest.fixture
def store(services: NodeServices) -> Store:
    """The store of a user whom the database knows."""
    store = folder_stores(services).of(USER)
    services.sync.usage.read(USER, store=store)
    return store


def push(services: NodeServices, contents: dict[str, bytes], expected: str | None = None) -> str:
    store = folder_stores(services).of(USER)
    wanted = ProjectPush(
        project_path="ada/p",
        project_manifest_hash=put_project(store, contents),
        expected_snapshot_hash=expected,
    )
    return services.sync.pushing.push_project(USER, store, wanted).snapshot_hash


def stored(store: Store) -> set[str]:
    return {one.digest for space in ObjectKind for one in store.stored(space)}


def test_objects_of_a_push_and_its_history_are_kept(services: NodeServices, store: Store) -> None:
    first = push(services, {".ai/tools/a.py": b"1", "file": b"1"})
    push(services, {"file": b"2"}, first)
    before = stored(store)

    (found,) = services.sync.storage.collect()

    assert (found.state, found.removed, found.kept) == ("done", 0, len(before))
    assert stored(store) == before


def test_unreferenced_objects_are_removed(services: NodeServices, store: Store) -> None:
    push(services, {"file": b"1"})
    before = stored(store)
    size = len(b"never pushed")
    blob = store.put_blob(b"never pushed")

    found = services.sync.storage.collect_of(USER)

    assert found == UserGarbage(
        user_id=USER,
        state="done",
        removed=1,
        freed_bytes=size,
        kept=len(before),
        stored_bytes=sum(one.size for space in ObjectKind for one in store.stored(space)),
    )
    assert not store.has_blob(blob)


def test_a_dry_run_removes_no_object(services: NodeServices, store: Store) -> None:
    blob = store.put_blob(b"never pushed")

    found = services.sync.storage.collect_of(USER, dry_run=True)

    assert (found.removed, store.has_blob(blob)) == (1, True)


def test_objects_within_the_grace_period_are_kept(services: NodeServices, store: Store) -> None:
    blob, old = store.put_blob(b"young"), store.put_blob(b"old")
    for digest, age_s in ((blob, 3000), (old, 4000)):
        modified_s = NOW.timestamp() - age_s
        os.utime(store.path_of(ObjectKind.BLOB, digest), (modified_s, modified_s))

    services.sync.storage.collect_of(USER)

    assert (store.has_blob(blob), store.has_blob(old)) == (True, False)


def test_a_store_is_not_collected_during_an_upload_lease(
    services: NodeServices, store: Store, clock: Clock
) -> None:
    blob = store.put_blob(b"uploaded slowly")
    services.sync.uploads.renew(USER)
    clock.forward(LEASE_S - 1)

    meanwhile = services.sync.storage.collect_of(USER)
    clock.forward(2)
    later = services.sync.storage.collect_of(USER)

    assert (meanwhile, later.state) == (UserGarbage(user_id=USER, state="uploading"), "done")
    assert not store.has_blob(blob)


def test_objects_of_the_user_space_are_kept(services: NodeServices, store: Store) -> None:
    old = put_user_space(store, {".ai/config/a.yaml": b"a: 1\n"})
    new = put_user_space(store, {".ai/config/a.yaml": b"a: 2\n"})
    services.sync.pushing.push_user_space(USER, store, old, None)
    services.sync.pushing.push_user_space(USER, store, new, 1)

    services.sync.storage.collect_of(USER)

    assert (store.has_object(old), store.has_object(new)) == (False, True)
    assert store.has_blob(store.put_blob(b"a: 2\n"))


def test_objects_of_an_unmerged_run_are_kept(services: NodeServices, store: Store) -> None:
    snapshot = push(services, {"file": b"1"})
    manifest = put_project(store, {"file": b"unmerged"})
    unmerged = store.put_object(
        {**store.get_object(snapshot), "project_manifest_hash": manifest, "source": "execution"}
    )
    side = store.put_blob(b"a side of a conflict")
    conflicts = {"file": {"base": None, "ours": side, "theirs": None, "type": "x"}}
    add_execution(services, "t1", unmerged_snapshot_hash=unmerged, merge_conflicts=conflicts)

    services.sync.storage.collect_of(USER)

    kept = [store.has_object(unmerged), store.has_object(manifest), store.has_blob(side)]
    assert kept == [True, True, True]


def add_execution(services: NodeServices, thread_id: str, **columns: object) -> None:
    row = {
        "thread_id": thread_id,
        "user_id": USER,
        "item_type": "tool",
        "item_id": "tool:a",
        "remote_name": "default",
        "project_path": "ada/p",
        "state": "completed",
        "created_at": stamp(NOW),
        "completed_at": stamp(NOW),
        **columns,
    }
    with services.database.writing() as connection:
        connection.execute(threads.insert().values(**row))


def executions(services: NodeServices) -> set[str]:
    with services.database.reading() as connection:
        return set(connection.scalars(select(threads.c.thread_id)))


def days_ago(days: float) -> str:
    return stamp(NOW - timedelta(days=days))


def test_an_old_execution_is_forgotten_with_its_own_objects(
    services: NodeServices, store: Store
) -> None:
    outputs = {name: store.put_object({"kind": "node_result", "of": name}) for name in "ab"}
    add_execution(services, "old", completed_at=days_ago(90.01), result_hash=outputs["a"])
    add_execution(services, "young", completed_at=days_ago(89.99), result_hash=outputs["b"])

    found = services.sync.storage.collect_of(USER)

    assert (found.forgotten, found.removed) == (1, 1)
    assert executions(services) == {"young"}
    assert not store.has_object(outputs["a"])
    assert store.has_object(outputs["b"])


def test_an_execution_that_runs_or_waits_to_be_merged_is_not_forgotten(
    services: NodeServices, store: Store
) -> None:
    long_ago = days_ago(1000)
    unmerged = store.put_object({"kind": "node_result"})
    add_execution(services, "runs", state="running", created_at=long_ago, completed_at=None)
    add_execution(services, "unmerged", completed_at=long_ago, unmerged_snapshot_hash=unmerged)
    add_execution(services, "of-another", completed_at=long_ago, user_id="b" * 16)

    found = services.sync.storage.collect_of(USER)

    assert found.forgotten == 0
    assert executions(services) == {"runs", "unmerged", "of-another"}
    assert store.has_object(unmerged)


def test_a_dry_run_counts_old_executions_and_their_objects(
    services: NodeServices, store: Store
) -> None:
    result = store.put_object({"kind": "node_result"})
    add_execution(services, "old", completed_at=days_ago(1000), result_hash=result)

    found = services.sync.storage.collect_of(USER, dry_run=True)

    assert (found.forgotten, found.removed) == (1, 1)
    assert (executions(services), store.has_object(result)) == ({"old"}, True)


def test_many_old_executions_are_forgotten_in_one_collection(services: NodeServices) -> None:
    folder_stores(services).of(USER)
    for number in range(1201):
        add_execution(services, f"t{number}", completed_at=days_ago(91))

    assert services.sync.storage.collect_of(USER).forgotten == 1201

    assert executions(services) == set()


def test_executions_are_kept_forever_if_the_setting_is_zero(tmp_path: Path, clock: Clock) -> None:
    environ = {"RYE_NODE_RETAIN_EXECUTIONS_DAYS": "0"}
    settings = read_settings({"data_dir": str(tmp_path / "node")}, environ, tmp_path)
    services = open_services(settings, tmp_path, clock)
    add_execution(services, "old", completed_at=days_ago(30_000))

    found = services.sync.storage.collect_of(USER)

    assert (found.forgotten, executions(services)) == (0, {"old"})
    services.database.close()


def test_no_object_is_removed_while_a_root_cannot_be_read(
    services: NodeServices, store: Store
) -> None:
    snapshot = push(services, {"file": b"1"})
    blob = store.put_blob(b"never pushed")
    path = store.path_of(ObjectKind.OBJECT, snapshot)
    path.write_bytes(b"damaged")

    found = services.sync.storage.collect_of(USER)

    assert (found.state, found.code) == ("refused", "INTEGRITY")
    assert found.cause == f"nothing was removed: object {snapshot} cannot be read"
    assert store.has_blob(blob)


@pytest.mark.parametrize("lost", ["snapshot", "manifest", "item", "blob of an item", "file"])
@pytest.mark.parametrize("depth", [0, 1])
def test_no_object_is_removed_while_an_object_of_a_head_is_missing(
    services: NodeServices, store: Store, lost: str, depth: int
) -> None:
    first = push(services, {".ai/tools/a.py": b"1", "file": b"1"})
    second = push(services, {".ai/tools/a.py": b"2", "file": b"2"}, first)
    space, digest = content_of(store, (second, first)[depth], lost)
    store.remove(space, digest)
    blob = store.put_blob(b"never pushed")
    add_execution(services, "old", completed_at=days_ago(1000))

    found = services.sync.storage.collect_of(USER)

    problem = (
        "nothing was removed: the head of project 'ada/p' (default) leads to"
        f" {space.value} {digest}, which is missing"
    )
    assert (found.state, found.code, found.problem) == ("refused", "INTEGRITY", problem)
    assert found.hint == FSCK_HINT
    assert store.has_blob(blob)
    assert executions(services) == {"old"}


def content_of(store: Store, snapshot: str, what: str) -> tuple[ObjectKind, str]:
    """The object kind and digest of a part of a project with one item and one file."""
    manifest = store.get_object(snapshot)["project_manifest_hash"]
    (item,) = store.get_object(manifest)["items"].values()
    (file,) = store.get_object(manifest)["files"].values()
    found = {"snapshot": snapshot, "manifest": manifest, "item": item}
    if what in found:
        return ObjectKind.OBJECT, found[what]
    blobs = {"file": file, "blob of an item": store.get_object(item)["content_blob_hash"]}
    return ObjectKind.BLOB, blobs[what]


def test_no_object_is_removed_while_the_user_space_is_missing(
    services: NodeServices, store: Store
) -> None:
    manifest = put_user_space(store, {".ai/config/a.yaml": b"a: 1\n"})
    services.sync.pushing.push_user_space(USER, store, manifest, None)
    store.remove(ObjectKind.OBJECT, manifest)

    found = services.sync.storage.collect_of(USER)

    assert found.problem == (
        "nothing was removed: the user space (default) leads to"
        f" object {manifest}, which is missing"
    )


def test_digests_that_a_run_only_mentions_are_not_required(
    services: NodeServices, store: Store
) -> None:
    made_up = {"kind": "project_snapshot", "parent_hashes": ["a" * 64], "schema": 2}
    add_execution(
        services,
        "t1",
        execution_snapshot_hash=store.put_object(made_up),
        error_message="b" * 64,
        job={"parameters": {"digest": "c" * 64}},
    )

    assert services.sync.storage.collect_of(USER).state == "done"


def test_no_object_is_removed_if_the_database_knows_no_user(
    services: NodeServices, tmp_path: Path, clock: Clock
) -> None:
    push(services, {"file": b"1"})
    before = stored(folder_stores(services).of(USER))
    (tmp_path / "other").mkdir()
    other = made_database(tmp_path / "other")
    presence = ServerLease(tmp_path / "servers")

    sync = open_sync(services.settings, other, services.stores, clock, presence)
    (found,) = sync.storage.collect()

    assert (found.state, found.code) == ("refused", "WRONG_DATABASE")
    assert found.problem == (
        f"nothing was removed: {USER} has a store, and the database does not know any user"
    )
    assert stored(folder_stores(services).of(USER)) == before


def test_the_store_of_an_unknown_user_is_left_alone(services: NodeServices, store: Store) -> None:
    push(services, {"file": b"1"})
    unknown = folder_stores(services).of("b" * 16)
    blob = unknown.put_blob(b"of a newer database")

    found = {one.user_id: one.state for one in services.sync.storage.collect()}

    assert (found, unknown.has_blob(blob)) == ({USER: "done", "b" * 16: "refused"}, True)


def test_no_object_is_removed_while_a_backup_holds_the_lock(
    services: NodeServices, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rye_services.node.storage.LOCK_WAIT_S", 0.0)
    blob = store.put_blob(b"never pushed")

    with locked(services.settings.data_dir / LOCK, timeout_s=0):
        found = services.sync.storage.collect()

    assert (found, store.has_blob(blob)) == ((UserGarbage(user_id=USER, state="busy"),), True)


def test_a_collection_corrects_the_count_of_bytes(services: NodeServices, store: Store) -> None:
    push(services, {"file": b"1"})
    services.sync.usage.add(USER, 10**6, store=store)

    services.sync.storage.collect_of(USER)

    size = sum(one.size for space in ObjectKind for one in store.stored(space))
    assert services.sync.usage.read(USER, store=store) == size


def test_folders_that_belong_to_no_user_are_skipped(services: NodeServices) -> None:
    (folder_stores(services).root / "Not A User" / ".ai" / "state" / "objects").mkdir(parents=True)
    (folder_stores(services).root / "nostore" / ".ai").mkdir(parents=True)

    assert services.sync.storage.collect() == ()


def test_a_sweep_is_recorded_with_its_removals_and_refusals(
    services: NodeServices, store: Store
) -> None:
    push(services, {"file": b"1"})
    store.put_blob(b"never pushed")
    folder_stores(services).of("b" * 16).put_blob(b"of a newer database")

    with acting(Actor("ada")):
        services.sync.storage.collect()
    services.sync.storage.collect(dry_run=True)

    (swept,) = services.sync.storage.sweeps.listed(10)
    assert (swept.started_by, swept.stores, swept.removed) == ("ada", 2, 1)
    assert (swept.freed_bytes, swept.left_alone_count) == (len(b"never pushed"), 1)
    assert swept.started_at == stamp(services.clock())
    assert swept.took_s >= 0
    (left,) = swept.left_alone
    assert (left["user_id"], left["state"], left["code"]) == ("b" * 16, "refused", "WRONG_DATABASE")
    figures = {one.name: one.values[""] for one in services.sync.storage.sweeps.figures()}
    assert figures["rye_last_sweep_freed_bytes"] == len(b"never pushed")
    assert figures["rye_last_sweep_left_alone_stores"] == 1


@pytest.mark.parametrize("kind", KINDS)
def test_of_many_servers_one_sweeps_each_time(tmp_path: Path, clock: Clock, kind: str) -> None:
    environ = {"RYE_NODE_DATABASE_URL": database_url(tmp_path / "shared", kind)}
    (tmp_path / "shared").mkdir()
    servers = []
    for name in ("one", "two") if kind == "postgresql" else ("one",):
        settings = read_settings({"data_dir": str(tmp_path / name)}, environ, tmp_path)
        servers.append(open_services(settings, tmp_path, clock))
    storages = [one.sync.storage for one in servers]

    def times() -> int:
        for storage in (*storages, *storages):
            storage.collect_if_due(3600)
        return len(storages[0].sweeps.listed(100))

    first = times()
    clock.forward(1800)
    half = times()
    clock.forward(1800)
    next_one = times()
    clock.forward(-7200)  # the last one is of the future: of a server whose clock was wrong
    after = times()
    for one in servers:
        one.database.close()

    # One machine has no other server that would do it: it sweeps whenever it wants to.
    expected = (1, 1, 2) if kind == "postgresql" else (2, 4, 6)
    assert (first, half, next_one) == expected
    assert after > next_one


def test_a_server_with_a_fast_clock_removes_no_young_object_from_a_bucket(
    tmp_path: Path, clock: Clock
) -> None:
    database = made_database(tmp_path)  # whose clock is right, and hours behind this server's
    stores = BucketStores(memory_bucket(), database, MemoryPacks(1024 * 1024))
    settings = read_settings({"data_dir": str(tmp_path / "node")}, {}, tmp_path)
    ahead = Clock()
    ahead.now = datetime.now(UTC) + timedelta(days=2)
    sync = open_sync(settings, database, stores, ahead, ServerLease(tmp_path / "servers"))
    digest = stores.of(USER).put_blob(b"a push that goes on")
    sync.usage.read(USER, store=stores.of(USER))

    (swept,) = sync.storage.collect()

    assert (swept.state, swept.removed) == ("done", 0)
    assert stores.of(USER).get_blob(digest) == b"a push that goes on"


def test_of_many_sweeps_the_newest_thousand_are_kept(services: NodeServices) -> None:
    sweeps = services.sync.storage.sweeps
    with services.database.writing() as connection:
        row = {"started_at": "x", "took_s": 0.0, "started_by": "node", "left_alone_count": 0}
        row |= dict.fromkeys(("stores", "removed", "freed_bytes", "kept", "forgotten"), 0)
        connection.execute(insert(table_of_sweeps), [dict(row) for _ in range(1005)])

    sweeps.record("y", 0.0, [UserGarbage(user_id=USER, state="busy")] * 60)

    found = sweeps.listed(2000)
    assert (len(found), found[0].started_at) == (1000, "y")
    assert (len(found[0].left_alone), found[0].left_alone_count) == (50, 60)


def test_a_lease_is_renewed_once_a_minute(services: NodeServices, clock: Clock) -> None:
    uploads = services.sync.uploads

    def until_s(database: Database) -> float:
        with database.reading() as connection:
            row = connection.execute(uploads_in_flight.select()).mappings().one()
        return float(row["lease_until_s"]) - NOW.timestamp()

    seen = []
    for seconds in (0, 59, 1, 60):
        clock.forward(seconds)
        uploads.renew(USER)
        seen.append(until_s(services.database))

    assert seen == [LEASE_S, LEASE_S, LEASE_S + 60, LEASE_S + 120]


def test_an_upload_lease_is_ended_explicitly_and_stored_in_the_database(
    services: NodeServices, clock: Clock
) -> None:
    uploads = services.sync.uploads
    uploads.renew(USER)

    uploads.end(USER)

    assert not uploads.is_going_on(USER)
    uploads.renew(USER)
    assert Uploads(services.database, clock).is_going_on(USER)
