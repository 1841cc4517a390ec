"""Conflicts with a node, kept until they are resolved: a record, and each version as a file.

``.ai/state/remote/<name>/conflicts/``: ``conflicts.json``, and ``base/``, ``ours/``, ``theirs/``
with the files under their own paths. Format: ``docs/remote.md``.
"""

import json
import os
import shutil
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from contextlib import suppress
from pathlib import Path

from lillux.beneath import open_folder
from lillux.contained_paths import is_inside
from lillux.files import (
    create_file,
    file_system_error,
    make_directory,
    read_bytes,
    remove_file,
    write_atomic,
)
from lillux.shapes import write
from lillux.store import Store
from lillux.store_layout import is_digest
from lillux.values import dataclass, field, replace
from ryeos.items.errors import RyeError
from ryeos.remote.errors import conflict_record_error
from ryeos.sync.merge import ADD_ADD, CONTENT, DELETE_MODIFY, ITEM_FILE_TYPE, MODIFY_DELETE
from ryeos.sync.objects import SourceManifest
from ryeos.sync.paths import PATH_CASE, PATH_PREFIX, safe_target

RECORD = "conflicts.json"
BASE, OURS, THEIRS = "base", "ours", "theirs"
_MAX_RECORD_BYTES = 16 * 1024 * 1024
_FORMAT = 1

