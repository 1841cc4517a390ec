"""The result of a run, as its caller gets it.

Pure. Shapes: ``docs/graphs.md``.
"""

from typing import Any

from lillux.values import replace
from ryeos.graph.commands import WalkOutcome
from ryeos.graph.model import Graph
from ryeos.run.outcomes import MappedResult

TIMED_OUT = "timed_out"
_CODES = {"cancelled": "CANCELLED", TIMED_OUT: "TIMEOUT"}


def timed_out(outcome: WalkOutcome, limit_s: float | None) -> WalkOutcome:
    """The outcome of a run that reached its time limit: a failure, not a cancellation."""
    if outcome.status != "cancelled":  # it was done by then
        return outcome
    error = f"the graph timed out after {limit_s or 0:g} seconds"
    return replace(outcome, status="error", error=error, code=TIMED_OUT)


def mapped(graph: Graph, outcome: WalkOutcome, run_id: str) -> MappedResult:
    """The result of a run."""
    success = outcome.status in {"completed", "completed_with_errors", "stepped"}
    data: dict[str, Any] = {"success": success}
    if outcome.status == "stepped":
        data |= {
            "state": outcome.state,
            "executed_node": outcome.node,
            "next_node": outcome.next_node,
            "step_count": outcome.steps,
        }
    else:
        data |= {"status": outcome.status, **_shape(graph, outcome), "steps": outcome.steps}
    data["graph_run_id"] = run_id
    if outcome.terminated:
        data["terminated"] = outcome.terminated
    if outcome.errors:
        data["errors_suppressed"] = len(outcome.errors)
    if outcome.errors or not success:
        data["errors"] = [*map(dict, outcome.errors), *_own_error(outcome)]
    if outcome.warnings:
        data["warnings"] = list(outcome.warnings)
    if success:
        return MappedResult(success=True, data=data, error=None, code="")
    error, code = outcome.error or outcome.status, _CODES.get(outcome.code, "EXECUTION_FAILED")
    data |= {"error": error} | ({"node": outcome.node} if outcome.node else {})
    data |= {"path": outcome.path} if outcome.path else {}
    metadata = {"hint": outcome.hint} if outcome.hint else {}
    return MappedResult(success=False, data=data, error=error, code=code, metadata=metadata)


def _shape(graph: Graph, outcome: WalkOutcome) -> dict[str, Any]:
    """The shown part of output and state: of a failure the state, else by ``config.result``."""
    if outcome.error is not None:
        return {"state": outcome.state}
    shown: dict[str, Any] = {}
    if graph.result in {"output", "both"}:
        shown["output"] = outcome.output
    if graph.result in {"state", "both"} or not outcome.has_output:
        shown["state"] = outcome.state
    return shown


def _own_error(outcome: WalkOutcome) -> list[dict[str, Any]]:
    if outcome.error is None:
        return []
    entry: dict[str, Any] = {"code": outcome.code, "message": outcome.error}
    return [entry | ({"node": outcome.node} if outcome.node else {})]
