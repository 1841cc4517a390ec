"""How many executions run, and that no more are let in than there is room for."""

from collections import Counter
from threading import Lock

from rye_services.problems import Problem

_RETRY_AFTER_S = 5


class Capacity:
    """Places for executions. Thread-safe.

    One place is kept for the other users, where there are several places.
    """

    def __init__(self, places: int) -> None:
        self.places = places
        self._of_one = max(1, places - 1)
        self._taken: Counter[str] = Counter()
        self._lock = Lock()

    @property
    def active(self) -> int:
        """How many places are taken."""
        with self._lock:
            return self._taken.total()

    def take(self, user_id: str) -> None:
        """Take a place, to be given back by whoever ends it. Raises Problem, 503."""
        with self._lock:
            if self._taken.total() >= self.places:
                raise _refusal(f"all {self.places} places for executions are taken")
            if self._taken[user_id] >= self._of_one:
                words = f"user {user_id} has {self._of_one} of {self.places} places for executions"
                raise _refusal(f"{words}, which is all that one user can have")
            self._taken[user_id] += 1

    def give_back(self, user_id: str) -> None:
        """Give one place of a user back."""
        with self._lock:
            self._taken[user_id] -= 1
            if not self._taken[user_id]:
                del self._taken[user_id]


def _refusal(words: str) -> Problem:
    return Problem(503, words, {"Retry-After": str(_RETRY_AFTER_S)})
