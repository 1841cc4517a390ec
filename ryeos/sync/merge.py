"""Merges two manifests with a common base, and texts line by line. Rules: ``docs/sync.md``."""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from lillux.store_files import ObjectMissingError
from lillux.values import dataclass
from ryeos.sync.objects import Contents, ItemSource, SourceManifest, item_source_of
from ryeos.sync.paths import PATH_PREFIX, clashes, fold, item_source

MAX_TEXT_BYTES = 1_000_000
"""Of each of the three texts; larger ones are a conflict."""

ADD_ADD, CONTENT = "add/add", "content"
DELETE_MODIFY, MODIFY_DELETE = "delete/modify", "modify/delete"
ITEM_FILE_TYPE = "item_file_type"
# And `PATH_PREFIX` and `PATH_CASE` of `ryeos.sync.paths`.

_SIGNED = "rye:signed:"
_SIGNED_LINES = 3  # a signature stands in the first line, or below a shebang


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeConflict:
    """A path that no rule decides. The digests are those of the manifests, or None.

    ``other`` is the path that it cannot be beside, ``""`` where it stands for itself.
    """

    path: str
    base: str | None
    ours: str | None
    theirs: str | None
    type: str
    other: str = ""

    def describe(self) -> dict[str, str | None]:
        """It as JSON, without its path, which is its key in a `conflict_record`."""
        return {"base": self.base, "ours": self.ours, "theirs": self.theirs, "type": self.type}


@dataclass(frozen=True, slots=True)
class MergeResult:
    """A merge: the manifest, or what keeps it from being made."""

    manifest: SourceManifest | None
    conflicts: tuple[MergeConflict, ...] = ()


def conflict_record(conflicts: tuple[MergeConflict, ...]) -> dict[str, dict[str, str | None]]:
    """The conflicts as JSON, by path."""
    return {conflict.path: conflict.describe() for conflict in conflicts}


def three_way_merge(
    base: SourceManifest | None, ours: SourceManifest, theirs: SourceManifest, contents: Contents
) -> MergeResult:
    """The changes of both sides to ``base``, in one manifest. None as base: nothing was common.

    (1) Per path: what one side changed is taken; what both changed in the same way too.
    (2) What both changed in different ways is merged as text, where it is text without a
    signature; what comes of it is put into ``contents``.
    (3) Paths that cannot be side by side are conflicts. With any conflict nothing is merged, but
    texts that were may be in ``contents``.

    Raises CasObjectError, and what ``contents`` raises but for what is missing.
    """
    common = base or SourceManifest(ours.space)
    if ours == common and not any(clashes(theirs.paths())):
        # (1) for all paths.
        return MergeResult(SourceManifest(ours.space, theirs.items, theirs.files))
    sides = _Sides(common, ours, theirs)
    taken = sides.new_there()  # (1) for these, which are most of a first pull
    conflicts: list[MergeConflict] = []
    for path in sides.known_here():
        versions = sides.of(path)
        found = _decide(versions)  # (1)
        if found == CONTENT:
            found = _merge_texts(path, versions, contents) or CONTENT  # (2)
        if isinstance(found, str):
            conflicts.append(versions.conflict(path, found))
        elif found:
            taken[path] = found
    conflicts += _clashes(taken, sides)  # (3)
    if conflicts:
        return MergeResult(None, tuple(sorted(conflicts, key=lambda conflict: conflict.path)))
    return MergeResult(
        SourceManifest(
            ours.space,
            {path: entry.digest for path, entry in taken.items() if entry.is_item},
            {path: entry.digest for path, entry in taken.items() if not entry.is_item},
        )
    )


class _Entry(NamedTuple):  # made for each path: a tuple is made in a third of the time
    """What a manifest has under a path."""

    digest: str
    is_item: bool


