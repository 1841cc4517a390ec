"""Starts, lists, watches and stops background runs.

In this order no process runs that the registry does not know. The runner does (3) too, so that a
starter that dies in between leaves nothing unsaid.
"""

import os
import stat
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta
from enum import Enum
from pathlib import Path
from typing import Any

from lillux.errors import FileSystemError, LilluxError
from lillux.files import create_file, file_system_error
from lillux.values import dataclass, replace
from ryeos.items.context import Clock, utc_now
from ryeos.items.errors import RyeError, SpecError, UnsupportedError
from ryeos.items.refs import Kind
from ryeos.run.model import Chain, ExecutionRequest
from ryeos.run.thread_registry import ThreadRegistry, write_document
from ryeos.run.threads import (
    CANCEL,
    FORK,
    INLINE,
    LOCAL,
    LOG,
    PARENT_VARIABLE,
    Payload,
    RunnerSeals,
    Status,
    Thread,
    ThreadRunner,
    ThreadsPlace,
    UnknownRunnerError,
    is_run_of_this_user,
    thread_id_for,
)

# --- starting -------------------------------------------------------------------------------------

RUNNER_COMMAND = "_thread"


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """How this program is started once more.

    argv   its words before the command
    flags  of every command, so that it sees the same spaces
    """

    argv: tuple[str, ...]
    flags: tuple[str, ...]
    env: Mapping[str, str]
    cwd: Path


def start_thread(
    registry: ThreadRegistry,
    item_ref: str,
    request: ExecutionRequest,
    *,
    program: Program,
    seals: RunnerSeals,
    warn: Callable[[str], None],
    thread_id: str = "",
) -> Thread:
    """The thread that runs the item from now on, as far as this process knows it.

    ``thread_id`` is that of the thread, where it is to have another than those of tools.
    Raises RyeError `REGISTRY_INVALID`, FileSystemError, and what starting a process raises: then
    the thread is registered as failed.
    """
    from lillux.background import start_detached

    place = registry.place
    thread = _new_thread(item_ref, program.env.get(PARENT_VARIABLE), thread_id)
    thread_id = thread.thread_id
    payload = Payload(thread_id, item_ref, place, request).dump()
    registry.register(thread)  # (1)
    try:
        write_document(registry, thread_id)
        started = start_detached(  # (2)
            [*program.argv, RUNNER_COMMAND, thread_id, *program.flags],
            env={**program.env, PARENT_VARIABLE: thread_id},
            cwd=program.cwd,
            stdin=payload,
            log_path=place.file(thread_id, LOG),
            log_within=place.root,
        )
    except LilluxError as error:
        registry.finish(thread_id, Status.ERROR, error=str(error))
        raise
    try:
        seals.seal(place, thread_id, started)
    except LilluxError as error:
        warn(f"rye threads kill will not end this run: {error}")
    registry.mark_running(thread_id, started.pid, started.start_token)  # (3)
    write_document(registry, thread_id)
    return replace(thread, status=Status.RUNNING, pid=started.pid, start_token=started.start_token)


def _new_thread(item_ref: str, parent_id: str | None, thread_id: str) -> Thread:
    kind, _, bare_id = item_ref.partition(":")
    thread_id = thread_id or thread_id_for(
        bare_id, epoch_ms=time.time_ns() // 1_000_000, pid=os.getpid(), chance=os.urandom(2)
    )
    return Thread(
        thread_id=thread_id,
        directive=bare_id,
        parent_id=parent_id or None,
        tool_id=bare_id,
        item_id=item_ref,
        kind=kind,
        target=LOCAL,
        thread_mode=FORK if kind == Kind.DIRECTIVE else INLINE,
        chain_root_id=thread_id,
    )


# --- admission ------------------------------------------------------------------------------------
# Which items may run in the background, which runner it gets, and what the caller sees. Pure.


class Owner(Enum):
    """Who runs a tool in the background."""

    ENGINE = "engine"
    CALLEE = "callee"


def require_detachable(kind: Kind, ref: str) -> None:
    """Refuse what is no run. Raises UnsupportedError."""
    reasons = {
        Kind.DIRECTIVE: "a directive is rendered at once, there is nothing to leave running",
        Kind.KNOWLEDGE: "knowledge is text, there is nothing to leave running",
        Kind.CONFIG: "configuration is read by tools, never run",
    }
    if kind in reasons:
        raise UnsupportedError(f"{ref}: {reasons[kind]}", hint="leave out --async")


def owner_of(chain: Chain) -> Owner:
    """The runner of a background run. Raises UnsupportedError where there is none, SpecError."""
    declared = chain.first_with("execution_owner")
    if declared is None:
        return Owner.ENGINE
    _, word = declared
    try:
        owner = Owner(word)
    except ValueError:
        known = ", ".join(one.value for one in Owner)
        raise SpecError("execution_owner", f"expected one of {known}, got {word!r}") from None
    native = chain.first_with("native_async")
    if owner is Owner.CALLEE and not (native and native[1]):
        raise UnsupportedError(
            f"{chain.tool.item_id} does not support async: what runs it keeps to itself how",
            hint="leave out --async",
        )
    return owner


NOT_KNOWN = -1.0


