"""Background runs as tasks: the extension ``io.modelcontextprotocol/tasks`` of the modern revision.

A task is a thread of the server's own project: it is on disk before a client learns of it, and any
later server answers for it. Its id is the thread's, a dot, and a code under a key of user space:
who does not know it cannot make it up, and nothing further is kept.
"""

from collections.abc import Callable, Mapping
from typing import Any

from lillux.digests import sha256_hex
from lillux.errors import LilluxError
from lillux.jsonrpc import INVALID_PARAMS
from ryeos.app.workspace import Rye
from ryeos.mcp.request_context import RequestContext, object_of, refusal, text_of
from ryeos.mcp.results import sent_once, tool_result
from ryeos.mcp.revisions import TASKS_EXTENSION, McpCaller, RpcError, tasks_not_declared
from ryeos.run.threads.end import GRACE_S, kill_thread
from ryeos.run.threads.errors import ThreadNotFoundError
from ryeos.run.threads.start import ended_envelope
from ryeos.run.threads.thread import Status, Thread
from ryeos.run.threads.watch import refreshed, wait_for

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
    """The state of a task, with its result when it has one. Raises RpcError."""
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
