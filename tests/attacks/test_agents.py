"""An agent that signs its own work, or gives itself rights: over MCP, by tools, by shells."""

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from shutil import copy, copytree
from typing import Any

import pytest

from lillux.key_files import save_keypair
from lillux.landlock import landlock_version
from tests.support.built import BASE_PYTHON, Machine
from tests.support.mcp_client import INITIALIZE, McpClient, envelope_of
from tests.support.mcp_conversation import ELICITATION, Conversation
from tests.support.workspace import ROOT, Workspace

TOOL = """\
version: "1.0.0"
tool_type: bash
executor_id: rye/core/runtimes/bash/bash
category: mine
description: an agent wrote this
config: {command: "echo owned"}
"""
landlock = pytest.mark.skipif(not landlock_version(), reason="keys are held back by Landlock")


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory, built_pyz: Path) -> Machine:
    made = Machine(tmp_path_factory.mktemp("prepared"), BASE_PYTHON, built_pyz)
    assert made.run("init", "--project", ".").returncode == 0
    write(made)
    return made


@pytest.fixture
def machine(tmp_path: Path, prepared: Machine) -> Machine:
    made = Machine(tmp_path, *prepared.rye)
    for source, target in ((prepared.home, made.home), (prepared.project, made.project)):
        copytree(source, target, symlinks=True, dirs_exist_ok=True)
    return made


def write(machine: Machine, text: str = TOOL, name: str = "mine/x.yaml") -> Path:
    path = machine.project / ".ai/tools" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


class Agent:
    """A client of ``rye mcp`` in an older revision; its user answers as the test says."""

    def __init__(self, client: McpClient, capabilities: Mapping[str, Any]) -> None:
        self.client = client
        params = {**INITIALIZE, "capabilities": capabilities}
        client.result(client.send("initialize", params))
        client.notify("notifications/initialized")

    def call(self, name: str, **arguments: Any) -> dict[str, Any]:  # noqa: ANN401 - JSON
        return envelope_of(self.client.call(name, **arguments))

    def question_on(self, name: str, **arguments: Any) -> tuple[int, dict[str, Any]]:  # noqa: ANN401
        """A call that leads to a question: its id, and the question."""
        call = self.client.start_tool(name, **arguments)
        self.client.wait_until(lambda: bool(self.questions()), "no question")
        return call, self.questions()[-1]

    def questions(self) -> list[dict[str, Any]]:
        return [m for m in self.client.messages if m.get("method") == "elicitation/create"]

    def answer(self, question: Mapping[str, Any], result: Mapping[str, Any]) -> None:
        message = {"jsonrpc": "2.0", "id": question["id"], "result": result}
        self.client.write(json.dumps(message).encode() + b"\n")


Start = Callable[..., Agent]


@pytest.fixture
def start(machine: Machine, tmp_path: Path) -> Iterator[Start]:
    opened: list[McpClient] = []

    def begin(*flags: str, elicitation: bool = False) -> Agent:
        client = McpClient(
            [*machine.rye, "mcp", "--project", machine.project, *flags],
            env=machine.environ(),
            cwd=machine.project,
            stderr=tmp_path / f"stderr{len(opened)}",
        )
        opened.append(client)
        return Agent(client, {"elicitation": {}} if elicitation else {})

    yield begin
    for client in opened:
        client.__exit__(None, None, None)


def test_an_item_that_an_agent_wants_signed_waits_for_a_person(
    machine: Machine, start: Start
) -> None:
    agent = start()

    reply = agent.call("sign", item_id="tool:mine/x")

    assert reply["status"] == "approval_required"
    assert "rye approve" in reply["hint"]
    assert agent.call("execute", item_id="mine/x")["code"] == "UNSIGNED"
    listed = json.loads(machine.run("approve", "--list", "--json").stdout)["proposals"]
    assert [one["ref"] for one in listed] == ["tool:mine/x"]
    assert any("echo owned" in line for line in listed[0]["diff"])
    assert machine.run("approve", "--all").returncode == 0
    assert agent.call("execute", item_id="mine/x")["data"]["stdout"] == "owned\n"


