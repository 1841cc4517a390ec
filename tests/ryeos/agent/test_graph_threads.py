"""A node of a graph has a model carry a directive out: ``thread: fork`` beside the item."""

import json
from typing import Any

import pytest

from ryeos.app.agent_threads import AgentThreads
from ryeos.app.thread_log import Following
from ryeos.app.thread_workspace import ThreadWish
from ryeos.items.errors import RyeError
from ryeos.items.refs import Kind, Reference
from ryeos.run.model import ExecutionResult
from tests.support.agent_threads import directive, threads
from tests.support.model_server import ModelServer, calls, refused, words
from tests.support.workspace import Workspace

GRAPH = """
version: "1.0.0"
tool_type: graph
executor_id: rye/core/runtimes/state-graph/runtime
category: ops
description: A test
permissions: {permissions}
config:
  start: say
  nodes:
    say:
      action: {{item_id: "directive:ops/say", params: {{what: hi}}, thread: fork}}
      {more}
      assign:
        text: "${{result.text}}"
        state: "${{result.state}}"
        turns: "${{result.usage.turns}}"
        spend: "${{result.usage.spend}}"
        code: "${{result.code}}"
      next: done
    done:
      type: return
      output:
        text: "${{state.text}}"
        state: "${{state.state}}"
        turns: "${{state.turns}}"
        spend: "${{state.spend}}"
"""
ALL = '["rye.execute.*"]'


def graph(workspace: Workspace, more: str = "", permissions: str = ALL) -> None:
    text = GRAPH.format(more=more, permissions=permissions)
    workspace.project.signed("tools/ops/flow.yaml", text)


def flow(workspace: Workspace, **params: Any) -> ExecutionResult:  # noqa: ANN401 - inputs
    return workspace.run("ops/flow", params=params)


def test_a_node_that_forks_a_directive_gets_what_the_thread_gave_and_cost(
    ready: Workspace, server: ModelServer
) -> None:
    graph(ready)
    server.replies = [calls(("echo", {"text": "hi"})), words("It said hi.")]

    result = flow(ready)

    assert result.success, result.error
    assert result.data["output"] == {
        "text": "It said hi.",
        "state": "completed",
        "turns": 2,
        "spend": "0.00",
    }
    (thread_id,) = threads(ready).records.ids()
    assert threads(ready).records.read(thread_id).start.parent == result.data["graph_run_id"]


def test_a_node_without_fork_still_renders_its_directive(
    ready: Workspace, server: ModelServer
) -> None:
    text = GRAPH.format(more="", permissions=ALL).replace("thread: fork", "thread: inline")
    ready.project.signed(
        "tools/ops/flow.yaml", text.replace("result.text", "result.your_directions")
    )

    result = flow(ready)

    assert "Say hi with the tool echo." in result.data["output"]["text"]
    assert not server.requests


def test_a_stopped_thread_fails_its_step_with_the_code_of_the_limit_and_is_not_repeated(
    ready: Workspace, server: ModelServer
) -> None:
    directive(ready, limits='<limits turns="1"/>')
    graph(ready, more="retry: {max: 3, delay: 0.01}")
    server.always = calls(("echo", {"text": "hi"}))

    result = flow(ready)

    assert not result.success
    assert len(server.requests) == 1
    assert len(threads(ready).records.ids()) == 1
    assert "turns" in str(result.error)


def test_a_provider_that_is_down_is_no_reason_for_a_graph_to_begin_the_thread_again(
    ready: Workspace, server: ModelServer
) -> None:
    graph(ready, more="retry: {max: 3, delay: 0.01}\n      on_error: done")
    server.always = refused(400, {"error": {"message": "connection refused, timed out"}})

    flow(ready)

    assert len(threads(ready).records.ids()) == 1


def test_what_a_thread_of_a_node_calls_needs_the_permission_of_the_graph_too(
    ready: Workspace, server: ModelServer
) -> None:
    graph(ready, permissions='["rye.execute.directive.*"]')
    server.replies = [calls(("echo", {"text": "hi"})), words("I may not.")]

    result = flow(ready)

    assert result.success, result.error
    assert "no tool 'echo'" in json.dumps(server.requests[1]["messages"][-1])


