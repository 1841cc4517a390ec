"""Background runs as tasks: the extension ``io.modelcontextprotocol/tasks`` of the modern revision.

A task is a thread of the server's own project: it is on disk before a client learns of it, and any
later server answers for it. Its id is the thread's, a dot, and a code under a key of user space:
who does not know it cannot make it up, and nothing further is kept.
"""

import threading
from collections.abc import Callable, Hashable, Mapping
from typing import Any

from lillux.digests import sha256_hex
from lillux.errors import LilluxError
from lillux.jsonrpc import INVALID_PARAMS
from ryeos.app.workspace import Rye
from ryeos.items.refs import ItemRef, Kind
from ryeos.mcp.listing import LISTED_TIERS, HelpTopic, ProposalName, StoredOutput, parse_uri
from ryeos.mcp.questions import RequestContext, object_of, refusal, text_of
from ryeos.mcp.results import output_path, sent_once, tool_result
from ryeos.mcp.revisions import (
    TASKS_EXTENSION,
    McpCaller,
    RpcError,
    TaskId,
    Watch,
    WatchedName,
    tasks_not_declared,
)
from ryeos.run.thread_control import GRACE_S, ended_envelope, kill_thread, refreshed, wait_for
from ryeos.run.threads import Status, Thread, ThreadNotFoundError
from ryeos.search.search import LOCAL_TIERS

POLL_INTERVAL_MS = 2000
_STATUSES: Mapping[str, str] = {
    Status.COMPLETED: "completed",
    Status.COMPLETED_WITH_ERRORS: "completed",
    Status.ERROR: "completed",  # a tool that failed has a result; `failed` is for the protocol's
    Status.RELEASED: "completed",
    Status.CANCELLED: "cancelled",
    Status.KILLED: "cancelled",
}
_NAME_CHARACTERS = 32


def created(rye: Rye, caller: McpCaller, answer: Mapping[str, Any]) -> dict[str, Any] | None:
    """The task of an answer to ``execute``; None where it is no task for this caller."""
    thread_id = answer.get("thread_id")
    if not caller.is_modern or not caller.extends(TASKS_EXTENSION):
        return None
    if answer.get("async") is not True or not isinstance(thread_id, str):
        return None
    try:
        thread = rye.threads.get(thread_id)
    except LilluxError:  # of another project: its id alone does not find it
        return None
    task_id = f"{thread_id}.{rye.runner_seals.task_code(thread_id)}"
    return {"resultType": "task", **_task_as_json(task_id, thread, thread, "working")}


def get_task(request: RequestContext) -> dict[str, Any]:
    """How a task is, with its result when it has one. Raises RpcError."""
    task, task_id = _task(request), text_of(request.call.params, "taskId")
    try:
        return _whole(request.rye, task_id, task)
    except LilluxError as error:
        raise refusal(error) from None


def reported_task(rye: Callable[[], Rye], task_id: str) -> dict[str, Any] | None:
    """A task as `get_task` reports it; None where it is unknown."""
    try:
        return _whole(rye(), task_id, thread_of_task(rye(), task_id))
    except LilluxError:
        return None


def thread_of_task(rye: Rye, task_id: str) -> Thread:
    """The thread that a task is. Raises ThreadNotFoundError."""
    thread_id, _, code = task_id.rpartition(".")
    if not rye.runner_seals.is_task_code(thread_id, code):
        raise ThreadNotFoundError(task_id, str(rye.threads.place.registry))
    return rye.threads.get(thread_id)


def _whole(rye: Rye, task_id: str, task: Thread) -> dict[str, Any]:
    """A task, with its result when it has one. Raises LilluxError."""
    now = wait_for(rye.threads, task.thread_id, 0)
    status = _STATUSES.get(now.status, "working") if now.has_ended else "working"
    described = _task_as_json(task_id, task, now, status)
    if status == "completed":
        name = sha256_hex(task_id.encode("utf-8", "surrogatepass"))[:_NAME_CHARACTERS]
        result = tool_result(ended_envelope(now), rye.context, kept_as=name)
        described["result"] = {"resultType": "complete", **sent_once(result, {})}
    return described


def update_task(request: RequestContext) -> dict[str, Any]:
    """Accept responses and ignore them: no run asks for any. Raises RpcError."""
    _task(request)
    object_of(request.call.params, "inputResponses")
    return {}


def cancel_task(request: RequestContext) -> dict[str, Any]:
    """End a task and all that it started; one that has ended stays as it is. Raises RpcError."""
    task, rye = _task(request), request.rye
    try:
        kill_thread(rye.threads, task.thread_id, rye.runner_seals, grace_s=GRACE_S)
    except LilluxError as error:
        raise refusal(error) from None
    return {}


def _task(request: RequestContext) -> Thread:
    if not request.call.caller.extends(TASKS_EXTENSION):
        raise tasks_not_declared()
    task_id = text_of(request.call.params, "taskId")
    try:
        return refreshed(request.rye.threads, thread_of_task(request.rye, task_id))
    except ThreadNotFoundError:
        raise RpcError(INVALID_PARAMS, f"unknown task: {task_id[:200]}") from None
    except LilluxError as error:
        raise refusal(error) from None


