"""``/mcp``: the node as an MCP server, streamable HTTP without sessions, answers in JSON.

The door of the official SDK. A call of a tool is the request that it stands for, made in this
process; who makes it is found out from the HTTP request of the call, as for every route.
"""

import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

from fastapi import APIRouter, FastAPI
from mcp.server import Server, ServerRequestContext
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp_types import (
    CallToolRequestParams,
    CallToolResult,
    ListToolsResult,
    PaginatedRequestParams,
    TextContent,
    Tool as ListedTool,
)
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route
from starlette.types import Message, Receive, Scope, Send

from rye_services.auth.authenticator import Authenticator, RequestFacts
from rye_services.auth.callers import facts_of
from rye_services.auth.principal import Principal
from rye_services.node.mcp_messages import refusal_of
from rye_services.node.mcp_tools import TOOLS, Call, ToolNameError, call_of
from rye_services.node.services import NodeServices
from rye_services.scopes import EXECUTE
from ryeos import __version__
from ryeos.items.errors import ArgumentError

Answer = Callable[[Principal, Call], Mapping[str, Any]]
"""What answers the request of a call; it may take long, and runs in a thread. Raises Problem."""

PATHS = ("/mcp", "/mcp/")
_FACTS = "rye_facts"
_NO_SESSION = "this server keeps no sessions: send POST"


def router(services: NodeServices, answer: Answer) -> APIRouter:
    """The endpoint. It is in no OpenAPI document: its messages are those of MCP."""
    server = _server(services.authenticator, answer)
    sessions = StreamableHTTPSessionManager(
        server,
        stateless=True,
        json_response=True,
        max_request_body_size=services.settings.max_request_bytes,
    )

    @asynccontextmanager
    async def running(_: FastAPI) -> AsyncIterator[None]:
        async with sessions.run():
            yield

    routes = APIRouter(lifespan=running)
    for path in PATHS:
        routes.routes.append(Route(path, _Endpoint(sessions), include_in_schema=False))
    return routes


class _Endpoint:
    """Keeps what the sender may have signed, and hands the request on."""

    def __init__(self, sessions: StreamableHTTPSessionManager) -> None:
        self._sessions = sessions

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["method"] != "POST":
            refusal = JSONResponse({"detail": _NO_SESSION}, 405, {"Allow": "POST"})
            await refusal(scope, receive, send)
            return
        facts = await facts_of(Request(scope, receive))
        refused = await run_in_threadpool(refusal_of, facts.body)
        if refused is not None:
            status = 400 if refused["id"] is None else 200
            await JSONResponse(refused, status)(scope, receive, send)
            return
        scope[_FACTS] = facts
        await self._sessions.handle_request(scope, _again(facts.body, receive), send)


def _again(body: bytes, receive: Receive) -> Receive:
    """A body that was read already, and whether the sender went away."""
    parts: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def next_part() -> Message:
        return parts.pop() if parts else await receive()

    return next_part


def _server(authenticator: Authenticator, answer: Answer) -> Server[Any]:
    async def list_tools(
        _: ServerRequestContext[Any], __: PaginatedRequestParams | None
    ) -> ListToolsResult:
        return ListToolsResult(
            tools=[ListedTool.model_validate(one.describe()) for one in TOOLS.values()]
        )

    async def call_tool(
        context: ServerRequestContext[Any], call: CallToolRequestParams
    ) -> CallToolResult:
        if context.request is None:
            raise RuntimeError("expected the HTTP request of a call, found none")
        facts: RequestFacts = context.request.scope[_FACTS]
        return await run_in_threadpool(_called, authenticator, answer, facts, call)

    return Server(
        "rye-node",
        version=__version__,
        title="Rye node",
        instructions=(
            "Executes signed items of projects that were pushed to this node. Send an API key as"
            " Authorization: Bearer with each call."
        ),
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )


def _called(
    authenticator: Authenticator, answer: Answer, facts: RequestFacts, call: CallToolRequestParams
) -> CallToolResult:
    """The result of a call; what is refused is a result too, in words that a model can act on."""
    try:
        principal = authenticator.principal(facts)
        principal.require(EXECUTE)
        return _result(answer(principal, call_of(call.name, call.arguments or {})))
    except HTTPException as error:
        return _refused(f"HTTP_{error.status_code}", error.detail)
    except ToolNameError as error:
        return _refused("TOOL_NOT_FOUND", str(error))
    except ArgumentError as error:
        return _refused(error.code, str(error), hint=error.hint)


def _refused(code: str, detail: object, hint: str = "") -> CallToolResult:
    told = detail if isinstance(detail, str) else json.dumps(detail)
    return _result(
        {"status": "error", "code": code, "error": told} | ({"hint": hint} if hint else {})
    )


def _result(answer: Mapping[str, Any]) -> CallToolResult:
    return CallToolResult(
        content=[TextContent(type="text", text=json.dumps(answer))],
        structured_content=dict(answer),
        is_error=answer.get("status") == "error",
    )