def test_a_proposal_that_was_changed_since_is_not_signed(machine: Machine, start: Start) -> None:
    start().call("sign", item_id="tool:mine/x")
    write(machine, TOOL.replace("owned", "something else"))

    listed = machine.run("approve", "--list").stdout
    ended = machine.run("approve", "--all", "--json")

    assert (ended.returncode, json.loads(ended.stdout)["proposals"][0]["state"]) == (1, "failed")
    assert machine.run("run", "mine/x").returncode == 4
    assert "an agent may propose it again" in listed


def test_a_dropped_proposal_is_gone(machine: Machine, start: Start) -> None:
    start().call("sign", item_id="tool:mine/x")

    assert machine.run("approve", "--drop").returncode == 0
    assert json.loads(machine.run("approve", "--json").stdout)["proposals"] == []


@pytest.mark.parametrize(("words", "state"), [(("--all",), "signed"), (("--drop",), "dropped")])
def test_the_proposer_hears_of_the_decision(
    machine: Machine, start: Start, words: tuple[str, ...], state: str
) -> None:
    client = (agent := start()).client
    uri = agent.call("sign", item_id="tool:mine/x")["proposals"][0]["uri"]
    client.result(client.send("resources/subscribe", {"uri": uri}))
    assert read_state(client, uri) == "waiting"

    assert machine.run("approve", *words).returncode == 0

    updated = {"uri": uri}
    client.wait_until(
        lambda: any(
            one.get("method") == "notifications/resources/updated" and one["params"] == updated
            for one in client.messages
        ),
        "no answer",
    )
    assert read_state(client, uri) == state


def read_state(client: McpClient, uri: str) -> str:
    contents = client.result(client.send("resources/read", {"uri": uri}))["contents"]
    return str(json.loads(contents[0]["text"])["state"])


def test_a_client_that_can_ask_its_user_asks_and_signs(machine: Machine, start: Start) -> None:
    agent = start(elicitation=True)
    call, question = agent.question_on("sign", item_id="tool:mine/x")

    message = question["params"]["message"]
    assert "tool:mine/x" in message
    assert '+config: {command: "echo owned"}' in message
    agent.answer(question, {"action": "accept", "content": {"approve": True}})

    assert envelope_of(agent.client.result(call))["status"] == "signed"
    assert machine.run("run", "mine/x").stdout == "owned\n"


@pytest.mark.parametrize(
    "said",
    [
        {"action": "decline"},
        {"action": "cancel"},
        {"action": "accept", "content": {"approve": False}},
        {"action": "accept", "content": {"approve": "yes"}},
        {"action": "accept", "content": {}},
    ],
)
def test_without_a_clear_yes_nothing_is_signed(
    machine: Machine, start: Start, said: dict[str, Any]
) -> None:
    agent = start(elicitation=True)
    call, question = agent.question_on("sign", item_id="tool:mine/x")

    agent.answer(question, said)

    assert envelope_of(agent.client.result(call))["status"] == "declined"
    assert machine.run("run", "mine/x").returncode == 4


@pytest.mark.parametrize("is_new", [True, False])
def test_a_text_that_is_declined_is_written_nowhere(
    machine: Machine, start: Start, *, is_new: bool
) -> None:
    agent = start(elicitation=True)
    path = machine.project / f".ai/tools/mine/{'new' if is_new else 'x'}.yaml"
    before = None if is_new else path.read_bytes()
    text = (machine.project / ".ai/tools/mine/x.yaml").read_text("utf-8") + "# more\n"
    call, question = agent.question_on("sign", item_id=f"tool:mine/{path.stem}", content=text)

    agent.answer(question, {"action": "decline"})

    assert envelope_of(agent.client.result(call))["status"] == "declined"
    assert (path.read_bytes() if path.exists() else None) == before


@pytest.mark.parametrize(
    "more",
    [
        f"# {'x' * 600}; touch owned\n",
        "# x\n" * 100 + "# touch owned\n",
        f"# {'x' * 400}\n" * 20 + "# touch owned\n",
    ],
)
def test_a_question_shows_all_of_the_text(machine: Machine, start: Start, more: str) -> None:
    write(machine, TOOL + more)

    _, question = start(elicitation=True).question_on("sign", item_id="tool:mine/x")

    shown = question["params"]["message"].splitlines()
    assert all(f"+{line}" in shown for line in (TOOL + more).splitlines())


