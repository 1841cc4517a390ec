"""Runs that another thread has started: they have no more permissions, which are not forgeable."""

import json
import shlex
import sys
from pathlib import Path

import pytest

from ryeos.graph.run_ledger import Ledger
from ryeos.graph.run_places import run_place
from ryeos.items.errors import RyeError
from ryeos.run.threads.thread import Thread
from tests.ryeos.app.test_graph_calls import DENIED, ECHO, RECURSIVE
from tests.support.background_runs import program_of
from tests.support.errors import coded
from tests.support.graph_runs import GraphGround

PARENT = "RYE_PARENT_THREAD_ID"
NARROW = '["rye.execute.tool.demo.square"]'
WIDE = '["*"]'
IDLE = "config: {start: a, nodes: {a: {type: gate}}}"


def parent_of(ground: GraphGround, permissions: str = NARROW, top: str = "") -> str:
    """The id of a run that may call the listed items."""
    ground.graph("demo/parent", f"{top}\n{IDLE}", permissions=permissions)
    return str(ground.run("demo/parent")["graph_run_id"])


def under(ground: GraphGround, parent_id: str) -> dict[str, str]:
    return {PARENT: parent_id}


def test_a_parent_that_is_no_thread_here_grants_nothing(ground: GraphGround) -> None:
    ground.graph("demo/g", ECHO, permissions=WIDE)

    answer = ground.answer("demo/g", extra_env=under(ground, "demo-parent-1-abcd"))

    assert (answer.envelope["code"], answer.exit_status) == ("PERMISSION_DENIED", 4)
    assert answer.envelope["error"] == (
        "Permission denied: RYE_PARENT_THREAD_ID names 'demo-parent-1-abcd',"
        " which is no thread of this project"
    )
    assert ground.runs() == []


@pytest.mark.parametrize("parent_id", ["../../etc", "x" * 4000, "a\nb", " "])
def test_a_parent_with_an_invalid_id_grants_nothing(parent_id: str, ground: GraphGround) -> None:
    ground.graph("demo/g", ECHO, permissions=WIDE)

    assert ground.answer("demo/g", extra_env=under(ground, parent_id)).exit_status == 4
    assert ground.runs() == []


def test_a_run_has_no_more_permissions_than_the_run_that_started_it(ground: GraphGround) -> None:
    ground.graph("demo/g", ECHO, permissions=WIDE)
    parent_id = parent_of(ground)

    data = ground.run("demo/g", {"capabilities": ["*"]}, extra_env=under(ground, parent_id))

    assert data["error"] == DENIED
    assert ground.thread(data["graph_run_id"]).parent_id == parent_id


def test_the_environment_of_the_process_counts_as_well(ground: GraphGround) -> None:
    ground.graph("demo/g", ECHO, permissions=WIDE)
    ground.workspace.env[PARENT] = parent_of(ground)

    assert ground.run("demo/g", rye=ground.fresh())["error"] == DENIED


def test_a_run_has_the_permissions_of_the_run_that_started_it(ground: GraphGround) -> None:
    ground.graph("demo/g", ECHO, permissions=WIDE)
    parent_id = parent_of(ground, '["rye.execute.tool.demo.*"]')

    assert ground.run("demo/g", extra_env=under(ground, parent_id))["success"]


def test_a_run_gets_one_level_less_than_the_one_that_started_it(ground: GraphGround) -> None:
    ground.graph("demo/again", RECURSIVE)
    before = len(ground.runs())
    parent_id = parent_of(ground, WIDE, "limits: {depth: 2}")

    data = ground.run("demo/again", extra_env=under(ground, parent_id))

    assert data["error"] == "demo/again: Max depth exceeded"
    assert len(ground.runs()) == before + 3  # the parent, and two below it


def test_a_run_without_a_level_left_starts_no_other(ground: GraphGround) -> None:
    ground.graph("demo/g", ECHO)
    parent_id = parent_of(ground, WIDE, "limits: {depth: 0}")

    refused = ground.refusal("demo/g", extra_env=under(ground, parent_id))

    assert refused == "demo/g: Max depth exceeded"


def test_a_thread_that_is_no_graph_hands_on_the_limits_of_its_parent(ground: GraphGround) -> None:
    parent_id = parent_of(ground)
    threads = ground.fresh().threads
    threads.register(Thread(thread_id="mine/t/t-1", directive="mine/t", parent_id=parent_id))
    ground.graph("demo/g", ECHO, permissions=WIDE)

    assert ground.run("demo/g", extra_env=under(ground, "mine/t/t-1"))["error"] == DENIED


def test_a_thread_that_a_person_started_hands_on_no_limits(ground: GraphGround) -> None:
    ground.fresh().threads.register(Thread(thread_id="mine/t/t-1", directive="mine/t"))
    ground.graph("demo/g", ECHO, permissions=WIDE)

    assert ground.run("demo/g", extra_env=under(ground, "mine/t/t-1"))["success"]


