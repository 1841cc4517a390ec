"""The door of the official SDK of MCP: what it answers for ``/mcp`` of a node.

A module of its own because it comes in late: see `rye_services.node.mcp`.
"""

import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qsl

from mcp.server import Server, ServerRequestContext
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp_types import (
    CallToolRequestParams,
    CallToolResult,
    ListToolsResult,
    PaginatedRequestParams,
    TextContent,
)
from mcp_types import Tool as ListedTool
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException

from rye_services.node.mcp import FACTS, TOOLS, Answer, ToolNameError, call_of
from rye_services.people.callers import Authenticator, RequestFacts
from rye_services.people.credentials import EXECUTE, Role
from ryeos import __version__
from ryeos.items.errors import VerbArgumentError


def sessions_of(
    authenticator: Authenticator, answer: Answer, *, max_request_bytes: int
) -> StreamableHTTPSessionManager:
    """What handles messages: without sessions, one answer of JSON to each."""
    return StreamableHTTPSessionManager(
        _server(authenticator, answer),
        stateless=True,
        json_response=True,
        max_request_body_size=max_request_bytes,
    )


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
        facts: RequestFacts = context.request.scope[FACTS]
        return await run_in_threadpool(_call_tool, authenticator, answer, facts, call)

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


def _call_tool(
    authenticator: Authenticator, answer: Answer, facts: RequestFacts, call: CallToolRequestParams
) -> CallToolResult:
    """The result of a call; what is refused is a result too, in words that a model can act on."""
    try:
        named = dict(parse_qsl(facts.query)).get("owner")
        principal = authenticator.owner(facts, EXECUTE, named, Role.RUN)
        return _result(answer(principal, call_of(call.name, call.arguments or {})))
    except HTTPException as error:
        return _refusal_result(f"HTTP_{error.status_code}", error.detail)
    except ToolNameError as error:
        return _refusal_result("TOOL_NOT_FOUND", str(error))
    except VerbArgumentError as error:
        return _refusal_result(error.code, str(error), hint=error.hint)


def _refusal_result(code: str, detail: object, hint: str = "") -> CallToolResult:
    text = detail if isinstance(detail, str) else json.dumps(detail)
    return _result(
        {"status": "error", "code": code, "error": text} | ({"hint": hint} if hint else {})
    )


def _result(answer: Mapping[str, Any]) -> CallToolResult:
    return CallToolResult(
        content=[TextContent(type="text", text=json.dumps(answer))],
        structured_content=dict(answer),
        is_error=answer.get("status") == "error",
    )
