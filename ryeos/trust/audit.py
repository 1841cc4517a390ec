"""The state of many files at once: what ``rye verify`` reports.

States: ``valid``, ``unsigned``, ``tampered``, ``untrusted-key``, ``bad-format``; ``skipped`` for
a file type that has no signature form, and for what package managers wrote, unsigned.
Nothing is parsed, nothing stops at the first problem.
"""

import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from lillux.contained_paths import is_inside
from lillux.errors import LilluxError
from lillux.files import is_directory, read_bytes
from lillux.values import dataclass
from ryeos.items.errors import (
    ChainError,
    IntegrityError,
    ItemNotFoundError,
    NoSignatureFormError,
    UnboundSignatureError,
    UnsignedError,
)
from ryeos.items.refs import AI_DIRECTORY, ItemRef, Kind, Space, Spaces, kind_of_directory
from ryeos.trust.dependencies import MANAGED_JSON
from ryeos.trust.resolver import escaped, is_regular_file
from ryeos.trust.sign_targets import ReadItem, SignTarget
from ryeos.trust.signature import MAX_ITEM_BYTES
from ryeos.trust.verify import Coverage, Target, VerifiedItem, Verifier

VALID, SKIPPED, BAD_FORMAT, REFUSED = "valid", "skipped", "bad-format", "refused"
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
            described["identity"] = "bound" if self.item.identity else "unbound"
        if self.problem:
            described["problem"] = self.problem
        if self.hint:
            described["hint"] = self.hint
        return described

    @property
    def provenance(self) -> str:
        """The publisher and the registry that its line names; no signature covers that."""
        signature = self.item.signature if self.item else None
        return signature.provenance if signature else ""

    @property
    def is_partial(self) -> bool:
        """True if the file is valid although part of its text is not covered."""
        return self.item is not None and self.item.coverage is Coverage.PARTIAL


def audit(
    targets: Iterable[Target],
    verifier: Verifier,
    require: Callable[[ItemRef, VerifiedItem], None] = lambda _ref, _item: None,
) -> Iterator[AuditReport]:
    """The state of every target, in their order. ``require`` raises what else is wrong with one."""
    for target in targets:
        yield _audit_one(target, verifier, require)


def counts(reports: Sequence[AuditReport]) -> dict[str, int]:
    """The number of files in each state."""
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
            if not name.startswith(".") and not name.endswith((".sig", ".pyc")):
                kind = _kind(inside / name, space.ai)
                if kind:
                    yield Target(path=inside / name, kind=kind, space=space)


def _audit_one(
    target: Target, verifier: Verifier, require: Callable[[ItemRef, VerifiedItem], None]
) -> AuditReport:
    ref = _ref(target)
    try:
        _require_inside(target)
        item = verifier.verify(target)
        if ref and item.verified:
            require(ref, item)
    except NoSignatureFormError as error:
        return AuditReport(target=target, ref=None, state=SKIPPED, problem=error.suffix)
    except UnsignedError as error:
        if target.path.name in MANAGED_JSON:
            return AuditReport(target=target, ref=None, state=SKIPPED, problem=error.problem)
        return _not_valid(target, ref, error)
    except IntegrityError as error:
        return _not_valid(target, ref, error)
    except LilluxError as error:
        state = REFUSED if isinstance(error, ChainError) else BAD_FORMAT
        return AuditReport(target=target, ref=ref, state=state, problem=str(error), hint=error.hint)
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


def _require_inside(target: Target) -> None:
    """Refuse what no resolver would find: a link that leads out of the folder of its kind."""
    space, path = target.space, target.path
    for root in (space.directory(target.kind), space.ai):
        if _below(path, root) is not None:
            if not is_inside(path, root):
                raise escaped(path, space)
            return


def _ref(target: Target) -> ItemRef | None:
    relative = _below(target.path, target.space.directory(target.kind))
    if relative is None or not target.space.has_suffix(target.kind, target.suffix):
        return None
    return ItemRef(target.kind, relative.removesuffix(target.path.suffix))


def _below(path: Path, root: Path) -> str | None:
    """The POSIX path below a folder, links not followed; None for a path that is not below it.

    Texts, as this is asked for many times with each file.
    """
    text, start = str(path), f"{root}{os.sep}"
    return text[len(start) :].replace(os.sep, "/") if text.startswith(start) else None


def _kind(path: Path, ai: Path) -> Kind | None:
    relative = _below(path, ai)
    return _kind_below(relative) if relative else None


def _kind_below(relative: str) -> Kind | None:
    first, _, rest = relative.partition("/")
    name = rest.rpartition("/")[2]
    if first == "bundles":
        if name not in _MANIFESTS:
            return None
        return Kind.CONFIG if name.endswith(".manifest") else Kind.TOOL
    return kind_of_directory(first) if rest else None


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


def signed_items(
    spaces: Iterable[Space], verifier: Verifier, fingerprint: str
) -> Iterator[ReadItem]:
    """Every file of the spaces that a key signed, rightly, with the bytes that were verified."""
    for target in targets_in_spaces(spaces):
        try:
            item = verifier.verify(target)
        except LilluxError:
            continue
        if item.key and item.key.fingerprint == fingerprint:
            yield ReadItem(_sign_target(target), item.data)


def unbound_items(
    spaces: Iterable[Space], verifier: Verifier, fingerprint: str
) -> Iterator[ReadItem]:
    """Every file that a key signed, rightly, before it named the item in what it signs."""
    for target in targets_in_spaces(spaces):
        try:
            data = read_bytes(target.path, MAX_ITEM_BYTES)
            item = verifier.verify(target, data)
            is_one = item.identity is None and item.key and item.key.fingerprint == fingerprint
        except UnboundSignatureError as error:
            is_one = not error.is_named and error.fingerprint == fingerprint
        except (LilluxError, FileNotFoundError):
            continue
        if is_one and target.identity():
            yield ReadItem(_sign_target(target), data)


def _sign_target(target: Target) -> SignTarget:
    return SignTarget(path=target.path, kind=target.kind, space=target.space, ref=_ref(target))
