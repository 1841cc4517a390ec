"""Making of something that runs from a checkout: ``rye.pyz``, a wheel, or the checkout itself.

Everything here runs on the machine that builds; nothing of it is packed. Page:
``docs/building.md``.
"""

import shutil
from pathlib import Path

from lillux.errors import LilluxError


class BuildError(LilluxError):
    """A step of the build did not do its work. ``step`` names it."""

    code, exit_status = "BUILD_ERROR", 1

    def __init__(self, step: str, problem: str, *, hint: str = "") -> None:
        self.step, self.problem = step, problem
        super().__init__(f"{step}: {problem}", hint=hint)


def move_unless_made(made: Path, target: Path) -> None:
    """Give a finished folder its name, unless another process was quicker."""
    try:
        made.rename(target)
    except OSError:
        if not target.is_dir():
            raise


def remove_outdated(folder: Path, *, keep: Path, before_s: float) -> None:
    """Remove what lies in ``folder`` since before a time, in seconds since 1970."""
    for path in folder.iterdir():
        if path != keep and _is_older(path, before_s):
            shutil.rmtree(path, ignore_errors=True)


def _is_older(path: Path, before_s: float) -> bool:
    try:
        return path.lstat().st_mtime < before_s
    except FileNotFoundError:  # another process finished or removed it
        return False
