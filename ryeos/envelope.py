"""The one shape of every answer: ``{"status": ...}``, errors with ``code``, ``error``, ``hint``.

The command line's ``--json``, and later the MCP server and the node, send exactly this. Keys only
grow. See ``docs/reference/envelope.md``.
"""

from collections.abc import Mapping
from typing import Any

from lillux.errors import LilluxError
from lillux.values import dataclass
from ryeos.errors import RyeError

EXIT_BY_CODE = {"TIMEOUT": 124, "CANCELLED": 130}
TOOL_FAILED = 1


@dataclass(frozen=True, slots=True)
class Answer:
    """An envelope and the status that a command ends with."""

    envelope: Mapping[str, Any]
    exit_status: int = 0


def error_envelope(error: LilluxError) -> dict[str, Any]:
    """The envelope of a failure."""
    envelope: dict[str, Any] = {"status": "error", "error": str(error), "code": error.code}
    if error.exit_status == 4:  # noqa: PLR2004 - the status of every trust failure
        envelope["error_type"] = "integrity"
    path = getattr(error, "path", None)
    if isinstance(path, str):
        envelope["path"] = path
    if isinstance(error, RyeError):
        if error.details:
            envelope["details"] = list(error.details)
        if error.suggestions:
            envelope["suggestions"] = list(error.suggestions)
    envelope |= error.facts or {}
    if error.hint:
        envelope["hint"] = error.hint
    return envelope


def error_answer(error: LilluxError) -> Answer:
    """The answer for a failure."""
    return Answer(error_envelope(error), error.exit_status)
