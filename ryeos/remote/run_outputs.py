"""Outputs of a run on a node, written into the project.

Transcripts, pages, refs. A node says which files there are, so it is said here which may be: those
below ``.ai/state/`` and ``.ai/knowledge/state/``, but nothing that decides what this machine does.
Refs come last, when what they name is here.
"""

import json
from collections.abc import Callable, Mapping
from pathlib import Path

from lillux.digests import sha256_hex
from lillux.errors import LilluxError
from lillux.files import make_directory, read_bytes, write_atomic
from lillux.patterns import pattern
from lillux.store import MAX_BYTES
from lillux.store_layout import is_digest
from lillux.values import dataclass, field
from ryeos.items.errors import RyeError
from ryeos.sync.admission import why_never
from ryeos.sync.objects import OutputsBundle
from ryeos.sync.paths import UnsafeManifestError, fold, safe_target

PAGES = ".ai/knowledge/state/"
STATE = ".ai/state/"
OBJECTS = ".ai/state/objects/"
REFS = (".ai/state/objects/refs/graphs/", ".ai/state/objects/refs/artifacts/")
OWN = (".ai/state/remote/", ".ai/state/approvals")
# What says which processes may be ended, what runs may do, and which runs there are.
_DECIDING = frozenset({"runner.json", "grants.json", "cancel", "run.lock", ".gitignore"})
_OWN_SUFFIXES = (".lock", ".tmp", ".db-wal", ".db-shm", ".key", ".pem")
_SHORT_NAME = pattern(r"[^/]{1,6}~[0-9]")  # what Windows may call a file of another name
# Of those, what every run leaves behind where it runs: no report says that it stays there.
_OF_EVERY_RUN = frozenset({"runner.json", "grants.json", "run.lock", ".gitignore"})
_DATABASE = ".ai/state/threads/registry.db"
# The store of a run, which the public node lists among what it left behind.
_CONTENTS = tuple(f"{OBJECTS}{name}/" for name in ("blobs", "objects", "cache"))
_MAX_BOOK_BYTES = 16 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Outputs:
    """The paths that were written, and those that were not, with the reason.

    ``pages`` are the pages of knowledge among them, with the bytes that were verified and written.
    """

    written: tuple[str, ...] = ()
    kept: Mapping[str, str] | None = None
    pages: Mapping[str, bytes] = field(default_factory=dict, repr=False)

    @property
    def problems(self) -> tuple[str, ...]:
        """Warnings about files that were not written."""
        kept = self.kept or {}
        return tuple(problem for path, problem in kept.items() if not _is_of_every_run(path))


def why_refused(path: str) -> str:
    """Why a node may not write there, ``""`` if it may. Pure; says nothing of the path's form."""
    if not path.startswith((STATE, PAGES)):
        return "expected a path below .ai/state/ or .ai/knowledge/state/"
    folded = fold(path)  # a file system that does not tell case apart has one file for both
    if folded.startswith(OBJECTS) and not path.startswith(REFS):
        return "of the store, only refs of graphs and artifacts come from a node"
    if folded.startswith(OWN):
        return "this is what this machine keeps about its remotes and approvals"
    return _why_its_name(folded) or why_never(path, is_item=True)


def _why_its_name(folded: str) -> str:
    name = folded.rpartition("/")[2]
    if name in _DECIDING or folded.startswith(_DATABASE):
        return "this file decides what this machine does"
    if name.endswith(_OWN_SUFFIXES):
        return "keys, locks and temporary files do not come from a node"
    if _SHORT_NAME.search(folded):
        return "it looks like a short name of another file"
    return ""


def _is_of_every_run(path: str) -> bool:
    is_record = path.rpartition("/")[2] in _OF_EVERY_RUN
    return path.startswith(STATE) and (is_record or path.startswith((_DATABASE, *_CONTENTS)))


def write_outputs(
    project: Path,
    bundle: OutputsBundle,
    get_blob: Callable[[str], bytes],
    book: Path,
    through: Path,
) -> Outputs:
    """Write the files of a bundle. One that holds something else here is left alone.

    book     where it is kept what was written last time, which may be replaced
    through  where files are written before they come to their places
    """
    ours = _read_book(book)
    written: list[str] = []
    pages: dict[str, bytes] = {}
    kept: dict[str, str] = {}
    for path in sorted(bundle.files, key=lambda path: (path.startswith(REFS), path)):
        digest = bundle.files[path]
        try:
            data = _wanted_content(project, path, digest, get_blob, ours.get(path))
            if data is not None:
                target = project / path
                make_directory(target.parent, within=project)
                write_atomic(target, data, through=through, within=project)
                written.append(path)
                if path.startswith(PAGES):
                    pages[path] = data
            ours[path] = digest
        except LilluxError as error:
            kept[path] = str(error)
    _write_book(book, ours, project)
    return Outputs(tuple(written), kept, pages)


def _wanted_content(
    project: Path, path: str, digest: str, get_blob: Callable[[str], bytes], last: str | None
) -> bytes | None:
    """The text to write there, None where that is what is there."""
    problem = why_refused(path)
    if problem:
        raise _output_error(path, problem)
    root, relative = project / ".ai", path.removeprefix(".ai/")
    try:
        target = safe_target(root, relative)
    except UnsafeManifestError as error:
        raise _output_error(path, error.problem) from None
    current = _digest_of(target)
    if current == digest:
        return None
    data = get_blob(digest)
    is_ref = path.startswith(REFS)
    if is_ref:
        _validate_ref(path, data)
    elif current not in {None, last}:
        raise _output_error(path, "another file is here, and stays")
    return data


def _output_error(path: str, problem: str) -> RyeError:
    """A node names a file, among what a run wrote, that no run may write here."""
    return RyeError(
        f"output {path[:200]!r}: {problem}",
        code="INTEGRITY",
        hint="nothing was written there",
        path=path,
    )


def _validate_ref(path: str, data: bytes) -> None:
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict) or not is_digest(value.get("hash")):
        raise _output_error(path, "expected a ref: an object with a hash")


def _digest_of(target: Path) -> str | None:
    try:
        return sha256_hex(read_bytes(target, MAX_BYTES))
    except FileNotFoundError:
        return None


def _read_book(book: Path) -> dict[str, str]:
    """By path, what was written last; empty where the record cannot be read."""
    try:
        value = json.loads(read_bytes(book, _MAX_BOOK_BYTES))
    except (OSError, ValueError, RecursionError, LilluxError):
        return {}
    if not isinstance(value, dict):
        return {}
    return {path: digest for path, digest in value.items() if is_digest(digest)}


def _write_book(book: Path, written: Mapping[str, str], project: Path) -> None:
    make_directory(book.parent, within=project)
    data = json.dumps(dict(written), sort_keys=True).encode()
    write_atomic(book, data, within=project)
