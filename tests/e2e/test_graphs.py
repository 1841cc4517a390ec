"""``rye.pyz graph`` and ``rye.pyz run`` of a graph: answers, lists of steps, exit statuses."""

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.support.built import BASE_PYTHON, Machine
from tests.support.environments import SharedFile
from tests.support.graph_machine import STEPS, Gate, GraphMachine, a_line

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(os.name == "nt", reason="the tools of these tests are for POSIX"),
]

SEEN = "".join(f" n{number}" for number in range(1, STEPS))


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory, built_pyz: Path) -> Machine:
    """A machine with a key and a line of ten nodes, to be copied."""
    machine = Machine(tmp_path_factory.mktemp("prepared"), BASE_PYTHON, built_pyz)
    GraphMachine(machine).graph("line", a_line())
    return machine


@pytest.fixture
def graphs(machine: Machine, prepared: Machine) -> GraphMachine:
    """A machine with a line of ten nodes."""
    for source, target in ((prepared.home, machine.home), (prepared.project, machine.project)):
        shutil.copytree(source, target, symlinks=True, dirs_exist_ok=True)
    return GraphMachine(machine, with_key=False)


# --- run ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", [("run",), ("execute",), ("graph", "run")])
def test_a_graph_gives_its_output(command: tuple[str, ...], graphs: GraphMachine) -> None:
    status, answer = graphs.run_json(*command, "t/line", "who=ann")

    run_id = answer["data"].pop("graph_run_id")
    assert (status, answer["status"], answer["item_id"]) == (0, "success", "t/line")
    assert answer["data"] == {
        "success": True,
        "status": "completed",
        "output": {"seen": SEEN, "who": "ann"},
        "steps": STEPS,
    }
    assert [element["item_id"] for element in answer["chain"]] == [
        "t/line",
        "rye/core/runtimes/state-graph/runtime",
        "rye/core/primitives/state_graph",
    ]
    assert graphs.runs() == [run_id]


def test_steps_are_plain_lines_on_a_pipe(graphs: GraphMachine) -> None:
    ended = graphs.run("graph", "run", "t/line", "who=ann")

    lines = [line.split() for line in ended.stderr.splitlines()]
    assert [line[:3] for line in lines] == [
        [str(number), f"n{number}", "ok"] for number in range(1, STEPS + 1)
    ]
    assert json.loads(ended.stdout)["output"]["who"] == "ann"
    assert "\x1b" not in ended.stderr


@pytest.mark.parametrize("flag", ["-q", "--json"])
def test_steps_can_be_silenced(flag: str, graphs: GraphMachine) -> None:
    ended = graphs.run("graph", "run", "t/line", "who=ann", flag)

    assert (ended.returncode, ended.stderr) == (0, "")
    assert json.loads(ended.stdout)


def on_a_terminal(graphs: GraphMachine, *arguments: str) -> tuple[int, str]:
    """The status of a command, and its standard error, which is a terminal."""
    import pty

    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [*graphs.machine.rye, *arguments],
        env=graphs.machine.environ(TERM="xterm"),
        cwd=graphs.project,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=theirs,
    ) as process:
        os.close(theirs)
        shown = b"".join(iter(lambda: _read(ours), b""))
    os.close(ours)
    return process.returncode, shown.decode("utf-8")


def _read(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, 65536)
    except OSError:  # the other end is closed
        return b""


def test_on_a_terminal_the_step_at_work_is_shown_and_replaced(graphs: GraphMachine) -> None:
    status, shown = on_a_terminal(graphs, "graph", "run", "t/line", "who=ann")

    *lines, rest = shown.split("\r\n")
    last = [line.rpartition("\r\x1b[K")[2] for line in lines]
    assert (status, len(last), rest) == (0, STEPS, "\r\x1b[K")
    assert all("n1" in line and "..." in line for line in lines[0].split("\r\x1b[K")[1:-1])
    assert all("\N{CHECK MARK}" in line for line in last)


