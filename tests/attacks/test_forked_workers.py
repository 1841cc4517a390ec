"""Runs of a node that look for data of earlier runs in the process they were forked from."""

import os
import signal
import sys
from pathlib import Path

import pytest

from lillux.landlock import landlock_version
from tests.support.endings import wait_until
from tests.support.node import Node
from tests.support.remote_projects import RemoteProject
from tests.support.workspace import Workspace

pytest_plugins = ("tests.support.node",)
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="workers are forked on Linux")
confined = pytest.mark.skipif(not landlock_version(), reason="this system has no Landlock")
SECRET = "t0ken-of-the-run-before"


@pytest.fixture
def project(shared_node: Node, workspace: Workspace) -> RemoteProject:
    """A project on a node that has run something with a secret."""
    return _with_a_run(shared_node, workspace)


@pytest.fixture
def own_project(node: Node, workspace: Workspace) -> RemoteProject:
    """The same on a node of its own, which a test may kill with its processes."""
    return _with_a_run(node, workspace)


def _with_a_run(node: Node, workspace: Workspace) -> RemoteProject:
    project = RemoteProject.with_tools(workspace, node.user())
    reply = project.script("echo the secret has ${#TOKEN} characters", TOKEN=SECRET)
    said = reply.json["result"]["data"]["stdout"]
    assert said == f"the secret has {len(SECRET)} characters\n"
    return project


def template_of(node: Node) -> int:
    """The process that workers are forked from."""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            is_template = b"be_template" in path.read_bytes()
            stat = path.with_name("stat").read_text("ascii")
        except OSError:
            continue
        if is_template and int(stat.rpartition(")")[2].split()[1]) == node.pid:
            return int(path.parent.name)
    raise AssertionError("the node forks no workers")


def output(project: RemoteProject, script: str) -> str:
    """The output of a script."""
    reply = project.script(f"{script}; true")
    assert reply.json["status"] == "success", reply.json
    return str(reply.json["result"]["data"]["stdout"])


def memory_of(pid: int) -> bytes:
    """All that a process can write to."""
    parts = []
    with Path(f"/proc/{pid}/mem").open("rb", buffering=0) as memory:
        for line in Path(f"/proc/{pid}/maps").read_text("utf-8").splitlines():
            place, rights, *_ = line.split()
            first, last = (int(end, 16) for end in place.split("-"))
            if rights.startswith("rw"):
                memory.seek(first)
                parts.append(memory.read(last - first))
    return b"".join(parts)


def test_no_data_of_a_job_reaches_the_process_that_others_are_forked_from(
    project: RemoteProject,
) -> None:
    memory = memory_of(template_of(project.user.node))

    assert b"rye_services.node.worker.items" in memory  # so that it is the right memory
    assert SECRET.encode() not in memory
    assert str(project.user.node.data / "workspaces").encode() not in memory


def test_a_run_has_neither_the_environment_nor_the_files_of_the_one_before(
    project: RemoteProject,
) -> None:
    found = output(project, "env; tr '\\0' '\\n' < /proc/$PPID/environ; ls -l /proc/$PPID/fd")

    assert SECRET not in found
    assert "TOKEN" not in found
    assert "socket:" not in found  # of the server, of the template, and of other workers


@confined
def test_a_run_cannot_look_into_the_process_that_it_was_forked_from(project: RemoteProject) -> None:
    template = template_of(project.user.node)

    found = output(project, f"cd /proc/{template} && cat environ maps mem; readlink fd/*")

    assert found == ""


@pytest.mark.skipif(landlock_version() < 6, reason="Landlock of this system knows no signals")
def test_a_run_cannot_signal_the_process_that_it_was_forked_from(project: RemoteProject) -> None:
    template = template_of(project.user.node)

    found = output(project, f"for s in 9 19 15; do kill -$s {template} && echo sent; done")

    assert found == ""
    assert template_of(project.user.node) == template


def test_a_run_leaves_nothing_in_the_modules_of_the_next_one(project: RemoteProject) -> None:
    before = output(project, "stat -c %Y $HOME; ulimit -a; umask; cat /proc/$PPID/limits")

    output(project, "ulimit -n 20; umask 777; cd /; exec 9>$TMPDIR/x; sleep 600 & true")
    after = output(project, "stat -c %Y $HOME; ulimit -a; umask; cat /proc/$PPID/limits")

    assert before.split("\n")[1:] == after.split("\n")[1:]


def test_runs_go_on_when_the_process_that_they_are_forked_from_was_killed(
    own_project: RemoteProject,
) -> None:
    killed = template_of(own_project.user.node)
    os.kill(killed, signal.SIGKILL)

    assert output(own_project, "echo first") == "first\n"
    assert output(own_project, "echo second") == "second\n"
    assert template_of(own_project.user.node) != killed


def test_the_process_that_workers_are_forked_from_ends_with_a_server_that_is_killed(
    own_project: RemoteProject,
) -> None:
    template = template_of(own_project.user.node)

    own_project.user.node.kill()

    wait_until(lambda: not Path(f"/proc/{template}").exists() or _is_zombie(template))


def _is_zombie(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text("ascii").rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True
