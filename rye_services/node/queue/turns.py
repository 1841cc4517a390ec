"""The queue of executions: fair turns by user, priorities, a bound. Why: ADR 0024.

`ExecutionQueue` is the door, with two implementations that pass the same tests: `LocalQueue` here,
in the memory of a node that is one process, and `rye_services.node.queue.cluster`, in PostgreSQL
for many machines. A queue says whose turn it is. What an execution is, who has it and how it ended
stands in its row (`rye_services.node.queue.rows`), which outlives every process.
"""

import asyncio
from collections import Counter, deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from concurrent.futures import TimeoutError as NoTurnError
from contextlib import AbstractContextManager, contextmanager, suppress
from contextvars import copy_context
from functools import partial
from threading import Lock, Thread
from typing import Protocol

from sqlalchemy import Connection

from lillux.values import dataclass
from rye_services.web.http import RequestProblem

RETRY_AFTER_S = 5
LATER, AWAITED = 0, 1
"""Priorities: an execution that is accepted for later, and one whose caller waits for the answer.
Of one user's executions the higher priority goes first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuedRun:
    """An execution that waits, by the id of its thread."""

    thread_id: str
    user_id: str
    priority: int = LATER


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueState:
    """How full a queue is: executions that run and wait, and how many of each there may be."""

    active: int
    places: int
    waiting: int
    longest: int


Defer = Callable[[Connection], None]
"""Adds an execution to the queue as a part of the caller's transaction."""


class ExecutionQueue(Protocol):
    """Where executions wait for a place. Thread-safe.

    1. An execution waits from the commit of the transaction that writes its row, or not at all.
    2. It is handed over once, to one process, when a place is free.
    3. Users take turns; of one user the higher priority goes first, then who waits longest.
    4. One that is withdrawn is not handed over any more.
    5. A queue that is full refuses; what was let in once is let in again.
    6. After `close` this process is handed nothing more; what waits keeps waiting.
    """

    @property
    def state(self) -> QueueState:
        """How full it is, as far as it is known without asking the database."""
        ...

    def deferring(self, run: QueuedRun) -> AbstractContextManager[Defer]:
        """A block that writes the row of an execution, and calls what it is given in there.

        The execution waits when the block has ended, and does not where the block raises.
        Raises RequestProblem, 503: the queue is full, the user has half of it, or it is closed.
        """
        ...

    def wait_again(self, run: QueuedRun) -> None:
        """Add an execution whose row waits, however long the queue is."""
        ...

    def place_of(self, thread_id: str) -> int:
        """How many executions come before it and it, at most; 0 for one that does not wait."""
        ...

    def withdraw(self, thread_id: str) -> None:
        """Take an execution out of the queue."""
        ...

    def work(self, carry_out: Callable[[str], None]) -> None:
        """Hand executions over to a function, by the id of the thread, from now on.

        It is called in a thread of its own, and the place is free again when it returns.
        """
        ...

    def close(self) -> None:
        """Hand nothing over any more."""
        ...


# --- places ---------------------------------------------------------------------------------------
# A place that is free goes to the user who has the fewest, and of those to the one who was served
# least recently. Where there are several places, one user cannot have all of them. The queue is
# bounded, and one user can have half of it.


class Turn:
    """The place of a request in the queue, until they get one to execute on.

    ``place`` has a result when that is so, and an exception when the queue was closed.
    """

    def __init__(self, user_id: str, priority: int = LATER) -> None:
        self.user_id, self.priority = user_id, priority
        self.place: Future[None] = Future()
        self.is_left = False

    def wait(self, timeout_s: float) -> bool:
        """Whether it has come. Raises RequestProblem where the queue was closed."""
        with suppress(NoTurnError):
            self.place.result(timeout_s)
            return True
        return False

    async def come(self, timeout_s: float) -> bool:
        """As `wait`, for a caller that must not block."""
        waiting = asyncio.wrap_future(self.place)
        await asyncio.wait({waiting}, timeout=timeout_s)
        if waiting.done():
            waiting.result()
            return True
        return False