def test_a_foreach_forks_a_thread_for_each_element(ready: Workspace, server: ModelServer) -> None:
    text = """
    version: "1.0.0"
    tool_type: graph
    executor_id: rye/core/runtimes/state-graph/runtime
    category: ops
    description: A test
    permissions: ["rye.execute.*"]
    config:
      start: each
      nodes:
        each:
          type: foreach
          over: "${inputs.names}"
          as: name
          parallel: true
          action: {item_id: "directive:ops/say", params: {what: "${name}"}, thread: fork}
          collect: said
          next: done
        done:
          type: return
          output: {said: "${state.said}"}
    """
    ready.project.signed("tools/ops/flow.yaml", text)
    server.always = words("done")

    result = flow(ready, names=["a", "b", "c"])

    assert [one["text"] for one in result.data["output"]["said"]] == ["done", "done", "done"]
    asked = sorted(json.dumps(one["messages"]) for one in server.requests)
    assert [f"Say {name} with" in text for name, text in zip("abc", asked, strict=True)]


def test_a_thread_that_a_kill_cut_off_goes_on_when_its_graph_does(
    ready: Workspace, server: ModelServer
) -> None:
    class KilledError(BaseException):
        """As a kill."""

    def die(kind: str, _facts: object) -> None:
        if kind == "returned":
            raise KilledError

    server.replies = [calls(("echo", {"text": "hi"})), words("done")]
    wish = ThreadWish(parameters={"what": "hi"}, parent="flow-run-1")
    killed = AgentThreads(ready.rye())
    with pytest.raises(KilledError):
        killed.start(Reference(Kind.DIRECTIVE, "ops/say"), wish, Following(event=die))
    found = threads(ready)

    same = found.cut_off(Reference(Kind.DIRECTIVE, "ops/say"), wish)
    other = ThreadWish(parameters={"what": "ho"}, parent="flow-run-1")
    stranger = ThreadWish(parameters={"what": "hi"}, parent="flow-run-2")

    assert same == found.records.ids()[0]
    assert not found.cut_off(Reference(Kind.DIRECTIVE, "ops/say"), other)
    assert not found.cut_off(Reference(Kind.DIRECTIVE, "ops/say"), stranger)
    assert found.taken_up(same, Following()).envelope["state"] == "completed"
    assert not found.cut_off(Reference(Kind.DIRECTIVE, "ops/say"), wish)


def test_what_a_person_went_on_with_is_the_result_of_its_graph_once(
    ready: Workspace, server: ModelServer
) -> None:
    class KilledError(BaseException):
        """As a kill."""

    def die(kind: str, _facts: object) -> None:
        if kind == "returned":
            raise KilledError

    server.replies = [calls(("echo", {"text": "hi"})), words("done")]
    wish = ThreadWish(parameters={"what": "hi"}, parent="flow-run-1")
    with pytest.raises(KilledError):
        AgentThreads(ready.rye()).start(
            Reference(Kind.DIRECTIVE, "ops/say"), wish, Following(event=die)
        )
    found = threads(ready)
    (thread_id,) = found.records.ids()
    found.resume(thread_id)

    same = threads(ready).cut_off(Reference(Kind.DIRECTIVE, "ops/say"), wish)
    answer = threads(ready).taken_up(same, Following())

    assert same == thread_id
    assert (answer.envelope["state"], answer.envelope["text"]) == ("completed", "done")
    assert len(server.requests) == 2
    assert not threads(ready).cut_off(Reference(Kind.DIRECTIVE, "ops/say"), wish)


def test_a_graph_does_not_begin_what_another_process_goes_on_with(
    ready: Workspace, server: ModelServer
) -> None:
    wish = ThreadWish(parameters={"what": "hi"}, parent="flow-run-1")
    journal = threads(ready).begin(Reference(Kind.DIRECTIVE, "ops/say"), wish)

    with journal, pytest.raises(RyeError, match="another process") as refusal:
        threads(ready).cut_off(Reference(Kind.DIRECTIVE, "ops/say"), wish)

    assert refusal.value.code == "CONFLICT"
