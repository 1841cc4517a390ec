"""The difference between a project and a node, by path and side.

Also the files that travelled and are still here, but no longer travel: no file is removed by a
rule.
"""

import os
from pathlib import Path

from lillux.values import dataclass, replace
from ryeos.remote.apply import changed_paths, entry_at
from ryeos.remote.link import Link
from ryeos.sync.objects import SourceManifest


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
    """True if it travels in another spelling, where upper and lower case are one name."""
    other = others.get(path.casefold())
    try:
        return other is not None and (root / path).samefile(root / other)
    except OSError:
        return False


ADDED, CHANGED, REMOVED = "added", "changed", "removed"
EXCLUDED = "excluded"  # still a file here, but it no longer travels


@dataclass(frozen=True, slots=True)
class Difference:
    """A path. ``here`` and ``there``: what each side did since both were the same, None nothing."""

    path: str
    here: str | None
    there: str | None


@dataclass(frozen=True, slots=True)
class ReplacedHead:
    """A head that others had moved, and what they had done since; None where that is lost there."""

    snapshot_hash: str
    differences: tuple[Difference, ...] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadComparison:
    """The project and the node's head.

    snapshot_hash  of the head, ``""`` where the node has no such project
    has_base       whether it is known what both had in common
    """

    snapshot_hash: str
    has_base: bool
    differences: tuple[Difference, ...]


def compare(link: Link) -> HeadComparison:
    """Compare the project with the node's head; nothing is changed."""
    link.node.verify()
    head = link.node.head(link.project_path)
    tree = link.working_tree.project_tree()
    theirs = link.received(head.project_manifest_hash, tree) if head else SourceManifest("project")
    base = link.base(tree)
    excluded = {*excluded_paths(link.working_tree.project, base, tree.manifest)}
    found = differences(base or SourceManifest("project"), tree.manifest, theirs)
    return HeadComparison(
        snapshot_hash=head.snapshot_hash if head else "",
        has_base=base is not None,
        differences=tuple(
            replace(one, here=EXCLUDED) if one.path in excluded else one for one in found
        ),
    )


def differences(
    base: SourceManifest, ours: SourceManifest, theirs: SourceManifest
) -> tuple[Difference, ...]:
    """By path, where the two sides are not the same. Pure."""
    return tuple(
        Difference(path, _change(base, ours, path), _change(base, theirs, path))
        for path in changed_paths(ours, theirs)
    )


def _change(base: SourceManifest, side: SourceManifest, path: str) -> str | None:
    before, after = entry_at(base, path), entry_at(side, path)
    if before == after:
        return None
    if before is None:
        return ADDED
    return REMOVED if after is None else CHANGED