def _task_as_json(task_id: str, task: Thread, now: Thread, status: str) -> dict[str, Any]:
    """A task, and the thread that has carried on with its work, which may be the same."""
    began = task.created_at or ""
    return {
        "taskId": task_id,
        "status": status,
        **({"statusMessage": now.error} if now.error else {}),
        "createdAt": began,
        "lastUpdatedAt": now.updated_at or began,
        "ttlMs": None,
        "pollIntervalMs": POLL_INTERVAL_MS,
    }


# --- watching -------------------------------------------------------------------------------------
# Looks for changes every two seconds, while a client wants to learn of them.
#
# (1) what is wanted now is set by `watch`; the first wish starts the thread, the last ends it
# (2) what is wanted anew is looked at at once: what it is now is no change, for a task it is sent,
#     which may have ended before a client could ask for news of it
# (3) every two seconds all that is wanted is looked at, and what differs is reported, once

LOOK_S = 2.0
LISTS = frozenset({"prompts", "resources"})


class ChangeWatcher:
    """Reports changes of lists (by name), of single resources (by URI) and of tasks.

    ``state_of`` gives what differs when one of them was changed; it may take its time.
    """

    def __init__(
        self, state_of: Callable[[WatchedName], Hashable], *, look_s: float = LOOK_S
    ) -> None:
        self._state_of, self._look_s = state_of, look_s
        self._condition = threading.Condition()
        self._wanted: frozenset[WatchedName] = frozenset()
        self._looked_at: frozenset[WatchedName] = frozenset()
        self._changed: Callable[[WatchedName], None] = _ignore_change
        self._is_running = False

    def watch(self, watch: Watch, changed: Callable[[WatchedName], None]) -> None:
        """Look out for this from now on, and for nothing else (1)."""
        with self._condition:
            self._wanted = (watch.lists & LISTS) | watch.uris | watch.tasks
            self._changed = changed
            self._condition.notify_all()
            if self._wanted and not self._is_running:
                self._is_running = True
                threading.Thread(target=self._look_out, name="rye-watching", daemon=True).start()

    def await_look(self, timeout_s: float) -> None:
        """Return when all that is wanted has been looked at once (2), or this time is over.

        What is read after that and changes later is reported.
        """
        with self._condition:
            self._condition.wait_for(lambda: self._wanted <= self._looked_at, timeout_s)

    def has_ended(self, timeout_s: float) -> bool:
        """Whether nothing is looked at any more, now or before this time is over."""
        with self._condition:
            return self._condition.wait_for(lambda: not self._is_running, timeout_s)

    def _look_out(self) -> None:
        seen: dict[WatchedName, Hashable] = {}
        while True:
            with self._condition:
                wanted, changed = self._wanted, self._changed
                if not wanted:
                    self._is_running, self._looked_at = False, wanted
                    self._condition.notify_all()
                    return
            found = {name: self._state_of(name) for name in wanted}
            for name in sorted(found, key=str):
                before = seen.get(name) if isinstance(name, TaskId) else seen.get(name, found[name])
                if before != found[name]:  # (3)
                    changed(name)
            seen = found  # (2)
            with self._condition:
                self._looked_at = wanted
                self._condition.notify_all()
                if self._wanted == wanted:
                    self._condition.wait(self._look_s)


def _ignore_change(_: WatchedName) -> None:
    """Begin without subscribers."""


# --- states ---------------------------------------------------------------------------------------
# What differs when a list or a resource was changed.

_LISTS = {
    "prompts": (Kind.DIRECTIVE, LOCAL_TIERS),
    "resources": (Kind.KNOWLEDGE, LISTED_TIERS),
}


def state_of(rye: Callable[[], Rye], name: WatchedName) -> Hashable:
    """The state of a list, by its name, of a resource, by its URI, or of a task.

    None for what is not there.

    Raises nothing: what cannot be looked at is not there.
    """
    try:
        if isinstance(name, TaskId):
            return _task_state(rye(), name.id)
        return _list_state(rye(), name) if name in _LISTS else _resource_state(rye(), name)
    except (LilluxError, OSError):
        return None


def _list_state(rye: Rye, name: str) -> Hashable:
    kind, tiers = _LISTS[name]
    return rye.catalog.states((kind,), tiers)


def _task_state(rye: Rye, task_id: str) -> Hashable:
    now = wait_for(rye.threads, thread_of_task(rye, task_id).thread_id, 0)
    return now.thread_id, now.status, now.updated_at


def _resource_state(rye: Rye, uri: str) -> Hashable:
    match parse_uri(uri):
        case ItemRef() as ref:
            found = rye.resolver.find(ref)
            path = found.location.path if found else None
        case StoredOutput(name=output):
            path = output_path(rye.context, output)
        case ProposalName(id=proposal_id):
            from ryeos.app.proposals import Proposals

            return Proposals(rye.context.spaces.user).state(proposal_id)
        case HelpTopic() | None:
            return None
    if path is None:
        return None
    mark = path.stat()
    return str(path), mark.st_mtime_ns, mark.st_size, mark.st_ino
