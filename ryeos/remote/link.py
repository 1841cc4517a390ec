"""A project and the node that it is pushed to: shared by all commands about both."""

import json
import logging
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lillux.cancellation import Cancellation
from lillux.digests import canonical_json, sha256_hex
from lillux.errors import LilluxError
from lillux.files import locked, read_bytes
from lillux.foreign_text import printable
from lillux.store import Durability, Store
from lillux.store_files import ObjectKind, RefUnreadableError, is_digest
from lillux.values import dataclass, field, replace
from ryeos import __version__
from ryeos.items.context import Clock, Context, cache_place, utc_now
from ryeos.items.errors import NoSigningKeyError, no_project_error
from ryeos.remote.apply import AppliedChanges
from ryeos.remote.conflicts import ConflictFolder, new_incoming_folder, own_folder, project_store
from ryeos.remote.node import Node
from ryeos.remote.pins import Pins
from ryeos.remote.replies import RemoteHead
from ryeos.remote.settings import (
    CONFIG_PATH,
    RemoteConfig,
    Remotes,
    read_remotes,
    team_and_path,
)
from ryeos.remote.transfer import RemoteContents, TransferProgress, no_progress
from ryeos.remote.transport import BearerCredentials, Credentials, credentials_for
from ryeos.run.workspace import Workspace
from ryeos.sync.entries import SizedContent
from ryeos.sync.objects import CasObjectError, SourceManifest, manifest_of
from ryeos.sync.paths import require_admissible, require_safe_paths
from ryeos.sync.rules import ManifestRules, read_rules
from ryeos.sync.tree import StatTable, Tree, build_project_tree, build_user_tree
from ryeos.trust.keys import SigningKey

if TYPE_CHECKING:
    pass


# --- heads ----------------------------------------------------------------------------------------
# The snapshot that a project and a remote last had in common: ``refs/remotes/NAME`` of its store.
#
# It is the base of the next merge, and nothing else depends on it: a lost one costs a merge without
# base, where every difference is a conflict.

_FOLDER, _ATTEMPTS = "remotes", "remote-attempts"
_MAX_BYTES = 64 * 1024
_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalHead:
    """What a remote had when it was last pushed to or pulled from.

    project_path  what the project is called there
    url           of the node; a head of another address is no base
    updated_at    UTC, ISO 8601
    """

    snapshot_hash: str
    project_manifest_hash: str
    project_path: str
    url: str
    updated_at: str
    user_manifest_hash: str = ""

    def as_ref(self) -> dict[str, str]:
        """The value of the ref."""
        return {name: getattr(self, name) for name in _FIELDS}


@dataclass(frozen=True, slots=True)
class Attempt:
    """A push that was sent, and whose answer this project has not seen yet."""

    project_manifest_hash: str
    project_path: str
    url: str


_FIELDS = (
    *("snapshot_hash", "project_manifest_hash", "project_path", "url", "updated_at"),
    "user_manifest_hash",
)