def test_a_text_that_is_too_long_for_a_form_is_no_question(machine: Machine, start: Start) -> None:
    write(machine, TOOL + f"# {'x' * 400}\n" * 60 + "# touch owned\n")
    agent = start(elicitation=True)

    reply = agent.call("sign", item_id="tool:mine/x")

    assert (reply["status"], agent.questions()) == ("approval_required", [])
    assert machine.run("run", "mine/x").returncode == 4


def test_above_the_text_of_a_question_stands_what_it_is(machine: Machine, start: Start) -> None:
    write(machine, TOOL + "sandbox: {read: ['{project}']}\n# p\u0430th\u200b# more\n")

    _, question = start(elicitation=True).question_on("sign", item_id="tool:mine/x")

    _, head, *facts = question["params"]["message"].partition("+version")[0].splitlines()
    assert head.startswith("tool:mine/x  sha256 ")
    assert [line.split()[0] for line in facts] == [
        *("space", "file", "kind", "rights", "signer", "replaces", "warning:")
    ]
    assert "reads {project}; writes nothing; no network; starts no program" in facts[3]
    assert "nothing: it is new" in facts[5]
    assert "2 characters are shown as escapes: 1 invisible character, 1 look-alike" in facts[6]


def test_a_client_that_cannot_ask_after_all_signs_nothing(machine: Machine, start: Start) -> None:
    agent = start(elicitation=True)
    call, question = agent.question_on("sign", item_id="tool:mine/x")

    error = {"code": -32603, "message": "the user did not answer in time"}
    message = {"jsonrpc": "2.0", "id": question["id"], "error": error}
    agent.client.write(json.dumps(message).encode())

    agent.client.answer(call)
    assert machine.run("run", "mine/x").returncode == 4


def test_an_unanswered_question_signs_nothing(machine: Machine, start: Start) -> None:
    agent = start(elicitation=True)
    call, _ = agent.question_on("sign", item_id="tool:mine/x")

    agent.client.cancel(call)

    assert agent.call("search", query="*", item_type="tool")["status"] != "error"
    assert machine.run("run", "mine/x").returncode == 4


# --- the modern revision, in which the client sends the answer with the call again


@pytest.fixture
def modern(workspace: Workspace) -> Conversation:
    save_keypair(workspace.context().key_directory, workspace.keypair)
    for name in ("x", "y"):
        workspace.project.write(f"tools/mine/{name}.yaml", TOOL)
    return Conversation(workspace.rye(), capabilities=ELICITATION)


def wish(item_id: str = "tool:mine/x") -> dict[str, Any]:
    return {"name": "sign", "arguments": {"item_id": item_id}}


YES = {"action": "accept", "content": {"approve": True}}


def test_a_modern_client_asks_and_signs(modern: Conversation, workspace: Workspace) -> None:
    questions = modern.result("tools/call", "InputRequiredResult", **wish())
    ((key, question),) = questions["inputRequests"].items()
    assert "tool:mine/x" in question["params"]["message"]

    answer = {"inputResponses": {key: YES}, "requestState": questions["requestState"]}
    signed = modern.result("tools/call", "CallToolResult", **wish(), **answer)

    assert signed["structuredContent"]["status"] == "signed"
    assert workspace.run("mine/x").success


@pytest.mark.parametrize("said", [{"action": "decline"}, {"action": "cancel"}, {}])
def test_a_modern_client_whose_user_does_not_agree_signs_nothing(
    modern: Conversation, workspace: Workspace, said: dict[str, Any]
) -> None:
    questions = modern.result("tools/call", "InputRequiredResult", **wish())
    (key,) = questions["inputRequests"]

    modern.ask(
        "tools/call", **wish(), inputResponses={key: said}, requestState=questions["requestState"]
    )

    assert not workspace.run("mine/x").success


