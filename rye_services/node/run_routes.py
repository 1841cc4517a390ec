"""Routes that run items: ``/execute``, ``/fetch``, ``/sign``; ``/mcp`` calls them too."""

import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Request
from pydantic import BaseModel, Field
from starlette.concurrency import run_in_threadpool

from lillux.errors import LilluxError
from lillux.store import Store
from rye_services.callers import WebhookDelivery, caller, resolve_execution
from rye_services.credentials import EXECUTE, THREADS, Principal
from rye_services.http import RequestProblem, described, refusals
from rye_services.node.execution import Order, OrderError, delivery_order, read_order
from rye_services.node.jobs import JobAction
from rye_services.node.mcp import RouteCall
from rye_services.node.rows import HEARTBEAT_S
from rye_services.node.services import NodeServices
from rye_services.server import every
from ryeos.sync.objects import execution_snapshot_of, outputs_bundle_of

# --- execute routes -------------------------------------------------------------------------------

Executor = Annotated[Principal | WebhookDelivery, Depends(resolve_execution)]
Caller = Annotated[Principal, caller(EXECUTE)]


class ExecuteBody(BaseModel):
    """An item to execute. A webhook sends ``hook_id`` instead of item and project."""

    item_id: str = Field(default="", examples=["tool:me/build"])
    item_type: str | None = None
    project_path: str = ""
    parameters: dict[str, Any] | None = None
    thread: str | None = Field(default=None, examples=["inline", "fork"])
    is_async: bool | None = Field(default=None, alias="async")
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

    @routes.post("/execute", openapi_extra=described(ExecuteBody))
    async def execute(executor: Executor, request: Request) -> dict[str, Any]:
        """Execute an item from the HEAD of a project; what it changed becomes part of HEAD.

        A tool that fails is answered with status 200, and ``status`` error.
        """
        raw = await request.body()
        return await run_in_threadpool(_execute, services, executor, raw)

    @routes.post("/fetch", openapi_extra=described(FetchBody))
    async def fetch(principal: Caller, request: Request) -> dict[str, Any]:
        """Load an item of a project, its user space or the bundle, or search for items."""
        raw = await request.body()
        return await run_in_threadpool(_execute_as, services, JobAction.FETCH, principal, raw)

    @routes.post("/sign", openapi_extra=described(SignBody))
    async def sign(principal: Caller, request: Request) -> dict[str, Any]:
        """Validate an item of a project and sign it with the key of this node."""
        raw = await request.body()
        return await run_in_threadpool(_execute_as, services, JobAction.SIGN, principal, raw)

    return routes


@asynccontextmanager
async def running(services: NodeServices) -> AsyncIterator[None]:
    """Executions while the node serves; what still runs at its end is given a while."""
    executions = services.executions
    await run_in_threadpool(executions.begin)
    async with every(HEARTBEAT_S, executions.beat):
        yield
    await run_in_threadpool(executions.close, float(services.settings.shutdown_timeout_s))


def answer_call(services: NodeServices) -> Callable[[Principal, RouteCall], Mapping[str, Any]]:
    """What answers the calls of ``/mcp``: the very requests that they stand for."""

    def answer(principal: Principal, call: RouteCall) -> Mapping[str, Any]:
        with refusals(OrderError):
            order = read_order(JobAction(call.route), call.body, principal.user_id)
        return _carry_out(services, order)

    return answer


def _execute(
    services: NodeServices, executor: Principal | WebhookDelivery, raw: bytes
) -> dict[str, Any]:
    if isinstance(executor, Principal):
        return _execute_as(services, JobAction.EXECUTE, executor, raw)
    with refusals(OrderError):
        order = delivery_order(executor, _object(raw))
    return _carry_out(services, order)


def _execute_as(
    services: NodeServices, action: JobAction, principal: Principal, raw: bytes
) -> dict[str, Any]:
    with refusals(OrderError):
        order = read_order(action, _object(raw), principal.user_id)
    return _carry_out(services, order)


def _carry_out(services: NodeServices, order: Order) -> dict[str, Any]:
    executions = services.executions
    return executions.accept(order) if order.is_async else executions.run(order)


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
_DEFAULT_THREADS = 20

Reader = Annotated[Principal, caller(THREADS)]


def thread_router(services: NodeServices) -> APIRouter:
    """The routes of threads."""
    routes = APIRouter(prefix="/threads", tags=["threads"])
    rows, remote_name = services.executions.rows, services.settings.name

    @routes.get("")
    def listed(
        principal: Reader,
        limit: int = _DEFAULT_THREADS,
        project_path: Annotated[str | None, Query()] = None,
    ) -> dict[str, Any]:
        """The executions of a user, the newest first."""
        shown = max(0, min(limit, MAX_THREADS))
        found = rows.listed(principal.user_id, remote_name, limit=shown, project_path=project_path)
        return {"threads": found, "remote_name": remote_name}

    @routes.get("/{thread_id}")
    def one(principal: Reader, thread_id: str) -> dict[str, Any]:
        """One execution, with what it answered once it is over."""
        row = rows.one(principal.user_id, thread_id)
        if row is None:
            raise RequestProblem(404, f"thread not found: {thread_id[:300]!a}")
        return {**row, **derived(row, services.stores.of(principal.user_id))}

    return routes


def derived(row: dict[str, Any], store: Store) -> dict[str, Any]:
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
