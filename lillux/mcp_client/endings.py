"""From the end of a conversation to its answer, or to the error that says why there is none."""

from lillux.mcp_client.errors import McpProtocolError, McpRefusedError
from lillux.mcp_client.session import Answer, Misunderstanding, Outcome, Refusal


def raise_unless_answered(outcome: Outcome | None, server: str) -> Answer:
    """The answer. Raises McpRefusedError, McpProtocolError."""
    match outcome:
        case Answer():
            return outcome
        case Refusal():
            raise _refused(outcome, server)
        case Misunderstanding():
            raise McpProtocolError(server, outcome.problem)
        case None:
            raise McpProtocolError(server, "the conversation ended without an answer")


def _refused(refusal: Refusal, server: str) -> McpRefusedError:
    message = " ".join(refusal.message.split())[:2000]
    if refusal.stage not in ("tools/call", "tools/list"):
        message = f"{refusal.stage} was refused: {message}"
    return McpRefusedError(server, refusal.code, message)
