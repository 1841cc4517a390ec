"""How far a run is with each node, from what was written down of it."""

from collections.abc import Mapping

from ryeos.graph.picture import NodeState
from ryeos.graph.run_place import run_place
from ryeos.graph.run_reading import load_run
from ryeos.graph_runs.recording import RecordedWorkspace, key_lookup

_STARTED, _COMPLETED = "step_started", "step_completed"
_LEFT: Mapping[str, NodeState] = {
    "error": NodeState.ERROR,
    "killed": NodeState.CANCELLED,
    "cancelled": NodeState.CANCELLED,
}


def node_states(workspace: RecordedWorkspace, run_id: str, status: str) -> dict[str, NodeState]:
    """The state of each node that the run has come to; ``status`` is that of its thread.

    Raises as `ryeos.graph.run_reading.load_run`.
    """
    place = run_place(workspace.context.spaces)
    loaded = load_run(place, run_id, key_lookup(workspace, place))
    states: dict[str, NodeState] = {}
    for event in loaded.events:
        node = event.payload.get("node")
        if not isinstance(node, str):
            continue
        if event.event_type == _STARTED:
            states[node] = NodeState.RUNNING
        elif event.event_type == _COMPLETED:
            states[node] = _ended(event.payload)
    left = _LEFT.get(status, NodeState.RUNNING)  # what has become of a node that was begun
    return {node: left if state is NodeState.RUNNING else state for node, state in states.items()}


def _ended(payload: Mapping[str, object]) -> NodeState:
    return NodeState.ERROR if payload.get("status") == "error" else NodeState.COMPLETED
