"""Applies a merge to the project, and never overwrites a file that changed here.

(1) every target is a plain file of the project, or is to be one   (2) each holds what it held when
the merge began   (3) what moves from one file to another is copied   (4) each is written whole,
looked at once more right before   (5) on the disk
"""

import os
import stat
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple, TypeAlias

from lillux.beneath import Folder, open_folder
from lillux.digests import sha256_hex
from lillux.files import (
    NEW_FILE,
    create_file,
    file_system_error,
    make_directory,
    read_bytes,
    remove_file,
    temporary_for,
)
from lillux.store import MAX_BYTES
from lillux.store_forcing import EarlyForce, force_files
from lillux.values import dataclass, field
from ryeos.remote.errors import LocalChangeError
from ryeos.remote.new_files import NewFiles
from ryeos.sync.contents import ReadContents
from ryeos.sync.objects import SourceManifest, item_source_of
from ryeos.sync.paths import PresentTargets, folders_above, require_safe_paths, safe_target

_PLAIN, _RUNNABLE = 0o644, 0o755

FileOf: TypeAlias = Callable[[str], str | None]
"""The path of a file with the bytes of a digest, if there is one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadyFiles:
    """Content that is written already, and may become files of the project.

    file_of  a file with the bytes of a digest, if there is one
    tree     a folder with files at the paths that they are for, ending with a separator
    placed   the digests of all files in ``tree``, by their paths
    early    was begun to force all of it
    """

    file_of: FileOf
    tree: str = ""
    placed: Mapping[str, str] = field(default_factory=dict)
    early: EarlyForce | None = None


class FileChange(NamedTuple):  # made for each path: a tuple is made in a third of the time
    """A file that is to hold other bytes. Digests of bytes, None where there is no file."""

    path: str
    before: str | None
    after: str | None


@dataclass(frozen=True, slots=True)
class AppliedChanges:
    """The paths of files that were written, those of them that are new, and that were removed."""

    written: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    added: tuple[str, ...] = ()

    @property
    def paths(self) -> tuple[str, ...]:
        """All of them."""
        return (*self.written, *self.removed)

    def followed_by(self, later: "AppliedChanges") -> "AppliedChanges":
        """Both together."""
        written = {*self.written, *later.written} - {*later.removed}
        return AppliedChanges(
            tuple(sorted(written)),
            tuple(sorted({*self.removed, *later.removed} - {*later.written})),
            tuple(sorted({*self.added, *later.added} & written)),
        )


class Blobs:
    """The digests of the bytes at the paths of manifests; the object of an item is read once."""

    def __init__(self, contents: ReadContents) -> None:
        self._contents = contents
        self._of_items: dict[str, str] = {}

    def at(self, manifest: SourceManifest, path: str) -> str | None:
        """That of one path, None where nothing is. Raises CasObjectError."""
        digest = manifest.items.get(path)
        if digest is None:
            return manifest.files.get(path)
        blob = self._of_items.get(digest)
        if blob is None:
            item = item_source_of(self._contents.get_object(digest), f"{path}: {digest}")
            blob = self._of_items[digest] = item.content_blob_hash
        return blob


def entry_at(manifest: SourceManifest, path: str) -> str | None:
    """The digest that a manifest has at a path, of an item or of bytes."""
    return manifest.items.get(path) or manifest.files.get(path)


def changed_paths(present: SourceManifest, wanted: SourceManifest) -> list[str]:
    """The paths that are not the same in both."""
    before, after = {**present.files, **present.items}, {**wanted.files, **wanted.items}
    changed = {path for path, digest in after.items() if before.get(path) != digest}
    return sorted(changed | (before.keys() - after.keys()))


def changes(
    present: SourceManifest,
    wanted: SourceManifest,
    blobs: Blobs,
    *,
    checked: SourceManifest | None = None,
) -> tuple[FileChange, ...]:
    """The changes to write and remove. Raises CasObjectError, UnsafeManifestError.

    ``checked`` is a manifest whose paths have passed `require_safe_paths`.
    """
    if wanted != checked:
        require_safe_paths(wanted.paths())
    found = (
        FileChange(path, blobs.at(present, path), blobs.at(wanted, path))
        for path in changed_paths(present, wanted)
    )
    return tuple(change for change in found if change.before != change.after)


NOTHING_ARRIVED = ReadyFiles(file_of=lambda _digest: None)


def apply_changes(
    root: Path,
    changed: Sequence[FileChange],
    get_blob: Callable[[str], bytes],
    through: Path,
    arrived: ReadyFiles = NOTHING_ARRIVED,
) -> AppliedChanges:
    """Carry out the changes below ``root``.

    Done twice it is the same as once. ``through`` is where files are written before they come to
    their places: a killed process leaves none beside those of the project. What has ``arrived``
    becomes the file where that is new, a whole folder of it in one step.
    Raises LocalChangeError before the first file is written, or later where one changes
    meanwhile; UnsafeManifestError, FileSystemError.
    """
    making_room = {change.path for change in changed if change.after is None}
    targets = PresentTargets(root)
    current = {  # (1), (2)
        change.path: None
        if making_room and _is_below_any(change.path, making_room)  # looked at when it is written
        else _digest_of(targets.find(change.path))
        for change in changed
    }
    meddled = [one.path for one in changed if current[one.path] not in (one.before, one.after)]
    if meddled:
        raise LocalChangeError(meddled)
    left = [change for change in changed if current[change.path] != change.after]
    removed = [change for change in left if change.after is None]
    written = [change for change in left if change.after is not None]
    once = {digest for digest, count in Counter(one.after for one in written).items() if count == 1}
    moving = {str(one.after) for one in written} & {current[one.path] for one in left}
    with NewFiles(root) as new_files, _copies(moving, get_blob, through) as copies:  # (3)
        for change in removed:  # (4) these first: a file may have to make room for a folder
            _remove(root, safe_target(root, change.path), change)
        folders = _put_folders(new_files, written, arrived)
        for change in written:
            if change.path in arrived.placed and change.path.rpartition("/")[0] in folders:
                continue
            digest = str(change.after)
            file = copies.get(digest) or arrived.file_of(digest)
            if change.after in once and file and _put(new_files, change, file):
                continue
            data = Path(copies[digest]).read_bytes() if digest in copies else get_blob(digest)
            _write(root, change, data, through)
    force_files(root, _paths(written), arrived.early)  # (5)
    added = [change for change in written if change.before is None]
    return AppliedChanges(_paths(written), _paths(removed), _paths(added))


@contextmanager
def _copies(
    digests: Iterable[str], get_blob: Callable[[str], bytes], through: Path
) -> Iterator[dict[str, str]]:
    """Files with content that some file of the project has until it is removed or overwritten."""
    copies: dict[str, str] = {}
    try:
        for digest in digests:
            data, copy = get_blob(digest), temporary_for(through / digest)
            copies[digest] = str(copy)
            try:
                with open_folder(copy.parent) as folder:
                    _create(folder, copy.name, data)
            except OSError as error:
                raise file_system_error(copy, error) from error
        yield copies
    finally:
        for left in copies.values():
            with suppress(OSError):
                os.unlink(left)  # noqa: PTH108 - text


def _is_below_any(path: str, folders: AbstractSet[str]) -> bool:
    parts = path.split("/")
    return any("/".join(parts[:length]) in folders for length in range(1, len(parts)))


def _paths(done: Iterable[FileChange]) -> tuple[str, ...]:
    return tuple(change.path for change in done)


def _digest_of(target: Path | None, within: Path | None = None) -> str | None:
    """The digest of a file; None for a folder, which a file replaces only once it is removed."""
    if target is None or target.is_dir():
        return None
    try:
        return sha256_hex(read_bytes(target, MAX_BYTES, within=within))
    except FileNotFoundError:
        return None


def _put_folders(
    new_files: NewFiles, written: Iterable[FileChange], arrived: ReadyFiles
) -> AbstractSet[str]:
    """Move whole folders that the project lacks; their paths, and those of all folders in them.

    Of a folder that is moved every file is to be written, and nothing else is in it.
    """
    new = {change.path: change.after for change in written if change.before is None}
    names = _names_by_folder(arrived.placed)
    mixed: set[str] = {""}  # the project itself is there
    for path, digest in arrived.placed.items():
        if new.get(path) != digest:
            mixed.update(folders_above(path))
    for folder, expected in names.items():
        if not _holds_just(arrived.tree + folder, expected):
            mixed.update((folder, *folders_above(folder)))
    there: set[str] = set()
    for folder in sorted(names.keys() - mixed):  # an outer one comes before those in it
        is_in_one = folder.rpartition("/")[0] in there
        if is_in_one or new_files.put_folder(folder, arrived.tree + folder):
            there.add(folder)
    return there


def _names_by_folder(paths: Iterable[str]) -> dict[str, set[str]]:
    """The content of each folder of some files, the outermost of which is called ``""``."""
    names: dict[str, set[str]] = {"": set()}
    for path in paths:
        folder, _, name = path.rpartition("/")
        if folder not in names:
            for one in folders_above(path):
                above, _, own = one.rpartition("/")
                names.setdefault(one, set())
                names[above].add(own)
        names[folder].add(name)
    return names


def _holds_just(folder: str, names: AbstractSet[str]) -> bool:
    try:
        return set(os.listdir(folder)) == names  # noqa: PTH208 - names
    except OSError:
        return False


def _put(new_files: NewFiles, change: FileChange, file: str) -> bool:
    """Have a file that is written already be the one that is new; whether that was possible."""
    if change.before is not None:
        return False
    try:
        return new_files.put(change.path, file)
    except FileExistsError:
        raise LocalChangeError([change.path]) from None
    except FileNotFoundError:  # it was removed: it is asked for again
        return False


def _write(root: Path, change: FileChange, data: bytes, through: Path) -> None:
    """Elsewhere, then in its place: readers see the old file or the new one."""
    target = safe_target(root, change.path)
    make_directory(target.parent, within=root)
    temporary = temporary_for(target, through)
    try:
        with open_folder(target.parent, root) as folder, _aside(temporary, folder) as aside:
            _replace(aside, temporary.name, folder, target, (change, data))
    except FileNotFoundError:
        raise LocalChangeError([change.path]) from None
    except OSError as error:
        raise file_system_error(target, error) from error


@contextmanager
def _aside(temporary: Path, folder: Folder) -> Iterator[Folder]:
    """The folder of a temporary file, which may be that of the file itself."""
    if temporary.parent == folder.path:
        yield folder
        return
    with open_folder(temporary.parent) as aside:
        yield aside


def _replace(
    aside: Folder, temporary: str, folder: Folder, target: Path, wanted: tuple[FileChange, bytes]
) -> None:
    """Raises LocalChangeError, OSError; nothing is left aside."""
    change, data = wanted
    try:
        if change.before is None:
            _create(aside, temporary, data)
            _put_new(aside, temporary, folder, target, data)
            return
        _create(aside, temporary, data, stat.S_IMODE(folder.status(target.name).st_mode))
        if _digest_of(target, folder.within) != change.before:
            raise LocalChangeError([change.path])
        aside.rename(temporary, folder, target.name)
    except FileExistsError:
        raise LocalChangeError([change.path]) from None
    finally:
        with suppress(OSError):
            aside.remove(temporary)


def _create(folder: Folder, name: str, data: bytes, mode: int | None = None) -> None:
    """A file with this content; without ``mode`` with the one that it should have."""
    usual = _RUNNABLE if data.startswith(b"#!") else _PLAIN
    descriptor = folder.open(name, NEW_FILE, usual if mode is None else mode)
    with open(descriptor, "wb") as file:  # noqa: PTH123 - a descriptor, not a path
        file.write(data)
        if mode is not None and hasattr(os, "fchmod"):
            os.fchmod(descriptor, mode)  # the umask took some


def _put_new(aside: Folder, temporary: str, folder: Folder, target: Path, data: bytes) -> None:
    """Put it where nothing is; later files stay. Raises FileExistsError, OSError."""
    if os.name == "nt":
        (aside.path / temporary).rename(target)  # refuses to replace, there
        return
    try:
        aside.link(temporary, folder, target.name)
    except FileExistsError:
        raise
    except OSError:  # a file system without links
        mode = stat.S_IMODE(aside.status(temporary).st_mode)
        create_file(target, data, mode=mode, within=folder.within)


def _remove(root: Path, target: Path, change: FileChange) -> None:
    """The file, and the folders that it leaves empty; never ``.ai`` itself."""
    if _digest_of(target, root) != change.before:
        raise LocalChangeError([change.path])
    try:
        remove_file(target, within=root)
    except FileNotFoundError:
        return
    for emptied in _above(root, target):
        try:
            with open_folder(emptied.parent, root) as folder:
                folder.remove_folder(emptied.name)
        except OSError:  # something else is in it
            return


def _above(root: Path, target: Path) -> Iterator[Path]:
    for folder in target.parents:
        if folder in {root, root / ".ai"}:
            return
        yield folder
