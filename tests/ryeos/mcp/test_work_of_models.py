"""What a model does with the server alone: repairs, questions to its user, wrong names, files."""

import json
import os
from base64 import b64encode
from collections.abc import Iterable, Iterator
from contextlib import closing
from itertools import cycle
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest

from lillux.key_files import save_keypair
from lillux.landlock import landlock_version
from ryeos.app.sign import sign
from ryeos.graph.operators import OPERATORS
from ryeos.mcp.results import tool_result
from ryeos.run.functions import FunctionHost
from ryeos.run.model import ExecutionRequest
from ryeos.run.threads.payload import Payload, parse_payload
from ryeos.run.threads.place import ThreadsPlace
from tests.support.mcp_conversation import Conversation
from tests.support.workspace import Workspace

FUNCTION = "rye/core/runtimes/python/function"
held = pytest.mark.skipif(not landlock_version(), reason="held by Landlock")


class Model:
    """The calls of a model, and its user's workspace."""

    def __init__(self, workspace: Workspace, functions: FunctionHost) -> None:
        self.workspace, self.functions = workspace, functions
        self.rye = workspace.rye(functions=functions, confines=True)
        if not self.rye.context.key_directory.exists():
            save_keypair(self.rye.context.key_directory, workspace.keypair)
        self.conversation = Conversation(self.rye)

    def call(self, tool: str, **arguments: Any) -> dict[str, Any]:  # noqa: ANN401 - JSON
        """The result of a tool."""
        return self.conversation.result("tools/call", name=tool, arguments=arguments)

    def answer(self, tool: str, **arguments: Any) -> dict[str, Any]:  # noqa: ANN401 - JSON
        """The structure of a result."""
        found: dict[str, Any] = self.call(tool, **arguments)["structuredContent"]
        return found

    def text(self, tool: str, **arguments: Any) -> str:  # noqa: ANN401 - JSON
        """The text of a result."""
        found: str = self.call(tool, **arguments)["content"][0]["text"]
        return found

    def put(self, item_id: str, content: str) -> None:
        """The user writes an item and signs it."""
        given = {"item_id": item_id, "content": content, "force": True}
        signed = sign(self.rye, given).envelope
        assert signed["status"] == "signed", signed

    def approve(self, item_id: str) -> None:
        """The user signs an item as it is."""
        signed = sign(self.rye, {"item_id": item_id}).envelope
        assert signed["status"] == "signed", signed

    def run(self, item_id: str, **parameters: Any) -> dict[str, Any]:  # noqa: ANN401 - JSON
        """The structure of the answer of an item."""
        return self.answer("execute", item_id=item_id, parameters=parameters)


@pytest.fixture
def model(workspace: Workspace) -> Iterator[Model]:
    """A model in a project with a bundle and a key of its user."""
    with closing(FunctionHost()) as functions:
        yield Model(workspace, functions)


@pytest.fixture
def other(workspace: Workspace) -> Iterator[Model]:
    """Another model in the same project, with a server of its own."""
    with closing(FunctionHost()) as functions:
        yield Model(workspace, functions)


def tool(body: str) -> str:
    """The text of a Python function."""
    return (
        f'__version__ = "1.0.0"\n__tool_type__ = "python"\n__executor_id__ = "{FUNCTION}"\n'
        '__category__ = "mine"\n__tool_description__ = "test"\n\n'
        f"def execute(params):\n    {body}\n"
    )


CONFIG = 'version: "1.0.0"\ncategory: execution\ndefaults: {{timeout: {}}}\n'

GRAPH = """\
version: "1.0.0"
tool_type: graph
executor_id: rye/core/runtimes/state-graph/runtime
category: mine
description: one step
permissions: ["rye.execute.tool.mine.*"]
config:
  start: only
  nodes:
    only:
      action: {item_id: "tool:mine/step"}
      assign: {value: "${result.value}"}
      next: done
    done: {type: return, output: {value: "${state.value}"}}
"""


