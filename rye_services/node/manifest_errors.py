"""What can be wrong with a manifest that somebody pushes."""

from collections.abc import Sequence

from ryeos.items.errors import RyeError

MAX_NAMED = 20
"""Defects that a message lists; the rest is a number."""


class ManifestGraphError(RyeError):
    """A manifest, or what it leads to, is missing or not sound. ``defects`` are all of them."""

    code, exit_status = "CAS_OBJECT_INVALID", 7

    def __init__(self, digest: str, defects: Sequence[str]) -> None:
        self.digest, self.defects = digest, tuple(defects)
        named = "; ".join(self.defects[:MAX_NAMED])
        more = len(self.defects) - MAX_NAMED
        super().__init__(
            f"manifest {digest[:80]}: {named}" + (f"; and {more} more" if more > 0 else ""),
            hint="upload what is missing to /objects/put, then push again",
        )
