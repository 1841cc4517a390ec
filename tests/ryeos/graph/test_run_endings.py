"""Runs that are ended from outside: by the caller, a limit, a file; and their children."""

import os
from collections.abc import Callable, Iterator
from threading import Thread
from typing import Any

import pytest

from lillux.cancellation import Cancellation
from ryeos.run.model import ExecutionRequest
from ryeos.run.threads.end import ask_for_end
from tests.support.children import Lifeline
from tests.support.graph_runs import GraphGround

pytestmark = pytest.mark.skipif(os.name == "nt", reason="needs a FIFO")

ONE = """
config:
  start: a
  {rest}
  nodes:
    a: {{{node} action: {{item_id: "tool:demo/hold", params: {{n: "${{item}}"}}}}, next: done}}
    done: {{type: return}}
"""
NODES = {
    "action": "",
    "foreach": "type: foreach, over: [1, 2],",
    "parallel foreach": "type: foreach, over: [1, 2], parallel: true,",
}


@pytest.fixture
def lifeline(ground: GraphGround) -> Iterator[Lifeline]:
    made = Lifeline(ground.workspace.project_path)  # where tools of a graph may write
    yield made
    made.close()


def holding(ground: GraphGround, lifeline: Lifeline, node: str = "", rest: str = "") -> None:
    """A graph whose tool, and what that starts, holds the lifeline for ever."""
    script = f"{lifeline.hold}; sleep 600 & sleep 600"
    ground.workspace.project.signed(
        "tools/demo/hold.yaml",
        'version: "1.0.0"\ntool_type: bash\nexecutor_id: rye/core/runtimes/bash/bash\n'
        f"category: demo\ndescription: holds\nconfig:\n  command: |\n    {script}\n",
    )
    graph = ONE.format(node=node, rest=rest)
    ground.graph("demo/g", graph if "foreach" in node else graph.replace('{n: "${item}"}', "{}"))


def when_held(lifeline: Lifeline, act: Callable[[], object]) -> Thread:
    """Act as soon as a tool holds the lifeline."""

    def wait() -> None:
        lifeline.await_held()
        act()

    thread = Thread(target=wait)
    thread.start()
    return thread


@pytest.mark.parametrize("node", NODES)
def test_a_cancelled_run_kills_the_tools_that_run(
    node: str, ground: GraphGround, lifeline: Lifeline
) -> None:
    holding(ground, lifeline, NODES[node], "max_concurrency: 1")
    cancellation = Cancellation()
    ender = when_held(lifeline, cancellation.cancel)

    data = ground.run("demo/g", cancellation=cancellation)

    ender.join()
    assert (data["success"], data["status"], data["node"]) == (False, "cancelled", "a")
    assert lifeline.is_released()
    assert ground.thread(data["graph_run_id"]).status == "cancelled"


def test_a_user_can_cancel_a_run(ground: GraphGround, lifeline: Lifeline) -> None:
    holding(ground, lifeline)
    registry = ground.fresh().threads
    ender = when_held(lifeline, lambda: ask_for_end(registry, "mine-1"))

    data = ground.run("demo/g", {"graph_run_id": "mine-1"})

    ender.join()
    assert data["status"] == "cancelled"
    assert lifeline.is_released()
    assert ground.thread("mine-1").status == "cancelled"


def test_a_run_that_a_user_cancelled_can_be_resumed(
    ground: GraphGround, lifeline: Lifeline
) -> None:
    holding(ground, lifeline)
    registry = ground.fresh().threads
    ender = when_held(lifeline, lambda: ask_for_end(registry, "mine-1"))
    ground.run("demo/g", {"graph_run_id": "mine-1"})
    ender.join()
    ground.workspace.project.signed_yaml("demo/hold", 'config: {command: "true"}')

    data = ground.run("demo/g", {"resume_run_id": "mine-1"}, rye=ground.fresh())

    assert data["status"] == "completed"


@pytest.mark.parametrize("node", NODES)
def test_a_graph_takes_no_longer_than_it_may(
    node: str, ground: GraphGround, lifeline: Lifeline
) -> None:
    holding(ground, lifeline, NODES[node], "timeout: 0.7")

    answer = ground.answer("demo/g")

    data = answer.envelope["data"]
    assert (answer.envelope["code"], data["status"]) == ("TIMEOUT", "error")
    assert data["error"] == "the graph timed out after 0.7 seconds"


@pytest.mark.parametrize(
    ("config", "options", "seconds"),
    [
        ("", {}, 300),
        ("timeout: 7200", {}, 7200),
        ("timeout: 0", {}, None),
        ("", {"in_background": True}, None),
        ("timeout: 60", {"in_background": True}, 60),
    ],
)
def test_a_graph_has_300_seconds_unless_it_says_otherwise(
    ground: GraphGround,
    config: str,
    options: dict[str, Any],
    seconds: float | None,
) -> None:
    ground.graph("demo/g", f"config:\n  start: a\n  {config}\n  nodes: {{a: {{type: return}}}}\n")
    request = ExecutionRequest(item_id="demo/g", dry_run=True, **options)

    planned = ground.fresh().executor.execute(request)

    assert planned.success, planned.error
    assert planned.metadata["timeout_s"] == seconds


def test_a_caller_may_give_a_graph_less_time(ground: GraphGround, lifeline: Lifeline) -> None:
    holding(ground, lifeline, "", "timeout: 600")

    answer = ground.answer("demo/g", timeout_s=0.7)

    assert answer.envelope["code"] == "TIMEOUT"


def test_a_node_gives_its_call_less_time(ground: GraphGround, lifeline: Lifeline) -> None:
    holding(ground, lifeline, "timeout: 0.7,")

    data = ground.run("demo/g")

    assert (data["status"], data["node"]) == ("error", "a")
    assert "timed out" in data["error"]


def test_an_inner_graph_ends_with_the_one_that_calls_it(
    ground: GraphGround, lifeline: Lifeline
) -> None:
    holding(ground, lifeline)
    ground.graph(
        "demo/outer",
        ONE.format(node="", rest="")
        .replace("demo/hold", "demo/g")
        .replace('{n: "${item}"}', "{graph_run_id: inner-1}"),
    )
    cancellation = Cancellation()
    ender = when_held(lifeline, cancellation.cancel)

    data = ground.run("demo/outer", cancellation=cancellation)

    ender.join()
    assert data["status"] == "cancelled"
    assert lifeline.is_released()
    assert ground.thread("inner-1").status == "cancelled"
    assert ground.thread(data["graph_run_id"]).status == "cancelled"


def test_of_a_fan_that_fails_fast_the_others_are_ended(
    ground: GraphGround, lifeline: Lifeline
) -> None:
    holding(ground, lifeline)
    fifo = ground.workspace.folder / "go"
    os.mkfifo(fifo)
    # The failing tool waits until the other one runs.
    ground.workspace.project.signed_yaml(
        "demo/fails", f'config: {{command: "cat {fifo}; echo no luck >&2; exit 1"}}'
    )
    ground.graph(
        "demo/both",
        """
        config:
          start: a
          nodes:
            a:
              type: foreach
              over: [hold, fails, echo]
              parallel: true
              max_concurrency: 2
              fail_fast: true
              collect: got
              action: {item_id: "tool:demo/${item}"}
        """,
    )
    ender = when_held(lifeline, lambda: fifo.write_bytes(b""))

    data = ground.run("demo/both")

    ender.join()
    assert (data["status"], data["node"]) == ("error", "a")
    assert lifeline.is_released()
    assert [result["error"] for result in data["state"]["got"]][::2] == [
        "not made: an earlier call failed",
        "not made: an earlier call failed",
    ]
