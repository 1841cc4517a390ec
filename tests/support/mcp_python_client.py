"""A client in Python that uses a Rye server and reports what it saw.

``mcp_python_client.py LIBRARY MODE COMMAND...``: LIBRARY is ``mcp``, the official SDK, or
``fastmcp``; MODE is theirs. Prints one object, the same as `mcp_client.mjs`.
"""

import json
import os
import sys
from pathlib import Path
from typing import Any

import anyio
from mcp import MCPError
from mcp.shared.dispatcher import ProgressFnT
from pydantic import BaseModel

Json = dict[str, Any]
BASH = "rye/bash/bash"
HERE = Path.cwd()
HALF = """echo '::rye-progress {"progress": 1, "total": 2, "message": "half"}' >&2"""
WHOLE = """echo '::rye-progress {"progress": 2, "total": 2}' >&2"""
# Ends as soon as the process is gone whose id is in the file, which is what a cancelled call means.
UNTIL_THERE = 'until [ -e "{0}" ]; do sleep 0.05; done'
UNTIL_GONE = (
    'read -r pid < "{0}"; while kill -0 "$pid" 2> /dev/null; do sleep 0.05; done; echo gone'
)


class Official:
    """The official SDK."""

    def __init__(self, mode: str, command: list[str]) -> None:
        from mcp import Client, StdioServerParameters

        parameters = StdioServerParameters(
            command=command[0], args=command[1:], env=dict(os.environ)
        )
        self.client = Client(parameters, mode=mode)

    async def names(self) -> list[str]:
        return [tool.name for tool in (await self.client.list_tools()).tools]

    async def call(
        self, name: str, arguments: Json, progress: ProgressFnT | None = None
    ) -> BaseModel:
        return await self.client.call_tool(name, arguments, progress_callback=progress)


class Fast:
    """The client of ``fastmcp``."""

    def __init__(self, mode: str, command: list[str]) -> None:
        # Not in the environment of the checks: it cannot live beside the pinned SDK.
        from fastmcp import Client  # type: ignore[import-not-found]
        from fastmcp.client.transports import StdioTransport  # type: ignore[import-not-found]

        transport = StdioTransport(command[0], command[1:], env=dict(os.environ), keep_alive=False)
        self.client = Client(transport, mode=mode)

    async def names(self) -> list[str]:
        return [tool.name for tool in await self.client.list_tools()]

    async def call(
        self, name: str, arguments: Json, progress: ProgressFnT | None = None
    ) -> BaseModel:
        called = self.client.call_tool_mcp(name, arguments, progress_handler=progress)
        result: BaseModel = await called
        return result


Library = Official | Fast


async def bash(library: Library, command: str, progress: ProgressFnT | None = None) -> Json:
    arguments = {"item_id": BASH, "parameters": {"command": command}}
    return seen(await library.call("execute", arguments, progress))


def seen(result: BaseModel) -> Json:
    """A result of a tool as the server sent it."""
    return result.model_dump(mode="json", by_alias=True)


async def first_progress(library: Library) -> float:
    """The first progress that is reported; the tool waits until it has been received."""
    heard = HERE / "heard"
    reported = []

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        reported.append(progress)
        heard.touch()

    await bash(library, f"{HALF}; {UNTIL_THERE.format(heard)}; {WHOLE}", on_progress)
    return reported[0]


async def cancelled(library: Library) -> str:
    """The state of the process of a call that was cancelled after its first progress."""
    pid_file = HERE / "pid"
    with anyio.CancelScope() as scope:

        async def on_progress(progress: float, total: float | None, message: str | None) -> None:
            scope.cancel()

        await bash(library, f'echo "$$" > "{pid_file}"; {HALF}; exec sleep 600', on_progress)
    return output(await bash(library, UNTIL_GONE.format(pid_file)))


async def unknown(library: Library) -> int:
    try:
        await library.call("no_such_tool", {})
    except MCPError as error:
        return error.error.code
    return 0


def output(result: Json) -> str:
    return str(result["structuredContent"]["data"]["stdout"]).strip()


async def try_out(library: Library) -> None:
    async with library.client:
        found = await library.call("search", {"query": "bash", "scope": "tool"})
        succeeded = await bash(library, "echo hello")
        failed = await bash(library, "exit 3")
        refused = seen(await library.call("load", {"item_type": "tool", "item_id": "no/such"}))
        report = {
            "tools": await library.names(),
            "found": BASH in json.dumps(seen(found)["structuredContent"]),
            "succeeded": [bool(succeeded["isError"]), output(succeeded)],
            "failed": [failed["isError"], failed["structuredContent"]["status"]],
            "refused": [refused["isError"], refused["structuredContent"]["code"]],
            "unknown": await unknown(library),
            "progress": await first_progress(library),
            "cancelled": await cancelled(library),
        }
    sys.stdout.write(json.dumps(report))


if __name__ == "__main__":
    kind: type[Library] = Fast if sys.argv[1] == "fastmcp" else Official
    anyio.run(try_out, kind(sys.argv[2], sys.argv[3:]))
