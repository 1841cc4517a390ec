"""Resumed runs: their node, their state, and refusals."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any

import pytest

from lillux.cancellation import Cancellation
from lillux.process.states import start_token
from ryeos.graph.call import Lineage
from ryeos.graph.options import Options
from ryeos.graph.progress import Position
from ryeos.graph.recording import RunNaming, WorkspaceRecordings
from ryeos.graph.run_ledger import Ledger
from ryeos.graph.run_places import run_place
from ryeos.graph.runner import StepEvent
from ryeos.items.errors import RyeError
from tests.support.errors import coded
from tests.support.graph_runs import GraphGround
from tests.support.graph_walks import gate, nodes

COUNT = """
config:
  start: a
  max_steps: 4
  nodes:
    a: {type: gate, assign: {n: "${inputs.n}"}, next: b}
    b: {type: gate, assign: {m: "${state.n}"}, next: c}
    c: {type: gate, next: d}
    d: {type: gate, next: e}
    e: {type: gate, next: f}
    f: {type: gate, next: done}
    done: {type: return, output: {n: "${inputs.n}", m: "${state.m}"}}
"""
FLAG = """
config:
  start: a
  on_error: continue
  nodes:
    a: {action: {item_id: "tool:demo/square", params: {n: -1}}, next: b}
    b:
      action: {item_id: "tool:demo/needs_flag"}
      next: done
    done: {type: return, output: {n: "${inputs.n}"}}
  hooks: [{event: error, condition: {path: node, value: b}, action: fail}]
