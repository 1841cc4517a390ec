"""The state of a thread, which its journal makes."""

from collections.abc import Mapping
from typing import Any

from lillux.values import dataclass, field
from ryeos.agent.limits import Limits
from ryeos.agent.messages import Answer, Entry, ToolCall, ToolOffer, ToolResult, Usage
from ryeos.agent.purse import Child, Purse, Reservation

RUNNING, WAITING, COMPLETED = "running", "waiting", "completed"
FAILED, REFUSED, STOPPED = "failed", "refused", "stopped"
CANCELLED, INTERRUPTED = "cancelled", "interrupted"
"""By a person who ended it; by a process that was ended, which leaves the thread open."""
ACTIVE = "active"
"""The event that tells of nothing but time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """The start of a thread, which it keeps: the prefix of every request is made of it.

    item      the reference of the directive, ``integrity`` its digest
    models    the frozen providers with their models (`ryeos.agent.providers.Provider.frozen`): the
              next one is tried only before the first answer
    compact   the frozen provider and model of summaries; empty for that of the thread
    offers    the tools of the request, ``items`` the reference that each name stands for
    outputs   the names of the outputs that the directive declares, and whether each is required
    grants    lists of capabilities, each of which must allow a call
    callers   the rights of its callers: what it calls gets no more
    known_texts  digests of texts that its caller knows, by item
    depth     generations above it
    asked_model  what a caller named instead of the directive's model; its children are asked it too
    notes     what its caller does not get, and why: a line for each limit that is lower than asked
    previous  of a branch: the thread that it goes on from (``previous_thread_id``), the ``turn``
              up to which, the ``events`` of that thread so far, and a ``text`` of a person
    """

    item: str
    integrity: str
    inputs: Mapping[str, Any]
    project: str | None
    models: tuple[Mapping[str, Any], ...]
    system: str
    question: str
    limits: Limits
    offers: tuple[ToolOffer, ...] = ()
    items: Mapping[str, str] = field(default_factory=dict)
    outputs: Mapping[str, bool] = field(default_factory=dict)
    grants: tuple[tuple[str, ...], ...] = ()
    ceilings: Mapping[str, int] = field(default_factory=dict)
    callers: tuple[Mapping[str, Any], ...] = ()
    known_texts: Mapping[str, str] = field(default_factory=dict)
    parent: str = ""
    depth: int = 0
    settings: Mapping[str, int] = field(default_factory=dict)
    compact: Mapping[str, Any] = field(default_factory=dict)
    asked_model: str = ""
    notes: tuple[str, ...] = ()
    previous: Mapping[str, Any] = field(default_factory=dict)

    def described(self) -> dict[str, Any]:
        """The same as JSON."""
        return {
            **{name: getattr(self, name) for name in _PLAIN_FACTS},
            "inputs": dict(self.inputs),
            "models": [dict(one) for one in self.models],
            "limits": self.limits.as_dict(),
            "offers": [
                {"name": one.name, "description": one.description, "schema": dict(one.schema)}
                for one in self.offers
            ],
            "grants": [list(one) for one in self.grants],
            "callers": [dict(one) for one in self.callers],
            **{name: dict(getattr(self, name)) for name in _TABLES},
            **({"asked_model": self.asked_model} if self.asked_model else {}),
            **({"notes": list(self.notes)} if self.notes else {}),
            **({"previous": dict(self.previous)} if self.previous else {}),
        }


_PLAIN_FACTS = ("item", "integrity", "project", "system", "question", "parent", "depth")
_TABLES = ("items", "outputs", "ceilings", "known_texts", "settings", "compact")


def start_of(said: Mapping[str, Any]) -> Start:
    """The start in a ``thread`` event."""
    return Start(
        **{name: said[name] for name in (*_PLAIN_FACTS, *_TABLES, "inputs")},
        models=tuple(said["models"]),
        limits=Limits(**said["limits"]),
        offers=tuple(ToolOffer(**one) for one in said["offers"]),
        grants=tuple(map(tuple, said["grants"])),
        callers=tuple(said["callers"]),
        asked_model=said.get("asked_model") or "",
        notes=tuple(said.get("notes") or ()),
        previous=said.get("previous") or {},
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """The end of a thread. ``code`` and ``error`` say why it did not complete.

    ``wait_s``: how long its provider wants to be left alone, where the thread has less time.
    """

    state: str
    code: str = ""
    error: str = ""
    text: str = ""
    wait_s: int = 0
    outputs: Mapping[str, Any] = field(default_factory=dict)

    def described(self) -> dict[str, Any]:
        """The same as JSON, without what is empty."""
        names = ("state", "code", "error", "text", "wait_s")
        named = {name: getattr(self, name) for name in names}
        given = {name: value for name, value in named.items() if value}
        return {**given, "outputs": dict(self.outputs)} if self.outputs else given


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentThread:
    """A thread after some events of its journal.

    history       what was said so far, as the next request has it
    asked         the reservation of a request whose outcome is not known yet
    intent        what the journal says of that request: its digest, its turn, its receipt
    due           calls of the last answer that have no result, in order
    called        the ids of those that began
    results       the results of the last answer's other calls
    usage         what the provider reported for the last answer; None before the first one
    new_entries   how many entries are new since then
    model         which of the models is asked
    calls         of the model so far; ``corrections`` of its answers by Rye
    shortenings   since the last answer: how often the history was made shorter
    cuts          since the last answer: how many requests were charged without one
    """

    start: Start
    purse: Purse
    history: tuple[Entry, ...] = ()
    asked: Reservation | None = None
    intent: Mapping[str, Any] = field(default_factory=dict)
    due: tuple[ToolCall, ...] = ()
    called: frozenset[str] = frozenset()
    results: tuple[ToolResult, ...] = ()
    children: Mapping[str, Child] = field(default_factory=dict)
    usage: Usage | None = None
    new_entries: int = 0
    model: int = 0
    calls: int = 0
    corrections: int = 0
    shortenings: int = 0
    cuts: int = 0
    ended: Ended | None = None

    @property
    def frozen(self) -> Mapping[str, Any]:
        """The provider and the model that are asked."""
        return self.start.models[self.model]

    @property
    def ledger_entry(self) -> str:
        """The name of that reservation in the ledger of the day."""
        return str(self.intent.get("ledger", ""))

    @property
    def last_answer(self) -> Answer | None:
        """The last entry, if it is an answer."""
        last = self.history[-1] if self.history else None
        return last if isinstance(last, Answer) else None