class _Versions(NamedTuple):  # as above
    """A path in the three manifests."""

    base: _Entry | None
    ours: _Entry | None
    theirs: _Entry | None

    def conflict(self, path: str, conflict_type: str, other: str = "") -> MergeConflict:
        return MergeConflict(
            path=path,
            base=self.base.digest if self.base else None,
            ours=self.ours.digest if self.ours else None,
            theirs=self.theirs.digest if self.theirs else None,
            type=conflict_type,
            other=other,
        )


class _Sides:
    """Three manifests, looked up by path."""

    def __init__(self, *manifests: SourceManifest) -> None:
        self._base, self._ours, self._theirs = (_entries(one) for one in manifests)

    def known_here(self) -> list[str]:
        return sorted({*self._base, *self._ours})

    def new_there(self) -> dict[str, _Entry]:
        known = self._base.keys() | self._ours.keys()
        return {path: entry for path, entry in self._theirs.items() if path not in known}

    def of(self, path: str) -> _Versions:
        return _Versions(self._base.get(path), self._ours.get(path), self._theirs.get(path))


def _entries(manifest: SourceManifest) -> Mapping[str, _Entry]:
    files = {path: _Entry(digest, is_item=False) for path, digest in manifest.files.items()}
    items = {path: _Entry(digest, is_item=True) for path, digest in manifest.items.items()}
    return files | items


def _decide(versions: _Versions) -> _Entry | str | None:
    """What to take, None for nothing; or the type of a conflict. `CONTENT`: may yet be merged."""
    base, ours, theirs = versions.base, versions.ours, versions.theirs
    if theirs in (ours, base):
        return ours
    if base == ours:
        return theirs
    if ours is None:
        return DELETE_MODIFY
    if theirs is None:
        return MODIFY_DELETE
    if ours.is_item != theirs.is_item:
        return ITEM_FILE_TYPE
    return ADD_ADD if base is None else CONTENT


def _merge_texts(path: str, versions: _Versions, contents: Contents) -> _Entry | None:
    """The merged text of three versions, stored; None where there can be none."""
    entries = (versions.base, versions.ours, versions.theirs)
    sources = [source for entry in entries if entry and (source := _source(entry, contents))]
    texts = [text for source in sources if (text := _text(source, contents)) is not None]
    if len(texts) != len(entries):
        return None
    merged = merge_text(*texts)
    if merged is None:
        return None
    data = merged.encode()
    if not versions.ours or not versions.ours.is_item:
        return _Entry(contents.put_blob(data), is_item=False)
    item = item_source(path, data)
    if item is None or item.signature_info is not None:
        return None
    contents.put_blob(data)
    return _Entry(contents.put_object(item.as_object()), is_item=True)


def _source(entry: _Entry, contents: Contents) -> ItemSource | None:
    """What an entry's content is; a file is an item without a name. None for what is not there."""
    if not entry.is_item:
        return ItemSource("", entry.digest)
    try:
        value = contents.get_object(entry.digest)
    except ObjectMissingError:
        return None
    return item_source_of(value, f"item_source {entry.digest}")


def _text(source: ItemSource, contents: Contents) -> str | None:
    """The text of it; None for what is no text, too long, missing, or signed.

    A changed text makes its signature stale, and only its author can renew it. The text
    itself is asked, as ``signature_info`` is what another user wrote about it.
    """
    if source.signature_info is not None:
        return None
    try:
        data = contents.get_blob(source.content_blob_hash)
        if len(data) > MAX_TEXT_BYTES or b"\0" in data:
            return None
        text = data.decode("utf-8")
    except (ObjectMissingError, UnicodeDecodeError):
        return None
    beginning = text.split("\n", _SIGNED_LINES)[:_SIGNED_LINES]
    is_signed = source.item_ref and any(_SIGNED in line for line in beginning)
    return None if is_signed else text


