"""The shells of the bundle run what an agent writes: a client that can ask its user asks once."""

from typing import Any

import pytest

from ryeos.items.refs import RUN_COMMANDS, SHELLS
from tests.attacks.test_agents import Agent, Start, machine, policy, prepared, start
from tests.support.built import Machine
from tests.support.mcp_client import envelope_of
from tests.support.workspace import ROOT

__all__ = ["machine", "prepared", "start"]
YES = {"action": "accept", "content": {"approve": True}}
SHELL = {"item_id": "rye/bash/bash", "parameters": {"command": "echo ran"}}


def answered(agent: Agent, said: dict[str, Any], **arguments: Any) -> dict[str, Any]:  # noqa: ANN401
    call, question = agent.question_on("execute", **arguments)
    agent.answer(question, said)
    return envelope_of(agent.client.result(call))


def test_a_user_is_asked_once_a_session_before_a_shell_runs(start: Start) -> None:
    agent = start(elicitation=True)

    first = answered(agent, YES, **SHELL)
    second = agent.call("execute", **SHELL)

    message = agent.questions()[0]["params"]["message"]
    assert "commands that it writes itself, with tool:rye/bash/bash" in message
    assert "echo ran" in message
    assert first["data"]["stdout"] == second["data"]["stdout"] == "ran\n"
    assert len(agent.questions()) == 1


@pytest.mark.parametrize("said", [{"action": "decline"}, {"action": "cancel"}])
def test_without_a_yes_no_shell_runs_in_this_session(start: Start, said: dict[str, Any]) -> None:
    agent = start(elicitation=True)

    first = answered(agent, said, **SHELL)
    second = agent.call("execute", **SHELL)

    assert first["code"] == second["code"] == "APPROVAL_REQUIRED"
    assert len(agent.questions()) == 1


@pytest.mark.parametrize(
    "arguments",
    [
        {"item_id": "tool:rye/bash/bash", "parameters": {"command": "touch ran"}},
        {"item_id": "rye/bash/bash", "async": True, "parameters": {"command": "touch ran"}},
        {"options": {**SHELL}},
    ],
)
def test_no_spelling_of_a_call_evades_the_question(
    machine: Machine, start: Start, arguments: dict[str, Any]
) -> None:
    agent = start(elicitation=True)

    refused = answered(agent, {"action": "decline"}, **arguments)

    assert refused["code"] == "APPROVAL_REQUIRED"
    assert not (machine.project / "ran").exists()


def test_a_graph_of_the_bundle_that_runs_commands_of_its_caller_asks_as_a_shell(
    machine: Machine, start: Start
) -> None:
    agent = start(elicitation=True)
    given = {"command": "touch ran", "approved": True}

    refused = answered(
        agent, {"action": "decline"}, item_id="rye/examples/approval-gate", parameters=given
    )

    assert refused["code"] == "APPROVAL_REQUIRED"
    assert not (machine.project / "ran").exists()


def test_every_graph_of_the_bundle_that_starts_a_shell_is_known_as_one() -> None:
    tools = ROOT / "bundle.ai/tools"
    texts = {path: path.read_text("utf-8") for path in tools.rglob("*.yaml")}
    starting = {
        path.relative_to(tools).with_suffix("").as_posix()
        for path, text in texts.items()
        if "tool_type: graph" in text and any(f"tool:{shell}" in text for shell in SHELLS)
    }

    assert starting
    assert starting <= RUN_COMMANDS


def test_a_batch_runs_no_shell_before_the_user_said_yes(machine: Machine, start: Start) -> None:
    command = {"item_id": "rye/bash/bash", "parameters": {"command": "touch ran"}}
    agent = start(elicitation=True)

    before = agent.call("execute", batch=[command])
    is_there = (machine.project / "ran").exists()
    answered(agent, YES, **SHELL)
    after = agent.call("execute", batch=[command])

    assert before["results"][0]["status"] == "not_run"
    assert not is_there
    assert after["status"] == "success"
    assert (machine.project / "ran").exists()


def test_a_client_that_cannot_ask_runs_a_shell(start: Start) -> None:
    assert start().call("execute", **SHELL)["data"]["stdout"] == "ran\n"


@pytest.mark.parametrize(
    ("said", "code"),
    [("shells: deny\n", "PERMISSION_DENIED"), ("shells: ask\n", "APPROVAL_REQUIRED")],
)
def test_the_policy_makes_shells_stricter(
    machine: Machine, start: Start, said: str, code: str
) -> None:
    policy(machine, said)

    assert start().call("execute", **SHELL)["code"] == code


@pytest.mark.parametrize(
    "said", ["shells: allow\n", "rules: [{items: 'tool:rye/bash/**', decision: allow}]\n"]
)
def test_the_policy_lets_shells_run_without_a_question(
    machine: Machine, start: Start, said: str
) -> None:
    policy(machine, said)
    agent = start(elicitation=True)

    assert agent.call("execute", **SHELL)["data"]["stdout"] == "ran\n"
    assert agent.questions() == []


def test_a_command_line_cannot_take_the_question_away(start: Start) -> None:
    agent = start("--allow", "**", elicitation=True)

    assert answered(agent, {"action": "decline"}, **SHELL)["code"] == "APPROVAL_REQUIRED"


def test_an_unknown_word_of_the_policy_is_refused(machine: Machine, start: Start) -> None:
    policy(machine, "shells: once\n")

    reply = start().call("execute", **SHELL)

    assert reply["code"] == "CONFIG_ERROR"
    assert "expected one of session, allow, ask, deny" in reply["error"]


@pytest.mark.parametrize(
    ("item_id", "parameters", "words"),
    [
        ("subprocess", {"command": "touch", "args": ["ran"]}, "run commands that it writes itself"),
        (
            "rye/core/primitives/http_client",
            {"url": "http://127.0.0.1:9/"},
            "send requests that it writes itself",
        ),
    ],
)
def test_a_primitive_that_an_agent_calls_asks_as_a_shell_does(
    machine: Machine, start: Start, item_id: str, parameters: dict[str, Any], words: str
) -> None:
    agent = start(elicitation=True)

    refused = answered(agent, {"action": "decline"}, item_id=item_id, parameters=parameters)

    assert words in agent.questions()[0]["params"]["message"]
    assert refused["code"] == "APPROVAL_REQUIRED"
    assert not (machine.project / "ran").exists()


def test_a_program_of_a_primitive_is_confined_as_a_shell_is(machine: Machine, start: Start) -> None:
    ran = start().call(
        "execute",
        item_id="rye/core/primitives/execute",
        parameters={"command": "touch", "args": [".ai/tools/planted.py"]},
    )

    assert ran["status"] == "error"
    assert not (machine.project / ".ai" / "tools" / "planted.py").exists()
