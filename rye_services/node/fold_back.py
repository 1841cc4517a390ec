"""What an execution has changed, made part of the project's history. Rules: docs/node-execution.md.

HEAD may have moved since the execution started. What it changed is merged into where HEAD is then,
and HEAD moves there only if it still is where it was merged; else all of that is done again.
"""

from collections.abc import Callable, Mapping
from random import SystemRandom
from typing import Any, Literal, Protocol

from lillux.store import Durability, Store
from lillux.values import dataclass, field
from rye_services.moments import stamp
from rye_services.node.durable import Durable
from rye_services.node.heads import Head
from ryeos.items.context import Clock
from ryeos.sync.checkout import read_manifest
from ryeos.sync.merge import Merged, conflict_record, three_way_merge
from ryeos.sync.objects import EXECUTION, MERGE, ProjectSnapshot

MAX_RETRIES = 5
JITTER_MS = 50

MergeType = Literal["no-op", "fast-forward", "merge", "conflict", "retry_exhausted"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Folded:
    """How the change of an execution ended.

    snapshot_hash  the project as it is now
    conflicts      by path, of a merge that is for a person to make
    unmerged       the snapshot of the execution, where it is not part of that
    new_objects    digests of what was made for it
    """

    snapshot_hash: str
    merge_type: MergeType
    conflicts: Mapping[str, Any] | None = None
    unmerged: str | None = None
    new_objects: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What an execution made of a project.

    base                the head it started from
    manifest_hash       the project's manifest afterwards, in the store with all it names
    user_manifest_hash  the user space that it ran with
    """

    thread_id: str
    item_ref: str
    base: Head
    manifest_hash: str
    user_manifest_hash: str | None = None


class ProjectHead(Protocol):
    """The head of one project."""

    def read(self) -> Head:
        """Where it is now. Raises ProjectNotFoundError."""
        ...

    def advance(self, expected: Head, snapshot_hash: str, manifest_hash: str) -> bool:
        """Move it; False where it is no longer there."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class FoldBack:
    """Folds changes into the head of one project."""

    head: ProjectHead
    store: Store
    durable: Durable
    clock: Clock
    sleep: Callable[[float], None] = field(repr=False)

    def fold(self, change: Change) -> Folded:
        """How it ended.

        (1) The snapshot of the execution, whose parent is the head that it started from. (2) HEAD
        as it is now. (3) Still that one: HEAD becomes the snapshot. (4) Else what both sides
        changed is merged, or is a conflict. (5) HEAD becomes the merge, unless it moved again:
        after a while from (2) on.

        Raises CasObjectError, ObjectMissingError, FileSystemError, ProjectNotFoundError.
        """
        base = change.base
        ours = self._put_snapshot(  # (1)
            change.manifest_hash,
            (base.snapshot_hash,),
            EXECUTION,
            user_manifest_hash=change.user_manifest_hash,
            source_detail=change.item_ref,
            metadata={"thread_id": change.thread_id},
        )
        for attempt in range(MAX_RETRIES):
            head = self.head.read()  # (2)
            if head.snapshot_hash == base.snapshot_hash:
                if self._advance(head, ours, change.manifest_hash):  # (3)
                    return Folded(
                        snapshot_hash=ours, merge_type="fast-forward", new_objects=(ours,)
                    )
            elif folded := self._merge(change, head, ours):
                return folded
            self.sleep(pause_s(attempt))
        return Folded(
            snapshot_hash=self.head.read().snapshot_hash,
            merge_type="retry_exhausted",
            conflicts={"retry_exhausted": True, "attempts": MAX_RETRIES},
            unmerged=ours,
            new_objects=(ours,),
        )

    def _merge(self, change: Change, head: Head, theirs: str) -> Folded | None:
        """The end of this attempt; None where HEAD moved meanwhile."""
        merged = self._merged(change, head)  # (4)
        if merged.manifest is None:
            return Folded(
                snapshot_hash=head.snapshot_hash,
                merge_type="conflict",
                conflicts=conflict_record(merged.conflicts),
                unmerged=theirs,
                new_objects=(theirs,),
            )
        manifest_hash = self.store.put_object(merged.manifest.as_object(), Durability.AT_SYNC)
        snapshot = self._put_snapshot(
            manifest_hash,
            (head.snapshot_hash, theirs),
            MERGE,
            user_manifest_hash=head.user_manifest_hash,
            metadata={"base": change.base.snapshot_hash, "thread_id": change.thread_id},
        )
        if not self._advance(head, snapshot, manifest_hash):  # (5)
            return None
        return Folded(
            snapshot_hash=snapshot,
            merge_type="merge",
            new_objects=(theirs, snapshot, manifest_hash),
        )

    def _merged(self, change: Change, head: Head) -> Merged:
        base, ours, theirs = (
            read_manifest(digest, "project", self.store)
            for digest in (
                change.base.project_manifest_hash,
                head.project_manifest_hash,
                change.manifest_hash,
            )
        )
        return three_way_merge(base, ours, theirs, self.store)

    def _advance(self, expected: Head, snapshot_hash: str, manifest_hash: str) -> bool:
        self.durable.force(self.store)
        return self.head.advance(expected, snapshot_hash, manifest_hash)

    def _put_snapshot(
        self,
        manifest_hash: str,
        parents: tuple[str, ...],
        source: str,
        *,
        user_manifest_hash: str | None,
        metadata: Mapping[str, Any],
        source_detail: str = "",
    ) -> str:
        snapshot = ProjectSnapshot(
            project_manifest_hash=manifest_hash,
            user_manifest_hash=user_manifest_hash,
            parent_hashes=parents,
            source=source,
            source_detail=source_detail,
            timestamp=stamp(self.clock()),
            metadata=metadata,
        )
        return self.store.put_object(snapshot.as_object(), Durability.AT_SYNC)


def pause_s(attempt: int) -> float:
    """How long to wait after a lost attempt, counted from 0: longer each time, never the same."""
    pause_ms: float = JITTER_MS * 2**attempt + SystemRandom().uniform(0, JITTER_MS)
    return pause_ms / 1000
