"""States that a client sends back, and the question to the user before a file is replaced."""

from typing import Any

import pytest

from ryeos.mcp.questions import STATE_TTL_S, States
from ryeos.mcp.revisions import RpcError
from tests.support.mcp_conversation import ELICITATION, Conversation
from tests.support.workspace import Workspace

BASH = "tool:rye/bash/bash"
ARGUMENTS = {"item_id": BASH, "source": "system", "destination": "project"}
LOAD = {"name": "load", "arguments": ARGUMENTS}


def test_a_state_is_good_for_its_purpose_for_ten_minutes() -> None:
    now = [1000.0]
    states = States(lambda: now[0])
    state = states.seal("a")
    states.require(state, "a")

    with pytest.raises(RpcError, match="another request"):
        states.require(state, "b")
    now[0] += STATE_TTL_S + 1
    with pytest.raises(RpcError, match="too old"):
        states.require(state, "a")


def test_a_state_of_another_process_is_refused() -> None:
    with pytest.raises(RpcError, match="not one of this server's"):
        States().require(States().seal("a"), "a")


@pytest.fixture
def conflict(workspace: Workspace) -> Workspace:
    """Another file is where the tool would be copied to."""
    workspace.project.write("tools/rye/bash/bash.yaml", "mine\n")
    return workspace


def copied(workspace: Workspace) -> bool:
    path = workspace.project_path / ".ai" / "tools" / "rye" / "bash" / "bash.yaml"
    return path.read_bytes() != b"mine\n"


def question_of(conversation: Conversation) -> dict[str, Any]:
    return conversation.result("tools/call", "InputRequiredResult", **LOAD)


def answered(conversation: Conversation, state: str, response: dict[str, Any]) -> dict[str, Any]:
    return conversation.result(
        "tools/call",
        "CallToolResult",
        **LOAD,
        inputResponses={"overwrite": response},
        requestState=state,
    )


def test_a_user_who_agrees_has_the_file_replaced_and_a_copy_kept(conflict: Workspace) -> None:
    conversation = Conversation(conflict.rye(), capabilities=ELICITATION)
    question = question_of(conversation)
    accepted = {"action": "accept", "content": {"overwrite": True}}

    result = answered(conversation, question["requestState"], accepted)

    message = question["inputRequests"]["overwrite"]["params"]["message"]
    assert message.endswith("another file is there. Replace it?")
    assert result["structuredContent"]["copied_to"] == "project"
    assert copied(conflict)


@pytest.mark.parametrize(
    "response",
    [
        {"action": "decline"},
        {"action": "cancel"},
        {"action": "accept", "content": {"overwrite": False}},
        {"action": "accept"},
    ],
)
def test_a_user_who_does_not_agree_keeps_the_file(
    response: dict[str, Any], conflict: Workspace
) -> None:
    conversation = Conversation(conflict.rye(), capabilities=ELICITATION)

    result = answered(conversation, question_of(conversation)["requestState"], response)

    assert result["isError"] is True
    assert result["structuredContent"]["code"] == "CONFLICT"
    assert not copied(conflict)


@pytest.mark.parametrize("version", ["2025-11-25", "2026-07-28"])
def test_a_client_without_forms_gets_the_conflict(version: str, conflict: Workspace) -> None:
    result = Conversation(conflict.rye(), version=version).result("tools/call", **LOAD)

    assert result["structuredContent"]["code"] == "CONFLICT"
    assert not copied(conflict)
