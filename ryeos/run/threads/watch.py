"""The watch over threads: runners that died without a word, and waiting for an end."""

import time
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime, timedelta

from lillux.errors import LilluxError
from lillux.values import replace
from ryeos.items.context import Clock, utc_now
from ryeos.items.errors import RyeError
from ryeos.run.threads.registry import ThreadRegistry, write_document
from ryeos.run.threads.thread import Status, Thread

DIED = "the runner ended without a result"
NEVER_STARTED = "the runner was never started"
_POLL_S = 0.5
# A starter needs milliseconds from the one to the other.
_STARTING = timedelta(seconds=60)


def refreshed(registry: ThreadRegistry, thread: Thread, *, clock: Clock = utc_now) -> Thread:
    """The thread as it is; failed where its runner died, which is written to the registry too.

    The registry decides which end of a thread is final: a result that was written while we
    looked is what counts.
    """
    reason = _reason_of_death(thread, clock)
    if not reason:
        return thread
    found = replace(thread, status=Status.ERROR, error=reason)
    if not registry.is_writable():
        return found
    if registry.finish(thread.thread_id, Status.ERROR, error=reason):
        with suppress(LilluxError):  # the folder may be gone, or not be ours
            write_document(registry, thread.thread_id)
    return registry.get(thread.thread_id)


def _reason_of_death(thread: Thread, clock: Clock) -> str:
    if thread.status == Status.RUNNING and thread.pid is not None:
        from lillux.process.states import is_alive

        return "" if is_alive(thread.pid, thread.start_token or "") else DIED
    if thread.status == Status.CREATED and thread.pid is None and thread.item_id:
        return NEVER_STARTED if _is_older(thread.created_at, clock) else ""
    return ""


def _is_older(created_at: str | None, clock: Clock) -> bool:
    try:
        return clock() - datetime.fromisoformat(created_at or "") > _STARTING
    except (ValueError, TypeError, OverflowError):  # no date, or one without an offset
        return False


def wait_for(
    registry: ThreadRegistry,
    thread_id: str,
    timeout_s: float | None,
    *,
    now: Callable[[], float] = time.monotonic,
) -> Thread:
    """The thread once it has ended, or the one that carried on with its work; else as it is.

    ``timeout_s`` of None waits for ever. Raises ThreadNotFoundError, RyeError `REGISTRY_INVALID`.
    """
    from lillux.watch import await_status

    deadline = None if timeout_s is None else now() + timeout_s
    followed = [thread_id]
    while True:
        thread = refreshed(registry, registry.get(followed[-1]))
        if thread.status == Status.CONTINUED and thread.continuation_thread_id:
            if thread.continuation_thread_id in followed:
                raise RyeError(
                    "threads continue each other in a circle:"
                    f" {' -> '.join([*followed, thread.continuation_thread_id])}",
                    code="REGISTRY_INVALID",
                )
            followed.append(thread.continuation_thread_id)
            continue
        left_s = _POLL_S if deadline is None else min(_POLL_S, deadline - now())
        if thread.has_ended or left_s <= 0:
            return thread
        # No longer than that: a runner that dies writes nothing to the registry.
        await_status(registry.place.registry, followed[-1], left_s)
