"""Builds chains: follows ``executor_id`` from a tool to a primitive, verifying each file.

Guards: at most 10 elements, no element twice, every executor must exist in a space that its child
may use. Two caches, neither ever stale: parsed headers by the digest of their bytes, and chains,
which are used again only if every file still holds the verified bytes, its key still counts, and
no file has appeared where the search looked in vain.
"""

import os
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from lillux.contained_paths import path_inside
from lillux.errors import LilluxError
from lillux.fields import ABSENT
from lillux.files import read_bytes
from lillux.values import dataclass
from ryeos.items.errors import (
    ChainError,
    ExecutorNotFoundError,
    IntegrityError,
    InvalidRefError,
    SpecError,
)
from ryeos.items.refs import PROJECT, SYSTEM, Kind, Reference, Resolution, tier_of, valid_id
from ryeos.items.specs import PRIMITIVE_TYPE, RUNTIME_TYPE, ToolSpec, tool_spec, type_name
from ryeos.run.model import BUILT_IN_SPACE, Chain, ChainElement
from ryeos.trust.resolver import Resolver
from ryeos.trust.signature import MAX_ITEM_BYTES
from ryeos.trust.verify import VerifiedItem, Verifier, require_place

MAX_CHAIN_DEPTH = 10
PACKAGES_MARK, PACKAGES_SUFFIX = "# /// script", ".packages"
"""Begins the block in which a Python tool says which packages it needs (PEP 723); ends the id of
the list of these, before which the id of the tool stands."""
_READ_BY_OTHERS = frozenset({"config", "extractor", "library", "test"})


def companion_error(path: str, problem: str, *, hint: str = "") -> ChainError:
    """The error of a file that an item would use besides its chain, and must not."""
    return ChainError(f"{path}: {problem}", hint=hint, path=path)


@dataclass(frozen=True, slots=True)
class RefusedElement:
    """A file that is no element of the chain: it does not verify, or its header is wrong."""

    resolution: Resolution
    is_unverified: bool


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
        refused: "list[RefusedElement] | None" = None,
        resolution: Resolution | None = None,
    ) -> Chain:
        """The chain of a tool; ``found`` gets its elements, also those before a failure.

        ``refused`` gets the one that is found and is no element, as it does not verify, say.
        ``resolution`` is where the tool is, if it has been resolved already.
        Raises ItemNotFoundError, ChainError, IntegrityError and similar.
        """
        elements: list[ChainElement] = [] if found is None else found
        cached = None if force_refresh else self.chains.get(item_id)
        if cached and self._is_fresh(cached):
            elements.extend(cached.elements)
            return cached
        chain = self._build(item_id, elements, resolution, [] if refused is None else refused)
        self.chains[item_id] = chain
        return chain

    def companion(self, item_id: str, element: ChainElement) -> ChainElement:
        """Another tool item that an element names, verified, from a space that it may use.

        It may be a module, which has no header. Raises ExecutorNotFoundError, SpecError,
        IntegrityError and similar.
        """
        key = item_id, element.space
        known = self._companions.get(key)
        if known and self._is_fresh(known):
            return known.tool
        resolution = self._resolve(item_id, [element])
        companion = self._element(item_id, resolution, is_module=True)
        missed = resolution.missed if resolution else ()
        self._companions[key] = Chain(elements=(companion,), missed=missed)
        return companion

    def companion_at(self, path: Path, element: ChainElement) -> ChainElement | None:
        """The verified tool item or module in this very file; None for one in no tools folder.

        The rules of spaces hold as for `companion`, and the file must be the one that its id leads
        to: not one that another hides. Raises ChainError, IntegrityError and similar.
        """
        for space in self._resolver.spaces:
            tool = path_inside(path, space.directory(Kind.TOOL))
            if tool is None:
                continue
            if not space.has_suffix(Kind.TOOL, Path(tool).suffix.lower()):
                raise companion_error(str(path), "expected a file that can be a signed tool item")
            found = self.companion(Path(tool).with_suffix("").as_posix(), element)
            if found.path is None or not found.path.samefile(path):
                raise companion_error(str(path), f"{found.item_id} is another file: {found.path}")
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

    def _build(
        self,
        item_id: str,
        elements: list[ChainElement],
        resolved: Resolution | None,
        refused: "list[RefusedElement]",
    ) -> Chain:
        missed: list[Path] = []
        warnings: list[str] = []
        current: str | None = item_id
        while current is not None:
            if len(elements) == MAX_CHAIN_DEPTH:
                raise ChainError(
                    f"Chain too deep (max {MAX_CHAIN_DEPTH}): {item_id}",
                    code="CHAIN_TOO_DEEP",
                    hint="let one of its elements name an executor nearer to a primitive",
                )
            resolution = resolved if elements == [] else None
            resolution = resolution or self._resolve(current, elements)
            try:
                element = self._element(current, resolution)
            except LilluxError as error:
                if resolution:
                    refused.append(RefusedElement(resolution, isinstance(error, IntegrityError)))
                raise
            if any(element.item_id == earlier.item_id for earlier in elements):
                ids = [one.item_id for one in (*elements, element)]
                raise ChainError(
                    f"Circular dependency: {' -> '.join(ids)}",
                    code="CIRCULAR_DEPENDENCY",
                    hint="let one of them name another executor_id, and sign it again",
                )
            elements.append(element)
            if resolution:
                missed.extend(resolution.missed)
                warnings.extend(resolution.warnings)
                warnings.extend(_unknown_keys(element))
            current = element.executor_id
        self._require_primitive(elements[-1])
        return Chain(elements=tuple(elements), missed=tuple(missed), warnings=tuple(warnings))

    def _require_primitive(self, last: ChainElement) -> None:
        """Refuse a last element that no engine runs. Raises ChainError."""
        if last.item_id in self._primitives:
            return
        if last.spec.tool_type in _READ_BY_OTHERS:
            raise ChainError(
                f"{last.item_id}: expected something to run, found a {last.spec.tool_type} file",
                code="EXECUTOR_NOT_FOUND",
                hint=f"read it with: rye load tool:{last.item_id}",
            )
        raise ChainError(
            f"Unknown primitive: {last.item_id}",
            code="EXECUTOR_NOT_FOUND",
            hint=f"known primitives: {', '.join(sorted(self._primitives))}",
        )

    def _resolve(self, item_id: str, elements: list[ChainElement]) -> Resolution | None:
        """The place of an element; None for a primitive that exists without a file."""
        if not elements:
            return self._resolver.resolve(Reference(Kind.TOOL, valid_id(item_id)))
        child = elements[-1]
        try:
            valid_id(item_id)
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

    def _element(
        self, requested_id: str, resolution: Resolution | None, *, is_module: bool = False
    ) -> ChainElement:
        if resolution is None:
            spec = tool_spec({"tool_type": PRIMITIVE_TYPE, "executor_id": None}, "")
            return ChainElement(
                item_id=requested_id, requested_id=requested_id, space=BUILT_IN_SPACE, spec=spec
            )
        location = resolution.location
        item = self._verifier.verify_location(location)
        spec = self._spec(item)
        said = {"version": spec.version, "category": spec.category}
        require_place(item, location.ref, said)
        if spec.executor_id is ABSENT and spec.tool_type != PRIMITIVE_TYPE and not is_module:
            raise _no_executor_declared(location.ref.id, str(location.path))
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
                from ryeos.items.headers import parse_header

                header = parse_header(suffix, item.text, where, file_type)
            try:
                spec = tool_spec(header, suffix)
            except SpecError as error:
                where = f"{item.target.path}: {error.where}"
                raise SpecError(where, error.problem, hint=error.hint) from None
            require_rights_read(item, has_rights=spec.sandbox is not None)
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


