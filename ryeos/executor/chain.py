"""Building chains: follow ``executor_id`` from the tool to a primitive, verifying every file.

Guards: at most 10 elements, no element twice, every executor must exist in a space that its child
may use. Two caches, neither ever stale: parsed headers by the digest of their bytes, and chains,
which are used again only if every file still holds the verified bytes, its key still counts, and
no file has appeared where the search looked in vain.
"""

import os
from collections.abc import Collection, Iterator
from pathlib import Path

from lillux.errors import LilluxError
from lillux.files import path_inside, read_bytes
from ryeos.errors import (
    ChainError,
    ChainTooDeepError,
    CircularDependencyError,
    ExecutorNotFoundError,
    InvalidRefError,
    NoExecutorDeclaredError,
    SpecError,
    UnknownPrimitiveError,
)
from ryeos.executor.model import BUILT_IN_SPACE, Chain, ChainElement
from ryeos.items import PROJECT, SYSTEM, Kind, Reference, Resolution, check_id, tier_of
from ryeos.metadata import parse_header
from ryeos.resolver import Resolver
from ryeos.signature import MAX_ITEM_BYTES
from ryeos.specs import ABSENT, PRIMITIVE_TYPE, RUNTIME_TYPE, ToolSpec, tool_spec
from ryeos.verify import VerifiedItem, Verifier

MAX_CHAIN_DEPTH = 10
_READ_BY_OTHERS = frozenset({"config", "extractor", "library", "test"})


class NothingToRunError(ChainError):
    """An item that others read or import, and that nothing runs: a library, say."""

    code = "EXECUTOR_NOT_FOUND"

    def __init__(self, item_id: str, tool_type: str) -> None:
        self.item_id, self.tool_type = item_id, tool_type
        super().__init__(
            f"{item_id}: expected something to run, found a {tool_type} file",
            hint=f"read it with: rye load tool:{item_id}",
        )


class CompanionError(ChainError):
    """A file that an item would use besides its chain, and must not. ``path`` names it."""

    code = "CHAIN_INVALID"

    def __init__(self, path: str, problem: str, *, hint: str = "") -> None:
        self.path, self.problem = path, problem
        super().__init__(f"{path}: {problem}", hint=hint)


