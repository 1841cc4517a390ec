"""Tools and pushes that could make a node fail: each is answered, and the node goes on."""

import os
import sys

import pytest

from tests.support.node import Node
from tests.support.remote_projects import RemoteProject
from tests.support.workspace import Workspace

pytest_plugins = ("tests.support.node",)
pytestmark = pytest.mark.skipif(os.name == "nt", reason="the tools of these tests are for POSIX")
SHARD = ".ai/state/objects/blobs/aa/aa"


@pytest.fixture
def project(shared_node: Node, workspace: Workspace) -> RemoteProject:
    """The attacker's project."""
    return RemoteProject.with_tools(workspace, shared_node.user())


@pytest.mark.heavy
@pytest.mark.parametrize(
    "code",
    [
        "print('[' * 900 + ']' * 900)",
        "print('{\"a\":' * 990 + '1' + '}' * 990)",
        "print('{\"n\": ' + '7' * 4000 + '}')",
        "import os\nfor _ in range(1850):\n    os.mkdir('d'); os.chdir('d')",
    ],
)
def test_output_or_folders_of_extreme_depth_are_an_answer(
    project: RemoteProject, code: str
) -> None:
    start = "import os; os.makedirs('.ai/state', exist_ok=True); os.chdir('.ai/state')\n"
    project.workspace.project.signed_tool("odd", f"{start}{code}\n")
    project.push()

    reply = project.ask("tool:odd")

    assert reply.status == 200, reply.json
    assert project.execute("tool:echo")["merge_type"] == "no-op"


@pytest.mark.parametrize(
    "script",
    [
        f"rm -rf .ai/state; mkdir -p {SHARD}; ln -s /etc/passwd {SHARD}/{'a' * 64}",
        f"rm -rf .ai/state; mkdir -p {SHARD}; mkfifo {SHARD}/{'a' * 64}",
        f"rm -rf .ai/state; mkdir -p {SHARD}; echo other > {SHARD}/{'a' * 64}",
        "rm -rf .ai/state; mkdir -p .ai/state/objects; ln -s /etc .ai/state/objects/blobs",
    ],
)
def test_a_run_whose_files_cannot_be_stored_has_failed(project: RemoteProject, script: str) -> None:
    reply = project.script(f"echo new > src/x.txt; {script}")

    assert (reply.status, reply.json["status"]) == (200, "error"), reply.json
    assert "what the run left cannot be stored: /project" in reply.json["result"]["error"]
    assert (reply.json["merge_type"], reply.json["snapshot_hash"]) == ("no-op", project.head)
    assert project.thread(reply.json["thread_id"])["error_phase"] == "execution"
    assert project.script("cat src/x.txt").json["status"] == "success"


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_a_tool_that_turns_on_its_runner_ends_itself_alone(project: RemoteProject) -> None:
    reply = project.script("kill -9 $(ps -o ppid= -p $$) $$")

    assert (reply.status, reply.json["status"]) == (200, "error"), reply.json
    assert project.thread(reply.json["thread_id"])["error_phase"] == "execution"


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_a_tool_forges_no_answer_of_its_runner(project: RemoteProject) -> None:
    forged = "(echo '{\\\"envelope\\\": 5}' > $f) 2> /dev/null &"

    reply = project.script(f"for f in /proc/$PPID/fd/*; do {forged} done; wait; echo own")

    assert (reply.status, reply.json["status"]) == (200, "success"), reply.json
    assert reply.json["result"]["data"]["stdout"].endswith("own\n")


@pytest.mark.parametrize("script", ["mv .ai away", "echo 'sync: 5' > .ai/config/cas/manifest.yaml"])
def test_a_run_changes_no_rules_of_its_project(project: RemoteProject, script: str) -> None:
    project.script("true")

    reply = project.script(f"mkdir -p .ai/config/cas; {script}")

    assert reply.json["status"] == "error", reply.json
    assert project.execute("tool:echo")["merge_type"] == "no-op"


def test_the_row_of_a_thread_has_no_more_than_the_start_of_an_error(
    project: RemoteProject,
) -> None:
    code = "import sys\nprint('x' * 2_000_000, file=sys.stderr)\nsys.exit(1)\n"
    project.workspace.project.signed_tool("loud", code)
    project.push()

    reply = project.ask("tool:loud")

    assert reply.json["status"] == "error"
    row = project.thread(reply.json["thread_id"])
    assert len(row["error_message"]) <= 4096
