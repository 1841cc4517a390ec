"""Cancels running commands.

A file of its own because the engine and the faces import it before anything that runs a process.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager


class Cancellation:
    """Ends every `run` it was given to, and prevents later ones. Safe from any thread or signal.

    One cancellation may be given to any number of runs; it stays set for ever.
    """

    def __init__(self) -> None:
        from threading import RLock

        # Reentrant: a signal handler may cancel while its own thread holds the lock.
        self._lock = RLock()
        self._wakers: list[Callable[[], None]] = []
        self._is_set = False

    @property
    def is_set(self) -> bool:
        """True if `cancel` was called."""
        return self._is_set

    def cancel(self) -> None:
        """Ask for the end; returns at once, the runs end in their own threads."""
        self._is_set = True
        with self._lock:
            wakers = tuple(self._wakers)
        for wake in wakers:
            wake()

    @contextmanager
    def waking(self, wake: Callable[[], None]) -> Iterator[None]:
        """Inside the block ``wake`` is called, in the cancelling thread, when `cancel` is.

        A call under way when the block ends may still arrive after it: ``wake`` must allow that.
        """
        with self._lock:
            self._wakers.append(wake)
        # (is_set is written before the list is read: a cancel that missed us is seen by our caller,
        # who looks at is_set inside the block before waiting.)
        try:
            yield
        finally:
            with self._lock:
                self._wakers.remove(wake)
