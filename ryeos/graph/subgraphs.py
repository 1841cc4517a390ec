"""The values that a graph takes from graphs that it calls, compared with what those give.

It is a file of its own as only validation reads other graphs.
"""

from collections.abc import Callable, Mapping

from ryeos.graph.model import ActionNode, Graph, ReturnNode
from ryeos.graph.problems import Findings, GraphProblem, shown
from ryeos.graph.template_syntax import has_marks
from ryeos.graph.validation import node_uses
from ryeos.items.refs import Kind

ReadGraph = Callable[[str], Graph | None]
"""The graph of an id; None where there is none, or where it is no graph that can be read."""

# What the result of each run of a graph says of it, beside its output and state.
_OF_A_RUN = frozenset(
    {
        *("success", "status", "steps", "graph_run_id", "terminated", "errors_suppressed"),
        *("errors", "warnings", "error", "node", "code", "path"),
    }
)


def subgraph_problems(graph: Graph, read: ReadGraph) -> tuple[GraphProblem, ...]:
    """The places that name what no run of a called graph gives."""
    findings = Findings()
    for node in graph.nodes.values():
        if isinstance(node, ActionNode) and (called := _called(node)):
            inner = read(called)
            if inner is not None:
                _note(node, called, inner, findings)
    return tuple(findings.errors)


def _called(node: ActionNode) -> str:
    """The id of the tool that a node calls and waits for here; ``""`` where only a run can tell."""
    action = node.action
    is_known = action.primary == "execute" and action.kind == Kind.TOOL.value
    if not is_known or node.is_async or node.remote is not None or has_marks(action.item_id):
        return ""
    return action.item_id.removeprefix(f"{Kind.TOOL.value}:")


def _note(node: ActionNode, called: str, inner: Graph, findings: Findings) -> None:
    keys = output_keys(inner)
    given = _OF_A_RUN | {"state"} | ({"output"} if inner.result != "state" else set())
    for use in node_uses(node):
        for reference in use.references() if "result" in use.known else ():
            if reference[0] != "result" or len(reference) == 1:
                continue
            name = reference[1]
            if name not in given:
                is_output = keys is not None and name in keys
                hint = f"did you mean result.output.{name}?" if is_output else ""
                hint = hint or findings.guess(name, given) or "its output is result.output"
                findings.error(use.path, f"a run of {called} gives no {shown(name)}", hint)
            elif name == "output" and keys is not None and len(reference) > 2:  # noqa: PLR2004 - a key of it
                key = reference[2]
                if key not in keys:
                    hint = (
                        findings.guess(key, keys) or f"it has {', '.join(sorted(keys)) or 'none'}"
                    )
                    findings.error(use.path, f"the output of {called} has no {shown(key)}", hint)


def output_keys(graph: Graph) -> frozenset[str] | None:
    """The keys that the output may have, of any return node; None where one is no mapping."""
    keys: set[str] = set()
    for node in graph.nodes.values():
        if not isinstance(node, ReturnNode) or not node.has_output:
            continue
        if not isinstance(node.output, Mapping):
            return None
        keys |= {str(key) for key in node.output}
    return frozenset(keys)
