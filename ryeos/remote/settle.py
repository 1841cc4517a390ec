"""Resolves conflicts with a node, path by path, before the next push or pull."""

import os
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from pathlib import Path, PurePosixPath

from lillux.digests import sha256_hex
from lillux.files import file_system_error, read_bytes
from lillux.store import MAX_BYTES
from ryeos.remote.apply import FileChange, apply_changes
from ryeos.remote.conflicts import OURS, THEIRS, ConflictFolder, ConflictRecord, incoming_folder
from ryeos.remote.errors import InTheWayError, NotInConflictError, conflict_record_error
from ryeos.sync.admission import InadmissibleError, problem_of
from ryeos.sync.paths import safe_target
from ryeos.sync.tree_walk import SkippedFile


class VersionChoice(StrEnum):
    """The version that a file is to be."""

    OURS = "ours"
    """The version that is in the project now."""
    THEIRS = "theirs"
    """The version that is on the node."""
    MERGED = "merged"
    """The version that a person made of both."""


def resolve(
    folder: ConflictFolder,
    project: Path,
    remote: str,
    paths: Sequence[str],
    *,
    choice: VersionChoice,
    merged: bytes | None = None,
) -> ConflictRecord:
    """Settle conflicts; what the record says afterwards. The next push or pull uses it.

    What a file held before it is replaced is kept among the versions. Raises NotInConflictError
    or InTheWayError before anything is written, LocalChangeError, UnsafeManifestError,
    InadmissibleError, FileSystemError.
    """
    record = folder.read() or ConflictRecord("")
    for path in paths:
        if path not in record.conflicts:
            raise NotInConflictError(path, remote, sorted(record.conflicts))
    wanted: dict[str, bytes | None] = {}
    if choice is not VersionChoice.OURS:
        _require_admissible(paths, record)
        theirs = choice is VersionChoice.THEIRS
        wanted = {path: _theirs(folder, record, path) if theirs else merged for path in paths}
        _require_room(project, record, wanted)
    # Removals first: a file may have to make room for a folder, and the other way round.
    for path in sorted(paths, key=lambda path: wanted.get(path) is not None):
        if path in wanted:
            _replace(folder, project, path, wanted[path])
        record = record.settled(path)
        folder.write(record)
    return record


def _require_admissible(paths: Iterable[str], record: ConflictRecord) -> None:
    refused = [
        SkippedFile(path, problem)
        for path in paths
        if (problem := problem_of(path, is_item=record.conflicts[path].is_item))
    ]
    if refused:
        raise InadmissibleError(refused)


def _theirs(folder: ConflictFolder, record: ConflictRecord, path: str) -> bytes | None:
    digest = record.conflicts[path].theirs
    if digest is None:
        return None
    data = folder.kept(THEIRS, path)
    if _digest(data) != digest:
        where = str(folder.folder / THEIRS / path)
        raise conflict_record_error(where, "it is not the version that the record names")
    return data


def _require_room(
    project: Path, record: ConflictRecord, wanted: Mapping[str, bytes | None]
) -> None:
    """Refuse what would be written where files are that stay. Raises InTheWayError."""
    for path, data in wanted.items():
        if data is None:
            continue
        others = [
            other for other in _in_the_way(project, path) if wanted.get(other, b"") is not None
        ]
        if others:
            known = [record.conflicts.get(other) for other in others]
            are_to_go = all(one is not None and one.theirs is None for one in known)
            listed = " ".join(map(shlex.quote, others))
            raise InTheWayError(
                path, others, f"rye remote resolve {listed} --theirs" if are_to_go else ""
            )


def _in_the_way(project: Path, path: str) -> list[str]:
    """The file that is where a folder of the path is to be, or those in a folder that is there."""
    for above in reversed(PurePosixPath(path).parents[:-1]):
        target = project / above
        if target.is_symlink() or (target.exists() and not target.is_dir()):
            return [above.as_posix()]
    target = project / path
    if target.is_symlink() or not target.is_dir():
        return []
    found = (Path(folder) / name for folder, name in _files_in(target))
    return sorted(one.relative_to(project).as_posix() for one in found)


def _files_in(folder: Path) -> Iterator[tuple[str, str]]:
    """Files and links below a folder; no link is followed."""
    for parent, folders, names in os.walk(folder):
        links = [name for name in folders if (Path(parent) / name).is_symlink()]
        for name in (*names, *links):
            yield parent, name


def _replace(folder: ConflictFolder, project: Path, path: str, data: bytes | None) -> None:
    if data is None and _in_the_way(project, path):
        return  # something else is there by now: the file itself is gone
    target = safe_target(project, path)
    if data is not None and target.is_dir():
        _remove_empty(target)
    current = _content(target)
    if current is not None and current != data:
        folder.keep(OURS, path, current)
    change = FileChange(path, _digest(current), _digest(data))
    through = incoming_folder(folder.folder.parent, project / ".ai")
    apply_changes(project, [change], lambda _: data or b"", through)


def _remove_empty(folder: Path) -> None:
    """Folders with nothing but folders in them."""
    try:
        for parent, _, _ in os.walk(folder, topdown=False):
            Path(parent).rmdir()
    except OSError as error:
        raise file_system_error(folder, error) from error


def _content(target: Path) -> bytes | None:
    if target.is_dir():
        return None
    try:
        return read_bytes(target, MAX_BYTES)
    except FileNotFoundError:
        return None


def _digest(data: bytes | None) -> str | None:
    return None if data is None else sha256_hex(data)
