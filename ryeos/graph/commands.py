"""Commands of a walk to the runner, and the events it gets back. Values.

A walk is a generator: it gives a command, and gets the reply that the command names.
"""

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from lillux.values import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Act:
    """Make a call; the reply is an `CallResult`.

    node          the node that asks for it, ``hook:EVENT`` for one of a hook
    primary       ``execute``, ``fetch`` or ``sign``
    kind          ``tool`` and the like, None where only the run can tell
    item_id       bare; ``""`` for a search
    index         the number of the element in a foreach
    remote        where to, None for here
    timeout_s     no longer than that, None for the item's own limit
    caches        whether a kept result will do, and this one may be kept
    cache_ttl_s   how long a kept one counts, None for ever
    is_async      start it, and continue with its ids
    forks         a model carries the directive out; such a call is never made again by itself
    """

    node: str
    primary: str
    kind: str | None
    item_id: str
    params: Mapping[str, Any]
    index: int | None = None
    remote: str | None = None
    timeout_s: float | None = None
    caches: bool = False
    cache_ttl_s: float | None = None
    is_async: bool = False
    forks: bool = False

    @property
    def reference(self) -> str:
        """The item as people write it."""
        return f"{self.kind}:{self.item_id}" if self.kind and self.item_id else self.item_id

    def described(self) -> dict[str, Any]:
        """The call as JSON, for receipts and keys of caches."""
        described: dict[str, Any] = {
            "primary": self.primary,
            "item_id": self.reference,
            "params": dict(self.params),
        }
        described |= {"thread": "fork"} if self.forks else {}
        return described | ({"remote": self.remote} if self.remote else {})


@dataclass(frozen=True, slots=True, kw_only=True)
class CallResult:
    """The outcome of a call.

    result        the tool's own values; ``status`` is ``error`` in one that failed
    is_cancelled  the run is to end: nothing of the result counts
    log           the end of what the tool printed beside its result
    """

    result: Mapping[str, Any]
    elapsed_s: float = 0.0
    cache_hit: bool = False
    is_cancelled: bool = False
    log: str = field(default="", repr=False)

    @property
    def has_failed(self) -> bool:
        """True if the result is an error."""
        return self.result.get("status") == "error"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fan:
    """Make several calls, so many at once; the reply is a list of `CallResult` in their order.

    With ``fail_fast`` the first that fails ends the others.
    """

    acts: Sequence[Act]
    max_concurrency: int
    fail_fast: bool = False


@dataclass(frozen=True, slots=True)
class Pause:
    """Wait; the reply is whether the run continues."""

    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Enter:
    """A node is about to be worked on; the reply is whether the run continues."""

    step: int
    node: str
    type: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeDone:
    """A node is done: its result and the state are to be recorded. No reply.

    next_node  where the run continues; the node itself where it has to be worked on once more
    has_failed the node's call failed, whatever was made of that
    calls      every call that was made for it, the last attempt of each
    errors     all that were tolerated by now; it grows while the walk continues
    """

    step: int
    node: str
    type: str
    next_node: str | None
    state: Mapping[str, Any] = field(repr=False)
    result: Any = field(default=None, repr=False)
    error: str | None = None
    calls: Sequence[tuple[Act, CallResult]] = field(default=(), repr=False)
    errors: Sequence[Mapping[str, Any]] = ()


WalkCommand: TypeAlias = Act | Fan | Pause | Enter | NodeDone


@dataclass(frozen=True, slots=True, kw_only=True)
class WalkOutcome:
    """The end of a walk.

    status      ``completed``, ``completed_with_errors``, ``error``, ``cancelled``, ``stepped``
    output      of the return node
    has_output  whether the return node has one
    node        where it failed or was cancelled; of a single step, the node that was worked on
    next_node   where it would continue: None at an end
    code        of what went wrong: ``node_error``, ``max_steps_exceeded``, ``cancelled`` ...
    path        the file that the failed call was about, where it names one; ``hint``: what to do
    terminated  ``dead_end`` where no edge led on
    """

    status: str
    state: Mapping[str, Any] = field(repr=False)
    steps: int
    output: Any = None
    has_output: bool = False
    error: str | None = None
    node: str | None = None
    next_node: str | None = None
    code: str = ""
    path: str = ""
    hint: str = ""
    terminated: str = ""
    errors: Sequence[Mapping[str, Any]] = ()
    warnings: Sequence[str] = ()
