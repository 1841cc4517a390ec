"""Rules for every tool of the bundle that takes parameters."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from lillux.schema import violations
from ryeos.items.refs import Kind
from ryeos.trust.extractors import extract
from tests.support.workspace import BUNDLE_SOURCE

TOOLS = BUNDLE_SOURCE / "tools"


def takes_parameters() -> dict[str, Mapping[str, Any]]:
    """The schemas of the tools, by id."""
    found = {}
    for path in sorted(TOOLS.rglob("*")):
        if path.suffix in Kind.TOOL.suffixes and path.is_file():
            header = header_of(path)
            schema = header.get("config_schema")
            # Theirs describes the ``config`` of the tools that name them.
            is_executor = header.get("tool_type") in {"runtime", "primitive"}
            if isinstance(schema, Mapping) and not is_executor:
                found[path.relative_to(TOOLS).with_suffix("").as_posix()] = schema
    return found


def header_of(path: Path) -> dict[str, Any]:
    """The header of a file."""
    return extract(Kind.TOOL, path.suffix, path.read_text("utf-8"), str(path))


SCHEMAS = takes_parameters()
each = pytest.mark.parametrize("item_id", SCHEMAS)


@each
def test_its_examples_fit_its_schema(item_id: str) -> None:
    examples = SCHEMAS[item_id].get("examples")

    assert examples
    for example in examples:
        assert list(violations(example, SCHEMAS[item_id])) == []


@each
def test_it_takes_no_parameter_that_it_does_not_name(item_id: str) -> None:
    assert SCHEMAS[item_id]["type"] == "object"
    # A caller's `timeout` is for the engine, and travels among the parameters of a command.
    assert SCHEMAS[item_id].get("additionalProperties", True) is (item_id == "rye/bash/bash")


@each
def test_each_parameter_has_a_description(item_id: str) -> None:
    for name, schema in SCHEMAS[item_id]["properties"].items():
        assert schema.get("description"), name
