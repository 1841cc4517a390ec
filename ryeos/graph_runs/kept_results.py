"""Results of calls that are used again. See `ryeos.graph.runner.Keeping`."""

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any

from ryeos.graph.commands import Act
from ryeos.graph.node_cache import NodeCache
from ryeos.graph.records import NodeInput


class KeptResults:
    """The kept results of one graph. ``behaviour`` digests what else may decide a result."""

    def __init__(
        self, cache: NodeCache, graph_id: str, graph_hash: str, behaviour: Callable[[], str]
    ) -> None:
        self._cache, self._graph_id, self._graph_hash = cache, graph_id, graph_hash
        self._make_behaviour = behaviour

    def find(self, act: Act, integrity: str) -> Mapping[str, Any] | None:
        """The kept result of the same call, None without one."""
        found = self._cache.get(self._input(act, integrity), ttl_s=act.cache_ttl_s)
        return found.result if found and isinstance(found.result, dict) else None

    def keep(self, act: Act, integrity: str, result: Mapping[str, Any]) -> None:
        """Keep a result that is no error. Raises FileSystemError and its kin."""
        self._cache.put(self._input(act, integrity), result)

    @cached_property
    def _behaviour(self) -> str:
        return self._make_behaviour()

    def _input(self, act: Act, integrity: str) -> NodeInput:
        return NodeInput(
            graph_id=self._graph_id,
            graph_hash=self._graph_hash,
            node_name=act.node,
            interpolated_action=act.described(),
            config_snapshot_hash=self._behaviour,
            chain=(integrity,),
        )
