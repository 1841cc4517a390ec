"""Runs of graphs that are killed by ``kill -9`` at any time and resumed, with the built file."""

import os
import signal
import subprocess
from collections import Counter
from pathlib import Path
from random import Random

import pytest

from tests.support.built import Machine
from tests.support.endings import wait_until
from tests.support.graph_machine import STEPS, Gate, GraphMachine, a_line
from tests.support.mcp_client import is_running

pytestmark = [
    pytest.mark.heavy,
    pytest.mark.e2e,
    pytest.mark.skipif(os.name == "nt", reason="the tools of these tests are for POSIX"),
]

WORDS = [f"n{number}" for number in range(1, STEPS)]
SEEN = "".join(f" {word}" for word in WORDS)


@pytest.fixture
def graphs(machine: Machine) -> GraphMachine:
    """A machine with a line of ten nodes."""
    made = GraphMachine(machine)
    made.graph("line", a_line())
    return made


def killed_at(graphs: GraphMachine, word: str, *command: str) -> str:
    """The id of a run whose process was killed while it called with that word."""
    gate = Gate(graphs, word)
    walking = graphs.started(*command)
    gate.await_call()
    walking.kill()
    walking.communicate()
    gate.remove()
    return graphs.runs()[0]


@pytest.mark.parametrize("word", WORDS)
def test_a_run_that_is_killed_at_a_step_goes_on_at_that_step(
    word: str, graphs: GraphMachine
) -> None:
    run_id = killed_at(graphs, word, "graph", "run", "t/line", "who=ann", "-q")
    before = WORDS[: WORDS.index(word)]
    assert (graphs.log, graphs.completed(run_id)) == (before, before)
    assert graphs.run_json("threads", "show", run_id)[1]["thread"]["status"] == "error"

    status, answer = graphs.run_json("graph", "resume", run_id)

    assert (status, answer["status"]) == (0, "success")
    assert answer["data"]["output"] == {"seen": SEEN, "who": "ann"}
    assert (answer["data"]["steps"], answer["data"]["graph_run_id"]) == (STEPS, run_id)
    assert graphs.log == WORDS
    assert graphs.completed(run_id) == [*WORDS, f"n{STEPS}"]


def test_a_run_that_is_killed_again_and_again_completes(graphs: GraphMachine) -> None:
    run_id = killed_at(graphs, "n1", "graph", "run", "t/line", "who=ann", "-q")
    for word in WORDS[1:]:
        assert killed_at(graphs, word, "graph", "resume", run_id, "-q") == run_id

    _, answer = graphs.run_json("graph", "resume", run_id)

    assert answer["data"]["output"] == {"seen": SEEN, "who": "ann"}
    assert graphs.log == WORDS


@pytest.mark.parametrize("seed", range(12))
def test_a_run_that_is_killed_at_any_time_repeats_no_completed_step(
    seed: int, graphs: GraphMachine
) -> None:
    walking = graphs.started("graph", "run", "t/line", "who=ann", "-q")
    transcripts = graphs.state / "graphs"
    # Anywhere from the first byte of the transcript to its last: at a number of bytes, not a time.
    size = Random(seed).randrange(1, 14_000)  # noqa: S311 - no secret
    wait_until(lambda: _size(transcripts) >= size or walking.poll() is not None)
    walking.kill()
    walking.communicate()
    (run_id,) = graphs.runs()
    before = graphs.completed(run_id)

    status, answer = graphs.run_json("graph", "resume", run_id)

    if before[-1:] == [f"n{STEPS}"] and status:
        assert "already completed" in answer["error"]
        return
    assert answer["data"]["output"] == {"seen": SEEN, "who": "ann"}
    counted = Counter(graphs.log)
    assert counted.keys() == set(WORDS)
    assert all(counted[word] == 1 for word in before if word in WORDS)
    assert sum(counted.values()) <= len(WORDS) + 1  # the step that was being taken


def _size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.glob("*/transcript.jsonl"))


def test_a_call_of_a_killed_run_does_not_go_on_beside_the_resumed_one(
    graphs: GraphMachine,
) -> None:
    gate = Gate(graphs, "n2")
    walking = graphs.started("graph", "run", "t/line", "who=ann", "-q")
    gate.await_call()
    walking.kill()
    walking.communicate()

    resuming = graphs.started("graph", "resume", graphs.runs()[0], "--json")
    gate.await_call()  # the new call; the old one would have read the word below
    gate.open()
    stdout, _ = resuming.communicate()

    assert resuming.returncode == 0, stdout
    assert graphs.log == WORDS


def test_a_foreach_is_made_again_as_a_whole(graphs: GraphMachine) -> None:
    graphs.graph(
        "fan",
        {
            "start": "before",
            "nodes": {
                "before": {
                    "action": {"item_id": "tool:t/note", "params": {"word": "before"}},
                    "next": "fan",
                },
                "fan": {
                    "type": "foreach",
                    "over": ["a", "b", "c"],
                    "as": "word",
                    "collect": "made",
                    "action": {"item_id": "tool:t/note", "params": {"word": "${word}"}},
                    "next": "done",
                },
                "done": {"type": "return", "output": {"made": "${state.made | length}"}},
            },
        },
    )
    run_id = killed_at(graphs, "b", "graph", "run", "t/fan", "-q")

    _, answer = graphs.run_json("graph", "resume", run_id)

    assert answer["data"]["output"] == {"made": 3}
    assert graphs.log == ["before", "a", "a", "b", "c"]