def _clashes(taken: Mapping[str, _Entry], sides: _Sides) -> Iterator[MergeConflict]:
    """Conflicts of paths that can be files only one at a time: of those that meet, each once.

    A folder where there is to be a file as well is every file in it.
    """
    reported: set[str] = set()
    files: dict[str, str] = {}  # where there are folders too, by what the name has in common
    for clash in clashes(taken):
        if clash.type == PATH_PREFIX:
            files[fold(clash.path)] = clash.path
        for path, other in ((clash.path, clash.other), (clash.other, clash.path)):
            if path not in reported:
                reported.add(path)
                yield sides.of(path).conflict(path, clash.type, other)
    for path in sorted({*taken} - reported) if files else ():
        parts = fold(path).split("/")
        above = ("/".join(parts[:length]) for length in range(1, len(parts)))
        file = next((files[folder] for folder in above if folder in files), None)
        if file is not None:
            yield sides.of(path).conflict(path, PATH_PREFIX, file)


# --- text merge -----------------------------------------------------------------------------------
# Two changes of one text made into one, line by line. Pure. Rules: ``docs/sync.md``, Texts.
#
# Why this is ours: ADR 0002.

MAX_WORK = 2_000_000
"""Pairs of equal lines that are looked at before a merge is given up: a second or so."""


@dataclass(frozen=True, slots=True)
class Hunk:
    """Lines ``start`` to ``end`` of the base (from 0, end not included) became ``lines``."""

    start: int
    end: int
    lines: tuple[str, ...]

    def overlaps(self, other: "Hunk") -> bool:
        """Whether the two change the same lines, or insert at the same place."""
        if self.start == self.end == other.start == other.end:
            return True
        return self.start < other.end and other.start < self.end


class _TooMuchWorkError(Exception):
    """The texts are too much alike within themselves to be compared in bounded time."""


def merge_text(base: str, ours: str, theirs: str) -> str | None:
    """The text with the changes of both sides; None where they change the same lines.

    What both sides changed in the same way is taken once. Swapping the sides gives the same text.
    None also for texts whose comparison would take too long, see `MAX_WORK`.
    """
    if theirs in (ours, base):
        return ours
    if base == ours:
        return theirs
    lines = split_lines(base)
    try:
        one, other = (list(_hunks(lines, split_lines(side))) for side in (ours, theirs))
    except _TooMuchWorkError:
        return None
    hunks = _together(one, other)
    return None if hunks is None else _apply_hunks(lines, hunks)


def changed_hunks(base: Sequence[str], side: Sequence[str]) -> tuple[Hunk, ...] | None:
    """What changed from one list of lines to the other; None where comparing takes too long."""
    try:
        return tuple(_hunks(base, side))
    except _TooMuchWorkError:
        return None


def split_lines(text: str) -> list[str]:
    """The lines with their line feeds; nothing else ends a line."""
    *whole, last = text.split("\n")
    lines = [f"{line}\n" for line in whole]
    return [*lines, last] if last else lines


def _together(ours: Sequence[Hunk], theirs: Sequence[Hunk]) -> list[Hunk] | None:
    """The hunks of both by their place in the base, None when two of them overlap."""
    merged: list[Hunk] = []
    one, other = list(reversed(ours)), list(reversed(theirs))
    while one and other:
        if one[-1] == other[-1]:
            merged.append(one.pop())
            other.pop()
        elif one[-1].overlaps(other[-1]):
            return None
        else:
            earlier = one if _place(one[-1]) < _place(other[-1]) else other
            merged.append(earlier.pop())
    return [*merged, *reversed(one), *reversed(other)]


def _place(hunk: Hunk) -> tuple[int, int]:
    return hunk.start, hunk.end


def _apply_hunks(base: Sequence[str], hunks: Sequence[Hunk]) -> str | None:
    """The changed text; None when a line without an end would be joined with the next."""
    lines: list[str] = []
    at = 0
    for hunk in hunks:
        lines += base[at : hunk.start]
        lines += hunk.lines
        at = hunk.end
    lines += base[at:]
    if any(not line.endswith("\n") for line in lines[:-1]):
        return None
    return "".join(lines)