def test_a_failed_step_is_reported_and_ends_the_run(graphs: GraphMachine) -> None:
    graphs.command("broken", "echo it broke >&2; exit 3")
    graphs.graph(
        "fails", {"start": "one", "nodes": {"one": {"action": {"item_id": "tool:t/broken"}}}}
    )

    ended = graphs.run("graph", "run", "t/fails")
    status, answer = graphs.run_json("graph", "run", "t/fails")

    assert (ended.returncode, status) == (1, 1)
    assert ended.stderr.splitlines()[0].split()[:3] == ["1", "one", "error"]
    assert ended.stderr.splitlines()[-1] == "error: it broke"
    assert (answer["status"], answer["error"]) == ("error", "it broke")
    assert (answer["data"]["status"], answer["data"]["node"]) == ("error", "one")


def test_an_error_that_the_graph_goes_on_after_is_counted(graphs: GraphMachine) -> None:
    graphs.command("broken", "echo it broke >&2; exit 3")
    nodes = {"one": {"action": {"item_id": "tool:t/broken"}}}
    graphs.graph("goes-on", {"start": "one", "on_error": "continue", "nodes": nodes})

    status, answer = graphs.run_json("graph", "run", "t/goes-on")
    _, listed = graphs.run_json("threads", "list")

    assert (status, answer["data"]["status"]) == (0, "completed_with_errors")
    assert answer["data"]["errors_suppressed"] == 1
    assert listed["threads"][0]["status"] == "completed_with_errors"


@pytest.mark.heavy
def test_a_run_ends_at_its_time_limit(graphs: GraphMachine) -> None:
    graphs.command("sleeps", "sleep 600")
    graphs.graph(
        "slow", {"start": "one", "nodes": {"one": {"action": {"item_id": "tool:t/sleeps"}}}}
    )

    status, answer = graphs.run_json("graph", "run", "t/slow", "--timeout", "0.5")

    assert (status, answer["code"]) == (124, "TIMEOUT")
    assert answer["error"] == "the graph timed out after 0.5 seconds"


def test_a_graph_that_never_ends_is_ended_at_its_limit(graphs: GraphMachine) -> None:
    nodes = {"again": {"type": "gate", "next": "again"}}
    graphs.graph("circle", {"start": "again", "max_steps": 7, "nodes": nodes})

    status, answer = graphs.run_json("graph", "run", "t/circle")

    assert (status, answer["error"]) == (1, "Max steps exceeded (7)")


def test_a_dry_run_starts_nothing(graphs: GraphMachine) -> None:
    status, answer = graphs.run_json("run", "t/line", "who=ann", "--dry-run")

    assert (status, answer["status"]) == (0, "validation_passed")
    assert graphs.log == []
    assert not (graphs.state / "graphs").exists()
    assert not (graphs.state / "threads").exists()


def test_a_trace_is_part_of_the_answer(graphs: GraphMachine) -> None:
    status, answer = graphs.run_json("run", "t/line", "who=ann", "--trace")

    assert (status, bool(answer["trace"])) == (0, True)


# --- refusals -------------------------------------------------------------------------------------


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (("graph", "rnu", "t/line"), 2, "did you mean"),
        (("graph", "run"), 2, "REF"),
        (("graph", "run", "t/lime"), 3, "did you mean tool:t/line?"),
        (("graph", "show", "t/lime"), 3, "did you mean tool:t/line?"),
        (("graph", "step", "t/line", "n11"), 6, "did you mean n1"),
        (("graph", "resume", "nothing"), 3, "thread not found: nothing"),
        (("graph", "resume", "x", "who=ben"), 2, "--override-inputs"),
        (("graph", "show", "t/line", "--dot", "--svg"), 2, "expected one of them"),
        (("graph", "run", "t/line", "max_steps:=0"), 6, "max_steps"),
        (("graph", "run", "t/line", "graph_run_id=../../x"), 2, "x"),
        (("graph", "run", "t/line", "graph_run_id=a/b"), 2, "a/b"),
        (("graph", "run", "t/line", "--timeout", "-1"), 2, "--timeout"),
        (("graph", "run", "t/note", "word=x"), 2, "t/note: expected a graph"),
        (("graph", "step", "t/note", "word", "word=x"), 2, "t/note: expected a graph"),
    ],
)
def test_a_mistake_is_reported(
    arguments: tuple[str, ...], status: int, said: str, graphs: GraphMachine
) -> None:
    ended = graphs.run(*arguments)

    assert (ended.returncode, "Traceback" in ended.stderr) == (status, False), ended.stderr
    assert ended.stderr.startswith("error: ")
    assert said in ended.stderr
    assert graphs.log == []


