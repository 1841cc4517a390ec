"""Threads that carry out calls: each takes one call at a time, in the order of arrival.

A file of its own because the first answer of a server must not wait for the import of threads.
"""

from collections import deque
from collections.abc import Callable
from threading import Condition, Lock, Thread

Work = Callable[[], None]


class WorkerPool:
    """Does what it is given, at most so many things at once; what comes then waits its turn.

    A thread is started when there is work and all others are busy.
    """

    def __init__(self, name: str, max_threads: int) -> None:
        self._name, self._max_threads = name, max_threads
        self._waiting: deque[Work] = deque()
        self._news = Condition(Lock())
        self._threads = self._free = self._unfinished = 0

    @property
    def is_idle(self) -> bool:
        """Whether all that it was given is done."""
        return not self._unfinished

    def put(self, work: Work) -> None:
        """Have it done. ``work`` raises nothing."""
        with self._news:
            self._waiting.append(work)
            self._unfinished += 1
            if self._free < len(self._waiting) and self._threads < self._max_threads:
                self._threads += 1
                Thread(target=self._serve, name=f"rye-{self._name}", daemon=True).start()
            else:
                self._news.notify()

    def _serve(self) -> None:
        while True:
            with self._news:
                self._free += 1
                while not self._waiting:
                    self._news.wait()
                self._free -= 1
                work = self._waiting.popleft()
            work()
            with self._news:
                self._unfinished -= 1
