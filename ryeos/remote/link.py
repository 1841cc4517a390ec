"""A project and the node that it is pushed to: shared by all commands about both."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from lillux.cancellation import Cancellation
from lillux.canonical_json import canonical_json
from lillux.digests import sha256_hex
from lillux.file_locks import locked
from lillux.store import Durability, Store
from lillux.store_layout import ObjectKind, is_digest
from lillux.values import dataclass, field, replace
from ryeos import __version__
from ryeos.items.context import Clock, Context, cache_place, utc_now
from ryeos.items.errors import NoSigningKeyError, no_project_error
from ryeos.remote.apply import AppliedChanges
from ryeos.remote.conflicts import ConflictFolder, new_incoming_folder, own_folder, project_store
from ryeos.remote.local_heads import Attempt, LocalHead, LocalHeads
from ryeos.remote.node import Node
from ryeos.remote.pins import Pins
from ryeos.remote.remote_values import CONFIG_PATH, team_and_path
from ryeos.remote.replies import RemoteHead
from ryeos.remote.settings import RemoteConfig, Remotes, read_remotes
from ryeos.remote.transfer import RemoteContents, TransferProgress, no_progress
from ryeos.remote.transport import BearerCredentials, Credentials, credentials_for
from ryeos.remote.working_tree import TABLES, WorkingTree
from ryeos.run.workspace import Workspace
from ryeos.sync.admission import require_admissible
from ryeos.sync.object_shapes import CasObjectError
from ryeos.sync.objects import SourceManifest, manifest_of
from ryeos.sync.paths import require_safe_paths
from ryeos.sync.tree import Tree
from ryeos.trust.signing_key import SigningKey

LOCK = "lock"
ReportMerged = Callable[[str, AppliedChanges], None]
"""Is given the name of the remote, and which files were changed."""


def _no_report(_: str, __: AppliedChanges) -> None:
    """Ignore the progress."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """One project, one node.

    project_path  what the project is called there, by its owner
    url           where the node is, to notice that a name came to mean another one
    store         of the project: merged and fetched content, and the heads
    report_merged   gets the files of the project that a push or a run changed, as soon as they are:
                  what comes after may fail
    accepted      patterns of new files to take, though other programs take orders from them
    """

    node: Node
    working_tree: WorkingTree
    store: Store
    heads: LocalHeads
    conflicts: ConflictFolder
    project_path: str
    url: str
    progress: TransferProgress = no_progress
    report_merged: ReportMerged = _no_report
    accepted: tuple[str, ...] = ()
    clock: Clock = utc_now
    _manifests: dict[str, SourceManifest] = field(default_factory=dict, repr=False, compare=False)
    _kept: set[str] = field(default_factory=set, repr=False, compare=False)

    @property
    def name(self) -> str:
        """The project with its owner: ``@acme/app`` for one of a team."""
        return f"@{self.node.owner}/{self.project_path}" if self.node.owner else self.project_path

    def user_tree(self) -> Tree:
        """Paths of user space that travel: none with a project of a team, which has none."""
        tree = self.working_tree.user_tree()
        if not self.node.owner:
            return tree
        return replace(tree.with_manifest(SourceManifest("user")), item_sources={}, blobs={})

    @property
    def contents(self) -> RemoteContents:
        """The content that the node has."""
        return RemoteContents(self.node, self.store)

    @contextmanager
    def alone(self) -> Iterator[None]:
        """No other process pushes or pulls this project at this time."""
        folder = own_folder(self.conflicts.folder.parent, self.working_tree.project / ".ai")
        with locked(folder / LOCK, timeout_s=_LOCK_TIMEOUT_S, within=self.working_tree.project):
            yield

    def incoming(self) -> Path:
        """An empty folder for files on their way. Only while this is `alone`, or a run is over."""
        return new_incoming_folder(self.conflicts.folder.parent, self.working_tree.project / ".ai")

    def head(self) -> RemoteHead | None:
        """The node's head, None where it has no such project.

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
        return self.name, self.url

    def recorded(self) -> LocalHead | None:
        """The head that this project and the node last had in common, None for none."""
        head = self.heads.read(self.node.name)
        is_same = head and head.project_path == self.name and head.url == self.url
        return head if is_same else None

    def rename(self, name: str) -> None:
        """Continue under another name: the project was moved there, and what both have stays so."""
        head = self.recorded()
        if head is not None:
            self.heads.write(self.node.name, replace(head, project_path=name))

    def former_name(self) -> str | None:
        """The project's name there when it was last pushed or pulled, if not the same."""
        head = self.heads.read(self.node.name)
        is_other = head and head.url == self.url and head.project_path != self.name
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
                project_path=self.name,
                url=self.url,
                updated_at=self.clock().isoformat(timespec="microseconds"),
                user_manifest_hash=user_manifest_hash,
            ),
        )
        self.heads.forget_attempt(self.node.name)
        self._kept.clear()  # what no ref names may be swept from here on

    def _keep(self, manifest_data: bytes) -> str:
        """Store a manifest, forced to the disk. Its digest."""
        digest = sha256_hex(manifest_data)
        if digest not in self._kept:  # a push has it kept twice: before it is sent, and after
            self.store.keep(ObjectKind.OBJECT, digest, manifest_data, Durability.AT_SYNC)
            self.store.sync()
            self._kept.add(digest)
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
        require_admissible(manifest)
        require_safe_paths(manifest.paths())
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


