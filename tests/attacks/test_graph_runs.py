"""A project brings graphs, runs and results along: all of them are untrusted data."""

import io
import json
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from lillux.key_files import save_keypair
from lillux.signing import generate_keypair
from ryeos.app.output import Output
from ryeos.cli.progress import StepList
from ryeos.graph.graphviz import dot
from ryeos.graph.mermaid import mermaid
from ryeos.graph.pictures import picture_of
from ryeos.graph.reading import read_graph
from ryeos.graph.run_places import run_place
from ryeos.graph.runner import StepEvent
from ryeos.graph.svg import svg
from ryeos.run.threads.payload import PARENT_VARIABLE
from tests.support.graph_runs import GraphGround, ground

__all__ = ["ground"]

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="links need a privilege there")

FAILING = """
config:
  start: first
  nodes:
    first: {action: {item_id: "tool:demo/echo", params: {said: "${inputs.said}"}},
            assign: {said: "${result.said}"}, next: second}
    second: {action: {item_id: "tool:demo/needs_flag"}, next: done}
    done: {type: return, output: {said: "${state.said}"}}
"""
GATE = "config: {start: a, nodes: {a: {type: gate}}}"


@pytest.mark.parametrize("event", ["graph_started", "after_step", "graph_completed"])
def test_hooks_without_a_signature_are_not_called(ground: GraphGround, event: str) -> None:
    """They would choose a signed tool and its parameters."""
    call = '{item_id: "tool:rye/bash/bash", params: {command: "touch canary"}}'
    ground.workspace.project.write(
        "config/agent/hook_conditions.yaml",
        f'version: "1.0.0"\ncategory: agent\nhooks: [{{event: {event}, action: {call}}}]\n',
    )
    ground.graph(
        "demo/g", "config: {start: a, nodes: {a: {type: return}}}", permissions='["rye.*"]'
    )

    ground.run("demo/g", rye=ground.fresh())

    assert not (ground.project / "canary").exists()


@pytest.fixture
def failed_run(ground: GraphGround) -> str:
    """The id of a run that could go on: its checkpoints are signed by the user."""
    save_keypair(ground.workspace.context().key_directory, ground.workspace.keypair)
    ground.graph("demo/fails", FAILING)
    return str(ground.run("demo/fails", {"said": "mine"})["graph_run_id"])


def resumed(ground: GraphGround, run_id: str) -> dict[str, Any]:
    """The envelope of an attempt to go on, by another process."""
    (ground.project / "flag").touch()
    rye = ground.fresh()
    return dict(ground.answer("demo/fails", {"resume_run_id": run_id}, rye=rye).envelope)


def transcript(ground: GraphGround, run_id: str) -> Path:
    """The file that counts when a run goes on."""
    return run_place(ground.rye.context.spaces).runs / run_id / "transcript.jsonl"


# --- links ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["state", "state/graphs", "state/objects", "state/threads"])
def test_no_link_of_a_project_leads_a_run_out_of_it(
    name: str, ground: GraphGround, tmp_path: Path
) -> None:
    ground.graph("demo/gate", GATE)
    outside = tmp_path / "outside"
    outside.mkdir()
    planted = ground.project / ".ai" / name
    shutil.rmtree(planted, ignore_errors=True)
    planted.parent.mkdir(parents=True, exist_ok=True)
    planted.symlink_to(outside)

    answer = ground.answer("demo/gate", rye=ground.fresh())

    assert answer.envelope["status"] == "error", answer.envelope
    assert "link" in answer.envelope["error"]
    assert list(outside.iterdir()) == []


@pytest.mark.parametrize("name", ["", "transcript.jsonl", "run.lock"])
def test_no_link_of_a_runs_folder_is_followed(
    name: str, failed_run: str, ground: GraphGround, tmp_path: Path
) -> None:
    path = transcript(ground, failed_run).parent / name if name else None
    path = path or transcript(ground, failed_run).parent
    outside = tmp_path / "outside"
    shutil.move(path, outside)
    before = _contents(outside)
    path.symlink_to(outside)

    answer = resumed(ground, failed_run)

    assert answer["status"] == "error", answer
    assert _contents(outside) == before


def _contents(path: Path) -> dict[str, bytes]:
    files = [path] if path.is_file() else [one for one in path.rglob("*") if one.is_file()]
    return {str(one): one.read_bytes() for one in files}


