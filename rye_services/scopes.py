"""What a key may be used for: ``service:action``, ``service:*`` or ``*``. Pure."""

import re
from collections.abc import Iterable

from ryeos.errors import RyeError

OBJECTS, PUSH, EXECUTE = "remote:objects", "remote:push", "remote:execute"
THREADS, SECRETS, WEBHOOKS = "remote:threads", "remote:secrets", "remote:webhook-bindings"
MANAGE = "node.auth.manage"
"""Who may say which keys count, and start what concerns every user."""

EVERYTHING = "*"
_SCOPE = re.compile(r"\*|[a-z][a-z0-9.-]{0,39}(:(\*|[a-z][a-z0-9.-]{0,39}))?")


class ScopeError(RyeError):
    """A text that names no scope."""

    code, exit_status = "INVALID_PARAMS", 2

    def __init__(self, scope: str) -> None:
        self.scope = scope
        super().__init__(
            f"scope {scope[:80]!r}: expected *, SERVICE:ACTION or SERVICE:*",
            hint="like remote:execute; the scopes are listed in docs/node.md",
        )


def check_scopes(scopes: Iterable[str]) -> tuple[str, ...]:
    """The scopes in order, each once. Raises ScopeError."""
    found = tuple(dict.fromkeys(scopes))
    for scope in found:
        if not _SCOPE.fullmatch(scope):
            raise ScopeError(scope)
    return found


def allows(scopes: frozenset[str] | None, wanted: str) -> bool:
    """Whether a key with these scopes may be used for ``wanted``; None is a key for everything."""
    if scopes is None or EVERYTHING in scopes or wanted in scopes:
        return True
    service, colon, _ = wanted.partition(":")
    return bool(colon) and f"{service}:*" in scopes
