"""Results of calls as nodes see them, and the kinds of failures.

Pure. See ``docs/graphs.md``.
"""

import re
from collections.abc import Mapping
from typing import Any

# What an envelope says about itself and not about what the item gave.
_ABOUT = frozenset({"chain", "metadata", "path", "source", "resolved_env_keys", "trace"})
_RETRYABLE_CODES = {
    "TIMEOUT": "timeout",
    "HTTP_UNREACHABLE": "connection",
    "HTTP_BROKEN": "connection",
}
_STATUS = re.compile(r"\b(?:HTTP|status)\D{0,12}(\d{3})\b", re.IGNORECASE)
_CONNECTION = re.compile(
    r"connection (?:refused|reset|aborted|closed)|temporarily unavailable"
    r"|name or service not known|timed? ?out|unreachable",
    re.IGNORECASE,
)
TOO_MANY, SERVER_ERRORS = 429, range(500, 600)


def unwrapped(envelope: object) -> dict[str, Any]:
    """The values that expressions see as ``result``.

    The tool's own object where there is one; any other value is ``{"result": value}``. A failure
    has ``status: error`` and an ``error``.
    """
    if not isinstance(envelope, Mapping):
        return {} if envelope is None else {"result": envelope}
    own = {name: value for name, value in envelope.items() if name not in _ABOUT}
    data = envelope.get("data")
    if isinstance(data, Mapping):
        result = dict(data)
    elif "data" in envelope:
        result = {} if data is None else {"result": data}
    else:
        result = own
    if envelope.get("status") == "error" or result.get("success") is False:
        result["status"] = "error"
        result["error"] = error_text(result.get("error") or envelope.get("error"))
        # Of Rye's own failure the file that it is about, and what to do.
        for name in ("code", "path", "hint"):
            if name in envelope:
                result.setdefault(name, envelope[name])
    return result


def failed(error: str, code: str) -> dict[str, Any]:
    """The result of a call that was not made."""
    return {"status": "error", "error": error, "code": code}


def error_text(error: object) -> str:
    """An error as text."""
    if isinstance(error, str) and error:
        return error
    return "the call failed and gave no reason" if not error else str(error)


def classified(result: Mapping[str, Any]) -> dict[str, Any]:
    """``{"category", "retryable", "code"}`` of a failed result.

    Time-outs, connections, 429 and 5xx may be tried again; a cancelled call is ``cancelled``;
    everything else is ``permanent``, also all that ends a thread of a model: it has tried what can
    be tried, within its purse.
    """
    code = str(result.get("code", ""))
    if result.get("type") == "thread" and "thread_id" in result:
        return {"category": "permanent", "retryable": False, "code": code}
    if code == "CANCELLED":
        return {"category": "cancelled", "retryable": False, "code": code}
    category = _RETRYABLE_CODES.get(code) or _by_number(result) or _by_words(result)
    return {"category": category or "permanent", "retryable": bool(category), "code": code}


def _by_number(result: Mapping[str, Any]) -> str:
    number = result.get("status_code")
    if not isinstance(number, int) or isinstance(number, bool):
        found = _STATUS.search(str(result.get("error", ""))[:1000])
        number = int(found[1]) if found else 0
    if number == TOO_MANY:
        return "rate_limit"
    return "server" if number in SERVER_ERRORS else ""


def _by_words(result: Mapping[str, Any]) -> str:
    found = _CONNECTION.search(str(result.get("error", ""))[:1000])
    return "connection" if found else ""
