"""The manifest of a folder on the disk, and its content read from there when it is asked for.

Building one stores nothing and reads only files that the table does not know: ``docs/cas.md``.
"""

import json
from collections.abc import Mapping
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from time import time_ns
from typing import Any

from lillux.digests import canonical_json
from lillux.errors import LilluxError
from lillux.files import read_bytes
from lillux.store_files import ObjectMissingError, Space
from lillux.values import dataclass, field, replace
from ryeos.cas.admission import problem_of, why_never, why_never_below
from ryeos.cas.errors import TreeChangedError
from ryeos.cas.item_files import item_source, kind_of
from ryeos.cas.objects import ManifestSpace, SourceManifest
from ryeos.cas.private_files import stays_by_path, why_it_stays
from ryeos.cas.rules import ManifestRules, NameRules, PathPatterns
from ryeos.cas.stat_table import Entry, StatTable
from ryeos.cas.sync import MAX_ENTRY_BYTES
from ryeos.cas.tree_reading import digest_found, read_found
from ryeos.cas.tree_walk import Found, Skipped, walk
from ryeos.items import AI_DIRECTORY

__all__ = ["Skipped", "Tree", "build_project_tree", "build_user_tree"]

_MAX_BYTES = 256 * 1024 * 1024  # of anything that a store holds


@dataclass(frozen=True, slots=True, kw_only=True)
class Tree:
    """A folder as it was when it was looked at. Its content can be read like that of a store.

    manifest       which files it has
    manifest_hash  the digest of that
    manifest_data  its canonical JSON
    item_sources   the ``item_source`` of each item, by digest
    blobs          a file that has the bytes, by digest: a path relative to ``root``
    skipped        what was left out though its place says that it should travel, sorted
    """

    root: Path
    manifest: SourceManifest
    manifest_hash: str
    manifest_data: bytes = field(repr=False)
    item_sources: Mapping[str, Mapping[str, Any]]
    blobs: Mapping[str, str]
    skipped: tuple[Skipped, ...]
    table: StatTable

    def with_manifest(self, manifest: SourceManifest) -> "Tree":
        """The same folder with another manifest for it."""
        data = canonical_json(manifest.as_object())
        digest = sha256(data).hexdigest()
        return replace(self, manifest=manifest, manifest_hash=digest, manifest_data=data)

    def has_blob(self, digest: str) -> bool:
        """Whether a file of the tree has these bytes."""
        return digest in self.blobs

    def has_object(self, digest: str) -> bool:
        """Whether it is an item of the tree, or its manifest."""
        return digest == self.manifest_hash or digest in self.item_sources

    def get_blob(self, digest: str) -> bytes:
        """The bytes of a file, hashed again.

        Raises ObjectMissingError, TreeChangedError for a file that is no longer what it was, and
        FileSystemError.
        """
        relative = self.blobs.get(digest)
        if relative is None:
            raise ObjectMissingError(Space.BLOB.value, digest, str(self.root))
        try:
            data = read_bytes(self.root / relative, _MAX_BYTES)
        except FileNotFoundError:
            raise self._changed(relative) from None
        if sha256(data).hexdigest() != digest:
            raise self._changed(relative)
        return data

    def get_object(self, digest: str) -> Any:  # noqa: ANN401 - JSON of ours
        """An item of the tree, or its manifest. Raises ObjectMissingError."""
        if digest == self.manifest_hash:
            return self.manifest.as_object()
        value = self.item_sources.get(digest)
        if value is None:
            raise ObjectMissingError(Space.OBJECT.value, digest, str(self.root))
        return dict(value)

    def _changed(self, relative: str) -> TreeChangedError:
        self.table.forget(relative)  # a table that was wrong must not be wrong the next time too
        with suppress(LilluxError):  # what matters is that it changed
            self.table.save()
        return TreeChangedError(str(self.root / relative))


def build_project_tree(root: Path, rules: ManifestRules, table: StatTable) -> Tree:
    """A project as the rules say: items, and other files where the rules include some.

    ``table`` learns what was read. Raises FileSystemError for what cannot be read: a file that is
    left out is taken for one that was removed.
    """
    building = _Building(root, "project", rules, table)
    building.add_items()
    if rules.takes_files:
        building.add_files()
    return building.tree()


def build_user_tree(user_root: Path, rules: ManifestRules, table: StatTable) -> Tree:
    """Of a user space what runs on a node need: never a private key, never a pinned node.

    Raises as `build_project_tree`.
    """
    building = _Building(user_root, "user", rules, table)
    building.add_items()
    return building.tree()


