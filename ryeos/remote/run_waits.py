"""Waits for a run on a node, which is asked less often the longer it takes."""

import time
from collections.abc import Iterator
from typing import Any

from lillux.cancellation import Cancellation
from lillux.http.client import wait_for
from lillux.http.errors import ExchangeCancelledError
from ryeos.items.errors import RyeError
from ryeos.remote.node import Node

RUN_COMPLETED, CANCELLED = "completed", "cancelled"
_RUNNING = "running"
_FIRST_PAUSE_S, _LONGEST_PAUSE_S, _GROWTH = 0.2, 15.0, 1.5
_LONGEST_LOG_PAUSE_S = 2.0


def wait_for_run(
    node: Node,
    thread_id: str,
    timeout_s: float | None,
    cancellation: Cancellation | None = None,
) -> dict[str, Any]:
    """The row of a run once it has ended, well or not; ``timeout_s`` of None waits for ever.

    Raises RyeError `TIMEOUT`, ExchangeCancelledError, and as `Node.thread`.
    """
    began, pause_s = time.monotonic(), _FIRST_PAUSE_S
    while True:
        row = node.thread(thread_id)
        if row.get("state") != _RUNNING:
            return row
        left_s = pause_s if timeout_s is None else began + timeout_s - time.monotonic()
        if timeout_s is not None and left_s <= 0:
            raise RyeError(
                f"remote {node.name}: {thread_id} is still running after {timeout_s:g} s; it goes"
                " on there",
                code="TIMEOUT",
            )
        wait_for(min(pause_s, left_s), cancellation)
        if cancellation is not None and cancellation.is_set:
            raise ExchangeCancelledError(f"remote {node.name}: {thread_id}")
        pause_s = min(pause_s * _GROWTH, _LONGEST_PAUSE_S)


def follow_log(
    node: Node,
    thread_id: str,
    *,
    goes_on: bool,
    after: int = 0,
    until_s: float | None = None,
    cancellation: Cancellation | None = None,
) -> Iterator[dict[str, Any]]:
    """The pieces of a run's log behind one: those that there are, or with ``goes_on`` to its end.

    ``until_s``, of the monotonic clock, is when that is given up. Raises RyeError `TIMEOUT`,
    ExchangeCancelledError, and as `Node.thread`.
    """
    pause_s = _FIRST_PAUSE_S
    while True:
        found = node.log_of(thread_id, after)
        pieces = [one for one in found.get("pieces") or () if isinstance(one, dict)]
        yield from pieces
        after = max([after, *(int(one["number"]) for one in pieces if "number" in one)])
        if not pieces and (not goes_on or found.get("state") != _RUNNING):
            return
        if pieces:
            pause_s = _FIRST_PAUSE_S
            continue
        left_s = pause_s if until_s is None else until_s - time.monotonic()
        if left_s <= 0:
            raise RyeError(
                f"remote {node.name}: no result in time; {thread_id} continues there",
                code="TIMEOUT",
                hint=f"wait for it with: rye remote thread {thread_id} --wait --remote {node.name}",
            )
        wait_for(min(pause_s, left_s), cancellation)
        if cancellation is not None and cancellation.is_set:
            raise ExchangeCancelledError(f"remote {node.name}: {thread_id}")
        pause_s = min(pause_s * _GROWTH, _LONGEST_LOG_PAUSE_S)
