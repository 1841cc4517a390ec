"""Conflicts with a node, settled by a person: path by path, before the next push or pull."""

from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path

from lillux.cas.store import MAX_BYTES
from lillux.digests import sha256_hex
from lillux.files import read_bytes
from ryeos.cas.admission import InadmissibleError, problem_of
from ryeos.cas.safe_paths import safe_target
from ryeos.cas.tree_walk import Skipped
from ryeos.remote.apply import Change, apply_changes
from ryeos.remote.conflicts import OURS, THEIRS, ConflictFolder, ConflictRecord
from ryeos.remote.errors import NotInConflictError
from ryeos.remote.places import incoming_folder


class Choice(StrEnum):
    """Which version a file is to be."""

    OURS = "ours"
    """As it is in the project now."""
    THEIRS = "theirs"
    """As it is on the node."""
    MERGED = "merged"
    """As somebody made it of both."""


def resolve(
    folder: ConflictFolder,
    project: Path,
    remote: str,
    paths: Sequence[str],
    *,
    choice: Choice,
    merged: bytes | None = None,
) -> ConflictRecord:
    """Settle conflicts; what the record says afterwards. The next push or pull goes by it.

    What a file held before it is replaced is kept among the versions. Raises NotInConflictError
    before anything is written, LocalChangeError, UnsafeManifestError,
    InadmissibleError, FileSystemError.
    """
    record = folder.read() or ConflictRecord("")
    for path in paths:
        if path not in record.conflicts:
            raise NotInConflictError(path, remote, sorted(record.conflicts))
    for path in paths:
        if choice is not Choice.OURS:
            problem = problem_of(path, is_item=record.conflicts[path].is_item)
            if problem:
                raise InadmissibleError([Skipped(path, problem)])
            theirs = folder.kept(THEIRS, path)
            _replace(folder, project, path, theirs if choice is Choice.THEIRS else merged)
        record = record.settled(path)
        folder.write(record)
    return record


def _replace(folder: ConflictFolder, project: Path, path: str, data: bytes | None) -> None:
    current = _content(safe_target(project, path))
    if current is not None and current != data:
        folder.keep(OURS, path, current)
    change = Change(path, _digest(current), _digest(data))
    through = incoming_folder(folder.folder.parent, project / ".ai")
    apply_changes(project, [change], lambda _: data or b"", through)


def _content(target: Path) -> bytes | None:
    try:
        return read_bytes(target, MAX_BYTES)
    except FileNotFoundError:
        return None


def _digest(data: bytes | None) -> str | None:
    return None if data is None else sha256_hex(data)
