"""Manifest of a folder.

Building one stores nothing and reads only files that the table of `ryeos.sync.stat_table` does not
know: ``docs/store.md``. The bytes of files that a walk has found are read without pathlib, as by
that walk.
"""

import json
import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path
from time import time_ns
from typing import Any

from lillux.canonical_json import canonical_json
from lillux.errors import LilluxError
from lillux.files import PLAIN_FILE, file_system_error, read_bytes
from lillux.store_errors import ObjectMissingError
from lillux.store_layout import ObjectKind
from lillux.values import dataclass, field, replace
from ryeos import __version__
from ryeos.items.errors import RyeError
from ryeos.items.refs import AI_DIRECTORY
from ryeos.sync.admission import (
    is_private_path,
    problem_of,
    why_it_stays,
    why_never,
    why_never_below,
)
from ryeos.sync.entries import MAX_ENTRY_BYTES
from ryeos.sync.item_files import item_source, kind_of
from ryeos.sync.objects import ManifestSpace, SourceManifest
from ryeos.sync.rules import KeptOut, ManifestRules, NameRules
from ryeos.sync.stat_table import BLOB, ITEM, ITEM_DIGEST, StatTable, TreeEntry
from ryeos.sync.tree_walk import SkippedFile, WalkedFile, take_nothing, walk

_LARGE_BYTES = 8 * 1024 * 1024
_PART_BYTES = 1024 * 1024


def read_found(root: str, found: WalkedFile) -> bytes | None:
    """All of a file; None for one that was removed meanwhile. Raises FileSystemError."""
    with _open_plain(f"{root}/{found.target or found.relative}") as descriptor:
        if descriptor is None:
            return None
        # One byte more tells a file that has grown from one that was read whole.
        data = os.read(descriptor, found.status.st_size + 1)
        parts = [data]
        while data:
            data = os.read(descriptor, _PART_BYTES)
            parts.append(data)
    return parts[0] if len(parts) <= 2 else b"".join(parts)  # noqa: PLR2004 - bytes, and none


def digest_found(root: str, found: WalkedFile) -> str | None:
    """The digest of a file of any size; None as `read_found`. Raises FileSystemError."""
    if found.status.st_size < _LARGE_BYTES:
        data = read_found(root, found)
        return None if data is None else sha256(data).hexdigest()
    with _open_plain(f"{root}/{found.target or found.relative}") as descriptor:
        if descriptor is None:
            return None
        digest = sha256()
        while part := os.read(descriptor, _PART_BYTES):
            digest.update(part)
    return digest.hexdigest()


@contextmanager
def _open_plain(path: str) -> Iterator[int | None]:
    try:
        descriptor = os.open(path, PLAIN_FILE)
    except (FileNotFoundError, NotADirectoryError):
        yield None
        return
    except OSError as error:
        raise file_system_error(path, error) from error
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            yield None  # removed, and something else put there
        else:
            yield descriptor
    except OSError as error:
        raise file_system_error(path, error) from error
    finally:
        os.close(descriptor)


_MAX_OBJECT_BYTES = 256 * 1024 * 1024  # of anything that a store holds


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
    skipped: tuple[SkippedFile, ...]
    table: StatTable

    def with_manifest(self, manifest: SourceManifest) -> "Tree":
        """The same folder with another manifest for it."""
        data = canonical_json(manifest.as_object())
        digest = sha256(data).hexdigest()
        return replace(self, manifest=manifest, manifest_hash=digest, manifest_data=data)

    def has_blob(self, digest: str) -> bool:
        """True if a file of the tree has these bytes."""
        return digest in self.blobs

    def has_object(self, digest: str) -> bool:
        """True if it is an item of the tree, or its manifest."""
        return digest == self.manifest_hash or digest in self.item_sources

    def get_blob(self, digest: str) -> bytes:
        """The bytes of a file, hashed again.

        Raises ObjectMissingError, RyeError `CONFLICT` for a file that is no longer what it was,
        and FileSystemError.
        """
        relative = self.blobs.get(digest)
        if relative is None:
            raise ObjectMissingError(ObjectKind.BLOB.value, digest, str(self.root))
        try:
            data = read_bytes(self.root / relative, _MAX_OBJECT_BYTES)
        except FileNotFoundError:
            raise self._changed_error(relative) from None
        if sha256(data).hexdigest() != digest:
            raise self._changed_error(relative)
        return data

    def get_object(self, digest: str) -> Any:  # noqa: ANN401 - JSON of ours
        """An item of the tree, or its manifest. Raises ObjectMissingError."""
        if digest == self.manifest_hash:
            return self.manifest.as_object()
        value = self.item_sources.get(digest)
        if value is None:
            raise ObjectMissingError(ObjectKind.OBJECT.value, digest, str(self.root))
        return dict(value)

    def _changed_error(self, relative: str) -> RyeError:
        self.table.forget(relative)  # a table that was wrong must not be wrong the next time too
        with suppress(LilluxError):  # what matters is that it changed
            self.table.save()
        path = str(self.root / relative)
        return RyeError(
            f"{path}: changed while the project was being sent",
            code="CONFLICT",
            hint="nothing is lost; run the command again",
            path=path,
        )


def build_project_tree(root: Path, rules: ManifestRules, table: StatTable) -> Tree:
    """A project as the rules say: items, and other files where the rules include some.

    ``table`` learns what was read. Raises FileSystemError for what cannot be read: a file that is
    left out is taken for one that was removed.
    """
    building = _TreeBuilder(root, "project", rules, table)
    building.add_items()
    if rules.takes_files:
        building.add_files()
    return building.tree()