# --- proposals


def test_a_call_of_what_waits_says_so_and_names_the_call_to_repeat(model: Model) -> None:
    first = {"item_id": "tool:mine/x", "content": tool("return {'value': 1}")}
    proposed = model.answer("sign", **first, try_parameters={"a": 1})
    early = model.answer("execute", **proposed["next"][0]["arguments"])
    model.approve("tool:mine/x")
    ran = model.answer("execute", **early["next"][0]["arguments"])

    assert proposed["next"][0]["arguments"] == {"item_id": "tool:mine/x", "parameters": {"a": 1}}
    assert "ask your user to run: rye approve" in proposed["hint"]
    assert early["code"] == "UNSIGNED"
    assert "tool:mine/x waits for approval: ask your user to run: rye approve" in early["hint"]
    assert ran["data"] == {"value": 1}


def test_a_tool_that_nothing_runs_is_refused_before_a_person_is_asked_to_try_it(
    model: Model,
) -> None:
    whole = tool("return {}")
    lines = [one for one in whole.splitlines() if "executor_id" not in one]
    lacking, plain = "\n".join(lines) + "\n", "def execute(params):\n    return {}\n"

    refused = [
        model.answer("sign", item_id="tool:mine/x", content=text, try_parameters={})
        for text in (lacking, plain)
    ]
    module = model.answer("sign", item_id="tool:mine/x", content=lacking)
    again = model.answer("sign", item_id="tool:mine/x", content=lacking, try_parameters={})
    complete = model.answer("sign", item_id="tool:mine/x", content=whole, try_parameters={})

    assert {one["code"] for one in refused} == {"VALIDATION_FAILED"}
    assert all("expected executor_id" in one["error"] for one in refused)
    assert "declares no executor: nothing runs it" in module["warnings"][0]
    assert "waits" not in again["hint"]
    assert "warnings" not in complete


def test_a_directive_is_read_without_the_lines_of_its_signature(model: Model) -> None:
    text = model.text("load", item_id="directive:rye/authoring/create_tool")

    assert text.startswith("# Create a tool\n")


def test_a_run_is_resumed_after_a_repair_of_its_step_or_of_the_graph_itself(model: Model) -> None:
    for repaired in ("tool:mine/step", "tool:mine/g"):
        model.put("tool:mine/step", tool("raise ValueError(1)"))
        model.put("tool:mine/g", GRAPH)
        failed = model.run("mine/g")
        changed = GRAPH.replace("mine/step", "mine/other")
        model.put("tool:mine/other", tool("return {'value': 2}"))
        text = changed if repaired == "tool:mine/g" else tool("return {'value': 2}")
        model.answer("sign", item_id=repaired, content=text)
        waiting = model.answer("execute", **failed["next"][0]["arguments"])
        model.approve(repaired)
        resumed = model.answer("execute", **waiting["next"][0]["arguments"])

        assert f"{repaired} waits for approval" in waiting["hint"]
        assert resumed.get("data") == {"value": 2}, resumed


def test_a_run_of_a_changed_graph_names_the_call_that_resumes_it(model: Model) -> None:
    model.put("tool:mine/step", tool("raise ValueError(1)"))
    model.put("tool:mine/other", tool("return {'value': 2}"))
    model.put("tool:mine/g", GRAPH)
    failed = model.run("mine/g")
    model.put("tool:mine/g", GRAPH.replace("mine/step", "mine/other"))
    thread = failed["next"][0]["arguments"]["resume_thread_id"]
    refused = model.answer("execute", resume_thread_id=thread)
    resumed = model.answer("execute", **refused["next"][0]["arguments"])

    assert refused["code"] == "CONFLICT"
    assert resumed["data"] == {"value": 2}


