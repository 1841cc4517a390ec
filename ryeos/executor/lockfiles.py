"""Lockfiles: a chain that worked once is pinned, a chain that differs is refused.

Place: ``.ai/lockfiles/<tool id>@<version>.lock.json``; read order project, user, bundles; written
to the project, else to user space, and only where an ``.ai`` folder already is. Format:
``docs/lockfiles.md``.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from lillux.files import make_directory, safe_join
from lillux.lockfile import (
    Lockfile,
    LockfileElement,
    LockfileRoot,
    load_lockfile,
    save_lockfile,
)
from ryeos.errors import LockfileMismatchError, SystemImmutableError
from ryeos.executor.model import Chain, ChainElement
from ryeos.items import SYSTEM, Space, Spaces, check_id

DEFAULT_VERSION = "0.0.0"
LOCKFILE_FOLDER = "lockfiles"
LOCKFILE_SUFFIX = ".lock.json"


@dataclass(frozen=True, slots=True)
class FoundLockfile:
    """A lockfile and where it is."""

    lockfile: Lockfile
    path: Path
    space: Space


class LockfileResolver:
    """Finds, checks, writes and removes lockfiles in the spaces."""

    def __init__(self, spaces: Spaces, now: Callable[[], datetime]) -> None:
        self._spaces = spaces
        self._now = now

    def get_lockfile(self, tool_id: str, version: str) -> FoundLockfile | None:
        """The first lockfile in read order. Raises LockfileError when it cannot be read.

        An unreadable lockfile is an error: taking it for none would be a way around it.
        """
        for space in self._spaces:
            path = lockfile_path(space, tool_id, version)
            try:
                return FoundLockfile(load_lockfile(path), path, space)
            except FileNotFoundError:
                continue
        return None

    def exists(self, tool_id: str, version: str) -> bool:
        """Whether any space pins this version."""
        paths = (lockfile_path(space, tool_id, version) for space in self._spaces)
        return any(path.is_file() for path in paths)

    def check(self, chain: Chain, dependencies: Mapping[str, str]) -> FoundLockfile | None:
        """The lockfile that the chain agrees with; None if there is none, or it is outdated.

        Outdated means that a pinned bundle has another version now; such a file is removed where
        that is possible. Raises LockfileMismatchError, LockfileError.
        """
        found = self.get_lockfile(chain.tool.item_id, version_of(chain.tool))
        if found is None:
            return None
        if self._is_outdated(found.lockfile):
            self._remove_quietly(found)
            return None
        for problem in mismatches(found.lockfile, chain, dependencies):
            raise LockfileMismatchError(problem, chain.tool.item_id, str(found.path))
        return found

    def create_lockfile(self, chain: Chain, dependencies: Mapping[str, str]) -> Lockfile:
        """The lockfile that pins a chain as it is now."""
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

    def save_lockfile(self, lockfile: Lockfile) -> Path | None:
        """Write a lockfile; None where no space has an ``.ai`` folder. Raises FileSystemError."""
        for space in (self._spaces.project, self._spaces.user):
            if space and space.ai.is_dir():
                path = lockfile_path(space, lockfile.root.tool_id, lockfile.root.version)
                make_directory(path.parent)
                save_lockfile(path, lockfile)
                return path
        return None

    def delete_lockfile(self, tool_id: str, version: str) -> Path | None:
        """Remove the lockfile that counts, from project or user space; None if there is none."""
        found = self.get_lockfile(tool_id, version)
        if found is None:
            return None
        if found.space.tier == SYSTEM:
            raise SystemImmutableError(str(found.path))
        found.path.unlink(missing_ok=True)
        return found.path

    def list_lockfiles(self, space: Space) -> Iterator[Path]:
        """Every lockfile of a space, sorted."""
        yield from sorted((space.ai / LOCKFILE_FOLDER).rglob(f"*{LOCKFILE_SUFFIX}"))

    def _is_outdated(self, lockfile: Lockfile) -> bool:
        versions = {bundle.bundle_id: bundle.version for bundle in self._spaces.bundles}
        pinned: list[LockfileRoot | LockfileElement] = [lockfile.root, *lockfile.resolved_chain]
        return any(
            entry.provider_id in versions and entry.provider_version != versions[entry.provider_id]
            for entry in pinned
            if entry.provider_id
        )

    def _remove_quietly(self, found: FoundLockfile) -> None:
        if found.space.tier == SYSTEM:
            return
        try:
            found.path.unlink(missing_ok=True)
        except OSError:
            return


def mismatches(lockfile: Lockfile, chain: Chain, dependencies: Mapping[str, str]) -> Iterator[str]:
    """Every difference between what is pinned and what was built, the root first."""
    if lockfile.root.integrity != chain.tool.integrity:
        yield f"Lockfile integrity mismatch for {chain.tool.item_id}"
    built = {element.item_id: element for element in chain.elements}
    for pinned in lockfile.resolved_chain:
        element = built.get(pinned.item_id)
        if element is None:
            yield f"Lockfile chain element not found: {pinned.item_id} (space: {pinned.space})"
        elif pinned.integrity and pinned.integrity != element.integrity:
            yield f"Lockfile integrity mismatch for chain element {pinned.item_id}"
    order = [(pinned.item_id, pinned.space) for pinned in lockfile.resolved_chain]
    if order != [(element.item_id, element.space) for element in chain.elements]:
        yield f"Lockfile chain differs in its elements, order or spaces for {chain.tool.item_id}"
    for path, digest in (lockfile.verified_deps or {}).items():
        if path not in dependencies:
            yield f"Lockfile dependency not found: {path}"
        elif dependencies[path] != digest:
            yield f"Lockfile integrity mismatch for dependency {path}"


def lockfile_path(space: Space, tool_id: str, version: str) -> Path:
    """Where a space keeps the lockfile of a tool's version. Raises InvalidRefError."""
    name = f"{tool_id}@{version}{LOCKFILE_SUFFIX}"
    return safe_join(space.ai / LOCKFILE_FOLDER, check_id(name))


def version_of(element: ChainElement) -> str:
    """An element's version, ``0.0.0`` when it has none."""
    return element.spec.version or DEFAULT_VERSION


def _provider(element: ChainElement) -> str:
    tier, _, bundle_id = element.space.partition(":")
    return bundle_id or tier


def _pinned(element: ChainElement) -> LockfileElement:
    return LockfileElement(
        item_id=element.item_id,
        space=element.space,
        tool_type=element.spec.tool_type,
        executor_id=element.executor_id,
        integrity=element.integrity,
        provider_id=_provider(element),
        provider_version=element.provider_version or version_of(element),
    )