"""


def failed(ground: GraphGround, text: str = FLAG, **params: Any) -> str:  # noqa: ANN401 - inputs
    """The id of a run that has failed."""
    ground.graph("demo/g", text)
    data = ground.run("demo/g", params)
    assert not data["success"]
    return str(data["graph_run_id"])


def resumed(ground: GraphGround, run_id: str, **params: Any) -> dict[str, Any]:  # noqa: ANN401
    return ground.run("demo/g", {"resume_run_id": run_id, **params}, rye=ground.fresh())


def test_a_run_that_took_too_many_steps_continues_with_as_many_again(ground: GraphGround) -> None:
    run_id = failed(ground, COUNT, n=5)

    data = resumed(ground, run_id)

    assert (data["status"], data["steps"], data["output"]) == ("completed", 7, {"n": 5, "m": 5})
    assert ground.happened(run_id).count("step_started") == 7


def test_a_resumed_run_may_be_given_another_limit(ground: GraphGround) -> None:
    run_id = failed(ground, COUNT, n=5)

    data = resumed(ground, run_id, max_steps=1)

    assert (data["error"], data["steps"]) == ("Max steps exceeded (1)", 5)
    assert resumed(ground, run_id)["status"] == "completed"


def test_ignored_errors_are_kept(ground: GraphGround) -> None:
    run_id = failed(ground)
    (ground.project / "flag").touch()

    data = resumed(ground, run_id)

    assert (data["status"], data["errors_suppressed"]) == ("completed_with_errors", 1)
    assert data["errors"] == [{"step": 1, "node": "a", "error": "negative: -1"}]


def test_inputs_of_a_resumed_run_are_those_of_the_first(ground: GraphGround) -> None:
    run_id = failed(ground, n=1)
    (ground.project / "flag").touch()

    assert resumed(ground, run_id, n=2)["output"] == {"n": 1}


def test_inputs_may_be_laid_over_the_first(ground: GraphGround) -> None:
    run_id = failed(ground, n=1, other="x")
    (ground.project / "flag").touch()

    data = resumed(ground, run_id, n=2, override_inputs=True)

    assert data["output"] == {"n": 2}


def test_inputs_that_are_laid_over_the_first_are_judged(ground: GraphGround) -> None:
    schema = "config_schema: {type: object, properties: {n: {type: integer}}}"
    run_id = failed(ground, schema + FLAG, n=1)

    refused = ground.refusal("demo/g", {"resume_run_id": run_id, "n": "x", "override_inputs": True})

    assert refused == 'Input validation failed: /n: expected integer, found string "x"'


def test_state_may_be_laid_over_that_of_the_run(ground: GraphGround) -> None:
    ground.graph("demo/g", COUNT.replace('{n: "${inputs.n}", m', '{extra: "${state.extra}", m'))
    run_id = ground.run("demo/g", {"n": 5})["graph_run_id"]

    data = resumed(ground, run_id, inject_state={"extra": 9})

    assert data["output"] == {"extra": 9, "m": 5}


@pytest.mark.parametrize("odd", [{"_retries": "odd"}, {"_last_error": [1]}])
def test_useless_state_does_no_harm(odd: dict[str, Any], ground: GraphGround) -> None:
    run_id = failed(ground, n=1)
    (ground.project / "flag").touch()

    data = resumed(ground, run_id, inject_state=odd, override_inputs=True)

    assert data["success"]


def test_a_run_of_a_changed_graph_is_resumed_only_by_force(ground: GraphGround) -> None:
    run_id = failed(ground, n=1)
    (ground.project / "flag").touch()
    ground.graph("demo/g", FLAG.replace('output: {n: "${inputs.n}"}', "output: changed"))

    refused = ground.refusal("demo/g", {"resume_run_id": run_id}, rye=ground.fresh())
    forced = resumed(ground, run_id, force=True)

    assert "changed" in refused
    assert forced["output"] == "changed"


def test_changes_that_do_not_concern_a_run_are_allowed(ground: GraphGround) -> None:
    run_id = failed(ground, n=1)
    (ground.project / "flag").touch()
    ground.graph("demo/g", "# A comment.\n" + FLAG)

    assert resumed(ground, run_id)["output"] == {"n": 1}


def test_a_run_at_a_removed_node_is_not_resumed(ground: GraphGround) -> None:
    run_id = failed(ground, n=1)
    ground.graph("demo/g", FLAG.replace(" b:", " bb:").replace("next: b}", "next: bb}"))

    refused = ground.refusal("demo/g", {"resume_run_id": run_id, "force": True}, rye=ground.fresh())

    assert refused == "Target node 'b' not found in graph"
    assert ground.thread(run_id).status == "error"


def test_a_run_of_another_graph_is_not_resumed(ground: GraphGround) -> None:
    run_id = failed(ground, n=1)
    ground.graph("demo/other", FLAG)

    refused = ground.refusal("demo/other", {"resume_run_id": run_id})

    assert "demo/g" in refused
    assert ground.thread(run_id).status == "error"


def test_a_run_that_a_user_works_on_is_left_alone(ground: GraphGround) -> None:
    ground.graph("demo/g", COUNT)
    seen: list[str] = []

    class Watching(list[StepEvent]):
        def append(self, event: StepEvent) -> None:
            if event.what == "started" and event.node == "b":
                seen.append(
                    ground.refusal("demo/g", {"resume_run_id": "mine-1"}, rye=ground.fresh())
                )

    ground.events = Watching()
    data = ground.run("demo/g", {"n": 1, "graph_run_id": "mine-1", "max_steps": 9})

    assert len(seen) == 1
    assert "mine-1" in seen[0]
    assert data["status"] == "completed"
    assert ground.thread("mine-1").status == "completed"


def test_a_run_of_another_process_that_lives_is_left_alone(ground: GraphGround) -> None:
    run_id = failed(ground, n=1)
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as other:
        ground.fresh().threads.reopen(run_id, other.pid, start_token(other.pid))

        refused = ground.refusal("demo/g", {"resume_run_id": run_id})

        assert other.stdin is not None
        other.stdin.close()

    assert run_id in refused
    (ground.project / "flag").touch()
    assert resumed(ground, run_id)["output"] == {"n": 1}  # now that it has died


def test_of_two_that_resume_a_run_one_succeeds(ground: GraphGround) -> None:
    run_id = failed(ground, n=1)
    (ground.project / "flag").touch()
    ready = Barrier(2)

    def resume() -> Mapping[str, Any]:
        rye = ground.fresh()
        ready.wait()
        return ground.answer("demo/g", {"resume_run_id": run_id}, rye=rye).envelope

    with ThreadPoolExecutor(2) as pool:
        tries = [pool.submit(resume) for _ in range(2)]
        envelopes = [one.result() for one in tries]

    assert sorted(envelope["status"] for envelope in envelopes) == ["error", "success"]
    assert (ground.project / "attempts").read_text("utf-8") == "xx"
    assert ground.thread(run_id).status == "completed_with_errors"


def test_a_cancelled_run_is_resumed_at_its_unfinished_node(ground: GraphGround) -> None:
    ground.graph("demo/g", COUNT)
    cancellation = Cancellation()

    class Ending(list[StepEvent]):
        def append(self, event: StepEvent) -> None:
            if event.what == "finished" and event.node == "b":
                cancellation.cancel()

    ground.events = Ending()
    data = ground.run("demo/g", {"n": 5, "max_steps": 9}, cancellation=cancellation)
    ground.events = []

    run_id = data["graph_run_id"]
    assert (data["status"], data["steps"]) == ("cancelled", 2)
    assert ground.thread(run_id).status == "cancelled"
    rest = resumed(ground, run_id, max_steps=9)
    assert (rest["status"], rest["steps"], rest["output"]) == ("completed", 7, {"n": 5, "m": 5})
    assert next(event.node for event in ground.events if event.what == "started") == "c"


def test_a_run_that_was_cancelled_before_it_began_has_made_no_step(ground: GraphGround) -> None:
    ground.graph("demo/g", COUNT)
    cancellation = Cancellation()
    cancellation.cancel()

    data = ground.run("demo/g", {"n": 5}, cancellation=cancellation)

    assert (data["status"], data["steps"]) == ("cancelled", 0)


def test_the_process_of_a_run_is_this_one(ground: GraphGround) -> None:
    run_id = failed(ground, n=1)

    assert ground.thread(run_id).pid == os.getpid()


NARROW = """
config:
  start: a
  nodes:
    a: {action: {item_id: "tool:demo/needs_flag"}, next: b}
    b:
      action: {item_id: "tool:demo/add", params: {a: 1, b: 2}}
      assign: {n: "${result.sum}"}
      next: done
    done: {type: return, output: "${state.n}"}
