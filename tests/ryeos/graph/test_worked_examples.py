"""The three examples of the documentation, walked, with their exact results."""

from typing import Any

import pytest

from ryeos.graph.commands import Act
from ryeos.graph.errors import GraphInputError
from ryeos.graph.progress import Position
from ryeos.graph.run_start import valid_graph_inputs
from tests.support.graph_walks import Walked, always, bad, graph_of, ok, walked

ROUTE = """
config_schema:
  type: object
  required: [a, b]
  properties: {a: {type: integer}, b: {type: integer}, limit: {type: integer, default: 10}}
config:
  start: add
  max_steps: 6
  max_concurrency: 4
  state: {label: unset}
  nodes:
    add:
      action: {item_id: "tool:demo/add", params: {a: "${inputs.a}", b: "${inputs.b}"}}
      assign: {total: "${result.sum}"}
      next: route
    route:
      type: gate
      assign: {cutoff: "${inputs.limit}"}
      next: [{to: big, when: {path: state.total, op: gte, value: 10}}, {to: small}]
    big: {type: gate, assign: {label: big}, next: done}
    small: {type: gate, assign: {label: small}, next: done}
    done:
      type: return
      output:
        label: "${state.label}"
        total: "${state.total}"
        note: "sum=${state.total}/${state.cutoff}"
"""
FAN = """
config:
  start: fan
  max_steps: 9
  max_concurrency: 2
  on_error: continue
  nodes:
    fan:
      type: foreach
      over: "${inputs.nums}"
      as: n
      parallel: true
      collect: squares
      action: {item_id: "tool:demo/square", params: {n: "${n}"}}
      next: risky
    risky:
      action: {item_id: "tool:demo/square", params: {n: -7}}
      assign: {never: "${result.sq}"}
      on_error: patch
      next: soft
    patch: {type: gate, assign: {why: "${state._last_error.error}"}, next: soft}
    soft:
      action: {item_id: "tool:demo/square", params: {n: -1}}
      assign: {never2: "${result.sq}"}
      next: done
    done:
      type: return
      output:
        {first: "${state.squares.0.sq}", count: "${state.squares | length}", why: "${state.why}"}
"""
RETRY = """
config:
  start: prep
  max_steps: 10
  hooks:
    - event: error
      condition: {path: error.error, op: contains, value: missing}
      action: {retry: true, max_retries: 2}
  nodes:
    prep:
      action: {item_id: "tool:demo/add", params: {a: "${inputs.base}", b: 1}}
      assign: {seed: "${result.sum}"}
      next: work
    work:
      action: {item_id: "tool:demo/needs_flag", params: {seed: "${state.seed}"}}
      assign: {ok: "${result.success}"}
      next: end
    end: {type: return, output: {seed: "${state.seed}", ok: "${state.ok}", base: "${inputs.base}"}}
"""


def demo(act: Act) -> dict[str, Any]:
    """The answers of the tools of the examples, the flag missing."""
    if act.item_id == "demo/add":
        return ok(sum=act.params["a"] + act.params["b"])
    if act.item_id == "demo/square":
        n = act.params["n"]
        return ok(sq=n * n) if n >= 0 else bad(f"negative: {n}")
    return bad("flag missing")


def routed(**inputs: object) -> Walked:
    graph = graph_of(ROUTE)
    return walked(graph, demo, max_steps=6, inputs=valid_graph_inputs(graph, inputs))


@pytest.mark.parametrize(
    ("b", "output"),
    [
        (5, {"label": "big", "total": 12, "note": "sum=12/10"}),
        (-4, {"label": "small", "total": 3, "note": "sum=3/10"}),
    ],
)
def test_a_gate_routes_and_the_output_keeps_its_types(b: int, output: dict[str, Any]) -> None:
    end = routed(a=7, b=b).outcome

    assert (end.status, end.steps, end.output) == ("completed", 4, output)


def test_the_example_takes_no_input_that_is_missing_or_of_a_wrong_type() -> None:
    with pytest.raises(GraphInputError) as missing:
        routed(a=1)
    with pytest.raises(GraphInputError) as wrong:
        routed(a="7", b=5)

    assert str(missing.value) == "Input validation failed: missing required input: 'b'"
    assert wrong.value.details == ('/a: expected integer, found string "7"',)


def test_the_example_needs_four_steps() -> None:
    end = walked(graph_of(ROUTE), demo, max_steps=3, inputs={"a": 7, "b": 5, "limit": 10}).outcome

    assert (end.status, end.error) == ("error", "Max steps exceeded (3)")
    assert (end.code, end.next_node) == ("max_steps_exceeded", "done")


def test_a_fan_out_with_an_error_edge_and_an_ignored_error() -> None:
    done = walked(graph_of(FAN), demo, inputs={"nums": [3, -2, 4]})

    end = done.outcome
    assert done.path == ["fan", "risky", "patch", "soft", "done"]
    assert (end.status, end.steps) == ("completed_with_errors", 5)
    assert end.output == {"first": 9, "count": 3, "why": "negative: -7"}
    assert list(end.errors) == [
        {"step": 1, "node": "fan", "index": 1, "error": "negative: -2"},
        {"step": 4, "node": "soft", "error": "negative: -1"},
    ]
    assert done.state == {
        "squares": [
            {"success": True, "sq": 9},
            {"success": False, "error": "negative: -2", "status": "error"},
            {"success": True, "sq": 16},
        ],
        "why": "negative: -7",
        "_last_error": {"node": "soft", "error": "negative: -1"},
    }


def test_the_fan_takes_a_list_that_is_written_as_json() -> None:
    end = walked(graph_of(FAN), demo, inputs={"nums": "[5]"}).outcome

    assert end.output == {"first": 25, "count": 1, "why": "negative: -7"}


def test_a_hook_has_a_node_tried_again_until_its_limit() -> None:
    done = walked(graph_of(RETRY), demo, inputs={"base": 4})

    end = done.outcome
    assert [act.item_id for act in done.acts] == ["demo/add", *["demo/needs_flag"] * 3]
    assert (end.status, end.error, end.node) == ("error", "flag missing", "work")
    assert (end.code, end.steps, end.next_node) == ("node_error", 2, "work")
    assert end.state == {
        "inputs": {"base": 4},
        "seed": 5,
        "_retries": {"work": 2},
        "_last_error": {"node": "work", "error": "flag missing"},
    }


def test_a_run_that_failed_goes_on_where_it_failed() -> None:
    state = {"inputs": {"base": 4}, "seed": 5}
    position = Position(node="work", state=state, step=2)

    done = walked(graph_of(RETRY), always(ok()), position=position, is_resumed=True)

    assert done.path == ["work", "end"]
    assert done.outcome.output == {"seed": 5, "ok": True, "base": 4}
    assert done.outcome.steps == 4


def test_without_a_capability_no_tool_is_called() -> None:
    done = walked(graph_of(RETRY), demo, inputs={"base": 4}, grants=((),))

    assert done.acts == []
    assert done.outcome.error == "Permission denied: no capabilities"