def _hunks(base: Sequence[str], side: Sequence[str]) -> Iterator[Hunk]:
    """What changed from one to the other. Raises _TooMuchWorkError."""
    at_base = at_side = 0
    for start_base, start_side, length in _equal_blocks(base, side):
        if start_base > at_base or start_side > at_side:
            yield Hunk(at_base, start_base, tuple(side[at_side:start_side]))
        at_base, at_side = start_base + length, start_side + length
    if at_base < len(base) or at_side < len(side):
        yield Hunk(at_base, len(base), tuple(side[at_side:]))


def _equal_blocks(a: Sequence[str], b: Sequence[str]) -> list[tuple[int, int, int]]:
    """Runs of lines that both have, in order: the place in each, and how many lines.

    (1) What both begin and end with. (2) Between, lines that each has once, in the order of both.
    (3) Between those, what `difflib` finds.
    """
    head = _common(a, b)
    tail = _common(list(reversed(a[head:])), list(reversed(b[head:])))
    end_a, end_b = len(a) - tail, len(b) - tail
    found = [(0, 0, head)]  # (1)
    budget = [MAX_WORK]
    at_a, at_b = head, head
    for place_a, place_b in _anchors(a[head:end_a], b[head:end_b]):  # (2)
        found += _equal_runs(a, b, (at_a, head + place_a, at_b, head + place_b), budget)
        at_a, at_b = head + place_a + 1, head + place_b + 1
        found.append((at_a - 1, at_b - 1, 1))
    found += _equal_runs(a, b, (at_a, end_a, at_b, end_b), budget)
    return [*found, (end_a, end_b, tail)]


def _common(a: Sequence[str], b: Sequence[str]) -> int:
    """How many lines both begin with."""
    shorter = min(len(a), len(b))
    return next((at for at in range(shorter) if a[at] != b[at]), shorter)


def _anchors(a: Sequence[str], b: Sequence[str]) -> list[tuple[int, int]]:
    """The places of lines that occur once in each, as many as are in the same order."""
    once_a, once_b = ({line for line, n in Counter(side).items() if n == 1} for side in (a, b))
    places = {line: at for at, line in enumerate(b) if line in once_b}
    pairs = [(at, places[line]) for at, line in enumerate(a) if line in once_a and line in places]
    return _longest_increasing(pairs)


def _longest_increasing(pairs: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """The most of these pairs whose second numbers increase as the first do."""
    ends: list[int] = []  # the least second number that a run of each length ends with
    last: list[int] = []  # the position of its pair
    before: list[int] = []  # of each pair, the position of the one before it in its run
    for position, (_, second) in enumerate(pairs):
        length = bisect_left(ends, second)
        before.append(last[length - 1] if length else -1)
        ends[length : length + 1] = [second]
        last[length : length + 1] = [position]
    chosen = []
    position = last[-1] if last else -1
    while position >= 0:
        chosen.append(pairs[position])
        position = before[position]
    return chosen[::-1]


def _equal_runs(
    a: Sequence[str], b: Sequence[str], window: tuple[int, int, int, int], budget: list[int]
) -> list[tuple[int, int, int]]:
    """The equal runs within a window of both, longest first taken. Raises _TooMuchWorkError."""
    start_a, end_a, start_b, end_b = window
    if start_a == end_a or start_b == end_b:
        return []
    from difflib import SequenceMatcher

    matcher = SequenceMatcher(None, a[start_a:end_a], b[start_b:end_b], autojunk=False)
    times = Counter(b[start_b:end_b])
    found = []
    open_windows = [(0, end_a - start_a, 0, end_b - start_b)]
    while open_windows:
        low_a, high_a, low_b, high_b = open_windows.pop()
        lines = a[start_a + low_a : start_a + high_a]
        budget[0] -= len(lines) + sum(times[line] for line in lines)
        if budget[0] < 0:
            raise _TooMuchWorkError
        match = matcher.find_longest_match(low_a, high_a, low_b, high_b)
        if not match.size:
            continue
        found.append((start_a + match.a, start_b + match.b, match.size))
        open_windows.append((low_a, match.a, low_b, match.b))
        open_windows.append((match.a + match.size, high_a, match.b + match.size, high_b))
    return sorted(found)
