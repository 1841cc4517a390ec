"""Calls of nodes: tools, graphs, items that are read, searched and signed; permissions."""

import json
from typing import Any

import pytest

from lillux.key_files import save_keypair
from ryeos.app.workspace import Rye
from tests.support.background_runs import ended, program_of
from tests.support.graph_runs import GraphGround


def one(action: str, *, assign: str = "{}", node: str = "", rest: str = "") -> str:
    """A graph of one node, whose result is the output."""
    return f"""
config:
  start: a
  {rest}
  nodes:
    a:
      action: {action}
      {node}
      assign: {{got: "${{result}}"}}
      next: done
    done: {{type: return, output: "${{state.got}}"}}
"""


ECHO = one('{item_id: "tool:demo/echo", params: {n: 1}}')
RECURSIVE = one('{item_id: "tool:demo/again", params: {}}')

# ---------------------------------------------------------------------------- execute


@pytest.mark.parametrize("text", ["nan", "inf", "-inf"])
def test_a_result_that_json_cannot_hold_fails_its_node(text: str, ground: GraphGround) -> None:
    ground.graph("demo/g", one(f'{{item_id: "tool:demo/odd", params: {{text: "{text}"}}}}'))

    data = ground.run("demo/g")

    assert (data["status"], data["node"]) == ("error", "a")


def test_a_missing_tool_fails_its_node(ground: GraphGround) -> None:
    ground.graph("demo/g", one('{item_id: "tool:demo/nothing"}'))

    data = ground.run("demo/g")

    assert (data["status"], data["node"]) == ("error", "a")
    assert "demo/nothing" in data["error"]


def test_params_that_a_tool_does_not_take_fail_its_node(ground: GraphGround) -> None:
    ground.graph("demo/g", one('{item_id: "tool:demo/square", params: {n: "text"}}'))

    assert ground.run("demo/g")["node"] == "a"


def test_a_shell_command_gives_its_output(ground: GraphGround) -> None:
    ground.workspace.project.signed_yaml("demo/sh", 'config: {command: "printf hello"}')
    ground.graph("demo/g", one('{item_id: "tool:demo/sh"}').replace("{result}", "{result.stdout}"))

    assert ground.run("demo/g")["output"] == "hello"


def test_a_tool_of_a_node_knows_the_run_that_calls_it(ground: GraphGround) -> None:
    params = "{name: RYE_PARENT_THREAD_ID}"
    ground.workspace.project.signed_yaml(
        "demo/sh", 'config: {command: "printf %s $RYE_PARENT_THREAD_ID"}'
    )
    ground.graph("demo/g", one(f'{{item_id: "tool:demo/sh", params: {params}}}'))

    data = ground.run("demo/g")

    assert data["output"]["stdout"] == data["graph_run_id"]


def test_a_directive_of_a_node_is_rendered(ground: GraphGround) -> None:
    project = ground.workspace.project
    project.sign(project.directive("demo/plan", "Do it well."))
    ground.graph("demo/g", one('{item_id: "directive:demo/plan"}'))

    assert "Do it well." in json.dumps(ground.run("demo/g")["output"])


def test_a_graph_of_a_node_gives_its_answer(ground: GraphGround) -> None:
    ground.graph("demo/inner", ECHO)
    ground.graph("demo/outer", one('{item_id: "tool:demo/inner"}'))

    data = ground.run("demo/outer")

    inner = data["output"]
    assert (inner["status"], inner["output"]) == ("completed", {"success": True, "n": 1})
    assert ground.thread(inner["graph_run_id"]).parent_id == data["graph_run_id"]
    assert ground.thread(inner["graph_run_id"]).status == "completed"


def test_a_graph_of_a_node_that_fails_fails_the_node(ground: GraphGround) -> None:
    ground.graph("demo/inner", one('{item_id: "tool:demo/square", params: {n: -1}}'))
    ground.graph("demo/outer", one('{item_id: "tool:demo/inner"}'))

    data = ground.run("demo/outer")

    assert (data["status"], data["node"], data["error"]) == ("error", "a", "negative: -1")


def test_null_params_leave_a_tool_its_defaults(ground: GraphGround) -> None:
    ground.graph("demo/g", one('{item_id: "tool:demo/echo", params: {a: null, b: "${inputs.x}"}}'))

    assert ground.run("demo/g")["output"] == {"success": True}


# ---------------------------------------------------------------------------- remote, async


def test_an_unconfigured_remote_fails_its_node(ground: GraphGround) -> None:
    ground.graph("demo/g", one('{item_id: "tool:demo/echo"}', node="remote: gpu"))

    data = ground.run("demo/g")

    assert data["error"] == "remote 'gpu': not found; configured: none"
    assert data["node"] == "a"


@pytest.mark.parametrize("where", ["local", '""'])
def test_a_node_may_say_that_its_call_is_made_here(ground: GraphGround, where: str) -> None:
    action = '{item_id: "tool:demo/add", params: {a: 1, b: 2}}'
    ground.graph("demo/g", one(action, node='remote: "${inputs.where}"'))

    data = ground.run("demo/g", {"where": where.strip("'\"")})

    assert data["output"]["sum"] == 3