def test_a_client_that_makes_up_an_answer_signs_nothing(
    modern: Conversation, workspace: Workspace
) -> None:
    """There was no question, or one about another item, or the file has changed since."""
    questions = modern.result("tools/call", "InputRequiredResult", **wish())
    (key,) = questions["inputRequests"]
    answer = {"inputResponses": {key: YES}, "requestState": questions["requestState"]}

    made_up = modern.error("tools/call", **wish(), inputResponses={key: YES}, requestState="a.b")
    other = modern.error("tools/call", **wish("tool:mine/y"), **answer)
    workspace.project.write("tools/mine/x.yaml", TOOL.replace("owned", "worse"))
    changed = modern.error("tools/call", **wish(), **answer)

    assert {one["code"] for one in (made_up, other, changed)} == {-32602}
    assert not workspace.run("mine/x").success
    assert not workspace.run("mine/y").success


def test_the_text_that_a_person_saw_is_signed(machine: Machine, start: Start) -> None:
    agent = start(elicitation=True)
    call, question = agent.question_on("sign", item_id="tool:mine/x")
    write(machine, TOOL.replace("echo owned", "echo worse"))

    agent.answer(question, {"action": "accept", "content": {"approve": True}})

    assert "error" in agent.client.answer(call)
    assert machine.run("run", "mine/x").returncode == 4


def test_with_sign_never_nothing_is_signed(machine: Machine, start: Start) -> None:
    reply = start("--sign", "never").call("sign", item_id="tool:mine/x")

    assert (reply["status"], reply["code"]) == ("error", "APPROVAL_REQUIRED")
    assert json.loads(machine.run("approve", "--json").stdout)["proposals"] == []


def test_allow_on_the_command_line_alone_is_refused(machine: Machine) -> None:
    """The command line may stand in a file that came with a project."""
    ended = machine.run("mcp", "--sign", "allow", "--project", str(machine.project))

    assert ended.returncode == 2
    assert "--sign allow: expected it in your user space too" in ended.stderr


def test_allow_in_user_space_signs(machine: Machine, start: Start) -> None:
    policy(machine, "sign: allow\n")

    assert start().call("sign", item_id="tool:mine/x")["status"] == "signed"


def test_a_policy_of_a_project_has_no_effect(machine: Machine, start: Start) -> None:
    path = machine.project / ".ai/config/agents/policy.yaml"
    path.parent.mkdir(parents=True)
    path.write_text("sign: allow\n", encoding="utf-8")

    assert start().call("sign", item_id="tool:mine/x")["status"] == "approval_required"


@pytest.mark.parametrize("mode", ["ask", "allow"])
@pytest.mark.parametrize(
    "name", ["keys/trusted/x.toml", "agents/policy.yaml", "remotes/remotes.yaml", "web/access.yaml"]
)
def test_a_config_that_gives_rights_is_never_signed_for_an_agent(
    machine: Machine, start: Start, name: str, mode: str
) -> None:
    policy(machine, "sign: allow\n" if mode == "allow" else "")
    path = machine.project / ".ai/config" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text('version = "1.0.0"\n', encoding="utf-8")
    item_id = f"config:{Path(name).with_suffix('').as_posix()}"

    reply = start().call("sign", item_id=item_id, item_type="config")

    assert reply["code"] == "PERMISSION_DENIED"
    assert "rye:signed" not in path.read_text("utf-8")


def test_execute_forwards_no_wish_to_sign(start: Start) -> None:
    reply = start().call("execute", item_id="tool:mine/x", action="sign")

    assert reply["code"] == "INVALID_PARAMS"


