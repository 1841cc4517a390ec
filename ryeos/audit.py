"""The state of many files at once: what ``rye verify`` reports.

States: ``valid``, ``unsigned``, ``tampered``, ``untrusted-key``, ``bad-format``; ``skipped`` for a
file type that has no signature form, and for what package managers wrote and nobody signed. Nothing
is parsed, nothing stops at the first problem.
"""

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from lillux.errors import LilluxError
from lillux.files import is_directory, is_inside
from lillux.values import dataclass
from ryeos.dependencies import MANAGED_JSON
from ryeos.errors import (
    IntegrityError,
    ItemNotFoundError,
    NoSignatureFormError,
    UnsignedError,
)
from ryeos.items import AI_DIRECTORY, ItemRef, Kind, Space, Spaces, kind_of_directory
from ryeos.resolver import escaped, is_regular_file
from ryeos.verify import Coverage, Target, VerifiedItem, Verifier

VALID, SKIPPED, BAD_FORMAT = "valid", "skipped", "bad-format"
# Files below a folder outside every space are checked with the user's own keys only.
OUTSIDE = "outside"
_SKIPPED_FOLDERS = frozenset({"__pycache__", "node_modules", ".venv", ".git"})
_MANIFESTS = frozenset({"manifest.yaml", "manifest.yml", "files.manifest"})


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditReport:
    """One file's state. ``problem`` and ``hint`` are set where the state is not valid."""

    target: Target
    state: str
    ref: ItemRef | None = None
    item: VerifiedItem | None = None
    fingerprint: str = ""
    problem: str = ""
    hint: str = ""

    def describe(self) -> dict[str, Any]:
        """The report as ``verify --json`` shows it."""
        described: dict[str, Any] = {"ref": str(self.ref)} if self.ref else {}
        described |= {"path": str(self.target.path), "state": self.state}
        signature = self.item.signature if self.item else None
        key = self.item.key if self.item else None
        fingerprint = key.fingerprint if key else self.fingerprint
        if fingerprint:
            described["fingerprint"] = fingerprint
        if key:
            described["signer"] = key.owner
        if signature:
            described["signed_at"] = signature.timestamp
        if self.provenance:
            described["provenance"] = self.provenance
        if self.item:
            described["coverage"] = self.item.coverage.value
        if self.problem:
            described["problem"] = self.problem
        if self.hint:
            described["hint"] = self.hint
        return described

    @property
    def provenance(self) -> str:
        """Who published the item in which registry, as its line says; no signature covers that."""
        signature = self.item.signature if self.item else None
        return signature.provenance if signature else ""

    @property
    def is_partial(self) -> bool:
        """Whether the file is valid although part of its text is not covered."""
        return self.item is not None and self.item.coverage is Coverage.PARTIAL


def audit(targets: Iterable[Target], verifier: Verifier) -> Iterator[AuditReport]:
    """The state of every target, in their order."""
    for target in targets:
        yield _audit_one(target, verifier)


def counts(reports: Sequence[AuditReport]) -> dict[str, int]:
    """How many files are in each state."""
    return dict(sorted(Counter(report.state for report in reports).items()))


def targets_in_spaces(spaces: Iterable[Space]) -> Iterator[Target]:
    """Every item file of the spaces."""
    for space in spaces:
        yield from targets_below(space.ai, space)


def targets_at(path: Path, spaces: Spaces) -> list[Target]:
    """The item files that a path stands for: itself, or all below any ``.ai`` in a folder.

    Raises ItemNotFoundError when there is nothing at the path.
    """
    absolute = path.absolute()
    space = _space_around(absolute, spaces)
    if is_regular_file(absolute):
        kind = _kind(absolute, space.ai) or Kind.TOOL
        return [Target(path=absolute, kind=kind, space=space)]
    if not is_directory(absolute):
        raise ItemNotFoundError(str(path), ["the file system"])
    if absolute.is_relative_to(space.ai):
        found = list(targets_below(absolute, space))
    else:
        found = [
            target
            for ai in _ai_folders(absolute)
            for target in targets_below(ai, _space_of(ai, spaces))
        ]
    if not found:
        raise ItemNotFoundError(f"items in {path}", ["the file system"])
    return found


