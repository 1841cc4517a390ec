"""Where a run begins: at the start with checked inputs, or where an earlier one ended. Pure."""

from collections.abc import Mapping
from copy import deepcopy
from typing import Any

from lillux.digests import CanonicalJsonError, require_json
from lillux.values import dataclass, replace
from ryeos.graph.errors import GraphInputError, NodeNotFoundError, RunNotResumableError
from ryeos.graph.model import Graph
from ryeos.graph.options import Options
from ryeos.graph.progress import INPUTS, RETRIES, Position, retries_of
from ryeos.graph.records import COMPLETED
from ryeos.graph.run_errors import GraphChangedError, RunCompletedError


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedRun:
    """An earlier run, as it was written down last.

    node        where it goes on; None at an end
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


def checked_inputs(graph: Graph, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """The inputs with the schema's defaults. Raises GraphInputError with every problem."""
    try:
        require_json(dict(inputs))
    except CanonicalJsonError as error:
        raise GraphInputError(graph.graph_id, [str(error)]) from error
    schema = graph.config_schema
    if not schema:
        return dict(inputs)
    from lillux.schema import check_schema, violations, with_defaults

    check_schema(schema)
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
    """Where the saved run goes on.

    Its own inputs count, unless ``override_inputs`` lays the given ones over them. Raises
    RunNotResumableError, RunCompletedError, GraphChangedError, NodeNotFoundError, GraphInputError.
    """
    if saved.graph_id and saved.graph_id != graph.graph_id:
        raise RunNotResumableError(
            saved.run_id,
            f"it is a run of {saved.graph_id}, and not of {graph.graph_id}",
            hint=f"go on with it by: rye graph resume {saved.run_id}",
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
        state[INPUTS] = checked_inputs(graph, {**(state.get(INPUTS) or {}), **inputs})
    return replace(Position(node=node, state=state), step=saved.step, errors=tuple(saved.errors))


def _require_resumable(saved: SavedRun, options: Options, graph_hash: str) -> None:
    if saved.is_alive:
        raise RunNotResumableError(
            saved.run_id,
            "a process is working on it",
            hint=f"wait for it (rye threads wait {saved.run_id}), or end it: rye threads kill",
        )
    if options.node:  # a step of its own, that only begins with the state of the run
        return
    if saved.status in COMPLETED:
        raise RunCompletedError(saved.run_id, saved.status)
    if saved.node is None:
        raise RunNotResumableError(saved.run_id, "it does not say which node comes next")
    if saved.graph_hash != graph_hash and not options.force:
        raise GraphChangedError(saved.run_id, saved.graph_hash, graph_hash)
