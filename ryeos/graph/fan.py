"""Several calls side by side: so many threads, each taking the next call that nobody has."""

from collections.abc import Callable, Sequence
from itertools import count
from threading import Lock, Thread
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")


def side_by_side(
    work: Callable[[T], R], items: Sequence[T], most: int, on_done: Callable[[R], None]
) -> list[R]:
    """What ``work`` gives for each item, in their order, at most ``most`` at once.

    ``on_done`` hears of each result as it comes, from one thread at a time. Raises the first
    exception that one of them raised, once all have ended.
    """
    results: dict[int, R] = {}
    problems: list[BaseException] = []
    places, lock = count(), Lock()

    def serve() -> None:
        while not problems:
            with lock:
                place = next(places)
            if place >= len(items):
                return
            try:
                result = work(items[place])
                with lock:
                    results[place] = result
                    on_done(result)
            except BaseException as problem:  # noqa: BLE001 - raised again where it is heard
                problems.append(problem)

    threads = [
        Thread(target=serve, name="rye-graph", daemon=True)
        for _ in range(min(most, len(items)) - 1)
    ]
    for thread in threads:
        thread.start()
    serve()
    for thread in threads:
        thread.join()
    if problems:
        raise problems[0]
    return [results[place] for place in range(len(items))]
