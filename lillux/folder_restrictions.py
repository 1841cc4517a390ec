"""Folders that a child gets less of than its parent has, and all else as it is.

Landlock only allows. So beside each folder on the way to a withheld one, everything that is there
is allowed by itself: a confined child makes no new entry in those folders. Measured: about 0.4 ms
for a child with the usual folders of a home.
"""

import os
import sys
from contextlib import suppress
from enum import Enum
from pathlib import Path

from lillux.landlock import (
    LIST,
    NO_NEW_PRIVILEGES,
    READING,
    RESTRICT_SELF,
    EntriesState,
    allow_path,
    are_settled,
    c_library,
    confined_processes,
    drop_extraordinary_capabilities,
    entries_state,
    handled_rights,
    handled_scopes,
    keep_ruleset,
    kept_lock,
    kept_rulesets,
    landlock_version,
    new_ruleset,
    raise_for_errno,
    system_call,
)
from lillux.values import dataclass


class Access(Enum):
    """Rights of a child in a folder and below it."""

    NONE = 0
    READ = 1
    ALL = 2


@dataclass(frozen=True, slots=True)
class FolderRestrictions:
    """Rights of a child below some folders; the nearest folder that is named counts.

    What lies below none of them has the access ``base``.
    """

    folders: tuple[tuple[Path, Access], ...]
    base: Access = Access.ALL

    def takes(self, what: str, path: str) -> bool:
        """True if it refuses ``read`` or ``write`` of a path. For messages, not for decisions."""
        real = Path(os.path.realpath(path))
        above = (one for one in self.folders if real.is_relative_to(os.path.realpath(one[0])))
        _, access = max(above, key=lambda one: len(one[0].parts), default=(None, self.base))
        return access is Access.NONE or (access is Access.READ and what == "write")

    def named(self) -> tuple[tuple[str, bool], ...]:
        """The real paths that it names, and whether they may be written; the root is the base."""
        real = ((os.path.realpath(path), access) for path, access in self.folders)
        every = (("/", self.base), *real)
        return tuple((path, access is Access.ALL) for path, access in every)

    def enter(self, *, platform: str = sys.platform) -> bool:
        """Confine this thread, and what it starts; False where the system has no Landlock.

        Raises OSError when the system has it and refuses.
        """
        version = landlock_version(platform=platform)
        if not version or os.getpid() in confined_processes:
            return bool(version)
        with kept_lock:  # a ruleset that is replaced is closed
            ruleset = self._ruleset(handled_rights(version), handled_scopes(version))
            raise_for_errno(c_library().prctl(NO_NEW_PRIVILEGES, 1, 0, 0, 0))
            drop_extraordinary_capabilities()
            raise_for_errno(system_call(RESTRICT_SELF, ruleset, 0))
        return True

    def _ruleset(self, rights: int, scopes: int) -> int:
        """A descriptor of the rules; those made before as long as no folder got or lost an entry.

        The time of a folder that is younger than the clock's steps may hide a change.
        """
        folders, ancestors = self._places()
        state = (os.getpid(), *self.state())
        known = kept_rulesets.get(self)
        if known is not None and known[0] == state:
            return known[1]
        is_settled = are_settled(state[2])
        ruleset = new_ruleset(rights, scopes)
        closed = (path for path, one in folders.items() if one is Access.NONE)
        partly_closed = {above for path in closed for above in path.parents}
        named = (folders, ancestors, partly_closed)
        self._grant(ruleset, Path("/"), self.base, named, rights)
        return keep_ruleset(self, state if is_settled else None, ruleset)

    def state(self) -> tuple[tuple[tuple[Path, Access], ...], tuple["EntriesState", ...]]:
        """State of the rules' origin: another one as soon as such a folder has another entry."""
        folders, ancestors = self._places()
        return tuple(folders.items()), tuple(map(entries_state, sorted(ancestors)))

    def _places(self) -> tuple[dict[Path, Access], set[Path]]:
        """The real folders that it names, and those above them."""
        folders = {Path(os.path.realpath(path)): access for path, access in self.folders}
        return folders, {above for path in folders for above in path.parents}

    def _grant(
        self,
        ruleset: int,
        folder: Path,
        access: Access,
        named: tuple[dict[Path, Access], set[Path], set[Path]],
        rights: int,
    ) -> None:
        folders, ancestors, partly_closed = named
        access = folders.get(folder, access)
        if folder not in ancestors:
            if access is not Access.NONE:
                granted = rights if access is Access.ALL else rights & READING
                allow_path(ruleset, folder, granted, follow=False)
            return
        # Where nothing below is closed, what is made there later can be read too.
        is_open = access is not Access.NONE and folder not in partly_closed
        allow_path(ruleset, folder, rights & (READING if is_open else LIST), follow=False)
        with suppress(OSError):
            for name in os.listdir(folder):  # noqa: PTH208 - names are what is wanted
                below = folder / name
                if (
                    not (is_open and access is Access.READ)
                    or below in ancestors
                    or below in folders
                ):
                    self._grant(ruleset, below, access, named, rights)

    def macos_profile(self) -> str:
        """The same for ``sandbox-exec`` of macOS, whose last matching rule counts."""
        lines = ["(version 1)", "(allow default)"]
        others = () if self.base is Access.ALL else ((Path("/"), self.base),)
        for path, access in sorted((*others, *self.folders), key=lambda one: len(one[0].parts)):
            quoted = str(path).replace("\\", "\\\\").replace('"', '\\"')
            place = f'(subpath "{quoted}")'
            reads = "deny" if access is Access.NONE else "allow"
            writes = "allow" if access is Access.ALL else "deny"
            lines += [f"({reads} file-read-data {place})", f"({writes} file-write* {place})"]
        return "\n".join(lines) + "\n"
