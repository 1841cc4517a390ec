"""The folders that travel: the project, and the user space.

They are read again whenever a caller asks.
"""

import os
from collections.abc import Callable, Sequence
from pathlib import Path

from lillux.canonical_json import canonical_json
from lillux.digests import sha256_hex
from lillux.errors import LilluxError
from lillux.foreign_text import printable
from ryeos.sync.entries import SizedContent
from ryeos.sync.rules import ManifestRules, read_rules
from ryeos.sync.stat_table import StatTable
from ryeos.sync.tree import Tree, build_project_tree, build_user_tree

TABLES = "trees"
_MAX_LINE_CHARACTERS = 2000


class WorkingTree:
    """A project and its user space on this machine.

    bundles  the folders that contain the ``.ai`` of each bundle
    user     the folder that contains the user's ``.ai``
    cache    a folder of this user's for what is known of files, named by digests so that
             ``self clean`` knows them; or None. Never one of the project, which others write
    """

    def __init__(
        self,
        *,
        project: Path,
        user: Path,
        bundles: Sequence[Path] = (),
        cache: Path | None = None,
        warn: Callable[[str], None] = lambda _: None,
    ) -> None:
        self.project, self.user = project, user
        self._bundles, self._cache, self._warn = bundles, cache, warn

    def rules(self) -> ManifestRules:
        """The files of the project that travel, as configured now.

        Raises SpecError, and RyeError `CONFIG_ERROR`: without its rules a project looks as if most
        of it had been removed.
        """
        return read_rules(
            bundles=self._bundles, user=self.user, project=self.project, is_strict=True
        )

    def project_tree(self) -> Tree:
        """The project as it is now. Raises as `ryeos.sync.tree.build_project_tree`."""
        return self._built(build_project_tree, self.project)

    def user_tree(self) -> Tree:
        """Paths of user space that a run on a node may read."""
        return self._built(build_user_tree, self.user)

    def _built(self, build: Callable[[Path, ManifestRules, StatTable], Tree], root: Path) -> Tree:
        table = StatTable(self._table_path(root))
        table.load()
        tree = build(root, self.rules(), table)
        try:
            table.save_if_worth_it()
        except LilluxError as error:  # it only saves time
            self._warn(f"file digests are not kept: {error}")
        for skipped in tree.skipped:
            text = f"{skipped.path}: stays here: {skipped.problem}"
            self._warn(printable(text, _MAX_LINE_CHARACTERS))
        return tree

    def _table_path(self, root: Path) -> Path | None:
        if self._cache is None:
            return None
        return self._cache / sha256_hex(str(root.absolute()).encode())


def sized(tree: Tree, digest: str) -> SizedContent:
    """The size of a piece of a tree, and the name of its file."""
    path = tree.blobs.get(digest)
    if path is not None:
        try:
            return SizedContent(digest, os.stat(f"{tree.root}{os.sep}{path}").st_size, path)  # noqa: PTH116 - many times
        except OSError:  # reading it will say what is wrong
            return SizedContent(digest, 0, path)
    if digest == tree.manifest_hash:
        return SizedContent(digest, len(tree.manifest_data))
    return SizedContent(digest, len(canonical_json(tree.get_object(digest))))
