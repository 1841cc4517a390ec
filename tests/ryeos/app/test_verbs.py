import json
from collections.abc import Iterator
from typing import Any

import pytest

from ryeos.app.verbs import (
    MAX_DESCRIPTION_CHARACTERS,
    MAX_LIST_BYTES,
    PROFILES,
    TOOLS,
    listed,
    tool_named,
)

NAMES = ["search", "load", "fetch", "execute", "sign", "help"]
PLAIN_KEYWORDS = {"type", "properties", "required", "additionalProperties"}
PROPERTY_KEYWORDS = {"type", "description", "enum", "default"}


def schemas() -> Iterator[tuple[str, dict[str, Any]]]:
    """The input schema of each tool."""
    return ((name, tool.describe()["inputSchema"]) for name, tool in TOOLS.items())


def test_there_are_six_tools_in_a_fixed_order() -> None:
    assert list(TOOLS) == NAMES == [entry["name"] for entry in listed("all")]
    assert [entry["name"] for entry in listed("five")] == [n for n in NAMES if n != "fetch"]
    assert [entry["name"] for entry in listed("node")] == ["fetch", "execute", "sign"]


@pytest.mark.parametrize("profile", PROFILES)
def test_a_list_of_tools_is_small(profile: str) -> None:
    sent = json.dumps({"tools": listed(profile)}, ensure_ascii=False, separators=(",", ":"))

    assert len(sent.encode()) <= MAX_LIST_BYTES * max(len(PROFILES[profile]) / 5, 1)


@pytest.mark.parametrize("name", NAMES)
def test_a_tool_is_found_by_its_name_and_its_aliases(name: str) -> None:
    assert tool_named(name) is tool_named(f"rye_{name}") is tool_named(f"mcp__rye__{name}")
    assert tool_named(name) is TOOLS[name]


@pytest.mark.parametrize("name", ["", "rye", "run", "rye_rye_load", "mcp__other__load"])
def test_other_names_are_no_tools(name: str) -> None:
    assert tool_named(name) is None


@pytest.mark.parametrize(
    ("name", "read_only", "destructive", "idempotent", "open_world"),
    [
        ("search", True, False, True, False),
        ("load", False, False, True, False),
        ("fetch", False, False, True, False),
        ("execute", False, True, False, True),
        ("sign", False, False, True, False),
        ("help", True, False, True, False),
    ],
)
def test_each_tool_has_its_annotations(
    name: str,
    read_only: bool,  # noqa: FBT001
    destructive: bool,  # noqa: FBT001
    idempotent: bool,  # noqa: FBT001
    open_world: bool,  # noqa: FBT001
) -> None:
    defaults = {
        "readOnlyHint": False,
        "destructiveHint": True,
        "idempotentHint": False,
        "openWorldHint": True,
    }
    hints = TOOLS[name].describe()["annotations"]
    if read_only:  # then the protocol gives no meaning to two of them
        defaults |= {"destructiveHint": destructive, "idempotentHint": idempotent}
    assert {**defaults, **hints} == {
        "readOnlyHint": read_only,
        "destructiveHint": destructive,
        "idempotentHint": idempotent,
        "openWorldHint": open_world,
    }


@pytest.mark.parametrize("name", NAMES)
def test_texts_fit(name: str) -> None:
    entry = TOOLS[name].describe()

    assert len(entry["description"]) <= MAX_DESCRIPTION_CHARACTERS
    assert not {"outputSchema", "_meta"} & entry.keys()


def test_schemas_use_no_keyword_that_a_client_refuses() -> None:
    for name, schema in schemas():
        assert set(schema) | {"required"} == PLAIN_KEYWORDS, name
        assert schema["additionalProperties"] is False
        for rules in schema["properties"].values():
            assert set(rules) <= PROPERTY_KEYWORDS
            assert rules["type"] in {"string", "integer", "boolean", "object"}
            assert rules["description"]
            assert "\n" not in rules["description"]
            if "default" in rules and "enum" in rules:
                assert rules["default"] in rules["enum"]


def test_only_the_item_ids_of_load_and_sign_are_required() -> None:
    required = {name: schema.get("required", []) for name, schema in schemas()}

    assert {name for name, names in required.items() if names} == {"load", "sign"}
    assert required["load"] == required["sign"] == ["item_id"]
