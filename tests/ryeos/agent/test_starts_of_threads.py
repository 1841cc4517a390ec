"""How a thread starts: what is checked before, what it is told of its limits, what a child gets."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from lillux.values import replace
from ryeos.agent.limits import read_limits
from ryeos.agent.thread_state import AgentThread
from ryeos.app.thread_log import Following
from ryeos.app.thread_workspace import ThreadWish
from ryeos.graph.transcript import EventRecord
from ryeos.items.errors import Answer, RyeError
from ryeos.items.refs import Kind, Reference
from ryeos.run.model import ExecutionRequest, ThreadRequest
from ryeos.run.threads.start import Program
from tests.support.agent_threads import directive, provider, threads
from tests.support.model_server import ModelServer, calls, words
from tests.support.workspace import Workspace

SAY = Reference(Kind.DIRECTIVE, "ops/say")
CHILDREN = "<execute><directive>ops.*</directive><tool>*</tool></execute>"
THREAD_DIRECTIVE = "rye/agent/threads/thread_directive"
GRAPH = """
version: "1.0.0"
tool_type: graph
executor_id: rye/core/runtimes/state-graph/runtime
category: ops
description: A test
permissions: ["rye.execute.*"]
config:
  start: say
  nodes:
    say:
      action: {item_id: "directive:ops/inner", thread: fork}
      next: done
    done: {type: return}
"""


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with ModelServer(always=words("done")) as running:
        yield running


def agent_yaml(workspace: Workspace, text: str) -> str:
    """The path of the user's agent.yaml, which says this."""
    said = f'version: "1.0.0"\ncategory: agent\n{text}\n'
    return str(workspace.user.signed("config/agent/agent.yaml", said))


def request(
    model: str = "", *, parameters: dict[str, Any] | None = None, **limits: object
) -> ExecutionRequest:
    return ExecutionRequest(
        item_id=SAY.id,
        parameters=parameters or {},
        thread=ThreadRequest(model=model, limits=limits),
    )


WRONG: dict[str, ExecutionRequest] = {
    "no such provider": request("nobody/small"),
    "no such model": request("local/large"),
    "no such tier": request("huge"),
    "no price": request("dear/small"),
    "no such limit": request(trns=3),
    "a limit that is no number": request(turns="many"),
    "no such input": request(parameters={"nothing": 1}),
    "an input of another type": request(parameters={"what": {"a": 1}}),
}


@pytest.mark.parametrize("wanted", WRONG.values(), ids=WRONG.keys())
def test_what_is_wrong_is_refused_before_the_start_in_the_background_as_in_the_foreground(
    ready: Workspace, server: ModelServer, wanted: ExecutionRequest
) -> None:
    provider(ready, server.url, name="dear", model="{features: [tools]}")
    rye = ready.rye()
    program = Program(argv=("false",), flags=(), env={}, cwd=ready.project.space.ai)
    found = []
    attempts: tuple[Callable[[], Answer], ...] = (
        lambda: rye.execute(SAY, wanted),
        lambda: rye.execute(SAY, replace(wanted, dry_run=True)),
        lambda: rye.start(SAY, wanted, program),
    )
    for attempt in attempts:
        with pytest.raises(RyeError) as refusal:
            attempt()
        found.append((refusal.value.code, str(refusal.value)))

    assert found[0] == found[1] == found[2]
    assert not threads(ready).records.ids()
    assert not rye.threads.threads()


def test_a_dry_run_says_which_model_limits_and_tools_a_thread_would_have_and_starts_none(
    ready: Workspace, server: ModelServer
) -> None:
    wanted = replace(request(turns=4, spend="0.25"), dry_run=True)

    answer = ready.rye().execute(SAY, wanted)

    facts = answer.envelope["thread"]
    assert answer.envelope["status"] == "validation_passed"
    assert facts["models"] == ["local/small"]
    assert (facts["limits"]["turns"], facts["limits"]["spend"]) == (4, "0.25")
    assert facts["tools"]["echo"] == "tool:ops/echo"
    assert not server.requests
    assert not threads(ready).records.ids()


