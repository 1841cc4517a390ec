"""Folders that are made aside and appear whole, whoever makes them at the same time."""

import shutil
from pathlib import Path


def move_unless_made(made: Path, target: Path) -> None:
    """Give a finished folder its name, unless another process was quicker."""
    try:
        made.rename(target)
    except OSError:
        if not target.is_dir():
            raise


def remove_outdated(folder: Path, *, keep: Path, before_s: float) -> None:
    """Remove what lies in ``folder`` since before a moment, in seconds since 1970."""
    for path in folder.iterdir():
        if path != keep and _is_older(path, before_s):
            shutil.rmtree(path, ignore_errors=True)


def _is_older(path: Path, moment_s: float) -> bool:
    try:
        return path.lstat().st_mtime < moment_s
    except FileNotFoundError:  # another process finished or removed it
        return False
