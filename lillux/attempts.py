"""Attempts of a confined process, for those who report it.

A file of its own: what starts programs speaks of it, and must not import the supervisor for that.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Lock

from lillux.values import dataclass, replace

MAX_ATTEMPTS = 100_000
MAX_REFUSED = 100
UNHEARD = "unheard"
"""Says that nothing is reported: no supervisor could be had, as another one hears the process."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """An access of a confined process.

    what         ``read``, ``write``, ``run``, ``connect`` or ``bind``; ``metadata`` for mode,
                 owner, times and attributes, ``process`` for another process, ``socket`` for a
                 socket that leads to no address
    was_refused  of what is only watched it is not known: that is for the rules to say
    is_shared    several runs were under way where it was heard: it may be another one's
    """

    what: str
    target: str
    was_refused: bool = False
    is_shared: bool = False


OnAttempt = Callable[[Attempt], None]


class Attempts:
    """The attempts of one run, each once and so many at most. Thread-safe.

    ``refused_count`` counts each refusal, however often it was the same; ``is_complete`` says
    whether all distinct attempts are there.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._found: dict[Attempt, None] = {}
        self._refused = 0
        self.refused_count = 0
        self.is_complete = True

    def append(self, attempt: Attempt) -> None:
        """Note an attempt."""
        with self._lock:
            self.refused_count += attempt.was_refused
            if attempt in self._found:
                return
            if attempt.was_refused and self._refused == MAX_REFUSED:
                return
            if len(self._found) >= MAX_ATTEMPTS:
                self.is_complete = False
                return
            self._refused += attempt.was_refused
            self._found[attempt] = None

    def __iter__(self) -> Iterator[Attempt]:
        """All of them, in the order of their first time."""
        with self._lock:
            return iter(tuple(self._found))


class Hearers:
    """Passes the attempts of a process that serves several runs to those that are under way."""

    def __init__(self) -> None:
        self._hearers: list[OnAttempt] = []
        self._unheard: Attempt | None = None

    @contextmanager
    def heard_by(self, on_attempt: OnAttempt) -> Iterator[None]:
        """Within the block, ``on_attempt`` hears all that is tried."""
        self._hearers.append(on_attempt)
        if self._unheard:
            on_attempt(self._unheard)
        try:
            yield
        finally:
            self._hearers.remove(on_attempt)

    def __call__(self, attempt: Attempt) -> None:
        """Pass an attempt on."""
        if attempt.what == UNHEARD:
            self._unheard = attempt
        hearers = tuple(self._hearers)
        if len(hearers) > 1:
            attempt = replace(attempt, is_shared=True)
        for one in hearers:
            one(attempt)
