"""Files that travelled and are still here, but no longer travel: no file is removed by a rule."""

import os
from pathlib import Path

from ryeos.cas.objects import SourceManifest


def excluded_paths(root: Path, base: SourceManifest | None, ours: SourceManifest) -> list[str]:
    """The paths that ``base`` has and ``ours`` lacks, though there is such a file below ``root``.

    What a manifest lacks counts as removed, on the node and from there on every machine.
    """
    if base is None or base == ours:
        return []
    gone = sorted({*base.items, *base.files}.difference(ours.items, ours.files))
    if not gone:
        return []
    others = {path.casefold(): path for path in ours.paths()}
    return [path for path in gone if _is_there(root / path) and not _is_renamed(root, path, others)]


def _is_there(target: Path) -> bool:
    """A file, or a link that leads to none: a folder took the place of the file."""
    return os.path.lexists(target) and not target.is_dir()


def _is_renamed(root: Path, path: str, others: dict[str, str]) -> bool:
    """Whether it travels in another spelling, where upper and lower case are one name."""
    other = others.get(path.casefold())
    try:
        return other is not None and (root / path).samefile(root / other)
    except OSError:
        return False
