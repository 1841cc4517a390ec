"""Lockfiles: pin the chain of a tool, refuse a chain that differs.

Place: ``.ai/lockfiles/tools/<tool id>.lock.json``, one for a tool whatever its version; read order
project, user, bundles; written to the project, else to user space, and only where an ``.ai`` folder
already is. Format: ``docs/signatures.md``. Older programs wrote one for each version,
``.ai/lockfiles/<tool id>@<version>.lock.json``.
"""

import json
import os
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from lillux.contained_paths import require_plain_path, safe_join
from lillux.errors import (
    LilluxError,
    UnsafePathError,
)
from lillux.files import file_system_error, make_directory, remove_file
from lillux.values import dataclass
from ryeos.items.context import Clock
from ryeos.items.errors import LockfileMismatchError, SpecError, SystemImmutableError
from ryeos.items.refs import PROJECT, SYSTEM, USER, Space, Spaces
from ryeos.run.model import Chain, ChainElement

if TYPE_CHECKING:  # most runs see no lockfile at all
    from lillux.lockfile import Lockfile, LockfileElement, LockfileRoot
    from ryeos.run.anchor import AnchoredFiles

DEFAULT_VERSION = "0.0.0"
LOCKFILE_FOLDER = "lockfiles"
TOOLS_FOLDER = f"{LOCKFILE_FOLDER}/tools"
LOCKFILE_SUFFIX = ".lock.json"


@dataclass(frozen=True, slots=True)
class FoundLockfile:
    """A lockfile and where it is."""

    lockfile: "Lockfile"
    path: Path
    space: Space


