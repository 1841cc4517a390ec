"""The environment of runs: hooks of the configuration, limits, digests of tools, threads."""

import json

import pytest

from ryeos.graph.run_ledger import Ledger
from ryeos.graph.run_places import run_place
from ryeos.run.threads.end import ask_for_end
from ryeos.run.threads.thread import Status, Thread
from tests.support.graph_runs import GraphGround

FAILING = """
config:
  start: a
  nodes:
    a: {action: {item_id: "tool:demo/square", params: {n: -1}}, next: done}
    done: {type: return}
"""
HOOKS = """
version: "1.0.0"
category: agent
hooks:
  - {event: error, action: skip, layer: 1}
  - event: error
    condition: {path: error.error, op: contains, value: negative}
    action: {item_id: "tool:demo/watch"}
  - {event: thread_started, action: {item_id: "tool:demo/watch"}}
  - {event: graph_completed, action: {item_id: "tool:demo/watch"}}
"""


def watched(ground: GraphGround, *, permissions: str = '["rye.*"]') -> dict[str, object]:
    ground.workspace.project.signed_yaml("demo/watch", 'config: {command: "printf w >> watched"}')
    ground.workspace.project.signed("config/agent/hook_conditions.yaml", HOOKS)
    ground.graph("demo/g", FAILING, permissions=permissions)
    return ground.run("demo/g", rye=ground.fresh())


def test_hooks_of_the_configuration_watch_a_run_and_do_not_steer_it(ground: GraphGround) -> None:
    data = watched(ground)

    assert (ground.project / "watched").read_text("utf-8") == "ww"
    assert (data["status"], data["error"]) == ("error", "negative: -1")


def test_hooks_of_the_configuration_may_call_no_more_than_the_graph(ground: GraphGround) -> None:
    data = watched(ground, permissions='["rye.execute.tool.demo.square"]')

    assert not (ground.project / "watched").exists()
    assert "hook of error: Permission denied" in json.dumps(data["warnings"])


def test_a_digest_of_a_tool_changes_with_the_tool(ground: GraphGround) -> None:
    write = ground.workspace.project.signed_yaml
    write("demo/sh", 'config: {command: "echo 1"}')
    first = ground.fresh().fingerprint("demo/sh")
    again = ground.fresh().fingerprint("demo/sh")
    write("demo/sh", 'config: {command: "echo 2"}')

    assert first is not None
    assert first == again
    assert ground.fresh().fingerprint("demo/sh") not in {first, None}


def test_a_digest_of_a_tool_changes_with_its_imports(ground: GraphGround) -> None:
    project = ground.workspace.project
    body = "import near\ndef execute(params, project_path):\n    return near.ANSWER\n"
    project.sign_unchecked(project.write("tools/near/__init__.py", "# A package.\n"))
    near = project.write("tools/near/near.py", "ANSWER = 1\n")
    project.sign_unchecked(near)
    project.signed_tool("near/far", body, executor="rye/core/runtimes/python/function")
    first = ground.fresh().fingerprint("near/far")
    near.write_text("ANSWER = 2\n", "utf-8")
    project.sign_unchecked(near)

    assert ground.fresh().fingerprint("near/far") != first


def test_a_graph_has_no_digest_because_its_calls_are_not_known(ground: GraphGround) -> None:
    ground.graph("demo/g", FAILING)

    assert ground.fresh().fingerprint("demo/g") is None


def ledger(ground: GraphGround) -> Ledger:
    rye = ground.fresh()
    return Ledger(rye.threads, rye.runner_seals, run_place(rye.context.spaces))


def test_a_run_that_is_cancelled_before_it_begins_does_not_complete(ground: GraphGround) -> None:
    ground.graph("demo/g", FAILING)
    threads = ground.fresh().threads
    ask_for_end(threads, "mine-1")

    data = ground.run("demo/g", {"graph_run_id": "mine-1", "max_steps": 10**6})

    assert ledger(ground).is_end_requested("mine-1")
    assert data["status"] in {"cancelled", "error"}  # it may end before the request is seen


def test_an_id_of_a_thread_that_is_no_run_is_not_taken(ground: GraphGround) -> None:
    ground.graph("demo/g", FAILING)
    threads = ground.fresh().threads
    threads.register(Thread(thread_id="mine-1", directive="mine/t"))
    threads.finish("mine-1", Status.COMPLETED)

    refused = ground.refusal("demo/g", {"graph_run_id": "mine-1"})

    assert "mine-1" in refused
    assert ground.thread("mine-1").status == "completed"
    assert not (ground.project / ".ai/state/threads/mine-1/grants.json").exists()


def test_a_run_without_a_process_is_not_alive(ground: GraphGround) -> None:
    ground.graph("demo/g", FAILING)
    run_id = ground.run("demo/g")["graph_run_id"]

    assert not ledger(ground).is_alive(run_id)
    assert not ledger(ground).is_alive("nothing-1")


@pytest.mark.parametrize("continued", ["mine/t/t-2", "mine/t/nothing"])
def test_a_call_that_another_thread_carried_on_with_has_its_answer(
    continued: str, ground: GraphGround
) -> None:
    threads = ground.fresh().threads
    threads.register(Thread(thread_id="mine/t/t-2", directive="mine/t"))
    threads.mark_running("mine/t/t-2", 1, "1")
    answer = {"status": "success", "data": {"n": 7}}
    threads.finish("mine/t/t-2", Status.COMPLETED, result=json.dumps(answer))
    ground.graph(
        "demo/g",
        f"""
        config:
          start: a
          nodes:
            a:
              action:
                item_id: tool:demo/echo
                params: {{status: continued, continuation_thread_id: {continued}}}
              assign: {{n: "${{result.n}}"}}
              next: done
            done: {{type: return, output: "${{state.n}}"}}
        """,
    )

    data = ground.run("demo/g")

    if continued.endswith("nothing"):
        assert (data["status"], data["node"]) == ("error", "a")
    else:
        assert data["output"] == 7
