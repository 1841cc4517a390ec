"""What a node is sent as the parameters of a run, for those that fill in nothing themselves.

The public node knows no defaults of a tool's schema, and refuses a graph without ``max_steps`` and
``max_concurrency``. So what would hold here is said. Page: ``docs/remote.md``, Runs.
"""

from collections.abc import Mapping
from typing import Any

from ryeos.executor.grounds import parameters_for
from ryeos.executor.model import Chain, Request
from ryeos.executor.primitives import is_graph
from ryeos.items import SYSTEM

LIMITS = ("max_steps", "max_concurrency")


def sent_parameters(
    chain: Chain, request: Request, described: Mapping[str, Any]
) -> Mapping[str, Any]:
    """The caller's parameters of a tool, and what its schema or the configuration has beside them.

    ``described`` is what a check of the call said. A tool of a bundle gets the caller's only: a
    node runs the one of its own bundle, which may list others. Raises ParameterError.
    """
    if chain.tool.space.startswith(SYSTEM):
        return request.parameters
    if not is_graph(chain):
        return parameters_for(chain, request)
    declared = (chain.tool.spec.config_schema or {}).get("properties") or {}
    held = {name: described[name] for name in LIMITS if name in described}
    said = {name: value for name, value in held.items() if name not in declared}
    return {**said, **request.parameters}
