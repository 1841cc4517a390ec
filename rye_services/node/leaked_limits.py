"""Limits of graphs that public clients send along with the parameters of every tool.

They read ``max_steps`` and ``max_concurrency`` from their ``execution.yaml``, so nobody asked for
them: a tool that takes nothing but what it lists would refuse every such call (ADR 0107).
"""

from collections.abc import Mapping
from typing import Any

from ryeos.run.model import Chain
from ryeos.run.primitives import is_graph

LEAKED = ("max_steps", "max_concurrency")


def without_leaked_limits(
    parameters: Mapping[str, Any], chain: Chain
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """The parameters without those limits that the tool would refuse, and their names. Pure.

    Nothing is left out for a graph, which has them, nor for a tool that lists them or that takes
    what it does not list.
    """
    schema = chain.tool.spec.config_schema or {}
    is_open = schema.get("additionalProperties", True) is not False
    if is_open or is_graph(chain):
        return dict(parameters), ()
    listed = schema.get("properties") or {}
    leaked = tuple(name for name in LEAKED if name in parameters and name not in listed)
    return {name: value for name, value in parameters.items() if name not in leaked}, leaked
