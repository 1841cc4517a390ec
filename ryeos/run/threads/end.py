"""The end of a thread: its runner is asked to, and ends the tool first; then it is made to.

A run of a graph may be walked by a process that does more than that, like a server: such a
process gets no signal. It is asked by a file in the thread's folder, which it looks for.

A runner that gets KILL takes nothing with it: its tool leads a session of its own. On Linux such
processes are known by the variable with the thread's id that they inherited; elsewhere they
cannot be found.
"""

import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from lillux.errors import LilluxError
from lillux.files import create_file
from lillux.values import dataclass
from ryeos.items.errors import RyeError
from ryeos.run.threads.errors import UnknownRunnerError
from ryeos.run.threads.grants import is_run_of_this_user
from ryeos.run.threads.payload import PARENT_VARIABLE
from ryeos.run.threads.place import CANCEL
from ryeos.run.threads.registry import ThreadRegistry, write_document
from ryeos.run.threads.seals import RunnerSeals, ThreadRunner
from ryeos.run.threads.thread import Status, Thread
from ryeos.run.threads.watch import refreshed, wait_for

GRACE_S = 5.0
"""More than a runner needs to end a tool that does not want to: two seconds, and a third."""

_LEFT_SOME = (Status.ERROR, Status.KILLED)


@dataclass(frozen=True, slots=True)
class EndedThread:
    """The outcome for a thread that was to be ended.

    by_this           this call ended it
    orphan_processes  how many processes of it were still there without their runner; now ended
    """

    thread: Thread
    by_this: bool
    orphan_processes: int = 0


def kill_thread(
    registry: ThreadRegistry, thread_id: str, seals: RunnerSeals, *, grace_s: float
) -> EndedThread:
    """The thread, ended: `killed` or `cancelled` by this call, or whatever it had become before.

    Only a process that this user's own seal names is sent a signal, and what it left behind.
    Raises ThreadNotFoundError, UnknownRunnerError, EndingRefusedError, RyeError `TIMEOUT`.
    """
    thread = refreshed(registry, registry.get(thread_id))
    if thread.has_ended:
        return EndedThread(
            thread, by_this=False, orphan_processes=end_rest(registry, thread, seals)
        )
    if thread.status == Status.CREATED and thread.pid is None:
        # Its runner finds the thread ended, and starts nothing.
        if registry.finish(thread_id, Status.KILLED, error="killed before it began"):
            return EndedThread(_recorded(registry, thread_id), by_this=True)
        thread = registry.get(thread_id)
    runner = _own_runner(registry, thread, seals)
    if runner is None:
        return _end_by_request(registry, thread, grace_s)
    from lillux.process.ending import end_process

    method = end_process(runner.pid, grace_s=grace_s, token=runner.start_token, tree=True)
    # Also where the runner has ended the tool: what moved to a session of its own is left.
    orphan_processes = end_orphans(thread_id)
    if method == "already_dead":
        ended = refreshed(registry, registry.get(thread_id))
        return EndedThread(ended, by_this=False, orphan_processes=orphan_processes)
    registry.finish(thread_id, Status.KILLED, error="killed")
    ended = _recorded(registry, thread_id)
    # A runner that had the time to write what it was asked for says `cancelled`.
    by_this = ended.status in {Status.KILLED, Status.CANCELLED}
    return EndedThread(ended, by_this=by_this, orphan_processes=orphan_processes)


def ask_for_end(registry: ThreadRegistry, thread_id: str) -> None:
    """Ask the process that walks a run of a graph to end it: it learns of that in half a second."""
    registry.place.make_thread_folder(thread_id)
    with suppress(FileExistsError):
        create_file(registry.place.file(thread_id, CANCEL), b"", within=registry.place.root)


def end_rest(registry: ThreadRegistry, thread: Thread, seals: RunnerSeals) -> int:
    """End what a dead runner of this user's has left of a thread; how many processes that were."""
    if thread.status not in _LEFT_SOME:
        return 0
    if not is_run_of_this_user(registry.place, seals, thread.thread_id):
        try:
            seals.runner(registry.place, thread.thread_id)
        except UnknownRunnerError:
            return 0
    return end_orphans(thread.thread_id)


def _own_runner(
    registry: ThreadRegistry, thread: Thread, seals: RunnerSeals
) -> ThreadRunner | None:
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


def _end_by_request(registry: ThreadRegistry, thread: Thread, grace_s: float) -> EndedThread:
    ask_for_end(registry, thread.thread_id)
    ended = wait_for(registry, thread.thread_id, grace_s)
    if not ended.has_ended:
        raise RyeError(
            f"{thread.thread_id}: still running {grace_s:g} s after it was asked to end",
            code="TIMEOUT",
            hint=f"process {thread.pid} walks it, and was not touched: it may do more than that; "
            "the run ends as soon as it looks",
        )
    return EndedThread(ended, by_this=ended.status == Status.CANCELLED)


def _recorded(registry: ThreadRegistry, thread_id: str) -> Thread:
    with suppress(LilluxError):  # the folder may be gone, or not be ours
        write_document(registry, thread_id)
    return registry.get(thread_id)


def end_orphans(thread_id: str, *, platform: str = sys.platform) -> int:
    """End what is left of a thread; how many processes were ended. Never raises for one."""
    from lillux.process.ending import end_process
    from lillux.process.states import start_token

    ended = 0
    for pid in _processes_of(thread_id, platform):
        with suppress(LilluxError):
            token = start_token(pid)
            if token and end_process(pid, grace_s=0, token=token) != "already_dead":
                ended += 1
    return ended


def _processes_of(thread_id: str, platform: str) -> Iterator[int]:
    if platform != "linux":
        return
    entry = f"{PARENT_VARIABLE}={thread_id}".encode()
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit() and int(folder.name) != os.getpid():
            try:
                environ = (folder / "environ").read_bytes()
            except OSError:  # another user's, or gone
                continue
            if entry in environ.split(b"\0"):
                yield int(folder.name)
