"""Walks of any graph, with any answers: they end in an outcome, and can be resumed."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from ryeos.graph.call_results import unwrapped
from ryeos.graph.commands import Act, CallResult, NodeDone
from ryeos.graph.model import Graph
from ryeos.graph.progress import Position
from tests.support.graph_walks import CANCELLED, Walked, always, graph_of, walked

NAMES = ["a", "b", "c", "d", "e"]
KEYS = ["x", "y", "item"]
ENDS = {"completed", "completed_with_errors", "error", "cancelled"}

names = st.sampled_from(NAMES)
keys = st.sampled_from(KEYS)
scalars = st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=5)
json_values = st.recursive(
    scalars | st.floats(),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3)
    ),
    max_leaves=6,
)
templates = st.sampled_from(
    [
        "${state.x}",
        "${state.y}",
        "${result.n}",
        "${inputs.i}",
        "n=${state.x}",
        "${state.x | length}",
        "${state.x | from_json}",
        "${state.y | float}",
        "${state}",
        "${result}",
    ]
) | scalars.map(lambda value: value if not isinstance(value, str) else "text")
operators = st.sampled_from(["eq", "ne", "gt", "lt", "in", "contains", "regex", "exists", "empty"])
conditions = st.builds(
    lambda path, op, value: {"path": path, "op": op, "value": value},
    st.sampled_from(["state.x", "state.y", "result.n", "inputs.i"]),
    operators,
    st.sampled_from([1, "a", "a(b)?", "${state.x}", "${state.x | from_json}", None]),
).filter(lambda made: made["op"] != "regex" or isinstance(made["value"], str))
edges = st.lists(
    st.builds(
        lambda to, when: {"to": to, "when": when} if when else {"to": to},
        names,
        st.none() | conditions,
    ),
    min_size=1,
    max_size=3,
)
nexts = st.none() | names | edges
assigns = st.dictionaries(st.sampled_from(["x", "y"]), templates, max_size=2)
items = st.sampled_from(["tool:demo/one", "tool:demo/${state.x}", "tool:other/no", "${state.y}"])


def kept(**values: Any) -> dict[str, Any]:  # noqa: ANN401 - of a graph file
    return {name: value for name, value in values.items() if value is not None}


gates = st.builds(lambda to, a: kept(type="gate", next=to, assign=a), nexts, assigns)
retries = st.none() | st.builds(lambda n: {"max": n, "delay": 0.1}, st.integers(1, 3))
actions = st.builds(
    lambda item, params, to, a, on_error, retry: kept(
        action={"item_id": item, "params": params},
        next=to,
        assign=a,
        on_error=on_error,
        retry=retry,
    ),
    items,
    st.dictionaries(keys, templates, max_size=2),
    nexts,
    assigns,
    st.none() | names,
    retries,
)
foreachs = st.builds(
    lambda item, over, to, on_error, retry, flags: kept(
        type="foreach",
        action={"item_id": item, "params": {"n": "${item}"}},
        over=over,
        next=to,
        on_error=on_error,
        retry=retry,
        parallel=flags[0],
        fail_fast=flags[1],
        collect="x" if flags[2] else None,
    ),
    items,
    st.sampled_from(["${state.x}", "${inputs.i}", [1, 2], "${state.x | from_json}"]),
    nexts,
    st.none() | names,
    retries,
    st.tuples(st.booleans(), st.booleans(), st.booleans()),
)
returns = st.builds(lambda output: kept(type="return", output=output), st.none() | templates)
any_node = gates | actions | foreachs | returns
hooks = st.builds(
    lambda event, action, condition: kept(event=event, action=action, condition=condition),
    st.sampled_from(["graph_started", "error", "after_step", "limit", "graph_completed"]),
    st.sampled_from(["retry", "fail", "abort", "continue", "skip"])
    | items.map(lambda item: {"item_id": item}),
    st.none() | conditions,
)


def graphs(node: st.SearchStrategy[dict[str, Any]]) -> st.SearchStrategy[Graph]:
    """Graphs of five nodes of these kinds, allowed to call the items in ``demo``."""
    return st.builds(
        lambda made, start, listed, on_error, state: graph_of(
            {
                "permissions": ["rye.execute.tool.demo.*"],
                "config": {
                    "start": start,
                    "nodes": dict(zip(NAMES, made, strict=True)),
                    "hooks": listed,
                    "on_error": on_error,
                    "state": state,
                },
            }
        ),
        st.tuples(*[node] * len(NAMES)),
        names,
        st.lists(hooks, max_size=3),
        st.sampled_from(["fail", "continue"]),
        st.dictionaries(st.sampled_from(["x", "y"]), scalars),
    )


answers = json_values | st.builds(
    lambda success, values: {"success": success, **values},
    st.booleans(),
    st.dictionaries(st.sampled_from(["n", "error", "thread_id", "action"]), json_values),
)
replies = answers.map(lambda data: CallResult(result=unwrapped({"data": data}))) | st.just(
    CANCELLED
)


@given(graph=graphs(gates), most=st.integers(1, 40))
def test_any_graph_of_gates_ends_within_its_steps(graph: Graph, most: int) -> None:
    done = walked(graph, max_steps=most)

    assert done.outcome.status in ENDS
    assert done.outcome.steps == len(done.lefts) <= most


@given(graph=graphs(any_node), said=st.lists(replies, min_size=1, max_size=30), data=st.data())
def test_any_answers_end_in_an_outcome(
    graph: Graph, said: list[CallResult], data: st.DataObject
) -> None:
    left = list(said)
    goes_on = data.draw(st.lists(st.booleans(), max_size=6))

    def answer(_: Act) -> CallResult:
        return left.pop(0) if len(left) > 1 else left[0]

    outcome = walked(
        graph, answer, max_steps=12, inputs={"i": [1, {"n": 2}]}, pauses=iter(goes_on)
    ).outcome

    assert outcome.status in ENDS
    assert (outcome.error is None) == outcome.status.startswith("completed")
    assert outcome.next_node is None or outcome.next_node in graph.nodes


@given(graph=graphs(any_node), data=answers, place=st.integers(0, 11))
def test_a_resumed_walk_ends_as_an_uninterrupted_one(
    graph: Graph, data: object, place: int
) -> None:
    whole = walked(graph, always(data), max_steps=12, grants=[["rye.execute.tool.demo.*"]])
    goings = [left for left in whole.lefts if left.next_node and left.error is None]
    if not goings or any(hook.event == "after_step" for hook in graph.hooks):
        return  # (a hook that ends the run behind a step does so once)
    left = goings[place % len(goings)]

    rest = _resumed(graph, left, data, 12 - left.step)

    assert (rest.outcome.status, rest.outcome.steps) == (whole.outcome.status, whole.outcome.steps)
    assert rest.outcome.state == whole.outcome.state
    assert rest.outcome.output == whole.outcome.output
    assert rest.outcome.errors == whole.outcome.errors
    assert rest.path == whole.path[-len(rest.path) :] if rest.path else True


def _resumed(graph: Graph, left: NodeDone, data: object, most: int) -> Walked:
    position = Position(
        node=left.next_node or "", state=left.state, step=left.step, errors=left.errors
    )
    return walked(
        graph,
        always(data),
        position=position,
        is_resumed=True,
        max_steps=most,
        grants=[["rye.execute.tool.demo.*"]],
    )
