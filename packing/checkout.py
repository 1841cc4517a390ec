"""The checkout as it runs: its bundle is signed under ``build/``, once per state of the sources.

Imported at every start of ``rye.py``: what only staging needs is imported there.
"""

import os
import sys
import time
from collections.abc import Iterator, Sequence
from hashlib import sha256
from pathlib import Path

from ryeos import __version__

# An edit of the code may change how a bundle is signed or read.
_SOURCES = ("bundle.ai", "lillux", "ryeos")
_KEPT_S = 24 * 3600
"""Time for which an outdated staging is left for processes that still run on it."""


def staged_bundle(checkout: Path) -> Path:
    """The folder with the signed bundle, made now if the sources changed since it was made.

    Any number of processes may ask at once. Raises FileSystemError, and what
    `packing.signed_bundle.stage_bundle` raises for an item that breaks a rule.
    """
    staged = checkout / "build" / "checkout" / source_digest(checkout)
    if not staged.is_dir():
        _stage(checkout, staged)
    return staged


def tool_programs(checkout: Path) -> str | None:
    """The folder with the helper programs for the PATH of tools: compiled ones, else scripts.

    None where neither is there and nothing can be written.
    """
    from zipboot.programs import NAMES, write_scripts

    for folder in sorted(checkout.glob("build/native/*/release")):
        if all((folder / name).is_file() for name in NAMES):
            return str(folder)
    scripts = checkout / "build" / "programs"
    try:
        scripts.mkdir(parents=True, exist_ok=True)
        return write_scripts(str(scripts), (sys.executable, "-s", "-E", str(checkout / "rye.py")))
    except OSError:
        return None


def source_digest(checkout: Path, sources: Sequence[str] = _SOURCES) -> str:
    """16 hex digits that change when a file of ``sources`` is edited, added, moved or removed.

    ``sources`` are folders. Modification times and sizes are looked at, not contents.
    """
    listed = sorted(
        (entry.path, status.st_mtime_ns, status.st_size)
        for name in sources
        for entry in _files(checkout / name)
        for status in (entry.stat(),)
    )
    return sha256(repr((__version__, listed)).encode()).hexdigest()[:16]


def _files(folder: Path | str) -> Iterator[os.DirEntry[str]]:
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir():
                if entry.name != "__pycache__":
                    yield from _files(entry.path)
            else:
                yield entry


def _stage(checkout: Path, staged: Path) -> None:
    from tempfile import TemporaryDirectory

    from lillux.files import file_system_error
    from packing import move_unless_made, remove_outdated
    from packing.build_time import build_time
    from packing.signed_bundle import publisher_key, stage_bundle

    try:
        staged.parent.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(prefix=".", dir=staged.parent) as temporary:
            made = Path(temporary, "bundle")
            stage_bundle(checkout, made, publisher_key(None, build_time({})))
            move_unless_made(made, staged)
        remove_outdated(staged.parent, keep=staged, before_s=time.time() - _KEPT_S)
    except OSError as error:
        raise file_system_error(staged.parent, error) from error
