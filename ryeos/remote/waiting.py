"""Waiting for a run on a node: it is asked again and again, less often the longer it takes."""

import time
from collections.abc import Callable
from typing import Any

from lillux.http.client import Wait, wait_for
from lillux.http.model import ExchangeCancelledError
from lillux.process.cancellation import Cancellation
from ryeos.remote.errors import StillRunningError
from ryeos.remote.node import Node

RUN_COMPLETED = "completed"
_RUNNING = "running"
_FIRST_PAUSE_S, _LONGEST_PAUSE_S, _GROWTH = 0.2, 15.0, 1.5


def wait_for_run(
    node: Node,
    thread_id: str,
    timeout_s: float | None,
    cancellation: Cancellation | None = None,
    *,
    now: Callable[[], float] = time.monotonic,
    wait: Wait = wait_for,
) -> dict[str, Any]:
    """The row of a run once it has ended, well or not; ``timeout_s`` of None waits for ever.

    Raises StillRunningError, ExchangeCancelledError, and as `Node.thread`.
    """
    began, pause_s = now(), _FIRST_PAUSE_S
    while True:
        row = node.thread(thread_id)
        if row.get("state") != _RUNNING:
            return row
        left_s = pause_s if timeout_s is None else began + timeout_s - now()
        if timeout_s is not None and left_s <= 0:
            raise StillRunningError(node.name, thread_id, timeout_s)
        wait(min(pause_s, left_s), cancellation)
        if cancellation is not None and cancellation.is_set:
            raise ExchangeCancelledError(f"remote {node.name}: {thread_id}")
        pause_s = min(pause_s * _GROWTH, _LONGEST_PAUSE_S)
