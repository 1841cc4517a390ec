"""Failures of a call of a model: one class, whatever the provider and its words. Pure.

What a provider says is foreign text: it is shown on one line and cut. Whether it is worth to try
again is data, the key ``retry`` of a provider (docs/agents.md).
"""

import json
import re
from collections.abc import Mapping
from typing import Any

from lillux.fields import Fields
from lillux.foreign_text import one_line, printable
from lillux.patterns import pattern
from lillux.values import dataclass
from ryeos.items.errors import RyeError

MAX_BODY_BYTES = 1024 * 1024
"""A longer answer with an error status is not read: no provider says so much."""

_SHOWN = 500
_FIRST_STATUS, _LAST_STATUS = 100, 599
_UNAUTHORISED = frozenset({401, 403})
_STATUSES_OF_FULL = frozenset({0, 400, 413, 422, 500})  # (local servers say 500)


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryRules:
    """When a failed call is worth another try, and how many tries there are.

    codes  of errors that a provider names, in an answer or in a stream that began well
    never  codes that no try changes, whatever the status: an empty account answers 429 too
    """

    statuses: frozenset[int] = frozenset({429, 500, 502, 503, 504, 529})
    codes: frozenset[str] = frozenset()
    never: frozenset[str] = frozenset({"insufficient_quota", "billing_hard_limit_reached"})
    tries: int = 5


def retry_rules(fields: Fields, default: RetryRules) -> RetryRules:
    """The rules that a mapping of the configuration changes. ``fields`` reports wrong values."""
    statuses = fields.read("statuses", _are_statuses, "a list of HTTP statuses")
    tries = fields.count("tries", 1, 20)
    named = {key: fields.texts(key) for key in ("codes", "never")}
    return RetryRules(
        statuses=default.statuses if statuses is None else frozenset(statuses),
        tries=default.tries if tries is None else tries,
        **{key: frozenset(named[key]) or getattr(default, key) for key in named},
    )


def _are_statuses(value: object) -> bool:
    return isinstance(value, list | tuple) and all(
        type(one) is int and _FIRST_STATUS <= one <= _LAST_STATUS for one in value
    )


class ProviderError(RyeError):
    """A call of a model that gave no answer.

    is_retryable   the same call may work later
    status         of HTTP, 0 for an error within a stream
    provider_code  the provider's own name of the error, ``""`` if it gave none
    """

    code = "PROVIDER_REFUSED"

    def __init__(
        self,
        code: str,
        message: str,
        *,
        is_retryable: bool = False,
        hint: str = "",
        status: int = 0,
        provider_code: str = "",
    ) -> None:
        self.is_retryable, self.status, self.provider_code = is_retryable, status, provider_code
        facts = {"status": status, "provider_code": provider_code, "retryable": is_retryable}
        self.facts = {key: value for key, value in facts.items() if value}
        super().__init__(message, code=code, hint=hint)


class CutError(ProviderError):
    """A stream that ended before the dialect's last event: what was answered is not known."""

    code = "STREAM_CUT"

    def __init__(self, expected: str, events: int) -> None:
        super().__init__(
            "STREAM_CUT",
            f"answer of the provider: expected {expected} at its end, none in {events} events",
            is_retryable=True,
            hint="the call may have been charged; it is made again as far as the limits allow",
        )
        self.facts = {"retryable": True, "events": events}


def invalid_stream(place: str, problem: str) -> ProviderError:
    """The error of a stream that breaks its dialect. ``place`` is where, like ``delta.text``."""
    return ProviderError(
        "PROVIDER_INVALID",
        f"answer of the provider: {place}: {one_line(problem, _SHOWN)}",
        hint="look whether dialect and base_url of the provider belong together",
    )


def error_of(status: int, body: bytes, rules: RetryRules) -> ProviderError:
    """The failure that an answer with an error status means, in any of the dialects."""
    text = body[:MAX_BODY_BYTES].decode("utf-8", "replace")
    return _error(status, _document(text), rules)


def error_in_stream(said: object, rules: RetryRules) -> ProviderError:
    """The failure that an event of a stream reports, in any of the dialects."""
    return _error(0, said, rules)


def _document(text: str) -> object:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _error(status: int, said: object, rules: RetryRules) -> ProviderError:
    found = _error_object(said)
    code, message = _code(found), _message(found)
    # (A router passes on the status of the provider behind it, within a stream too.)
    number = found.get("code")
    behind = status or (number if type(number) is int else 0)
    kind = _kind(behind, code, message, rules)
    first = f"status {status}" if status else "an error within its answer"
    named = f" ({printable(code, 80)})" if code else ""
    return ProviderError(
        kind,
        f"provider: expected an answer, found {first}{named}: {message or 'no explanation'}",
        is_retryable=kind == "PROVIDER_UNAVAILABLE",
        hint=_HINTS[kind],
        status=status,
        provider_code=printable(code, 80),
    )


_HINTS: Mapping[str, str] = {
    "CREDENTIAL_REFUSED": "see where its key is kept: rye agent models;"
    " store another: rye agent set-up --new-key",
    "CONTEXT_FULL": "give the directive less to read, or a model with a larger context",
    "PROVIDER_UNAVAILABLE": "try again later",
    "PROVIDER_REFUSED": "read the provider's words; the request is the same at every try",
}


def _kind(status: int, code: str, message: str, rules: RetryRules) -> str:
    if status in _UNAUTHORISED or code in _KEY_CODES:
        return "CREDENTIAL_REFUSED"
    if code in _FULL_CODES or (status in _STATUSES_OF_FULL and _FULL_WORDS.search(message)):
        return "CONTEXT_FULL"
    is_listed = status in rules.statuses or code in rules.codes
    return "PROVIDER_UNAVAILABLE" if is_listed and code not in rules.never else "PROVIDER_REFUSED"


_KEY_CODES = frozenset({"authentication_error", "permission_error", "invalid_api_key"})
_FULL_CODES = frozenset(
    {
        "context_length_exceeded",
        "exceed_context_size_error",  # llama.cpp
        "model_context_window_exceeded",
        "request_too_large",  # Anthropic: bytes of the request, not tokens
    }
)
# The words of Anthropic, OpenAI and vLLM, Gemini, llama.cpp, LM Studio.
_FULL_WORDS = pattern(
    r"prompt is too long|exceed context limit|maximum context length|exceeds the context window"
    r"|input token count.{0,40}exceeds|exceeds the available context size|context overflows"
    r"|greater than the context length",
    re.IGNORECASE,
)


def _error_object(said: object) -> Mapping[str, Any]:
    """The description of the error, in any of the shapes in which errors come.

    ``{"error": {"type", "code", "message"}}``, that in a list (Gemini), ``{"error": "words"}``,
    ``{"message"}`` or ``{"detail"}`` at the top, or no JSON at all.
    """
    if isinstance(said, list) and said:
        said = said[0]
    if isinstance(said, Mapping) and isinstance(said.get("error"), Mapping | str):
        said = said["error"]
    if isinstance(said, Mapping):
        return said
    return {"message": said.strip()} if isinstance(said, str) else {}


def _code(said: Mapping[str, Any]) -> str:
    """The most exact name: `code` is often a bare number, or missing beside a `type`."""
    names = [said.get(key) for key in ("code", "type", "status")]
    for name in names:
        if isinstance(name, str) and name not in {"", "error"}:
            return name
    return str(names[0]) if type(names[0]) is int else ""


def _message(said: Mapping[str, Any]) -> str:
    for key in ("message", "detail"):
        if isinstance(said.get(key), str):
            return one_line(said[key], _SHOWN)
    return ""
