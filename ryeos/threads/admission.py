"""Which items may run in the background, who sees to it, and what the caller is told. Pure."""

from enum import Enum
from typing import Any

from ryeos.errors import SpecError, UnsupportedError
from ryeos.executor.model import Chain
from ryeos.items import Kind
from ryeos.threads.model import Status, Thread
from ryeos.threads.payload import INLINE


class Owner(Enum):
    """Who runs a tool in the background."""

    ENGINE = "engine"
    CALLEE = "callee"


def require_detachable(kind: Kind, ref: str) -> None:
    """Refuse what is no run. Raises UnsupportedError."""
    reasons = {
        Kind.DIRECTIVE: "a directive is rendered at once, there is nothing to leave running",
        Kind.KNOWLEDGE: "knowledge is text, there is nothing to leave running",
        Kind.CONFIG: "configuration is read by tools, never run",
    }
    if kind in reasons:
        raise UnsupportedError(f"{ref}: {reasons[kind]}", hint="leave out --async")


def owner_of(chain: Chain) -> Owner:
    """Who sees to a background run. Raises UnsupportedError where nobody does, SpecError."""
    declared = chain.first_with("execution_owner")
    if declared is None:
        return Owner.ENGINE
    _, word = declared
    try:
        owner = Owner(word)
    except ValueError:
        known = ", ".join(one.value for one in Owner)
        raise SpecError("execution_owner", f"expected one of {known}, got {word!r}") from None
    native = chain.first_with("native_async")
    if owner is Owner.CALLEE and not (native and native[1]):
        raise UnsupportedError(
            f"{chain.tool.item_id} does not support async: what runs it keeps to itself how",
            hint="leave out --async",
        )
    return owner


def started_envelope(thread: Thread, duration_ms: float) -> dict[str, Any]:
    """The answer for a thread that was started."""
    return {
        "status": "success",
        "async": True,
        "thread_id": thread.thread_id,
        "type": thread.kind,
        "item_id": thread.directive,
        "execution_mode": INLINE,
        "state": Status.RUNNING.value,
        "pid": thread.pid,
        "metadata": {"duration_ms": round(duration_ms, 3)},
    }