@pytest.mark.parametrize("run_id", ["../x", "..", "a/../../x", "/tmp/x", "a\\b", ".hidden", "a\0b"])
@pytest.mark.parametrize("option", ["graph_run_id", "resume_run_id"])
def test_an_id_of_a_run_is_no_path(run_id: str, option: str, ground: GraphGround) -> None:
    ground.graph("demo/gate", GATE)

    answer = ground.answer("demo/gate", {option: run_id})

    assert answer.envelope["status"] == "error"
    assert ground.runs() == []


# --- forged records -------------------------------------------------------------------------------


def test_a_transcript_with_another_state_is_refused(failed_run: str, ground: GraphGround) -> None:
    path = transcript(ground, failed_run)
    path.write_bytes(path.read_bytes().replace(b'"said":"mine"', b'"said":"evil"'))

    answer = resumed(ground, failed_run)

    assert (answer["status"], answer["code"]) == ("error", "INTEGRITY")


def test_a_transcript_that_another_user_has_signed_is_refused(
    failed_run: str, ground: GraphGround
) -> None:
    keys = ground.workspace.context().key_directory
    shutil.rmtree(keys)
    save_keypair(keys, generate_keypair())
    forged = ground.run("demo/fails", {"said": "evil"}, rye=ground.fresh())["graph_run_id"]
    shutil.rmtree(keys)
    save_keypair(keys, ground.workspace.keypair)

    answer = resumed(ground, forged)

    assert (answer["status"], answer["code"]) == ("error", "UNTRUSTED_KEY")


def test_a_transcript_of_another_run_is_left_out(failed_run: str, ground: GraphGround) -> None:
    (ground.project / "flag").unlink(missing_ok=True)
    other = ground.run("demo/fails", {"said": "evil"})["graph_run_id"]
    shutil.copy(transcript(ground, other), transcript(ground, failed_run))

    answer = resumed(ground, failed_run)

    assert answer["data"]["output"] == {"said": "mine"}
    assert any("bytes are left out" in text for text in ground.workspace.warnings)


def test_an_unsigned_run_record_is_reported(failed_run: str, ground: GraphGround) -> None:
    path = transcript(ground, failed_run)
    lines = path.read_bytes().splitlines(keepends=True)
    plain = [line for line in lines if json.loads(line)["event_type"] != "checkpoint"]
    path.write_bytes(b"".join(plain))

    resumed(ground, failed_run)

    assert any("nothing shows who wrote it" in text for text in ground.workspace.warnings)


@pytest.mark.parametrize("text", ["", "{", "[1]\n", "null\n", '{"event_type": 3}\n', "\xff\n" * 9])
def test_an_invalid_transcript_is_an_error(text: str, failed_run: str, ground: GraphGround) -> None:
    transcript(ground, failed_run).write_bytes(text.encode("latin-1"))
    for path in (ground.project / ".ai/state/objects/refs").rglob("*.json"):
        path.unlink()

    assert resumed(ground, failed_run)["status"] == "error"


def test_a_changed_object_is_no_state(failed_run: str, ground: GraphGround) -> None:
    transcript(ground, failed_run).unlink()
    for path in (ground.project / ".ai/state/objects/objects").rglob("*.json"):
        path.write_bytes(path.read_bytes().replace(b"mine", b"evil"))

    answer = resumed(ground, failed_run)

    assert answer["status"] == "error", answer


# --- permissions ----------------------------------------------------------------------------------

OPEN = """
config:
  start: a
  nodes:
    a: {action: {item_id: "tool:demo/${inputs.name}", params: {a: 1, b: 2}}}
"""
WIDE = 'config: {start: a, nodes: {a: {action: {item_id: "${inputs.name}"}}}}'


@pytest.mark.parametrize(
    "name",
    [
        "../secret/open",
        "x/../../secret/open",
        "./../secret/open",
        "..",
        "add/../square",
        "add\0",
        "*",
        "",
    ],
)
def test_an_id_from_data_keeps_the_kind_that_was_allowed(name: str, ground: GraphGround) -> None:
    ground.workspace.project.signed_tool(
        "secret/open",
        "def execute(params, project_path):\n    return {'success': True, 'opened': 1}",
        executor="rye/core/runtimes/python/function",
    )
    ground.graph("demo/open", OPEN, permissions='["rye.execute.tool.demo.*"]')

    data = ground.run("demo/open", {"name": name})

    assert data["success"] is False
    assert "opened" not in json.dumps(data)


