"""What the routes of a node share, made once at its start."""

import logging
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType
from typing import Literal

from lillux.values import dataclass
from rye_services.node.moves import ProjectMoves
from rye_services.node.rotation import finish_resealing
from rye_services.node.runs.execution import Engine
from rye_services.node.runs.executions import ExecutionService, open_engine, open_executions
from rye_services.node.secrets import Vault
from rye_services.node.storage import SyncServices, open_sync
from rye_services.node.store.objects import StoresOfUsers
from rye_services.node.store.servers import SERVERS, ServerLease
from rye_services.node.store.stores import Stores, open_stores
from rye_services.node.webhooks import Webhooks, webhook_check
from rye_services.people.audit import Audit
from rye_services.people.callers import Authenticator, WebhookCheck, refuse_webhooks
from rye_services.people.credentials import ApiKeys, AuthorizedKeys, Nonces
from rye_services.people.people import People
from rye_services.people.teams import Teams, TeamSpaces
from rye_services.process.data_folder import open_database
from rye_services.process.health import STORE
from rye_services.process.keys import NodeKeys, open_keys
from rye_services.process.watch import Watch, open_watch
from rye_services.settings import Settings
from rye_services.storage.database import Database
from ryeos.items.context import Clock, utc_now
from ryeos.items.errors import RyeError

Process = Literal["server", "worker"]
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeServices:
    """The services of a node.

    sync           what pushes, uploads and executions share
    bundle         the folder that holds the ``.ai`` of the standard bundle
    webhook_check  finds the binding of a webhook's delivery
    watch          what its operator sees: figures, traces, health
    environ        of the process: proxies and certificates on the way to a sign-in provider
    """

    settings: Settings
    database: Database
    keys: NodeKeys
    stores: StoresOfUsers
    all_stores: Stores
    clock: Clock
    authorized_keys: AuthorizedKeys
    audit: Audit
    api_keys: ApiKeys
    team_spaces: TeamSpaces
    nonces: Nonces
    sync: SyncServices
    bundle: Path
    vault: Vault
    webhooks: Webhooks
    executions: ExecutionService
    watch: Watch
    environ: Mapping[str, str]
    webhook_check: WebhookCheck = refuse_webhooks

    @property
    def people(self) -> People:
        """Who may use this node."""
        return self.team_spaces.people

    @property
    def teams(self) -> Teams:
        """The teams of those people."""
        return self.team_spaces.teams

    @property
    def moves(self) -> ProjectMoves:
        """What gives projects to other owners."""
        return ProjectMoves(
            database=self.database,
            heads=self.sync.heads,
            stores=self.stores,
            usage=self.sync.usage,
            durable=self.sync.durable,
            clock=self.clock,
            remote_name=self.settings.name,
            max_bytes=self.settings.max_user_storage_bytes,
        )

    @property
    def authenticator(self) -> Authenticator:
        """What finds out who sends a request."""
        return Authenticator(
            audience=self.keys.node_id,
            api_keys=self.api_keys,
            people=self.people,
            teams=self.teams,
            nonces=self.nonces,
            clock=self.clock,
            webhook_check=self.webhook_check,
        )


def _opened_database(settings: Settings, keys: NodeKeys) -> Database:
    """The database, in which no secret is sealed to a former key; a cluster has these keys."""
    database = open_database(settings, make=True)
    finish_resealing(settings.signing_key_dir, database, keys)
    if settings.is_cluster:
        require_cluster_edition()
        from rye_services.node.runs.cluster_executions import require_keys_of_the_node

        require_keys_of_the_node(database, keys)
    return database


