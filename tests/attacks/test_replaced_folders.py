"""A folder that an agent may write is replaced by a link, to be written through at the next start.

On the built file: what the supervisor of one run lets stand decides what the next run is given.
"""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from lillux.beneath import LinkOnTheWayError
from lillux.landlock import landlock_version
from lillux.seccomp import can_filter
from lillux.supervisor import can_supervise
from ryeos.run.model import ExecutionRequest
from tests.support.built import BASE_PYTHON, Machine
from tests.support.mcp_client import McpClient
from tests.support.workspace import Workspace

pytestmark = pytest.mark.skipif(
    not (landlock_version() and can_filter() and can_supervise()),
    reason="what agents write is held by Landlock and seccomp",
)
POLICY = 'version: "1.0.0"\ncategory: sandbox\nagents: {write: ["~/data"]}\n'
WRITES = """
echo evil >> ~/.ssh/authorized_keys; echo evil >> ~/.bashrc; mkdir -p ~/.local/bin
echo evil > ~/.local/bin/git; echo evil > ~/data/authorized_keys; true
"""


@pytest.fixture
def machine(tmp_path: Path, built_pyz: Path) -> Machine:
    """A home with what its user's shells read, and a cache that agents may write."""
    made = Machine(tmp_path, BASE_PYTHON, built_pyz)
    for name in (".ssh", ".cache/pip", "data"):
        (made.home / name).mkdir(parents=True)
    (made.home / ".bashrc").write_text("# mine\n", "utf-8")
    policy = made.home / ".ai/config/sandbox/policy.yaml"
    policy.parent.mkdir(parents=True)
    policy.write_text(POLICY, "utf-8")
    return made


def started(machine: Machine, *commands: str) -> list[dict[str, Any]]:
    """What comes of commands of an agent, each in a start of the server of its own."""
    found = []
    for number, command in enumerate(commands):
        log = machine.temporary / f"{number}.log"
        client = McpClient(
            [*machine.rye, "mcp"], env=machine.environ(), cwd=machine.project, stderr=log
        )
        with client:
            client.initialize()
            found.append(
                client.call("execute", item_id="rye/bash/bash", parameters={"command": command})[
                    "structuredContent"
                ]
            )
    return found


REPLACING = {
    "a cache, moved": ("~/.cache/pip", "mv {0} old; ln -s ~ {0}"),
    "a cache, removed": ("~/.cache/pip", "rmdir {0}; ln -s ~ {0}"),
    "a cache, exchanged": (
        "~/.cache/pip",
        (
            "ln -s ~ link; python3 -c 'import ctypes, os; ctypes.CDLL(None).renameat2("
            '-100, b"link", -100, os.path.expanduser("{0}").encode(), 2)\''
        ),
    ),
    "a folder of the policy": ("~/data", "rmdir {0}; ln -s ~/.ssh {0}"),
}


@pytest.mark.parametrize("way", REPLACING)
def test_an_allowed_folder_is_not_replaced_by_a_link(machine: Machine, way: str) -> None:
    folder, command = REPLACING[way]
    place = machine.home / folder[2:]

    started(machine, command.replace("{0}", folder), WRITES)

    assert place.is_dir()
    assert not place.is_symlink()
    assert (machine.home / ".bashrc").read_text("utf-8") == "# mine\n"
    assert list((machine.home / ".ssh").iterdir()) == []
    assert not (machine.home / ".local").exists()


def test_a_link_that_stands_there_all_the_same_gives_nothing(machine: Machine) -> None:
    (machine.home / ".cache/pip").rmdir()
    (machine.home / ".cache/pip").symlink_to(machine.home)

    (found,) = started(machine, f"{WRITES} echo x > ~/.cache/pip/x; true")

    assert found["status"] == "success", found
    assert (machine.home / ".bashrc").read_text("utf-8") == "# mine\n"
    assert list((machine.home / ".ssh").iterdir()) == []
    assert not (machine.home / "x").exists()


def test_the_receipt_names_what_was_refused(machine: Machine) -> None:
    started(machine, "rmdir ~/.cache/pip; true")

    (row,) = json.loads(machine.ask("receipts", "list", "--json"))["receipts"]
    shown = json.loads(machine.ask("receipts", "show", row["id"], "--json"))

    said = shown["statement"]["predicate"]
    assert said["status"] == "success"
    refused = {"what": "write", "target": f"{machine.home}/.cache/pip"}
    assert refused in said["refused"]


def test_a_missing_folder_is_not_made_through_a_link_that_was_put_between(
    workspace: Workspace,
) -> None:
    outside = workspace.folder / "outside"
    outside.mkdir()
    workspace.project.signed_yaml(
        "mine/x", 'sandbox: {write: ["{project}/a/b/out"], programs: any}\nconfig: {script: "true"}'
    )
    (workspace.project_path / "a").mkdir()
    rye = workspace.rye()
    rights = rye.executor.rights("mine/x")

    (workspace.project_path / "a").rmdir()  # after it was decided what may be written
    (workspace.project_path / "a").symlink_to(outside)

    with pytest.raises(LinkOnTheWayError, match="a link to"):
        rights.prepare_folders(None)
    assert os.listdir(outside) == []  # noqa: PTH208 - names


def test_a_missing_folder_is_made_where_no_link_stands(workspace: Workspace) -> None:
    workspace.project.signed_yaml(
        "mine/x", 'sandbox: {write: ["{project}/a/b/out"], programs: any}\nconfig: {script: "true"}'
    )

    result = workspace.rye().executor.execute(ExecutionRequest(item_id="mine/x"))

    assert result.success, result.error
    assert (workspace.project_path / "a/b/out").is_dir()
