from collections.abc import Callable
from pathlib import Path

import pytest

from lillux.store import Store
from lillux.values import replace
from rye_services.node.runs.execution import (
    FOLD_BACK_BASE_JITTER_MS,
    MAX_FOLD_BACK_RETRIES,
    FoldBack,
    ProjectChange,
    pause_s,
)
from rye_services.node.store.heads import Head
from rye_services.node.store.objects import DurableStores
from rye_services.node.store.servers import ServerLease
from ryeos.sync.objects import ProjectSnapshot, snapshot_of
from tests.support.pushed_trees import put_project
from tests.support.workspace import fixed_clock

TEXT = b"one\ntwo\nthree\n"
Files = dict[str, bytes]


class OneHead:
    """The head of a project in memory, which others move too: before each read of it."""

    def __init__(self, store: Store, files: Files) -> None:
        self._store = store
        self.head = Head(
            snapshot_hash="",
            revision=1,
            project_manifest_hash="",
            user_manifest_hash=None,
            system_version="",
            pushed_at="",
        )
        self.moves: list[Callable[[], None]] = []
        self.push(files)

    def push(self, files: Files) -> str:
        """Move it, as a client's push does."""
        manifest = put_project(self._store, files)
        snapshot = ProjectSnapshot(
            project_manifest_hash=manifest,
            source="push",
            timestamp=str(self.head.revision),
            parent_hashes=(self.head.snapshot_hash,) if self.head.snapshot_hash else (),
        )
        self._move(self._store.put_object(snapshot.as_object()), manifest)
        return self.head.snapshot_hash

    def read(self) -> Head:
        return self.head

    def advance(self, expected: Head, snapshot_hash: str, manifest_hash: str) -> bool:
        if self.moves:
            self.moves.pop(0)()
        if expected.revision != self.head.revision:
            return False
        self._move(snapshot_hash, manifest_hash)
        return True

    def _move(self, snapshot_hash: str, manifest_hash: str) -> None:
        self.head = replace(
            self.head,
            snapshot_hash=snapshot_hash,
            project_manifest_hash=manifest_hash,
            revision=self.head.revision + 1,
        )


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """A user's store."""
    return Store(tmp_path / "objects")


@pytest.fixture
def head(store: Store) -> OneHead:
    """A project of one text."""
    return OneHead(store, {"x.txt": TEXT})


Pauses = list[float]


def folding(store: Store, head: OneHead, pauses: Pauses | None = None) -> FoldBack:
    """The service that folds changes into a head; its waits are added to ``pauses``."""
    sleep = (pauses if pauses is not None else []).append
    durable = DurableStores(ServerLease(store.root.parent / "servers"))
    return FoldBack(head=head, store=store, durable=durable, clock=fixed_clock, sleep=sleep)


def change(store: Store, head: OneHead, files: Files) -> ProjectChange:
    """An execution that started from the current head."""
    manifest = put_project(store, files)
    return ProjectChange(thread_id="t", item_ref="tool:a/b", base=head.head, manifest_hash=manifest)


def snapshot(store: Store, digest: str) -> ProjectSnapshot:
    """A snapshot of the store."""
    return snapshot_of(store.get_object(digest), digest)


def files_of(store: Store, digest: str) -> Files:
    """The contents of the files of a snapshot."""
    manifest = store.get_object(snapshot(store, digest).project_manifest_hash)
    return {path: store.get_blob(blob) for path, blob in manifest["files"].items()}


def test_a_head_that_did_not_move_becomes_the_snapshot_of_the_execution(
    store: Store, head: OneHead
) -> None:
    base = head.head.snapshot_hash
    made = change(store, head, {"x.txt": b"new\n"})

    folded = folding(store, head).fold(made)

    assert (folded.merge_type, folded.snapshot_hash) == ("fast-forward", head.head.snapshot_hash)
    assert snapshot(store, folded.snapshot_hash) == ProjectSnapshot(
        project_manifest_hash=made.manifest_hash,
        source="execution",
        source_detail="tool:a/b",
        timestamp="2026-01-02T03:04:05.000000+00:00",
        parent_hashes=(base,),
        metadata={"thread_id": "t"},
    )


