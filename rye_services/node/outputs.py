"""What a run leaves beside the project's own files: transcripts, pages of knowledge, refs.

A client writes them back into its project, so nothing is taken that would overwrite what is its
own there: no registry, no lock, no object of a store. Rules: ``docs/node-execution.md``, Outputs.
"""

import logging
import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

from lillux.errors import LilluxError
from lillux.files import read_bytes, write_atomic
from ryeos.items.refs import Kind
from ryeos.sync.entries import MAX_ENTRY_BYTES
from ryeos.sync.paths import UnsafeManifestError, check_manifest_paths, is_link
from ryeos.trust.keys import SigningKey
from ryeos.trust.signature import MAX_ITEM_BYTES, decode, form_for, split

STATE, PAGES, REFS = ".ai/state/", ".ai/knowledge/state/", ".ai/state/objects/refs/"
MAX_FILES = 10_000
_OBJECTS = ".ai/state/objects/"
_OWN = (".ai/state/threads/registry.db", ".ai/state/remote/", ".ai/state/approvals")
_OWN_SUFFIXES = (".lock", ".tmp", ".db-wal", ".db-shm", "/.gitignore", ".key", ".pem")
_log = logging.getLogger(__name__)


def is_output(relative: str) -> bool:
    """Whether a file of this path is an output, if it is a plain file."""
    if not relative.startswith((STATE, PAGES)):
        return False
    if relative.startswith(_OBJECTS) and not relative.startswith(REFS):
        return False
    return not relative.startswith(_OWN) and not relative.endswith(_OWN_SUFFIXES)


def is_own(root: Path, folder: str) -> bool:
    """Whether a folder is there, and no part of the way to it from ``root`` is a link.

    A run may have put a link where a folder was, to have the node read what is not its own.
    """
    path = root
    try:
        for name in folder.split("/"):
            path /= name
            status = os.lstat(path)
            if is_link(status) or not stat.S_ISDIR(status.st_mode):
                return False
    except OSError:
        return False
    return True


def output_files(project: Path, warn: Callable[[str, str], object]) -> dict[str, int]:
    """The outputs below a project and their sizes, sorted; no link is followed.

    What could not travel is left out; ``warn`` is told its path and why.
    """
    found: dict[str, int] = {}
    for folder in (STATE.rstrip("/"), PAGES.rstrip("/")):
        for relative, size in sorted(_files(project, folder) if is_own(project, folder) else ()):
            if not is_output(relative):
                continue
            if size > MAX_ENTRY_BYTES:
                warn(relative, f"expected at most {MAX_ENTRY_BYTES} bytes, found {size}")
            elif len(found) == MAX_FILES:
                warn(relative, f"expected at most {MAX_FILES} outputs, found more")
            elif not _is_safe(relative):
                warn(relative, "not every machine can hold a file of this name")
            else:
                found[relative] = size
    return found


def _files(root: Path, top: str) -> Iterator[tuple[str, int]]:
    """The plain files of a folder, however deep."""
    waiting = [top]
    while waiting:
        folder = waiting.pop()
        try:
            names = sorted(path.name for path in (root / folder).iterdir())
        except OSError:  # also what is too deep to be named
            continue
        for name in names:
            relative = f"{folder}/{name}"
            try:
                status = os.lstat(root / relative)
            except OSError:
                continue
            if is_link(status):
                continue
            if stat.S_ISDIR(status.st_mode):
                waiting.append(relative)
            elif stat.S_ISREG(status.st_mode) and status.st_nlink == 1:
                yield relative, status.st_size


def _is_safe(relative: str) -> bool:
    """Whether any machine can hold a file of this name. All outputs are below ``.ai/state``."""
    try:
        check_manifest_paths([relative.removeprefix(".ai/state/").removeprefix(".ai/knowledge/")])
    except (UnsafeManifestError, ValueError):
        return False
    return True


def sign_page(project: Path, relative: str, key: SigningKey) -> bool:
    """Sign a page of knowledge that a run has written; False when there is nothing to be signed.

    A page that is signed already stays as it is, and so does one that cannot be.
    """
    if not (relative.startswith(PAGES) and relative.endswith(".md")):
        return False
    path = project / relative
    try:
        form = form_for(Kind.KNOWLEDGE, ".md", relative)
        signed = split(decode(read_bytes(path, MAX_ITEM_BYTES), relative), form, relative)
        if signed.signature is not None:
            return False
        write_atomic(path, key.signed_text(Kind.KNOWLEDGE, signed, form, relative).encode())
    except (LilluxError, FileNotFoundError) as error:
        _log.warning("page not signed: %s", error)
        return False
    return True