class Queue:
    """The places of a server, and who waits for one. Thread-safe."""

    def __init__(self, places: int, longest: int) -> None:
        self.places, self.longest = places, longest
        self._of_one = max(1, places - 1)
        self._taken: Counter[str] = Counter()
        self._waiting: dict[str, deque[Turn]] = {}
        self._served: dict[str, int] = {}
        self._turns, self._is_closed = 0, False
        self._lock = Lock()

    @property
    def active(self) -> int:
        """How many places are taken."""
        with self._lock:
            return self._taken.total()

    @property
    def waiting(self) -> int:
        """How many wait for one."""
        with self._lock:
            return self._length()

    def enter(self, user_id: str, *, priority: int = LATER, is_known: bool = False) -> Turn:
        """A turn of a user, which may have come already; its place is to be given back.

        ``is_known``: it was let in once, and is so however long the queue is.
        Raises RequestProblem, 503: the queue is full, the user has half of it, or it is closed.
        """
        turn = Turn(user_id, priority)
        with self._lock:
            if self._is_closed:
                raise _ending()
            turns = self._waiting.setdefault(user_id, deque())
            later = (number for number, one in enumerate(turns) if one.priority < priority)
            turns.insert(next(later, len(turns)), turn)
            self._serve()
            if not turn.place.done() and not is_known:
                problem = self._why_full(user_id)
                if problem:
                    self._forget(turn)
                    raise full(problem)
        return turn

    def place_of(self, turn: Turn) -> int:
        """How many turns come before it and it, at most; 0 for one that has come."""
        with self._lock:
            own = self._waiting.get(turn.user_id, ())
            if turn not in own:
                return 0
            mine = list(own).index(turn) + 1
            # The users take turns: of each other one as many come before it as of its own.
            return mine + sum(
                min(len(turns), mine)
                for user, turns in self._waiting.items()
                if user != turn.user_id
            )

    def leave(self, turn: Turn) -> None:
        """Give back a place, or wait for it no longer. Once: a second time changes nothing."""
        with self._lock:
            if turn.is_left:
                return
            turn.is_left = True
            if not self._forget(turn) and turn.place.exception() is None:
                self._taken[turn.user_id] -= 1
                if not self._taken[turn.user_id]:
                    del self._taken[turn.user_id]
            self._serve()

    def close(self) -> None:
        """Refuse requests from now on, and those that wait."""
        with self._lock:
            self._is_closed = True
            left = [turn for turns in self._waiting.values() for turn in turns]
            self._waiting.clear()
        for turn in left:
            turn.place.set_exception(_ending())

    def _serve(self) -> None:
        """Give every free place to the next turn."""
        while self._taken.total() < self.places:
            users = [user for user in self._waiting if self._taken[user] < self._of_one]
            if not users:
                return
            user = min(users, key=lambda one: (self._taken[one], self._served.get(one, 0)))
            turn = self._waiting[user][0]
            self._forget(turn)
            self._taken[user] += 1
            self._turns += 1
            self._served[user] = self._turns
            turn.place.set_result(None)
        if len(self._served) > self.longest:  # users without turns are forgotten
            known = self._taken.keys() | self._waiting.keys()
            self._served = {user: last for user, last in self._served.items() if user in known}

    def _forget(self, turn: Turn) -> bool:
        turns = self._waiting.get(turn.user_id)
        if not turns or turn not in turns:
            return False
        turns.remove(turn)
        if not turns:
            del self._waiting[turn.user_id]
        return True

    def _length(self) -> int:
        return sum(map(len, self._waiting.values()))

    def _why_full(self, user_id: str) -> str:
        length, mine = self._length(), len(self._waiting[user_id])
        if length > self.longest:
            return f"all {self.places} places for executions are taken, and {self.longest} wait"
        return why_too_many(user_id, mine, self.longest)


def why_too_many(user_id: str, mine: int, longest: int) -> str:
    """Why a user may have no more in a queue, ``mine`` with the new one; ``""`` for none. Pure."""
    most = max(1, longest // 2)
    if longest and mine > most:
        return f"{most} executions of user {user_id} wait, which is all that one user can have"
    return ""


def full(problem: str) -> RequestProblem:
    """The refusal of a queue that takes no more."""
    return RequestProblem(503, problem, {"Retry-After": str(RETRY_AFTER_S)})


def _ending() -> RequestProblem:
    return full("this node is ending")


# --- the queue of one process ---------------------------------------------------------------------


class LocalQueue:
    """Executions that wait in this process for one of its places. See `ExecutionQueue`.

    Nothing is stored: the rows of a server that has ended are put back by the next one.
    """

    def __init__(self, places: Queue) -> None:
        self.places = places
        self._turns: dict[str, Turn] = {}
        self._lock = Lock()
        self._carry_out: Callable[[str], None] | None = None

    @property
    def state(self) -> QueueState:
        """How full it is now."""
        places = self.places
        return QueueState(
            active=places.active,
            places=places.places,
            waiting=places.waiting,
            longest=places.longest,
        )

    @contextmanager
    def deferring(self, run: QueuedRun, turn: Turn | None = None) -> Iterator[Defer]:
        """See `ExecutionQueue`; with a ``turn`` that was entered before, the run has that one."""
        taken = turn or self.places.enter(run.user_id, priority=run.priority)
        try:
            yield lambda _: None
        except BaseException:  # the turn is given back, whatever it was
            self.places.leave(taken)
            raise
        self._wait(run.thread_id, taken)

    def wait_again(self, run: QueuedRun) -> None:
        """See `ExecutionQueue`. Nothing for one that waits already."""
        with self._lock:
            if run.thread_id in self._turns:
                return
        turn = self.places.enter(run.user_id, priority=run.priority, is_known=True)
        self._wait(run.thread_id, turn)

    def place_of(self, thread_id: str) -> int:
        """See `ExecutionQueue`."""
        with self._lock:
            turn = self._turns.get(thread_id)
        return 0 if turn is None else self.places.place_of(turn)

    def withdraw(self, thread_id: str) -> None:
        """See `ExecutionQueue`."""
        with self._lock:
            turn = self._turns.get(thread_id)
            if turn is None or turn.place.done():  # one that was handed over gives it back itself
                return
            del self._turns[thread_id]
        self.places.leave(turn)

    def work(self, carry_out: Callable[[str], None]) -> None:
        """See `ExecutionQueue`."""
        self._carry_out = carry_out

    def close(self) -> None:
        """See `ExecutionQueue`."""
        self.places.close()

    def _wait(self, thread_id: str, turn: Turn) -> None:
        with self._lock:
            self._turns[thread_id] = turn
        # With the context of the request that asks for it: the log names that request.
        context = copy_context()

        def come(place: "Future[None]") -> None:
            if place.exception() is not None:  # its row stays, for the next server
                return
            run = partial(context.run, self._hand_over, thread_id, turn)
            Thread(target=run, name=thread_id, daemon=True).start()

        turn.place.add_done_callback(come)

    def _hand_over(self, thread_id: str, turn: Turn) -> None:
        try:
            if self._carry_out is not None:
                self._carry_out(thread_id)
        finally:
            with self._lock:
                self._turns.pop(thread_id, None)
            self.places.leave(turn)
