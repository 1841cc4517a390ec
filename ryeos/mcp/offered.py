"""Which items are offered, in the order of their ids: those that would be found."""

from collections.abc import Sequence

from lillux.errors import LilluxError
from ryeos.app import Rye
from ryeos.errors import InvalidRefError
from ryeos.items import PROJECT, USER, ItemRef, Kind, Reference, Resolution, check_id
from ryeos.search.records import Record
from ryeos.search.requests import LOCAL_TIERS
from ryeos.verify import VerifiedItem

# Of knowledge: what the system has is found by templates and completion.
LISTED_TIERS = frozenset({PROJECT, USER})


def offered(
    rye: Rye, kinds: Sequence[Kind], tiers: frozenset[str] = LOCAL_TIERS
) -> tuple[Record, ...]:
    """The items of these kinds in these tiers that no nearer one hides. Nothing is verified."""
    documents = rye.catalog.snapshot(tuple(kinds), tiers).pool.documents.values()
    records = (document.record for document in documents if not document.shadowed_by)
    return tuple(
        sorted(
            (record for record in records if _has_an_id(record.location.ref)),
            key=lambda record: record.location.ref,
        )
    )


def verified(rye: Rye, ref: ItemRef) -> tuple[Resolution, VerifiedItem] | None:
    """The item if it may be used as it is, else None."""
    try:
        return rye.load(Reference(ref.kind, ref.id))
    except (LilluxError, OSError):
        return None


def _has_an_id(ref: ItemRef) -> bool:
    """A file may have a name that no reference can have."""
    try:
        check_id(ref.id)
    except InvalidRefError:
        return False
    return True
