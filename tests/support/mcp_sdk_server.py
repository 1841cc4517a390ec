"""An MCP server written with the official Python SDK, as its first argument says:

``stdio``, or over HTTP ``stream``, ``json``, ``stateless``, ``sse``; then its port is the first
line of its standard output.
"""

import asyncio
import json
import os
import socket
import sys

from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError

server = MCPServer("rye-tests", log_level="ERROR")


@server.tool()
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@server.tool()
def document() -> str:
    """A text that is JSON."""
    return json.dumps({"title": "a page", "success": "its own word"})


@server.tool()
def fail(reason: str) -> str:
    """Fail, in the tool's own words."""
    raise ToolError(reason)


@server.tool()
async def slow(seconds: float) -> str:
    """Take a while."""
    await asyncio.sleep(seconds)
    return "done"


@server.tool()
async def progress(ctx: Context) -> str:
    """Say how far it is."""
    await ctx.report_progress(1, 2, "half of it")
    return "all of it"


@server.tool()
def big(size: int) -> str:
    """Give a long text."""
    return "x" * size


@server.tool()
def variable(name: str) -> str:
    """Give a variable of the environment."""
    return os.environ.get(name, "")


@server.tool()
def header(name: str, ctx: Context) -> str:
    """Give a header of the request that this call came in."""
    return str((ctx.headers or {}).get(name, ""))


def listen(kind: str) -> None:
    """Serve over HTTP, on a port that is free."""
    import uvicorn

    if kind == "sse":
        app = server.sse_app()
    else:
        app = server.streamable_http_app(
            stateless_http=kind == "stateless", json_response=kind == "json"
        )
    listening = socket.socket()
    listening.bind(("127.0.0.1", 0))
    listening.listen()
    print(listening.getsockname()[1], flush=True)  # noqa: T201 - the parent process reads this
    uvicorn.Server(uvicorn.Config(app, log_level="error")).run(sockets=[listening])


if sys.argv[1] == "stdio":
    server.run("stdio")
else:
    listen(sys.argv[1])