def test_only_runs_are_sent_to_a_remote(ground: GraphGround) -> None:
    action = '{primary: fetch, item_id: "tool:demo/echo"}'
    ground.graph("demo/g", one(action, node="remote: gpu"))

    data = ground.run("demo/g")

    assert data["error"] == "remote gpu: only items to execute are sent there, not fetch"


def test_a_node_may_leave_its_call_running(ground: GraphGround) -> None:
    ground.workspace.project.signed_yaml("demo/sh", 'config: {command: "echo {}"}')
    ground.graph("demo/g", one('{item_id: "tool:demo/sh"}', node="async: true"))
    workspace = ground.workspace
    rye = Rye(workspace.context(), program=lambda _: program_of(workspace))

    data = ground.run("demo/g", rye=rye)

    thread_id = data["output"]["thread_id"]
    thread = ended(workspace, thread_id)
    assert (thread.status, thread.parent_id) == ("completed", data["graph_run_id"])


def test_a_call_cannot_be_left_running_where_the_program_is_unknown(ground: GraphGround) -> None:
    ground.graph("demo/g", one('{item_id: "tool:demo/echo"}', node="async: true"))

    assert "async: this program does not know how it is started" in ground.run("demo/g")["error"]


# ---------------------------------------------------------------------------- fetch, sign, search


def test_an_item_is_fetched(ground: GraphGround) -> None:
    project = ground.workspace.project
    project.sign(project.knowledge("demo/facts", "Water is wet."))
    ground.graph("demo/g", one('{primary: fetch, item_id: "knowledge:demo/facts"}'))

    output = ground.run("demo/g")["output"]

    assert (output["ref"], output["item_id"]) == ("knowledge:demo/facts", "demo/facts")
    assert output["space"] == "project"
    assert "Water is wet." in output["content"]


def test_an_item_is_fetched_from_the_requested_space(ground: GraphGround) -> None:
    project = ground.workspace.project
    project.sign(project.knowledge("demo/facts", "Water is wet."))
    action = '{primary: fetch, item_id: "knowledge:demo/facts", params: {source: user}}'
    ground.graph("demo/g", one(action))

    assert "demo/facts" in ground.run("demo/g")["error"]


@pytest.mark.parametrize("primary", ["fetch", "search"])
def test_items_are_searched(primary: str, ground: GraphGround) -> None:
    action = f'{{primary: {primary}, params: {{query: "square", scope: tool}}}}'
    ground.graph("demo/g", one(action), permissions='["rye.fetch.search"]')

    output = ground.run("demo/g")["output"]

    assert "tool:demo/square" in [hit["ref"] for hit in output["results"]]


@pytest.mark.parametrize(
    ("params", "problem"),
    [("query: 5", "query: expected text"), ("query: x, limit: 0", "limit: expected 1 to")],
)
def test_a_search_for_nonsense_fails_its_node(
    params: str, problem: str, ground: GraphGround
) -> None:
    ground.graph("demo/g", one(f"{{primary: fetch, params: {{{params}}}}}"))

    assert problem in ground.run("demo/g")["error"]


def test_the_hint_of_a_failed_call_is_the_hint_of_its_graph(ground: GraphGround) -> None:
    ground.graph("demo/g", one('{item_id: "tool:demo/unsigned"}'))
    ground.workspace.project.tool("demo/unsigned", "print(1)")

    envelope = ground.rye.execute("tool:demo/g")

    assert envelope["code"] == "EXECUTION_FAILED"
    assert "rye sign" in envelope["hint"]


def test_an_item_is_signed(ground: GraphGround) -> None:
    ground.workspace.project.tool("demo/fresh", "print(1)")
    ground.graph("demo/g", one('{primary: sign, item_id: "tool:demo/fresh"}'))

    save_keypair(ground.rye.context.key_directory, ground.workspace.keypair)
    output = ground.run("demo/g")["output"]

    assert (output["ref"], output["unchanged"]) == ("tool:demo/fresh", False)
    assert "rye:signed:" in (ground.project / ".ai/tools/demo/fresh.py").read_text("utf-8")


# ---------------------------------------------------------------------------- permissions

DENIED = "Permission denied: 'rye.execute.tool.demo.echo' not covered by capabilities"


