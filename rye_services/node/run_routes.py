"""Routes that run items: ``/execute``, ``/fetch``, ``/sign``; ``/mcp`` calls them too."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Collection, Mapping
from contextlib import asynccontextmanager, suppress
from time import monotonic
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Request, Response
from pydantic import BaseModel, Field
from starlette.concurrency import run_in_threadpool
from starlette.responses import StreamingResponse

from lillux.errors import LilluxError
from lillux.values import replace
from rye_services.node.answers import (
    AcceptedAnswer,
    CancelAnswer,
    ExecutionAnswer,
    LogAnswer,
    ThreadAnswer,
    ThreadsAnswer,
)
from rye_services.node.mcp import RouteCall
from rye_services.node.queue.logs import LogPiece
from rye_services.node.queue.rows import RUNNING
from rye_services.node.runs.execution import Order, delivery_order, read_order
from rye_services.node.services import NodeServices
from rye_services.node.worker.jobs import JobAction
from rye_services.people.callers import WebhookDelivery, owner_caller, resolve_execution
from rye_services.people.credentials import EXECUTE, THREADS, Principal, Role
from rye_services.process.server import every
from rye_services.refusal import RefusedError
from rye_services.web.http import RequestProblem, described, refusals
from rye_services.web.openapi import Responses, answer, answers, refuses
from ryeos.remote.envelopes import EnvelopeError
from ryeos.sync.contents import ContentStore
from ryeos.sync.objects import execution_snapshot_of, outputs_bundle_of

# --- execute routes -------------------------------------------------------------------------------

ACCEPTED, HTTP_ACCEPTED = "accepted", 202
_EXECUTED: Responses = {
    **answers(ExecutionAnswer, 404, 409, 503),
    HTTP_ACCEPTED: answer(AcceptedAnswer, "It waits for its turn, or runs"),
}
_LOG: Responses = {
    200: answer(LogAnswer, others={"text/event-stream": {"schema": {"type": "string"}}}),
    **refuses(404),
}
_LISTEN_S = 1.0

Executor = Annotated[Principal | WebhookDelivery, Depends(resolve_execution)]
Fetcher = Annotated[Principal, owner_caller(EXECUTE, Role.RUN)]
Signer = Annotated[Principal, owner_caller(EXECUTE, Role.PUSH)]


class ExecuteBody(BaseModel):
    """An item to execute. A webhook sends ``hook_id`` instead of item and project."""

    item_id: str = Field(default="", examples=["tool:me/build"])
    item_type: str | None = None
    project_path: str = ""
    parameters: dict[str, Any] | None = None
    thread: str | None = Field(default=None, examples=["inline", "fork"])
    is_async: bool | None = Field(default=None, alias="async")
    awaited: bool | None = None
    secret_envelope: dict[str, Any] | None = None
    vault_keys: list[str] | None = None
    hook_id: str | None = None


class FetchBody(BaseModel):
    """An item to load, or words to search for."""

    project_path: str
    item_id: str | None = None
    item_type: str | None = None
    query: str | None = None
    scope: str | None = None
    source: str | None = None
    destination: str | None = None
    version: str | None = None
    limit: int | None = None


class SignBody(BaseModel):
    """An item to sign with the key of the node, or a pattern of several."""

    project_path: str
    item_id: str
    item_type: str | None = None
    source: str | None = None


def execute_router(services: NodeServices) -> APIRouter:
    """The routes that execute."""
    routes = APIRouter(tags=["execute"])

    @routes.post("/execute", openapi_extra=described(ExecuteBody), responses=_EXECUTED)
    async def execute(executor: Executor, request: Request, response: Response) -> dict[str, Any]:
        """Execute an item from the HEAD of a project; what it changed becomes part of HEAD.

        A tool that fails is answered with status 200, and ``status`` error. 202: it was accepted,
        and waits for its turn or runs: because the request is asynchronous, or no place was free.
        Of an asynchronous one that is ``awaited`` the answer is kept: `/threads/ID/answer`.
        """
        raw = await request.body()
        order = await run_in_threadpool(_order_of, services, executor, raw)
        return await _execute_and_answer(services, order, response)

    @routes.post(
        "/fetch",
        openapi_extra=described(FetchBody),
        responses=_EXECUTED,
    )
    async def fetch(principal: Fetcher, request: Request, response: Response) -> dict[str, Any]:
        """Load an item of a project, its user space or the bundle, or search for items.

        202: it was accepted, as no place was free.
        """
        order = _order_for(services, JobAction.FETCH, principal, _object(await request.body()))
        return await _execute_and_answer(services, order, response)

    @routes.post(
        "/sign",
        openapi_extra=described(SignBody),
        responses=_EXECUTED,
    )
    async def sign(principal: Signer, request: Request, response: Response) -> dict[str, Any]:
        """Validate an item of a project and sign it with the key of this node.

        202: it was accepted, as no place was free.
        """
        order = _order_for(services, JobAction.SIGN, principal, _object(await request.body()))
        return await _execute_and_answer(services, order, response)

    return routes


@asynccontextmanager
async def running(services: NodeServices) -> AsyncIterator[None]:
    """Executions while the node serves; what still runs at its end is given a while."""
    executions = services.executions
    await run_in_threadpool(executions.begin)
    async with every(executions.beat_s, executions.beat), every(_LISTEN_S, executions.listen):
        yield
    await run_in_threadpool(executions.close, float(services.settings.shutdown_timeout_s))


def answer_call(services: NodeServices) -> Callable[[Principal, RouteCall], Mapping[str, Any]]:
    """What answers the calls of ``/mcp``: the very requests that they stand for."""

    def answer(principal: Principal, call: RouteCall) -> Mapping[str, Any]:
        order = _order_for(services, JobAction(call.route), principal, call.body)
        executions = services.executions
        return executions.accept(order) if order.is_async else executions.run(order)

    return answer


def _order_of(services: NodeServices, executor: Principal | WebhookDelivery, raw: bytes) -> Order:
    if isinstance(executor, Principal):
        return _order_for(services, JobAction.EXECUTE, executor, _object(raw))
    with refusals(RefusedError):
        return delivery_order(executor, _object(raw))


def _order_for(
    services: NodeServices, action: JobAction, principal: Principal, body: Mapping[str, Any]
) -> Order:
    """What a user wants executed: their own, or as a member of a team. Raises RequestProblem.

    A secret that was sealed for another name of theirs is sealed for the owner from now on.
    """
    if action is JobAction.SIGN and principal.role and not principal.role.includes(Role.PUSH):
        raise RequestProblem(403, f"to sign in {principal.user_id} needs the role push")
    with refusals(RefusedError, EnvelopeError):
        order = read_order(action, body, principal.user_id)
        if order.envelope is not None and len(principal.names) > 1:
            envelope = services.vault.sealed_for_owner(order.envelope, principal.names)
            order = replace(order, envelope=envelope)
    if principal.role is None:
        return order
    may_change = principal.role.includes(Role.PUSH)
    return replace(order, started_by=principal.person, may_change=may_change)


async def _execute_and_answer(
    services: NodeServices, order: Order, response: Response
) -> dict[str, Any]:
    """Execute and answer, with status 202 where it is accepted for later."""
    answer = await services.executions.answer(order)
    if answer.get("status") == ACCEPTED:
        response.status_code = HTTP_ACCEPTED
    return answer


def _object(raw: bytes) -> dict[str, Any]:
    try:
        value = json.loads(raw)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise RequestProblem(400, "expected a JSON object")
    return value


# --- thread routes --------------------------------------------------------------------------------
# The routes of what was executed: ``/threads``.

MAX_THREADS = 200
LOG_PIECES = 100
_DEFAULT_THREADS = 20
_LOOK_AGAIN_S, _ASK_AGAIN_S, _SIGN_OF_LIFE_S = 0.5, 1.5, 15.0

Reader = Annotated[Principal, owner_caller(THREADS, Role.READ)]
Canceller = Annotated[Principal, owner_caller(EXECUTE, Role.RUN)]
Number = Annotated[int, Query(ge=0, le=2**31 - 1)]


def thread_router(services: NodeServices) -> APIRouter:
    """The routes of threads."""
    routes = APIRouter(prefix="/threads", tags=["threads"])
    rows, remote_name = services.executions.rows, services.settings.name

    @routes.get("", responses=answers(ThreadsAnswer))
    def listed(
        principal: Reader,
        limit: int = _DEFAULT_THREADS,
        project_path: Annotated[str | None, Query()] = None,
    ) -> dict[str, Any]:
        """The executions of a user, the newest first."""
        shown = max(0, min(limit, MAX_THREADS))
        found = rows.listed(principal.user_id, remote_name, limit=shown, project_path=project_path)
        return {"threads": found, "remote_name": remote_name}

    @routes.get("/{thread_id}", responses=answers(ThreadAnswer, 404))
    def one(principal: Reader, thread_id: str) -> dict[str, Any]:
        """One execution, with what it answered once it is over."""
        row = rows.one(principal.user_id, thread_id)
        if row is None:
            raise RequestProblem(404, f"thread not found: {thread_id[:300]!a}")
        return {**row, **derived(row, services.stores.of(principal.user_id))}

    @routes.post("/{thread_id}/cancel", responses=answers(CancelAnswer, 404))
    def cancel(canceller: Canceller, thread_id: str) -> dict[str, Any]:
        """End an execution: one that waits at once, one that runs as soon as its worker has ended.

        What it changed is not taken. Who may only run ends in a team what they have started.
        """
        require_own_run(services, canceller, thread_id)
        state = services.executions.cancel(canceller.user_id, thread_id, canceller.who)
        if state is None:
            raise RequestProblem(404, f"thread not found: {thread_id[:300]!a}")
        return {"thread_id": thread_id, "state": state}

    @routes.post("/{thread_id}/answer", responses=answers(ExecutionAnswer, 404, 409, 503))
    def answer(caller: Canceller, thread_id: str) -> dict[str, Any]:
        """What `/execute` answers of an execution that was ``awaited`` and has ended, given once.

        409: it has not ended, or was cancelled. 404: no answer of it is kept, or not any more.
        """
        require_own_run(services, caller, thread_id)
        return services.executions.take_answer(caller.user_id, thread_id)

    _add_log(routes, services)
    return routes


def _add_log(routes: APIRouter, services: NodeServices) -> None:
    rows = services.executions.rows

    @routes.get("/{thread_id}/log", response_model=None, responses=_LOG)
    async def log(
        principal: Reader, thread_id: str, after: Number = 0, *, follow: bool = False
    ) -> dict[str, Any] | StreamingResponse:
        """What its programs wrote, behind a piece; with ``follow`` as events, until it has ended.

        Events are server-sent: ``log`` for a piece, ``end`` with the state. They end within two
        seconds of the removal of their caller, or of the caller's key.
        """
        allowed_at_s = monotonic()

        def read(number: int) -> tuple[list[LogPiece], str]:
            nonlocal allowed_at_s
            if monotonic() - allowed_at_s > _ASK_AGAIN_S:
                services.authenticator.require_still(principal, THREADS, Role.READ)
                allowed_at_s = monotonic()
            row = rows.one(principal.user_id, thread_id)
            if row is None:
                raise RequestProblem(404, f"thread not found: {thread_id[:300]!a}")
            # The state first: what was written before the end is read then.
            return services.executions.logs.read(thread_id, number, LOG_PIECES), row["state"]

        pieces, state = await run_in_threadpool(read, after)
        if follow:
            events = log_events(read, pieces, state, after)
            return StreamingResponse(events, media_type="text/event-stream")
        last = pieces[-1].number if pieces else after
        return {"pieces": [one.as_answer() for one in pieces], "after": last, "state": state}


def require_own_run(services: NodeServices, canceller: Principal, thread_id: str) -> None:
    """Raises RequestProblem, 403, for the run of another member."""
    if canceller.role is None or canceller.role.includes(Role.PUSH):
        return
    row = services.executions.rows.one(canceller.user_id, thread_id)
    if row is not None and row["started_by"] != canceller.who:
        raise RequestProblem(403, "to end a run of another member needs the role push")


async def log_events(
    read: Callable[[int], tuple[list[LogPiece], str]],
    pieces: list[LogPiece],
    state: str,
    last: int,
    live: Collection[str] = (RUNNING,),
) -> AsyncIterator[str]:
    """The pieces of a log as server-sent events, and a comment now and then where there are none.

    ``log`` is a piece, ``state`` a change among the states that are ``live``, ``end`` any other
    state. An event's id is the piece's number: after a lost connection a client continues from it,
    with ``after``. A ``read`` that raises RequestProblem ends the stream without ``end``.
    """
    is_quiet_s, before = 0.0, state
    while True:
        for one in pieces:
            last = one.number
            yield f"id: {last}\nevent: log\ndata: {json.dumps(one.as_answer())}\n\n"
        if state not in live and not pieces:
            yield f"event: end\ndata: {json.dumps({'state': state})}\n\n"
            return
        if state != before and state in live:
            yield f"event: state\ndata: {json.dumps({'state': state})}\n\n"
        before = state
        if not pieces:
            await asyncio.sleep(_LOOK_AGAIN_S)
            is_quiet_s += _LOOK_AGAIN_S
            if is_quiet_s >= _SIGN_OF_LIFE_S:
                is_quiet_s = 0.0
                yield ": still running\n\n"
        try:
            pieces, state = await run_in_threadpool(read, last)
        except RequestProblem:
            return


def derived(row: dict[str, Any], store: ContentStore) -> dict[str, Any]:
    """What the objects of an execution say about it; what is not there (any more) is left out."""
    found: dict[str, Any] = {}
    if digest := row["execution_snapshot_hash"]:
        with suppress(LilluxError):
            snapshot = execution_snapshot_of(store.get_object(digest), digest)
            found["execution_status"] = snapshot.status
            found["execution_errors"] = [dict(error) for error in snapshot.errors]
    if digest := row["runtime_outputs_bundle_hash"]:
        with suppress(LilluxError):
            bundle = outputs_bundle_of(store.get_object(digest), digest)
            found["runtime_output_files"] = len(bundle.files)
    if digest := row["result_hash"]:
        with suppress(LilluxError, LookupError, TypeError):
            found["result"] = store.get_object(digest)["result"]
    return found
