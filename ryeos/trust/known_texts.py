"""Texts of items that a caller knows: another one that was approved meanwhile is not run for it.

A caller names each by the reference of its item and the digest of its text. A run holds the bytes
that it has read itself against them, also in the background and in the calls of a graph.

It is a file of its own because runs of persons import nothing of it.
"""

from collections.abc import Mapping
from pathlib import Path

from lillux.digests import sha256_hex
from ryeos.items.errors import RyeError
from ryeos.items.refs import Kind
from ryeos.trust.signature import decode, form_for, split
from ryeos.trust.verify import VerifiedItem


def text_digest(kind: Kind, path: Path, data: bytes) -> str:
    """The digest of a text without what signing adds to it.

    Raises SignatureFormatError, and NoSignatureFormError for a type that its space adds.
    """
    where = str(path)
    text = split(decode(data, where), form_for(kind, path.suffix, where), where)
    return sha256_hex(f"{text.shebang}\0{text.body}".encode())


def require_known_text(ref: str, item: VerifiedItem, known: Mapping[str, str]) -> None:
    """Raise a RyeError `CONFLICT` for a signed item with another text than its caller knows."""
    wanted, target = known.get(ref), item.target
    if wanted is None or item.signature is None:
        return
    if text_digest(target.kind, target.path, item.data) != wanted:
        raise RyeError(
            f"{ref}: not run: another text than the one that you proposed was approved",
            code="CONFLICT",
            hint=f'read it first: load {{"item_id": "{ref}", "text": true}}',
        )
