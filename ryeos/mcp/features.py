"""What Rye offers over MCP: its tools, and directives and items as prompts and resources.

Nothing here is imported before it is asked for: the first answers need none of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from threading import Lock

from lillux.errors import LilluxError
from lillux.jsonrpc import INVALID_PARAMS
from ryeos.mcp.eras import RpcError
from ryeos.mcp.internal_errors import MESSAGE, Log, quiet, reported
from ryeos.mcp.lanes import Pace
from ryeos.mcp.session import Call, Server, Watch

TYPE_CHECKING = False  # `typing` is not worth its time at a start
if TYPE_CHECKING:  # the engine comes with the first call
    from typing import Any

    from lillux.process.cancellation import Cancellation
    from ryeos.app import Rye
    from ryeos.context import Context
    from ryeos.mcp.calling import Calling, Progress
    from ryeos.threads.starting import Program

_TRACE_FIELDS = ("traceparent", "tracestate", "baggage")


class RyeFeatures:
    """See `ryeos.mcp.stdio.Features`.

    rye      makes the public API; called once, when the first call needs it
    program  how this program is started once more, for runs in the background
    hold     keeps what may still be read of the program's own file
    profile  which tools are listed
    log      gets what nobody else is told
    """

    def __init__(
        self,
        rye: Callable[[], Rye],
        program: Callable[[Context], Program],
        hold: Callable[[], None],
        *,
        profile: str = "five",
        log: Log = quiet,
    ) -> None:
        self._make_rye, self._program, self._hold = rye, program, hold
        self._profile, self._log = profile, log
        self._rye: Rye | None = None
        self._rye_lock = Lock()

    @property
    def rye(self) -> Rye:
        """The public API for the server's own project. Raises LilluxError where there is none."""
        with self._rye_lock:  # or two calls would make one each
            if self._rye is None:
                self._rye = self._make_rye()
            return self._rye

    def began(self) -> None:
        """Import the engine while the client reads the first answer."""
        import ryeos.mcp.tools.execute  # noqa: F401 - for what it brings along

        self._hold()

    def close(self) -> None:
        """End warm workers."""
        if self._rye:
            self._rye.close()

    def watch(self, watch: Watch, changed: Callable[[str], None]) -> None:
        """Look out for changes."""

    def pace(self, call: Call) -> Pace:
        """What runs programs, what looks things up, and what needs no more than a table."""
        if call.method == "tools/list":
            return Pace.AT_ONCE
        is_execute = str(call.params.get("name")).endswith("execute")
        return Pace.LONG if call.method == "tools/call" and is_execute else Pace.SHORT

    def answer(self, call: Call, cancellation: Cancellation, progress: Progress) -> dict[str, Any]:
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
        self, call: Call, cancellation: Cancellation, progress: Progress
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
        from ryeos.envelope import error_envelope
        from ryeos.mcp.results import tool_result

        try:
            rye = self.rye
            return tool_result(self._tool_answer(rye, tool.name, arguments, calling), rye.context)
        except LilluxError as error:
            return tool_result(error_envelope(error))
        except Exception as error:  # noqa: BLE001 - a door: a model is told in the envelope
            reference = reported(error, self._log)
            hint = f"this is a bug in rye; standard error has more under {reference}"
            envelope = {"status": "error", "error": MESSAGE, "code": "INTERNAL"}
            return tool_result({**envelope, "error_ref": reference, "hint": hint})

    def _tool_answer(
        self, rye: Rye, name: str, arguments: Mapping[str, object], calling: Calling
    ) -> Mapping[str, Any]:
        if name != "execute":
            from ryeos.mcp.tools import answer

            return answer(rye, name, arguments).envelope
        from ryeos.mcp.tools.execute import execute

        return execute(rye, arguments, calling, self._program).envelope


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