def started_envelope(
    thread: Thread, duration_ms: float, limit_s: float | None = NOT_KNOWN
) -> dict[str, Any]:
    """The answer for a thread that was started; ``limit_s`` of None is no limit of time."""
    limit = "none" if limit_s is None else f"{limit_s:g} s"
    return {
        "status": "success",
        "async": True,
        "thread_id": thread.thread_id,
        "type": thread.kind,
        "item_id": thread.directive,
        "execution_mode": thread.thread_mode or INLINE,
        "state": Status.RUNNING.value,
        "pid": thread.pid,
        **({} if limit_s == NOT_KNOWN else {"time_limit": limit}),
        "metadata": {"duration_ms": round(duration_ms, 3)},
    }


def ended_envelope(thread: Thread) -> Mapping[str, Any]:
    """The answer of a thread that has ended; of one that ended without an answer, that."""
    answer = thread.answer()
    if isinstance(answer, dict) and isinstance(answer.get("status"), str):
        return answer
    if thread.status in {Status.COMPLETED, Status.COMPLETED_WITH_ERRORS, Status.RELEASED}:
        return {"status": "success", "thread_id": thread.thread_id, "data": answer}
    was_ended = thread.status in {Status.CANCELLED, Status.KILLED}
    return {
        "status": "error",
        "error": thread.error or f"the run ended as {thread.status}, without an answer",
        "code": "CANCELLED" if was_ended else "EXECUTION_FAILED",
        "thread_id": thread.thread_id,
        **({"state": thread.shown_state} if thread.state else {}),
    }


def seconds_of(thread: Thread, clock: Clock = utc_now) -> float | None:
    """How long a thread has run so far; None where its start cannot be read."""
    try:
        began = datetime.fromisoformat(thread.created_at or "")
        return round((clock() - began).total_seconds(), 1)
    except (TypeError, ValueError):
        return None


# --- ending ---------------------------------------------------------------------------------------
# Ending a thread: its runner is asked to, and ends the tool first; then it is made to.
#
# A run of a graph may be walked by a process that does more than that, like a server: such a
# process gets no signal. It is asked by a file in the thread's folder, which it looks for.

GRACE_S = 5.0
"""More than a runner needs to end a tool that does not want to: two seconds, and a third."""

_LEFT_SOME = (Status.ERROR, Status.KILLED)


@dataclass(frozen=True, slots=True)
class EndedThread:
    """What became of a thread that was to be ended.

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
    from lillux.background import end_process

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


# --- orphan processes -----------------------------------------------------------------------------
# Processes of a thread whose runner was ended before it could end them.
#
# A runner that gets KILL takes nothing with it: its tool leads a session of its own. On Linux such
# processes are known by the variable with the thread's id that they inherited; elsewhere they
# cannot be found.


def end_orphans(thread_id: str, *, platform: str = sys.platform) -> int:
    """End what is left of a thread; how many processes were ended. Never raises for one."""
    from lillux.background import end_process, start_token

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


# --- watching -------------------------------------------------------------------------------------
# What has become of threads: runners that died without a word, and waiting for an end.

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
        from lillux.background import is_alive

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


# --- log ------------------------------------------------------------------------------------------
# What a thread has written: its log as bytes, whole or while it grows.

CHUNK_BYTES = 64 * 1024
MOST_TEXT_BYTES = 1024 * 1024
_LOG_POLL_S = 0.2
_READ_FLAGS = (
    os.O_RDONLY
    | getattr(os, "O_NONBLOCK", 0)  # a FIFO that a project holds must not keep us
    | getattr(os, "O_CLOEXEC", 0)
    | getattr(os, "O_BINARY", 0)
)


class ThreadLog:
    """``spawn.log`` of a thread.

    Raises RyeError `INVALID_REF`, or `REGISTRY_INVALID` for one outside the place.
    """

    def __init__(self, place: ThreadsPlace, thread_id: str) -> None:
        self.thread_id = thread_id
        self.path = place.file(thread_id, LOG)

    def chunks(self) -> Iterator[bytes]:
        """What is there now, nothing where there is no log. Raises FileSystemError."""
        with self._open_log() as descriptor:
            yield from _rest(descriptor)

    def follow(self, registry: ThreadRegistry) -> Iterator[bytes]:
        """What is there and what comes, until the thread has ended. Raises as `chunks`."""
        from lillux.watch import await_status

        with self._open_log() as descriptor:
            has_ended = False
            while not has_ended:
                has_ended = refreshed(registry, registry.get(self.thread_id)).has_ended
                yield from _rest(descriptor)
                if not has_ended:
                    await_status(registry.place.registry, self.thread_id, _LOG_POLL_S)

    def text(self) -> tuple[str, bool]:
        """The end of the log as text, and whether something stands before it."""
        with self._open_log() as descriptor:
            size = os.fstat(descriptor).st_size if descriptor is not None else 0
            if descriptor is not None and size > MOST_TEXT_BYTES:
                os.lseek(descriptor, size - MOST_TEXT_BYTES, os.SEEK_SET)
            data = b"".join(_rest(descriptor))
        return data.decode("utf-8", "replace"), size > MOST_TEXT_BYTES

    @contextmanager
    def _open_log(self) -> Iterator[int | None]:
        try:
            descriptor = os.open(self.path, _READ_FLAGS)
        except (FileNotFoundError, NotADirectoryError):
            yield None
            return
        except OSError as error:
            raise file_system_error(self.path, error) from error
        try:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise FileSystemError(str(self.path), "expected a regular file")
            yield descriptor
        finally:
            os.close(descriptor)


def _rest(descriptor: int | None) -> Iterator[bytes]:
    while descriptor is not None and (chunk := os.read(descriptor, CHUNK_BYTES)):
        yield chunk
