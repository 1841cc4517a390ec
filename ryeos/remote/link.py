"""A project and the node that it is pushed to: what every command about both stands on."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from lillux.digests import canonical_json, sha256_hex
from lillux.files import locked
from lillux.store import Durability, Store
from lillux.store_files import Space, is_digest
from lillux.values import dataclass, field
from ryeos.cas.admission import check_admissible
from ryeos.cas.errors import CasObjectError
from ryeos.cas.objects import SourceManifest, manifest_of
from ryeos.cas.safe_paths import check_manifest_paths
from ryeos.cas.tree import Tree
from ryeos.moments import Clock, utc_now
from ryeos.remote.apply import Applied
from ryeos.remote.conflicts import ConflictFolder
from ryeos.remote.heads import Attempt, LocalHead, LocalHeads
from ryeos.remote.node import Node
from ryeos.remote.places import new_incoming_folder, own_folder
from ryeos.remote.replies import Head
from ryeos.remote.transfer import Progress, RemoteContents, no_progress
from ryeos.remote.working_tree import WorkingTree

LOCK = "lock"
TellMerged = Callable[[str, Applied], None]
"""Is given the name of the remote, and which files were changed."""


def _tell_nobody(_: str, __: Applied) -> None:
    """Nobody wants to know."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """One project, one node.

    project_path  what the project is called there
    url           where the node is, to notice that a name came to mean another one
    store         of the project: merged and fetched content, and the heads
    tell_merged   told of files of the project that a push or a run changed, as soon as they are:
                  what comes after may fail
    """

    node: Node
    working_tree: WorkingTree
    store: Store
    heads: LocalHeads
    conflicts: ConflictFolder
    project_path: str
    url: str
    progress: Progress = no_progress
    tell_merged: TellMerged = _tell_nobody
    clock: Clock = utc_now
    _manifests: dict[str, SourceManifest] = field(default_factory=dict, repr=False, compare=False)

    @property
    def contents(self) -> RemoteContents:
        """What the node has."""
        return RemoteContents(self.node, self.store)

    @contextmanager
    def alone(self) -> Iterator[None]:
        """No other process pushes or pulls this project at this time."""
        folder = own_folder(self.conflicts.folder.parent, self.working_tree.project / ".ai")
        with locked(folder / LOCK, timeout_s=_LOCK_TIMEOUT_S):
            yield

    def incoming(self) -> Path:
        """An empty folder for files on their way. Only while this is `alone`, or a run is over."""
        return new_incoming_folder(self.conflicts.folder.parent, self.working_tree.project / ".ai")

    def head(self) -> Head | None:
        """Where the node is, None where it has no such project.

        Where the answer of a push was lost, and the push was not, it is recorded now.
        """
        head, attempt = self.node.head(self.project_path), self.heads.attempt(self.node.name)
        if head is None or attempt is None or (attempt.project_path, attempt.url) != self._there:
            return head
        recorded = self.recorded()
        for row in self.node.history(self.project_path, _MAX_SINCE):
            digest = row.get("_hash")
            if not is_digest(digest) or (recorded and digest == recorded.snapshot_hash):
                break
            if row.get("project_manifest_hash") == attempt.project_manifest_hash:
                self.record(str(digest), self.manifest(attempt.project_manifest_hash), "")
                break
        return head

    def attempt(self, tree: Tree) -> None:
        """Remember what is about to be pushed, until `record`: the answer may never come."""
        digest = self._keep(tree.manifest_data)
        self.heads.write_attempt(self.node.name, Attempt(digest, *self._there))

    @property
    def _there(self) -> tuple[str, str]:
        return self.project_path, self.url

    def recorded(self) -> LocalHead | None:
        """What this project and the node last had in common, None for nothing."""
        head = self.heads.read(self.node.name)
        is_same = head and head.project_path == self.project_path and head.url == self.url
        return head if is_same else None

    def former_name(self) -> str | None:
        """What the project was called there when it was last pushed or pulled, if not the same."""
        head = self.heads.read(self.node.name)
        is_other = head and head.url == self.url and head.project_path != self.project_path
        return (head.project_path or None) if head and is_other else None

    def record(
        self,
        snapshot_hash: str,
        manifest: SourceManifest,
        user_manifest_hash: str,
        manifest_data: bytes = b"",
    ) -> None:
        """Both have this in common from now on. ``manifest_data``: as JSON, where that is known."""
        digest = self._keep(manifest_data or canonical_json(manifest.as_object()))
        self.heads.write(
            self.node.name,
            LocalHead(
                snapshot_hash=snapshot_hash,
                project_manifest_hash=digest,
                project_path=self.project_path,
                url=self.url,
                updated_at=self.clock().isoformat(timespec="microseconds"),
                user_manifest_hash=user_manifest_hash,
            ),
        )
        self.heads.forget_attempt(self.node.name)

    def _keep(self, manifest_data: bytes) -> str:
        """Have a manifest in the store, and on the disk. Its digest."""
        digest = sha256_hex(manifest_data)
        self.store.keep(Space.OBJECT, digest, manifest_data, Durability.AT_SYNC)
        self.store.sync()
        return digest

    def manifest(self, digest: str, tree: Tree | None = None) -> SourceManifest:
        """A manifest that is here or on the node. Raises CasObjectError, RemoteReplyError."""
        if tree and tree.manifest_hash == digest:
            return tree.manifest
        known = self._manifests.get(digest)
        if known is None:
            known = manifest_of(self.contents.get_object(digest), f"manifest {digest}")
            self._manifests[digest] = known
        return known

    def received(self, digest: str, tree: Tree) -> SourceManifest:
        """The manifest that a node says it is at: nothing in it that no honest node has.

        Raises as `manifest`, UnsafeManifestError, InadmissibleError.
        """
        manifest = self.manifest(digest, tree)
        if manifest.space != "project":
            problem = f'space: expected "project", found "{manifest.space}"'
            raise CasObjectError(f"manifest {digest}", problem)
        check_admissible(manifest)
        check_manifest_paths(manifest.paths())
        return manifest

    def base(self, tree: Tree | None = None) -> SourceManifest | None:
        """The manifest that both had, as far as conflicts that were settled let it be."""
        head, kept = self.recorded(), self.conflicts.read()
        base = self.manifest(head.project_manifest_hash, tree) if head else None
        if kept is None or kept.is_of_run:
            return base
        if not any(one.is_settled or one.is_seen for one in kept.conflicts.values()):
            return base
        return kept.seen_by(base or SourceManifest("project"))


_LOCK_TIMEOUT_S = 300.0
_MAX_SINCE = 200

MakeLink = Callable[[Path], Link]


def is_same_head(recorded: LocalHead | None, head: Head | None) -> bool:
    """Whether the node is where it was when this project last looked."""
    return (recorded and recorded.snapshot_hash) == (head and head.snapshot_hash)
