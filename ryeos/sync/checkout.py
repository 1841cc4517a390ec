"""Writes the files of a manifest. Rules: ``docs/sync.md``, Files."""

import os
import stat
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from lillux.files import file_system_error, make_directory
from lillux.store import Store
from lillux.values import dataclass
from ryeos.sync.contents import ReadContents
from ryeos.sync.object_shapes import CasObjectError
from ryeos.sync.objects import (
    ItemSource,
    ManifestSpace,
    SourceManifest,
    item_source_of,
    manifest_of,
)
from ryeos.sync.paths import require_safe_paths
from ryeos.sync.stat_table import StatTable, TreeEntry
from ryeos.sync.tree_files import TreeFile, TreeFiles, remove_tree

_PREFIX = "rye-exec-"
_PROGRAM, _PLAIN = 0o755, 0o644


@dataclass(frozen=True, slots=True)
class ExecutionPaths:
    """Folders of an execution's files: copies of a project and of a user space."""

    project_path: Path
    user_space: Path
    cas_root: Path


@dataclass(frozen=True, slots=True)
class TreeChanges:
    """The changes that made a tree as wanted. Paths with slashes, sorted.

    A folder that was removed with all in it is one path, with a slash at its end.
    """

    changed: tuple[str, ...]
    removed: tuple[str, ...]


def mode_of(data: bytes) -> int:
    """The permissions of a file; a manifest has none. What names its interpreter is a program."""
    return _PROGRAM if data.startswith(b"#!") else _PLAIN


def materialize(
    project_manifest_hash: str, user_manifest_hash: str | None, cas_root: Path, tmp_base: Path
) -> ExecutionPaths:
    """A new folder below ``tmp_base`` with ``project/`` and ``user/``, the latter maybe empty.

    Raises CasObjectError, UnsafeManifestError, ObjectMissingError and the other errors of a store,
    FileSystemError. Nothing is left behind then.
    """
    from tempfile import mkdtemp

    store = Store(cas_root)
    make_directory(tmp_base)
    try:
        folder = Path(mkdtemp(prefix=_PREFIX, dir=tmp_base))
    except OSError as error:
        raise file_system_error(tmp_base, error) from error
    paths = ExecutionPaths(folder / "project", folder / "user", cas_root)
    try:
        _write_space(project_manifest_hash, "project", store, paths.project_path)
        if user_manifest_hash is None:
            make_directory(paths.user_space)
        else:
            _write_space(user_manifest_hash, "user", store, paths.user_space)
    except BaseException:  # an interrupt too leaves no half checkout
        cleanup(paths)
        raise
    return paths


def _write_space(digest: str, space: ManifestSpace, store: Store, root: Path) -> None:
    manifest = read_manifest(digest, space, store)
    nothing = SourceManifest(space)  # the folder is ours, and new
    write_tree(manifest, store, root, present=nothing)


def cleanup(paths: ExecutionPaths) -> None:
    """Remove what `materialize` has made, whatever is in it by now. Raises FileSystemError."""
    folder = paths.project_path.parent
    if folder.name.startswith(_PREFIX):
        remove_tree(folder)


def read_manifest(digest: str, space: ManifestSpace, contents: ReadContents) -> SourceManifest:
    """The manifest of a space. Raises CasObjectError, and as ``contents`` does."""
    manifest = manifest_of(contents.get_object(digest), f"source_manifest {digest}")
    if manifest.space != space:
        problem = f'space: expected "{space}", found "{manifest.space}"'
        raise CasObjectError(f"source_manifest {digest}", problem)
    return manifest


def write_tree(
    manifest: SourceManifest,
    contents: ReadContents,
    root: Path,
    *,
    present: SourceManifest | None = None,
    table: StatTable | None = None,
    modes: Callable[[bytes], int] = mode_of,
    is_checked: bool = False,
    found: TreeChanges | None = None,
    owner: int = 0,
) -> TreeChanges:
    """Make ``root`` hold what ``manifest`` says, and nothing else. What changed for that.

    With ``present`` and no table the tree is taken to hold that manifest: what differs is
    written or removed, and nothing else is looked at. Else every file is looked at: what the
    table knows stays, what it does not is read and compared. The table learns what it is now.
    ``is_checked`` says that this very manifest has passed (1) before. ``found`` is what
    `differences` has found, where nothing else has changed since: then no file is looked at.
    ``owner`` is as for `TreeFiles`.

    (1) The paths are checked. (2) What is to be written is found, and that it can be read.
    (3) What does not belong there is removed. (4) The rest is written, each file whole or not at
    all, nothing through a link. (5) The table learns it.

    Raises UnsafeManifestError, CasObjectError and ObjectMissingError before anything is changed;
    FileSystemError, and what ``contents`` raises.
    """
    if not is_checked:
        require_safe_paths(manifest.paths())  # (1)
    wanted = _WantedFiles(manifest, contents)
    files = TreeFiles(root, owner)
    if found is not None:
        todo = found
    elif present is not None and table is None:
        todo = _difference(wanted, present)
    else:
        todo = _TreeComparison(wanted, files, table, modes).differences()
    for path in todo.changed:  # (2)
        wanted.require(path)
    for path in todo.removed:  # (3)
        files.remove(path.removesuffix("/"))
        files.remove_empty_folders(path)
    for path in todo.changed:  # (4)
        data = contents.get_blob(wanted.blob(path))
        files.write(path, data, modes(data))
    if table is not None:  # (5)
        for path in todo.changed:
            _record(table, path, wanted, files.status(path))
    return todo


