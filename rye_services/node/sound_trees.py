"""What a run has made of a project, without what no manifest may have: it is left out and named.

A head that the next push or execution refuses would be the end of the project on this node.
"""

from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet

from lillux.values import dataclass
from rye_services.node.validation import MAX_PATHS
from ryeos.sync.objects import SourceManifest
from ryeos.sync.paths import Neighbours, Skipped, path_problem, problem_of
from ryeos.sync.tree import Tree


@dataclass(frozen=True, slots=True)
class Sound:
    """A tree whose manifest any node and client takes, and what was left out for that."""

    tree: Tree
    left_out: tuple[Skipped, ...]


def sound_tree(tree: Tree, base: SourceManifest, untouched: AbstractSet[str]) -> Sound:
    """The tree with those files of ``base`` that the run left alone, or put something unsound at.

    ``untouched`` are paths of ``base`` that the tree does not have though their files are there.
    """
    skipped = [one for one in tree.skipped if one.path not in untouched]
    now = {*tree.manifest.items, *tree.manifest.files}
    kept = {*untouched, *_hidden(base, skipped)} - now
    known = {*base.items, *base.files}
    # The base is sound, and so is any part of it.
    left_out = list(_unsound(now | kept, known, tree.manifest)) if now - known else []
    refused = {one.path for one in left_out}
    if not kept and not refused:
        return Sound(tree, tuple(skipped))
    manifest = SourceManifest(
        "project",
        _joined(base.items, kept, tree.manifest.items, refused),
        _joined(base.files, kept, tree.manifest.files, refused),
    )
    return Sound(tree.with_manifest(manifest), (*skipped, *left_out))


def _hidden(base: SourceManifest, skipped: Iterable[Skipped]) -> set[str]:
    """Paths of the base at which there is something else now that cannot travel, or below it."""
    places = {one.path.rstrip("/") for one in skipped}
    if not places:
        return set()
    return {path for path in (*base.items, *base.files) if not places.isdisjoint(_way_to(path))}


def _way_to(path: str) -> Iterable[str]:
    """The path, and each folder that it is in."""
    while path:
        yield path
        path = path.rpartition("/")[0]


def _unsound(
    paths: AbstractSet[str], known: AbstractSet[str], manifest: SourceManifest
) -> Iterable[Skipped]:
    """What cannot be beside the others; of two that were not known, the later one."""
    beside = Neighbours()
    count = 0
    for path in sorted(paths, key=lambda path: (path not in known, path)):
        problem = "" if path in known else _problem(path, manifest)
        if not problem and count == MAX_PATHS:
            problem = f"expected at most {MAX_PATHS} files"
        problem = problem or beside.add(path)
        if problem:
            yield Skipped(path, problem)
        else:
            count += 1


def _problem(path: str, manifest: SourceManifest) -> str:
    return path_problem(path) or problem_of(path, is_item=path in manifest.items)


def _joined(
    base: Mapping[str, str],
    kept: AbstractSet[str],
    now: Mapping[str, str],
    refused: AbstractSet[str],
) -> dict[str, str]:
    found = {path: digest for path, digest in base.items() if path in kept} | dict(now)
    return {path: digest for path, digest in found.items() if path not in refused}