def test_threads_that_are_their_own_parents_grant_nothing(ground: GraphGround) -> None:
    threads = ground.fresh().threads
    threads.register(Thread(thread_id="mine/t/t-1", directive="mine/t", parent_id="mine/t/t-2"))
    threads.register(Thread(thread_id="mine/t/t-2", directive="mine/t", parent_id="mine/t/t-1"))

    spaces = ground.rye.context.spaces

    with pytest.raises(
        RyeError, check=coded("PERMISSION_DENIED"), match="too many threads above it"
    ):
        Ledger(threads, ground.rye.runner_seals, run_place(spaces)).lineage_of("mine/t/t-1")


def grants_file(ground: GraphGround, run_id: str) -> Path:
    return ground.project / ".ai" / "state" / "threads" / run_id / "grants.json"


@pytest.mark.parametrize(
    "change",
    [
        {"capabilities": [["*"]]},
        {"graph": None},
        {"depth": 99},
        {"depth": None},
        {"seal": ""},
        {"seal": 5},
        {"seal": "0" * 64},
    ],
)
def test_changed_grants_grant_nothing(change: dict[str, object], ground: GraphGround) -> None:
    ground.graph("demo/g", ECHO, permissions=WIDE)
    parent_id = parent_of(ground)
    path = grants_file(ground, parent_id)
    path.write_text(json.dumps(json.loads(path.read_text("utf-8")) | change), "utf-8")

    refused = ground.refusal("demo/g", extra_env=under(ground, parent_id))

    assert refused.endswith(f"but {path} was not written by you")


@pytest.mark.parametrize("text", ["", "[]", "{}", "{", "null", "[" * 100_000])
def test_invalid_grants_grant_nothing(text: str, ground: GraphGround) -> None:
    ground.graph("demo/g", ECHO, permissions=WIDE)
    parent_id = parent_of(ground)
    path = grants_file(ground, parent_id)
    path.write_text(text, "utf-8")

    refused = ground.refusal("demo/g", extra_env=under(ground, parent_id))

    assert refused.endswith(f"but {path} is not what rye writes")


def test_grants_of_another_run_grant_nothing(ground: GraphGround) -> None:
    wide_id = parent_of(ground, WIDE)
    narrow_id = parent_of(ground)
    grants_file(ground, narrow_id).write_bytes(grants_file(ground, wide_id).read_bytes())
    ground.graph("demo/g", ECHO, permissions=WIDE)

    assert ground.answer("demo/g", extra_env=under(ground, narrow_id)).exit_status == 4


def test_a_run_cannot_be_freed_by_losing_its_grants(ground: GraphGround) -> None:
    ground.graph("demo/g", ECHO, permissions=WIDE)
    parent_id = parent_of(ground)
    grants_file(ground, parent_id).unlink()

    assert ground.answer("demo/g", extra_env=under(ground, parent_id)).exit_status == 4


def test_other_users_cannot_read_the_grants_of_a_run(ground: GraphGround) -> None:
    path = grants_file(ground, parent_of(ground))

    assert path.stat().st_mode & 0o777 == 0o600
    assert json.loads(path.read_text("utf-8")).keys() == {"capabilities", "graph", "depth", "seal"}


def test_a_process_that_a_node_starts_is_bound_by_its_run(ground: GraphGround) -> None:
    ground.graph("demo/inner", ECHO, permissions=WIDE)
    workspace = ground.workspace
    program = program_of(workspace)
    script = ground.workspace.folder / "rye.py"
    script.write_text(
        "import subprocess, sys, os\n"
        f"argv = {[*program.argv, *program.flags, 'run', 'demo/inner', '--json']!r}\n"
        "sys.exit(subprocess.run(argv).returncode)\n",
        "utf-8",
    )
    command = json.dumps(f"{shlex.quote(sys.executable)} {shlex.quote(str(script))}")
    workspace.project.signed_yaml("demo/shell", f"config: {{command: {command}}}")
    ground.graph(
        "demo/outer",
        """
        config:
          start: a
          on_error: continue
          nodes:
            a: {action: {item_id: "tool:demo/shell"}, next: done}
            done: {type: return, output: "${state._last_error}"}
        """,
        permissions='["rye.execute.tool.demo.shell"]',
    )

    ended = ground.run("demo/outer")

    inner = [run_id for run_id in ground.runs() if run_id.startswith("demo-inner")]
    assert ended["errors"], "the inner run did not fail"
    assert "nothing was started" not in str(ended["errors"])
    # Where the kernel keeps it from writing runs, it does not even begin.
    assert {ground.thread(run_id).error for run_id in inner} <= {DENIED}
