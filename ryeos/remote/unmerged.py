"""What a run changed and the node could not merge, merged into the project instead.

(1) the node is the one that is pinned   (2) the run's row names the snapshot that it kept
(3) the node's head is merged first: that is what the run was in conflict with   (4) the snapshot is
merged, with what the run began from as the base. The next push brings what comes of it.
"""

from lillux.cas.layout import is_digest
from ryeos.remote.errors import NothingUnmergedError
from ryeos.remote.link import Link
from ryeos.remote.pull import Pulled, finish_run, merge_head, merge_run

UNMERGED = "unmerged_snapshot_hash"


def pull_run(link: Link, run: str) -> Pulled:
    """Merge what a run changed; ``run`` is its id, or the digest of the snapshot that was kept.

    ``snapshot_hash`` of the answer is that snapshot. Raises NothingUnmergedError,
    RemoteConflictError, and as a pull does.
    """
    link.node.verify()  # (1)
    snapshot_hash = run if is_digest(run) else _unmerged(link, run)  # (2)
    with link.alone():
        kept = link.conflicts.read()
        applied = finish_run(link)
        is_finished = kept is not None and kept.is_of_run and kept.snapshot_hash == snapshot_hash
        head = link.head()
        if head is not None:  # (3)
            pulled = merge_head(link, head, link.working_tree.project_tree())
            applied = applied.followed_by(pulled.applied)
        if not is_finished:
            applied = applied.followed_by(merge_run(link, snapshot_hash))  # (4)
    return Pulled(snapshot_hash=snapshot_hash, applied=applied)


def _unmerged(link: Link, thread_id: str) -> str:
    row = link.node.thread(thread_id)
    project = row.get("project_path", link.project_path)
    if project != link.project_path:
        raise NothingUnmergedError(thread_id, f"a run of another project, {project!r:.80}")
    digest = row.get(UNMERGED)
    if not is_digest(digest):
        raise NothingUnmergedError(thread_id, "the node keeps nothing of it that is not merged")
    return str(digest)
