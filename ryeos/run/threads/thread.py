"""A background run as a value: fields, statuses, transitions."""

import json
from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from lillux.values import dataclass
from lillux.watch import TERMINAL_STATUSES


class Status(StrEnum):
    """The status of a thread."""

    CREATED = "created"
    RUNNING = "running"
    COMPLETED = "completed"
    COMPLETED_WITH_ERRORS = "completed_with_errors"
    ERROR = "error"
    CANCELLED = "cancelled"
    CONTINUED = "continued"
    KILLED = "killed"
    RELEASED = "released"


INTERRUPTED = "interrupted"
"""The state of a thread of an agent whose process died: it can be resumed."""
TERMINAL = frozenset(Status(name) for name in TERMINAL_STATUSES)
"""Statuses that nothing follows."""

FOLLOWING: Mapping[Status, frozenset[Status]] = {
    status: frozenset() if status in TERMINAL else TERMINAL for status in Status
} | {Status.CREATED: TERMINAL | {Status.RUNNING}}
"""The statuses that may follow each."""

REOPENABLE = (Status.ERROR, Status.CANCELLED, Status.KILLED)
"""Statuses of a graph's run that can be resumed."""


def leavable(status: Status) -> tuple[Status, ...]:
    """The statuses that a thread may leave for this one: the guard of every update."""
    return tuple(earlier for earlier in Status if status in FOLLOWING[earlier])


@dataclass(frozen=True, slots=True, kw_only=True)
class Thread:
    """One row of the registry, as it was read.

    status       a `Status`, or a word of another program that shares the registry
    directive    the bare id of the item; the name is that of the registry's first users
    result       the envelope of the answer as JSON text; not read for lists
    start_token  tells the runner from a later process with its number
    state        of a thread of an agent, see `ryeos.agent.journal`
    """

    thread_id: str
    directive: str = ""
    parent_id: str | None = None
    status: str = Status.CREATED
    created_at: str | None = None
    updated_at: str | None = None
    completed_at: str | None = None
    result: str | None = None
    turns: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    spend: float = 0.0
    spawn_count: int = 0
    pid: int | None = None
    model: str | None = None
    continuation_of: str | None = None
    continuation_thread_id: str | None = None
    chain_root_id: str | None = None
    tool_id: str | None = None
    item_id: str | None = None
    kind: str | None = None
    target: str | None = None
    thread_mode: str | None = None
    start_token: str | None = None
    error: str | None = None
    state: str | None = None

    @property
    def has_ended(self) -> bool:
        """True if its status will not change any more."""
        return self.status in TERMINAL

    @property
    def shown_state(self) -> str:
        """Its state in one word, the same wherever it is shown.

        Of a thread of an agent that is its state; one whose process died while it ran is
        interrupted. Of any other that is its status.
        """
        if self.state == Status.RUNNING and self.has_ended:
            return INTERRUPTED
        return self.state or self.status

    def is_older(self, than_s: float) -> bool:
        """True if it was changed last before a time in seconds; not where no time is known."""
        from datetime import datetime

        try:
            changed_at = datetime.fromisoformat(self.updated_at or "")
        except ValueError:
            return False
        return changed_at.tzinfo is not None and changed_at.timestamp() < than_s

    def describe(self) -> dict[str, Any]:
        """The thread as answers show it, without its result."""
        named = {name: getattr(self, name) for name in self.__slots__}
        if self.state:
            named["state"] = self.shown_state
        numbers = dict.fromkeys(("turns", "input_tokens", "output_tokens", "spend", "spawn_count"))
        return {
            name: value
            for name, value in named.items()
            if name != "result" and value is not None and not (name in numbers and not value)
        }

    def answer(self) -> Any:  # noqa: ANN401 - JSON passes through
        """The envelope that it ended with; None without one, or when it is no JSON."""
        try:
            return json.loads(self.result) if self.result else None
        except (ValueError, RecursionError):
            return None


def time_text(seconds: float) -> str:
    """A time in seconds as the registry has it: those texts have the order of their times."""
    from datetime import UTC, datetime

    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")


_WHOLE = ("turns", "input_tokens", "output_tokens", "spawn_count")


def thread_of(row: Mapping[str, Any]) -> Thread:
    """The thread of a row, maybe of another program: a value of a wrong type counts as none."""
    values: dict[str, Any] = {}
    for name, value in row.items():
        if name in _WHOLE or name == "pid":
            fits = isinstance(value, int)
        elif name == "spend":
            fits = isinstance(value, int | float)
        else:
            fits = isinstance(value, str)
        if fits:
            values[name] = value
    return Thread(**{"thread_id": "", "status": "", **values})
