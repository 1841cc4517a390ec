"""Somebody known, and what they may do."""

from typing import Literal

from lillux.values import dataclass
from rye_services.problems import Problem
from rye_services.scopes import allows


@dataclass(frozen=True, slots=True)
class Principal:
    """Who sends a request.

    user_id  whose store, heads, threads and secrets it is about
    kind     how they showed who they are
    scopes   what their key is for; None: everything
    key_id   ``fp:...`` of a signing key, the id of an API key, the id of a hook
    """

    user_id: str
    kind: Literal["bearer", "signed", "webhook"]
    scopes: frozenset[str] | None
    key_id: str

    def require(self, scope: str) -> None:
        """Nothing, when they may do this. Raises Problem, 403."""
        if not allows(self.scopes, scope):
            raise Problem(403, f"this key lacks the scope {scope}")
