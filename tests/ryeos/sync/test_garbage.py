import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from time import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lillux.store import Durability, Store
from lillux.store_errors import DigestError
from lillux.store_layout import ObjectKind
from ryeos.sync.garbage import GarbageRefusedError, SweepResult, collect_garbage
from ryeos.sync.objects import PUSH, ItemSource, ProjectSnapshot, SourceManifest

ABSENT = "0" * 64


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """An empty store."""
    return Store(tmp_path / "objects")


def put_snapshot(store: Store, text: str, *parents: str) -> str:
    """Store a project of one item and one file, and a snapshot of it."""
    blob = store.put_blob(text.encode(), Durability.UNFORCED)
    item = store.put_object(ItemSource("tool:a", blob).as_object(), Durability.UNFORCED)
    file = store.put_blob(f"file of {text}".encode(), Durability.UNFORCED)
    manifest = SourceManifest("project", {".ai/tools/a.py": item}, {"x": file})
    digest = store.put_object(manifest.as_object(), Durability.UNFORCED)
    snapshot = ProjectSnapshot(
        project_manifest_hash=digest, source=PUSH, timestamp="t", parent_hashes=parents
    )
    return store.put_object(snapshot.as_object(), Durability.UNFORCED)


def everything(store: Store) -> set[str]:
    """Every stored digest."""
    return {stored.digest for space in ObjectKind for stored in store.stored(space)}


def later() -> float:
    """A time at which all objects are old."""
    return time() + 10_000


def collect(store: Store, *roots: str) -> SweepResult:
    """A sweep in which all objects are old."""
    return collect_garbage(store, roots, now_s=later())


def test_objects_below_a_root_are_kept_and_others_removed(store: Store) -> None:
    kept = put_snapshot(store, "kept")
    before = everything(store)
    put_snapshot(store, "gone")

    found = collect(store, kept)

    assert everything(store) == before
    assert (found.removed, found.kept) == (5, 5)


def test_the_history_of_a_root_is_kept(store: Store) -> None:
    first = put_snapshot(store, "first")
    merged = put_snapshot(store, "merge", put_snapshot(store, "second", first), first)

    assert collect(store, merged) == SweepResult(removed=0, freed_bytes=0, kept=15)


@pytest.mark.parametrize("key", ["hash", "snapshot_hash", "nested"])
def test_objects_named_by_a_ref_under_any_key_are_kept(store: Store, key: str) -> None:
    digest = put_snapshot(store, "kept")
    value = {key: [{"x": digest}]} if key == "nested" else {key: digest, "n": 1}
    store.write_ref("remotes/default", value)

    assert collect(store).removed == 0


def test_a_ref_to_a_blob_keeps_it(store: Store) -> None:
    digest = store.put_blob(b"x")
    store.write_ref("artifacts/t", {"hash": digest})

    assert collect(store).removed == 0


def test_young_unreferenced_objects_are_kept(store: Store) -> None:
    put_snapshot(store, "new")

    assert collect_garbage(store, [], now_s=time()).removed == 0


def test_touching_an_object_makes_it_young(store: Store) -> None:
    old, touched = store.put_blob(b"old"), store.put_blob(b"touched")
    for digest in (old, touched):
        os.utime(store.root / "blobs" / digest[:2] / digest[2:4] / digest, (1000, 1000))
    store.touch(ObjectKind.BLOB, touched)

    collect_garbage(store, [], now_s=time())

    assert everything(store) == {touched}


def test_storing_an_object_again_makes_it_young(store: Store) -> None:
    digest = store.put_blob(b"x")
    os.utime(store.root / "blobs" / digest[:2] / digest[2:4] / digest, (1000, 1000))

    store.put_blob(b"x")

    assert collect_garbage(store, [], now_s=time()).removed == 0


def test_a_dry_run_reports_the_same_and_removes_no_object(store: Store) -> None:
    put_snapshot(store, "gone")
    before = everything(store)

    dry = collect_garbage(store, [], now_s=later(), dry_run=True)

    assert everything(store) == before
    assert dry == collect(store)
    assert everything(store) == set()


def test_removed_bytes_are_counted(store: Store) -> None:
    store.put_blob(b"12345")

    assert collect(store) == SweepResult(removed=1, freed_bytes=5, kept=0)


def test_a_missing_referenced_object_is_not_an_error(store: Store) -> None:
    store.write_ref("graphs/run", {"hash": ABSENT})
    manifest = SourceManifest("project", {".ai/tools/a.py": ABSENT}, {"x": ABSENT})
    digest = store.put_object(manifest.as_object())

    assert collect(store, digest) == SweepResult(removed=0, freed_bytes=0, kept=1)