def targets_below(folder: Path, space: Space) -> Iterator[Target]:
    """Every item file below a folder of a space, by path."""
    for current, folders, names in os.walk(folder):
        inside = Path(current)
        folders[:] = sorted(name for name in folders if _is_walked(inside / name, space.ai))
        for name in sorted(names):
            path = inside / name
            kind = _kind(path, space.ai)
            if kind and not name.startswith(".") and path.suffix not in {".sig", ".pyc"}:
                yield Target(path=path, kind=kind, space=space)


def _audit_one(target: Target, verifier: Verifier) -> AuditReport:
    ref = _ref(target)
    try:
        _check_inside(target)
        item = verifier.verify(target)
    except NoSignatureFormError as error:
        return AuditReport(target=target, ref=None, state=SKIPPED, problem=error.suffix)
    except UnsignedError as error:
        if target.path.name in MANAGED_JSON:
            return AuditReport(target=target, ref=None, state=SKIPPED, problem=error.problem)
        return _not_valid(target, ref, error)
    except IntegrityError as error:
        return _not_valid(target, ref, error)
    except LilluxError as error:
        return AuditReport(
            target=target, ref=ref, state=BAD_FORMAT, problem=str(error), hint=error.hint
        )
    state = VALID if item.verified else "unverified"
    return AuditReport(target=target, ref=ref, state=state, item=item)


def _not_valid(target: Target, ref: ItemRef | None, error: IntegrityError) -> AuditReport:
    return AuditReport(
        target=target,
        ref=ref,
        state=error.state,
        fingerprint=getattr(error, "fingerprint", ""),
        problem=error.problem,
        hint=error.hint,
    )


def _check_inside(target: Target) -> None:
    """Refuse what no resolver would find: a link that leads out of the folder of its kind."""
    space, path = target.space, target.path
    for root in (space.directory(target.kind), space.ai):
        if path.is_relative_to(root):
            if not is_inside(path, root):
                raise escaped(path, space)
            return


def _ref(target: Target) -> ItemRef | None:
    folder = target.space.directory(target.kind)
    is_item = target.space.has_suffix(target.kind, target.suffix)
    if not target.path.is_relative_to(folder) or not is_item:
        return None
    return ItemRef(target.kind, target.path.relative_to(folder).with_suffix("").as_posix())


def _kind(path: Path, ai: Path) -> Kind | None:
    if not path.is_relative_to(ai):
        return None
    parts = path.relative_to(ai).parts
    if parts[0] == "bundles":
        return (
            (Kind.CONFIG if path.suffix == ".manifest" else Kind.TOOL)
            if (path.name in _MANIFESTS)
            else None
        )
    return kind_of_directory(parts[0]) if len(parts) > 1 else None


def _is_walked(folder: Path, ai: Path) -> bool:
    if folder.name in _SKIPPED_FOLDERS or folder.name.startswith("."):
        return False
    return folder.parent != ai or folder.name == "bundles" or bool(kind_of_directory(folder.name))


def _space_around(path: Path, spaces: Spaces) -> Space:
    for space in spaces:
        if path.is_relative_to(space.ai) or path == space.base:
            return space
    for folder in (path, *path.parents):
        if folder.name == AI_DIRECTORY:
            return Space(OUTSIDE, folder.parent)
    return Space(OUTSIDE, path)


def _space_of(ai: Path, spaces: Spaces) -> Space:
    known = (space for space in spaces if space.ai == ai)
    return next(known, Space(OUTSIDE, ai.parent))


def _ai_folders(folder: Path) -> Iterator[Path]:
    """Every ``.ai`` in a tree, not looking into one for further ones."""
    for current, folders, _ in os.walk(folder):
        if AI_DIRECTORY in folders:
            yield Path(current, AI_DIRECTORY)
        folders[:] = sorted(n for n in folders if n != AI_DIRECTORY and n not in _SKIPPED_FOLDERS)