def test_of_two_agents_the_second_hears_that_it_replaces_and_the_first_runs_its_own_text_alone(
    model: Model, other: Model
) -> None:
    texts = [tool(f"return {{'by': {number}}}") for number in (1, 2)]
    first = model.answer("sign", item_id="tool:mine/x", content=texts[0])
    again = model.answer("sign", item_id="tool:mine/x", content=f"# first\n{texts[0]}")
    second = other.answer("sign", item_id="tool:mine/x", content=texts[1])
    model.approve("tool:mine/x")
    refused = model.run("mine/x")
    theirs = other.run("mine/x")
    model.call("load", item_id="tool:mine/x", text=True)
    known = model.run("mine/x")

    assert "warnings" not in first
    assert "warnings" not in again
    assert "in place of a text that" in second["warnings"][0]
    assert refused["code"] == "CONFLICT"
    assert "another text than the one that you proposed was approved" in refused["error"]
    assert (theirs["data"], known["data"]) == ({"by": 2}, {"by": 2})


def signed_texts_in_turn(path: Path, texts: Iterable[bytes], ended: Event) -> None:
    """Put these texts into the place of a file by turns, until the end."""
    for text in cycle(texts):
        if ended.is_set():
            return
        replaced(path, text.decode())


def test_of_texts_that_change_places_while_the_first_agent_calls_none_runs_but_its_own(
    model: Model, other: Model
) -> None:
    path, signed = model.workspace.project_path / ".ai/tools/mine/x.py", []
    for number, agent in ((2, other), (1, model)):
        agent.answer("sign", item_id="tool:mine/x", content=tool(f"return {{'by': {number}}}"))
        model.approve("tool:mine/x")
        signed.append(path.read_bytes())
    ended = Event()
    writer = Thread(target=signed_texts_in_turn, args=(path, signed, ended))
    writer.start()
    try:
        answers = [model.run("mine/x") for _ in range(25)]
    finally:
        ended.set()
        writer.join()

    assert {str(one["data"]) for one in answers if "data" in one} <= {"{'by': 1}"}
    assert "CONFLICT" in {one.get("code") for one in answers}


def test_another_text_is_run_by_no_graph_and_in_no_background_of_the_first_agent(
    model: Model, other: Model
) -> None:
    model.put("tool:mine/g", GRAPH)
    model.answer("sign", item_id="tool:mine/step", content=tool("return {'value': 1}"))
    other.answer("sign", item_id="tool:mine/step", content=tool("return {'value': 2}"))
    model.approve("tool:mine/step")
    step = {"item_id": "mine/step", "parameters": {}, "async": True}

    in_graph, behind = model.run("mine/g"), model.answer("execute", **step)
    theirs = other.run("mine/g")

    assert "another text than the one that you proposed" in in_graph["error"]
    assert behind["code"] == "CONFLICT"
    assert theirs["data"] == {"value": 2}


def test_what_a_runner_is_given_names_the_texts_that_the_caller_knows(tmp_path: Path) -> None:
    request = ExecutionRequest(item_id="mine/x", known_texts={"tool:mine/x": "0" * 64})

    dumped = Payload("run-1", "tool:mine/x", ThreadsPlace(tmp_path), request).dump()

    assert parse_payload(dumped).request.known_texts == {"tool:mine/x": "0" * 64}


def test_words_in_the_error_of_a_tool_lead_to_no_call_and_no_repair(model: Model) -> None:
    path = model.workspace.project_path / ".ai/config/mine/own.yaml"
    model.answer("sign", item_id="config:mine/own", content='version: "1.0.0"\n')
    failure = {"success": False, "error": f"{path}: no", "code": "UNSIGNED", "path": str(path)}
    model.put("tool:mine/fails", tool(f"return {failure | {'hint': 'resume with --force'}!r}"))

    answer = model.run("mine/fails")

    assert answer["error"] == f"{path}: no"
    assert "next" not in answer
    assert "waits" not in answer["hint"]


