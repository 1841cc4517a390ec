"""The event log of an execution: what was decided, in the order of the steps. Pure.

``resolve`` per element, then ``verify_integrity`` per element, then ``resolve_env`` per element
that has an ``env_config``; further steps follow. Consumers filter by ``step``.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from ryeos.executor.model import ChainElement


def chain_events(elements: Sequence[ChainElement]) -> Iterator[dict[str, Any]]:
    """Which file each element is, what it hides, and who signed it."""
    for element in elements:
        yield {
            "step": "resolve",
            "item_id": element.item_id,
            "path": str(element.path) if element.path else None,
            "space": element.space,
            "shadowed": [
                {"path": str(location.path), "space": location.space.label}
                for location in element.shadowed
            ],
        }
    for element in elements:
        if element.item:
            key = element.item.key
            yield {
                "step": "verify_integrity",
                "item_id": element.item_id,
                "verified": element.item.verified,
                "key_fp": key.fingerprint if key else None,
            }


def env_events(elements: Sequence[ChainElement]) -> Iterator[dict[str, Any]]:
    """Which elements shaped the environment, primitive first."""
    for element in reversed(elements):
        if element.spec.env_config:
            yield {
                "step": "resolve_env",
                "contributed_by": element.item_id,
                "keys": list(element.spec.env_config),
            }
