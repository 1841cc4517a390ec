"""Removes unreferenced entries from a store. Rules: ``docs/store.md``, Garbage."""

from collections.abc import Iterable, Iterator
from typing import Any

from lillux.errors import LilluxError
from lillux.store import Store
from lillux.store_files import ObjectKind, ObjectMissingError, is_digest, valid_digest
from lillux.values import dataclass
from ryeos.items.errors import RyeError
from ryeos.sync.objects import ObjectReference, references_of

GRACE_S = 3600.0
"""So long does what nothing names yet stay: whoever stored it may be about to name it."""

MIN_GRACE_S = 60.0
"""A store does not touch what is younger than this when it is stored again."""


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
    (2) Sweep: what is not marked and was not written or touched in the last ``grace_s`` seconds,
    at least `MIN_GRACE_S`, before ``now_s`` (of the epoch). What somebody touches meanwhile
    stays, or is not there for them: see `Store.remove_older`.
    (3) What killed writers left half written, longer ago than the grace, is removed, uncounted.

    With ``dry_run`` nothing is removed. Raises GarbageRefusedError before anything is removed,
    DigestError for an invalid root, StoreLinkError, FileSystemError.
    """
    starts = [ObjectReference(valid_digest(root), None) for root in roots]
    marked = mark(store, [*starts, *_named_by_refs(store)])  # (1)
    before_s = now_s - max(grace_s, MIN_GRACE_S)
    removed = freed_bytes = kept = 0
    for space in ObjectKind:  # (2)
        for stored in store.stored(space):
            is_garbage = stored.digest not in marked[space] and stored.modified_s < before_s
            if is_garbage and not dry_run:
                is_garbage = store.remove_older(space, stored.digest, before_s)
            if is_garbage:
                removed += 1
                freed_bytes += stored.size
            else:
                kept += 1
    if not dry_run:
        store.remove_leftovers(before_s)  # (3)
    return Collected(removed=removed, freed_bytes=freed_bytes, kept=kept)


def mark(store: Store, starts: Iterable[ObjectReference]) -> dict[ObjectKind, set[str]]:
    """All that can be reached from the starts, those included, whether it is there or not.

    Raises GarbageRefusedError for an object that is there and cannot be read.
    """
    marked: dict[ObjectKind, set[str]] = {space: set() for space in ObjectKind}
    waiting = list(starts)
    while waiting:
        reference = waiting.pop()
        if reference.space is not ObjectKind.OBJECT:
            marked[ObjectKind.BLOB].add(reference.digest)
        if (
            reference.space is not ObjectKind.BLOB
            and reference.digest not in marked[ObjectKind.OBJECT]
        ):
            marked[ObjectKind.OBJECT].add(reference.digest)
            waiting += references_of(_read(store, reference.digest))
    return marked


def _read(store: Store, digest: str) -> Any:  # noqa: ANN401 - JSON of anybody
    try:
        return store.get_object(digest)
    except ObjectMissingError:
        return None
    except LilluxError as error:
        raise GarbageRefusedError(f"object {digest}", str(error)) from error


def _named_by_refs(store: Store) -> Iterator[ObjectReference]:
    try:
        for _, value in store.refs():
            yield from _digests_in(value)
    except LilluxError as error:
        raise GarbageRefusedError("a ref", str(error)) from error


def _digests_in(value: object) -> Iterator[ObjectReference]:
    """Every digest in a ref, under whatever key: other programs have refs of their own."""
    match value:
        case str() if is_digest(value):
            yield ObjectReference(value, None)
        case dict():
            for child in value.values():
                yield from _digests_in(child)
        case list():
            for child in value:
                yield from _digests_in(child)
