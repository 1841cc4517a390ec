"""Starts background runs: which items may run so, and which runner they get.

In this order no process runs that the registry does not know. The runner does (3) too, so that a
starter that dies in between leaves nothing unsaid.
Which items may run in the background, which runner it gets, and what the caller sees. Pure.
"""

import os
import time
from collections.abc import Callable, Mapping
from datetime import datetime
from enum import Enum
from pathlib import Path
from typing import Any

from lillux.errors import LilluxError
from lillux.values import dataclass, replace
from ryeos.items.context import Clock, utc_now
from ryeos.items.errors import SpecError, UnsupportedError
from ryeos.items.refs import Kind
from ryeos.run.model import Chain, ExecutionRequest
from ryeos.run.threads.ids import thread_id_for
from ryeos.run.threads.payload import FORK, INLINE, LOCAL, PARENT_VARIABLE, Payload
from ryeos.run.threads.place import LOG
from ryeos.run.threads.registry import ThreadRegistry, write_document
from ryeos.run.threads.seals import RunnerSeals
from ryeos.run.threads.thread import Status, Thread

RUNNER_COMMAND = "_thread"


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """The command that starts this program once more.

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


class Owner(Enum):
    """The owner of a background run: what runs the tool."""

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
    """The seconds that a thread has run so far; None where its start cannot be read."""
    try:
        began = datetime.fromisoformat(thread.created_at or "")
        return round((clock() - began).total_seconds(), 1)
    except (TypeError, ValueError):
        return None
