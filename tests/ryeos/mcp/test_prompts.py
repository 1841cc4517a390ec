"""Directives as prompts, over the protocol."""

from typing import Any

import pytest

from ryeos.items.refs import ItemRef, Kind
from ryeos.mcp.prompts import named
from tests.support.mcp_conversation import ELICITATION, Conversation
from tests.support.workspace import SpaceFolder, Workspace

INPUTS = """<inputs>
<input name="path" type="string" required="true">Where to look</input>
<input name="depth" type="integer" default="2">How deep</input>
</inputs>"""


def signed(space: SpaceFolder, item_id: str, body: str = "Do it.", inputs: str = "") -> None:
    space.sign(space.directive(item_id, body, inputs))


def names(conversation: Conversation) -> list[str]:
    prompts = conversation.result("prompts/list", "ListPromptsResult")["prompts"]
    return [prompt["name"] for prompt in prompts]


def text(result: dict[str, Any]) -> str:
    (message,) = result["messages"]
    return str(message["content"]["text"])


# --- the list


@pytest.mark.parametrize("version", ["2024-11-05", "2025-11-25", "2026-07-28"])
def test_a_directive_is_a_prompt_with_its_inputs_as_arguments(
    version: str, workspace: Workspace
) -> None:
    signed(workspace.project, "mine/review", inputs=INPUTS)

    conversation = Conversation(workspace.rye(), version=version)
    (prompt,) = conversation.result("prompts/list", "ListPromptsResult")["prompts"]

    title = {"title": "mine/review"} if version >= "2025-06-18" else {}
    assert prompt == {
        "name": "mine.review",
        **title,
        "description": "test",
        "arguments": [
            {"name": "path", "description": "Where to look (string)", "required": True},
            {"name": "depth", "description": "How deep (integer, default 2)", "required": False},
        ],
    }


def test_an_unverified_directive_is_not_listed(workspace: Workspace) -> None:
    workspace.project.directive("mine/unsigned")
    path = workspace.project.directive("mine/changed")
    workspace.project.sign(path)
    path.write_bytes(path.read_bytes() + b"more\n")
    signed(workspace.user, "mine/good")

    assert names(Conversation(workspace.rye())) == ["mine.good"]


def test_a_nearer_directive_that_does_not_verify_hides_the_one_that_does(
    workspace: Workspace,
) -> None:
    signed(workspace.user, "mine/review")
    workspace.project.directive("mine/review")

    assert names(Conversation(workspace.rye())) == []


def test_names_have_the_letters_that_clients_take_and_are_different() -> None:
    ids = ["a b", "a/b", "a.b", "a_b", "ä", "x" * 70, "x" * 71]

    found = named([ItemRef(Kind.DIRECTIVE, one) for one in ids])

    assert list(found) == ["a_b", "a.b", "a.b_2", "a_b_2", "_", "x" * 64, f"{'x' * 62}_2"]


def test_without_prompts_there_are_no_methods_for_them(workspace: Workspace) -> None:
    conversation = Conversation(workspace.rye(), prompts="none")

    discovered = conversation.result("server/discover", "DiscoverResult")
    assert "prompts" not in discovered["capabilities"]
    assert conversation.error("prompts/list")["code"] == -32601


def test_a_long_list_comes_in_pages(workspace: Workspace) -> None:
    for number in range(103):
        workspace.project.sign(workspace.project.directive(f"many/d{number:03}"))
    conversation = Conversation(workspace.rye())

    first = conversation.result("prompts/list", "ListPromptsResult")
    second = conversation.result("prompts/list", "ListPromptsResult", cursor=first["nextCursor"])

    assert len(first["prompts"]) == 100
    assert [one["name"] for one in second["prompts"]] == ["many.d100", "many.d101", "many.d102"]
    assert "nextCursor" not in second


# --- one prompt


def test_a_prompt_is_the_directive_with_its_inputs_written_in(workspace: Workspace) -> None:
    signed(workspace.project, "mine/review", "Look at {input:path}, {input:depth} deep.", INPUTS)

    conversation = Conversation(workspace.rye())
    result = conversation.result(
        "prompts/get", "GetPromptResult", name="mine.review", arguments={"path": "a", "depth": "3"}
    )

    assert result["description"] == "test"
    assert text(result).strip() == "Look at a, 3 deep."