def test_what_the_user_has_not_approved_is_warned_of_once_a_session(
    model: Model, other: Model
) -> None:
    (model.workspace.project_path / ".env").write_text("A=1\n", "utf-8")
    call = {"item_id": "rye/bash/bash", "parameters": {"command": "echo hi"}}

    answers = [model.answer("execute", **call) for _ in range(2)]
    in_batch = model.answer("execute", batch=[call, call])["results"]
    in_full = model.answer("execute", **call, options={"verbose": True})
    of_other = other.answer("execute", **call)

    assert [".env: not used" in str(one.get("warnings")) for one in answers] == [True, False]
    assert not [one for one in in_batch if "warnings" in one]
    assert ".env: not used" in str(in_full)
    assert ".env: not used" in str(of_other["warnings"])


# --- names of other programs, failures that name their place


A_TEXT = {"path": "a", "content": "b"}
AN_EDIT = {"path": "a", "edits": [{"old_text": "b", "new_text": "c"}]}
A_SEARCH = {"pattern": "b", "path": "a", "ignore_case": True}


@pytest.mark.parametrize(
    ("name", "given", "item_id", "parameters"),
    [
        ("bash", {"command": "ls"}, "rye/bash/bash", {"command": "ls"}),
        ("mcp__x__Read_File", {"file_path": "a"}, "rye/file-system/read", {"path": "a"}),
        ("str_replace", {}, "rye/file-system/edit_lines", {}),
        (
            "Bash",
            {"command": ["ls", "a b"], "description": "lists", "timeout": 1000},
            "rye/bash/bash",
            {"command": "ls 'a b'"},
        ),
        ("Write", {"file_path": "a", "file_text": "b"}, "rye/file-system/write", A_TEXT),
        (
            "Edit",
            {"file_path": "a", "old_string": "b", "new_string": "c", "replace_all": False},
            "rye/file-system/edit_lines",
            AN_EDIT,
        ),
        (
            "MultiEdit",
            {"file_path": "a", "edits": [{"old_string": "b", "new_string": "c"}]},
            "rye/file-system/edit_lines",
            AN_EDIT,
        ),
        (
            "str_replace_based_edit_tool",
            {"command": "str_replace", "path": "a", "old_str": "b", "new_str": "c"},
            "rye/file-system/edit_lines",
            AN_EDIT,
        ),
        (
            "str_replace_based_edit_tool",
            {"command": "view", "path": "a"},
            "rye/file-system/read",
            {"path": "a"},
        ),
        (
            "str_replace_based_edit_tool",
            {"command": "create", "path": "a", "file_text": "b"},
            "rye/file-system/write",
            A_TEXT,
        ),
        ("Grep", {"pattern": "b", "path": "a", "-i": True}, "rye/file-system/grep", A_SEARCH),
        ("rye/web/fetch", {"url": "http://a"}, "rye/web/fetch", {"url": "http://a"}),
    ],
)
def test_a_tool_of_another_program_is_answered_with_the_call_of_execute(
    model: Model, name: str, given: dict[str, Any], item_id: str, parameters: dict[str, Any]
) -> None:
    error = model.conversation.error("tools/call", name=name, arguments=given)

    call = {"name": "execute", "arguments": {"item_id": item_id, "parameters": parameters}}
    assert error["data"] == {"next": [call]}
    assert f'execute {{"item_id": "{item_id}"' in error["message"]


def test_an_unknown_tool_is_answered_with_the_call_of_search(model: Model) -> None:
    error = model.conversation.error("tools/call", name="launch", arguments={})

    assert error["message"] == 'unknown tool: launch; find an item: search {"query": "..."}'


def test_the_line_of_a_tool_that_failed_is_named(model: Model) -> None:
    model.put("tool:mine/x", tool("import json\n    return json.loads('{')"))

    answer = model.run("mine/x")

    assert answer["error"].startswith("JSONDecodeError: ")
    assert answer["at"] == "x.py, line 11, in execute: return json.loads('{')"


