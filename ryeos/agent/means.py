"""The means of a thread: models, tools, ledger and receipts."""

from collections.abc import Callable, Mapping
from random import random
from typing import Any, Protocol

from lillux.cancellation import Cancellation
from lillux.values import dataclass, field
from ryeos.agent.exchange import Unanswered
from ryeos.agent.messages import Answer, Piece, Request, ToolCall, ToolResult
from ryeos.agent.thread_state import AgentThread


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """A call of a tool that may run. ``run`` makes it; ``item`` is what it calls, for the journal.

    only_reads     it changes nothing, or starts a child: it may run beside others
    is_repeatable  its item says ``retryable: true``: an interrupted call is made again
    outputs        the declared outputs that it gives, for `directive_return`; None for any other
    """

    call: ToolCall
    item: str
    run: Callable[[Cancellation], ToolResult]
    only_reads: bool = False
    is_repeatable: bool = False
    outputs: Mapping[str, Any] | None = None


class Tools(Protocol):
    """Decides calls of tools."""

    def decide(self, call: ToolCall, thread: AgentThread) -> "Planned | ToolResult":
        """The meaning of a call; an error result for the model where it means nothing allowed."""


class Model(Protocol):
    """Asks models."""

    def body(self, frozen: Mapping[str, Any], request: Request) -> bytes:
        """The bytes of a request."""

    def ask(
        self,
        frozen: Mapping[str, Any],
        body: bytes,
        *,
        left_s: float,
        follow: Callable[[Piece], None],
        cancellation: Cancellation,
    ) -> Answer | Unanswered:
        """Send them once. Raises RyeError for a credential that cannot be had."""

    def tries(self, frozen: Mapping[str, Any]) -> int:
        """The most times that a call is sent."""


class DayLedger(Protocol):
    """The most that all threads of a user may spend on one day."""

    def left(self) -> int:
        """Nano-dollars."""

    def reserve(self, amount: int) -> str:
        """Hold back so much; a name. Raises RyeError `LIMIT_DAILY`."""

    def settle(self, name: str, amount: int) -> None:
        """Take it out again, and put in what was spent."""


class CallReceipts(Protocol):
    """Writes a receipt for each call of the model."""

    def begin(self, thread: AgentThread, intent: Mapping[str, Any]) -> str:
        """Reserve it before the call; its name. Raises RyeError: then nothing is sent."""

    def end(self, thread: AgentThread, said: Mapping[str, Any], spent: int) -> None:
        """Write what came of the call, and what it cost in nano-dollars."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Means:
    """The means of a thread.

    now     seconds of a clock that never goes back
    wait    waits so many seconds, or less when cancelled
    follow  hears the answer as it arrives
    tell    hears what happens, as ``(kind, facts)``: what `rye threads logs` prints
    keep    keeps a text, and gives the words that stand for it
    hints   by the code of a limit, what lets a thread have more, where that is not for its caller
    """

    model: Model
    tools: Tools
    ledger: DayLedger
    receipts: CallReceipts
    now: Callable[[], float]
    wait: Callable[[float, Cancellation], None]
    follow: Callable[[Piece], None] = lambda _piece: None
    tell: Callable[[str, Mapping[str, Any]], None] = lambda _kind, _facts: None
    keep: Callable[[str], str] = lambda text: text
    jitter: Callable[[], float] = random
    hints: Mapping[str, str] = field(default_factory=dict)
