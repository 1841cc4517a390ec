"""Errors of calls of MCP servers, and the end of a conversation as one."""

from lillux.errors import LilluxError
from lillux.mcp_client.session import CallOutcome, InvalidAnswer, Refusal, Rejection, ToolAnswer


class McpClientError(LilluxError):
    """A conversation that gave no answer of the tool. ``server`` is its command or address.

    ``kind`` is one word for programs: timeout, cancelled, transport, protocol, server, auth.
    """

    code, exit_status = "EXECUTION_FAILED", 1
    kind = "transport"

    def __init__(self, server: str, problem: str, *, hint: str = "") -> None:
        self.server, self.problem = server, problem
        super().__init__(f"MCP server {server}: {problem}", hint=hint)


class McpServerEndedError(McpClientError):
    """The server's process ended, or closed its output, before it had answered.

    ``ending`` says how; ``was_probed`` that it had been asked nothing but for its revisions;
    ``noise`` is what it wrote that is no message.
    """

    def __init__(
        self, server: str, ending: str, stderr: str, *, was_probed: bool, noise: str = ""
    ) -> None:
        self.ending, self.stderr, self.was_probed = ending, stderr, was_probed
        last = stderr.strip().rpartition("\n")[2] or noise
        super().__init__(
            server,
            f"{ending} before it answered" + (f": {last[:500]}" if last else ""),
            hint="run the server by itself and look at what it writes",
        )


class McpTimeoutError(McpClientError):
    """No answer in time. ``stage`` is what was being waited for."""

    code, exit_status = "TIMEOUT", 124
    kind = "timeout"

    def __init__(
        self, server: str, stage: str, timeout_s: float, *, noise: str = "", hint: str = ""
    ) -> None:
        self.stage, self.timeout_s = stage, timeout_s
        problem = f"{stage}: no answer within {timeout_s:g} seconds"
        wrote = f"; what it wrote is no message of MCP: {noise}" if noise else ""
        super().__init__(server, problem + wrote, hint=hint)


class McpCancelledError(McpClientError):
    """The caller asked for the end."""

    code, exit_status = "CANCELLED", 130
    kind = "cancelled"

    def __init__(self, server: str) -> None:
        super().__init__(server, "the call was cancelled")


class McpAnswerTooLargeError(McpClientError):
    """A message of the server is larger than allowed."""

    code = "RESOURCE_EXCEEDED"

    def __init__(self, server: str, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        super().__init__(
            server,
            f"output too large: expected a message of at most {max_bytes} bytes, got more",
            hint="ask the tool for less, or raise config.max_output_bytes",
        )


class McpProtocolError(McpClientError):
    """The server speaks another language, or another revision of it."""

    kind = "protocol"


class McpRefusedError(McpClientError):
    """The server answered with an error. ``rpc_code`` is its number, ``stage`` what it refused."""

    kind = "server"

    def __init__(self, server: str, rpc_code: int, message: str, *, stage: str = "") -> None:
        self.rpc_code, self.message, self.stage = rpc_code, message, stage
        super().__init__(server, f"{message} ({rpc_code})")


class McpAuthError(McpClientError):
    """The server wants other credentials. ``status`` is its HTTP status."""

    code, exit_status = "AUTH_FAILED", 7
    kind = "auth"

    def __init__(self, server: str, status: int) -> None:
        self.status = status
        super().__init__(
            server,
            f"it refuses the credentials (HTTP {status})",
            hint="put them into the headers of the server item, like Authorization",
        )


def raise_unless_answered(outcome: CallOutcome | None, server: str) -> ToolAnswer:
    """The answer. Raises McpRefusedError, McpProtocolError, and what a call requires."""
    match outcome:
        case ToolAnswer():
            return outcome
        case Rejection():
            raise outcome.error
        case Refusal():
            raise _refusal_error(outcome, server)
        case InvalidAnswer():
            raise McpProtocolError(server, outcome.problem)
        case None:
            raise McpProtocolError(server, "the conversation ended without an answer")


def _refusal_error(refusal: Refusal, server: str) -> McpRefusedError:
    message = " ".join(refusal.message.split())[:2000]
    if refusal.stage not in ("tools/call", "tools/list"):
        message = f"{refusal.stage} was refused: {message}"
    return McpRefusedError(server, refusal.code, message, stage=refusal.stage)