def test_a_run_on_a_node_is_checked_here_without_the_models_of_this_machine(
    ready: Workspace,
) -> None:
    rye = ready.rye()

    assert rye.check(SAY, request("of-the-node/large")).exit_status == 0
    with pytest.raises(RyeError, match="trns"):
        rye.check(SAY, request("of-the-node/large", trns=3))


def test_a_dry_run_of_the_tool_that_starts_threads_checks_the_thread(ready: Workspace) -> None:
    wanted = {"directive_id": "ops/say", "model": "nobody/small"}

    wrong = ready.rye().execute(f"tool:{THREAD_DIRECTIVE}", wanted, dry_run=True)
    right = ready.rye().execute(
        f"tool:{THREAD_DIRECTIVE}", {"directive_id": "ops/say"}, dry_run=True
    )

    assert (wrong["status"], "nobody" in wrong["error"]) == ("error", True)
    assert right["status"] == "validation_passed"


# --- limits ---------------------------------------------------------------------------------------


def ended(workspace: Workspace, **limits: object) -> Answer:
    wish = ThreadWish(parameters={}, limits=read_limits(limits, "limits"))
    return threads(workspace).start(SAY, wish)


def test_a_limit_above_a_ceiling_is_answered_with_what_holds_and_the_file_of_the_ceiling(
    ready: Workspace,
) -> None:
    path = agent_yaml(ready, "ceilings: {spend: 5, turns: 6}\ndefaults: {spend: 50}")
    told: list[str] = []
    following = Following(event=lambda kind, facts: told.append(f"{kind} {facts.get('problem')}"))
    wish = ThreadWish(parameters={}, limits=read_limits({"spend": 100, "turns": 6}, "limits"))

    answer = threads(ready).start(SAY, wish, following)

    (note,) = answer.envelope["metadata"]["warnings"]
    assert note == f"limit spend: 5.00 holds, not 100.00: it is the ceiling in {path}"
    assert told[0] == f"lowered {note}"
    assert answer.envelope["metadata"]["receipt"]


def test_the_answer_names_a_ceiling_below_the_limit_of_a_directive(ready: Workspace) -> None:
    path = agent_yaml(ready, "ceilings: {turns: 6}")
    directive(ready, limits='<limits turns="9" spend="0.5"/>')

    (note,) = ended(ready).envelope["metadata"]["warnings"]

    assert note == f"limit turns: 6 holds, not 9: it is the ceiling in {path}"


@pytest.mark.parametrize(
    ("header", "why"),
    [("", "the default"), ('<limits turns="4"/>', "the limit of directive:ops/say")],
)
def test_the_answer_says_that_a_caller_only_lowers_where_it_would_raise_a_limit(
    ready: Workspace, header: str, why: str
) -> None:
    directive(ready, limits=header)

    (note,) = ended(ready, turns=500).envelope["metadata"]["warnings"]

    assert note.endswith(f"not 500: it is {why}, which a caller only lowers")


def test_a_limit_that_holds_as_asked_has_no_warning(ready: Workspace) -> None:
    assert "warnings" not in ended(ready, turns=5).envelope["metadata"]


# --- models of children ---------------------------------------------------------------------------


@pytest.fixture
def other(ready: Workspace) -> Iterator[ModelServer]:
    """Another provider, and directives that name the first one."""
    with ModelServer(always=words("done")) as running:
        provider(ready, running.url, name="other")
        directive(ready, permissions=CHILDREN, body="Start.")
        directive(ready, "ops/inner", permissions=CHILDREN, body="Do it.")
        ready.project.signed("tools/ops/flow.yaml", GRAPH)
        yield running


@pytest.mark.parametrize(
    "call",
    [
        ("execute", {"item_id": "directive:ops/inner"}),
        ("execute", {"item_id": "tool:ops/flow"}),
        (
            "execute",
            {"item_id": f"tool:{THREAD_DIRECTIVE}", "parameters": {"directive_id": "ops/inner"}},
        ),
    ],
    ids=["a directive", "a graph that forks", "the tool that starts threads"],
)
def test_the_model_that_a_caller_names_is_asked_by_children_too(
    ready: Workspace, server: ModelServer, other: ModelServer, call: tuple[str, dict[str, Any]]
) -> None:
    other.replies = [calls(call)]

    answer = threads(ready).start(SAY, ThreadWish(parameters={}, model="other/small"))

    assert answer.envelope["state"] == "completed"
    assert answer.envelope["usage"]["spawns"] == 1
    assert len(other.requests) == 3
    assert not server.requests


