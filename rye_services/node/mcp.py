"""``/mcp``: the node as an MCP server, streamable HTTP without sessions, answers in JSON.

A call of a tool is the request that it stands for, made in this process; who makes it is found out
from the HTTP request of the call, as for every route. The SDK comes in with the first message
(`rye_services.node.mcp_server`): it is a third of what a node imports, and many are never asked.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from fastapi import APIRouter, FastAPI
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route
from starlette.types import Message, Receive, Scope, Send

from lillux.values import dataclass
from rye_services.people.callers import facts_of
from rye_services.people.credentials import Principal
from rye_services.web.http import RequestProblem
from ryeos.app.parameters import Parameter
from ryeos.app.verb_arguments import valid_arguments
from ryeos.app.verbs import Tool
from ryeos.items.errors import VerbArgumentError
from ryeos.items.specs import type_name

if TYPE_CHECKING:
    from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

# --- mcp messages ---------------------------------------------------------------------------------
# What is wrong with a message to ``/mcp``, in plain words. Pure.
#
# The SDK would report it too, in the words of its validator, which repeat what was sent.

_PARSE_ERROR, _INVALID_REQUEST, _INVALID_PARAMS = -32700, -32600, -32602


def refusal_of(body: bytes) -> dict[str, Any] | None:
    """The JSON-RPC answer to what is no message, or no call of a tool; None for all else.

    Its ``id`` is None for what is no message at all.
    """
    try:
        message = json.loads(body)
    except (ValueError, RecursionError):
        return _refusal(None, _PARSE_ERROR, "expected a message of JSON-RPC, found no JSON")
    if not isinstance(message, dict):
        found = f"expected a message of JSON-RPC, found {type_name(message)}"
        return _refusal(None, _INVALID_REQUEST, found)
    problem = _problem_of_message(message)
    if problem:
        return _refusal(None, _INVALID_REQUEST, problem)
    number = message.get("id")
    if message.get("method") != "tools/call" or number is None:
        return None
    problem = _problem_of_call(message.get("params") or {})
    return _refusal(number, _INVALID_PARAMS, problem) if problem else None


def _problem_of_message(message: dict[str, Any]) -> str:
    if message.get("jsonrpc") != "2.0":
        return 'jsonrpc: expected "2.0"'
    number = message.get("id", 0)
    if not isinstance(number, str | int) or isinstance(number, bool):
        return f"id: expected a string or a number, found {type_name(number)}"
    if "result" in message or "error" in message:
        return ""
    if not isinstance(message.get("method"), str):
        return "method: expected a string"
    params = message.get("params")
    if params is not None and not isinstance(params, dict):
        return f"params: expected an object, found {type_name(params)}"
    return ""


def _problem_of_call(params: dict[str, Any]) -> str:
    if not isinstance(params.get("name"), str):
        return "name: expected the name of a tool"
    arguments = params.get("arguments")
    if arguments is not None and not isinstance(arguments, dict):
        return f"arguments: expected an object, found {type_name(arguments)}"
    return ""


def _refusal(number: str | int | None, code: int, problem: str) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": number, "error": {"code": code, "message": problem}}


# --- mcp tools ------------------------------------------------------------------------------------
# The three tools of the node's ``/mcp``, and which request each call of one is. Pure.

_RUNNABLE = ("tool", "directive", "knowledge")


def _text(name: str, description: str, **rules: Any) -> Parameter:  # noqa: ANN401 - of Parameter
    return Parameter(name=name, type="string", description=description, **rules)


_PROJECT = _text("project_path", "Name of a project that was pushed to this node", required=True)
_KIND = _text("item_type", "Kind of item", enum=_RUNNABLE)

TOOLS: Mapping[str, Tool] = {
    tool.name: tool
    for tool in (
        Tool(
            name="execute",
            title="Execute an item on this node",
            description=(
                "Run a tool or directive of a project, from the HEAD that was pushed last. What it"
                " changes in the project becomes a new snapshot, merged into HEAD; nothing of it"
                " comes to your machine until you pull. Every file involved is verified"
                " first. With async the answer is a thread_id at once."
            ),
            parameters=(
                _text("item_id", "tool:a/b, or a/b with item_type", required=True),
                _PROJECT,
                Parameter(name="parameters", type="object", description="The item's inputs"),
                _text("thread", "inline or fork; a directive forks", enum=("inline", "fork")),
                Parameter(name="async", type="boolean", description="Do not wait for its end"),
                Parameter(name="dry_run", type="boolean", description="Not on a node"),
                _KIND,
            ),
            destructive=True,
            idempotent=False,
            open_world=True,
        ),
        Tool(
            name="fetch",
            title="Fetch items of a project",
            description=(
                "Load and search in one tool: with item_id it loads that item, with query (or scope"
                " alone) it searches the project, the user space and the bundle."
            ),
            parameters=(
                _PROJECT,
                _text("item_id", "tool:a/b, or a/b with item_type"),
                _text("query", "Words"),
                _text("scope", "Like tool.rye.core.*"),
                _text("source", "First space to look in"),
                _text("destination", "Copy it to this space"),
                _text("version", "Of a registry's item"),
                Parameter(name="limit", type="integer", description="Hits", minimum=1, maximum=100),
                _KIND,
            ),
        ),
        Tool(
            name="sign",
            title="Validate and sign with the node's key",
            description=(
                "Validate an item of a project and sign it with the key of this node. The signed"
                " file becomes a new snapshot."
            ),
            parameters=(
                _text("item_id", "Item or pattern", required=True),
                _PROJECT,
                _text("source", "Space of the item", default="project"),
                _text("item_type", "Kind of item", enum=(*_RUNNABLE, "config")),
            ),
        ),
    )
}


class ToolNameError(Exception):
    """A call of a tool that the node does not have."""


@dataclass(frozen=True, slots=True)
class RouteCall:
    """A request that a tool call stands for: the route, and its body."""

    route: str
    body: Mapping[str, Any]


def call_of(name: str, arguments: Mapping[str, Any]) -> RouteCall:
    """The request that a tool call stands for.

    The item is named in both forms: canonical, and its kind apart, where a kind is known.

    Raises ToolNameError, VerbArgumentError.
    """
    tool = TOOLS.get(name)
    if tool is None:
        raise ToolNameError(f"no such tool: {name[:80]!a}; there are {', '.join(TOOLS)}")
    body = valid_arguments(tool, arguments)
    if body.pop("dry_run", False):
        raise VerbArgumentError(
            "dry_run", "expected false: a node has no dry run", hint="run it locally with dry_run"
        )
    return RouteCall(name, _with_item(body, default="tool" if name == "execute" else None))


def _with_item(body: dict[str, Any], default: str | None) -> dict[str, Any]:
    item_id, kind = body.get("item_id"), body.get("item_type", default)
    if item_id and kind and ":" not in item_id:
        return body | {"item_id": f"{kind}:{item_id}"}
    return body


# --- mcp mount ------------------------------------------------------------------------------------

Answer = Callable[[Principal, RouteCall], Mapping[str, Any]]
"""What answers the request of a call; it may take long, and runs in a thread. Raises Problem."""

PATHS = ("/mcp", "/mcp/")
FACTS = "rye_facts"
"""What the sender of a message may have signed: where the scope of its request has it."""
_NO_SESSION = "this server keeps no sessions: send POST"


def mcp_router(open_sessions: "Callable[[], StreamableHTTPSessionManager]") -> APIRouter:
    """The endpoint. It is in no OpenAPI document: its messages are those of MCP.

    ``open_sessions`` is called in a thread, once.
    """
    sessions = _LateSessions(open_sessions)

    @asynccontextmanager
    async def running(_: FastAPI) -> AsyncIterator[None]:
        async with asyncio.TaskGroup() as group:
            group.create_task(sessions.run())
            yield
            sessions.end()

    routes = APIRouter(lifespan=running)
    for path in PATHS:
        routes.routes.append(Route(path, _Endpoint(sessions), include_in_schema=False))
    return routes


class _LateSessions:
    """The SDK's handling of messages, opened when the first message comes.

    `run` is a task of its own, since the SDK wants to be closed by the task that opened it.
    """

    def __init__(self, open_sessions: Callable[[], "StreamableHTTPSessionManager"]) -> None:
        self._open = open_sessions
        self._is_wanted, self._is_over = asyncio.Event(), asyncio.Event()
        self._opened: asyncio.Future[StreamableHTTPSessionManager] | None = None

    async def run(self) -> None:
        """Open them once they are wanted, and close them at the end."""
        self._opened = asyncio.get_running_loop().create_future()
        await self._is_wanted.wait()
        if self._is_over.is_set():
            return
        try:
            opened = await run_in_threadpool(self._open)
        except Exception as error:  # noqa: BLE001 - of each request, and not of the node
            self._opened.set_exception(error)
            return
        async with opened.run():
            self._opened.set_result(opened)
            await self._is_over.wait()

    def end(self) -> None:
        """Have `run` end."""
        self._is_over.set()
        self._is_wanted.set()

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one message."""
        if self._opened is None:
            raise RuntimeError("expected the sessions of MCP to run, found that they do not")
        self._is_wanted.set()
        opened = await asyncio.shield(self._opened)
        await opened.handle_request(scope, receive, send)


class _Endpoint:
    """Keeps what the sender may have signed, and hands the request on."""

    def __init__(self, sessions: _LateSessions) -> None:
        self._sessions = sessions

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["method"] != "POST":
            refusal = JSONResponse({"detail": _NO_SESSION}, 405, {"Allow": "POST"})
            await refusal(scope, receive, send)
            return
        try:
            facts = await facts_of(Request(scope, receive))
        except RequestProblem as problem:
            if problem.status_code != 400:  # noqa: PLR2004 - what the sender can send otherwise
                raise
            answer = _refusal(None, _INVALID_REQUEST, str(problem.detail))
            await JSONResponse(answer, 400)(scope, receive, send)
            return
        refused = await run_in_threadpool(refusal_of, facts.body)
        if refused is not None:
            status = 400 if refused["id"] is None else 200
            await JSONResponse(refused, status)(scope, receive, send)
            return
        scope[FACTS] = facts
        await self._sessions.handle(scope, _again(facts.body, receive), send)


def _again(body: bytes, receive: Receive) -> Receive:
    """A body that was read already, and whether the sender went away."""
    parts: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def next_part() -> Message:
        return parts.pop() if parts else await receive()

    return next_part
