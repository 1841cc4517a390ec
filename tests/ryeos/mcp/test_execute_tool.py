"""``execute`` over MCP: options of a run, and parameters of the item."""

import os
from pathlib import Path
from typing import Any

import pytest

from lillux.key_files import save_keypair
from ryeos.app.workspace import Rye
from tests.support.background_runs import program_of
from tests.support.mcp_conversation import NEWEST_LEGACY, Conversation
from tests.support.workspace import Workspace

posix_only = pytest.mark.skipif(os.name == "nt", reason="the tool of these tests is for POSIX")

BASH = "tool:rye/bash/bash"
ITEM = "directive:mine/hello"
GREETING = "Hello {input:name}."


@pytest.fixture
def rye(workspace: Workspace) -> Rye:
    """A user with their key on the disk."""
    rye = workspace.rye()
    save_keypair(rye.context.key_directory, workspace.keypair)
    return rye


def execute(rye: Rye, item_id: str, **arguments: Any) -> dict[str, Any]:  # noqa: ANN401 - JSON
    """The envelope of an execute."""
    client = Conversation(rye, version=NEWEST_LEGACY)
    given = {"item_id": item_id, **arguments}
    result = client.result("tools/call", "CallToolResult", name="execute", arguments=given)
    envelope: dict[str, Any] = result["structuredContent"]
    return envelope


@posix_only
@pytest.mark.parametrize("dry_run", [True, "true"])
def test_dry_run_among_the_parameters_runs_nothing(
    dry_run: object, rye: Rye, tmp_path: Path
) -> None:
    mark = tmp_path / "mark"

    answered = execute(rye, BASH, parameters={"command": f"touch '{mark}'", "dry_run": dry_run})

    assert (answered["status"], mark.exists()) == ("validation_passed", False)


@posix_only
def test_errors_of_a_command_begin_as_those_of_bash(rye: Rye) -> None:
    answered = execute(rye, BASH, parameters={"command": "no_such_program; cd /none; echo $0"})

    first, second = answered["data"]["stderr"].splitlines()
    assert first == "bash: line 1: no_such_program: command not found"
    assert second.startswith("bash: line 1: cd: /none: ")
    assert answered["data"]["stdout"] == "bash\n"


@posix_only
def test_the_errors_of_a_script_of_a_tool_name_its_file(rye: Rye, workspace: Workspace) -> None:
    path = workspace.project.signed_yaml("mine/b", "config: {script: no_such_program}")

    answered = execute(rye, "tool:mine/b")

    assert answered["data"]["stderr"] == f"{path}: line 1: no_such_program: command not found\n"


@posix_only
def test_dry_run_that_is_neither_true_nor_false_is_refused(rye: Rye, tmp_path: Path) -> None:
    mark = tmp_path / "mark"

    answered = execute(rye, BASH, parameters={"command": f"touch '{mark}'", "dry_run": "maybe"})

    assert (answered["code"], mark.exists()) == ("INVALID_PARAMS", False)
    assert answered["error"].startswith("parameters.dry_run: expected true or false")


@posix_only
def test_dry_run_false_among_the_parameters_is_no_input(rye: Rye) -> None:
    answered = execute(rye, BASH, parameters={"command": "echo out", "dry_run": False})

    assert answered["data"]["stdout"] == "out\n"


@posix_only
def test_the_id_of_a_run_gives_its_answer_and_until_then_its_output(workspace: Workspace) -> None:
    client = Conversation(
        workspace.rye(), version=NEWEST_LEGACY, program=lambda _: program_of(workspace)
    )

    def call(**arguments: Any) -> dict[str, Any]:  # noqa: ANN401 - JSON
        answer = client.result("tools/call", name="execute", arguments=arguments)
        structure: dict[str, Any] = answer["structuredContent"]
        return structure

    command = "echo begun; while [ ! -e go ]; do sleep 0.01; done; echo done; exit 3"
    started = call(item_id=BASH, parameters={"command": command}, **{"async": True})
    [then, _cancel] = started["next"]
    first = call(item_id=then["arguments"]["item_id"])
    (workspace.project_path / "go").touch()
    last = call(**then["arguments"])

    assert started["status"] == "running"
    asks = {"item_id": started["thread_id"], "options": {"wait_s": 60}}
    assert then == {"name": "execute", "arguments": asks}
    assert first["status"] == "running"
    assert last["status"] == "error"
    assert last["data"] == {"stdout": "begun\ndone\n", "stderr": "", "return_code": 3}


def test_a_run_takes_no_parameters(rye: Rye) -> None:
    answered = execute(rye, "run-0f0f", parameters={"a": 1})

    assert answered["error"] == "parameters: expected with an item, found the run run-0f0f"


def test_a_missing_run_is_named_as_it_was_requested(rye: Rye) -> None:
    answered = execute(rye, "run-0f0f")

    assert answered["code"] == "THREAD_NOT_FOUND"
    assert answered["error"].startswith("thread not found: run-0f0f (")


@posix_only
def test_an_item_that_is_called_like_a_run_is_run(workspace: Workspace, rye: Rye) -> None:
    workspace.project.sign(workspace.project.tool("run-0f0f"))

    assert execute(rye, "run-0f0f", dry_run=True)["status"] == "validation_passed"


def test_a_policy_that_hides_runs_hides_their_answers(rye: Rye) -> None:
    policy = rye.context.spaces.user.ai / "config" / "agents" / "policy.yaml"
    policy.parent.mkdir(parents=True)
    rules = "rules: [{items: 'tool:rye/core/processes/*', decision: deny}]"
    policy.write_text(f'version: "1.0.0"\ncategory: agents\n{rules}\n', "utf-8")

    assert execute(rye, "run-0f0f")["code"] == "PERMISSION_DENIED"


