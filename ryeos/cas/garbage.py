"""What nothing names any more is removed from a store. Rules: ``docs/store.md``, Garbage."""

from collections.abc import Iterable, Iterator
from typing import Any

from lillux.cas.errors import ObjectMissingError
from lillux.cas.layout import Space, check_digest, is_digest
from lillux.cas.store import Store
from lillux.errors import LilluxError
from lillux.values import dataclass
from ryeos.cas.references import Reference, references_of
from ryeos.errors import RyeError

GRACE_S = 3600.0
"""So long does what nothing names yet stay: whoever stored it may be about to name it."""


class GarbageRefusedError(RyeError):
    """Something that is still named cannot be read, so nobody knows what it names. None removed."""

    code, exit_status = "INTEGRITY", 4

    def __init__(self, name: str, problem: str) -> None:
        self.name, self.problem = name, problem
        super().__init__(
            f"nothing was removed, as what {name} names is unknown: {problem}",
            hint="remove that file, or the ref that leads to it, and run the command again",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Collected:
    """What a sweep did, or would do: blobs and objects, counted."""

    removed: int
    freed_bytes: int
    kept: int


def collect_garbage(
    store: Store,
    roots: Iterable[str],
    *,
    now_s: float,
    grace_s: float = GRACE_S,
    dry_run: bool = False,
) -> Collected:
    """Remove what neither ``roots`` (digests) nor a ref of the store leads to.

    (1) Mark: from the roots and every digest in a ref on, through all that objects name. What is
    named and not there is no error: part of it may never have been fetched.
    (2) Sweep: what is not marked and was not written or touched in the last ``grace_s`` seconds
    before ``now_s`` (of the epoch). Each is looked at again while it is removed, so that what
    somebody touches meanwhile stays.
    (3) What writers that were killed before that left half written goes too; it is not counted.

    With ``dry_run`` nothing is removed. Raises GarbageRefusedError before anything is removed,
    DigestError for a root that is none, StoreLinkError, FileSystemError.
    """
    starts = [Reference(check_digest(root), None) for root in roots]
    marked = mark(store, [*starts, *_named_by_refs(store)])  # (1)
    before_s = now_s - grace_s
    removed = freed_bytes = kept = 0
    for space in Space:  # (2)
        for stored in store.stored(space):
            is_wanted = stored.digest in marked[space] or stored.modified_s >= before_s
            if is_wanted or not (dry_run or store.remove_if_old(space, stored.digest, before_s)):
                kept += 1
                continue
            removed += 1
            freed_bytes += stored.size
    if not dry_run:  # (3)
        store.remove_leftovers(before_s)
    return Collected(removed=removed, freed_bytes=freed_bytes, kept=kept)


def mark(store: Store, starts: Iterable[Reference]) -> dict[Space, set[str]]:
    """All that can be reached from the starts, those included, whether it is there or not.

    Raises GarbageRefusedError for an object that is there and cannot be read.
    """
    marked: dict[Space, set[str]] = {space: set() for space in Space}
    waiting = list(starts)
    while waiting:
        reference = waiting.pop()
        if reference.space is not Space.OBJECT:
            marked[Space.BLOB].add(reference.digest)
        if reference.space is not Space.BLOB and reference.digest not in marked[Space.OBJECT]:
            marked[Space.OBJECT].add(reference.digest)
            waiting += references_of(_read(store, reference.digest))
    return marked


def _read(store: Store, digest: str) -> Any:  # noqa: ANN401 - JSON of anybody
    try:
        return store.get_object(digest)
    except ObjectMissingError:
        return None
    except LilluxError as error:
        raise GarbageRefusedError(f"object {digest}", str(error)) from error


def _named_by_refs(store: Store) -> Iterator[Reference]:
    try:
        for _, value in store.refs():
            yield from _digests_in(value)
    except LilluxError as error:
        raise GarbageRefusedError("a ref", str(error)) from error


def _digests_in(value: object) -> Iterator[Reference]:
    """Every digest in a ref, under whatever key: other programs have refs of their own."""
    match value:
        case str() if is_digest(value):
            yield Reference(value, None)
        case dict():
            for child in value.values():
                yield from _digests_in(child)
        case list():
            for child in value:
                yield from _digests_in(child)