def test_an_empty_field_for_a_number_is_the_default(workspace: Workspace) -> None:
    signed(workspace.project, "mine/review", "{input:depth}", INPUTS)

    conversation = Conversation(workspace.rye())
    result = conversation.result(
        "prompts/get", name="mine.review", arguments={"path": "", "depth": ""}
    )

    assert text(result).strip() == "2"


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({"path": "a", "depth": "deep"}, "expected integer"),
        ({"depth": "1"}, "Missing required inputs: path"),
        ({"path": "a", "other": "b"}, "Unknown parameters: other"),
        ({"path": 5}, "arguments.path: expected a string"),
        ([], "arguments: expected an object"),
    ],
)
def test_a_value_that_does_not_fit_is_a_wrong_parameter(
    arguments: object, problem: str, workspace: Workspace
) -> None:
    signed(workspace.project, "mine/review", inputs=INPUTS)

    error = Conversation(workspace.rye()).error(
        "prompts/get", name="mine.review", arguments=arguments
    )

    assert error["code"] == -32602
    assert problem in error["message"]


def test_an_unknown_prompt_is_a_wrong_parameter(workspace: Workspace) -> None:
    error = Conversation(workspace.rye()).error("prompts/get", name="mine.review")

    assert (error["code"], error["message"]) == (-32602, "unknown prompt: mine.review")


def test_a_prompt_that_was_changed_is_refused_with_its_code(workspace: Workspace) -> None:
    workspace.project.directive("mine/review")

    error = Conversation(workspace.rye()).error("prompts/get", name="mine.review")

    assert (error["code"], error["data"]["code"]) == (-32603, "UNSIGNED")


# --- questions about missing inputs


def test_a_client_with_forms_gets_a_form_for_missing_inputs(workspace: Workspace) -> None:
    signed(workspace.project, "mine/review", "Look at {input:path}.", INPUTS)
    conversation = Conversation(workspace.rye(), capabilities=ELICITATION)

    question = conversation.result("prompts/get", "InputRequiredResult", name="mine.review")
    response = {"action": "accept", "content": {"path": "src", "depth": 9}}
    result = conversation.result(
        "prompts/get",
        "GetPromptResult",
        name="mine.review",
        inputResponses={"inputs": response},
        requestState=question["requestState"],
    )

    assert question["resultType"] == "input_required"
    assert question["inputRequests"]["inputs"]["params"] == {
        "mode": "form",
        "message": "directive:mine/review needs path",
        "requestedSchema": {
            "type": "object",
            "properties": {"path": {"type": "string", "description": "Where to look"}},
            "required": ["path"],
        },
    }
    assert text(result).strip() == "Look at src."


@pytest.mark.parametrize("action", ["decline", "cancel"])
def test_a_user_who_does_not_answer_leaves_the_input_missing(
    action: str, workspace: Workspace
) -> None:
    signed(workspace.project, "mine/review", inputs=INPUTS)
    conversation = Conversation(workspace.rye(), capabilities=ELICITATION)
    question = conversation.result("prompts/get", name="mine.review")

    error = conversation.error(
        "prompts/get",
        name="mine.review",
        inputResponses={"inputs": {"action": action}},
        requestState=question["requestState"],
    )

    assert error["code"] == -32602
    assert "Missing required inputs: path" in error["message"]


@pytest.mark.parametrize("capabilities", [{}, {"elicitation": {"url": {}}}])
def test_a_client_without_forms_learns_the_missing_inputs(
    capabilities: dict[str, object], workspace: Workspace
) -> None:
    signed(workspace.project, "mine/review", inputs=INPUTS)

    error = Conversation(workspace.rye(), capabilities=capabilities).error(
        "prompts/get", name="mine.review"
    )

    assert error["code"] == -32602


def test_a_legacy_client_never_gets_a_form(workspace: Workspace) -> None:
    signed(workspace.project, "mine/review", inputs=INPUTS)
    conversation = Conversation(
        workspace.rye(), version="2025-11-25", capabilities={"elicitation": {}}
    )

    assert conversation.error("prompts/get", name="mine.review")["code"] == -32602
