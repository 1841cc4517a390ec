import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ryeos.mcp.content_blocks import problem_of, valid_blocks
from ryeos.mcp.results import tool_result
from tests.support.mcp_conversation import NEWEST_LEGACY, judge

PICTURE = {"type": "image", "data": "AAAA", "mimeType": "image/png"}
RIGHT = (
    PICTURE,
    {"type": "text", "text": ""},
    {"type": "audio", "data": "", "mimeType": "audio/wav", "annotations": {"priority": 1}},
    {"type": "resource_link", "uri": "file:///a", "name": "a", "size": 3, "title": "A"},
    {"type": "text", "text": "a", "annotations": {"audience": ["user"], "lastModified": "2026"}},
)
WRONG: tuple[object, ...] = (
    5,
    None,
    {},
    {"type": 5},
    {"type": "odd"},
    {"type": "image", "data": 5},
    {"type": "image", "data": "!!", "mimeType": "image/png"},
    {"type": "image", "data": "AAAA"},
    {"type": "image", "data": "AAAA", "mimeType": 5},
    {"type": "text"},
    {"type": "text", "text": None},
    {"type": "audio"},
    {"type": "resource_link"},
    {"type": "resource_link", "uri": "a b", "name": "a"},
    {"type": "resource_link", "uri": "file:///a", "name": "a", "size": "3"},
    {"type": "resource_link", "uri": "file:///a", "name": "a", "icons": [{}]},
    {"type": "text", "text": "a", "annotations": 5},
    {"type": "text", "text": "a", "annotations": {"audience": "user"}},
    {"type": "text", "text": "a", "annotations": {"audience": ["root"]}},
    {"type": "text", "text": "a", "annotations": {"priority": 2}},
    {"type": "text", "text": "a", "_meta": 5},
)


def result_of(*blocks: object) -> dict[str, Any]:
    """The answer for a tool that gives these blocks."""
    return tool_result({"status": "success", "data": {"mcp_content": list(blocks)}})


@pytest.mark.parametrize("block", RIGHT, ids=json.dumps)
def test_a_block_as_the_protocol_has_it_is_passed_on(block: dict[str, Any]) -> None:
    result = result_of(block)

    assert result["content"][1:] == [block]
    assert "warnings" not in result["structuredContent"]
    judge(NEWEST_LEGACY, "CallToolResult")(result)


@pytest.mark.parametrize("block", WRONG, ids=json.dumps)
def test_any_other_block_is_left_out_and_reported(block: object) -> None:
    result = result_of(block, PICTURE)

    assert result["content"][1:] == [PICTURE]
    assert result["structuredContent"]["warnings"] == [
        f"mcp_content[0] is left out: {problem_of(block)}"
    ]
    judge(NEWEST_LEGACY, "CallToolResult")(result)


def test_of_many_wrong_blocks_the_first_five_are_reported() -> None:
    _, problems = valid_blocks([None] * 9)

    assert problems[5:] == ["4 more blocks are left out"]


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.floats(-2, 2) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=5,
)
FIELDS = ("text", "data", "mimeType", "uri", "name", "annotations", "_meta", "size", "icons")


@pytest.mark.heavy
@given(
    st.fixed_dictionaries(
        {"type": st.sampled_from(["text", "image", "audio", "resource_link", "odd"])},
        optional=dict.fromkeys(FIELDS, JSON_VALUES),
    )
)
def test_any_content_of_a_tool_gives_a_valid_answer(block: dict[str, Any]) -> None:
    judge(NEWEST_LEGACY, "CallToolResult")(result_of(block))