_WORDS = {
    CONTENT: "both changed it",
    ADD_ADD: "both added it",
    MODIFY_DELETE: "changed here, removed there",
    DELETE_MODIFY: "removed here, changed there",
    ITEM_FILE_TYPE: "an item on one side, another file on the other",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptConflict:
    """A path that both sides changed. Digests of its bytes, None for no file.

    type      ``content``, ``add/add``, ``modify/delete`` and the like
    entry     what the node's manifest has there, an item's digest or that of bytes
    is_item   which of the two
    is_settled  a person has decided; the node's version counts as seen
    is_seen     it was settled, and then met another path: the node's version still counts as seen
    other       the path that it cannot be beside, ``""`` where it stands for itself
    """

    base: str | None
    ours: str | None
    theirs: str | None
    type: str
    entry: str | None
    is_item: bool
    is_settled: bool = False
    is_seen: bool = False
    other: str = ""

    def describe(self) -> str:
        """The reason of the conflict, for a person; with the other path as it is."""
        if self.type == PATH_CASE:
            return f"differs only by case from {self.other}"
        if self.type == PATH_PREFIX:
            return f"a file and a folder cannot have one name: {self.other}"
        return _WORDS.get(self.type, self.type)


@dataclass(frozen=True, slots=True)
class ConflictRecord:
    """All conflicts with one snapshot of the node; ``is_of_run``: one that is no head, of a run."""

    snapshot_hash: str
    conflicts: Mapping[str, KeptConflict] = field(default_factory=dict)
    is_of_run: bool = False

    def open_paths(self) -> list[str]:
        """The open conflicts."""
        return sorted(path for path, one in self.conflicts.items() if not one.is_settled)

    def reasons(self) -> dict[str, str]:
        """The open conflicts, each with its reason."""
        return {path: self.conflicts[path].describe() for path in self.open_paths()}

    def settled(self, path: str) -> "ConflictRecord":
        """The same with one path settled."""
        conflicts = dict(self.conflicts)
        conflicts[path] = replace(conflicts[path], is_settled=True)
        return replace(self, conflicts=conflicts)

    def seen_by(self, base: SourceManifest) -> SourceManifest:
        """The base of the next merge: of what is settled, the version that was settled against."""
        items, files = dict(base.items), dict(base.files)
        for path, conflict in self.conflicts.items():
            if not (conflict.is_settled or conflict.is_seen):
                continue
            items.pop(path, None)
            files.pop(path, None)
            if conflict.entry is not None:
                (items if conflict.is_item else files)[path] = conflict.entry
        return SourceManifest(base.space, items, files)


class ConflictFolder:
    """The conflicts with one remote; ``ai`` is the project's ``.ai``."""

    def __init__(self, ai: Path, remote: str) -> None:
        self._ai = ai
        self.within = ai.parent
        self.folder = ai / "state" / "remote" / remote / "conflicts"

    def read(self) -> ConflictRecord | None:
        """The kept conflicts, None for none. Raises RyeError `CONFIG_ERROR`."""
        path = self.folder / RECORD
        self._require_own()
        try:
            value = json.loads(read_bytes(path, _MAX_RECORD_BYTES))
        except FileNotFoundError:
            return None
        except (ValueError, RecursionError) as error:
            raise conflict_record_error(str(path), f"expected JSON: {error}") from None
        return _record_of(value, str(path))

    def write(self, record: ConflictRecord) -> None:
        """Replace the record. Raises FileSystemError."""
        self._require_own()
        make_directory(self.folder, within=self.within)
        text = json.dumps({"format": _FORMAT, **write(record)}, indent=2, sort_keys=True)
        write_atomic(self.folder / RECORD, f"{text}\n".encode(), within=self.within)

    def keep(self, version: str, path: str, data: bytes) -> None:
        """Keep one version of a file, `BASE`, `OURS` or `THEIRS`. Raises UnsafeManifestError."""
        self._require_own()
        root = self.folder / version
        make_directory(root, within=self.within)
        target = safe_target(root, path)
        make_directory(target.parent, within=self.within)
        write_atomic(target, data, mode=0o644, within=self.within)

    def kept(self, version: str, path: str) -> bytes | None:
        """A version that was kept, None where there was no file."""
        self._require_own()
        try:
            return read_bytes(safe_target(self.folder / version, path), _MAX_KEPT_BYTES)
        except FileNotFoundError:
            return None

    def forget_others(self, paths: AbstractSet[str]) -> None:
        """Forget the versions of all but these paths. Raises FileSystemError."""
        self._require_own()
        for version in (BASE, OURS, THEIRS):
            root = self.folder / version
            for parent, _, names in os.walk(root, topdown=False):
                folder = Path(parent)
                try:
                    for name in names:
                        if (folder / name).relative_to(root).as_posix() not in paths:
                            remove_file(folder / name, within=self.within)
                except OSError as error:
                    raise file_system_error(folder, error) from error
                with suppress(OSError):  # something is in it
                    folder.rmdir()

    def clear(self) -> None:
        """Forget all: they are merged."""
        self._require_own()
        try:
            shutil.rmtree(self.folder)
        except FileNotFoundError:
            return
        except OSError as error:
            raise file_system_error(self.folder, error) from error

    def _require_own(self) -> None:
        """A project is foreign data: no link of it leads what is written here elsewhere."""
        if not is_inside(self.folder, self._ai):
            raise conflict_record_error(str(self.folder), "leads outside .ai through a link")
        with suppress(OSError):  # it is not there yet
            open_folder(self.folder, self.within).close()


_MAX_KEPT_BYTES = 256 * 1024 * 1024


def _record_of(value: object, where: str) -> ConflictRecord:
    if not isinstance(value, dict) or value.get("format") != _FORMAT:
        raise conflict_record_error(where, f"expected an object of format {_FORMAT}")
    conflicts, snapshot_hash = value.get("conflicts"), value.get("snapshot_hash")
    if not isinstance(conflicts, dict) or not is_digest(snapshot_hash):
        raise conflict_record_error(where, "expected snapshot_hash and conflicts")
    return ConflictRecord(
        str(snapshot_hash),
        {path: _conflict_of(one, f"{where}: {path}") for path, one in conflicts.items()},
        is_of_run=value.get("is_of_run") is True,
    )


def _conflict_of(value: object, where: str) -> KeptConflict:
    if not isinstance(value, dict):
        raise conflict_record_error(where, "expected an object")
    digests = [value.get(key) for key in ("base", "ours", "theirs", "entry")]
    if not all(digest is None or is_digest(digest) for digest in digests):
        raise conflict_record_error(where, "expected digests or null")
    base, ours, theirs, entry = digests
    return KeptConflict(
        base=base,
        ours=ours,
        theirs=theirs,
        type=str(value.get("type")),
        entry=entry,
        is_item=value.get("is_item") is True,
        is_settled=value.get("is_settled") is True,
        is_seen=value.get("is_seen") is True,
        other=str(value.get("other") or ""),
    )


# Where a project keeps what it has in common with nodes. No link in it leads anywhere else.

INCOMING = "incoming"
_IGNORE = b"# Of this machine only.\n*\n"


def project_store(ai: Path) -> Store:
    """The store of a project. Raises RyeError `INTEGRITY`, FileSystemError."""
    folder = ai / "state" / "objects"
    return Store(own_folder(folder, ai))


def own_folder(folder: Path, ai: Path) -> Path:
    """The folder, made if it is missing and kept out of version control. Raises as above."""
    if not is_inside(folder, ai) or folder.is_symlink() or folder.parent.is_symlink():
        raise RyeError(
            f"{folder!s}: expected a folder of the project's own, found a link",
            code="INTEGRITY",
            hint="remove the link, and look who put it there",
            path=str(folder),
        )
    make_directory(folder, within=ai.parent)
    with suppress(FileExistsError):
        create_file(folder / ".gitignore", _IGNORE, within=ai.parent)
    return folder


def incoming_folder(remote_folder: Path, ai: Path) -> Path:
    """The folder of files before they come to their places. Raises as `own_folder`."""
    return own_folder(remote_folder / INCOMING, ai)


def new_incoming_folder(remote_folder: Path, ai: Path) -> Path:
    """The same without what a killed process left in it."""
    folder = incoming_folder(remote_folder, ai)
    for left in folder.glob(".*.tmp"):
        with suppress(OSError):
            left.unlink()
    return folder
