"""A workspace with tools for graphs to call."""

from tests.support.graph_runs import ground

__all__ = ["ground"]
