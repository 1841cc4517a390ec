"""The scenarios for tasks of the official conformance suite, on ``rye mcp`` of the built file.

The suite calls tools by names of its own; each becomes a call of ``execute`` on its way in. What
cannot apply, and why, is described in ``docs/mcp.md``.
"""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.support.built import ROOT, Machine
from tests.support.mcp_bridge import Place, bridged
from tests.support.node_packages import CLIENTS, node_packages
from tests.support.programs import require_program

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(os.name == "nt", reason="the tools of these tests are for POSIX"),
    pytest.mark.heavy,
]

ANY_RUN_S = 120
CAPABILITIES = "io.modelcontextprotocol/clientCapabilities"
TASKS = "io.modelcontextprotocol/tasks"
AT_ONCE = {"greet": "echo Hello", "confirm_delete": "echo a run asks for nothing"}
# With the number of checks in each.
SCENARIOS = {
    "tasks-lifecycle": 9,
    "tasks-capability-negotiation": 5,
    "tasks-wire-fields": 4,
    "tasks-request-state-removal": 3,
    "tasks-dispatch-and-envelope": 9,
}
# A run that fails has a result: there is no failure of the protocol in it.
CANNOT_APPLY = {"sep-2663-tasks-get-status-failed"}


def translated(request: dict[str, Any]) -> dict[str, Any]:
    """A call of one of the suite's tools as one of ours; everything else as it is."""
    params = request.get("params", {})
    command = command_of(params.get("name"), params.get("arguments", {}))
    if request["method"] != "tools/call" or command is None:
        return request
    capabilities = params.get("_meta", {}).get(CAPABILITIES, {})
    is_task = params["name"] not in AT_ONCE and TASKS in capabilities.get("extensions", {})
    arguments = {
        "item_id": "tool:rye/bash/bash",
        "parameters": {"command": command},
        "async": is_task,
    }
    return {**request, "params": {**params, "name": "execute", "arguments": arguments}}


def command_of(name: object, arguments: dict[str, Any]) -> str | None:
    match name:
        case "slow_compute":
            return f"sleep {arguments['seconds']}; echo done"
        case "failing_job" | "protocol_error_job":
            return "echo no >&2; exit 3"
        case str():
            return AT_ONCE.get(name)
        case _:
            return None


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_a_scenario_for_tasks_passes(tmp_path: Path, machine: Machine, scenario: str) -> None:
    suite = node_packages(CLIENTS) / "node_modules" / "@modelcontextprotocol" / "conformance"
    # The suite has no person: its shells run without a question.
    policy = machine.home / ".ai/config/agents/policy.yaml"
    policy.parent.mkdir(parents=True, exist_ok=True)
    policy.write_text('version: "1.0.0"\ncategory: agents\nshells: allow\n', "utf-8")
    place = Place(machine.project, machine.environ(), translated)

    with bridged([*machine.rye, "mcp"], place) as url:
        ended = subprocess.run(
            [
                require_program("node"),
                *("--import", ROOT / "tests" / "support" / "node_glob.mjs"),
                *(suite / "dist" / "index.js", "server", "--url", url),
                *("--scenario", scenario),
                *("--output-dir", tmp_path / "results"),
            ],
            capture_output=True,
            encoding="utf-8",
            check=False,
            timeout=ANY_RUN_S,
        )

    (report,) = (tmp_path / "results").glob(f"server-{scenario}-*/checks.json")
    checks = json.loads(report.read_text("utf-8"))
    found = {check["id"]: check["status"] for check in checks if check["id"] not in CANNOT_APPLY}
    assert set(found.values()) == {"SUCCESS"}, ended.stdout
    assert len(checks) == SCENARIOS[scenario]