def test_a_run_that_is_killed_while_it_waits_to_retry_goes_on(graphs: GraphMachine) -> None:
    graphs.command("fragile", "echo tried >> log; test -e flag && echo fine")
    node = {
        "action": {"item_id": "tool:t/fragile"},
        "retry": {"max": 3, "delay": 600},
        "next": "done",
    }
    done = {"type": "return", "output": {"who": "${inputs.who}"}}
    graphs.graph("patient", {"start": "try", "nodes": {"try": node, "done": done}})
    walking = graphs.started("graph", "run", "t/patient", "who=ann", "-q")
    wait_until(lambda: graphs.log == ["tried"])
    walking.kill()
    walking.communicate()
    (graphs.project / "flag").touch()

    _, answer = graphs.run_json("graph", "resume", graphs.runs()[0])

    assert answer["data"]["output"] == {"who": "ann"}
    assert graphs.log == ["tried", "tried"]


def test_of_two_resumes_at_once_one_is_refused(graphs: GraphMachine) -> None:
    run_id = killed_at(graphs, "n5", "graph", "run", "t/line", "who=ann", "-q")

    resuming = [graphs.started("graph", "resume", run_id, "--json") for _ in range(4)]
    said = [process.communicate() for process in resuming]

    statuses = sorted(process.returncode for process in resuming)
    assert statuses[0] == 0, said
    assert graphs.log == WORDS
    refused = [out for out, _ in said if '"status": "success"' not in out]
    assert len(refused) == 3
    assert all('"code": "CONFLICT"' in out for out in refused), refused


# --- in the background ----------------------------------------------------------------------------


def in_background(graphs: GraphMachine, gate: Gate) -> tuple[str, int]:
    """The id and the process of a detached run, whose call waits at the gate."""
    _, answer = graphs.run_json("graph", "run", "t/line", "who=ann", "--async")
    gate.await_call()
    return answer["thread_id"], answer["pid"]


def test_a_detached_run_continues_without_its_parent(graphs: GraphMachine) -> None:
    gate = Gate(graphs, "n4")
    run_id, _ = in_background(graphs, gate)

    gate.open()
    status, waited = graphs.run_json("threads", "wait", run_id)

    assert status == 0
    assert waited["threads"][0]["result"]["data"]["output"] == {"seen": SEEN, "who": "ann"}
    assert waited["threads"][0]["result"]["data"]["graph_run_id"] == run_id


def test_a_detached_run_that_is_killed_is_reported_as_failed_and_goes_on(
    graphs: GraphMachine,
) -> None:
    gate = Gate(graphs, "n4")
    run_id, pid = in_background(graphs, gate)

    os.kill(pid, signal.SIGKILL)
    status, waited = graphs.run_json("threads", "wait", run_id)

    assert (status, waited["threads"][0]["error"]) == (1, "the runner ended without a result")
    gate.remove()
    _, answer = graphs.run_json("graph", "resume", run_id)
    assert answer["data"]["output"] == {"seen": SEEN, "who": "ann"}
    assert graphs.log == WORDS


def test_a_detached_run_that_is_ended_can_go_on_and_be_ended_there(graphs: GraphMachine) -> None:
    gate = Gate(graphs, "n4")
    run_id, _ = in_background(graphs, gate)
    _, killed = graphs.run_json("threads", "kill", run_id)
    assert (killed["killed"], killed["thread"]["status"]) == (True, "killed")

    resuming = graphs.started("graph", "resume", run_id, "--json")
    gate.await_call()
    _, cancelled = graphs.run_json("threads", "kill", run_id)
    resuming.communicate()

    assert (cancelled["killed"], cancelled["thread"]["status"]) == (True, "cancelled")
    assert resuming.returncode == 130
    gate.remove()
    assert graphs.run_json("graph", "resume", run_id)[0] == 0
    assert graphs.log == WORDS


# --- signals --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP"])
def test_a_signal_ends_the_run_and_its_call_and_it_can_go_on(
    name: str, graphs: GraphMachine
) -> None:
    gate = Gate(graphs, "n3")
    walking = graphs.started("graph", "run", "t/line", "who=ann", "--json")
    gate.await_call()
    (call,) = _children(walking.pid)

    walking.send_signal(getattr(signal, name))
    stdout, _ = walking.communicate()

    assert (walking.returncode, '"code": "CANCELLED"' in stdout) == (130, True)
    assert not is_running(call)
    (run_id,) = graphs.runs()
    assert graphs.run_json("threads", "show", run_id)[1]["thread"]["status"] == "cancelled"
    gate.remove()
    assert graphs.run_json("graph", "resume", run_id)[1]["data"]["output"]["who"] == "ann"
    assert graphs.log == WORDS


def _children(pid: int) -> list[int]:
    argv = ["ps", "-A", "-o", "pid=,ppid="]
    rows = subprocess.run(argv, capture_output=True, check=True, encoding="ascii").stdout
    pairs = [line.split() for line in rows.splitlines()]
    return [int(one) for one, parent in pairs if int(parent) == pid]


def test_a_run_that_has_completed_does_not_go_on(graphs: GraphMachine) -> None:
    _, answer = graphs.run_json("graph", "run", "t/line", "who=ann")
    run_id = answer["data"]["graph_run_id"]

    status, refused = graphs.run_json("graph", "resume", run_id)

    assert status == 1
    assert refused["error"] == f"Cannot resume {run_id}: already completed (completed)"
    assert graphs.log == WORDS


def test_a_run_of_a_changed_graph_is_resumed_only_by_force(graphs: GraphMachine) -> None:
    run_id = killed_at(graphs, "n5", "graph", "run", "t/line", "who=ann", "-q")
    graphs.graph("line", a_line() | {"max_steps": 50})

    _, refused = graphs.run_json("graph", "resume", run_id)
    status, answer = graphs.run_json("graph", "resume", run_id, "--force")

    assert f"Cannot resume {run_id}: the graph has changed since" in refused["error"]
    assert (status, answer["data"]["output"]["seen"]) == (0, SEEN)
