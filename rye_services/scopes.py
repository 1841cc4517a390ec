"""What a key may be used for: ``service:action``, ``service:*`` or ``*``. Pure."""

from collections.abc import Iterable

from ryeos.items.errors import RyeError

OBJECTS, PUSH, EXECUTE = "remote:objects", "remote:push", "remote:execute"
THREADS, SECRETS, WEBHOOKS = "remote:threads", "remote:secrets", "remote:webhook-bindings"
REGISTRY_READ, REGISTRY_WRITE = "registry:read", "registry:write"
MANAGE = "node.auth.manage"
"""Who may say which keys count, and start what concerns every user."""

EVERYTHING = "*"
_OF_A_NODE = ("remote:*", OBJECTS, PUSH, EXECUTE, THREADS, SECRETS, WEBHOOKS, MANAGE)
_OF_A_REGISTRY = ("registry:*", REGISTRY_READ, REGISTRY_WRITE)
KNOWN = (EVERYTHING, *_OF_A_NODE, *_OF_A_REGISTRY)
"""Whatever a key may be given."""


class ScopeError(RyeError):
    """A text that names no scope; ``closest`` is the one that it may have meant, or empty."""

    code, exit_status = "INVALID_PARAMS", 2

    def __init__(self, scope: str) -> None:
        from difflib import get_close_matches

        self.scope = scope
        self.closest = next(iter(get_close_matches(scope[:80], KNOWN, 1)), "")
        meant = f"; did you mean {self.closest}?" if self.closest else ""
        super().__init__(
            f"scope {scope[:80]!a}: expected one of {', '.join(KNOWN)}{meant}",
            hint="what each is for: docs/node.md",
        )


def check_scopes(scopes: Iterable[str]) -> tuple[str, ...]:
    """The scopes in order, each once. Raises ScopeError."""
    found = tuple(dict.fromkeys(scopes))
    for scope in found:
        if scope not in KNOWN:
            raise ScopeError(scope)
    return found


def allows(scopes: frozenset[str] | None, wanted: str) -> bool:
    """Whether a key with these scopes may be used for ``wanted``; None is a key for everything."""
    if scopes is None or EVERYTHING in scopes or wanted in scopes:
        return True
    service, colon, _ = wanted.partition(":")
    return bool(colon) and f"{service}:*" in scopes
