"""Valid and invalid requests by the OpenAPI document: each answer matches its description."""

import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.support.databases import kind_of_database
from tests.support.node import Node
from tests.support.registry import Registry

pytestmark = pytest.mark.heavy

CHECKS = (
    *("not_a_server_error", "status_code_conformance", "content_type_conformance"),
    "response_schema_conformance",
)
EXAMPLES = 5
"""Of each route, beside those at the edges of its document."""

WITHOUT_KEY = pytest.param(
    "without a key",
    marks=pytest.mark.skipif(
        kind_of_database() != "sqlite",
        reason="without a key a request reads the same tables as one of an owner",
    ),
)


@pytest.mark.parametrize("who", ["owner", WITHOUT_KEY])
def test_answers_of_a_node_match_its_description(node: Node, tmp_path: Path, who: str) -> None:
    try_every_route(node, node.owner.bearer if who == "owner" else {}, tmp_path)


@pytest.mark.parametrize("who", ["account", WITHOUT_KEY])
def test_answers_of_a_registry_match_its_description(
    registry: Registry, tmp_path: Path, who: str
) -> None:
    headers = registry.account().bearer if who == "account" else {}

    try_every_route(registry.node, headers, tmp_path)


def try_every_route(node: Node, own_headers: Mapping[str, str], tmp_path: Path) -> None:
    headers = {f"{name}: {value}" for name, value in own_headers.items()}
    command = [sys.executable, "-m", "schemathesis.cli", "run", f"{node.url}/openapi.json"]
    command += [f"--checks={','.join(CHECKS)}", "--phases=coverage,fuzzing", "--no-color"]
    command += [f"--max-examples={EXAMPLES}", "--generation-deterministic"]
    command += [word for header in headers for word in ("--header", header)]

    tried = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, encoding="utf-8", check=False
    )

    assert tried.returncode == 0, tried.stdout + tried.stderr
    counted = re.search(r"(\d+) generated, (\d+) passed", tried.stdout)
    assert counted is not None
    assert int(counted[1]) == int(counted[2]) > 100
    assert [line for line in node.log if re.search(r"ERROR|Traceback", line)] == []
    assert node.ask("GET", "/health").status == 200
