"""The official conformance suite, on the protocol engine of the server.

The suite speaks HTTP only: `tests.support.mcp_bridge` stands between. What it asks for by name is
in `tests.support.mcp_conformance_server`, on the engine that ``rye mcp`` runs.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.support.built import ROOT
from tests.support.mcp_bridge import bridged
from tests.support.node_packages import CLIENTS, node_packages
from tests.support.programs import require_program

pytestmark = [pytest.mark.e2e, pytest.mark.heavy]

SERVER = (sys.executable, "-m", "tests.support.mcp_conformance_server")
ANY_RUN_S = 120


@pytest.mark.parametrize(("revision", "scenarios"), [("2025-11-25", 30), ("2026-07-28", 37)])
def test_every_required_scenario_of_a_revision_passes(
    tmp_path: Path, revision: str, scenarios: int
) -> None:
    suite = node_packages(CLIENTS) / "node_modules" / "@modelcontextprotocol" / "conformance"
    requirements = (suite / "requirements" / f"{revision}.yaml").read_text("utf-8")
    required = yaml.safe_load(requirements)["server"]

    with bridged(SERVER) as url:
        ended = subprocess.run(
            [
                require_program("node"),
                *("--import", ROOT / "tests" / "support" / "node_glob.mjs"),
                *(suite / "dist" / "index.js", "server", "--url", url),
                *("--requirements", revision, "--output-dir", tmp_path),
            ],
            capture_output=True,
            encoding="utf-8",
            check=False,
            timeout=ANY_RUN_S,
        )

    assert ended.returncode == 0, ended.stdout
    assert len(required) == scenarios
    verdicts = {scenario: verdicts_of(tmp_path, scenario) for scenario in required}
    assert {each for each, found in verdicts.items() if "SUCCESS" not in found} == set()
    assert {each for each, found in verdicts.items() if found & {"FAILURE", "WARNING"}} == set()


def verdicts_of(results: Path, scenario: str) -> set[str]:
    """The result of the suite: the statuses of all checks of a scenario."""
    (report,) = results.glob(f"server-{scenario}-????-??-??T*/checks.json")
    return {check["status"] for check in json.loads(report.read_text("utf-8"))}