def test_a_thread_that_is_no_run_of_a_graph_does_not_go_on(graphs: GraphMachine) -> None:
    thread_id = graphs.run("run", "t/note", "word=x", "--async", "-q").stdout.strip()
    graphs.run("threads", "wait", thread_id)

    ended = graphs.run("graph", "resume", thread_id)

    assert (ended.returncode, graphs.log) == (2, ["x"])
    assert ended.stderr.startswith("error: tool:t/note: expected a graph\n")


def test_an_unsigned_graph_does_not_run_and_can_be_shown(graphs: GraphMachine) -> None:
    path = graphs.project / ".ai" / "tools" / "t" / "line.yaml"
    path.write_text(path.read_text("utf-8").partition("\n")[2], "utf-8")

    assert graphs.run("graph", "run", "t/line").returncode == 4
    assert graphs.run("graph", "validate", str(path)).returncode == 0


def test_a_wrong_graph_reports_all_its_problems(graphs: GraphMachine) -> None:
    with pytest.raises(AssertionError, match="there is no node 'tow'"):  # it is not signed
        graphs.graph("wrong", {"start": "on", "nodes": {"one": {"type": "gate", "next": "tow"}}})
    path = str(graphs.machine.project / ".ai/tools/t/wrong.yaml")

    status, answer = graphs.run_json("graph", "validate", path)

    assert (status, len(answer["errors"])) == (1, 2)
    assert graphs.run_json("graph", "validate", "t/line")[0] == 0


# --- pictures -------------------------------------------------------------------------------------

FORMS = {"--mermaid": "flowchart", "--dot": "digraph", "--svg": "<svg"}


@pytest.mark.heavy
@pytest.mark.parametrize(("form", "begin"), FORMS.items())
def test_a_picture_shows_how_far_a_run_came(form: str, begin: str, graphs: GraphMachine) -> None:
    gate = Gate(graphs, "n3")
    walking = graphs.started("graph", "run", "t/line", "-q")
    gate.await_call()
    (run_id,) = graphs.runs()

    shown = graphs.run("graph", "show", "t/line", "--run", run_id, form)
    _, listed = graphs.run_json("graph", "show", "t/line", "--run", run_id)
    walking.kill()
    walking.communicate()
    _, after = graphs.run_json("graph", "show", "t/line", "--run", run_id)

    assert (shown.returncode, begin in shown.stdout) == (0, True)
    assert all(word in shown.stdout for word in ("completed", "running", "pending"))
    states = [node["state"] for node in listed["nodes"]]
    assert states == ["completed"] * 2 + ["running"] + ["pending"] * 7
    assert [node["state"] for node in after["nodes"]][2] == "error"
    graphs.run("threads", "kill", run_id)


# --- single steps ---------------------------------------------------------------------------------


def test_a_step_works_on_one_node(graphs: GraphMachine) -> None:
    given = json.dumps({"seen": "before"})
    status, answer = graphs.run_json("graph", "step", "t/line", "n4", "who=ann", "--state", given)

    data = answer["data"]
    assert (status, data["executed_node"], data["next_node"]) == (0, "n4", "n5")
    assert data["state"]["seen"] == "before n4"
    assert data["graph_run_id"].endswith("-step")
    assert graphs.log == ["n4"]
    assert graphs.runs() == [data["graph_run_id"]]


# --- in the background ----------------------------------------------------------------------------


def test_a_graph_in_the_background_is_a_thread(graphs: GraphMachine) -> None:
    started = graphs.run("graph", "run", "t/line", "who=ann", "--async", "-q")
    run_id = started.stdout.strip()
    status, waited = graphs.run_json("threads", "wait", run_id)

    assert (started.returncode, started.stderr, status) == (0, "", 0)
    assert waited["threads"][0]["result"]["data"]["output"]["who"] == "ann"
    assert graphs.run("threads", "list").stdout.startswith("completed  ")
    assert f"thread id:     {run_id}\n" in graphs.run("threads", "show", run_id).stdout
    assert '"who": "ann"' in graphs.run("threads", "logs", run_id).stdout


def test_a_background_run_is_killed_with_its_call(graphs: GraphMachine) -> None:
    gate = Gate(graphs, "n2")
    run_id = graphs.run("graph", "run", "t/line", "--async", "-q").stdout.strip()
    gate.await_call()

    _, killed = graphs.run_json("threads", "kill", run_id)

    assert (killed["killed"], killed["thread"]["status"]) == (True, "killed")
    assert graphs.run("threads", "wait", run_id).returncode == 1


