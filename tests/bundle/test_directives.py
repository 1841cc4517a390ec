"""Every directive of the bundle is rendered with its inputs, by the built file."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from ryeos.items.directives import parse_directive
from tests.support.built import ROOT, Machine

DIRECTIVES = ROOT / "bundle.ai" / "directives"
PAGES = sorted(DIRECTIVES.rglob("*.md"))
REFERENCES = re.compile(r"`(tool|directive|knowledge):(rye/[a-z/_-]+)`")

# Realistic inputs; those with a default are left out.
INPUTS: dict[str, dict[str, Any]] = {
    "init": {},
    "rye/agent/answer_from_knowledge": {"question": "How long may a return take?"},
    "rye/agent/explain_failure": {"command": "pytest -x tests/test_cart.py"},
    "rye/agent/release_notes": {"since": "v1.4.0"},
    "rye/agent/review_diff": {"base": "develop"},
    "rye/authoring/create_tool": {"id": "shop/total", "purpose": "adds up {input:id} prices"},
    "rye/authoring/create_directive": {"id": "shop/restock", "purpose": "orders what runs out"},
    "rye/authoring/create_knowledge": {"id": "shop/returns", "title": "Returns"},
    "rye/authoring/create_runtime": {"id": "langs/lua", "interpreter": "lua"},
    "rye/authoring/create_graph": {"id": "shop/backup", "purpose": "packs the orders"},
    "rye/core/remote/set_up": {"url": "https://node.example"},
    "rye/core/review_item": {"item": "tool:ann/text/count"},
    "rye/examples/approve": {"command": "rm -r build"},
    "rye/mcp/set_up_server": {"name": "clock", "command": "python3 clock.py"},
}


def directive_id(page: Path) -> str:
    """Its id."""
    return page.relative_to(DIRECTIVES).with_suffix("").as_posix()


def rendered(machine: Machine, page: Path, inputs: dict[str, Any]) -> dict[str, Any]:
    """The answer of ``rye run``."""
    reference = f"directive:{directive_id(page)}"
    ended = machine.run("run", reference, "--params", json.dumps(inputs), "--json")
    answer: dict[str, Any] = json.loads(ended.stdout)
    return answer


def test_every_directive_has_inputs_here() -> None:
    assert sorted(map(directive_id, PAGES)) == sorted(INPUTS)


@pytest.mark.parametrize("page", PAGES, ids=directive_id)
def test_a_directive_is_rendered_with_its_inputs(page: Path, machine: Machine) -> None:
    inputs = INPUTS[directive_id(page)]
    answer = rendered(machine, page, inputs)

    assert answer["status"] == "success", answer
    directions = answer["your_directions"]
    assert all(value in directions for value in inputs.values())
    for said in inputs.values():
        directions = directions.replace(said, "")
    assert "{input:" not in directions
    assert answer["outputs"]


@pytest.mark.parametrize("page", PAGES, ids=directive_id)
def test_a_directive_is_refused_without_its_required_inputs(page: Path, machine: Machine) -> None:
    answer = rendered(machine, page, {"unheard-of": 1})

    assert answer["code"] == "VALIDATION_FAILED"
    assert "unheard-of" in answer["error"]
    for name in INPUTS[directive_id(page)]:
        assert name in answer["error"]


@pytest.mark.parametrize("page", PAGES, ids=directive_id)
def test_every_item_that_a_directive_refers_to_exists(page: Path) -> None:
    text = page.read_text("utf-8")
    folders = {"tool": "tools", "directive": "directives", "knowledge": "knowledge"}
    gone = [
        f"{kind}:{name}"
        for kind, name in REFERENCES.findall(text)
        if not any(
            list((ROOT / "bundle.ai" / folders[kind]).glob(f"{found}.*"))
            for found in (name, f"{name}/{name.rpartition('/')[2]}")  # a/b is a/b/b as well
        )
    ]

    assert not gone


@pytest.mark.parametrize("page", PAGES, ids=directive_id)
def test_every_input_is_used_and_described(page: Path) -> None:
    directive = parse_directive(page.read_text("utf-8"))

    for one in directive.inputs:
        assert f"{{input:{one.name}" in directive.body
        assert one.description


@pytest.mark.parametrize("page", PAGES, ids=directive_id)
def test_a_placeholder_is_not_hidden_by_a_default(page: Path) -> None:
    directive = parse_directive(page.read_text("utf-8"))

    for one in directive.inputs:
        if f"{{input:{one.name}:" in directive.body:
            assert one.default is None


def test_a_server_is_looked_at_before_its_tools_are_written(machine: Machine) -> None:
    machine.run("keys", "generate")
    machine.run("mcp", "add", "inner", "--", *map(str, machine.rye), "mcp")

    listed = machine.run("run", "mcp/servers/inner", "--json")

    assert "Find tools, directives and knowledge" in listed.stdout
    assert not (machine.project / ".ai/tools/mcp/inner").exists()
