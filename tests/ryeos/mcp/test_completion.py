"""Candidates of completion, over the protocol."""

from typing import Any

import pytest

from ryeos.mcp.outputs import windowed
from tests.support.mcp_conversation import Conversation
from tests.support.workspace import Workspace

ITEMS = {"type": "ref/resource", "uri": "rye://{kind}/{+id}"}
INPUTS = """<inputs>
<input name="path" type="string" required="true">Where</input>
<input name="quick" type="boolean" default="false">How</input>
<input name="api_key" type="string">Secret</input>
</inputs>"""


def values(
    conversation: Conversation,
    ref: dict[str, str],
    name: str,
    typed: str = "",
    **context: Any,  # noqa: ANN401 - JSON
) -> list[str]:
    result = conversation.result(
        "completion/complete",
        "CompleteResult",
        ref=ref,
        argument={"name": name, "value": typed},
        **context,
    )
    found: list[str] = result["completion"]["values"]
    return found


@pytest.mark.parametrize("version", ["2025-11-25", "2026-07-28"])
def test_ids_that_begin_with_the_text_come_before_those_that_contain_it(
    version: str, workspace: Workspace
) -> None:
    for item_id in ("zz/view", "mine/buzzer", "other/x"):
        workspace.project.directive(item_id)
    conversation = Conversation(workspace.rye(), version=version)

    found = values(conversation, ITEMS, "id", "ZZ", context={"arguments": {"kind": "directive"}})

    assert found == ["zz/view", "mine/buzzer"]


def test_kinds_topics_and_kept_outputs_complete(workspace: Workspace) -> None:
    rye = workspace.rye()
    _, kept = windowed({"data": "x" * 200_000}, rye.context, 1000)
    assert kept
    conversation = Conversation(rye)

    assert values(conversation, ITEMS, "kind") == ["directive", "knowledge", "tool"]
    topic = {"type": "ref/resource", "uri": "rye://help/{topic}"}
    assert values(conversation, topic, "topic", "sign") == ["sign", "signing"]
    output = {"type": "ref/resource", "uri": "rye://output/{id}{?offset,length}"}
    assert values(conversation, output, "id") == [kept.path.stem]


def test_at_most_a_hundred_values_are_reported(workspace: Workspace) -> None:
    for number in range(120):
        workspace.project.knowledge(f"many/k{number:03}")

    result = Conversation(workspace.rye()).result(
        "completion/complete",
        "CompleteResult",
        ref=ITEMS,
        argument={"name": "id", "value": "many/"},
    )

    assert len(result["completion"]["values"]) == 100
    assert (result["completion"]["total"], result["completion"]["hasMore"]) == (120, True)


def test_an_argument_of_a_prompt_completes_to_earlier_values_and_its_default(
    workspace: Workspace,
) -> None:
    workspace.project.sign(workspace.project.directive("mine/review", inputs=INPUTS))
    conversation = Conversation(workspace.rye())
    for path in ("a", "b", "a"):
        arguments = {"path": path, "api_key": "geheim"}
        conversation.result("prompts/get", name="mine.review", arguments=arguments)
    prompt = {"type": "ref/prompt", "name": "mine.review"}

    assert values(conversation, prompt, "path") == ["a", "b"]
    assert values(conversation, prompt, "quick") == ["false", "true"]
    assert values(conversation, prompt, "api_key") == []


def test_allowed_values_of_an_input_come_before_earlier_ones(workspace: Workspace) -> None:
    workspace.project.sign(workspace.project.directive("mine/review", inputs=INPUTS))
    conversation = Conversation(workspace.rye())
    for quick in ("true", "1", "false"):
        arguments = {"path": "a", "quick": quick}
        conversation.ask("prompts/get", name="mine.review", arguments=arguments)
    prompt = {"type": "ref/prompt", "name": "mine.review"}

    found = values(conversation, prompt, "quick")

    assert found[:2] == ["false", "true"]
    assert values(conversation, prompt, "quick", "t")[0] == "true"


@pytest.mark.parametrize(
    ("ref", "name"),
    [
        ({"type": "ref/prompt", "name": "no.such"}, "path"),
        ({"type": "ref/resource", "uri": "rye://{other}"}, "id"),
        (ITEMS, "other"),
        ({"type": "ref/other"}, "x"),
        ({}, "x"),
    ],
)
def test_an_unknown_argument_is_a_wrong_parameter(
    ref: dict[str, str], name: str, workspace: Workspace
) -> None:
    error = Conversation(workspace.rye()).error(
        "completion/complete", ref=ref, argument={"name": name, "value": ""}
    )

    assert error["code"] == -32602
