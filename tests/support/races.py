"""Calls that begin at the same time."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import TypeVar

Found = TypeVar("Found")
MANY = 8


def at_once(calls: Sequence[Callable[[], Found]]) -> list[Found]:
    """The results of these calls, in order; an error is raised after all have ended."""
    ready = Barrier(len(calls))

    def begun(call: Callable[[], Found]) -> Found:
        ready.wait()
        return call()

    with ThreadPoolExecutor(len(calls)) as threads:
        return list(threads.map(begun, calls))
