"""Graph files to values: their meaning, and all their problems at once."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ryeos.graph.conditions import Comparison
from ryeos.graph.model import (
    Action,
    ActionNode,
    Edge,
    ForeachNode,
    GateNode,
    Graph,
    Hook,
    NodeRetry,
    ReturnNode,
)
from ryeos.graph.problems import MAX_PROBLEMS, GraphProblem
from ryeos.graph.reading import MAX_NODES, read_graph
from ryeos.items.header_values import MetadataError
from ryeos.items.yaml import parse_yaml

PERMITTED = {"permissions": ["rye.execute.tool.demo.*"]}
DONE = {"type": "return", "output": {}}


def with_nodes(nodes: dict[str, Any], start: str = "a", **config: Any) -> dict[str, Any]:  # noqa: ANN401 - JSON
    return {**PERMITTED, "config": {"start": start, "nodes": nodes, **config}}


def one_node(node: dict[str, Any], **config: Any) -> dict[str, Any]:  # noqa: ANN401 - JSON
    return with_nodes({"a": node, "done": DONE}, **config)


def calling(**more: object) -> dict[str, Any]:
    return one_node({"action": {"item_id": "tool:demo/add"}, "next": "done", **more})


def errors(data: dict[str, Any]) -> list[str]:
    return [str(problem) for problem in read_graph(data, "demo/x").errors]


def warnings(data: dict[str, Any]) -> list[str]:
    return [str(problem) for problem in read_graph(data, "demo/x").warnings]


def graph_of(data: dict[str, Any]) -> Graph:
    reading = read_graph(data, "demo/x")
    assert reading.errors == ()
    assert reading.graph is not None
    return reading.graph


def action_of(data: dict[str, Any]) -> Action:
    node = graph_of(one_node({"action": data, "next": "done"})).nodes["a"]
    assert isinstance(node, ActionNode)
    return node.action


def test_a_whole_graph_becomes_a_value() -> None:
    graph = graph_of(
        {
            "description": "Adds",
            "permissions": ["rye.execute.tool.demo.*"],
            "limits": {"depth": 3, "cost": 1.5},
            "env_requires": "HOME",
            "config_schema": {"type": "object"},
            "config": {
                "start": "add",
                "max_steps": 9,
                "max_concurrency": 2,
                "on_error": "continue",
                "timeout": 60,
                "result": "both",
                "state": {"label": "unset"},
                "hooks": [{"event": "error", "action": {"retry": True, "max_retries": 2}}],
                "nodes": {
                    "add": {
                        "action": {"item_id": "tool:demo/add", "params": {"a": 1}},
                        "assign": {"total": "${result.sum}"},
                        "retry": {"max": 2, "backoff": "exponential", "delay": 0.5},
                        "on_error": "gate",
                        "cache": True,
                        "cache_ttl": 10,
                        "remote": "gpu",
                        "timeout": 5,
                        "async": True,
                        "next": [{"to": "each", "when": {"path": "state.total"}}, {"to": "gate"}],
                    },
                    "gate": {"type": "gate", "assign": {"label": "x"}, "next": "done"},
                    "each": {
                        "type": "foreach",
                        "over": [1, 2],
                        "collect_as": "all",
                        "parallel": True,
                        "fail_fast": True,
                        "action": {"item_id": "tool:demo/add"},
                    },
                    "done": {"type": "return"},
                },
            },
        }
    )

    add = Action(primary="execute", item_id="tool:demo/add", kind="tool")
    assert graph == Graph(
        graph_id="demo/x",
        description="Adds",
        permissions=("rye.execute.tool.demo.*",),
        limits={"cost": 1.5, "depth": 3},
        env_requires=("HOME",),
        config_schema={"type": "object"},
        start="add",
        max_steps=9,
        max_concurrency=2,
        on_error="continue",
        timeout_s=60.0,
        result="both",
        state={"label": "unset"},
        hooks=(Hook(event="error", control={"action": "retry", "max_retries": 2}),),
        nodes={
            "add": ActionNode(
                name="add",
                action=Action(
                    primary="execute", item_id="tool:demo/add", kind="tool", params={"a": 1}
                ),
                assign={"total": "${result.sum}"},
                retry=NodeRetry(max=2, backoff=2.0, delay_s=0.5),
                on_error="gate",
                cache_result=True,
                cache_ttl_s=10.0,
                remote="gpu",
                timeout_s=5.0,
                is_async=True,
                next=(Edge("each", Comparison(("state", "total"), "eq", None)), Edge("gate")),
            ),
            "gate": GateNode(name="gate", assign={"label": "x"}, next=(Edge("done"),)),
            "each": ForeachNode(
                name="each", action=add, over=[1, 2], collect="all", parallel=True, fail_fast=True
            ),
            "done": ReturnNode(name="done"),
        },
    )


def test_all_problems_of_a_file_come_at_once_each_with_its_path() -> None:
    data = parse_yaml(
        """
