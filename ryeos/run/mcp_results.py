"""Results of MCP servers: from an answer to what a caller gets. Pure. Shapes: ``docs/mcp.md``."""

import json
from collections.abc import Mapping
from typing import Any

from lillux.errors import LilluxError
from lillux.mcp_client.errors import McpClientError
from lillux.mcp_client.session import ToolAnswer
from ryeos.run.outcomes import STDERR_TAIL_CHARACTERS, MappedResult


def map_answer(tool_name: str, answer: ToolAnswer, metadata: Mapping[str, Any]) -> MappedResult:
    """``{success, tool, content, isError, structuredContent?}``; a lone JSON text is lifted."""
    result = answer.result
    content = result.get("content", [])
    is_error = result.get("isError", False)
    data: dict[str, Any] = {
        "success": not is_error,
        "tool": tool_name,
        "content": content,
        "isError": is_error,
    }
    if "structuredContent" in result:
        data["structuredContent"] = result["structuredContent"]
    parsed = _only_json(content)
    if parsed is not None:
        data["parsed"] = parsed
        if isinstance(parsed, dict):
            data = {**parsed, **data}
    error = None
    if is_error:
        error = _text(content) or f"{tool_name} reported a failure and gave no reason"
        data["error"] = error
    return MappedResult(
        success=not is_error,
        data=data,
        error=error,
        code="EXECUTION_FAILED" if is_error else "",
        metadata={**metadata, "protocol_version": answer.version},
    )


def map_listing(answer: ToolAnswer, metadata: Mapping[str, Any]) -> MappedResult:
    """``{success, tools, truncated}``, the tools as the server describes them."""
    return MappedResult(
        success=True,
        data={"success": True, **answer.result},
        error=None,
        code="",
        metadata={**metadata, "protocol_version": answer.version},
    )


def map_failure(
    tool_name: str, error: LilluxError, where: Mapping[str, Any], metadata: Mapping[str, Any]
) -> MappedResult:
    """A conversation that gave no answer: ``{success, tool, error, error_type, url|command}``."""
    kind = error.kind if isinstance(error, McpClientError) else "transport"
    data = {
        "success": False,
        "tool": tool_name,
        "error": str(error),
        "error_type": kind,
        **where,
    }
    return MappedResult(
        success=False, data=data, error=str(error), code=error.code, metadata=dict(metadata)
    )


def stderr_tail(text: str) -> dict[str, str]:
    """The end of a standard error, for the metadata."""
    return {"stderr": text[-STDERR_TAIL_CHARACTERS:]} if text else {}


def _only_json(content: list[Mapping[str, Any]]) -> Any:  # noqa: ANN401 - JSON passes through
    """The JSON in the only block of a content, None where it is something else."""
    if len(content) != 1 or content[0].get("type") != "text":
        return None
    text = content[0].get("text")
    if not isinstance(text, str):
        return None
    try:
        return json.loads(text.removeprefix("\ufeff"))
    except (ValueError, RecursionError):
        return None


def _text(content: list[Mapping[str, Any]]) -> str:
    texts = (block.get("text") for block in content if block.get("type") == "text")
    return "\n".join(text for text in texts if isinstance(text, str)).strip()