@pytest.mark.parametrize(
    "name",
    [
        "tool:secret/open",
        "directive:demo/add",
        "knowledge:demo/x",
        "tool:rye/bash/bash",
        "rye/agent/threads/internal/../../../bash/bash",
        "tool:rye/agent/threads/internal/../../../bash/bash",
    ],
)
def test_a_kind_from_data_needs_a_permission_of_its_own(name: str, ground: GraphGround) -> None:
    ground.graph("demo/wide", WIDE, permissions='["rye.execute.tool.demo.*"]')

    data = ground.run("demo/wide", {"name": name})

    assert (data["success"], data["node"]) == (False, "a")


@pytest.mark.parametrize(
    "more",
    [
        {"capabilities": ["rye.*"]},
        {"capabilities": ["*"], "depth": 99},
        {"limits": {"depth": 99}},
        {"depth": 10**9},
    ],
)
def test_no_parameter_widens_the_permissions_of_a_graph(
    more: dict[str, Any], ground: GraphGround
) -> None:
    ground.graph("demo/wide", WIDE, permissions='["rye.execute.tool.demo.add"]')

    data = ground.run("demo/wide", {"name": "tool:demo/echo", **more})

    assert "Permission denied" in data["error"]


@pytest.mark.parametrize("more", [{}, {"depth": 99}, {"limits": {"depth": 99}}])
def test_a_graph_that_calls_itself_ends(more: dict[str, Any], ground: GraphGround) -> None:
    call = {"item_id": "tool:demo/again", "params": more}
    ground.graph(
        "demo/again", f"config: {json.dumps({'start': 'a', 'nodes': {'a': {'action': call}}})}"
    )

    data = ground.run("demo/again", more)

    assert "Max depth exceeded" in data["error"]
    assert len(ground.runs()) <= 6


@pytest.mark.parametrize("primary", ["execute", "fetch", "sign"])
def test_a_name_that_needs_no_permission_is_not_for_every_item(
    primary: str, ground: GraphGround
) -> None:
    ground.workspace.project.signed_tool(
        "rye/agent/threads/internal/mine",
        "def execute(params, project_path):\n    return {'success': True}",
        executor="rye/core/runtimes/python/function",
    )
    action = {"primary": primary, "item_id": "tool:rye/agent/threads/internal/mine"}
    config = json.dumps({"start": "a", "nodes": {"a": {"action": action}}})
    ground.graph("demo/inside", f"config: {config}", permissions='["rye.execute.tool.demo.*"]')

    data = ground.run("demo/inside")

    assert "Permission denied" in data["error"]


# --- grants of runs -------------------------------------------------------------------------------


def inner_of(ground: GraphGround, run_id: str) -> str:
    """Why a process of a run may not start a graph; empty if it may."""
    env = {**ground.workspace.env, PARENT_VARIABLE: run_id}
    rye = ground.workspace.rye(process_env=env)
    return str(ground.answer("demo/gate", rye=rye).envelope.get("error", ""))


@pytest.fixture
def parent(ground: GraphGround) -> Path:
    """The grants that a run has handed on to its processes."""
    ground.graph("demo/gate", GATE)
    run_id = ground.run("demo/gate")["graph_run_id"]
    assert inner_of(ground, run_id) == ""
    return ground.rye.threads.place.file(run_id, "grants.json")


def test_a_forged_list_of_grants_grants_nothing(parent: Path, ground: GraphGround) -> None:
    document = json.loads(parent.read_text("utf-8"))
    parent.write_text(json.dumps(document | {"capabilities": [["*"]]}), "utf-8")

    assert "was not written by you" in inner_of(ground, parent.parent.name)


def test_grants_of_another_run_grant_nothing(parent: Path, ground: GraphGround) -> None:
    other = ground.run("demo/gate")["graph_run_id"]
    shutil.copy(parent, parent.parent.with_name(other) / parent.name)

    assert "was not written by you" in inner_of(ground, other)


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"capabilities": 3}', "[" * 100_000])
def test_invalid_grants_grant_nothing(text: str, parent: Path, ground: GraphGround) -> None:
    parent.write_text(text, "utf-8")

    assert inner_of(ground, parent.parent.name)


def test_an_unknown_parent_grants_nothing(parent: Path, ground: GraphGround) -> None:
    assert "no thread of this project" in inner_of(ground, "demo-gate-1-0000")