class ChainBuilder:
    """Builds chains and remembers them. Thread-safe: entries are immutable and replaced whole."""

    def __init__(self, resolver: Resolver, verifier: Verifier, primitives: Collection[str]) -> None:
        self._resolver = resolver
        self._verifier = verifier
        self._primitives = primitives
        self.chains: dict[str, Chain] = {}
        self._companions: dict[tuple[str, str], Chain] = {}
        self.specs: dict[str, ToolSpec] = {}

    def build(
        self,
        item_id: str,
        *,
        force_refresh: bool = False,
        found: list[ChainElement] | None = None,
    ) -> Chain:
        """The chain of a tool; ``found`` gets its elements, also those before a failure.

        Raises ItemNotFoundError, ChainError, IntegrityError and kin.
        """
        elements: list[ChainElement] = [] if found is None else found
        cached = None if force_refresh else self.chains.get(item_id)
        if cached and self._is_fresh(cached):
            elements.extend(cached.elements)
            return cached
        chain = self._build(item_id, elements)
        self.chains[item_id] = chain
        return chain

    def companion(self, item_id: str, element: ChainElement) -> ChainElement:
        """Another tool item that an element names, verified, from a space that it may use.

        Raises ExecutorNotFoundError, SpecError, IntegrityError and kin.
        """
        known = self._companions.get((item_id, element.space))
        if known and self._is_fresh(known):
            return known.tool
        resolution = self._resolve(item_id, [element])
        companion = self._element(item_id, resolution)
        missed = resolution.missed if resolution else ()
        self._companions[item_id, element.space] = Chain(elements=(companion,), missed=missed)
        return companion

    def companion_at(self, path: Path, element: ChainElement) -> ChainElement | None:
        """The verified tool item in this very file; None for one in no space's tools folder.

        The rules of spaces hold as for `companion`, and the file must be the one that its id leads
        to: not one that another hides. Raises CompanionError, IntegrityError and kin.
        """
        for space in self._resolver.spaces:
            tool = path_inside(path, space.directory(Kind.TOOL))
            if tool is None:
                continue
            if not space.has_suffix(Kind.TOOL, Path(tool).suffix.lower()):
                raise CompanionError(str(path), "expected a file that can be a signed tool item")
            found = self.companion(Path(tool).with_suffix("").as_posix(), element)
            if found.path is None or not found.path.samefile(path):
                raise CompanionError(str(path), f"{found.item_id} is another file: {found.path}")
            return found
        return None

    def forget(self, item_id: str) -> None:
        """Drop every chain that holds an item, and what was remembered beside the chains."""
        self._companions.clear()
        for root, chain in list(self.chains.items()):
            if any(item_id in (e.item_id, e.requested_id) for e in chain.elements):
                self.chains.pop(root, None)

    def clear(self) -> None:
        """Drop everything remembered."""
        self.chains.clear()
        self._companions.clear()
        self.specs.clear()

    def _build(self, item_id: str, elements: list[ChainElement]) -> Chain:
        missed: list[Path] = []
        warnings: list[str] = []
        current: str | None = item_id
        while current is not None:
            if len(elements) == MAX_CHAIN_DEPTH:
                raise ChainTooDeepError(item_id, MAX_CHAIN_DEPTH)
            resolution = self._resolve(current, elements)
            element = self._element(current, resolution)
            if any(element.item_id == earlier.item_id for earlier in elements):
                ids = [earlier.item_id for earlier in elements]
                raise CircularDependencyError([*ids, element.item_id])
            elements.append(element)
            if resolution:
                missed.extend(resolution.missed)
                warnings.extend(resolution.warnings)
                warnings.extend(_unknown_keys(element))
            current = element.executor_id
        last = elements[-1]
        if last.item_id not in self._primitives:
            if last.spec.tool_type in _READ_BY_OTHERS:
                raise NothingToRunError(last.item_id, last.spec.tool_type)
            raise UnknownPrimitiveError(last.item_id, sorted(self._primitives))
        return Chain(elements=tuple(elements), missed=tuple(missed), warnings=tuple(warnings))

    def _resolve(self, item_id: str, elements: list[ChainElement]) -> Resolution | None:
        """Where an element is; None for a primitive that exists without a file."""
        if not elements:
            return self._resolver.resolve(Reference(Kind.TOOL, check_id(item_id)))
        child = elements[-1]
        try:
            check_id(item_id)
        except InvalidRefError as error:
            raise SpecError(f"{child.path}: executor_id", error.problem) from None
        resolution = self._resolver.find_executor(item_id, child.space)
        if resolution is None and item_id not in self._primitives:
            raise self._executor_not_found(item_id, child)
        return resolution

    def _executor_not_found(self, item_id: str, child: ChainElement) -> ExecutorNotFoundError:
        elsewhere = self._resolver.find_executor(item_id, PROJECT)
        if elsewhere:
            above = elsewhere.location.space.label
            return ExecutorNotFoundError(item_id, child.item_id, out_of_reach=above)
        wanted = Reference(Kind.TOOL, item_id)
        suggestions = self._resolver.suggest(wanted, child.space)
        return ExecutorNotFoundError(item_id, child.item_id, suggestions=suggestions)

    def _element(self, requested_id: str, resolution: Resolution | None) -> ChainElement:
        if resolution is None:
            spec = tool_spec({"tool_type": PRIMITIVE_TYPE, "executor_id": None}, "")
            return ChainElement(
                item_id=requested_id, requested_id=requested_id, space=BUILT_IN_SPACE, spec=spec
            )
        location = resolution.location
        item = self._verifier.verify_location(location)
        spec = self._spec(item)
        if spec.executor_id is ABSENT and spec.tool_type != PRIMITIVE_TYPE:
            raise NoExecutorDeclaredError(location.ref.id, str(location.path))
        return ChainElement(
            item_id=location.ref.id,
            requested_id=requested_id,
            space=location.space.label,
            spec=spec,
            item=item,
            shadowed=resolution.shadowed,
            provider_version=location.space.version,
        )

    def _spec(self, item: VerifiedItem) -> ToolSpec:
        key = f"{item.sha256}{item.target.suffix}"
        spec = self.specs.get(key)
        if spec is None:
            suffix = item.target.suffix
            header = item.header
            if header is None:
                where, file_type = str(item.target.path), item.target.file_type
                header = parse_header(suffix, item.text, where, file_type)
            try:
                spec = tool_spec(header, suffix)
            except SpecError as error:
                where = f"{item.target.path}: {error.where}"
                raise SpecError(where, error.problem, hint=error.hint) from None
            self.specs[key] = spec
        return spec

    def _is_fresh(self, chain: Chain) -> bool:
        if any(os.path.lexists(path) for path in chain.missed):
            return False
        return all(self._still_holds(e.item) for e in chain.elements if e.item)

    def _still_holds(self, item: VerifiedItem) -> bool:
        """The same bytes, and a key that still counts: then the signature need not be redone."""
        try:
            same = read_bytes(item.target.path, MAX_ITEM_BYTES) == item.data
        except (OSError, LilluxError):
            return False
        return same and item.verified and self._verifier.key_counts(item)


def _unknown_keys(element: ChainElement) -> Iterator[str]:
    """Warnings about an item that somebody here wrote; a publisher was told when it was made."""
    spec = element.spec
    is_read_closely = spec.tool_type == RUNTIME_TYPE or spec.anchor or spec.verify_deps
    if element.item and is_read_closely and tier_of(element.space) != SYSTEM:
        from ryeos.unknown_keys import unknown_key_warnings

        yield from unknown_key_warnings(spec, element.item.target.suffix, element.item_id)