def test_the_failed_node_of_a_graph_is_named(model: Model) -> None:
    model.put("tool:mine/step", tool("raise ValueError(1)"))
    model.put("tool:mine/g", GRAPH)

    assert model.run("mine/g")["error"].startswith("node only: ValueError")


def test_an_unknown_operator_lists_all_of_them(model: Model) -> None:
    routes = "next: [{when: {path: state.value, op: above, value: 1}, to: done}]"
    odd = GRAPH.replace("next: done", routes)

    answer = model.answer("sign", item_id="tool:mine/g", content=odd, dry_run=True)

    assert "unknown operator 'above'" in answer["error"]
    assert ", ".join(OPERATORS) in answer["error"]


# --- texts and pictures, once


def test_a_file_of_26_kb_takes_at_most_30_on_the_wire(model: Model) -> None:
    lines = "".join(f'    value_{n} = "text {n}"  # {"-" * 40}\n' for n in range(400))[:26_000]
    (model.workspace.project_path / "a.py").write_text(lines, encoding="utf-8")

    result = model.call("execute", item_id="rye/file-system/read", parameters={"path": "a.py"})

    assert lines in result["content"][0]["text"]
    assert len(json.dumps(result)) < 30_000


def test_of_a_longer_file_a_range_is_read_and_the_next_is_named(model: Model) -> None:
    text = "".join(f"line {number}\n" for number in range(9000))
    (model.workspace.project_path / "a.txt").write_text(text, encoding="utf-8")

    result = model.call("execute", item_id="rye/file-system/read", parameters={"path": "a.txt"})

    assert len(json.dumps(result)) < 30_000
    assert '"next_offset":' in result["content"][0]["text"]


def test_a_structure_is_whole_or_not_there(model: Model) -> None:
    long = {"command": "seq 2000"}
    given = {"item_id": "rye/bash/bash", "parameters": long}

    short = model.run("rye/bash/bash", command="echo hi")
    once = model.call("execute", **given)
    twice = model.call("execute", **given, options={"verbose": True})

    assert short["data"]["stdout"] == "hi\n"
    assert "structuredContent" not in once
    assert "\n1999\n" in once["content"][0]["text"]
    assert "structuredContent" in twice


def test_a_picture_is_read_as_one(model: Model) -> None:
    data = b"\x89PNG\r\n\x1a\n" + bytes(range(256))
    (model.workspace.project_path / "a.png").write_bytes(data)

    result = model.call("execute", item_id="rye/file-system/read", parameters={"path": "a.png"})

    picture = {"type": "image", "mimeType": "image/png", "data": b64encode(data).decode()}
    assert result["content"][1] == picture
    assert "structuredContent" not in result


PICTURE = {"type": "image", "mimeType": "image/png", "data": "QUFB"}


@pytest.mark.parametrize("more", [{}, {"structuredContent": {"a": 1}}])
def test_a_picture_of_an_imported_server_is_one_beside_its_text_and_its_structure(
    more: dict[str, Any],
) -> None:
    blocks = [{"type": "text", "text": "here it is"}, PICTURE]
    data = {"success": True, "tool": "shot", "content": blocks, "isError": False, **more}

    result = tool_result({"status": "success", "data": data})

    assert result["content"][1:] == [PICTURE]
    assert ('"a":1' if more else "here it is") in result["content"][0]["text"]


# --- rights


def test_a_tool_is_described_with_the_rights_that_hold_for_an_agent(model: Model) -> None:
    shell = model.answer("load", item_id="tool:rye/bash/bash")["sandbox"]
    model.put("tool:mine/plain", tool("return {}"))
    plain = model.answer("load", item_id="tool:mine/plain")["sandbox"]

    assert shell["write"][:2] == plain["write"][:2] == ["{project}", "{tmp}"]
    assert shell["network"] == "any"