class LockfileResolver:
    """Finds, checks, writes and removes lockfiles in the spaces."""

    def __init__(self, spaces: Spaces, now: Clock) -> None:
        self._spaces = spaces
        self._now = now

    def get_lockfile(self, tool_id: str, version: str) -> FoundLockfile | None:
        """The first lockfile in read order. Raises LockfileError when it cannot be read.

        An unreadable lockfile is an error: taking it for none would be a way around it.
        """
        for space in self._spaces:
            for path in _paths(space, tool_id, version):
                if os.path.lexists(path):
                    from lillux.lockfile import load_lockfile

                    return FoundLockfile(load_lockfile(path), path, space)
        return None

    def exists(self, tool_id: str, version: str) -> bool:
        """True if any space pins the tool."""
        found = (_paths(space, tool_id, version) for space in self._spaces)
        return any(path.is_file() for paths in found for path in paths)

    def check(self, chain: Chain, dependencies: Mapping[str, str]) -> FoundLockfile | None:
        """The lockfile that the chain agrees with; None if it is absent or outdated.

        Outdated means that a pinned bundle has another version now. That bundle's elements may
        then differ, the others may not; the next success writes the file anew. Raises
        LockfileMismatchError, LockfileError, SpecError.
        """
        found = self.get_lockfile(chain.tool.item_id, version_of(chain.tool))
        if found is None or not _may_speak_for(found.space, chain):
            return None
        updated = self._updated_bundles(found.lockfile)
        for problem in mismatches(found.lockfile, chain, dependencies, updated):
            raise LockfileMismatchError(problem, chain.tool.item_id, str(found.path))
        return None if updated else found

    def create_lockfile(self, chain: Chain, dependencies: Mapping[str, str]) -> "Lockfile":
        """The lockfile that pins a chain as it is now."""
        from lillux.lockfile import Lockfile, LockfileRoot

        root = chain.tool
        return Lockfile(
            lockfile_version=1,
            generated_at=self._now().isoformat(timespec="microseconds"),
            root=LockfileRoot(
                tool_id=root.item_id,
                version=version_of(root),
                integrity=root.integrity,
                provider_id=_provider(root),
                provider_version=root.provider_version or version_of(root),
            ),
            resolved_chain=tuple(_pinned(element) for element in chain.elements),
            registry=None,
            verified_deps=dict(dependencies) or None,
        )

    def save_lockfile(self, lockfile: "Lockfile") -> Path | None:
        """Write a lockfile; None where no space has an ``.ai`` folder. Raises FileSystemError."""
        space = self._place()
        if space is None:
            return None
        from lillux.lockfile import save_lockfile

        root = lockfile.root
        path, older = _paths(space, root.tool_id, root.version)
        make_directory(path.parent, within=space.within)
        save_lockfile(path, lockfile, within=space.within)
        with suppress(OSError, LilluxError):
            remove_file(older, within=space.within)
        return path

    def has_place(self) -> bool:
        """True if a lockfile could be kept anywhere."""
        return self._place() is not None

    def _place(self) -> Space | None:
        own = (self._spaces.project, self._spaces.user)
        return next((s for s in own if s and os.path.isdir(s.ai)), None)  # noqa: PTH112 - never raises

    def delete_lockfile(self, tool_id: str, version: str) -> Path | None:
        """Remove the lockfile that counts, readable or not; its path, or None.

        Raises SystemImmutableError for a bundle's, FileSystemError.
        """
        for space in self._spaces:
            found = [path for path in _paths(space, tool_id, version) if os.path.lexists(path)]
            for path in found:
                if space.tier == SYSTEM:
                    raise SystemImmutableError(str(path))
                try:
                    remove_file(path, within=space.within)
                except OSError as error:
                    raise file_system_error(path, error) from error
            if found:
                return found[0]
        return None

    def list_lockfiles(self, space: Space) -> Iterator[Path]:
        """Every lockfile of a space, sorted; also those of older programs."""
        folder = space.ai / LOCKFILE_FOLDER
        yield from sorted((space.ai / TOOLS_FOLDER).rglob(f"*{LOCKFILE_SUFFIX}"))
        yield from sorted(folder.rglob(f"*@*{LOCKFILE_SUFFIX}"))

    def pinned(self, space: Space) -> Iterator[str]:
        """The id of each tool that a lockfile of a space pins, once."""
        yield from dict.fromkeys(_tool_of(space, path) for path in self.list_lockfiles(space))

    def naming(self, names: Collection[str]) -> Iterator[str]:
        """The ids of the tools whose lockfile, in project or user space, has one of these names.

        A name is the id of a tool or the end of a path. Another file may have it: whether the
        tool's chain has the very file is what `require_only_changed` finds out.
        """
        ends = [f'{json.dumps(name)[1:-1]}"'.encode() for name in names]
        for space in filter(None, (self._spaces.project, self._spaces.user)):
            for path in self.list_lockfiles(space):
                text = path.read_bytes()
                if any(end in text for end in ends):
                    yield _tool_of(space, path)

    def require_only_changed(
        self, chain: Chain, files: "AnchoredFiles", signed: Collection[Path]
    ) -> bool:
        """True if the lockfile of a chain pins one of these files, and nothing else differs.

        False where no lockfile counts, or none of the files is in the chain. Raises
        LockfileMismatchError that names another file that differs: no person has decided about it.
        """
        found = self.get_lockfile(chain.tool.item_id, version_of(chain.tool))
        if found is None or found.space.tier == SYSTEM or not _may_speak_for(found.space, chain):
            return False
        paths = [*(one.path for one in chain.elements), *files.places.values()]
        if not any(path and path.resolve() in signed for path in paths):
            return False
        updated = self._updated_bundles(found.lockfile)
        other = next(_other_changes(found.lockfile, chain, files, signed, updated), "")
        if other:
            problem = f"{other} differs too, and was not signed now"
            raise LockfileMismatchError(problem, chain.tool.item_id, str(found.path))
        return True

    def _updated_bundles(self, lockfile: "Lockfile") -> frozenset[str]:
        """The ids of pinned bundles that are installed in another version."""
        versions = {bundle.bundle_id: bundle.version for bundle in self._spaces.bundles}
        pinned: list[LockfileRoot | LockfileElement] = [lockfile.root, *lockfile.resolved_chain]
        return frozenset(
            entry.provider_id
            for entry in pinned
            if entry.provider_id in versions
            and entry.provider_version != versions[entry.provider_id]
        )


def _may_speak_for(space: Space, chain: Chain) -> bool:
    """User space does not know the projects: one id is another file in each of them."""
    return space.tier != USER or all(element.space != PROJECT for element in chain.elements)


