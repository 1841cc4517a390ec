"""Whatever a thread calls, the threads that it starts are its children, and pay from its purse."""

from collections.abc import Iterator

import pytest

from tests.support.agent_threads import carried_out, directive, provider, threads
from tests.support.model_server import ModelServer, calls, words
from tests.support.workspace import Workspace

TOOL = "<execute><tool>rye.agent.threads.*</tool></execute>"
PRICED = "{prices: {input: 1000, output: 5000}, context: 8000, max_output: 300}"
FLOW = """
version: "1.0.0"
tool_type: graph
executor_id: rye/core/runtimes/state-graph/runtime
category: ops
description: Has a directive carried out
permissions: ["rye.execute.*"]
config:
  start: say
  nodes:
    say:
      action: {item_id: "directive:ops/inner", params: {what: hi}, thread: fork}
      next: done
    done: {type: return, output: {}}
"""


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with ModelServer() as running:
        yield running


@pytest.fixture
def ready(workspace: Workspace, server: ModelServer) -> Workspace:
    provider(workspace, server.url, model=PRICED)
    directive(workspace, "ops/inner", limits='<limits spend="1" turns="9"/>', body="Say one.")
    return workspace


def started(inner: str) -> dict[str, object]:
    return {"directive_id": inner, "inputs": {"what": "hi"}}


def test_a_thread_that_a_tool_starts_is_a_child(ready: Workspace, server: ModelServer) -> None:
    directive(ready, permissions=TOOL, limits='<limits spend="0.02" turns="5"/>')
    server.replies = [
        calls(("thread_directive", started("ops/inner"))),
        words("inner done"),
        words("outer done"),
    ]

    answer = carried_out(ready)

    outer = threads(ready).records.read(answer.envelope["thread_id"])
    (inner_id,) = {*threads(ready).records.ids()} - {answer.envelope["thread_id"]}
    inner = threads(ready).records.read(inner_id)
    assert answer.envelope["usage"]["turns"] == 3
    assert (outer.purse.used.spawns, inner.start.depth) == (1, 1)
    assert inner.start.parent == answer.envelope["thread_id"]
    assert inner.purse.limits.spend < outer.purse.limits.spend


def test_a_thread_that_a_graph_starts_is_a_child(ready: Workspace, server: ModelServer) -> None:
    ready.project.signed("tools/ops/flow.yaml", FLOW)
    directive(ready, limits='<limits spend="0.02" turns="5"/>', permissions="<execute>*</execute>")
    server.replies = [
        calls(("execute", {"item_id": "tool:ops/flow", "parameters": {}})),
        words("inner done"),
        words("outer done"),
    ]

    answer = carried_out(ready)

    assert (answer.envelope["usage"]["turns"], answer.envelope["usage"]["spawns"]) == (3, 1)


@pytest.mark.parametrize("limit", ['spawns="0"', 'depth="0"'])
def test_a_thread_without_children_gets_none_by_a_tool(
    ready: Workspace, server: ModelServer, limit: str
) -> None:
    directive(ready, permissions=TOOL, limits=f"<limits {limit}/>")
    server.replies = [calls(("thread_directive", started("ops/inner"))), words("done")]

    answer = carried_out(ready)

    assert len(threads(ready).records.ids()) == 1
    assert "1 needed, 0 left of 0" in str(server.requests[-1]["messages"])
    assert answer.envelope["usage"]["spawns"] == 0


def test_a_directive_that_starts_itself_ends(ready: Workspace, server: ModelServer) -> None:
    directive(ready, "ops/again", permissions=TOOL, limits='<limits spawns="2" depth="2"/>')
    server.always = calls(("thread_directive", started("ops/again")))

    carried_out(ready, "ops/again")

    assert len(threads(ready).records.ids()) <= 7


def test_a_child_that_cannot_begin_takes_nothing(ready: Workspace, server: ModelServer) -> None:
    directive(ready, "ops/lost", model='<model provider="local" id="nobody"/>', body="Say one.")
    directive(ready, permissions=TOOL)
    server.replies = [calls(("thread_directive", started("ops/lost"))), words("done")]

    answer = carried_out(ready)

    assert answer.envelope["usage"]["spawns"] == 0