"""
ONLY_THE_FLAG = ["rye.execute.tool.demo.needs_flag"]


def test_a_run_that_its_caller_narrowed_stays_narrow(ground: GraphGround) -> None:
    run_id = failed(ground, NARROW, capabilities=ONLY_THE_FLAG)
    (ground.project / "flag").touch()

    data = resumed(ground, run_id)

    assert (data["node"], data["error"]) == (
        "b",
        "Permission denied: 'rye.execute.tool.demo.add' not covered by capabilities",
    )
    assert resumed(ground, run_id)["node"] == "b"


def test_a_run_continues_with_the_current_permissions_of_its_graph(ground: GraphGround) -> None:
    (ground.project / "flag").touch()
    ground.graph("demo/g", NARROW, permissions=json.dumps(ONLY_THE_FLAG))
    run_id = str(ground.run("demo/g")["graph_run_id"])
    ground.graph("demo/g", NARROW)

    assert resumed(ground, run_id)["output"] == 3


def test_a_run_does_not_go_deeper_than_it_might_at_first(ground: GraphGround) -> None:
    ground.graph("demo/inner", "config: {start: a, nodes: {a: {type: return, output: 1}}}")
    text = NARROW.replace("tool:demo/add", "tool:demo/inner")
    run_id = failed(ground, text, depth=0)
    (ground.project / "flag").touch()

    assert "Max depth exceeded" in resumed(ground, run_id)["error"]


@pytest.mark.parametrize("text", [None, "{}"])
def test_a_run_whose_grants_are_lost_does_not_go_on(text: str | None, ground: GraphGround) -> None:
    run_id = failed(ground, NARROW, capabilities=ONLY_THE_FLAG)
    path = ground.project / ".ai" / "state" / "threads" / run_id / "grants.json"
    path.unlink() if text is None else path.write_text(text, "utf-8")

    refused = ground.refusal("demo/g", {"resume_run_id": run_id})

    assert refused.startswith(f"Permission denied: cannot resume {run_id}: ")


def test_a_run_that_was_resumed_meanwhile_is_not_begun_where_it_was(
    ground: GraphGround,
) -> None:
    run_id = failed(ground, COUNT, n=5)
    rye = ground.fresh()
    ledger = Ledger(rye.threads, rye.runner_seals, run_place(rye.context.spaces))
    recordings = WorkspaceRecordings(rye, ledger, RunNaming(), lambda: "")
    saved = recordings.load(run_id)
    read = Position(node=str(saved.node), state=saved.state, step=saved.step)

    resumed(ground, run_id, max_steps=1)

    options = Options(resume=True, run_id=run_id)
    with pytest.raises(RyeError, check=coded("CONFLICT"), match="another process has gone on"):
        recordings.begin(nodes(a=gate()), saved.graph_hash, read, options, Lineage())
    assert resumed(ground, run_id, max_steps=9)["success"]
