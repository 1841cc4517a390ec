"""A link to a remote by its name: configuration, credentials, pins and the project put together."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from lillux.process.cancellation import Cancellation
from lillux.values import dataclass, replace
from ryeos import __version__
from ryeos.cache_place import cache_place
from ryeos.config import ConfigReader
from ryeos.context import Context
from ryeos.errors import NoProjectError, NoSigningKeyError
from ryeos.remote.conflicts import ConflictFolder
from ryeos.remote.credentials import BearerCredentials, Credentials, credentials_for
from ryeos.remote.heads import LocalHeads
from ryeos.remote.link import Link, TellMerged
from ryeos.remote.node import Node
from ryeos.remote.pins import Pins
from ryeos.remote.places import project_store
from ryeos.remote.remote_values import CONFIG_PATH
from ryeos.remote.remotes import RemoteConfig, Remotes, read_remotes
from ryeos.remote.transfer import Progress, no_progress
from ryeos.remote.working_tree import TABLES, WorkingTree
from ryeos.resolver import Resolver
from ryeos.signing_key import SigningKey
from ryeos.verify import VerifiedItem, Verifier

if TYPE_CHECKING:  # a push executes nothing
    from ryeos.envelope import Answer
    from ryeos.executor.engine import PrimitiveExecutor
    from ryeos.executor.model import Request
    from ryeos.items import Reference, Resolution


class Workspace(Protocol):
    """What remotes are opened for: the public API. See `ryeos.app.Rye`."""

    context: Context
    config: ConfigReader
    verifier: Verifier
    resolver: Resolver
    warn: Callable[[str], None]

    @property
    def executor(self) -> "PrimitiveExecutor":
        """What finds and verifies a tool with all that it needs."""

    def load(
        self, reference: "Reference", *, source: str = ""
    ) -> "tuple[Resolution, VerifiedItem]":
        """The verified item that a reference names."""

    def check(self, reference: "Reference", request: "Request") -> "Answer":
        """Whether a run of an item would begin, here or elsewhere."""

    def signing_key(self) -> SigningKey:
        """The user's private key at work. Raises NoSigningKeyError where there is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What opening a remote needs of this program, who is told how far it is, and what came."""

    workspace: Workspace
    progress: Progress = no_progress
    tell_merged: TellMerged | None = None
    cancellation: Cancellation | None = None

    @property
    def context(self) -> Context:
        """Where this program runs."""
        return self.workspace.context


def remotes_of(around: Surroundings) -> Remotes:
    """The remotes that are configured. Raises IntegrityError, RemoteConfigError."""
    return read_remotes(around.workspace.config.layers(CONFIG_PATH), around.context.process_env)


def open_node(
    around: Surroundings, remote: RemoteConfig, credentials: Credentials | None = None
) -> Node:
    """The node of a remote; nothing is asked yet. Raises NoSigningKeyError.

    Without ``credentials`` requests show what the remote is configured with.
    """
    from lillux.http.client import HttpClient
    from ryeos.remote.http_transport import HttpTransport

    context = around.context
    shown = credentials or credentials_for(remote, around.workspace.signing_key)
    transport = HttpTransport(
        remote,
        shown,
        HttpClient(context.process_env, user_agent=f"rye/{__version__}"),
        cancellation=around.cancellation,
    )
    pins = Pins(context.spaces.user.base, _key_if_any(around))
    return Node(transport, pins, remote.node_id or None, _hints(remote, shown))


def open_link(around: Surroundings, name: str | None) -> Link:
    """The project and its counterpart on a remote; ``default`` without a name.

    Raises NoProjectError, RemoteNotFoundError, and as `open_node`.
    """
    remotes = remotes_of(around)
    remote = remotes.resolve(name)
    return link_to(around, remotes, remote, open_node(around, remote))


def link_to(around: Surroundings, remotes: Remotes, remote: RemoteConfig, node: Node) -> Link:
    """The project and its counterpart on a node. Raises NoProjectError."""
    project = around.context.spaces.project
    if project is None:
        raise NoProjectError("this folder is the home folder or a file system root")
    store = project_store(project.ai)
    link = Link(
        node=node,
        working_tree=working_tree_of(around),
        store=store,
        heads=LocalHeads(store),
        conflicts=ConflictFolder(project.ai, remote.name),
        project_path=remote.project_path or remotes.project_name(project.base),
        url=remote.url,
        progress=around.progress,
    )
    return replace(link, tell_merged=around.tell_merged) if around.tell_merged else link


def working_tree_of(around: Surroundings) -> WorkingTree:
    """The project and the user space. Raises NoProjectError."""
    context = around.context
    if context.spaces.project is None:
        raise NoProjectError("this folder is the home folder or a file system root")
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


def _key_if_any(around: Surroundings) -> SigningKey | None:
    try:
        return around.workspace.signing_key()
    except NoSigningKeyError:
        return None