@landlock
@pytest.mark.parametrize(
    "command",
    [
        "cat $HOME/.ai/config/keys/signing/private_key.pem",
        "cp -r $HOME/.ai/config/keys/signing .",
        "ln $HOME/.ai/config/keys/signing/private_key.pem key",
        "cat /proc/$PPID/environ",
        "cat $HOME/.ai/state/agent/threads/x/journal.jsonl",
        "cat $HOME/.config/lab-token",
        "cp $HOME/.config/lab-token .",
        "echo 'sign: allow' > $HOME/.ai/config/agents.yaml",
        "mkdir $HOME/.ai/config/agents",
        "touch $HOME/.ai/config/keys/trusted/x.toml",
        "mv $HOME/.ai $HOME/.ai2",
        "rm $HOME/.ai/state/x || rm -r $HOME/.ai/state/versions",
    ],
)
def test_a_shell_of_an_agent_reaches_no_key_and_gives_no_rights(
    start: Start, machine: Machine, command: str
) -> None:
    (machine.home / ".ai/state/versions").mkdir(parents=True, exist_ok=True)
    for name in (".ai/state/agent/threads/x/journal.jsonl", ".config/lab-token"):
        (machine.home / name).parent.mkdir(parents=True, exist_ok=True)
        (machine.home / name).write_text("PRIVATE KEY", "utf-8")
    credential = machine.home / ".ai/config/credentials/lab.yaml"
    credential.parent.mkdir(parents=True, exist_ok=True)
    credential.write_text("hosts: [a.example]\nsource: {file: ~/.config/lab-token}\n", "utf-8")

    reply = start().call("execute", item_id="rye/bash/bash", parameters={"command": command})

    assert reply["status"] == "error", reply
    assert "PRIVATE KEY" not in json.dumps(reply)


@landlock
def test_rye_in_a_shell_of_an_agent_signs_nothing(machine: Machine, start: Start) -> None:
    program = " ".join(map(str, machine.rye))
    command = f"{program} sign tool:mine/x; {program} approve --all; {program} trust --yes"

    start().call("execute", item_id="rye/bash/bash", parameters={"command": command})

    assert machine.run("run", "mine/x").returncode == 4


@landlock
@pytest.mark.parametrize("words", ["raise x spend=9", "steer x hello", "resume x"])
def test_rye_in_a_shell_of_an_agent_changes_no_thread(
    machine: Machine, start: Start, words: str
) -> None:
    command = f"{' '.join(map(str, machine.rye))} threads {words}"

    reply = start().call("execute", item_id="rye/bash/bash", parameters={"command": command})

    assert "x: refused for what Rye confined" in json.dumps(reply)


@landlock
def test_rye_in_a_shell_of_an_agent_approves_no_import(machine: Machine, start: Start) -> None:
    vectors = ROOT / "tests/vectors/imports"
    copytree(vectors / "skills", machine.project / "skills")
    copy(vectors / "scripts/report.py", machine.project)
    copy(vectors / "tasks/mise.toml", machine.project)
    copy(vectors / "tasks/deploy.sh", machine.project)
    program = " ".join(map(str, machine.rye))
    command = (
        f"{program} import --yes; {program} skill add skills/release-notes --yes;"
        f" {program} approve --all; {program} sign --yes tool:scripts/report"
    )

    given = {"item_id": "rye/bash/bash", "parameters": {"command": command}}
    start().client.call("execute", **given)

    # Nothing was even written: commands of Rye in an agent's shell are held as the shell is.
    assert not (machine.project / ".ai/tools/scripts").exists()
    for item in ("directive:skills/release_notes", "scripts/report", "tasks/mise/hello"):
        assert machine.run("run", item).returncode == 3, item


@landlock
def test_a_python_function_of_an_agent_reaches_no_key(machine: Machine, start: Start) -> None:
    text = (
        '"""A function."""\n__version__ = "1.0.0"\n__tool_type__ = "python"\n'
        '__executor_id__ = "rye/core/runtimes/python/function"\n__category__ = "mine"\n'
        '__tool_description__ = "reads"\n\n\ndef execute(params, project_path):\n'
        "    import os, pathlib\n"
        '    home = pathlib.Path(os.environ["HOME"])\n'
        '    return (home / ".ai/config/keys/signing/private_key.pem").read_text()\n'
    )
    write(machine, text, "mine/f.py")
    assert machine.run("sign", "tool:mine/f").returncode == 0

    reply = start().call("execute", item_id="mine/f")

    assert reply["status"] == "error"
    assert "PermissionError" in reply["error"]


def policy(machine: Machine, text: str) -> None:
    path = machine.home / ".ai/config/agents/policy.yaml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f'version: "1.0.0"\ncategory: agents\n{text}', encoding="utf-8")