# --- limits ---------------------------------------------------------------------------------------


def test_a_foreach_makes_no_more_calls_at_once_than_it_may(ground: GraphGround) -> None:
    ground.workspace.project.signed_yaml(
        "demo/count",
        "config: {command: 'mkdir -p at; touch at/$$; ls at | wc -l >> most; rm at/$$'}",
    )
    over = json.dumps(list(range(40)))
    ground.graph(
        "demo/many",
        "config:\n  start: a\n  max_concurrency: 3\n  nodes:\n    a: {type: foreach, "
        f'over: {over}, parallel: true, action: {{item_id: "tool:demo/count"}}}}\n',
    )

    assert ground.run("demo/many")["success"]
    counted = [int(line) for line in (ground.project / "most").read_text("utf-8").split()]
    assert len(counted) == 40
    assert max(counted) <= 3


@pytest.mark.heavy
@pytest.mark.parametrize("value", ['"${state.s}${state.s}"', '["${state.s}", "${state.s}"]'])
def test_a_state_that_doubles_with_each_step_ends_the_run(value: str, ground: GraphGround) -> None:
    config = (
        "config:\n  start: a\n  max_steps: 100\n  state: {s: xxxxxxxxxxxxxxxx}\n"
        f"  nodes:\n    a: {{type: gate, assign: {{s: {value}}}, next: a}}\n"
    )
    ground.graph("demo/doubles", config)

    data = ground.run("demo/doubles")

    assert data["steps"] < 30
    assert "expected" in data["error"]
    assert "found more" in data["error"]


@pytest.mark.heavy
def test_a_state_of_many_large_values_ends_the_run(ground: GraphGround) -> None:
    names = [f"s{number}" for number in range(24)]
    doubled = ", ".join(f'{name}: "${{state.{name}}}${{state.{name}}}"' for name in names)
    state = ", ".join(f"{name}: {'x' * 4096}" for name in names)
    config = (
        f"config:\n  start: a\n  max_steps: 100\n  state: {{{state}}}\n"
        f"  nodes:\n    a: {{type: gate, assign: {{{doubled}}}, next: a}}\n"
    )
    ground.graph("demo/swells", config)

    answer = ground.answer("demo/swells")

    assert answer.envelope["code"] == "RESOURCE_EXCEEDED"
    assert "its state has" in answer.envelope["error"]
    (run_id,) = ground.runs()
    assert ground.thread(run_id).status == "error"


def test_more_output_than_a_tool_may_give_fails_its_node(ground: GraphGround) -> None:
    ground.workspace.project.signed_yaml(
        "demo/flood", "config: {command: 'head -c 67108864 /dev/zero'}"
    )
    ground.graph(
        "demo/floods", 'config: {start: a, nodes: {a: {action: {item_id: "tool:demo/flood"}}}}'
    )

    data = ground.run("demo/floods")

    assert data["error"].startswith("output too large: 67108864 bytes")


# --- names ----------------------------------------------------------------------------------------

HOSTILE = "a<script>|`](x)\"'&-->#\\n\N{FULLWIDTH LESS-THAN SIGN}"
SEEN = "\x1b[2J\u202e\n"


@pytest.mark.parametrize("name", [f"a{SEEN}", "a\nb", "a\x7f", "\u202ea", "a" * 129, ""])
def test_a_name_that_cannot_be_seen_is_no_name(name: str) -> None:
    config = {"start": name, "nodes": {name: {"type": "return"}}}

    assert read_graph({"tool_type": "graph", "permissions": [], "config": config}, "x").errors


def test_a_node_with_a_hostile_name_is_reported_without_its_tricks() -> None:
    config = {"start": HOSTILE, "nodes": {HOSTILE: {"type": "return"}}}
    graph = read_graph({"tool_type": "graph", "permissions": [], "config": config}, "x").graph
    assert graph is not None
    stream = io.StringIO()
    event = StepEvent(what="finished", step=1, node=HOSTILE, type="return", error=SEEN)

    pictures = [draw(picture_of(graph)) for draw in (mermaid, dot, svg)]
    StepList(Output(environ={}), stream).tell(event)

    assert all("<script>" not in pictures[index] for index in (0, 2))  # dot has no markup
    assert '\\"' in pictures[1]
    assert not any(character in stream.getvalue() for character in "\x1b\u202e")
    assert stream.getvalue().count("\n") == 1