def test_an_input_called_dry_run_stays_one(workspace: Workspace, rye: Rye) -> None:
    declared = '<inputs><input name="dry_run" type="boolean">x</input></inputs>'
    workspace.project.sign(
        workspace.project.directive("mine/hello", "{input:dry_run}", inputs=declared)
    )

    answered = execute(rye, ITEM, parameters={"dry_run": True})

    assert (answered["status"], answered["your_directions"].strip()) == ("success", "true")


def test_a_directive_takes_dry_run_among_its_parameters(workspace: Workspace, rye: Rye) -> None:
    declared = '<inputs><input name="name" type="string">x</input></inputs>'
    workspace.project.sign(workspace.project.directive("mine/hello", GREETING, inputs=declared))

    answered = execute(rye, ITEM, parameters={"name": "Ada", "dry_run": True})

    assert answered["status"] == "validation_passed"


def test_the_action_load_is_a_load(workspace: Workspace, rye: Rye) -> None:
    workspace.project.signed_tool("mine/x")

    parameters = {"max_chars": 5}
    answered = execute(rye, "tool:mine/x", action="load", parameters=parameters, verbose=True)

    assert (answered["mode"], answered["ref"], len(answered["content"])) == ("id", "tool:mine/x", 5)


def test_the_action_sign_signs_nothing(workspace: Workspace, rye: Rye) -> None:
    path = workspace.project.tool("mine/x")

    answered = execute(rye, "tool:mine/x", action="sign")

    assert answered["code"] == "INVALID_PARAMS"
    assert b"rye:signed" not in path.read_bytes()


@pytest.mark.parametrize(
    ("action", "arguments", "problem"),
    [
        ("delete", {}, "action: expected one of run, load, found 'delete'"),
        ("load", {"async": True}, "async: expected only with action run"),
        ("load", {"parameters": {"colour": 1}}, "colour: load has no such argument"),
    ],
)
def test_any_other_action_or_argument_of_one_is_refused(
    action: str, arguments: dict[str, Any], problem: str, workspace: Workspace, rye: Rye
) -> None:
    workspace.project.signed_tool("mine/x")

    answered = execute(rye, "tool:mine/x", action=action, **arguments)

    assert (answered["code"], answered["error"]) == ("INVALID_PARAMS", problem)


def test_directives_and_knowledge_report_their_duration(workspace: Workspace, rye: Rye) -> None:
    workspace.project.sign(workspace.project.directive("mine/hello"))
    workspace.project.sign(workspace.project.knowledge("mine/fact"))

    directive = execute(rye, ITEM, verbose=True)
    fact = execute(rye, "knowledge:mine/fact", verbose=True)

    assert directive["metadata"]["duration_ms"] > 0
    assert fact["metadata"]["duration_ms"] > 0


def test_a_trace_of_a_directive_has_all_its_fields(workspace: Workspace, rye: Rye) -> None:
    workspace.project.sign(workspace.project.directive("mine/hello", GREETING))

    plain, traced = execute(rye, ITEM), execute(rye, ITEM, trace=True)

    assert "data" not in plain
    assert (traced["data"]["name"], traced["data"]["author"]) == ("hello", "tester")
    assert traced["data"]["body"].strip() == GREETING


def test_a_directive_knows_the_project(workspace: Workspace, rye: Rye) -> None:
    body = "{env:PROJECT_PATH} {env:SECRET_TOKEN:text}"
    workspace.project.sign(workspace.project.directive("mine/hello", body))

    answered = execute(rye, ITEM)

    expected = f"{workspace.project_path} {{env:SECRET_TOKEN:text}}"
    assert answered["your_directions"].strip() == expected


def batch(rye: Rye, *calls: object, **arguments: object) -> dict[str, Any]:
    """The answer of several calls at once."""
    client = Conversation(rye, version=NEWEST_LEGACY)
    given = {"batch": list(calls), **arguments}
    result = client.result("tools/call", "CallToolResult", name="execute", arguments=given)
    envelope: dict[str, Any] = result["structuredContent"]
    return envelope


def shell(command: str) -> dict[str, Any]:
    """A call of a shell command."""
    return {"item_id": "rye/bash/bash", "parameters": {"command": command}}


@posix_only
def test_several_calls_are_one_answer(rye: Rye) -> None:
    reply = batch(rye, shell("echo 1"), shell("echo 2"))

    assert reply["status"] == "success"
    assert [one["data"]["stdout"] for one in reply["results"]] == ["1\n", "2\n"]


@posix_only
def test_calls_of_a_batch_may_have_the_form_of_next(rye: Rye) -> None:
    reply = batch(rye, {"name": "execute", "arguments": shell("echo 1")})

    assert [one["data"]["stdout"] for one in reply["results"]] == ["1\n"]


@posix_only
def test_no_call_is_made_after_one_that_failed(rye: Rye, tmp_path: Path) -> None:
    reply = batch(rye, shell("echo no >&2; exit 3"), shell(f"touch {tmp_path}/made"))

    assert (reply["status"], reply["error"], reply["not_made"]) == ("error", "call 1: no", 1)
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize(
    ("calls", "more"),
    [
        ([], {}),
        (["x"], {}),
        ([{"item_id": "a", "batch": []}], {}),
        ([{"item_id": "a", "options": {"batch": [{}]}}], {}),
        ([{"item_id": "a"}], {"item_id": "b"}),
        ([{"item_id": "a"}] * 21, {}),
    ],
)
def test_an_invalid_batch_is_refused(calls: list[object], more: dict[str, Any], rye: Rye) -> None:
    assert batch(rye, *calls, **more)["code"] == "INVALID_PARAMS"