def mismatches(
    lockfile: "Lockfile",
    chain: Chain,
    dependencies: Mapping[str, str],
    updated: Collection[str] = (),
) -> Iterator[str]:
    """Every difference between what is pinned and what was built, the root first.

    What comes from the ``updated`` bundles may differ.
    """
    if lockfile.root.tool_id != chain.tool.item_id:
        yield f"Lockfile of another tool: {lockfile.root.tool_id}"
    root_may_differ = lockfile.root.provider_id in updated
    if lockfile.root.integrity != chain.tool.integrity and not root_may_differ:
        yield f"Lockfile integrity mismatch for {chain.tool.item_id}"
    kept = [pinned for pinned in lockfile.resolved_chain if pinned.provider_id not in updated]
    built = {e.item_id: e for e in chain.elements if _provider(e) not in updated}
    for pinned in kept:
        element = built.get(pinned.item_id)
        if element is None:
            yield f"Lockfile chain element not found: {pinned.item_id} (space: {pinned.space})"
        elif pinned.integrity and pinned.integrity != element.integrity:
            yield f"Lockfile integrity mismatch for chain element {pinned.item_id}"
    order = [(pinned.item_id, pinned.space) for pinned in kept]
    if order != [(element.item_id, element.space) for element in built.values()]:
        yield f"Lockfile chain differs in its elements, order or spaces for {chain.tool.item_id}"
    pinned_files = {} if root_may_differ else lockfile.verified_deps or {}
    for path, digest in pinned_files.items():
        if path not in dependencies:
            yield f"Lockfile dependency not found: {path}"
        elif dependencies[path] != digest:
            yield f"Lockfile integrity mismatch for dependency {path}"


def _other_changes(
    lockfile: "Lockfile",
    chain: Chain,
    files: "AnchoredFiles",
    signed: Collection[Path],
    updated: Collection[str],
) -> Iterator[str]:
    """Differences from a lockfile, but for signed files and updated bundles.

    An element that is new may be there where the one before it was signed, or is new itself: a
    text that was signed has chosen it.
    """
    if lockfile.root.tool_id != chain.tool.item_id:
        yield f"the tool, {lockfile.root.tool_id},"
    pinned = {one.item_id: one for one in lockfile.resolved_chain}
    is_chosen = False
    for element in chain.elements:
        known = pinned.get(element.item_id)
        if element.path and element.path.resolve() in signed:
            is_chosen = True
        elif known is None:
            if not is_chosen:
                yield element.item_id
        else:
            is_chosen = False
            is_same = (known.integrity, known.space) == (element.integrity, element.space)
            if not is_same and _provider(element) not in updated:
                yield str(element.path or element.item_id)
    for name, digest in (lockfile.verified_deps or {}).items():
        path = files.places.get(name)
        is_signed = path is not None and path.resolve() in signed
        if (
            not is_signed
            and files.pins.get(name) != digest
            and lockfile.root.provider_id not in updated
        ):
            yield str(path or name)


def lockfile_path(space: Space, tool_id: str) -> Path:
    """The path of the lockfile of a tool in a space.

    Raises UnsafePathError where a link leads out of the space.
    """
    return safe_join(space.ai, f"{TOOLS_FOLDER}/{tool_id}{LOCKFILE_SUFFIX}")


def _paths(space: Space, tool_id: str, version: str) -> tuple[Path, Path]:
    """Paths of the lockfile of a tool: its own, and that which older programs gave a version.

    Raises SpecError for a version that cannot be part of a file name, UnsafePathError.
    """
    path, name = lockfile_path(space, tool_id), f"{version}{LOCKFILE_SUFFIX}"
    try:
        require_plain_path(name)
    except UnsafePathError as error:
        raise SpecError("version", error.problem) from None
    if "/" in version:
        raise SpecError("version", f"expected text without '/', got {version[:60]!r}")
    return path, safe_join(space.ai, f"{LOCKFILE_FOLDER}/{tool_id}@{name}")


def _tool_of(space: Space, path: Path) -> str:
    """The id of the tool that a lockfile pins."""
    folder = space.ai / TOOLS_FOLDER
    is_new = path.is_relative_to(folder)
    below = path.relative_to(folder if is_new else space.ai / LOCKFILE_FOLDER).as_posix()
    return below.removesuffix(LOCKFILE_SUFFIX) if is_new else below.rpartition("@")[0]


def version_of(element: ChainElement) -> str:
    """An element's version, ``0.0.0`` when it has none."""
    return element.spec.version or DEFAULT_VERSION


def _provider(element: ChainElement) -> str:
    tier, _, bundle_id = element.space.partition(":")
    return bundle_id or tier


def _pinned(element: ChainElement) -> "LockfileElement":
    from lillux.lockfile import LockfileElement

    return LockfileElement(
        item_id=element.item_id,
        space=element.space,
        tool_type=element.spec.tool_type,
        executor_id=element.executor_id,
        integrity=element.integrity,
        provider_id=_provider(element),
        provider_version=element.provider_version or version_of(element),
    )