config:
  start: ad
  max_steps: true
  on_error: stop
  nodes:
    add:
      action: {item_id: "tool:demo/add", params: {y: "${state.x | jsn}"}}
      next: [{to: rout, when: {path: state.t, op: neqq}}, {to: zzzz}, x, {}]
      retry: {max: 0, backoff: up}
    f: {type: foreach, action: {item_id: "tools:x", async: true}, as: state}
    g: {typ: gate}
    h i: {type: gates}
  hooks:
    - {event: errors, action: {retry: true, fail: true}}
    - {event: error, action: {item_id: ../x, kind: tool}}
""",
        "graph",
    )

    assert errors(data) == [
        "config.nodes.add.retry.max: expected a whole number from 1 to 100, found 0",
        "config.nodes.add.retry.backoff: expected one of constant, exponential, found 'up'",
        (
            "config.nodes.add.next[0].when.op: unknown operator 'neqq' (did you mean neq?"
            " known are eq, ne, gt, gte, lt, lte, in, not_in, contains, not_contains, starts_with,"
            " ends_with, regex, exists, not_exists, empty, not_empty)"
        ),
        "config.nodes.add.next[0].to: there is no node 'rout' (add the node, or name another)",
        "config.nodes.add.next[1].to: there is no node 'zzzz' (add the node, or name another)",
        "config.nodes.add.next[2]: expected a mapping with to, found 'x' (write {to: x})",
        "config.nodes.add.next[3].to: expected the name of a node, found nothing",
        (
            "config.nodes.f.action.async: async on the action of a foreach is deprecated"
            " (use parallel: true)"
        ),
        (
            "config.nodes.f.action.item_id: expected a kind (tool, directive, knowledge, config),"
            " found 'tools' (did you mean tool?)"
        ),
        "config.nodes.f.over: expected the list to go over, found nothing",
        "config.nodes.f.as: expected a name of your own, found state, which means the state",
        "config.nodes.g: expected an action, or a type (gate, foreach, return), found none",
        (
            "config.nodes['h i'].type: expected one of action, gate, foreach, return, found 'gates'"
            " (did you mean gate?)"
        ),
        "config.max_steps: expected a whole number from 1 to 1000000, found true",
        "config.on_error: expected one of fail, continue, found 'stop'",
        (
            "config.hooks[0].event: expected one of graph_started, error, after_step, limit,"
            " graph_completed, found 'errors' (did you mean error?)"
        ),
        (
            "config.hooks[0].action: expected one control (retry, fail, abort, continue, skip),"
            " found 2 of them"
        ),
        "config.hooks[1].action.item_id: item reference '../x': '..' segments are not allowed",
        "config.start: there is no node 'ad' (did you mean add?)",
        (
            "config.nodes.add.action.params.y: ${state.x | jsn}: unknown pipe 'jsn', did you mean"
            " json?"
        ),
    ]


def test_a_problem_has_a_form_for_programs() -> None:
    problem = GraphProblem("config.start", "there is no node 'a'", "did you mean b?")

    assert problem.described() == {
        "path": "config.start",
        "message": "there is no node 'a'",
        "hint": "did you mean b?",
    }
    assert GraphProblem("", "no").described() == {"path": "", "message": "no"}


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        ({}, "config: expected the graph, found nothing"),
        ({"config": []}, "config: expected a mapping, found a list"),
        ({"config": {"nodes": {"a": DONE}}}, "config.start: expected the name of the first node"),
        ({"config": {"start": "a"}}, "config.nodes: expected a mapping of nodes, found nothing"),
        ({"config": {"start": "a", "nodes": {}}}, "config.nodes: expected a mapping of nodes"),
        (with_nodes({"a": []}), "config.nodes.a: expected a mapping, found a list"),
        (with_nodes({"a": {"type": "gate", "next": "b"}}), "config.nodes.a.next: there is no node"),
        (with_nodes({"a": {"type": "gate", "next": 3}}), "config.nodes.a.next: expected the name"),
        (calling(on_error="x"), "config.nodes.a.on_error: there is no node 'x'"),
        (calling(timeout=0), "config.nodes.a.timeout: expected a number above 0 to 3.1536e+07"),
        (calling(timeout=True), "config.nodes.a.timeout: expected a number above 0"),
        (calling(timeout=float("nan")), "found nan"),
        (calling(timeout=float("inf")), "found inf"),
        (calling(cache_result="yes"), "config.nodes.a.cache_result: expected true or false"),
        (calling(retry={"max": 2, "backoff": 0.5}), "config.nodes.a.retry.backoff: expected"),
        (calling(retry={}), "config.nodes.a.retry.max: expected the number of retries"),
        (calling(assign={"inputs": 1}), "config.nodes.a.assign.inputs: state.inputs holds"),
        (calling(env_requires=[1]), "config.nodes.a.env_requires[0]: expected a text, found 1"),
        (one_node(DONE, max_steps=0), "config.max_steps: expected a whole number from 1"),
        (one_node(DONE, max_steps=2.0), "config.max_steps: expected a whole number"),
        (one_node(DONE, max_steps=10**400), "found a huge number"),
        (one_node(DONE, state=[]), "config.state: expected a mapping, found a list"),
        (one_node(DONE, hooks=[3]), "config.hooks[0]: expected a mapping with event and action"),
        ({**one_node(DONE), "permissions": "x"}, "permissions: expected a list, found 'x'"),
        ({**one_node(DONE), "permissions": [1]}, "permissions[0]: expected a text, found 1"),
        ({**one_node(DONE), "limits": {"depth": -1}}, "limits.depth: expected a whole number"),
        ({**one_node(DONE), "limits": {"x": "y"}}, "limits.x: expected a number from 0"),
        (with_nodes({" ": DONE}, start=" "), "config.start: expected a text, found ' '"),
        (with_nodes({"a": DONE, "\x07": DONE}), "expected a name of 1 to 128 characters that can"),
        (with_nodes({"a": DONE, "b" * 129: DONE}), "expected a name of 1 to 128 characters"),
    ],
)
def test_a_wrong_value_is_reported(data: dict[str, Any], problem: str) -> None:
    assert [line for line in errors(data) if problem in line]


@pytest.mark.parametrize(
    ("written", "primary", "item_id", "kind"),
    [
        ({"item_id": "tool:demo/add"}, "execute", "tool:demo/add", "tool"),
        (
            {"item_id": "demo/add", "kind": "directive"},
            "execute",
            "directive:demo/add",
            "directive",
        ),
        ({"item_id": "demo/add", "item_type": "tool"}, "execute", "tool:demo/add", "tool"),
        ({"item_id": "demo/add"}, "execute", "tool:demo/add", "tool"),
        ({"item_id": "./demo/add", "kind": "tool"}, "execute", "tool:demo/add", "tool"),
        ({"item_id": "tool:demo/${state.n}"}, "execute", "tool:demo/${state.n}", "tool"),
        (
            {"item_id": "demo/${state.n || 'a:b'}"},
            "execute",
            "tool:demo/${state.n || 'a:b'}",
            "tool",
        ),
        ({"item_id": "${state.item}"}, "execute", "${state.item}", None),
        ({"item_id": "${state.item}", "kind": "tool"}, "execute", "${state.item}", "tool"),
        ({"primary": "load", "item_id": "knowledge:x"}, "fetch", "knowledge:x", "knowledge"),
        ({"primary": "search", "params": {"query": "x"}}, "fetch", "", None),
        ({"primary": "sign", "item_id": "tool:x"}, "sign", "tool:x", "tool"),
    ],
)
def test_an_item_is_named_in_canonical_form(
    written: dict[str, Any], primary: str, item_id: str, kind: str | None
) -> None:
    action = action_of(written)

    assert (action.primary, action.item_id, action.kind) == (primary, item_id, kind)


def test_a_search_of_one_kind_searches_only_that_kind() -> None:
    action = action_of({"primary": "search", "kind": "tool", "params": {"query": "x"}})

    assert action.params == {"query": "x", "scope": "tool"}


def test_thread_and_target_count_as_parameters() -> None:
    action = action_of({"item_id": "tool:x", "thread": "fork", "target": "remote:gpu"})

    assert action.params == {"thread": "fork", "target": "remote:gpu"}


@pytest.mark.parametrize(
    ("written", "problem"),
    [
        ({}, "item_id: expected an item_id, found nothing"),
        ({"primary": "fetch"}, "item_id: expected an item_id, or a query in params"),
        ({"primary": "run", "item_id": "tool:x"}, "primary: expected one of execute, fetch, sign"),
        ({"item_id": "tool:x", "kind": "directive"}, "item_id: expected a directive as in kind"),
        ({"item_id": "x", "kind": "tool", "item_type": "directive"}, "item_type: expected tool"),
        ({"item_id": "config:x"}, "item_id: expected an item that can be executed, found a config"),
        ({"item_id": "tool:"}, "item_id: item reference"),
        ({"item_id": "tool:a\\b"}, "item_id: item reference"),
        ({"item_id": "tool:x", "params": []}, "params: expected a mapping, found a list"),
        ({"item_id": "tool:x", "thread": "a", "params": {"thread": "b"}}, "thread: expected one"),
    ],
)
def test_a_wrong_action_is_reported(written: dict[str, Any], problem: str) -> None:
    lines = errors(one_node({"action": written, "next": "done"}))

    assert [line for line in lines if line.startswith(f"config.nodes.a.action.{problem}")]


@pytest.mark.parametrize(
    "action",
    ["retry", {"retry": True}, {"action": "retry"}, {"retry": True, "fail": False}],
)
def test_a_control_of_a_hook_may_be_written_in_several_ways(action: object) -> None:
    graph = graph_of(one_node(DONE, hooks=[{"event": "error", "action": action}]))

    assert graph.hooks == (Hook(event="error", control={"action": "retry"}),)


def test_a_condition_that_always_holds_is_dropped() -> None:
    node = {"type": "gate", "next": [{"to": "done", "when": {}}]}

    assert graph_of(one_node(node)).nodes["a"] == GateNode(name="a", next=(Edge("done"),))


@pytest.mark.parametrize(
    ("data", "warning"),
    [
        (
            calling(nexts="x"),
            "config.nodes.a.nexts: unknown key 'nexts' is not used (did you mean next?)",
        ),
        (
            one_node({**DONE, "next": "a"}),
            "config.nodes.a.next: next is not used on a node of type",
        ),
        (
            {**one_node(DONE), "start": "a"},
            "start: start belongs in config",
        ),
        (
            one_node(DONE, permissions=[]),
            "config.permissions: permissions belongs at the top level",
        ),
        (
            {"config": {"start": "a", "nodes": {"a": DONE}}},
            "permissions: expected what the graph may call, found nothing (permissions: []; null",
        ),
        (
            {"config": {"start": "a", "nodes": {"a": DONE}}, "permissions": None},
            "permissions: the graph has none, so each caller must give its own",
        ),
        (
            {**calling(), "permissions": []},
            "permissions: an empty list denies every call of the graph",
        ),
        (
            {**calling(), "permissions": ["tool:demo/add"]},
            "permissions[0]: 'tool:demo/add' permits nothing",
        ),
        (
            one_node({"action": {"item_id": "tool:other/add"}, "next": "done"}),
            "config.nodes.a.action.item_id: the permissions do not cover rye.execute.tool.other",
        ),
        (
            one_node(DONE, hooks=[{"event": "limit", "action": {"item_id": "directive:tell"}}]),
            "config.hooks[0].action.item_id: the permissions do not cover",
        ),
        (
            one_node({"action": {"item_id": "demo/add"}, "next": "done"}),
            "config.nodes.a.action.item_id: 'demo/add' has no canonical ref prefix",
        ),
        (
            one_node({"action": {"item_id": "x", "item_type": "tool"}, "next": "done"}),
            "config.nodes.a.action.item_type: item_type is deprecated (kind: tool)",
        ),
        (calling(cache=True, cache_result=True), "config.nodes.a.cache: cache is not used beside"),
        (
            with_nodes({"a": {"type": "gate"}}),
            "config.nodes: no node of type return (the run ends where a node has no next)",
        ),
        (
            with_nodes({"a": DONE, "b": {"type": "gate", "next": "a"}}),
            "config.nodes.b: no way leads to this node",
        ),
        (
            one_node(
                {"type": "gate", "next": [{"to": "done"}, {"to": "a", "when": {"path": "result"}}]}
            ),
            "config.nodes.a.next[0]: the edges after this one are never tried",
        ),
        (one_node({"type": "gate", "next": "a"}), "config.nodes.a.next: 'a' leads to itself"),
        (
            one_node({"type": "return", "output": "${state.x}"}),
            "config.nodes.a.output: state.x is never assigned",
        ),
        (calling(assign={"x": 1}), "config.nodes.a.assign.x: state.x is never used"),
        (one_node(DONE, state={"x": 1}), "config.state.x: state.x is never used"),
        (
            calling(assign={"x": "${reslt.a}"}),
            "config.nodes.a.assign.x: there is nothing called 'reslt' here (did you mean result?)",
        ),
        (
            one_node({"action": {"item_id": "tool:x", "params": {"v": "${result.x}"}}}),
            "config.nodes.a.action.params.v: there is nothing called 'result' here",
        ),
        (
            {
                **one_node({"type": "return", "output": "${inputs.nmae}"}),
                "config_schema": {"properties": {"name": {}}},
            },
            "config.nodes.a.output: inputs.nmae is not in config_schema (did you mean name?)",
        ),
        (
            one_node({"action": {"item_id": "tool:x", "params": {"command": "ls ${inputs.d}"}}}),
            "config.nodes.a.action.params.command: '${inputs.d}' goes into a command as it is",
        ),
    ],
)
def test_a_probable_mistake_is_a_warning(data: dict[str, Any], warning: str) -> None:
    reading = read_graph(data, "demo/x")

    assert reading.errors == ()
    assert [line for line in map(str, reading.warnings) if line.startswith(warning)]


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        (
            {"permissions": ...},
            (
                "permissions: expected what the graph may call, found nothing"
                ' (permissions: ["rye.execute.tool.demo.add"]; null for one that only other graphs'
                " call)"
            ),
        ),
        ({"permissions": []}, "permissions: an empty list denies every call of the graph"),
        (
            {"permissions": ["rye.execute.tool.other"]},
            (
                "config.nodes.a.action.item_id: the permissions do not cover"
                " rye.execute.tool.demo.add (add it to them)"
            ),
        ),
    ],
)
def test_an_error_that_stops_every_run_is_an_error_before_signing(
    changes: dict[str, Any], problem: str
) -> None:
    data = {name: value for name, value in {**calling(), **changes}.items() if value is not ...}

    reading = read_graph(data, "demo/x")

    assert reading.graph is not None  # one that was signed before runs for a caller
    assert problem in map(str, reading.before_signing.errors)


def test_a_graph_without_permissions_is_reported_as_one_for_other_graphs() -> None:
    reading = read_graph({**calling(), "permissions": None}, "demo/x").before_signing

    assert reading.errors == ()
    assert "permissions: the graph has none, so each caller must give its own" in map(
        str, reading.warnings
    )


def test_a_graph_without_mistakes_has_no_warnings() -> None:
    data = calling(assign={"x": "${result.sum}"}, comment="adds", description="adds")
    data["config"]["nodes"]["done"] = {"type": "return", "output": "${state.x}"}

    assert warnings(data) == []


@pytest.mark.parametrize("result", ["state", "both"])
def test_assigned_values_are_used_where_the_state_is_the_result(result: str) -> None:
    data = calling(assign={"x": 1})
    data["config"]["result"] = result

    assert warnings(data) == []


def test_an_error_edge_is_a_way_to_a_node() -> None:
    data = calling(on_error="patch")
    data["config"]["nodes"]["patch"] = {"type": "gate", "next": "done"}

    assert warnings(data) == []


@pytest.mark.parametrize(
    "item_id", ["tool:${state.inputs.x}", "${state.inputs.x}", "tool:demo/${state.inputs.x}"]
)
def test_an_id_that_only_the_run_knows_may_be_permitted(item_id: str) -> None:
    data = calling(action={"item_id": item_id})

    assert warnings(data) == []


def test_engine_keys_of_the_state_need_no_assignment() -> None:
    output = "${state.inputs.a}${state._last_error.error}${state._retries.a}"

    assert warnings(one_node({"type": "return", "output": output}))[:1] == [
        "config.nodes.done: no way leads to this node"
    ]


def test_no_more_problems_are_listed_than_a_person_reads() -> None:
    nodes = {f"n{index}": {"type": "gate", "next": "nowhere"} for index in range(MAX_NODES)}

    found = read_graph(with_nodes(nodes, start="n0"), "demo/x").errors

    assert len(found) == MAX_PROBLEMS + 1
    assert str(found[-1]) == f"{MAX_NODES - MAX_PROBLEMS} more errors are not listed"


def test_more_nodes_than_a_person_writes_are_refused() -> None:
    nodes = {f"n{index}": DONE for index in range(MAX_NODES + 1)}

    assert errors(with_nodes(nodes, start="n0")) == [
        "config.nodes: expected at most 10000 nodes, found 10001"
    ]


def test_aliases_without_end_are_refused_before_the_graph_is_read() -> None:
    levels = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    levels += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 9)]

    with pytest.raises(MetadataError) as caught:
        parse_yaml("\n".join(levels), "graph")

    assert "expected at most 1048576 characters of values" in str(caught.value)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(
                [
                    *(
                        "config",
                        "nodes",
                        "start",
                        "a",
                        "type",
                        "action",
                        "next",
                        "to",
                        "when",
                        "hooks",
                    ),
                    *(
                        "event",
                        "retry",
                        "assign",
                        "over",
                        "params",
                        "item_id",
                        "path",
                        "any",
                        "limits",
                    ),
                ]
            ),
            inner,
            max_size=6,
        )
    ),
    max_leaves=40,
)


@given(data=st.dictionaries(st.sampled_from(["config", "permissions", "limits"]), JSON))
def test_any_value_is_read_to_a_graph_or_to_errors(data: dict[str, Any]) -> None:
    reading = read_graph(data, "demo/x")

    assert (reading.graph is None) == bool(reading.errors)


@given(node=JSON)
def test_any_node_is_read_to_a_graph_or_to_errors(node: Any) -> None:  # noqa: ANN401
    reading = read_graph(with_nodes({"a": node, "done": DONE}), "demo/x")

    assert (reading.graph is None) == bool(reading.errors)
