"""The limits of executions in the settings of a real node."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from shlex import quote
from typing import Any

import pytest

from rye_services.settings import MIB
from tests.support.node import Node, running_node
from tests.support.remote_projects import FUNCTION, RemoteProject
from tests.support.workspace import Workspace

pytestmark = pytest.mark.skipif(os.name == "nt", reason="the tools of these tests are for POSIX")

LIMITS = {
    "RYE_NODE_WORKER_MEMORY_BYTES": "1 GiB",
    "RYE_NODE_WORKER_FILE_BYTES": "1 MiB",
    "RYE_NODE_WORKER_DISK_BYTES": "64 MiB",
    "RYE_NODE_WORKER_TIMEOUT_S": "3",
}
TAKE = "def execute(params, project_path):\n    return len(bytearray(params['size']))\n"
TAKE_IN_A_PROGRAM = f"{quote(sys.executable)} -I -c 'print(len(bytearray(1 << 31)))'"


@pytest.fixture(scope="module")
def limited(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    """A node whose settings limit executions."""
    with running_node(tmp_path_factory.mktemp("limited") / "node", environ=LIMITS) as running:
        yield running


@pytest.fixture
def project(limited: Node, workspace: Workspace) -> RemoteProject:
    """A project on it."""
    workspace.project.signed_tool("take", TAKE, executor=FUNCTION)
    return RemoteProject.with_tools(workspace, limited.user())


def failed(project: RemoteProject, item_id: str, **body: Any) -> dict[str, Any]:  # noqa: ANN401 - JSON
    """The answer of a failed run, whose row has the state error."""
    reply = project.ask(item_id, **body)
    assert (reply.status, reply.json["status"]) == (200, "error"), reply.json
    assert project.thread(reply.json["thread_id"])["state"] == "error"
    return dict(reply.json["result"])


def next_run_succeeds(project: RemoteProject) -> bool:
    """Whether the next run of this node succeeds."""
    answer = project.execute("tool:take", parameters={"size": 16 * MIB})
    return bool(answer["result"]["data"] == 16 * MIB)


def test_a_function_gets_no_more_memory_than_worker_memory_bytes(project: RemoteProject) -> None:
    result = failed(project, "tool:take", parameters={"size": 2048 * MIB})

    assert result["data"]["error_type"] == "MemoryError"
    assert next_run_succeeds(project)


@pytest.mark.skipif(sys.platform == "darwin", reason="address space has no limit there")
def test_a_program_gets_no_more_memory_than_worker_memory_bytes(project: RemoteProject) -> None:
    result = failed(project, "tool:sh", secret_envelope=project.envelope(SCRIPT=TAKE_IN_A_PROGRAM))

    assert "MemoryError" in str(result)
    assert next_run_succeeds(project)


def test_no_file_gets_larger_than_worker_file_bytes(project: RemoteProject) -> None:
    result = failed(
        project,
        "tool:sh",
        secret_envelope=project.envelope(SCRIPT="exec head -c 3000000 /dev/zero > src/large"),
    )

    assert result["code"] == "EXECUTION_FAILED"
    assert len(project.text("src/large")) == MIB
    assert next_run_succeeds(project)


# Two processes for all files: the time of a run is limited, too.
FILLS = "head -c 200000000 /dev/zero | split -b 1000000 - $TMPDIR/; sleep 600"


@pytest.mark.heavy
def test_all_files_of_a_run_are_limited_together(project: RemoteProject) -> None:
    result = failed(project, "tool:sh", secret_envelope=project.envelope(SCRIPT=FILLS))

    assert (result["code"], result["error"]) == (
        "RESOURCE_EXCEEDED",
        f"the execution filled its workspace with more than {64 * MIB} bytes",
    )
    assert next_run_succeeds(project)


def test_a_file_of_just_worker_file_bytes_is_taken(project: RemoteProject) -> None:
    answer = project.script(f"head -c {MIB} /dev/zero > src/just").json

    assert (answer["status"], answer["merge_type"]) == ("success", "fast-forward")
    assert len(project.text("src/just")) == MIB


@pytest.mark.heavy
def test_a_run_takes_no_longer_than_worker_timeout_s(project: RemoteProject) -> None:
    result = failed(
        project,
        "tool:sh",
        secret_envelope=project.envelope(SCRIPT="sleep 600"),
    )

    assert (result["code"], result["error"]) == (
        "TIMEOUT",
        "the execution took longer than 3 seconds",
    )
    assert next_run_succeeds(project)


@pytest.mark.heavy
@pytest.mark.parametrize(("setting", "is_written"), [("", False), ("0", True)])
def test_worker_file_bytes_limits_files_in_place_of_the_quota(
    tmp_path: Path, workspace: Workspace, setting: str, *, is_written: bool
) -> None:
    environ = {
        "RYE_NODE_MAX_USER_STORAGE_BYTES": "2 MiB",
        "RYE_NODE_WORKER_FILE_BYTES": setting,
    }
    with running_node(tmp_path / "node", environ=environ) as node:
        project = RemoteProject.with_tools(workspace, node.user())

        answer = project.script("exec head -c 3000000 /dev/zero > not-of-the-project").json

    assert (answer["status"] == "success") is is_written, answer