def differences(
    manifest: SourceManifest,
    contents: ReadContents,
    root: Path,
    table: StatTable | None,
    modes: Callable[[bytes], int] = mode_of,
) -> TreeChanges:
    """Files that `write_tree` would write and remove, by a look at every file. Nothing is changed.

    What ``table`` does not know is read. Raises as `write_tree`.
    """
    return _TreeComparison(
        _WantedFiles(manifest, contents), TreeFiles(root), table, modes
    ).differences()


class _WantedFiles:
    """The files of a manifest. What an item holds is read when it is first asked for."""

    def __init__(self, manifest: SourceManifest, contents: ReadContents) -> None:
        self.items, self.files = manifest.items, manifest.files
        self.paths = {**manifest.files, **manifest.items}
        self._contents = contents
        self._sources: dict[str, tuple[ItemSource, Mapping[str, Any]]] = {}

    def folders(self) -> set[str]:
        found: set[str] = set()
        for path in self.paths:
            folder = path.rpartition("/")[0]
            while folder and folder not in found:
                found.add(folder)
                folder = folder.rpartition("/")[0]
        return found

    def blob(self, path: str) -> str:
        return self.source(path)[0].content_blob_hash if path in self.items else self.files[path]

    def source(self, path: str) -> tuple[ItemSource, Mapping[str, Any]]:
        """Entry of the item at a path, and its object."""
        digest = self.items[path]
        if digest not in self._sources:
            value = self._contents.get_object(digest)
            self._sources[digest] = item_source_of(value, f"item_source {digest}"), value
        return self._sources[digest]

    def require(self, path: str) -> None:
        digest = self.blob(path)
        if not self._contents.has_blob(digest):
            self._contents.get_blob(digest)  # says what is missing, and where

    def is_entry(self, path: str, entry: TreeEntry) -> bool:
        """True if a file that is this entry is the one that is wanted at a path."""
        if path not in self.items:
            return entry.blob == self.files[path]
        if entry.item_digest is not None:
            return entry.item_digest == self.items[path]
        return entry.blob == self.blob(path)


def _difference(wanted: _WantedFiles, present: SourceManifest) -> TreeChanges:
    here = {**present.files, **present.items}
    write = [path for path, digest in wanted.paths.items() if here.get(path) != digest]
    removed = (path for path in here if path not in wanted.paths)
    return TreeChanges(tuple(sorted(write)), tuple(sorted(removed)))


class _TreeComparison:
    """Finds what to do by looking at every file of a tree."""

    def __init__(
        self,
        wanted: _WantedFiles,
        files: TreeFiles,
        table: StatTable | None,
        modes: Callable[[bytes], int],
    ) -> None:
        self._wanted, self._files, self._table, self._modes = wanted, files, table, modes

    def differences(self) -> TreeChanges:
        """Files that are not as wanted, by a look at every file."""
        wanted, folders = self._wanted, self._wanted.folders()
        missing = dict.fromkeys(wanted.paths)
        remove: list[str] = []
        waiting = [""]
        while waiting:
            for found in self._files.entries(waiting.pop()):
                relative = found.relative
                if relative in missing:
                    if found.is_file and self._is_right(found):
                        del missing[relative]
                    elif found.is_folder:
                        remove.append(f"{relative}/")
                elif not found.is_folder:
                    remove.append(relative)
                elif relative in folders:
                    waiting.append(relative)
                else:
                    remove.append(f"{relative}/")
        return TreeChanges(tuple(sorted(missing)), tuple(sorted(remove)))

    def _is_right(self, found: TreeFile) -> bool:
        path = found.relative
        known = self._table.entry(path, found.status) if self._table is not None else None
        if known is not None:
            return self._wanted.is_entry(path, known)
        mode = stat.S_IMODE(found.status.st_mode)
        if not mode & stat.S_IRUSR or not self._files.is_owned(found.status):
            return False
        digest, first = self._files.digest(path)
        if digest != self._wanted.blob(path) or not _is_mode(mode, self._modes(first)):
            return False
        if self._table is not None:
            _record(self._table, path, self._wanted, found.status)
        return True


def _is_mode(found: int, wanted: int) -> bool:
    """True if a file has its permissions, but for what the umask may have taken."""
    if os.name != "posix":
        return True
    owner = stat.S_IRWXU
    return found & owner == wanted & owner and not found & ~wanted


def _record(
    table: StatTable, path: str, wanted: _WantedFiles, status: os.stat_result | None
) -> None:
    if status is None:
        return
    if path in wanted.items:
        source, value = wanted.source(path)
        table.record(path, status, TreeEntry(source.content_blob_hash, wanted.items[path], value))
    else:
        table.record(path, status, TreeEntry(wanted.files[path]))
