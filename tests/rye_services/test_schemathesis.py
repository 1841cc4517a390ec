"""Whatever fits the OpenAPI document, and much that does not: no request is answered with a 500."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.node import Node

EXAMPLES = 5
"""Of each route, beside those at the edges of its document."""


@pytest.mark.parametrize("who", ["owner", "nobody"])
def test_no_request_makes_the_node_fail(node: Node, tmp_path: Path, who: str) -> None:
    headers = {f"Authorization: {value}" for value in node.owner.bearer.values()}
    command = [sys.executable, "-m", "schemathesis.cli", "run", f"{node.url}/openapi.json"]
    command += ["--checks=not_a_server_error", "--phases=coverage,fuzzing", "--no-color"]
    command += [f"--max-examples={EXAMPLES}", "--generation-deterministic"]
    command += [word for header in headers if who == "owner" for word in ("--header", header)]

    tried = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, encoding="utf-8", check=False
    )

    assert tried.returncode == 0, tried.stdout + tried.stderr
    counted = re.search(r"(\d+) generated, (\d+) passed", tried.stdout)
    assert counted is not None
    assert int(counted[1]) == int(counted[2]) > 100
    assert [line for line in node.log if re.search(r"ERROR|Traceback", line)] == []
    assert node.ask("GET", "/health").status == 200