def test_without_a_model_of_the_caller_a_child_asks_that_of_its_directive(
    ready: Workspace, server: ModelServer, other: ModelServer
) -> None:
    directive(
        ready, "ops/inner", model='<model provider="other" id="small"/>', permissions=CHILDREN
    )
    server.replies = [calls(("execute", {"item_id": "directive:ops/inner"}))]

    threads(ready).start(SAY, ThreadWish(parameters={}))

    assert (len(server.requests), len(other.requests)) == (2, 1)


def test_a_call_that_names_a_model_has_it_instead_of_that_of_its_caller(
    ready: Workspace, server: ModelServer, other: ModelServer
) -> None:
    wanted = {"directive_id": "ops/inner", "model": "local/small"}
    other.replies = [
        calls(("execute", {"item_id": f"tool:{THREAD_DIRECTIVE}", "parameters": wanted}))
    ]

    threads(ready).start(SAY, ThreadWish(parameters={}, model="other/small"))

    assert (len(server.requests), len(other.requests)) == (1, 2)


# --- one read -------------------------------------------------------------------------------------


def test_limits_and_text_of_a_child_are_of_one_read_of_its_directive(
    ready: Workspace, server: ModelServer
) -> None:
    directive(ready, permissions=CHILDREN, body="Start.")
    directive(ready, "ops/inner", limits='<limits turns="2"/>', body="The first text.")
    found = threads(ready)
    parent = found.begin(SAY, ThreadWish(parameters={}, thread_id="parent"))
    write = parent.write

    # As if the file was changed between the purse of the child and its beginning.
    def write_and_change(*events: EventRecord, force: bool = False) -> AgentThread:
        if events[0][0] == "lent":
            directive(ready, "ops/inner", limits='<limits turns="7"/>', body="Another text.")
        return write(*events, force=force)

    parent.write = write_and_change  # type: ignore[method-assign]
    server.replies = [calls(("execute", {"item_id": "directive:ops/inner"}))]

    found.go_on(parent, Following())

    (child,) = [one for one in found.records.ids() if one != "parent"]
    start = found.records.read(child).start
    assert (start.limits.turns, start.question.strip()) == (2, "The first text.")


# --- workers --------------------------------------------------------------------------------------

WORKER = """
    import os

    CONFIG_SCHEMA = {"type": "object", "properties": {}, "additionalProperties": False}


    def execute(params, project_path):
        return {"worker": os.getpid()}
"""
WORKING = """
version: "1.0.0"
tool_type: graph
executor_id: rye/core/runtimes/state-graph/runtime
category: ops
description: A test
permissions: ["rye.execute.*"]
config:
  start: work
  nodes:
    work:
      action: {item_id: "tool:ops/work"}
      assign: {worker: "${result.worker}"}
      next: done
    done: {type: return, output: {worker: "${state.worker}"}}
"""


@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="looks for processes in /proc")
def test_workers_of_a_graph_in_a_thread_end_with_the_workspace_that_ran_the_thread(
    ready: Workspace, server: ModelServer
) -> None:
    ready.project.signed_tool("ops/work", executor="rye/core/runtimes/python/function", body=WORKER)
    ready.project.signed("tools/ops/working.yaml", WORKING)
    directive(ready, permissions="<execute><tool>*</tool></execute>")
    server.replies = [calls(("execute", {"item_id": "tool:ops/working"}))]
    before, rye = children_of_this_process(), ready.rye()

    answer = rye.run_thread("directive:ops/say")
    workers = children_of_this_process() - before
    rye.close()

    assert answer["usage"]["tool_calls"] == 1
    assert workers, "they stay warm"
    assert not workers & children_of_this_process()


def children_of_this_process() -> set[str]:
    """The ids of the processes that this one has started and not waited for."""
    lists = Path(f"/proc/{os.getpid()}/task").glob("*/children")
    return {pid for one in lists for pid in one.read_text("ascii").split()}