@held
def test_a_variable_or_a_temporary_folder_that_its_sandbox_withholds_is_hinted(
    model: Model,
) -> None:
    model.workspace.env["SHOP_TOKEN"] = "abc12345"
    rights = 'SANDBOX = {"network": "none"}\n'
    bodies = {
        "env": "import os\ndef execute(params):\n    return os.environ['SHOP_TOKEN']\n",
        "tmp": "import tempfile\ndef execute(params):\n    return tempfile.mkdtemp()\n",
    }
    rye = Model(model.workspace, model.functions)
    for name, body in bodies.items():
        model.workspace.project.signed_tool(f"mine/{name}", body, executor=FUNCTION, extra=rights)

    hints = [rye.run(f"mine/{name}")["hint"] for name in bodies]

    assert 'sandbox: {env: ["SHOP_TOKEN"]}' in hints[0]
    assert 'sandbox: {write: ["{tmp}"]}' in hints[1]


@held
def test_a_program_and_a_file_that_a_header_leaves_out_are_hinted_in_one_line(
    model: Model,
) -> None:
    rights = 'sandbox: {read: ["{project}"]}\nconfig: {command: "date > a.txt; cat a.txt"}\n'
    model.workspace.project.yaml_tool("mine/report", rights)
    model.approve("tool:mine/report")

    hint = model.run("mine/report")["hint"]

    assert 'sandbox: {write: ["{project}"], programs: ["cat"]}' in hint


def test_api_key_finds_the_page_on_secrets(model: Model) -> None:
    hits = model.answer("search", query="api key")["results"]

    assert hits[0]["id"] == "rye/core/secrets"


# --- settings that cannot be read


@pytest.mark.parametrize(
    "text", ["version: [\n  bad: : yaml\n", 'version: "1.0.0"\ndefaults: {timeout: soon}\n']
)
def test_limits_of_a_project_that_cannot_be_read_stop_no_tool_and_are_repaired_by_a_proposal(
    model: Model, text: str
) -> None:
    path = model.workspace.project.write("config/execution/execution.yaml", text)
    ran = model.run("rye/bash/bash", command="echo hi")
    right = 'version: "1.0.0"\ncategory: execution\ndefaults: {timeout: 100}\n'
    proposed = model.answer("sign", item_id="config:execution/execution", content=right)
    model.approve("config:execution/execution")
    again = model.run("rye/bash/bash", command="echo hi")

    assert ran["data"]["stdout"] == "hi\n"
    (warning,) = [one for one in ran["warnings"] if str(path) in one]
    call = 'sign {"item_id": "config:execution/execution", "content": "its whole text"}'
    assert warning.endswith(f"; repair it, then: {call}")
    assert proposed["proposals"][0]["ref"] == "config:execution/execution"
    assert "warnings" not in again


def test_settings_that_cannot_be_read_fail_the_tools_that_use_them_alone(model: Model) -> None:
    project = model.workspace.project
    for name in ("web/access", "mine/own"):
        project.write(f"config/{name}.yaml", "version: [\n  bad: : yaml\n")
    uses = 'CONFIG_RESOLVE = {"path": "mine/own.yaml"}\n'
    body = "def execute(params):\n    return {}\n"
    project.signed_tool("mine/uses", body, executor=FUNCTION, extra=uses)
    project.signed_tool("mine/plain", body, executor=FUNCTION)

    refused, plain = model.run("mine/uses"), model.run("mine/plain")

    assert plain["status"] == "success"
    assert "config/mine/own.yaml: yaml header, line 2" in refused["error"]
    assert refused["hint"] == (
        'propose its repair: sign {"item_id": "config:mine/own", "content": "..."}'
    )


