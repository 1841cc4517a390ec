"""The workspace of a thread: its items, its source, who pays, who wants it."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

from lillux.values import dataclass, field
from ryeos.agent.ledger import GrantedLedger
from ryeos.agent.limits import Limits
from ryeos.app.thread_log import Following
from ryeos.graph.capabilities import Capabilities
from ryeos.items.errors import Answer
from ryeos.items.refs import Kind, Reference, Resolution
from ryeos.items.rights import Rights
from ryeos.run.credentials import LoadedConfig
from ryeos.run.model import ExecutionRequest
from ryeos.run.workspace import Workspace

if TYPE_CHECKING:
    from ryeos.items.context import Context
    from ryeos.search.catalog import Catalog
    from ryeos.search.search import SearchRequest, SearchResult
    from ryeos.trust.verify import VerifiedItem


class ThreadWorkspace(Workspace, Protocol):
    """The workspace whose items a thread uses.

    thread_source  where threads have their configuration from, None for bundles and user space
    payer          the thread that pays for those that are started here, None for the day alone
    """

    thread_source: "ThreadSource | None"
    payer: "Payer | None"

    @property
    def catalog(self) -> "Catalog":
        """The items, as searches see them."""

    def kind_of(
        self, reference: Reference, resolution: Resolution | None = None
    ) -> tuple[Kind, Resolution | None]:
        """The kind of an item."""

    def rendered(
        self, reference: Reference, request: ExecutionRequest
    ) -> "tuple[dict[str, Any], VerifiedItem]":
        """A directive with its inputs, and the item that it is made of."""

    def reference(self, text: str, item_type: str | None = None) -> Reference:
        """The reference that a text names."""

    def search_items(self, request: "SearchRequest") -> "SearchResult":
        """The items that a search finds."""

    def with_context(self, context: "Context") -> "ThreadWorkspace":
        """The same in another context."""

    def paid_by(self, payer: "Payer") -> "ThreadWorkspace":
        """The same, where a running thread pays for the threads that items start."""


THREAD = "thread"


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadWish:
    """A caller's request for a thread.

    limits    that lower those of the directive (``limit_overrides``)
    at_most_s  seconds that count where they are less than all else; no wish of the caller
    model     PROVIDER/MODEL or a tier, instead of the directive's and of those of its children
    grants    lists of capabilities that must allow its calls, besides the directive's own
    parent    the id of the thread that starts it, ``""`` for none; ``depth`` generations above
    given     the purse that its parent gives it, None for one of its own
    callers   the rights of its callers: what it calls gets no more than each of them
    known_texts  digests of texts that the caller knows, by item
    """

    parameters: Mapping[str, Any]
    limits: Mapping[str, int] = field(default_factory=dict)
    at_most_s: int | None = None
    model: str = ""
    grants: tuple[Capabilities, ...] = ()
    parent: str = ""
    depth: int = 0
    given: Limits | None = None
    thread_id: str = ""
    callers: tuple[Rights, ...] = ()
    known_texts: Mapping[str, str] = field(default_factory=dict)

    @property
    def lowered(self) -> Mapping[str, int]:
        """All that lowers the limits."""
        if self.at_most_s is None:
            return self.limits
        seconds = min(self.limits.get("duration_s", self.at_most_s), self.at_most_s)
        return {**self.limits, "duration_s": seconds}


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadSource:
    """The source of a node's threads: their providers, credentials and limits, and who pays.

    ``thread_spend`` is what the node lets one thread spend, in nano-dollars.
    """

    config: LoadedConfig
    ledger: GrantedLedger
    thread_spend: int


class Payer(Protocol):
    """A running thread, whose purse pays for the threads that its calls start."""

    def start(
        self, reference: Reference, wish: ThreadWish, following: Following, call_id: str = ""
    ) -> Answer:
        """Carry a directive out as its child. Raises as `AgentThreads.start`, `LIMIT_SPAWNS`."""
