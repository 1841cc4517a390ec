"""The log of an execution: what it has found out so far, and its trace of events.

The events say what was decided, in the order of the steps. Consumers filter by ``step``:
``resolve`` and ``verify_integrity`` per element, ``resolve_env`` per element with an
``env_config``, then further steps.
"""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from time import perf_counter
from typing import Any

from lillux.env_resolver import declared_variables
from lillux.errors import LilluxError
from lillux.values import dataclass, field
from ryeos.items.refs import Location
from ryeos.run.chain import RefusedElement
from ryeos.run.model import ChainElement, ExecutionRequest, ExecutionResult


@dataclass(slots=True)
class ExecutionLog:
    """The findings of one execution so far; part of the result whatever happens.

    refused   what was found and is no element
    further   trace events that come after those of the chain and the environment
    """

    elements: list[ChainElement] = field(default_factory=list)
    refused: list[RefusedElement] = field(default_factory=list)
    trace: list[dict[str, Any]] = field(default_factory=list)
    further: list[dict[str, Any]] = field(default_factory=list)
    metadata: dict[str, Any] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)

    def add(self, other: "ExecutionLog") -> None:
        """Add the entries of another log."""
        self.elements.extend(other.elements)
        self.refused.extend(other.refused)
        self.trace.extend(map(dict, other.trace))
        self.further.extend(map(dict, other.further))
        self.metadata |= other.metadata
        self.warnings.extend(other.warnings)

    def clear(self) -> None:
        """Remove everything."""
        for found in (self.elements, self.refused, self.trace, self.further, self.warnings):
            found.clear()
        self.metadata.clear()


def run_logged(
    request: ExecutionRequest, run: Callable[[ExecutionLog], ExecutionResult]
) -> ExecutionResult:
    """The result of an execution, with everything that its log has; errors become a result."""
    started = perf_counter()
    log = ExecutionLog()
    try:
        result = run(log)
    except LilluxError as error:
        log.metadata["error_code"] = error.code
        result = ExecutionResult(success=False, error=str(error), failure=error)
    result.chain = [element.describe() for element in log.elements]
    if request.trace:
        result.trace = [*chain_events(log.elements, log.refused), *log.trace, *log.further]
    log.warnings.extend(result.metadata.pop("warnings", ()))
    result.metadata = log.metadata | result.metadata
    unverified = [e.item_id for e in log.elements if e.item and not e.item.verified]
    if unverified:
        result.metadata["unverified"] = unverified
    if log.warnings:
        result.metadata["warnings"] = list(dict.fromkeys(log.warnings))
    result.duration_ms = (perf_counter() - started) * 1000
    return result


def chain_events(
    elements: Sequence[ChainElement], refused: Sequence[RefusedElement] = ()
) -> Iterator[dict[str, Any]]:
    """Events: which file each element is, what it hides, who signed it; last what was refused."""
    for element in elements:
        yield _resolve_event(element.item_id, element.path, element.space, element.shadowed)
    for one in refused:
        found = one.resolution.location
        yield _resolve_event(found.ref.id, found.path, found.space.label, one.resolution.shadowed)
    for element in elements:
        if element.item:
            key = element.item.key
            fingerprint = key.fingerprint if key else None
            yield _verify_event(element.item_id, fingerprint, verified=element.item.verified)
    for one in refused:
        if one.is_unverified:
            yield _verify_event(one.resolution.location.ref.id, None, verified=False)


def _resolve_event(
    item_id: str, path: Path | None, space: str, shadowed: Sequence[Location]
) -> dict[str, Any]:
    return {
        "step": "resolve",
        "item_id": item_id,
        "path": str(path) if path else None,
        "space": space,
        "shadowed": [{"path": str(one.path), "space": one.space.label} for one in shadowed],
    }


def _verify_event(item_id: str, fingerprint: str | None, *, verified: bool) -> dict[str, Any]:
    return {
        "step": "verify_integrity",
        "item_id": item_id,
        "verified": verified,
        "key_fp": fingerprint,
    }


def env_events(elements: Sequence[ChainElement]) -> Iterator[dict[str, Any]]:
    """Events: which variables each element sets in the environment, primitive first."""
    for element in reversed(elements):
        if element.spec.env_config:
            yield {
                "step": "resolve_env",
                "contributed_by": element.item_id,
                "keys": list(declared_variables(element.spec.env_config)),
            }
