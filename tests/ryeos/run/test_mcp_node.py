"""Servers on the official TypeScript SDK, of both its editions, called through signed tools."""

import json
import os
import socket
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path

import pytest

from lillux.files import write_atomic
from ryeos.run.model import ExecutionResult
from tests.support.mcp_servers import SUPPORT
from tests.support.node_packages import node_packages
from tests.support.workspace import Workspace

STDIO = "rye/core/runtimes/mcp/stdio"
HTTP = "rye/core/runtimes/mcp/http"


@pytest.fixture(scope="session")
def packages() -> Path:
    """The folder with the packages, and our server beside them."""
    folder = node_packages()
    write_atomic(folder / "server.mjs", (SUPPORT / "mcp_node_server.mjs").read_bytes())
    return folder


def everything(packages: Path) -> str:
    folder = packages / "node_modules" / "@modelcontextprotocol" / "server-everything"
    return str(folder / "dist" / "index.js")


def call(
    workspace: Workspace, config: Mapping[str, object], runtime: str = STDIO, **params: object
) -> ExecutionResult:
    body = f"config: {json.dumps(config)}\n"
    workspace.project.signed_yaml("mcp/test/tool", body, executor=runtime)
    return workspace.run("mcp/test/tool", params=params)


@pytest.mark.parametrize(
    ("version", "spoken"),
    [("auto", "2026-07-28"), ("2026-07-28", "2026-07-28"), ("legacy", "2025-11-25")],
)
def test_a_server_of_the_second_sdk_edition_speaks_both_revisions(
    workspace: Workspace, packages: Path, version: str, spoken: str
) -> None:
    path = str(packages / "server.mjs")
    config = {"mcp_server_path": path, "tool_name": "add", "protocol_version": version}

    result = call(workspace, config, a=2, b=3)

    assert (result.error, result.data["parsed"]) == (None, 5)
    assert result.metadata["protocol_version"] == spoken


def test_the_server_of_everything_is_called_over_a_pipe(
    workspace: Workspace, packages: Path
) -> None:
    config = {"command": "node", "args": [everything(packages), "stdio"], "tool_name": "echo"}

    result = call(workspace, config, message="hello")

    assert (result.error, result.data["content"][0]["text"]) == (None, "Echo: hello")
    assert result.metadata["protocol_version"] == "2025-11-25"


def test_structured_content_of_the_server_of_everything_is_kept(
    workspace: Workspace, packages: Path
) -> None:
    config = {"mcp_server_path": everything(packages), "tool_name": "get-structured-content"}

    result = call(workspace, config, location="Chicago")

    assert result.error is None
    assert result.data["structuredContent"]["temperature"] == result.data["temperature"]


@pytest.fixture
def address(packages: Path) -> Iterator[str]:
    """The address of the reference server "everything"."""
    with closing(socket.socket()) as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
    with subprocess.Popen(
        ["node", everything(packages), "streamableHttp"],
        env={"PORT": str(port), "PATH": os.environ["PATH"]},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        encoding="utf-8",
    ) as server:
        assert server.stderr is not None
        for line in server.stderr:
            if "listening" in line:
                break
        yield f"http://127.0.0.1:{port}/mcp"
        server.kill()


def test_the_server_of_everything_is_called_over_http(workspace: Workspace, address: str) -> None:
    result = call(workspace, {"url": address, "tool_name": "get-sum"}, HTTP, a=2, b=3)

    assert result.error is None
    assert "5" in result.data["content"][0]["text"]