def is_same_head(recorded: LocalHead | None, head: RemoteHead | None) -> bool:
    """True if the node is where it was when this project last looked."""
    return (recorded and recorded.snapshot_hash) == (head and head.snapshot_hash)


# A link to a remote by its name: configuration, credentials, pins and the project put together.


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteEnvironment:
    """The needs of opening a remote, who gets its progress, and what came."""

    workspace: Workspace
    progress: TransferProgress = no_progress
    report_merged: ReportMerged | None = None
    cancellation: Cancellation | None = None
    accepted: tuple[str, ...] = ()

    @property
    def context(self) -> Context:
        """The context that this program runs in."""
        return self.workspace.context


def remotes_of(around: RemoteEnvironment) -> Remotes:
    """The remotes that are configured. Raises IntegrityError, RemoteConfigError."""
    return read_remotes(around.workspace.network_layers(CONFIG_PATH), around.context.process_env)


def open_node(
    around: RemoteEnvironment,
    remote: RemoteConfig,
    credentials: Credentials | None = None,
    *,
    owner: str = "",
) -> Node:
    """The node of a remote; nothing is asked yet. Raises NoSigningKeyError.

    Without ``credentials`` requests show what the remote is configured with. ``owner``: the team
    whose projects they are about.
    """
    from lillux.http.client import HttpClient
    from ryeos.remote.transport import HttpTransport

    context = around.context
    shown = credentials or credentials_for(remote, around.workspace.signing_key)
    transport = HttpTransport(
        remote,
        shown,
        HttpClient(context.process_env, user_agent=f"rye/{__version__}"),
        cancellation=around.cancellation,
    )
    pins = Pins(context.spaces.user.base, _key_if_any(around))
    return Node(transport, pins, remote.node_id or None, _hints(remote, shown), owner)


def open_link(around: RemoteEnvironment, name: str | None) -> Link:
    """The project and its counterpart on a remote; ``default`` without a name.

    Raises RyeError `NO_PROJECT`, RemoteNotFoundError, and as `open_node`.
    """
    remotes = remotes_of(around)
    remote = remotes.resolve(name)
    owner, _ = team_and_path(_project_name(around, remotes, remote))
    return link_to(around, remotes, remote, open_node(around, remote, owner=owner))


def _project_name(around: RemoteEnvironment, remotes: Remotes, remote: RemoteConfig) -> str:
    """The project's name on a node, with its owner. Raises RyeError `NO_PROJECT`."""
    project = around.context.spaces.project
    if project is None:
        raise no_project_error("this folder is the home folder or a file system root")
    return remote.project_path or remotes.project_name(project.base)


def link_to(around: RemoteEnvironment, remotes: Remotes, remote: RemoteConfig, node: Node) -> Link:
    """The project and its counterpart on a node. Raises RyeError `NO_PROJECT`."""
    project = around.context.spaces.project
    if project is None:
        raise no_project_error("this folder is the home folder or a file system root")
    store = project_store(project.ai)
    link = Link(
        node=node,
        working_tree=working_tree_of(around),
        store=store,
        heads=LocalHeads(store),
        conflicts=ConflictFolder(project.ai, remote.name),
        project_path=team_and_path(_project_name(around, remotes, remote))[1],
        url=remote.url,
        progress=around.progress,
        accepted=around.accepted,
    )
    return replace(link, report_merged=around.report_merged) if around.report_merged else link


def working_tree_of(around: RemoteEnvironment) -> WorkingTree:
    """The project and the user space. Raises RyeError `NO_PROJECT`."""
    context = around.context
    if context.spaces.project is None:
        raise no_project_error("this folder is the home folder or a file system root")
    return WorkingTree(
        project=context.spaces.project.base,
        user=context.spaces.user.base,
        bundles=[bundle.base for bundle in context.spaces.bundles],
        cache=cache_place(context.process_env, TABLES, context.platform),
        warn=around.workspace.warn,
    )


def _hints(remote: RemoteConfig, shown: Credentials) -> dict[int, str]:
    """Hints on a refusal of what requests show."""
    if not isinstance(shown, BearerCredentials) or not remote.key_env:
        return {}
    return {
        401: f"is the API key in {remote.key_env} one of this node's, and not revoked? without"
        f" {remote.key_env}, requests are signed with your key"
    }


def _key_if_any(around: RemoteEnvironment) -> SigningKey | None:
    try:
        return around.workspace.signing_key()
    except NoSigningKeyError:
        return None
