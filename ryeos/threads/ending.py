"""Ending a thread: its runner is asked to, and ends the tool first; then it is made to.

A run of a graph may be walked by a process that does more than that, like a server: such a process
gets no signal. It is asked by a file in the thread's folder, which it looks for.
"""

from contextlib import suppress

from lillux.errors import LilluxError
from lillux.files import create_file
from lillux.values import dataclass
from ryeos.threads.documents import write_document
from ryeos.threads.errors import StillRunningError, UnknownRunnerError
from ryeos.threads.grants import is_run_of_this_user
from ryeos.threads.leftovers import end_leftovers
from ryeos.threads.model import Status, Thread
from ryeos.threads.place import CANCEL
from ryeos.threads.registry import Registry
from ryeos.threads.seal import Runner, RunnerSeals
from ryeos.threads.watching import refreshed, wait_for

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
    """The thread, ended: `killed` or `cancelled` by this call, or whatever it had become before.

    Only a process that this user's own seal names is sent a signal, and what it left behind.
    Raises ThreadNotFoundError, UnknownRunnerError, EndingRefusedError, StillRunningError.
    """
    thread = refreshed(registry, registry.get(thread_id))
    if thread.has_ended:
        return Ended(thread, by_this=False, leftovers=end_rest(registry, thread, seals))
    if thread.status == Status.CREATED and thread.pid is None:
        # Its runner finds the thread ended, and starts nothing.
        if registry.finish(thread_id, Status.KILLED, error="killed before it began"):
            return Ended(_told(registry, thread_id), by_this=True)
        thread = registry.get(thread_id)
    runner = _own_runner(registry, thread, seals)
    if runner is None:
        return _ended_by_asking(registry, thread, grace_s)
    from lillux.background import end_process

    method = end_process(runner.pid, grace_s=grace_s, token=runner.start_token, tree=True)
    # Also where the runner has ended the tool: what moved to a session of its own is left.
    leftovers = end_leftovers(thread_id)
    if method == "already_dead":
        ended = refreshed(registry, registry.get(thread_id))
        return Ended(ended, by_this=False, leftovers=leftovers)
    registry.finish(thread_id, Status.KILLED, error="killed")
    ended = _told(registry, thread_id)
    return Ended(ended, by_this=ended.status == Status.KILLED, leftovers=leftovers)


def ask_for_end(registry: Registry, thread_id: str) -> None:
    """Ask the process that walks a run of a graph to end it: it hears of that in half a second."""
    registry.place.make_thread_folder(thread_id)
    with suppress(FileExistsError):
        create_file(registry.place.file(thread_id, CANCEL), b"")


def end_rest(registry: Registry, thread: Thread, seals: RunnerSeals) -> int:
    """End what a dead runner of this user's has left of a thread; how many processes that were."""
    if thread.status not in _LEFT_SOME:
        return 0
    if not is_run_of_this_user(registry.place, seals, thread.thread_id):
        try:
            seals.runner(registry.place, thread.thread_id)
        except UnknownRunnerError:
            return 0
    return end_leftovers(thread.thread_id)


def _own_runner(registry: Registry, thread: Thread, seals: RunnerSeals) -> Runner | None:
    """The process that does nothing but run the thread; None for a run in some other process.

    Raises UnknownRunnerError where neither is known.
    """
    is_run = is_run_of_this_user(registry.place, seals, thread.thread_id)
    try:
        runner = seals.runner(registry.place, thread.thread_id)
    except UnknownRunnerError:
        if is_run:
            return None
        raise
    # A run that was resumed is walked elsewhere than where it began.
    is_elsewhere = (runner.pid, runner.start_token) != (thread.pid, thread.start_token)
    return None if is_run and is_elsewhere else runner


def _ended_by_asking(registry: Registry, thread: Thread, grace_s: float) -> Ended:
    ask_for_end(registry, thread.thread_id)
    ended = wait_for(registry, thread.thread_id, grace_s)
    if not ended.has_ended:
        raise StillRunningError(thread.thread_id, thread.pid, grace_s)
    return Ended(ended, by_this=ended.status == Status.CANCELLED)


def _told(registry: Registry, thread_id: str) -> Thread:
    with suppress(LilluxError):  # the folder may be gone, or be none of ours
        write_document(registry, thread_id)
    return registry.get(thread_id)
