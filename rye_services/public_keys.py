"""Public keys as people type them."""

from ryeos.items.errors import RyeError
from ryeos.remote.requests import IdentityError, decode_public_key


class PublicKeyError(RyeError):
    """A text that was given as a public key, and is none. ``where`` is who said it."""

    code, exit_status = "INVALID_PARAMS", 2

    def __init__(self, where: str, problem: str) -> None:
        self.where, self.problem = where, problem
        super().__init__(
            f"{where}: {problem}",
            hint="expected a client's public key: a PEM file, or ed25519:... as GET /public-key of"
            " a node shows its own",
        )


def typed_public_key(text: str, where: str) -> bytes:
    """The PEM of ``ed25519:...`` as somebody typed it, at ``where``. Raises PublicKeyError."""
    try:
        return decode_public_key(text)
    except IdentityError as error:
        raise PublicKeyError(where, error.problem) from None
