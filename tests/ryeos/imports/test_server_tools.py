from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ryeos.imports.server_offers import MAX_DESCRIPTION_CHARACTERS, ServerTool, offered_tools
from ryeos.items.yaml import parse_yaml

RUNTIME = "rye/core/runtimes/mcp/stdio"
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)


def offered(*tools: dict[str, Any]) -> list[ServerTool]:
    return list(offered_tools("demo", RUNTIME, tools))


def test_a_tool_is_written_as_an_item() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}}
    (offer,) = offered({"name": "add", "description": "Adds.\n\n  Two.", "inputSchema": schema})

    assert offer.item_id == "mcp/demo/add"
    written = parse_yaml(offer.text("1.0.3"), "")
    assert written.pop("x-mcp-digest")
    assert written == {
        "version": "1.0.3",
        "tool_type": "mcp",
        "executor_id": RUNTIME,
        "category": "mcp/demo",
        "description": "Adds. Two.",
        "config": {"server": "mcp/servers/demo", "tool_name": "add"},
        "input_schema": schema,
    }


@pytest.mark.parametrize(
    ("tool", "problem"),
    [
        ({}, "name"),
        ({"name": ""}, "name"),
        ({"name": "x" * 257}, "name"),
        ({"name": 7}, "name"),
        ({"name": "a", "inputSchema": []}, "expected an object, found"),
        ({"name": "a", "inputSchema": {"type": "string"}}, "expected the type object"),
        ({"name": "a", "inputSchema": False}, "expected an object, found"),
        ({"name": "a", "inputSchema": {"description": "x" * 300_000}}, "at most"),
    ],
)
def test_a_tool_that_cannot_be_an_item_says_why(tool: dict[str, Any], problem: str) -> None:
    (offer,) = offered(tool)

    assert problem in offer.problem


def test_of_two_tools_with_one_name_the_first_counts() -> None:
    second, first = offered({"name": "a", "description": "1"}, {"name": "a", "description": "2"})

    assert (first.values["description"], first.problem) == ("1", "")
    assert "another tool" in second.problem


def test_words_of_a_server_are_one_line_of_bounded_length() -> None:
    (offer,) = offered({"name": "a", "description": "\x1b[31m\n# rye:signed:\n" + "x" * 5000})

    described = offer.values["description"]
    assert len(described) == MAX_DESCRIPTION_CHARACTERS
    assert described.isprintable()


@given(st.fixed_dictionaries({"name": JSON}, optional={"description": JSON, "inputSchema": JSON}))
def test_any_tool_of_a_server_is_an_item_or_a_problem(tool: dict[str, Any]) -> None:
    (offer,) = offered(tool)

    if not offer.problem:
        written = parse_yaml(offer.text(), "")
        assert written["config"]["server"] == "mcp/servers/demo"
        assert written["executor_id"] == RUNTIME


@pytest.mark.parametrize(
    ("schema", "kept", "note"),
    [
        ({"properties": 7}, {}, "inputSchema/properties: left out: expected a mapping"),
        ({"pattern": "("}, {}, "inputSchema/pattern: left out: "),
        ({"$ref": "file:///etc/passwd"}, {}, "inputSchema/$ref: left out: "),
        ({"default": float("nan")}, {}, "inputSchema/default: left out: "),
        ({"properties": {"n": {"pattern": r"\p{L}"}}}, {"properties": {"n": {}}},
         "inputSchema/properties/n/pattern: left out: "),
        ({"properties": {"n": {"enum": []}}}, {"properties": {"n": {}}},
         "inputSchema/properties/n/enum: left out: "),
        ({"properties": None, "type": "object"}, {"type": "object"},
         "inputSchema/properties: left out: "),
    ],
)  # fmt: skip
def test_a_tool_is_taken_without_the_parts_of_its_schema_that_cannot_be_read(
    schema: dict[str, Any], kept: dict[str, Any], note: str
) -> None:
    (offer,) = offered({"name": "a", "inputSchema": schema})

    assert offer.problem == ""
    assert offer.values["input_schema"] == kept
    assert [one.startswith(note) for one in offer.notes] == [True]
    assert "inputSchema" in offer.values["config"]["listed"]
    offer.text()


@pytest.mark.parametrize("schema", [None, True, {}, {"type": None}, {"type": ["null", "object"]}])
def test_a_schema_that_asks_for_nothing_takes_any_object(schema: object) -> None:
    (offer,) = offered({"name": "a", "inputSchema": schema})

    assert (offer.problem, offer.notes) == ("", ())
    assert offer.values["input_schema"].get("type", "object") == "object"
