"""The file and git tools in the built file: as an agent runs them, and with their examples."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from ryeos.items.headers import parse_header
from tests.support.built import Machine
from tests.support.programs import require_program
from tests.support.workspace import BUNDLE_SOURCE

pytestmark = pytest.mark.e2e
FILES = ("read", "edit_lines", "write", "ls", "glob", "grep")
TOOLS = (*(f"rye/file-system/{name}" for name in FILES), "rye/code/git")


@pytest.fixture
def agent(machine: Machine) -> Machine:
    """A project with a few files."""
    (machine.project / ".ai").mkdir()
    (machine.project / "src").mkdir()
    (machine.project / "README.md").write_text("# Tea\n\nA drink.\n", encoding="utf-8")
    (machine.project / "src/tea.py").write_text("def tea_path():\n    pass\n", encoding="utf-8")
    return machine


def act(agent: Machine, item_id: str, *, status: int = 0, **params: Any) -> dict[str, Any]:  # noqa: ANN401
    """The answer of a tool."""
    done = agent.run("run", item_id, "--params", json.dumps(params), "--json")
    assert done.returncode == status, done.stderr
    data: dict[str, Any] = json.loads(done.stdout)["data"]
    assert data["success"] is (status == 0)
    return data


def examples() -> list[tuple[str, dict[str, Any]]]:
    """Every example of every tool."""
    headers = {one: (BUNDLE_SOURCE / "tools" / f"{one}.py").read_text("utf-8") for one in TOOLS}
    schemas = {one: parse_header(".py", text, one) for one, text in headers.items()}
    return [
        (name, example)
        for name, header in schemas.items()
        for example in header["CONFIG_SCHEMA"]["examples"]
    ]


@pytest.mark.parametrize(("item_id", "params"), examples())
def test_an_example_runs(item_id: str, params: dict[str, Any], agent: Machine) -> None:
    if item_id == "rye/code/git":
        require_program("git")
        if params["action"] != "init":
            act(agent, item_id, action="init")

    act(agent, item_id, **params)


@pytest.mark.parametrize("item_id", TOOLS)
def test_every_tool_has_an_example_and_every_parameter_a_description(item_id: str) -> None:
    text = (BUNDLE_SOURCE / "tools" / f"{item_id}.py").read_text("utf-8")
    schema = parse_header(".py", text, item_id)["CONFIG_SCHEMA"]

    assert schema["examples"]
    assert all(one["description"] for one in schema["properties"].values())
    assert schema["additionalProperties"] is False


def test_a_file_is_found_read_and_edited(agent: Machine) -> None:
    found = act(agent, "rye/file-system/grep", pattern="tea", literal=True)
    [path] = [one["path"] for one in found["results"]]
    shown = act(agent, "rye/file-system/read", path=path, ids=True)
    line = shown["content"].splitlines()[1].partition(":")[2].partition("|")[0]

    edit = {"action": "replace", "line": line, "text": "    return 'tea'"}
    changed = act(agent, "rye/file-system/edit_lines", path=path, edits=[edit])

    assert "+    return 'tea'\n" in changed["diff"]
    assert (agent.project / path).read_text("utf-8") == "def tea_path():\n    return 'tea'\n"


@pytest.mark.parametrize("item_id", TOOLS)
def test_a_path_out_of_the_project_fails_the_run(item_id: str, agent: Machine) -> None:
    require_program("git")
    needed: dict[str, dict[str, Any]] = {
        "rye/file-system/edit_lines": {"edits": [{"action": "delete", "line": "start"}]},
        "rye/file-system/write": {"content": ""},
        "rye/file-system/glob": {"pattern": "*"},
        "rye/file-system/grep": {"pattern": "x"},
        "rye/code/git": {"action": "status"},
    }

    data = act(agent, item_id, status=1, path="../home", **needed.get(item_id, {}))

    assert f"in {agent.project}, found" in data["error"]


def test_only_the_user_allows_further_folders(agent: Machine) -> None:
    folder = agent.home.parent / "notes"
    folder.mkdir()
    (folder / "a.txt").write_text("there\n", encoding="utf-8")
    text = f'version: "1.0.0"\ncategory: file-system\nallow: ["{folder}"]\n'
    path = str(folder / "a.txt")

    for base in (agent.project, agent.home):
        config = base / ".ai/config/file-system/access.yaml"
        config.parent.mkdir(parents=True)
        config.write_text(text, encoding="utf-8")
        if base == agent.project:
            act(agent, "rye/file-system/read", status=1, path=path)

    assert act(agent, "rye/file-system/read", path=path)["total_lines"] == 1


def test_a_changed_part_of_a_tool_is_not_run(agent: Machine, tmp_path: Path) -> None:
    source = BUNDLE_SOURCE / "tools/rye/file-system"
    own = agent.project / ".ai/tools/rye/file-system"
    shutil.copytree(source, own, ignore=shutil.ignore_patterns("__pycache__"))
    agent.ask("keys", "generate", "-q")
    agent.ask("sign", "-q", "--yes", "tool:rye/file-system/*", "tool:rye/file-system/lib/*")
    act(agent, "rye/file-system/ls")
    shutil.rmtree(agent.project / ".ai/lockfiles")

    with (own / "lib/walk.py").open("a", encoding="utf-8") as file:
        file.write("# changed\n")

    assert agent.run("run", "rye/file-system/ls").returncode == 4
