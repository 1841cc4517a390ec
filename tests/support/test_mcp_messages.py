"""Validation of MCP messages."""

from typing import Any

import pytest

from tests.support.mcp_messages import VERSION_KEY, Conversation

LEGACY = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
MODERN = LEGACY | {"params": {"_meta": {VERSION_KEY: "2026-07-28"}}}
MODERN_RESULT = {"resultType": "complete", "ttlMs": 0, "cacheScope": "public", "tools": []}


def problems(question: dict[str, Any], answer: dict[str, Any]) -> list[str]:
    conversation = Conversation()
    conversation.client_says(question)
    conversation.server_says({"jsonrpc": "2.0", "id": 1} | answer)
    return conversation.problems


@pytest.mark.parametrize(("question", "result"), [(LEGACY, {"tools": []}), (MODERN, MODERN_RESULT)])
def test_a_valid_answer_is_accepted(question: dict[str, Any], result: dict[str, Any]) -> None:
    assert problems(question, {"result": result}) == []


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        (LEGACY, {"result": {}}),
        (LEGACY, {"result": {"tools": [{"name": "x"}]}}),
        (MODERN, {"result": {"tools": []}}),
        (MODERN, {"error": {"code": "x", "message": "y"}}),
        (MODERN, {"id": 2, "result": MODERN_RESULT}),
        (LEGACY, {"method": "notifications/progress", "params": {}}),
    ],
)
def test_an_invalid_message_is_reported(question: dict[str, Any], answer: dict[str, Any]) -> None:
    assert problems(question, answer) != []