class _Building:
    """A tree in the making."""

    def __init__(
        self, root: Path, space: ManifestSpace, rules: ManifestRules, table: StatTable
    ) -> None:
        self._root, self._path = root, str(root)
        self._space, self._rules, self._table = space, rules, table
        self._names = NameRules(rules)
        self._excluded = PathPatterns(rules.exclude)
        self._items: dict[str, str] = {}
        self._files: dict[str, str] = {}
        self._sources: dict[str, Mapping[str, Any]] = {}
        self._blobs: dict[str, str] = {}
        self._skipped: list[Skipped] = []
        # Canonical for what an item_source holds, which is text and nothing else.
        encoder = json.JSONEncoder(sort_keys=True, separators=(",", ":"))
        self._encode = encoder.encode

    def tree(self) -> Tree:
        """What was added."""
        self._table.retain(self._items.keys() | self._files.keys())
        manifest = SourceManifest(self._space, self._items, self._files)
        data = canonical_json(manifest.as_object())
        return Tree(
            root=self._root,
            manifest=manifest,
            manifest_hash=sha256(data).hexdigest(),
            manifest_data=data,
            item_sources=self._sources,
            blobs=self._blobs,
            skipped=tuple(sorted(self._skipped, key=lambda one: one.path)),
            table=self._table,
        )

    def add_items(self) -> None:
        """Add item files."""
        skip_dirs = frozenset(self._rules.skip_dirs)
        ai = f"{AI_DIRECTORY}/"

        def enter(relative: str, name: str) -> bool:
            if relative != ai + name:
                return not why_never_below(relative, is_item=True)
            return name not in skip_dirs and kind_of(f"{relative}/x") is not None

        for found in walk(self._path, AI_DIRECTORY, enter, self._skipped.append):
            if kind_of(found.relative) and self._may_travel(found, is_item=True):
                self._add_item(found)

    def add_files(self) -> None:
        """Add the files outside ``.ai`` that the rules include."""
        include, exclude = self._rules.file_rules()

        def enter(relative: str, _: str) -> bool:
            if exclude.match(f"{relative}/"):
                return False
            return not why_never_below(relative, is_item=False)

        skipped: list[Skipped] = []
        for found in walk(self._path, "", enter, skipped.append):
            path = found.relative
            if not include.match(path) or exclude.match(path):
                continue
            if self._may_travel(found, is_item=False):
                self._add_file(found)
        self._skipped += (one for one in skipped if include.match(one.path))

    def _may_travel(self, found: Found, *, is_item: bool) -> bool:
        if self._names.forbids(found.name) or stays_by_path(found.relative):
            return False
        problem = problem_of(found.relative, is_item=is_item)
        if problem:
            self._skipped.append(Skipped(found.relative, problem))
            return False
        target = found.target
        if not target:
            return True
        # What must not travel must not do so under another name either.
        forbidden = self._excluded.match(target) or self._names.forbids(target.rpartition("/")[2])
        if forbidden or why_never(target, is_item=kind_of(target) is not None):
            self._skipped.append(Skipped(found.relative, f"a link to {target}, which stays here"))
            return False
        return True

    def _add_item(self, found: Found) -> None:
        relative = found.relative
        entry = None if self._must_look(relative) else self._table.entry(relative, found.status)
        if entry is None or entry.item_digest is None or entry.item is None:
            entry = self._item_entry(found)
            if entry is None:
                return
        assert entry.item_digest is not None and entry.item is not None  # noqa: S101, PT018 - for mypy
        self._items[relative] = entry.item_digest
        self._sources[entry.item_digest] = entry.item
        self._blobs.setdefault(entry.blob, relative)

    def _must_look(self, relative: str) -> bool:
        """Whether what a file holds decides, and the table may be from before the rule."""
        return self._space == "user" and relative.startswith(f"{AI_DIRECTORY}/config/")

    def _item_entry(self, found: Found) -> Entry | None:
        """What an item file is, read; None for one that is left out or was removed meanwhile."""
        relative = found.relative
        if found.status.st_size > MAX_ENTRY_BYTES:
            problem = f"expected an item of at most {MAX_ENTRY_BYTES} bytes"
            self._skipped.append(Skipped(relative, f"{problem}, found {found.status.st_size}"))
            return None
        now_ns = time_ns()
        data = read_found(self._path, found)
        if data is None:
            return None
        problem = why_it_stays(relative, data) if self._space == "user" else ""
        digest = sha256(data).hexdigest()
        source = item_source(relative, data, digest)
        if source is None:
            problem = "expected UTF-8 text: items travel as text"
        if problem or source is None:
            self._skipped.append(Skipped(relative, problem))
            return None
        value = source.as_object()
        item_digest = sha256(self._encode(value).encode("ascii")).hexdigest()
        entry = Entry(digest, item_digest, value)
        self._table.record(relative, found.status, entry, now_ns=now_ns)
        return entry

    def _add_file(self, found: Found) -> None:
        relative = found.relative
        entry = self._table.entry(relative, found.status)
        if entry is None:
            now_ns = time_ns()
            digest = digest_found(self._path, found)
            if digest is None:
                return
            entry = Entry(digest)
            self._table.record(relative, found.status, entry, now_ns=now_ns)
        self._files[relative] = entry.blob
        self._blobs.setdefault(entry.blob, relative)
