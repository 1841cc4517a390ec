"""Kept results of nodes, by the digest of their input.

A pointer file ``cache/nodes/<digest of the input>.json`` names the result. It is no proof of
anything, so it may be lost or damaged at any time: that is a miss. See ``docs/graphs.md``.
"""

from collections.abc import Callable
from typing import Any

from lillux.errors import LilluxError
from lillux.store import Durability, Store
from lillux.values import dataclass
from ryeos.graph.run_objects import NodeInput, result_object, result_of
from ryeos.items.context import Clock, log_warning, utc_now
from ryeos.items.errors import RyeError

_NODES = "nodes"


@dataclass(frozen=True, slots=True)
class CachedResult:
    """A result, and the digest under which the store has it."""

    result: Any
    node_result_hash: str


class NodeCache:
    """The cache in a store. ``warn`` gets a line for each entry that is damaged. Thread-safe."""

    def __init__(
        self, store: Store, *, clock: Clock = utc_now, warn: Callable[[str], None] = log_warning
    ) -> None:
        self._store, self._clock, self._warn = store, clock, warn

    def get(self, given: NodeInput, *, ttl_s: float | None = None) -> CachedResult | None:
        """The result of that input; None if absent, or older than ``ttl_s``.

        Raises CanonicalJsonError for an input that is no JSON.
        """
        key = given.digest()
        try:
            return self._read(key, ttl_s)
        except LilluxError as error:
            self._warn(f"cached result of node {given.node_name!r} is not used: {error}")
            return None

    def put(self, given: NodeInput, result: object) -> str:
        """Keep a result that is no failure; its digest.

        Raises CanonicalJsonError, FileSystemError, StoreLinkError.
        """
        digest = self._store.put_object(result_object(result), Durability.UNFORCED)
        pointer = {
            "node_result_hash": digest,
            "node_name": given.node_name,
            "cached_at": self._clock().timestamp(),
        }
        self._store.write_cached(_NODES, given.digest(), pointer)
        return digest

    def _read(self, key: str, ttl_s: float | None) -> CachedResult | None:
        pointer = self._store.read_cached(_NODES, key)
        if pointer is None:
            return None
        digest, cached_at = pointer.get("node_result_hash"), pointer.get("cached_at")
        if not isinstance(digest, str) or type(cached_at) not in (int, float):
            raise RyeError(
                f"cache/nodes/{key}.json: expected node_result_hash and cached_at", code="INTEGRITY"
            )
        age_s = self._clock().timestamp() - float(str(cached_at))
        if ttl_s is not None and not 0 <= age_s < ttl_s:
            return None
        return CachedResult(result_of(self._store.get_object(digest), digest), digest)