@pytest.mark.parametrize("path", ["execution/execution", "mine/own"])
def test_settings_whose_signature_does_not_hold_fail_the_tools_that_use_them(
    model: Model, path: str
) -> None:
    folder = path.partition("/")[0]
    text = f'version: "1.0.0"\ncategory: {folder}\ndefaults: {{timeout: 100}}\n'
    model.put(f"config:{path}", text)
    file = model.workspace.project_path / f".ai/config/{path}.yaml"
    file.write_text(file.read_text("utf-8").replace("100", "900"), "utf-8")
    uses = 'CONFIG_RESOLVE = {"path": "mine/own.yaml"}\n'
    body = "def execute(params):\n    return {}\n"
    model.workspace.project.signed_tool("mine/uses", body, executor=FUNCTION, extra=uses)

    refused = model.run("mine/uses")
    model.answer("sign", item_id=f"config:{path}", content=text)
    model.approve(f"config:{path}")

    assert refused["code"] == "INTEGRITY"
    assert str(file) in refused["error"]
    assert f'propose its repair: sign {{"item_id": "config:{path}"' in refused["hint"]
    assert model.run("mine/uses")["status"] == "success"


@pytest.mark.parametrize("is_dry", [True, False])
def test_an_agent_writes_no_settings_that_give_rights(model: Model, *, is_dry: bool) -> None:
    answer = model.answer(
        "sign", item_id="config:sandbox/policy", content="level: off\n", dry_run=is_dry
    )

    assert answer["code"] == "PERMISSION_DENIED"
    assert answer["hint"] == "ask your user to run: rye new config sandbox/policy --space user"
    assert not (model.workspace.project_path / ".ai/config/sandbox").exists()


def test_settings_that_give_rights_and_are_broken_are_their_users_to_repair(model: Model) -> None:
    for name in ("remotes/remotes", "web/search"):
        path = model.workspace.project.write(f"config/{name}.yaml", "a: [\n")
        text = f'version: "1.0.0"\ncategory: {name.partition("/")[0]}\n'

        refused = model.answer("sign", item_id=f"config:{name}", content=text)
        as_it_is = model.answer("sign", item_id=f"config:{name}")

        assert refused["hint"] == f"ask your user to run: rye edit config:{name} --sign"
        assert as_it_is["hint"] == f"ask your user to run: rye sign {path}"
        assert path.read_text("utf-8") == "a: [\n"


def test_a_call_that_broken_settings_of_rights_stop_says_whom_to_ask(model: Model) -> None:
    model.put("tool:mine/x", tool("return {}"))
    model.workspace.project.write("config/remotes/remotes.yaml", "a: [\n")

    answer = model.answer(
        "execute", item_id="tool:mine/x", options={"target": "remote"}, parameters={}
    )

    assert "ask your user to run: rye edit config:remotes/remotes" in answer["hint"]


GRAPH_WITH_A_SLIP = """\
version: "1.0.0"
tool_type: graph
executor_id: rye/core/runtimes/state-graph/runtime
category: mine
description: goes on whatever stands there
permissions: []
config:
  start: a
  nodes:
    a: {type: gate, condition: {path: state.x, op: eq, value: 1}, next: [{to: b}]}
    b: {type: return}
"""


def test_a_text_that_waits_is_in_its_file_and_the_one_before_is_kept(model: Model) -> None:
    before = CONFIG.format(100)
    model.put("config:execution/execution", before)
    waits = model.answer("sign", item_id="config:execution/execution", content=CONFIG.format(200))
    path = model.workspace.project_path / ".ai/config/execution/execution.yaml"

    assert waits["status"] == "approval_required"
    assert path.read_text("utf-8") == CONFIG.format(200)
    assert "timeout: 100" in Path(waits["prior_text"]).read_text("utf-8")


def test_what_nothing_in_a_graph_uses_is_said_with_its_line(model: Model) -> None:
    waits = model.answer("sign", item_id="tool:mine/g", content=GRAPH_WITH_A_SLIP)

    assert waits["status"] == "approval_required"
    (warning,) = waits["warnings"]
    assert warning.startswith("tool:mine/g, line 10: config.nodes.a.condition: unknown key")


