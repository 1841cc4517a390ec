"""The outcome of a process as a result. Pure.

(1) the whole standard output as JSON of any type, else its last line as a JSON object, else text
(2) a failure is a non-zero exit, ``success: false`` or ``status: "error"`` in an object
    (with ``success: false`` its ``code`` is that of the result, else that is EXECUTION_FAILED)
(3) the error text: the tool's own, else its standard error unless a signal ended it (of a
    traceback the last line), else how it ended
"""

import json
import re
from math import isfinite
from typing import Any, NoReturn

from lillux.patterns import pattern
from lillux.process.model import CapturedStream, Outcome, signal_name
from lillux.values import dataclass, field

STDERR_TAIL_CHARACTERS = 8192
_CODE = pattern(r"[A-Z][A-Z0-9_]{1,63}")
_OF_THE_EXECUTOR = frozenset({"TIMEOUT", "CANCELLED"})


@dataclass(frozen=True, slots=True, kw_only=True)
class MappedResult:
    """The part of a result that depends on the process alone. ``code`` is set for a failure."""

    success: bool
    data: Any
    error: str | None
    code: str
    metadata: dict[str, Any] = field(default_factory=dict)


def map_outcome(
    outcome: Outcome, timeout_s: float | None, *, is_text: bool = False
) -> MappedResult:
    """The result of a finished process; ``is_text`` says that its output is never read as JSON."""
    stdout, stderr = _text(outcome.stdout), _text(outcome.stderr)
    metadata = _metadata(outcome, stderr)
    interruption = _interruption(outcome, timeout_s)
    if interruption:
        code, words = interruption
        text = {"stdout": stdout, "stderr": f"{words}\n{stderr}".rstrip(), "return_code": -1}
        return MappedResult(success=False, data=text, error=words, code=code, metadata=metadata)
    if outcome.stdout.truncated:
        return _too_large(outcome, stdout, stderr, metadata)
    data, preamble = (_NotJson(), "") if is_text else parse_output(stdout)
    if preamble:
        metadata["stdout_preamble"] = preamble
    if isinstance(data, _NotJson):
        data = {"stdout": stdout, "stderr": stderr, "return_code": _return_code(outcome)}
        own_failure, own_error = False, ""
    else:
        own_failure, own_error = _declared_failure(data)
    success = outcome.exit_code == 0 and not own_failure
    error = None if success else own_error or _own_words(outcome, stderr) or ending(outcome)
    return MappedResult(
        success=success,
        data=data,
        error=error,
        code="" if success else _declared_code(data) or "EXECUTION_FAILED",
        metadata=metadata,
    )


class _NotJson:
    """The output is plain text."""


def parse_output(stdout: str) -> tuple[Any, str]:
    """The JSON in a tool's output, and what stands before it; `_NotJson` for plain text."""
    whole = _json(stdout)
    if not isinstance(whole, _NotJson):
        return whole, ""
    before, _, last = stdout.rstrip().rpartition("\n")
    value = _json(last) if before else _NotJson()
    return (value, before) if isinstance(value, dict) else (_NotJson(), "")


def json_or(text: str, otherwise: object) -> Any:  # noqa: ANN401 - JSON passes through
    """The value that a text is the JSON of, else ``otherwise``.

    Some servers begin all that they send with a byte order mark.
    """
    value = _json(text.removeprefix("\ufeff"))
    return otherwise if isinstance(value, _NotJson) else value


def _json(text: str) -> Any:  # noqa: ANN401 - JSON passes through
    if not text.strip():
        return _NotJson()
    try:
        return json.loads(text, parse_constant=_refuse, parse_float=_finite)
    except (ValueError, RecursionError):
        return _NotJson()


def _refuse(constant: str) -> NoReturn:
    raise ValueError(constant)


def _finite(number: str) -> float:
    """The number; one like 1e999 would come out as infinity, which is no JSON."""
    value = float(number)
    return value if isfinite(value) else _refuse(number)


