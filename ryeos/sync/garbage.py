"""Removes unreferenced entries from a store. Rules: ``docs/store.md``, Garbage."""

from collections.abc import Container, Iterable, Iterator, Mapping
from enum import Enum, auto
from typing import Any, NamedTuple

from lillux.errors import LilluxError
from lillux.store_errors import ObjectMissingError
from lillux.store_layout import ObjectKind, is_digest, valid_digest
from lillux.values import dataclass
from ryeos.items.errors import RyeError
from ryeos.sync.contents import ContentStore
from ryeos.sync.references import ObjectReference, references_of

GRACE_S = 3600.0
"""Seconds that unnamed objects stay: a push that stored them may be about to name them."""

MIN_GRACE_S = 60.0
"""A store does not touch what is younger than this when it is stored again."""

_CHECKED = frozenset({"project_snapshot", "source_manifest", "item_source"})
_OUTPUTS = "runtime_outputs_bundle"
_ABSENT = None


class GarbageRefusedError(RyeError):
    """A named object cannot be read, so what it names is unknown. Nothing was removed."""

    code = "INTEGRITY"

    def __init__(self, name: str, problem: str) -> None:
        self.name, self.problem = name, problem
        super().__init__(
            f"nothing was removed, as what {name} names is unknown: {problem}",
            hint="remove that file, or the ref that leads to it, and run the command again",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepResult:
    """Result of a sweep, done or tried: blobs and objects, counted."""

    removed: int
    freed_bytes: int
    kept: int


class RootNeed(Enum):
    """Need of a root.

    WHOLE     all that it leads to is there: through snapshots, manifests and items, which a node
              has checked before something named them
    ITSELF    it is there; part of what it leads to may never have been
    IF_THERE  nothing: it is kept if it is there
    """

    WHOLE = auto()
    ITSELF = auto()
    IF_THERE = auto()


@dataclass(frozen=True, slots=True)
class Root:
    """Something that is named from outside of a store. ``name``: what names it, for people."""

    reference: ObjectReference
    name: str
    need: RootNeed = RootNeed.IF_THERE


@dataclass(frozen=True, slots=True)
class Gap:
    """Missing content. ``named_by``: the object that names it, ``""`` for the root."""

    reference: ObjectReference
    root: str
    named_by: str = ""


@dataclass(frozen=True, slots=True)
class MarkResult:
    """All that roots lead to, whether it is there or not, and what of it has to be and is not."""

    reached: Mapping[ObjectKind, set[str]]
    gaps: tuple[Gap, ...]


def collect_garbage(
    store: ContentStore,
    roots: Iterable[str],
    *,
    now_s: float,
    grace_s: float = GRACE_S,
    dry_run: bool = False,
) -> SweepResult:
    """Remove what neither ``roots`` (digests) nor a ref of the store leads to.

    (1) Mark: from the roots and every digest in a ref on, through all that objects name. What is
    named and not there is no error: part of it may never have been fetched.
    (2) Sweep: see `sweep`.

    Raises GarbageRefusedError before anything is removed, DigestError for an invalid root,
    StoreLinkError, FileSystemError.
    """
    starts = [Root(ObjectReference(valid_digest(root), None), "a root") for root in roots]
    marked = mark(store, [*starts, *roots_of_refs(store)])  # (1)
    return sweep(store, marked, now_s=now_s, grace_s=grace_s, dry_run=dry_run)  # (2)


def sweep(
    store: ContentStore,
    marked: MarkResult,
    *,
    now_s: float,
    grace_s: float = GRACE_S,
    dry_run: bool = False,
) -> SweepResult:
    """Remove what is not marked and was not written or touched in the last ``grace_s`` seconds.

    At least `MIN_GRACE_S`, before ``now_s`` (of the epoch). What is touched meanwhile stays,
    or is not there for them: see `Store.remove_all_older`. What killed writers left half written,
    longer ago than the grace, is removed, uncounted. With ``dry_run`` nothing is removed.

    Raises StoreLinkError, FileSystemError.
    """
    before_s = now_s - max(grace_s, MIN_GRACE_S)
    removed = freed_bytes = kept = 0
    for space in ObjectKind:
        garbage: dict[str, int] = {}
        for stored in store.stored(space):
            if stored.digest not in marked.reached[space] and stored.modified_s < before_s:
                garbage[stored.digest] = stored.size
            else:
                kept += 1
        gone = garbage.keys() if dry_run else store.remove_all_older(space, garbage, before_s)
        removed += len(gone)
        kept += len(garbage) - len(gone)
        freed_bytes += sum(garbage[digest] for digest in gone)
    if not dry_run:
        store.remove_leftovers(before_s)
    return SweepResult(removed=removed, freed_bytes=freed_bytes, kept=kept)


def mark(store: ContentStore, roots: Iterable[Root], *, damaged: Container[str] = ()) -> MarkResult:
    """All that can be reached from the roots, those included.

    What has to be there is walked first, so that each object counts by its highest need. The
    ``damaged`` digests count as not there. Raises GarbageRefusedError for another object that is
    there and cannot be read.
    """
    reached: dict[ObjectKind, set[str]] = {space: set() for space in ObjectKind}
    gaps: dict[ObjectReference, Gap] = {}
    waiting: dict[RootNeed, list[_Step]] = {need: [] for need in RootNeed}
    for root in roots:
        waiting[root.need].append(_Step(root.reference, root.name, ""))
    while step := _next_step(waiting):
        need, (reference, root_name, named_by) = step
        digest = reference.digest
        value = _ABSENT
        if reference.space is not ObjectKind.BLOB and digest not in reached[ObjectKind.OBJECT]:
            value = _ABSENT if digest in damaged else _read(store, digest)
            reached[ObjectKind.OBJECT].add(digest)
            for child, child_need in _children(value, need):
                waiting[child_need].append(_Step(child, root_name, digest))
        if reference.space is not ObjectKind.OBJECT:
            reached[ObjectKind.BLOB].add(digest)
        if need is not RootNeed.IF_THERE and not _is_there(store, reference, damaged):
            gaps.setdefault(reference, Gap(reference, root_name, named_by))
    return MarkResult(reached, tuple(gaps.values()))


class _Step(NamedTuple):
    """A reference to be followed; the root and the object that it comes from."""

    reference: ObjectReference
    root: str
    named_by: str


def _next_step(waiting: Mapping[RootNeed, list[_Step]]) -> tuple[RootNeed, _Step] | None:
    return next(((need, steps.pop()) for need, steps in waiting.items() if steps), None)


def _children(value: object, need: RootNeed) -> Iterator[tuple[ObjectReference, RootNeed]]:
    kind = value.get("kind") if isinstance(value, dict) else None
    is_whole = need is RootNeed.WHOLE and kind in _CHECKED
    is_bundle = need is RootNeed.WHOLE and kind == _OUTPUTS
    for reference in references_of(value):
        if is_whole:
            yield reference, RootNeed.WHOLE
        elif is_bundle and reference.space is ObjectKind.BLOB:
            yield reference, RootNeed.ITSELF
        else:
            yield reference, RootNeed.IF_THERE


def _is_there(store: ContentStore, reference: ObjectReference, damaged: Container[str]) -> bool:
    if reference.digest in damaged:
        return False
    spaces = ObjectKind if reference.space is None else (reference.space,)
    return any(store.size(space, reference.digest) is not None for space in spaces)


def _read(store: ContentStore, digest: str) -> Any:  # noqa: ANN401 - any JSON
    try:
        return store.get_object(digest)
    except ObjectMissingError:
        return _ABSENT
    except LilluxError as error:
        raise GarbageRefusedError(f"object {digest}", str(error)) from error


def roots_of_refs(store: ContentStore) -> Iterator[Root]:
    """Every digest in every ref of a store. Raises GarbageRefusedError for one of no JSON."""
    try:
        for name, value in store.refs():
            yield from (
                Root(ObjectReference(one, None), f"ref {name}") for one in digests_in(value)
            )
    except LilluxError as error:
        raise GarbageRefusedError("a ref", str(error)) from error


def digests_in(value: object) -> Iterator[str]:
    """Every digest in a JSON value, under whatever key: other programs have refs of their own."""
    match value:
        case str() if is_digest(value):
            yield value
        case dict():
            for child in value.values():
                yield from digests_in(child)
        case list():
            for child in value:
                yield from digests_in(child)
