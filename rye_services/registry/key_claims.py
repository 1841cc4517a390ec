"""That whoever has an account has a key as well: a document that the key signed for this registry.

Without one, anybody could have the key of somebody else counted as theirs.
"""

from collections.abc import Mapping

from rye_services.keys import NodeKeys
from ryeos.items.errors import RyeError
from ryeos.remote.requests import check_document, decode_public_key

KIND = "registry-key/v1"


class KeyClaimError(RyeError):
    """A document that claims a key for another account, or another registry."""

    code, exit_status = "INVALID_PARAMS", 2

    def __init__(self, field: str, expected: str) -> None:
        self.field, self.expected = field, expected
        super().__init__(
            f"claim: {field}: expected {expected}, found another",
            hint="sign a new one with the key that it is about",
        )


def claimed_key(document: Mapping[str, object], *, account: str, keys: NodeKeys) -> bytes:
    """The PEM of the key that a document claims for an account, and that signed it.

    Raises KeyClaimError, IdentityError for a key that is none, SignedDocumentError.
    """
    expected = {"kind": KIND, "account": account, "registry": keys.node_id}
    for field, value in expected.items():
        if document.get(field) != value:
            raise KeyClaimError(field, value)
    pem = decode_public_key(document.get("public_key"))
    check_document(document, pem)
    return pem