def test_a_damaged_object_stops_the_collection(store: Store) -> None:
    digest = put_snapshot(store, "kept")
    put_snapshot(store, "gone")
    path = store.root / "objects" / digest[:2] / digest[2:4] / f"{digest}.json"
    path.write_bytes(b"{}")
    before = everything(store)

    with pytest.raises(GarbageRefusedError) as error:
        collect(store, digest)

    assert str(error.value).startswith(
        f"nothing was removed, as what object {digest} names is unknown: {path}: expected content"
    )
    assert everything(store) == before


def test_a_damaged_ref_stops_the_collection(store: Store) -> None:
    store.write_ref("graphs/run", {"hash": put_snapshot(store, "kept")})
    (store.root / "refs" / "graphs" / "run.json").write_bytes(b'{"hash"')

    with pytest.raises(GarbageRefusedError, match=r"as what a ref names is unknown: .*run\.json"):
        collect(store)


def test_a_damaged_unreferenced_object_is_removed(store: Store) -> None:
    digest = store.put_object({"n": 1})
    (store.root / "objects" / digest[:2] / digest[2:4] / f"{digest}.json").write_bytes(b"{")

    assert collect(store).removed == 1


def test_an_invalid_digest_of_a_root_is_refused(store: Store) -> None:
    with pytest.raises(DigestError):
        collect(store, "../../etc/passwd")


def test_files_that_no_store_wrote_are_left_alone(store: Store) -> None:
    store.put_blob(b"x")
    foreign = store.root / "blobs" / "README"
    foreign.write_text("mine", "utf-8")

    collect(store)

    assert foreign.exists()


def test_old_incomplete_files_of_killed_writers_are_removed(store: Store) -> None:
    digest = store.put_blob(b"x")
    folder = store.root / "blobs" / digest[:2] / digest[2:4]
    old, new = folder / ".1-abc-0.tmp", folder / ".1-abc-1.tmp"
    old.write_bytes(b"ha")
    new.write_bytes(b"ha")
    os.utime(old, (1000, 1000))

    collect_garbage(store, [digest], now_s=time())

    assert sorted(path.name for path in folder.iterdir()) == [new.name, digest]


def test_an_object_touched_during_a_sweep_is_kept_or_reported_missing(store: Store) -> None:
    digests = [store.put_blob(b"%d" % n, Durability.UNFORCED) for n in range(200)]
    touched: list[str] = []

    def sweep() -> int:
        return collect_garbage(store, [], now_s=time(), grace_s=60.0).removed

    def touch() -> None:
        touched.extend(
            digest for digest in reversed(digests) if store.touch(ObjectKind.BLOB, digest)
        )

    for digest in digests:
        os.utime(store.root / "blobs" / digest[:2] / digest[2:4] / digest, (1000, 1000))
    with ThreadPoolExecutor(2) as threads:
        sweeping, _ = threads.submit(sweep), threads.submit(touch)

    assert everything(store) >= set(touched)
    assert sweeping.result() + len(everything(store)) == len(digests)


def test_an_empty_store_has_no_garbage(store: Store) -> None:
    assert collect(store) == SweepResult(removed=0, freed_bytes=0, kept=0)
    assert not store.root.exists()


@pytest.mark.property
@given(history=st.lists(st.tuples(st.integers(0, 3), st.booleans()), max_size=6))
def test_a_kept_snapshot_can_be_read_completely(
    tmp_path_factory: pytest.TempPathFactory, history: list[tuple[int, bool]]
) -> None:
    store = Store(tmp_path_factory.mktemp("store"))
    snapshots: list[str] = []
    roots = []
    for number, (back, is_root) in enumerate(history):
        parents = snapshots[-back:] if back else []
        snapshots.append(put_snapshot(store, f"text {number % 3}", *parents))
        if is_root:
            roots.append(snapshots[-1])

    collect(store, *roots)

    waiting = list(roots)
    while waiting:
        snapshot = store.get_object(waiting.pop())
        manifest = store.get_object(snapshot["project_manifest_hash"])
        item = store.get_object(manifest["items"][".ai/tools/a.py"])
        assert store.has_blob(item["content_blob_hash"])
        assert store.has_blob(manifest["files"]["x"])
        waiting += snapshot["parent_hashes"]
    assert roots or not everything(store)
