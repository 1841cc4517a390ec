"""Ending a thread: its runner is asked to, and ends the tool first; then it is made to."""

from contextlib import suppress

from lillux.errors import LilluxError
from lillux.values import dataclass
from ryeos.threads.documents import write_document
from ryeos.threads.errors import UnknownRunnerError
from ryeos.threads.leftovers import end_leftovers
from ryeos.threads.model import Status, Thread
from ryeos.threads.registry import Registry
from ryeos.threads.seal import RunnerSeals
from ryeos.threads.watching import refreshed

GRACE_S = 5.0
"""More than a runner needs to end a tool that does not want to: two seconds, and a third."""

_LEFT_SOME = (Status.ERROR, Status.KILLED)


@dataclass(frozen=True, slots=True)
class Ended:
    """What became of a thread that was to be ended.

    by_this    this call ended it
    leftovers  processes of it that were still there without their runner, and are ended now
    """

    thread: Thread
    by_this: bool
    leftovers: int = 0


def kill_thread(registry: Registry, thread_id: str, seals: RunnerSeals, *, grace_s: float) -> Ended:
    """The thread, ended: `killed` by this call, or whatever it had become before.

    Only a process that this user's own seal names is sent a signal, and what it left behind.
    Raises ThreadNotFoundError, UnknownRunnerError, EndingRefusedError.
    """
    thread = refreshed(registry, registry.get(thread_id))
    if thread.has_ended:
        return Ended(thread, by_this=False, leftovers=_end_rest(registry, thread, seals))
    if thread.status == Status.CREATED and thread.pid is None:
        # Its runner finds the thread ended, and starts nothing.
        if registry.finish(thread_id, Status.KILLED, error="killed before it began"):
            return Ended(_told(registry, thread_id), by_this=True)
        thread = registry.get(thread_id)
    from lillux.background import end_process

    runner = seals.runner(registry.place, thread_id)
    method = end_process(runner.pid, grace_s=grace_s, token=runner.start_token, tree=True)
    # Also where the runner has ended the tool: what moved to a session of its own is left.
    leftovers = end_leftovers(thread_id)
    if method == "already_dead":
        ended = refreshed(registry, registry.get(thread_id))
        return Ended(ended, by_this=False, leftovers=leftovers)
    registry.finish(thread_id, Status.KILLED, error="killed")
    ended = _told(registry, thread_id)
    return Ended(ended, by_this=ended.status == Status.KILLED, leftovers=leftovers)


def _end_rest(registry: Registry, thread: Thread, seals: RunnerSeals) -> int:
    """Of a thread whose runner died; only where a runner of this user's has ever been."""
    if thread.status in _LEFT_SOME:
        with suppress(UnknownRunnerError):
            seals.runner(registry.place, thread.thread_id)
            return end_leftovers(thread.thread_id)
    return 0


def _told(registry: Registry, thread_id: str) -> Thread:
    with suppress(LilluxError):  # the folder may be gone, or be none of ours
        write_document(registry, thread_id)
    return registry.get(thread_id)