def test_an_item_that_the_policy_denies_is_neither_run_nor_read_nor_found(
    machine: Machine, start: Start
) -> None:
    assert machine.run("sign", "tool:mine/x").returncode == 0
    policy(machine, "rules: [{client: '*', items: 'tool:mine/**', decision: deny}]\n")
    agent = start()

    run = agent.call("execute", item_id="mine/x")
    read = agent.call("load", item_id="tool:mine/x")
    found = agent.call("search", query="agent wrote", source="project")

    assert (run["code"], read["code"], found["results"]) == (
        "PERMISSION_DENIED",
        "PERMISSION_DENIED",
        [],
    )
    assert (
        agent.call("execute", item_id="rye/bash/bash", parameters={"command": "true"})["status"]
        == "success"
    )


@pytest.mark.parametrize("decision", ["deny", "ask"])
def test_an_argument_among_the_options_evades_no_rule(
    decision: str, machine: Machine, start: Start
) -> None:
    assert machine.run("sign", "tool:mine/x").returncode == 0
    policy(machine, f"rules: [{{client: '*', items: 'tool:mine/**', decision: {decision}}}]\n")
    agent = start()

    inside = {"item_id": "mine/x", "project_path": str(machine.project)}
    hidden = agent.call("execute", options=inside)
    as_text = agent.call("execute", options=json.dumps(inside))
    several = agent.call("execute", batch=[{"options": inside}])["results"][0]
    twice = agent.call("execute", item_id="rye/bash/bash", options={"item_id": "mine/x"})
    nested = agent.call("execute", options={"options": inside})

    refusal = "PERMISSION_DENIED" if decision == "deny" else "APPROVAL_REQUIRED"
    assert [one["code"] for one in (hidden, as_text, several)] == [refusal] * 3
    assert (twice["code"], nested["code"]) == ("INVALID_PARAMS", "INVALID_PARAMS")


def test_the_command_line_cannot_allow_items_that_the_user_denies(
    machine: Machine, start: Start
) -> None:
    """A clone's `.mcp.json` may hold it."""
    policy(machine, "rules: [{items: 'tool:rye/bash/**', decision: deny}]\n")

    reply = start("--allow", "**").call("execute", item_id="rye/bash/bash", parameters={})

    assert reply["code"] == "PERMISSION_DENIED"


def test_a_client_may_have_some_items_alone(machine: Machine, start: Start) -> None:
    policy(machine, "sign: allow\n")
    agent = start("--deny", "**", "--allow", "tool:mine/**")
    assert agent.call("sign", item_id="tool:mine/x")["status"] == "signed"

    denied = agent.call("execute", item_id="rye/bash/bash", parameters={"command": "true"})

    assert denied["code"] == "PERMISSION_DENIED"
    assert agent.call("execute", item_id="mine/x")["status"] == "success"


def test_a_rule_for_another_client_has_no_effect(machine: Machine, start: Start) -> None:
    assert machine.run("sign", "tool:mine/x").returncode == 0
    policy(machine, "rules: [{client: somebody-else, items: '**', decision: deny}]\n")

    assert start().call("execute", item_id="mine/x")["status"] == "success"


def test_a_call_that_needs_consent_is_not_made_without_an_answer(
    machine: Machine, start: Start
) -> None:
    assert machine.run("sign", "tool:mine/x").returncode == 0

    silent = start("--ask", "tool:mine/**").call("execute", item_id="mine/x")
    agent = start("--ask", "tool:mine/**", elicitation=True)
    call, question = agent.question_on("execute", item_id="mine/x")
    agent.answer(question, {"action": "accept", "content": {"approve": True}})

    assert silent["code"] == "APPROVAL_REQUIRED"
    assert envelope_of(agent.client.result(call))["data"]["stdout"] == "owned\n"


def test_no_user_is_asked_about_a_call_that_is_refused_anyway(
    machine: Machine, start: Start
) -> None:
    assert machine.run("sign", "tool:mine/x").returncode == 0
    agent = start("--ask", "tool:mine/**", elicitation=True)

    refused = agent.call("execute", item_id="mine/x", wait_s="soon")

    assert (refused["code"], refused["error"]) == (
        "INVALID_PARAMS",
        "wait_s: expected an integer, found 'soon'",
    )


