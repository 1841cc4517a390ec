"""What Rye offers over MCP: its tools, and directives and items as prompts and resources.

Nothing here is imported before it is asked for: the first answers need none of it.
"""

import json
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

from lillux.errors import LilluxError
from lillux.jsonrpc import INVALID_PARAMS
from lillux.process.cancellation import Cancellation
from ryeos.mcp.eras import RpcError
from ryeos.mcp.session import Call, Server, Watch

if TYPE_CHECKING:  # the engine comes with the first call
    from ryeos.app import Rye
    from ryeos.context import Context
    from ryeos.envelope import Answer
    from ryeos.mcp.calling import Calling, Progress
    from ryeos.mcp.outputs import Kept
    from ryeos.threads.starting import Program

_TRACE_FIELDS = ("traceparent", "tracestate", "baggage")
_MEDIA = "mcp_content"


class RyeFeatures:
    """See `ryeos.mcp.stdio.Features`.

    rye      makes the public API; called once, when the first call needs it
    program  how this program is started once more, for runs in the background
    hold     keeps what may still be read of the program's own file
    profile  which tools are listed
    """

    def __init__(
        self,
        rye: "Callable[[], Rye]",
        program: "Callable[[Context], Program]",
        hold: Callable[[], None],
        *,
        profile: str = "five",
    ) -> None:
        self._make_rye, self._program, self._hold = rye, program, hold
        self._profile = profile

    @cached_property
    def rye(self) -> "Rye":
        """The public API for the server's own project."""
        return self._make_rye()

    def began(self) -> None:
        """Import the engine while the client reads the first answer."""
        import ryeos.mcp.tools.execute  # noqa: F401 - for what it brings along

        self._hold()

    def close(self) -> None:
        """End warm workers."""
        if "rye" in self.__dict__:
            self.rye.close()

    def watch(self, watch: Watch, changed: Callable[[str], None]) -> None:
        """Look out for changes."""

    def answer(
        self, call: Call, cancellation: Cancellation, progress: "Progress"
    ) -> dict[str, Any]:
        """The result of a call. Raises RpcError."""
        match call.method:
            case "tools/list":
                from ryeos.mcp.tool_table import listed

                return {"tools": listed(self._profile)}
            case "tools/call":
                return self._call_tool(call, cancellation, progress)
        raise RpcError(INVALID_PARAMS, f"nothing answers {call.method}")

    # ------------------------------------------------------------------ tools

    def _call_tool(
        self, call: Call, cancellation: Cancellation, progress: "Progress"
    ) -> dict[str, Any]:
        from ryeos.mcp.calling import Calling
        from ryeos.mcp.tool_table import tool_named

        name, arguments = call.params.get("name"), call.params.get("arguments", {})
        if not isinstance(name, str):
            raise RpcError(INVALID_PARAMS, "name: expected a string")
        if not isinstance(arguments, dict):
            raise RpcError(INVALID_PARAMS, "arguments: expected an object")
        tool = tool_named(name)
        if tool is None:
            raise RpcError(INVALID_PARAMS, f"unknown tool: {name[:200]}")
        calling = Calling(
            cancellation=cancellation,
            progress=progress,
            wants_progress=call.caller.progress_token is not None,
            extra_env=_trace_variables(call.caller.meta),
        )
        return self._tool_result(self._tool_answer(tool.name, arguments, calling))

    def _tool_answer(
        self, name: str, arguments: Mapping[str, object], calling: "Calling"
    ) -> "Answer":
        if name != "execute":
            from ryeos.mcp.tools import answer

            return answer(self.rye, name, arguments)
        from ryeos.envelope import error_answer
        from ryeos.mcp.tools.execute import execute

        try:
            return execute(self.rye, arguments, calling, self._program)
        except LilluxError as error:
            return error_answer(error)

    def _tool_result(self, answer: "Answer") -> dict[str, Any]:
        from ryeos.mcp.outputs import windowed

        envelope, kept = dict(answer.envelope), None
        try:
            envelope, kept = windowed(envelope, self.rye.context)
        except LilluxError as error:  # nowhere to keep it: then it goes out whole
            envelope["warnings"] = [*envelope.get("warnings", ()), str(error)]
        text = json.dumps(envelope, ensure_ascii=False, separators=(",", ":"), default=str)
        structure = json.loads(text)
        return {
            "content": [{"type": "text", "text": text}, *_media(structure), *_links(kept)],
            "structuredContent": structure,
            "isError": envelope.get("status") == "error",
        }


def server(version: str, project: str | None) -> Server:
    """What this server says of itself."""
    where = f"The project is {project}." if project else "There is no project here."
    return Server(
        info={"name": "rye", "title": "Rye OS", "version": version},
        instructions=(
            "Rye runs signed items: tools, directives (instructions for you) and knowledge, found"
            " by id in three spaces: project, user, system. search finds items; load reads one, or"
            " copies it to a space to change it; execute runs a tool, or gives you a directive to"
            " carry out; sign signs an item after a change, since nothing unsigned runs; help"
            f" explains. {where}"
        ),
        capabilities={"tools": {}},
        methods={"tools/list": "tools", "tools/call": "tools"},
    )


def _trace_variables(meta: Mapping[str, Any]) -> dict[str, str]:
    """What joins the processes of a call to the trace of its caller."""
    found = {name.upper(): meta.get(name) for name in _TRACE_FIELDS}
    return {
        name: value
        for name, value in found.items()
        if isinstance(value, str) and value.isprintable()
    }


def _media(envelope: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Content blocks that the tool itself gave."""
    data = envelope.get("data")
    blocks = data.get(_MEDIA) if isinstance(data, dict) else None
    if not isinstance(blocks, list):
        return []
    known = {"text", "image", "audio", "resource_link"}
    return [block for block in blocks if isinstance(block, dict) and block.get("type") in known]


def _links(kept: "Kept | None") -> list[dict[str, Any]]:
    if kept is None:
        return []
    return [
        {
            "type": "resource_link",
            "uri": kept.uri,
            "name": kept.path.name,
            "mimeType": "text/plain",
            "size": kept.size_bytes,
        }
    ]