def test_a_head_that_moved_becomes_the_merge_of_both(store: Store, head: OneHead) -> None:
    base = head.head.snapshot_hash
    made = change(store, head, {"x.txt": b"one\ntwo\nTHREE\n", "new.txt": b"n"})
    pushed = head.push({"x.txt": b"ONE\ntwo\nthree\n"})

    folded = folding(store, head).fold(made)

    assert (folded.merge_type, folded.unmerged) == ("merge", None)
    merge = snapshot(store, head.head.snapshot_hash)
    assert merge.source == "merge"
    assert merge.parent_hashes[0] == pushed
    assert snapshot(store, merge.parent_hashes[1]).parent_hashes == (base,)
    assert merge.metadata == {"base": base, "thread_id": "t"}
    expected = {"x.txt": b"ONE\ntwo\nTHREE\n", "new.txt": b"n"}
    assert files_of(store, folded.snapshot_hash) == expected


def test_a_conflict_leaves_the_head_and_keeps_the_execution(store: Store, head: OneHead) -> None:
    made = change(store, head, {"x.txt": b"theirs\n"})
    pushed = head.push({"x.txt": b"ours\n"})

    folded = folding(store, head).fold(made)

    assert (folded.merge_type, folded.snapshot_hash) == ("conflict", pushed)
    assert head.head.snapshot_hash == pushed
    assert folded.conflicts is not None
    assert folded.conflicts["x.txt"]["type"] == "content"
    assert folded.unmerged is not None
    assert files_of(store, folded.unmerged) == {"x.txt": b"theirs\n"}


def test_a_head_that_moves_while_it_is_merged_is_merged_again(store: Store, head: OneHead) -> None:
    made = change(store, head, {"x.txt": TEXT, "mine.txt": b"m"})
    pauses: Pauses = []
    head.moves = [lambda: void(head.push({"x.txt": TEXT, "theirs.txt": b"t"}))]

    folded = folding(store, head, pauses).fold(made)

    assert folded.merge_type == "merge"
    assert files_of(store, folded.snapshot_hash).keys() == {"x.txt", "mine.txt", "theirs.txt"}
    assert len(pauses) == 1


def test_merging_into_a_moving_head_is_given_up_after_five_attempts(
    store: Store, head: OneHead
) -> None:
    made = change(store, head, {"x.txt": TEXT, "mine.txt": b"m"})
    pauses: Pauses = []
    pushes = [
        {"x.txt": TEXT, "theirs.txt": b"%d" % number} for number in range(MAX_FOLD_BACK_RETRIES)
    ]
    head.moves = [lambda files=files: void(head.push(files)) for files in pushes]  # type: ignore[misc]

    folded = folding(store, head, pauses).fold(made)

    assert folded.merge_type == "retry_exhausted"
    assert folded.conflicts == {"retry_exhausted": True, "attempts": 5}
    assert folded.snapshot_hash == head.head.snapshot_hash
    assert folded.unmerged is not None
    assert files_of(store, folded.unmerged).keys() == {"x.txt", "mine.txt"}
    assert len(pauses) == MAX_FOLD_BACK_RETRIES


def void(_: object) -> None:
    """No text of it."""


def test_pauses_grow_and_are_random() -> None:
    pauses = [pause_s(attempt) for attempt in range(MAX_FOLD_BACK_RETRIES)]

    for attempt, pause in enumerate(pauses):
        assert (
            FOLD_BACK_BASE_JITTER_MS * 2**attempt
            <= pause * 1000
            <= FOLD_BACK_BASE_JITTER_MS * (2**attempt + 1)
        )