def build_user_tree(user_root: Path, rules: ManifestRules, table: StatTable) -> Tree:
    """Of a user space what runs on a node need: never a private key, never a pinned node.

    Raises as `build_project_tree`.
    """
    building = _TreeBuilder(user_root, "user", rules, table)
    building.add_items()
    return building.tree()


def _digest_of_rules(space: ManifestSpace, rules: ManifestRules) -> str:
    """A digest of what decides which paths travel: the rules, and this version's own."""
    return sha256(f"{__version__}\n{space}\n{rules}".encode()).hexdigest()


class _TreeBuilder:
    """A tree that is being built."""

    def __init__(
        self, root: Path, space: ManifestSpace, rules: ManifestRules, table: StatTable
    ) -> None:
        self._root, self._path = root, str(root)
        self._space, self._rules, self._table = space, rules, table
        # Paths that these rules have let travel before. They are asked of each path only once.
        self._rules_digest = _digest_of_rules(space, rules)
        known = table.paths() if table.admitted_by == self._rules_digest else ()
        self._admitted = frozenset(known)
        self._names = NameRules(rules)
        self._excluded = KeptOut(rules.exclude, rules.ignored)
        self._items: dict[str, str] = {}
        self._files: dict[str, str] = {}
        self._sources: dict[str, Mapping[str, Any]] = {}
        self._blobs: dict[str, str] = {}
        self._skipped: list[SkippedFile] = []
        # Canonical for what an item_source holds, which is text and nothing else.
        encoder = json.JSONEncoder(sort_keys=True, separators=(",", ":"))
        self._encode = encoder.encode

    def tree(self) -> Tree:
        """The tree of what was added."""
        self._table.retain(self._items.keys() | self._files.keys())
        self._table.admit(self._rules_digest)
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

        admitted = self._admitted
        take = self._take_item if admitted else take_nothing
        for found in walk(
            self._path, AI_DIRECTORY, enter, self._skipped.append, take=take, named=admitted
        ):
            if (found.relative in admitted and not found.target) or (
                kind_of(found.relative) and self._may_travel(found, is_item=True)
            ):
                self._add_item(found)

    def add_files(self) -> None:
        """Add the files outside ``.ai`` that the rules include."""
        include, exclude = self._rules.file_rules()

        def enter(relative: str, _: str) -> bool:
            if exclude.match(f"{relative}/"):
                return False
            return not why_never_below(relative, is_item=False)

        skipped: list[SkippedFile] = []
        admitted = self._admitted
        take = self._take_file if admitted else take_nothing
        for found in walk(self._path, "", enter, skipped.append, take=take, named=admitted):
            path = found.relative
            if path in admitted and not found.target:
                self._add_file(found)
            elif not include.match(path) or exclude.match(path):
                continue
            elif self._may_travel(found, is_item=False):
                self._add_file(found)
        self._skipped += (one for one in skipped if include.match(one.path))

    def _may_travel(self, found: WalkedFile, *, is_item: bool) -> bool:
        if self._names.forbids(found.name) or is_private_path(found.relative):
            return False
        problem = problem_of(found.relative, is_item=is_item)
        if problem:
            self._skipped.append(SkippedFile(found.relative, problem))
            return False
        target = found.target
        if not target:
            return True
        # What must not travel must not do so under another name either.
        forbidden = self._excluded.match(target) or self._names.forbids(target.rpartition("/")[2])
        if forbidden or why_never(target, is_item=kind_of(target) is not None):
            self._skipped.append(
                SkippedFile(found.relative, f"a link to {target}, which stays here")
            )
            return False
        return True

    def _take_item(self, relative: str, status: os.stat_result) -> bool:
        """Add an item that is in the table as it is, and may travel; whether it is one."""
        row = self._table.row(relative, status)
        if row is None or row[ITEM] is None or self._must_look(relative):
            return False
        self._items[relative] = row[ITEM_DIGEST]
        self._sources[row[ITEM_DIGEST]] = row[ITEM]
        self._blobs.setdefault(row[BLOB], relative)
        return True

    def _take_file(self, relative: str, status: os.stat_result) -> bool:
        """Add a file that is in the table as it is, and may travel; whether it is one."""
        row = self._table.row(relative, status)
        if row is None:
            return False
        self._files[relative] = row[BLOB]
        self._blobs.setdefault(row[BLOB], relative)
        return True

    def _add_item(self, found: WalkedFile) -> None:
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
        """True if what a file holds decides, and the table may be from before the rule."""
        return self._space == "user" and relative.startswith(f"{AI_DIRECTORY}/config/")

    def _item_entry(self, found: WalkedFile) -> TreeEntry | None:
        """Entry of an item file; None for one that is left out or was removed meanwhile."""
        relative = found.relative
        if found.status.st_size > MAX_ENTRY_BYTES:
            problem = f"expected an item of at most {MAX_ENTRY_BYTES} bytes"
            self._skipped.append(SkippedFile(relative, f"{problem}, found {found.status.st_size}"))
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
            self._skipped.append(SkippedFile(relative, problem))
            return None
        value = source.as_object()
        item_digest = sha256(self._encode(value).encode("ascii")).hexdigest()
        entry = TreeEntry(digest, item_digest, value)
        self._table.record(relative, found.status, entry, now_ns=now_ns)
        return entry

    def _add_file(self, found: WalkedFile) -> None:
        relative = found.relative
        entry = self._table.entry(relative, found.status)
        if entry is None:
            now_ns = time_ns()
            digest = digest_found(self._path, found)
            if digest is None:
                return
            entry = TreeEntry(digest)
            self._table.record(relative, found.status, entry, now_ns=now_ns)
        self._files[relative] = entry.blob
        self._blobs.setdefault(entry.blob, relative)