def open_services(
    settings: Settings,
    bundle: Path,
    clock: Clock = utc_now,
    *,
    environ: Mapping[str, str] = MappingProxyType({}),
    process: Process = "server",
) -> NodeServices:
    """The services on the data of a node; its keys and tables are made if there are none.

    ``process`` is what this one does in a cluster; ``environ`` is what it was started with.
    Raises RyeError `CONFIG_ERROR`, PemError, KeyMismatchError, FileSystemError.
    """
    keys = _opened_keys(settings, clock)
    database = _opened_database(settings, keys)
    opened = open_stores(settings, database, environ, make=True, is_server=True)
    box = {"box_private": keys.box_private, "box_public": keys.box_public}
    webhooks = Webhooks(database, **box, clock=clock)
    presence = ServerLease(settings.data_dir / SERVERS)
    sync = open_sync(settings, database, opened.users, clock, presence)
    vault = Vault(database, **box, clock=clock)
    watch = _opened_watch(settings, database, environ, opened)
    authorized_keys = AuthorizedKeys(database, clock)
    team_spaces = TeamSpaces(Teams(database, clock), People(database, clock), authorized_keys)
    engine = open_engine(
        database=database,
        settings=settings,
        keys=keys,
        stores=opened.users,
        sync=sync,
        vault=vault,
        team_spaces=team_spaces,
        bundle=bundle,
        clock=clock,
        environ=environ,
        runs_here=process == "worker" or not settings.is_cluster,
    )
    made = NodeServices(
        settings=settings,
        database=database,
        keys=keys,
        stores=opened.users,
        all_stores=opened,
        clock=clock,
        authorized_keys=authorized_keys,
        audit=Audit(database),
        api_keys=ApiKeys(database, clock),
        team_spaces=team_spaces,
        nonces=Nonces(database, clock),
        sync=sync,
        bundle=bundle,
        vault=vault,
        webhooks=webhooks,
        executions=_executions(process, engine, database, presence, watch),
        watch=watch,
        environ=environ,
        webhook_check=webhook_check(webhooks) if settings.open_webhooks else refuse_webhooks,
    )
    watch.metrics.add_read(made.executions.figures, sync.storage.sweeps.figures)
    return made


def _opened_keys(settings: Settings, clock: Clock) -> NodeKeys:
    keys = open_keys(settings.signing_key_dir, clock)
    _log.info("pages and items of users are signed with the key %s", keys.items.fingerprint)
    return keys


def _opened_watch(
    settings: Settings, database: Database, environ: Mapping[str, str], opened: Stores
) -> Watch:
    """What watches the node; a store in a bucket has figures and a check of its own."""
    watch = open_watch(settings, database, environ)
    if opened.storage:
        watch.metrics.add_live(opened.storage.figures)
        watch.health.add(STORE, opened.storage.check)
    return watch


def _executions(
    process: Process, engine: Engine, database: Database, presence: ServerLease, watch: Watch
) -> ExecutionService:
    """How executions are carried out: here, by workers elsewhere, or as one of these workers."""
    settings = engine.settings
    if not settings.is_cluster:
        if process == "worker":
            raise RyeError(
                "queue: expected cluster for a worker, found local",
                code="CONFIG_ERROR",
                hint="one machine needs no worker; else RYE_NODE_QUEUE=cluster for each process",
            )
        return open_executions(engine, database, presence, watch)
    from rye_services.node.runs.cluster_executions import (
        ClusterExecutions,
        ClusterParts,
        ClusterWorker,
    )

    parts = ClusterParts(settings, database, presence.server_id)
    if process == "worker":
        return ClusterWorker(engine, parts, presence=presence, watch=watch)
    return ClusterExecutions(engine, parts, stores=engine.stores, presence=presence)


def require_cluster_edition() -> None:
    """Refuse a build without the libraries of the queue of a cluster. Raises RyeError."""
    missing = [name for name in ("psycopg", "procrastinate") if find_spec(name) is None]
    if missing:
        raise RyeError(
            f"queue: cluster: expected the libraries of the cluster edition, found no {missing[0]}",
            code="CONFIG_ERROR",
            hint="build it: build_zipapp.py --node --edition cluster; or: pip install"
            " 'rye-node[cluster]'",
        )
