"""Merge of two manifests with a common base. Rules: ``docs/sync.md``."""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from lillux.store_errors import ObjectMissingError
from lillux.values import dataclass
from ryeos.sync.contents import Contents
from ryeos.sync.item_files import item_source
from ryeos.sync.objects import ItemSource, SourceManifest, item_source_of
from ryeos.sync.paths import PATH_PREFIX, clashes, fold
from ryeos.sync.text_merge import merge_text

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
    """Entry of a manifest under a path."""

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
    """Entry to take, None for nothing; or the type of a conflict. `CONTENT`: may yet be merged."""
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
    """Source of an entry's content (a file: an item without a name); None if it is not there."""
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
