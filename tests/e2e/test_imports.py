"""``rye import`` of all kinds, with the built file, on a machine where Rye is new."""

import json
import re
import shutil
import sys
from pathlib import Path

import pytest

from tests.support.built import Machine
from tests.support.programs import require_program

VECTORS = Path(__file__).resolve().parents[1] / "vectors" / "imports"
OPENAPI = "api/shop-api/get-health"


@pytest.fixture
def project(machine: Machine) -> Path:
    """A project as people have them, with something of each kind."""
    require_program("make")
    folder = machine.project
    shutil.copytree(VECTORS / "skills/release-notes", folder / ".claude/skills/release-notes")
    shutil.copytree(VECTORS / "tasks", folder, dirs_exist_ok=True)
    for name in ("scripts/report.py", "openapi.yaml", "hours.py"):
        shutil.copy(VECTORS / name, folder)
    (folder / "notes.txt").write_text("a\n\nb\n", "utf-8")
    entry = {"command": sys.executable, "args": ["${workspaceFolder}/hours.py"]}
    (folder / ".mcp.json").write_text(json.dumps({"mcpServers": {"hours": entry}}), "utf-8")
    return folder


@pytest.mark.heavy
def test_everything_moves_in_runs_and_is_refused_when_it_changes(
    machine: Machine, project: Path
) -> None:
    begun = machine.run("init", "--project", ".")
    looked = machine.run("import", "--dry-run", "--json")
    made = machine.run("import", "--yes", "--json")
    ran = {
        "directive:skills/release_notes": machine.run("run", "directive:skills/release_notes"),
        "report": machine.run("run", "scripts/report", "path=notes.txt"),
        "test": machine.run("run", "tasks/make/test", "mode=slow"),
        "hours": machine.run("run", "mcp/hours/after_noon", "hour:=15"),
        "health": machine.run("run", OPENAPI, "--dry-run"),
    }
    states = {row["state"] for row in json.loads(made.stdout)["proposals"]}
    again = machine.run("import", "--yes", "--json")

    assert begun.returncode == 0, begun.stderr
    assert {one["state"] for one in json.loads(looked.stdout)["items"]} == {"new"}
    assert made.returncode == 0, made.stderr
    assert states == {"signed"}
    assert all(one.returncode == 0 for one in ran.values()), ran
    assert "# Release notes" in ran["directive:skills/release_notes"].stdout
    assert "testing slow" in ran["test"].stdout
    # A server's item has its pins by now, which its settings do not.
    rest = [one for one in json.loads(again.stdout)["items"] if "mcp/" not in one["ref"]]
    assert {one["state"] for one in rest} == {"there already"}

    for file in (".claude/skills/release-notes/SKILL.md", "report.py", "parts.mk", "hours.py"):
        with (project / file).open("ab") as opened:
            opened.write(b"\n")
    assert machine.run("run", "directive:skills/release_notes").returncode == 4
    assert machine.run("run", "scripts/report", "path=notes.txt").returncode == 1
    assert machine.run("run", "tasks/make/test").returncode == 1
    assert machine.run("run", "mcp/hours/after_noon", "hour:=15").returncode == 4


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("name", "words", "tool", "arguments"),
    [
        ("npx", ["-y", "@modelcontextprotocol/server-memory@2026.8.31"], "read_graph", []),
        ("uvx", ["mcp-server-time==2026.10.19"], "get_current_time", ["timezone=UTC"]),
    ],
)
def test_a_server_of_a_package_index_is_pinned(
    name: str, words: list[str], tool: str, arguments: list[str], machine: Machine
) -> None:
    if name == "npx":
        require_program("npm")
    entry = {"command": name, "args": words}
    (machine.project / ".mcp.json").write_text(json.dumps({"mcpServers": {"one": entry}}), "utf-8")
    machine.run("init", "--project", ".")

    made = machine.run("import", "--yes", "--json")
    said = json.loads(made.stdout)
    if said["servers"]["one"].get("code") == "PACKAGES_UNAVAILABLE":
        pytest.skip("the index of packages is out of reach")
    folder = machine.project / ".ai/tools/mcp/servers"
    item = (folder / "one.yaml").read_text("utf-8")
    ran = machine.run("run", f"mcp/one/{tool}", *arguments, "--json")
    listed = folder / "one.packages.yaml"
    text = listed.read_text("utf-8")
    digest = re.search(r"sha(256|512)[:-](.)", text)
    assert digest
    at = digest.start(2)
    listed.write_text(text[:at] + ("0" if text[at] != "0" else "1") + text[at + 1 :], "utf-8")
    # Installed packages are named by the digest of their list; it is read to install them again.
    shutil.rmtree(machine.home / ".ai/state/environments")
    refused = machine.run("run", f"mcp/one/{tool}", *arguments)

    assert made.returncode == 0, made.stderr
    assert re.search(r"list: \"[0-9a-f]{64}\"", item)
    assert f'{tool}: "' in item
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert refused.returncode == 4
