"""Starting a thread: (1) registered, (2) its runner started, (3) told which process that is.

In this order no process runs that the registry does not know. The runner does (3) too, so that a
starter that dies in between leaves nothing unsaid.
"""

import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from lillux.errors import LilluxError
from lillux.values import dataclass, replace
from ryeos.executor.model import Request
from ryeos.threads.documents import write_document
from ryeos.threads.ids import thread_id_for
from ryeos.threads.model import Status, Thread
from ryeos.threads.payload import INLINE, LOCAL, PARENT_VARIABLE, Payload
from ryeos.threads.place import LOG
from ryeos.threads.registry import Registry
from ryeos.threads.seal import RunnerSeals

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
    registry: Registry,
    item_ref: str,
    request: Request,
    *,
    program: Program,
    seals: RunnerSeals,
    warn: Callable[[str], None],
    thread_id: str = "",
) -> Thread:
    """The thread that runs the item from now on, as far as this process knows it.

    ``thread_id`` is that of the thread, where it is to have another than those of tools.
    Raises RegistryError, FileSystemError, and what starting a process raises: then the thread is
    registered as failed.
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
        thread_mode=INLINE,
        chain_root_id=thread_id,
    )
