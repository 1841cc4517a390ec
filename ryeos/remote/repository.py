"""The rule by which all files of a project travel, not ``.ai`` alone: written once, when asked for.

It stands in ``.ai/config/cas/manifest.yaml`` of the project, for sender and node alike, and leaves
out what ``.gitignore`` files name (`ryeos.sync.rules`). A file of its own: only a person's first
push needs it. Page: ``docs/remote.md``, Push.
"""

import os
from pathlib import Path

from lillux.files import create_file, make_directory
from lillux.values import dataclass
from ryeos.items.errors import UsageError
from ryeos.remote.link import Link
from ryeos.sync.rules import PLACE, NameRules, read_rules, with_repository
from ryeos.sync.tree_walk import WalkedFile, walk

_RULES = """\
# Which files of this project travel: all but those that .gitignore names, and secrets.
version: "1.0.0"
category: cas
sync:
  include: ["*"]
  gitignore: true
"""


@dataclass(frozen=True, slots=True)
class RepositoryFiles:
    """The number of files outside ``.ai`` that would travel, and their size."""

    count: int
    size: int


def offered(link: Link) -> RepositoryFiles | None:
    """The files that `take` would add at a first push; None where rules are set, or none is."""
    tree = link.working_tree
    if link.recorded() is not None or _place(tree.project).exists() or tree.rules().takes_files:
        return None
    found = _files(tree.project, tree.user)
    return found if found.count else None


def take(link: Link) -> Path:
    """Write the rule; its path. Raises UsageError where the project has rules of its own."""
    project = link.working_tree.project
    path = _place(project)
    make_directory(path.parent, within=project)
    try:
        create_file(path, _RULES.encode(), within=project)
    except FileExistsError:
        raise UsageError(
            f"{PLACE}: says already which files travel",
            hint='for all but what .gitignore names, write there: sync: {include: ["*"],'
            " gitignore: true}",
        ) from None
    return path


def _place(project: Path) -> Path:
    return project / PLACE


def _files(project: Path, user: Path) -> RepositoryFiles:
    rules = with_repository(read_rules(bundles=[], user=user, project=project), project)
    names, (_, kept_out) = NameRules(rules), rules.file_rules()

    def enter(relative: str, _: str) -> bool:
        return not kept_out.match(f"{relative}/")

    def is_sent(found: WalkedFile) -> bool:
        return not (kept_out.match(found.relative) or names.forbids(found.name))

    walked = walk(os.fspath(project), "", enter, lambda _: None)
    sizes = [one.status.st_size for one in walked if is_sent(one)]
    return RepositoryFiles(len(sizes), sum(sizes))
