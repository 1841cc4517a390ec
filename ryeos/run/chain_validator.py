"""The rules between neighbours of a chain: spaces, inputs and outputs, versions. Pure.

Every adjacent pair (child, parent) is checked, all violations are reported at once.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

from lillux.values import dataclass
from ryeos.items.refs import SYSTEM, rank_of, tier_of
from ryeos.items.specs import type_name
from ryeos.run.model import ChainElement

_RULES = {
    "project": "project, user and system",
    "user": "user and system",
    "system": "system only",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainValidationResult:
    """The verdict on a chain. ``validated_pairs`` counts the neighbours that were looked at."""

    valid: bool = True
    issues: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    validated_pairs: int = 0


class ChainValidator:
    """Applies the rules to a chain; keeps no state."""

    def validate_chain(self, links: Sequence[ChainElement]) -> ChainValidationResult:
        """All violations of a chain ``[tool, runtime, ..., primitive]``."""
        issues: list[str] = []
        warnings: list[str] = []
        for child, parent in pairwise(links):
            issues.extend(space_issues(child, parent))
            issues.extend(io_issues(child, parent))
            for finding in version_findings(child, parent):
                (issues if finding.violates else warnings).append(finding.text)
        issues.extend(delegation_issues(links))
        return ChainValidationResult(
            valid=not issues,
            issues=tuple(issues),
            warnings=tuple(warnings),
            validated_pairs=max(0, len(links) - 1),
        )


def space_issues(child: ChainElement, parent: ChainElement) -> Iterator[str]:
    """A child depends on its own tier and those below: project 3, user 2, system 1."""
    for link in (child, parent):
        if not rank_of(link.space):
            yield f"Invalid space {link.space!r} of {link.item_id}"
    if 0 < rank_of(child.space) < rank_of(parent.space):
        yield (
            f"{tier_of(child.space)} tool {child.item_id} depends on {tier_of(parent.space)}"
            f" runtime {parent.item_id} ({child.space} items may use"
            f" {_RULES[tier_of(child.space)]})"
        )


def io_issues(child: ChainElement, parent: ChainElement) -> Iterator[str]:
    """If both declare, what the parent takes must be among what the child gives."""
    takes, gives = parent.spec.inputs, child.spec.outputs
    if takes is None or gives is None:
        return
    missing = sorted(set(takes) - set(gives))
    if missing:
        yield (
            f"I/O mismatch: {parent.item_id} needs {', '.join(missing)},"
            f" {child.item_id} gives {', '.join(sorted(gives)) or 'nothing'}"
        )


def delegation_issues(links: Sequence[ChainElement]) -> Iterator[str]:
    """A system item must never hand over to a file that its user can change."""
    for child, parent in pairwise(links):
        if tier_of(child.space) == SYSTEM and tier_of(parent.space) != SYSTEM:
            yield (
                f"Invalid chain: system item {child.item_id} delegates to"
                f" {parent.space} item {parent.item_id}"
            )


@dataclass(frozen=True, slots=True)
class VersionFinding:
    """A version rule that is broken, or that could not be applied."""

    text: str
    violates: bool


def version_findings(child: ChainElement, parent: ChainElement) -> Iterator[VersionFinding]:
    """Findings about ``child_constraints`` of the parent, compared as PEP 440 versions.

    Forms: ``{id: {min_version, max_version}}``, ``{"*": {...}}``, or the two keys alone.
    """
    constraints = parent.spec.child_constraints
    flat = {"min_version", "max_version"} & constraints.keys()
    wanted = constraints if flat else constraints.get(child.item_id, constraints.get("*"))
    if wanted is None:
        return
    if not isinstance(wanted, Mapping):
        yield VersionFinding(
            f"{parent.item_id}: child_constraints of {child.item_id}: expected a mapping with"
            f" min_version and max_version, got {type_name(wanted)}",
            violates=True,
        )
        return
    if not {"min_version", "max_version"} & wanted.keys():
        return
    if child.spec.version is None:
        yield VersionFinding(
            f"{child.item_id} has no version but {parent.item_id} specifies version constraints",
            violates=False,
        )
        return
    yield from _bounds(child.item_id, child.spec.version, wanted)


def _bounds(child_id: str, version: str, wanted: Mapping[str, Any]) -> Iterator[VersionFinding]:
    from ryeos.items.version_order import parse_version

    try:
        found = parse_version(version)
        least = parse_version(str(wanted["min_version"])) if "min_version" in wanted else None
        most = parse_version(str(wanted["max_version"])) if "max_version" in wanted else None
    except ValueError as error:
        yield VersionFinding(f"{child_id}: version constraint not checked: {error}", violates=False)
        return
    failed = f"Version constraint failed: {child_id} has version {version}"
    if least and found < least:
        yield VersionFinding(f"{failed}, minimum required {least}", violates=True)
    if most and found > most:
        yield VersionFinding(f"{failed}, maximum allowed {most}", violates=True)