def test_an_item_that_the_policy_names_is_a_tool_of_its_own(machine: Machine, start: Start) -> None:
    assert machine.run("sign", "tool:mine/x").returncode == 0
    policy(machine, "tools: [tool:mine/x]\n")
    agent = start()

    listed = agent.client.result(agent.client.send("tools/list"))["tools"]

    named = [tool for tool in listed if tool["name"] == "mine_x"]
    assert named[0]["description"] == "an agent wrote this"
    assert agent.call("mine_x")["data"]["stdout"] == "owned\n"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("signs: allow\n", "did you mean sign?"),
        ("sign: always\n", "expected one of ask, never, allow"),
        ("rules: [{items: 'a', decision: maybe}]\n", "expected one of allow, ask, deny"),
        ("rules: [{item: 'a', decision: deny}]\n", "did you mean items?"),
        ("tools: mine/x\n", "expected a list"),
    ],
)
def test_a_broken_policy_lets_nothing_through(
    machine: Machine, start: Start, text: str, problem: str
) -> None:
    policy(machine, text)

    reply = start().call("execute", item_id="rye/bash/bash", parameters={"command": "true"})

    assert reply["code"] == "CONFIG_ERROR"
    assert problem in reply["error"]


def test_a_text_that_an_agent_sends_to_sign_waits_for_its_user(
    machine: Machine, start: Start
) -> None:
    agent = start()
    text = TOOL.replace("category: mine", "category: mine/deep")

    reply = agent.call("sign", item_id="tool:mine/deep/y", content=text, try_parameters={})

    assert (reply["status"], "tried" in reply) == ("approval_required", False)
    assert (machine.project / ".ai/tools/mine/deep/y.yaml").read_text("utf-8") == text
    assert machine.run("run", "mine/deep/y").returncode == 4


@pytest.mark.parametrize(
    ("item_id", "item_type", "code"),
    [
        ("config:agents/policy", None, "PERMISSION_DENIED"),
        ("agents/policy", "config", "PERMISSION_DENIED"),
        ("tool:../../out", None, "INVALID_REF"),
        ("tool:mine/*", None, "INVALID_PARAMS"),
        ("tool:linked/out", None, "INVALID_REF"),
    ],
)
def test_a_text_is_written_only_among_the_items_of_a_space(
    item_id: str, item_type: str | None, code: str, machine: Machine, start: Start
) -> None:
    outside = machine.temporary / "outside"
    outside.mkdir()
    (machine.project / ".ai/tools/linked").symlink_to(outside)
    kind = {"item_type": item_type} if item_type else {}

    reply = start().call("sign", item_id=item_id, content="version: '1.0.0'\n", **kind)

    assert reply["code"] == code, reply
    assert list(outside.iterdir()) == []


def test_an_agent_writes_no_text_to_user_space(machine: Machine, start: Start) -> None:
    """There it would hide the bundle's item of the same id in every project."""
    agent = start()

    reply = agent.call("sign", item_id="tool:rye/bash/bash", content=TOOL, source="user")
    older = agent.call(
        "sign", item_id="tool:rye/bash/bash", content=TOOL, parameters={"location": "user"}
    )

    assert (reply["code"], older["code"]) == ("INVALID_PARAMS", "INVALID_PARAMS")
    assert [*(machine.home / ".ai/tools").rglob("bash*")] == []


def test_a_prior_text_is_kept_when_a_new_one_is_signed(machine: Machine, start: Start) -> None:
    policy(machine, "sign: allow\n")
    agent = start()
    path = machine.project / ".ai/tools/mine/x.yaml"
    prior = path.read_text("utf-8")

    first = agent.call("sign", item_id="tool:mine/x", content=f"{prior}\n# more\n")
    again = agent.call("sign", item_id="tool:mine/x", content=f"{prior}\n# more\n")
    other = agent.call("sign", item_id="tool:mine/x.sh", content=prior)

    assert (first["status"], "unchanged" in first, again["unchanged"]) == ("signed", False, True)
    assert Path(first["prior_text"]).read_text("utf-8") == prior
    assert [*machine.project.rglob("*.bak*")] == []
    assert other["code"] == "INVALID_PARAMS"