# --- environment ----------------------------------------------------------------------------------


@pytest.mark.heavy
def test_a_foreground_run_that_is_killed_by_threads_kill_ends_with_130(
    graphs: GraphMachine,
) -> None:
    gate = Gate(graphs, "n2")
    walking = graphs.started("graph", "run", "t/line", "-q")
    gate.await_call()
    (run_id,) = graphs.runs()

    killed = graphs.run("threads", "kill", run_id)
    walking.communicate()

    assert (killed.stdout, walking.returncode) == (f"{run_id}: cancelled\n", 130)


def test_without_a_key_a_resumed_run_reports_that_it_is_unsigned(
    graphs: GraphMachine,
) -> None:
    (graphs.machine.home / ".ai/config/keys/signing/private_key.pem").unlink()
    gate = Gate(graphs, "n4")
    walking = graphs.started("graph", "run", "t/line", "who=ann", "-q")
    gate.await_call()
    walking.kill()
    walking.communicate()
    gate.remove()
    (run_id,) = graphs.runs()

    resumed = graphs.run("graph", "resume", run_id, "-q")

    assert resumed.returncode == 0
    assert "was recorded without a signing key: nothing shows who wrote it" in resumed.stderr


def test_outside_of_projects_runs_are_kept_in_user_space(machine: Machine) -> None:
    machine.ask("keys", "generate", "-q")
    folder = machine.home / ".ai" / "tools" / "t"
    folder.mkdir(parents=True)
    document: dict[str, Any] = {
        "version": "1.0.0",
        "tool_type": "graph",
        "executor_id": "rye/core/runtimes/state-graph/runtime",
        "category": "t",
        "description": "of a user",
        "permissions": [],
        "config": {"start": "end", "nodes": {"end": {"type": "return", "output": "ended"}}},
    }
    text = "".join(f"{key}: {json.dumps(value)}\n" for key, value in document.items())
    (folder / "own.yaml").write_text(text, "utf-8")
    machine.ask("sign", "tool:t/own", "--space", "user", "-q")

    answer = json.loads(machine.ask("run", "t/own", "--json"))

    assert answer["data"]["output"] == "ended"
    assert [path.name for path in (machine.home / ".ai/state/graphs").iterdir() if path.is_dir()]
    assert not (machine.project / ".ai").exists()


def shared_graph(machine: Machine, shared: SharedFile) -> tuple[Path, Path, dict[str, str]]:
    """Home and project, for every user of the machine, with the graph of the machine."""
    home, project = shared.make("home", 0o755), shared.make("project", 0o755)
    for ours, theirs in ((machine.home, home), (machine.project, project)):
        subprocess.run(["cp", "-r", f"{ours}/.ai", f"{theirs}/.ai"], check=True)
        subprocess.run(["chmod", "-R", "a+rwX", f"{theirs}/.ai"], check=True)
    return home, project, {"HOME": str(home), "RYE_PROJECT": str(project)}


def frozen(folder: Path) -> None:
    """From now on only root may write there."""
    subprocess.run(["chmod", "-R", "a-w", str(folder)], check=True)


def test_a_home_that_cannot_be_written_costs_a_warning(
    graphs: GraphMachine, shared: SharedFile
) -> None:
    graphs.graph("gates", {"start": "one", "nodes": {"one": {"type": "gate"}}})
    home, _, environ = shared_graph(graphs.machine, shared)
    (home / ".ai/config/keys/signing/private_key.pem").unlink()
    frozen(home / ".ai")

    ended = shared.run("run", "t/gates", **environ)

    assert ended.returncode == 0, ended.stderr
    assert "warning: graphs that processes of this run start will be refused: " in ended.stderr


def test_a_project_that_cannot_be_written_is_reported(
    graphs: GraphMachine, shared: SharedFile
) -> None:
    _, project, environ = shared_graph(graphs.machine, shared)
    frozen(project / ".ai")

    ended = shared.run("run", "t/line", **environ)

    assert ended.returncode == 1
    assert str(project / ".ai") in ended.stderr
    assert "hint: check the permissions" in ended.stderr
    assert shared.run("graph", "show", "t/line", **environ).returncode == 0