def _declared_failure(data: object) -> tuple[bool, str]:
    if not isinstance(data, dict):
        return False, ""
    failed = data.get("success") is False or data.get("status") == "error"
    error = data.get("error") or ""
    return failed, error if isinstance(error, str) else json.dumps(error, ensure_ascii=False)


def _declared_code(data: object) -> str:
    """The tool's own code for its failure, unless it is one that says who ended a run."""
    code = data.get("code") if isinstance(data, dict) and data.get("success") is False else None
    is_code = isinstance(code, str) and _CODE.fullmatch(code) is not None
    return code if isinstance(code, str) and is_code and code not in _OF_THE_EXECUTOR else ""


def _too_large(
    outcome: Outcome, stdout: str, stderr: str, metadata: dict[str, Any]
) -> MappedResult:
    error = (
        f"output too large: {outcome.stdout.total_bytes} bytes on standard output,"
        f" of which {outcome.stdout.left_out_bytes} were left out;"
        " let the tool write a file, or raise its config.max_output_bytes"
    )
    return MappedResult(
        success=False,
        data={"stdout": stdout, "stderr": stderr, "return_code": _return_code(outcome)},
        error=error,
        code="RESOURCE_EXCEEDED",
        metadata=metadata,
    )


def _interruption(outcome: Outcome, timeout_s: float | None) -> tuple[str, str] | None:
    if outcome.timed_out:
        return "TIMEOUT", f"Command timed out after {timeout_s:g} seconds"
    if outcome.cancelled:
        return "CANCELLED", "Command was cancelled"
    return None


def _metadata(outcome: Outcome, stderr: str) -> dict[str, Any]:
    metadata: dict[str, Any] = {"return_code": _return_code(outcome)}
    if outcome.signal is not None:
        metadata["signal"] = signal_name(outcome.signal)
    if stderr:
        metadata["stderr"] = stderr[-STDERR_TAIL_CHARACTERS:]
    if outcome.stdout.truncated or outcome.stderr.truncated:
        metadata["truncated"] = {
            "stdout": outcome.stdout.truncated,
            "stderr": outcome.stderr.truncated,
            "stdout_bytes": outcome.stdout.total_bytes,
            "stderr_bytes": outcome.stderr.total_bytes,
        }
    return metadata


def _own_words(outcome: Outcome, stderr: str) -> str:
    """The words of a program that failed; one that was ended by a signal said something else."""
    return "" if outcome.signal is not None else cause_in(stderr) or stderr.strip()


TRACEBACK = "Traceback (most recent call last):"
# Compiled when they are first needed: most runs do not fail.
# What Node.js writes of an uncaught error.
_NODE_ERROR = r"(?m)^(?:Uncaught )?(\w*(?:Error|Exception)\b.*)\n {4}at "
_MAX_CAUSE = 500


def cause_in(stderr: str) -> str:
    """The error at the end of the traceback that a program left last; ``""`` without one."""
    found = stderr.rfind(TRACEBACK)
    if found < 0 or stderr[:found].rpartition("\n")[2]:
        node = re.findall(_NODE_ERROR, stderr)
        return str(node[-1])[:_MAX_CAUSE] if node else ""
    lines = stderr[found:].splitlines()[1:]
    said = next((n for n, line in enumerate(lines) if line and not line[0].isspace()), None)
    return "" if said is None else "\n".join(lines[said:]).strip()[:_MAX_CAUSE]


def ending(outcome: Outcome) -> str:
    """The end of a program that gave no reason, in words."""
    if outcome.signal is not None:
        return f"terminated by signal {signal_name(outcome.signal)}"
    if outcome.exit_code == 0:
        return "the tool reported a failure and gave no reason"
    return f"Process exited with code {outcome.exit_code}"


def _return_code(outcome: Outcome) -> int:
    return -1 if outcome.exit_code is None else outcome.exit_code


def _text(captured: CapturedStream) -> str:
    return captured.data.decode("utf-8", "replace")
