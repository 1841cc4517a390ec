"""Places for executions, and the queue for them: fair turns by user, and a bound.

A place that is free goes to the user who has the fewest, and of those to the one who was served
least recently; of one user to who waits longest. Where there are several places, one user cannot
have all of them. The queue is bounded, and one user can have half of it. Nothing here is written
down: what has to outlive the server has a row (`rye_services.node.rows`).
"""

import asyncio
from collections import Counter, deque
from concurrent.futures import Future
from concurrent.futures import TimeoutError as NoTurnError
from contextlib import suppress
from threading import Lock

from rye_services.http import RequestProblem

_RETRY_AFTER_S = 5


class Turn:
    """Somebody's place in the queue, until they get one to execute on.

    ``place`` has a result when that is so, and an exception when the queue was closed.
    """

    def __init__(self, user_id: str) -> None:
        self.user_id = user_id
        self.place: Future[None] = Future()

    def wait(self, timeout_s: float) -> bool:
        """Whether it has come. Raises RequestProblem where the queue was closed."""
        with suppress(NoTurnError):
            self.place.result(timeout_s)
            return True
        return False

    async def come(self, timeout_s: float) -> bool:
        """As `wait`, for who must not stand still."""
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

    def enter(self, user_id: str, *, is_known: bool = False) -> Turn:
        """A turn of a user, which may have come already; its place is to be given back.

        ``is_known``: it was let in once, and is so however long the queue is.
        Raises RequestProblem, 503: the queue is full, the user has half of it, or it is closed.
        """
        turn = Turn(user_id)
        with self._lock:
            if self._is_closed:
                raise _ending()
            self._waiting.setdefault(user_id, deque()).append(turn)
            self._serve()
            if not turn.place.done() and not is_known:
                problem = self._why_full(user_id)
                if problem:
                    self._forget(turn)
                    raise RequestProblem(503, problem, {"Retry-After": str(_RETRY_AFTER_S)})
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
        """Give back a place, or wait for it no longer."""
        with self._lock:
            if not self._forget(turn) and turn.place.exception() is None:
                self._taken[turn.user_id] -= 1
                if not self._taken[turn.user_id]:
                    del self._taken[turn.user_id]
            self._serve()

    def close(self) -> None:
        """Let nobody in any more; who waits is told so."""
        with self._lock:
            self._is_closed = True
            left = [turn for turns in self._waiting.values() for turn in turns]
            self._waiting.clear()
        for turn in left:
            turn.place.set_exception(_ending())

    def _serve(self) -> None:
        """Give every free place to whose turn it is."""
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
        if len(self._served) > self.longest:  # of those who are gone nothing is remembered
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
        if self._length() > self.longest:
            return f"all {self.places} places for executions are taken, and {self.longest} wait"
        most, mine = max(1, self.longest // 2), len(self._waiting[user_id])
        if self.longest and mine > most:
            return f"{most} executions of user {user_id} wait, which is all that one user can have"
        return ""


def _ending() -> RequestProblem:
    return RequestProblem(503, "this node is ending", {"Retry-After": str(_RETRY_AFTER_S)})
