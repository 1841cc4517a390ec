"""Tools on a node that want a service of its machine, like the one of `/run/docker.sock`."""

import os
import socket
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from shlex import quote

import pytest

from lillux.seccomp import can_filter
from tests.support.node import Node, running_node
from tests.support.remote_projects import FUNCTION, RemoteProject
from tests.support.workspace import Workspace

pytest_plugins = ("tests.support.node",)
pytestmark = pytest.mark.skipif(os.name == "nt", reason="the tools of these tests are for POSIX")
filtered = pytest.mark.skipif(not can_filter(), reason="no seccomp on this system")

CONNECT = """
import socket

def execute(params, project_path):
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(params["path"])
        return "connected"
"""
RESOLVE = """
import socket

def execute(params, project_path):
    socket.socket(socket.AF_INET).close()
    return "opened"
"""
WORK = """
import asyncio, multiprocessing, socket

async def ask(one):
    reader, writer = await asyncio.open_connection(sock=one)
    return (await reader.read()).decode()

def execute(params, project_path):
    ours, theirs = socket.socketpair()
    here, there = multiprocessing.Pipe()
    context = multiprocessing.get_context("fork")
    process = context.Process(target=lambda: there.send(asyncio.run(ask(theirs))))
    process.start()
    theirs.close()
    ours.sendall(b"over a pair")
    ours.shutdown(socket.SHUT_WR)
    said = here.recv()
    process.join()
    return said
"""


@pytest.fixture
def service() -> Iterator[Path]:
    """A local socket that everybody may connect to; a path of one cannot be long."""
    with (
        tempfile.TemporaryDirectory(dir="/tmp") as folder,
        socket.socket(socket.AF_UNIX) as listening,
    ):
        path = Path(folder) / "docker.sock"
        Path(folder).chmod(0o755)
        listening.bind(str(path))
        path.chmod(0o666)
        listening.listen()
        yield path


def with_tools(workspace: Workspace, node: Node) -> RemoteProject:
    """A project whose tools want a socket."""
    wants = 'SANDBOX = {"network": "any"}\n'
    workspace.project.signed_tool("connect", CONNECT, executor=FUNCTION, extra=wants)
    workspace.project.signed_tool("resolve", RESOLVE, executor=FUNCTION, extra=wants)
    workspace.project.signed_tool("work", WORK, executor=FUNCTION)
    return RemoteProject.with_tools(workspace, node.user())


@filtered
def test_a_tool_cannot_connect_to_a_service_of_the_machine(
    workspace: Workspace, shared_node: Node, service: Path
) -> None:
    project = with_tools(workspace, shared_node)

    answer = project.ask("tool:connect", parameters={"path": str(service)}).json

    assert answer["status"] == "error"
    assert answer["result"]["data"]["error_type"] == "PermissionError"


@filtered
def test_a_program_that_a_tool_starts_cannot_either(
    workspace: Workspace, shared_node: Node, service: Path
) -> None:
    project = with_tools(workspace, shared_node)
    code = f"import socket; socket.socket(socket.AF_UNIX).connect('{service}')"

    started = f'setsid {quote(sys.executable)} -I -c "{code}" 2>&1; true'
    answer = project.script(started).json

    shown = answer["result"]["data"]["stdout"]
    assert shown.rstrip().endswith("PermissionError: [Errno 13] Permission denied")


def test_loops_of_events_and_processes_of_python_work_on_a_node(
    workspace: Workspace, shared_node: Node
) -> None:
    project = with_tools(workspace, shared_node)

    assert project.execute("tool:work")["result"]["data"] == "over a pair"


@filtered
@pytest.mark.heavy
def test_a_node_may_keep_its_tools_from_the_network(tmp_path: Path, workspace: Workspace) -> None:
    environ = {"RYE_NODE_ALLOW_NETWORK": "false"}
    with running_node(tmp_path / "node", environ=environ) as node:
        project = with_tools(workspace, node)

        answer = project.ask("tool:resolve").json

    assert answer["status"] == "error"
    assert answer["result"]["data"]["error_type"] == "PermissionError"


@pytest.mark.heavy
def test_a_node_may_let_its_tools_connect(
    tmp_path: Path, workspace: Workspace, service: Path
) -> None:
    environ = {"RYE_NODE_ALLOW_UNIX_SOCKETS": "true"}
    with running_node(tmp_path / "node", environ=environ) as node:
        project = with_tools(workspace, node)

        answer = project.execute("tool:connect", parameters={"path": str(service)})

        assert answer["result"]["data"] == "connected"
