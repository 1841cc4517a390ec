"""What has become of threads: runners that died without a word, and waiting for an end."""

import time
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime, timedelta

from lillux.errors import LilluxError
from lillux.values import replace
from ryeos.moments import Clock, utc_now
from ryeos.threads.documents import write_document
from ryeos.threads.errors import ThreadLoopError
from ryeos.threads.model import Status, Thread
from ryeos.threads.registry import Registry

DIED = "the runner ended without a result"
NEVER_STARTED = "the runner was never started"
_LOOK_S = 0.5
# A starter needs milliseconds from the one to the other.
_STARTING = timedelta(seconds=60)


def refreshed(registry: Registry, thread: Thread, *, clock: Clock = utc_now) -> Thread:
    """The thread as it is, told as failed where its runner died; the registry is told too.

    Whoever ends a thread for good is decided by the registry: a result that was written while we
    looked is what counts.
    """
    reason = _reason_of_death(thread, clock)
    if not reason:
        return thread
    found = replace(thread, status=Status.ERROR, error=reason)
    if not registry.is_writable():
        return found
    if registry.finish(thread.thread_id, Status.ERROR, error=reason):
        with suppress(LilluxError):  # the folder may be gone, or be none of ours
            write_document(registry, thread.thread_id)
    return replace(registry.get(thread.thread_id), result=thread.result)


def _reason_of_death(thread: Thread, clock: Clock) -> str:
    if thread.status == Status.RUNNING and thread.pid is not None:
        from lillux.background import is_alive

        return "" if is_alive(thread.pid, thread.start_token or "") else DIED
    if thread.status == Status.CREATED and thread.pid is None and thread.item_id:
        return NEVER_STARTED if _is_older(thread.created_at, clock) else ""
    return ""


def _is_older(moment: str | None, clock: Clock) -> bool:
    try:
        return clock() - datetime.fromisoformat(moment or "") > _STARTING
    except (ValueError, TypeError, OverflowError):  # no date, or one without an offset
        return False


def wait_for(
    registry: Registry,
    thread_id: str,
    timeout_s: float | None,
    *,
    now: Callable[[], float] = time.monotonic,
) -> Thread:
    """The thread once it has ended, or the one that carried on with its work; else as it is.

    ``timeout_s`` of None waits for ever. Raises ThreadNotFoundError, ThreadLoopError.
    """
    from lillux.watch import await_status

    deadline = None if timeout_s is None else now() + timeout_s
    followed = [thread_id]
    while True:
        thread = refreshed(registry, registry.get(followed[-1]))
        if thread.status == Status.CONTINUED and thread.continuation_thread_id:
            if thread.continuation_thread_id in followed:
                raise ThreadLoopError([*followed, thread.continuation_thread_id])
            followed.append(thread.continuation_thread_id)
            continue
        left_s = _LOOK_S if deadline is None else min(_LOOK_S, deadline - now())
        if thread.has_ended or left_s <= 0:
            return thread
        # No longer than that: nobody writes to the registry when a runner dies.
        await_status(registry.place.registry, followed[-1], left_s)
