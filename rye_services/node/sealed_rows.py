"""What the database may hold of a secret: a text sealed to the node, bound to its row. Pure.

It opens for the same row only: copied to another user or name, it does not.
"""

from collections.abc import Mapping
from typing import Any

from lillux.digests import canonical_json, decode_base64url, encode_base64url
from lillux.sealing import SealingError, open_sealed, seal
from ryeos.items.errors import RyeError

_INFO = b"rye-node/row/v1"


class SealedRowError(RyeError):
    """A sealed text of the database does not open. ``row`` is what it was to be for."""

    code, exit_status = "INTEGRITY", 4

    def __init__(self, row: Mapping[str, str], problem: str) -> None:
        self.row, self.problem = dict(row), problem
        named = " ".join(f"{name} {value!a}" for name, value in sorted(row.items()))
        super().__init__(
            f"{named}: {problem}",
            hint="it was sealed to another box key of this node: set it again, or restore the key",
        )


def seal_row(text: str, box_public: bytes, row: Mapping[str, str]) -> dict[str, str]:
    """The JSON for the column. ``row`` names the table, and the values of the key of the row."""
    enc, ciphertext = seal(text.encode(), box_public, aad=canonical_json(dict(row)), info=_INFO)
    return {"enc": encode_base64url(enc), "ciphertext": encode_base64url(ciphertext)}


def open_row(column: Mapping[str, Any], box_private: bytes, row: Mapping[str, str]) -> str:
    """The text that was sealed for this row. Raises SealedRowError."""
    enc, ciphertext = (decode_base64url(str(column.get(name))) for name in ("enc", "ciphertext"))
    if enc is None or ciphertext is None:
        raise SealedRowError(row, "expected a sealed text, found something else")
    try:
        aad = canonical_json(dict(row))
        return open_sealed(enc, ciphertext, box_private, aad=aad, info=_INFO).decode()
    except SealingError as error:
        raise SealedRowError(row, error.problem) from None
