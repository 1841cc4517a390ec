"""How many executions run, and that no more are let in than there is room for."""

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

from rye_services.problems import Problem

_RETRY_AFTER_S = 5


class Capacity:
    """Places for executions. Thread-safe."""

    def __init__(self, places: int) -> None:
        self.places = places
        self._taken = 0
        self._lock = Lock()

    @property
    def active(self) -> int:
        """How many places are taken."""
        return self._taken

    @contextmanager
    def place(self) -> Iterator[None]:
        """Hold a place, whatever happens meanwhile. Raises Problem, 503, when there is none."""
        self.take()
        try:
            yield
        finally:
            self.give_back()

    def take(self) -> None:
        """Take a place, to be given back by whoever ends it. Raises Problem, 503."""
        with self._lock:
            if self._taken >= self.places:
                raise Problem(
                    503,
                    f"all {self.places} places for executions are taken",
                    {"Retry-After": str(_RETRY_AFTER_S)},
                )
            self._taken += 1

    def give_back(self) -> None:
        """Give one place back."""
        with self._lock:
            self._taken -= 1
