"""Runs that the node could not merge, merged into the project instead.

(1) the node is the one that is pinned   (2) the run's row names the snapshot that it kept
(3) one that was merged here before is not merged again   (4) the node's head is merged first,
which is what the run was in conflict with   (5) the snapshot is merged; its base is what the run
began from. The next push brings what comes of it.
"""

from lillux.store_layout import is_digest
from lillux.values import dataclass
from ryeos.items.errors import RyeError
from ryeos.remote.apply import AppliedChanges
from ryeos.remote.link import Link
from ryeos.remote.pull import MergedRuns, finish_run, merge_head, merge_run

UNMERGED = "unmerged_snapshot_hash"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunPulled:
    """The outcome for a run. ``was_merged``: before, so nothing was done.

    snapshot_hash  what the node kept of it
    """

    snapshot_hash: str
    applied: AppliedChanges = AppliedChanges()
    was_merged: bool = False


def pull_run(link: Link, run: str) -> RunPulled:
    """Merge what a run changed; ``run`` is its id, or the digest of the snapshot that was kept.

    Named by the digest it is merged, whatever was done before. Raises RyeError
    `ITEM_NOT_FOUND` for a run that left nothing to merge here, RemoteConflictError, and as a pull
    does.
    """
    link.node.verify()  # (1)
    snapshot_hash = run if is_digest(run) else _unmerged(link, run)  # (2)
    with link.alone():
        kept = link.conflicts.read()
        is_begun = kept is not None and kept.is_of_run and kept.snapshot_hash == snapshot_hash
        merged = MergedRuns(link.conflicts)
        if run != snapshot_hash and not is_begun and merged.has(snapshot_hash):  # (3)
            return RunPulled(snapshot_hash=snapshot_hash, was_merged=True)
        applied = finish_run(link)
        head = link.head()
        if head is not None:  # (4)
            pulled = merge_head(link, head, link.working_tree.project_tree())
            applied = applied.followed_by(pulled.applied)
        if not is_begun:
            applied = applied.followed_by(merge_run(link, snapshot_hash))  # (5)
    return RunPulled(snapshot_hash=snapshot_hash, applied=applied)


def _unmerged(link: Link, thread_id: str) -> str:
    row = link.node.thread(thread_id)
    project = row.get("project_path", link.project_path)
    digest = row.get(UNMERGED)
    if project != link.project_path:
        problem = f"a run of another project, {project!r:.80}"
    elif not is_digest(digest):
        problem = "the node keeps nothing of it that is not merged"
    else:
        return str(digest)
    raise RyeError(
        f"{thread_id}: {problem}",
        code="ITEM_NOT_FOUND",
        hint="list the runs with: rye remote threads",
    )