@pytest.mark.parametrize(
    ("graph", "caller", "error"),
    [
        ('["rye.execute.tool.demo.echo"]', None, None),
        ('["rye.execute.tool.demo.*"]', None, None),
        ('["rye.execute.tool.*"]', ["rye.execute.*.demo.ech?"], None),
        ('["rye.execute.tool.demo.echo"]', ["*"], None),
        ('["rye.execute.tool.other.*"]', None, DENIED),
        ('["rye.execute.tool.other.*"]', ["*"], DENIED),
        ('["*"]', ["rye.execute.tool.other"], DENIED),
        ('["*"]', ["rye.fetch.tool.demo.echo"], DENIED),
        ('["*"]', ["RYE.EXECUTE.TOOL.DEMO.ECHO"], DENIED),
        ('["*"]', [], "Permission denied: no capabilities"),
        ("[]", ["*"], "Permission denied: no capabilities"),
    ],
)
def test_every_list_must_grant_a_call(
    graph: str, caller: list[str] | None, error: str | None, ground: GraphGround
) -> None:
    ground.graph("demo/g", ECHO, permissions=graph)

    data = ground.run("demo/g", {} if caller is None else {"capabilities": caller})

    assert data.get("error") == error


def test_a_graph_hands_its_limits_on_to_the_graphs_it_calls(ground: GraphGround) -> None:
    ground.graph("demo/inner", ECHO, permissions='["*"]')
    ground.graph(
        "demo/outer",
        one('{item_id: "tool:demo/inner", params: {capabilities: ["*"]}}'),
        permissions='["rye.execute.tool.demo.inner"]',
    )

    assert ground.run("demo/outer")["error"] == DENIED


def test_a_graph_without_permissions_takes_those_of_the_graph_that_calls_it(
    ground: GraphGround,
) -> None:
    ground.graph("demo/inner", ECHO, permissions=None)
    ground.graph("demo/outer", one('{item_id: "tool:demo/inner"}'))

    assert ground.run("demo/outer")["success"]


# ---------------------------------------------------------------------------- depth


@pytest.mark.parametrize(("limits", "runs"), [("{depth: 0}", 1), ("{depth: 2}", 3), ("{}", 6)])
def test_graphs_call_graphs_only_so_deep(limits: str, runs: int, ground: GraphGround) -> None:
    ground.graph("demo/again", f"limits: {limits}\n{RECURSIVE}")

    data = ground.run("demo/again")

    assert data["error"] == "demo/again: Max depth exceeded"
    assert len(ground.runs()) == runs


def test_an_inner_graph_cannot_allow_itself_more(ground: GraphGround) -> None:
    ground.graph("demo/again", "limits: {depth: 9}\n" + RECURSIVE)
    ground.graph(
        "demo/outer",
        "limits: {depth: 1}\n"
        + one('{item_id: "tool:demo/again", params: {depth: 9, limits: {depth: 9}}}'),
    )

    assert ground.run("demo/outer")["error"] == "demo/again: Max depth exceeded"
    assert len(ground.runs()) == 2


@pytest.mark.parametrize("params", [{"depth": 1}, {"limits": {"depth": 1}}])
def test_a_caller_may_lower_the_depth(params: dict[str, Any], ground: GraphGround) -> None:
    ground.graph("demo/again", RECURSIVE)

    ground.run("demo/again", params)

    assert len(ground.runs()) == 2


# ---------------------------------------------------------------------------- kept results


def counting(ground: GraphGround, *, node: str = "cache: true") -> None:
    """A graph whose tool leaves an x for each call."""
    ground.workspace.project.signed_yaml(
        "demo/count",
        'config: {command: "printf x >> called; echo \'{{\\"n\\": 1}}\'"}'.replace(
            "{{", "{"
        ).replace("}}", "}"),
    )
    ground.graph(
        "demo/g", one('{item_id: "tool:demo/count", params: {p: "${inputs.p}"}}', node=node)
    )


def calls(ground: GraphGround) -> int:
    return len((ground.project / "called").read_text("utf-8"))


def test_a_kept_result_is_used_again(ground: GraphGround) -> None:
    counting(ground)

    first = ground.run("demo/g")
    second = ground.run("demo/g", rye=ground.fresh())

    assert (first["output"], second["output"]) == (first["output"], first["output"])
    assert calls(ground) == 1
    assert [event.cache_hit for event in ground.events if event.what == "finished"] == [
        False,
        False,
        True,
        False,
    ]


def test_other_params_make_another_call(ground: GraphGround) -> None:
    counting(ground)

    ground.run("demo/g", {"p": 1})
    ground.run("demo/g", {"p": 2})

    assert calls(ground) == 2


def test_a_changed_tool_is_called_again(ground: GraphGround) -> None:
    counting(ground)
    ground.run("demo/g")
    ground.workspace.project.signed_yaml("demo/count", 'config: {command: "printf y >> called"}')

    ground.run("demo/g", rye=ground.fresh())

    assert calls(ground) == 2


def test_no_result_is_kept_unless_the_node_says_so(ground: GraphGround) -> None:
    counting(ground, node="")

    ground.run("demo/g")
    ground.run("demo/g")

    assert calls(ground) == 2


def test_errors_are_not_kept(ground: GraphGround) -> None:
    ground.graph("demo/g", one('{item_id: "tool:demo/needs_flag"}', node="cache: true"))
    ground.run("demo/g")
    ground.run("demo/g")

    assert (ground.project / "attempts").read_text("utf-8") == "xx"
