"""The start of a run: at the first node, or where an earlier run ended.

Inputs are checked. Pure.
"""

from collections.abc import Mapping
from copy import deepcopy
from typing import Any

from lillux.canonical_json import CanonicalJsonError, require_json
from lillux.values import dataclass, replace
from ryeos.graph.errors import GraphInputError, NodeNotFoundError, not_resumable_error
from ryeos.graph.model import Graph
from ryeos.graph.options import Options
from ryeos.graph.progress import INPUTS, RETRIES, Position, retries_of
from ryeos.graph.run_objects import COMPLETED
from ryeos.items.errors import RETRY_WITH, RyeError


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedRun:
    """An earlier run, as it was last recorded.

    node        where it continues; None at an end
    graph_id, graph_hash  of the graph that it walked
    is_alive    a process works on it
    """

    run_id: str
    status: str
    state: Mapping[str, Any]
    node: str | None
    step: int
    errors: tuple[Mapping[str, Any], ...] = ()
    graph_id: str = ""
    graph_hash: str = ""
    is_alive: bool = False


def valid_graph_inputs(graph: Graph, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """The inputs with the schema's defaults. Raises GraphInputError with every problem."""
    try:
        require_json(dict(inputs))
    except CanonicalJsonError as error:
        raise GraphInputError(graph.graph_id, [str(error)]) from error
    schema = graph.config_schema
    if not schema:
        return dict(inputs)
    from lillux.schema import validate_schema, violations, with_defaults

    validate_schema(schema)
    filled = with_defaults(inputs, schema)
    given = filled if isinstance(filled, dict) else {}
    missing = [name for name in schema.get("required") or () if name not in given]
    problems = [f"missing required input: '{name}'" for name in missing]
    without = {name: value for name, value in schema.items() if name != "required"}
    problems += [str(violation) for violation in violations(filled, without)]
    if problems or not isinstance(filled, dict):
        raise GraphInputError(graph.graph_id, problems)
    return filled


def fresh_position(graph: Graph, options: Options, inputs: Mapping[str, Any]) -> Position:
    """The start, or the one node that is asked for."""
    state = {**deepcopy(dict(graph.state)), **options.inject_state, INPUTS: dict(inputs)}
    return Position(node=options.node or graph.start, state=state)


def resumed_position(
    graph: Graph, options: Options, saved: SavedRun, graph_hash: str, inputs: Mapping[str, Any]
) -> Position:
    """The position at which the saved run continues.

    Its own inputs count, unless ``override_inputs`` lays the given ones over them. Raises
    RyeError `CONFLICT`, NodeNotFoundError, GraphInputError.
    """
    if saved.graph_id and saved.graph_id != graph.graph_id:
        raise not_resumable_error(
            saved.run_id,
            f"it is a run of {saved.graph_id}, and not of {graph.graph_id}",
            hint=f"resume it with: rye graph resume {saved.run_id}",
        )
    _require_resumable(saved, options, graph_hash)
    node = options.node or saved.node or ""
    if node not in graph.nodes:
        raise NodeNotFoundError(node, list(graph.nodes))
    state = {**saved.state, **options.inject_state}
    retries = {name: n for name, n in retries_of(state).items() if name != node}
    state.pop(RETRIES, None)
    if retries:
        state[RETRIES] = retries
    if options.override_inputs:
        state[INPUTS] = valid_graph_inputs(graph, {**(state.get(INPUTS) or {}), **inputs})
    return replace(Position(node=node, state=state), step=saved.step, errors=tuple(saved.errors))


def _require_resumable(saved: SavedRun, options: Options, graph_hash: str) -> None:
    if saved.is_alive:
        raise not_resumable_error(
            saved.run_id,
            "a process is working on it",
            hint=f"wait for it (rye threads wait {saved.run_id}), or end it: rye threads kill",
        )
    if options.node:  # a step of its own, that only begins with the state of the run
        return
    if saved.status in COMPLETED:
        raise RyeError(
            f"Cannot resume {saved.run_id}: already completed ({saved.status})",
            code="CONFLICT",
            hint="run the graph again for a new run",
        )
    if saved.node is None:
        raise not_resumable_error(saved.run_id, "it does not say which node comes next")
    if saved.graph_hash != graph_hash and not options.force:
        changed = RyeError(
            f"Cannot resume {saved.run_id}: the graph has changed since:"
            f" expected {saved.graph_hash[:12]}, found {graph_hash[:12]}",
            code="CONFLICT",
            hint="resume with --force if the change fits the steps done, or start a new run",
        )
        changed.facts = {RETRY_WITH: {"force": True}}
        raise changed
