"""What an execution has put into the store of its checkout, on its way into that of the user.

Everything is hashed again. Where a secret is found in it, it is masked, and so has another digest:
then all that names it is written anew as well, so that nothing leads to what is not there.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from lillux.digests import compute_integrity, sha256_hex
from lillux.store import Durability, Store
from lillux.store_files import Space
from lillux.values import dataclass
from rye_services.node.redaction import Redaction


@dataclass(frozen=True, slots=True)
class Promoted:
    """What was put into the user's store.

    new        digests that were not there before, ``new_bytes`` of them
    renamed    digests of the checkout that have another one now
    """

    new: tuple[str, ...]
    new_bytes: int
    renamed: Mapping[str, str]

    def renamed_in(self, data: bytes) -> bytes:
        """A text with the digests that its objects have now."""
        for old, new in self.renamed.items():
            data = data.replace(old.encode(), new.encode())
        return data


def stored_bytes(local: Store) -> int:
    """How much there is to promote."""
    return sum(stored.size for space in Space for stored in local.stored(space))


def promote(local: Store, store: Store, redaction: Redaction) -> Promoted:
    """Put all of a checkout's store into the user's.

    Raises ObjectChangedError for what is not what its name says, ObjectUnreadableError, and what
    else a store raises.
    """
    blobs = [stored.digest for stored in local.stored(Space.BLOB)]
    objects = [stored.digest for stored in local.stored(Space.OBJECT)]
    renamed = _renamed(local, blobs, objects, redaction) if redaction.is_needed else {}
    new, new_bytes = [], 0
    for digest in blobs:
        is_new = not store.has_blob(renamed.get(digest, digest))
        data = redaction.data(local.get_blob(digest))
        put = store.put_blob(data, Durability.AT_SYNC)
        if is_new:
            new.append(put)
            new_bytes += len(data)
    for digest in objects:
        is_new = not store.has_object(renamed.get(digest, digest))
        value = _rewritten(redaction.value(local.get_object(digest)), renamed)
        put = store.put_object(value, Durability.AT_SYNC)
        if is_new:
            new.append(put)
            new_bytes += store.size(Space.OBJECT, put) or 0
    return Promoted(tuple(new), new_bytes, renamed)


def _renamed(
    local: Store, blobs: Iterable[str], objects: Iterable[str], redaction: Redaction
) -> dict[str, str]:
    """The digests that change, each with its new one.

    What names a renamed object is renamed itself, until nothing changes any more: what is stored
    by its digest cannot lead back to itself.
    """
    renamed: dict[str, str] = {}
    for digest in blobs:
        found = sha256_hex(redaction.data(local.get_blob(digest)))
        if found != digest:
            renamed[digest] = found
    values = {digest: redaction.value(local.get_object(digest)) for digest in objects}
    while True:
        found_now = {
            digest: compute_integrity(_rewritten(value, renamed))
            for digest, value in values.items()
        }
        now = renamed | {old: new for old, new in found_now.items() if old != new}
        if now == renamed:
            return renamed
        renamed = now


def _rewritten(value: Any, renamed: Mapping[str, str]) -> Any:  # noqa: ANN401 - JSON
    if not renamed:
        return value
    match value:
        case str():
            return renamed.get(value, value)
        case dict():
            return {key: _rewritten(one, renamed) for key, one in value.items()}
        case list():
            return [_rewritten(one, renamed) for one in value]
        case _:
            return value
