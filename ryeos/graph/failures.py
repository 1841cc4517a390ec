"""Failures of calls: what a hook, a node and the graph make of them.

What a failed call leads to. Pure; the order is that of ``docs/graphs.md``.

(1) what a hook says: retry, while there are retries left; fail, abort, continue, skip
(2) the node's ``on_error``
(3) the graph's ``on_error: continue``, and a foreach with ``collect_errors``
(4) the run fails
"""

from collections.abc import Mapping
from enum import Enum
from typing import Any

from lillux.values import dataclass
from ryeos.graph.model import ForeachNode, Graph, GraphNode, ReturnNode, error_target
from ryeos.graph.nodes import MAX_RETRIES

DEFAULT_RETRIES = 3


class FailureAction(Enum):
    """The action after a failure.

    AGAIN     the node is worked on once more
    ON_ERROR  the run continues at the node's ``on_error``
    CONTINUE  it is tolerated, noted, and the run continues at ``next``
    SKIP      the same, but nothing is noted
    FAIL, ABORT  the run ends
    """

    AGAIN = "again"
    ON_ERROR = "on_error"
    CONTINUE = "continue"
    SKIP = "skip"
    FAIL = "fail"
    ABORT = "abort"


@dataclass(frozen=True, slots=True)
class Control:
    """The control that a hook asks for."""

    action: str
    max_retries: int = DEFAULT_RETRIES
    error: str = ""


_SAID = {
    "fail": FailureAction.FAIL,
    "abort": FailureAction.ABORT,
    "continue": FailureAction.CONTINUE,
    "skip": FailureAction.SKIP,
}


def control_of(values: Mapping[str, Any]) -> Control:
    """The control in a hook's answer, whatever that is; without an action it does nothing."""
    most, error = values.get("max_retries"), values.get("error")
    if not isinstance(most, int) or isinstance(most, bool):
        most = DEFAULT_RETRIES
    return Control(
        action=str(values.get("action", "")),
        max_retries=min(most, MAX_RETRIES),
        error=error if isinstance(error, str) else "",
    )


def after_failure(
    node: GraphNode,
    graph: Graph,
    control: Control | None,
    retries: int,
    *,
    is_of_elements: bool,
) -> FailureAction:
    """The action after a failure, ``retries`` having been made of this node by now.

    ``is_of_elements`` tells the calls of a foreach, which it puts up with, from the node's own
    failures: those of ``over``, of its variables, of its edges.
    """
    if control and control.action == "retry" and retries < control.max_retries:
        return FailureAction.AGAIN
    if control and control.action in _SAID:
        return _SAID[control.action]
    if isinstance(node, ReturnNode):
        return FailureAction.FAIL
    if error_target(node):
        return FailureAction.ON_ERROR
    puts_up = is_of_elements and isinstance(node, ForeachNode) and node.collect_errors
    return FailureAction.CONTINUE if puts_up or graph.on_error == "continue" else FailureAction.FAIL