class LocalHeads:
    """The heads in a project's store. Names of remotes are checked where they are configured."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def read(self, remote: str) -> LocalHead | None:
        """The head of a remote; None if it is absent or invalid.

        Raises RefNameError, StoreLinkError, FileSystemError.
        """
        try:
            value = self._store.read_ref(f"{_FOLDER}/{remote}")
        except RefUnreadableError as error:
            _LOG.warning("the head of remote %s cannot be read: %s", remote, error)
            return None
        return _head_of(self._elsewhere(remote) if value is None else value)

    def write(self, remote: str, head: LocalHead) -> None:
        """Replace the head of a remote, and have it on disk. Raises as `Store.write_ref`."""
        self._store.write_ref(f"{_FOLDER}/{remote}", head.as_ref())

    def forget(self, remote: str) -> None:
        """Remove the head of a remote, if there is one. Raises as `Store.remove_ref`."""
        self._store.remove_ref(f"{_FOLDER}/{remote}")
        self.forget_attempt(remote)

    def attempt(self, remote: str) -> Attempt | None:
        """The push that was sent last, None where its answer came. Raises as `read`."""
        try:
            value = self._store.read_ref(f"{_ATTEMPTS}/{remote}")
        except RefUnreadableError as error:
            _LOG.warning("the last push to remote %s cannot be read: %s", remote, error)
            return None
        if not isinstance(value, Mapping) or not is_digest(value.get("project_manifest_hash")):
            return None
        return Attempt(
            value["project_manifest_hash"], _text(value, "project_path"), _text(value, "url")
        )

    def write_attempt(self, remote: str, attempt: Attempt) -> None:
        """Remember a push before it is sent. Raises as `Store.write_ref`."""
        value = {
            "project_manifest_hash": attempt.project_manifest_hash,
            "project_path": attempt.project_path,
            "url": attempt.url,
        }
        self._store.write_ref(f"{_ATTEMPTS}/{remote}", value)

    def forget_attempt(self, remote: str) -> None:
        """Forget the push whose answer came, if there is one. Raises as `Store.remove_ref`."""
        self._store.remove_ref(f"{_ATTEMPTS}/{remote}")

    def _elsewhere(self, remote: str) -> object:
        """What another program wrote: it left heads where its store was before."""
        path = self._store.root.parent.parent / "objects" / "refs" / _FOLDER / f"{remote}.json"
        try:
            return json.loads(read_bytes(path, _MAX_BYTES))
        except (OSError, LilluxError, ValueError, RecursionError):
            return None


def _head_of(value: object) -> LocalHead | None:
    if not isinstance(value, Mapping) or not is_digest(value.get("snapshot_hash")):
        return None
    return LocalHead(**{name: _text(value, name) for name in _FIELDS})


def _text(value: Mapping[str, Any], name: str) -> str:
    text = value.get(name)
    return text if isinstance(text, str) else ""


# --- working tree ---------------------------------------------------------------------------------
# The folders that travel, read again whenever a caller asks: the project, and the user space.

TABLES = "trees"
_MAX_LINE_CHARACTERS = 2000


class WorkingTree:
    """A project and its user space on this machine.

    bundles  the folders that contain the ``.ai`` of each bundle
    user     the folder that contains the user's ``.ai``
    cache    a folder of this user's for what is known of files, named by digests so that
             ``self clean`` knows them; or None. Never one of the project, which others write
    """

    def __init__(
        self,
        *,
        project: Path,
        user: Path,
        bundles: Sequence[Path] = (),
        cache: Path | None = None,
        warn: Callable[[str], None] = lambda _: None,
    ) -> None:
        self.project, self.user = project, user
        self._bundles, self._cache, self._warn = bundles, cache, warn

    def rules(self) -> ManifestRules:
        """Which files of the project travel, as configured now.

        Raises SpecError, and RyeError `CONFIG_ERROR`: without its rules a project looks as if most
        of it had been removed.
        """
        return read_rules(
            bundles=self._bundles, user=self.user, project=self.project, is_strict=True
        )

    def project_tree(self) -> Tree:
        """The project as it is now. Raises as `ryeos.sync.tree.build_project_tree`."""
        return self._built(build_project_tree, self.project)

    def user_tree(self) -> Tree:
        """What of the user space runs on a node may see."""
        return self._built(build_user_tree, self.user)

    def _built(self, build: Callable[[Path, ManifestRules, StatTable], Tree], root: Path) -> Tree:
        table = StatTable(self._table_path(root))
        table.load()
        tree = build(root, self.rules(), table)
        try:
            table.save_if_worth_it()
        except LilluxError as error:  # it only saves time
            self._warn(f"file digests are not kept: {error}")
        for skipped in tree.skipped:
            text = f"{skipped.path}: stays here: {skipped.problem}"
            self._warn(printable(text, _MAX_LINE_CHARACTERS))
        return tree

    def _table_path(self, root: Path) -> Path | None:
        if self._cache is None:
            return None
        return self._cache / sha256_hex(str(root.absolute()).encode())


def sized(tree: Tree, digest: str) -> SizedContent:
    """How large a piece of a tree is, and the name of its file."""
    path = tree.blobs.get(digest)
    if path is not None:
        try:
            return SizedContent(digest, os.stat(f"{tree.root}{os.sep}{path}").st_size, path)  # noqa: PTH116 - many times
        except OSError:  # reading it will say what is wrong
            return SizedContent(digest, 0, path)
    if digest == tree.manifest_hash:
        return SizedContent(digest, len(tree.manifest_data))
    return SizedContent(digest, len(canonical_json(tree.get_object(digest))))


# --- link -----------------------------------------------------------------------------------------

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
        """What of the user space travels: nothing with a project of a team, which has none."""
        tree = self.working_tree.user_tree()
        if not self.node.owner:
            return tree
        return replace(tree.with_manifest(SourceManifest("user")), item_sources={}, blobs={})

    @property
    def contents(self) -> RemoteContents:
        """What the node has."""
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
        return self.name, self.url

    def recorded(self) -> LocalHead | None:
        """What this project and the node last had in common, None for nothing."""
        head = self.heads.read(self.node.name)
        is_same = head and head.project_path == self.name and head.url == self.url
        return head if is_same else None

    def rename(self, name: str) -> None:
        """Continue under another name: the project was moved there, and what both have stays so."""
        head = self.recorded()
        if head is not None:
            self.heads.write(self.node.name, replace(head, project_path=name))

    def former_name(self) -> str | None:
        """What the project was called there when it was last pushed or pulled, if not the same."""
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
    """Whether the node is where it was when this project last looked."""
    return (recorded and recorded.snapshot_hash) == (head and head.snapshot_hash)


# --- opening --------------------------------------------------------------------------------------
# A link to a remote by its name: configuration, credentials, pins and the project put together.


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteEnvironment:
    """What opening a remote needs of this program, who gets its progress, and what came."""

    workspace: Workspace
    progress: TransferProgress = no_progress
    report_merged: ReportMerged | None = None
    cancellation: Cancellation | None = None
    accepted: tuple[str, ...] = ()

    @property
    def context(self) -> Context:
        """Where this program runs."""
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
    """What the project is called on a node, with its owner. Raises RyeError `NO_PROJECT`."""
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
    """What to do about a refusal of what requests show."""
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