def test_a_server_that_signs_nothing_writes_no_text(model: Model) -> None:
    policy = 'version: "1.0.0"\ncategory: agents\nsign: never\n'
    path = model.workspace.user.write("config/agents/policy.yaml", policy)
    model.workspace.user.sign(path)

    refused = model.answer("sign", item_id="config:execution/execution", content=CONFIG.format(200))

    assert refused["code"] == "APPROVAL_REQUIRED"
    assert not (model.workspace.project_path / ".ai/config").exists()
    assert not (model.workspace.project_path / ".ai/config/sandbox").exists()


def test_a_text_is_checked_without_being_written(model: Model) -> None:
    wrong = model.answer("sign", item_id="tool:mine/x", content="version: [\n", dry_run=True)
    right = model.answer("sign", item_id="tool:mine/x", content=tool("return {}"), dry_run=True)

    assert (wrong["code"], right["status"]) == ("PARSING_ERROR", "validation_passed")
    assert not list((model.workspace.project_path / ".ai").rglob("x.*"))


# --- warm workers


@held
def test_a_tool_that_was_changed_and_approved_again_reads_its_own_file(model: Model) -> None:
    project = model.workspace.project
    rights = 'SANDBOX = {"network": "none"}\n'
    body = "def execute(params):\n    return {'size': len(open(__file__).read())}\n"
    for text in (body, f"# changed\n{body}"):
        path = project.tool("mine/own", text, executor=FUNCTION, extra=rights)
        signed = sign(model.rye, {"item_id": "tool:mine/own"}).envelope
        assert signed["status"] == "signed"

        answers = [model.run("mine/own") for _ in range(2)]

        assert [one.get("data") for one in answers] == [{"size": len(path.read_text("utf-8"))}] * 2


@held
def test_a_file_that_has_taken_the_place_of_another_is_read_by_the_next_call(model: Model) -> None:
    project, path = model.workspace.project, model.workspace.project_path / "data.txt"
    rights = 'SANDBOX = {"read": ["{project}/data.txt"]}\n'
    body = f"def execute(params):\n    return {{'data': open({str(path)!r}).read()}}\n"
    project.signed_tool("mine/reads", body, executor=FUNCTION, extra=rights)

    answers = []
    for number in range(3):
        replaced(path, str(number))
        answers.append(model.run("mine/reads"))

    assert [one.get("data") for one in answers] == [{"data": str(n)} for n in range(3)]


@held
def test_a_new_file_beside_the_keys_of_the_user_is_read_by_the_next_call(model: Model) -> None:
    body = "def execute(params):\n    return {'data': open(params['path']).read()}\n"
    model.workspace.project.signed_tool("mine/reads", body, executor=FUNCTION)

    answers = []
    for number in range(3):
        replaced(model.workspace.home / f"{number}.txt", str(number))
        answers.append(model.run("mine/reads", path=str(model.workspace.home / f"{number}.txt")))

    assert [one.get("data") for one in answers] == [{"data": str(n)} for n in range(3)]


def replaced(path: Path, text: str) -> None:
    """Write a file as editors do: a new one takes its place."""
    new = path.with_name("new")
    new.write_text(text, encoding="utf-8")
    os.replace(new, path)  # noqa: PTH105 - named after what it does


@held
def test_a_file_that_a_header_does_not_name_for_reading_is_hinted_as_that(model: Model) -> None:
    rights, path = 'SANDBOX = {"network": "none"}\n', model.workspace.home / "notes.txt"
    replaced(path, "x")
    body = "def execute(params):\n    return {'data': open(params['path']).read()}\n"
    model.workspace.project.signed_tool("mine/reads", body, executor=FUNCTION, extra=rights)

    answer = model.run("mine/reads", path=str(path))

    assert f"its sandbox refused: read {path}" in answer["hint"]
    assert 'SANDBOX = {"read": ["~/notes.txt"]}' in answer["hint"]