def require_rights_read(item: VerifiedItem, *, has_rights: bool) -> None:
    """Refuse a tool whose text seems to declare rights that are not read, whenever it was signed.

    Signing refuses it too, but did not always. Items of bundles are not examined: a bundle is
    approved as a whole. Raises ChainError with the lines.
    """
    text = item.text.lower().replace("_", "")
    seen = max(text.count("sand"), text.count("box")) + text.count("sanbdox")
    if item.target.space.tier == SYSTEM or (seen <= has_rights and text.isascii()):
        return
    from ryeos.items.declaration_search import may_have_unread_rights
    from ryeos.items.declarations import unread_rights

    if not may_have_unread_rights(item.text, has_rights=has_rights):
        return
    target = item.target
    found = [str(one) for one in unread_rights(target.suffix, item.text, target.file_type)]
    if found:
        raise ChainError(
            f"{target.path}: it seems to declare rights that are not read: {'; '.join(found)}",
            code="VALIDATION_FAILED",
            hint=f"correct the file, then: {target.sign_command}",
            path=str(target.path),
        )


def _no_executor_declared(item_id: str, path: str) -> ChainError:
    """The error of a tool that says neither what runs it nor that it is a primitive."""
    line = '__executor_id__ = "rye/core/runtimes/python/script"'
    if path.endswith(".sh"):
        line = "# executor_id: rye/core/runtimes/bash/bash"
    return ChainError(
        f"{item_id} declares no executor ({path})",
        code="CONFIG_ERROR",
        hint=f"add one, like {line}",
        path=path,
    )


def _unknown_keys(element: ChainElement) -> Iterator[str]:
    """Warnings about an item that a user here wrote; a publisher got them when it was made."""
    spec = element.spec
    is_read_closely = spec.tool_type == RUNTIME_TYPE or spec.anchor or spec.verify_deps
    if element.item and is_read_closely and tier_of(element.space) != SYSTEM:
        from ryeos.items.unknown_keys import unknown_key_warnings

        yield from unknown_key_warnings(spec, element.item.target.suffix, element.item_id)


# The execution config of a chain, merged from primitive to tool. Pure.
#
# A runtime may have variants of its config, by the suffix of the tool's file and by what the tool's
# own config says.


def merged_config(chain: Chain) -> dict[str, Any]:
    """The execution config of a chain: primitive first, the tool's own on top."""
    merged: dict[str, Any] = {}
    own = dict(chain.tool.spec.config)
    suffix = chain.tool.item.target.suffix if chain.tool.item else ""
    for element in reversed(chain.elements[1:]):
        merged |= element.spec.config
        for variant in element.spec.variants:
            if _applies(variant, suffix, merged | own):
                merged |= variant["config"]
                break
    for name in script_keys(merged):
        own.pop(name, None)
    return merged | own


def _applies(variant: Mapping[str, Any], suffix: str, config: Mapping[str, Any]) -> bool:
    """True if it is for tools with this suffix, and for what this config says."""
    suffixes, wanted = variant.get("suffixes"), variant.get("when") or {}
    if suffixes is None and not wanted:
        return False
    is_for_suffix = suffixes is None or suffix in suffixes
    return is_for_suffix and all(config.get(key) == value for key, value in wanted.items())


def script_keys(config: Mapping[str, Any]) -> tuple[str, ...]:
    """Keys where a shell runtime looks for the tool's script, in order: its ``script_from``."""
    keys = config.get("script_from") or []
    if not isinstance(keys, list):
        raise SpecError("config.script_from", f"expected a list, got {type_name(keys)}")
    return tuple(key for key in keys if isinstance(key, str))
