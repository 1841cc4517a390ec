"""What pushes, uploads and executions share: made once at the start of a node."""

from lillux.values import dataclass
from rye_services.database import Database
from rye_services.node.durable import Durable
from rye_services.node.heads import Heads
from rye_services.node.known_items import KnownItems
from rye_services.node.old_executions import OldExecutions
from rye_services.node.pushing import Pushing
from rye_services.node.storage import Storage
from rye_services.node.store_threads import StoreThreads
from rye_services.node.stores import UserStores
from rye_services.node.uploads import Uploads
from rye_services.node.usage import Usage
from rye_services.node.user_space_refs import UserSpaceRefs
from rye_services.settings import Settings
from ryeos.items.context import Clock


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncServices:
    """The parts of a node that keep what users push."""

    heads: Heads
    user_spaces: UserSpaceRefs
    known_items: KnownItems
    durable: Durable
    uploads: Uploads
    usage: Usage
    pushing: Pushing
    storage: Storage
    threads: StoreThreads


def open_sync(
    settings: Settings, database: Database, stores: UserStores, clock: Clock
) -> SyncServices:
    """The parts on the data of a node. Nothing is read or written yet."""
    heads, user_spaces = Heads(database), UserSpaceRefs(database)
    known_items, durable = KnownItems(), Durable()
    uploads, usage = Uploads(database, clock), Usage(database, clock)
    return SyncServices(
        heads=heads,
        user_spaces=user_spaces,
        known_items=known_items,
        durable=durable,
        uploads=uploads,
        usage=usage,
        pushing=Pushing(
            heads=heads,
            user_spaces=user_spaces,
            known=known_items,
            durable=durable,
            clock=clock,
            remote_name=settings.name,
            compatible_versions=settings.compatible_versions,
        ),
        storage=Storage(
            database=database,
            stores=stores,
            usage=usage,
            uploads=uploads,
            old_executions=OldExecutions(database, clock, settings.retain_executions_days),
            clock=clock,
            grace_s=settings.gc_grace_s,
        ),
        threads=StoreThreads(),
    )
