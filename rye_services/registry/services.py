"""What the routes of a registry share, made once at its start."""

from collections.abc import Mapping
from types import MappingProxyType

from lillux.values import dataclass
from rye_services.node.store.objects import DurableStores, StoresOfUsers
from rye_services.node.store.servers import SERVERS, ServerLease
from rye_services.node.store.stores import Stores, open_stores
from rye_services.people.audit import Audit
from rye_services.people.callers import Authenticator
from rye_services.people.credentials import ApiKeys, AuthorizedKeys, Nonces, Principal
from rye_services.people.people import People
from rye_services.people.teams import Teams
from rye_services.process.data_folder import open_database
from rye_services.process.keys import REGISTRY_FOLDER, NodeKeys, open_keys, open_pair
from rye_services.registry.accounts import Accounts, Namespaces
from rye_services.registry.bundles import Bundles
from rye_services.registry.items import Items
from rye_services.registry.manifests import PublishedManifests
from rye_services.registry.names import LocalRateLimit, RateLimit, SharedRateLimit
from rye_services.registry.search_index import index_for
from rye_services.settings import Settings
from rye_services.storage.database import Database
from ryeos.items.context import Clock, utc_now
from ryeos.trust.signing_key import SigningKey

SIGN_UPS_PER_MINUTE = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistryServices:
    """The services of a registry.

    keys     those of the node: ``signing`` signs what the registry itself says
    signer   signs what is published, and nothing else
    stores   what users of the node pushed, which its routes below ``/registry`` publish
    presence what says that this server lives; None where a node beside it does
    pushes   how often an account may publish
    signups  how often an account may be made, where that is open at all
    """

    settings: Settings
    database: Database
    keys: NodeKeys
    signer: SigningKey
    authenticator: Authenticator
    authorized_keys: AuthorizedKeys
    audit: Audit
    api_keys: ApiKeys
    nonces: Nonces
    accounts: Accounts
    namespaces: Namespaces
    items: Items
    bundles: Bundles
    manifests: PublishedManifests
    stores: StoresOfUsers
    durable: DurableStores
    presence: ServerLease | None
    pushes: RateLimit
    signups: RateLimit
    clock: Clock

    def account_of(self, principal: Principal) -> str:
        """The open account of a caller. Raises RefusedError `ITEM_NOT_FOUND`."""
        return self.accounts.open_account(self.accounts.name_of(principal.user_id)).name


def open_registry(
    settings: Settings,
    *,
    database: Database,
    keys: NodeKeys,
    authenticator: Authenticator,
    stores: Stores,
    durable: DurableStores | None = None,
    clock: Clock = utc_now,
) -> RegistryServices:
    """The services of a registry; ``stores`` and ``durable`` are those of a node beside it.

    Its own key is made where there is none. Raises RyeError `CONFIG_ERROR`, PemError,
    KeyMismatchError, FileSystemError.
    """
    index = index_for(database.dialect)
    presence = None if durable else ServerLease(settings.data_dir / SERVERS)
    return RegistryServices(
        settings=settings,
        database=database,
        keys=keys,
        signer=SigningKey(open_pair(settings.signing_key_dir / REGISTRY_FOLDER, clock), clock),
        authenticator=authenticator,
        authorized_keys=AuthorizedKeys(database, clock),
        audit=Audit(database),
        api_keys=authenticator.api_keys,
        nonces=authenticator.nonces,
        accounts=Accounts(database, clock),
        namespaces=Namespaces(database, clock),
        items=Items(database, index, clock),
        manifests=PublishedManifests(database, clock),
        stores=stores.users,
        durable=durable or DurableStores(presence or ServerLease(settings.data_dir / SERVERS)),
        presence=presence,
        bundles=Bundles(database, stores.registry, clock),
        pushes=_rate(settings, database, "pushes", settings.max_pushes_per_minute),
        signups=_rate(settings, database, "sign-ups", SIGN_UPS_PER_MINUTE),
        clock=clock,
    )


def _rate(settings: Settings, database: Database, name: str, per_minute: int) -> RateLimit:
    """The rate limit of callers: of all servers together where there are several."""
    if settings.is_cluster:
        return SharedRateLimit(database, name, per_minute)
    return LocalRateLimit(per_minute)


def open_registry_alone(
    settings: Settings,
    clock: Clock = utc_now,
    *,
    make: bool = False,
    environ: Mapping[str, str] = MappingProxyType({}),
) -> RegistryServices:
    """The services of a registry that is no node: with keys, database and callers of its own.

    ``make`` as in `open_database`. Raises RyeError `WRONG_DATABASE`,
    `CONFIG_ERROR`, PemError, KeyMismatchError, FileSystemError.
    """
    keys = open_keys(settings.signing_key_dir, clock)
    database = open_database(settings, make=make)
    authenticator = Authenticator(
        audience=keys.node_id,
        api_keys=ApiKeys(database, clock),
        people=People(database, clock),
        teams=Teams(database, clock),
        nonces=Nonces(database, clock),
        clock=clock,
    )
    return open_registry(
        settings,
        database=database,
        keys=keys,
        authenticator=authenticator,
        stores=open_stores(settings, database, environ, make=make, is_server=make),
        clock=clock,
    )
