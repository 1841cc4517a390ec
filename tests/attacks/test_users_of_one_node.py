"""Two users of one node: what one runs does not see, signal, limit or slow what the other runs."""

import json
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from lillux.namespaces import Apart, obstacle
from lillux.shares import open_shares
from tests.support.endings import wait_until
from tests.support.node import Node
from tests.support.remote_projects import RemoteProject
from tests.support.workspace import Workspace

HAS_NAMESPACES = sys.platform == "linux" and (
    obstacle(Apart.USERS) == "" or obstacle(Apart.PLAIN) == ""
)
pytestmark = pytest.mark.skipif(not HAS_NAMESPACES, reason="the machine gives no namespaces")

FUNCTION = "rye/core/runtimes/python/function"
SEEN = "a-word-that-only-the-victim-was-given"
# Everything is declared, so that nothing but the node itself stands in the way.
ALL = """
SANDBOX = {"read": "any", "write": "any", "network": "any", "programs": "any", "env": "any"}
"""
LOOK = """
import os
from pathlib import Path

def execute(params, project_path):
    pids = [int(one) for one in os.listdir("/proc") if one.isdecimal()]
    said = b""
    for pid in pids:
        for name in ("cmdline", "environ", "stat", "status", "cgroup"):
            try:
                said += Path(f"/proc/{pid}/{name}").read_bytes()
            except OSError:
                pass
    try:
        groups = os.listdir("/sys/fs/cgroup")
    except OSError:
        groups = []
    return {"pids": pids, "said": said.decode(errors="replace"), "groups": groups}
"""
REACH = """
import os, resource, signal

def execute(params, project_path):
    done = []
    for pid in range(params["first"], params["last"] + 1):
        for name, act in (
            ("signal", lambda: os.kill(pid, 0)),
            ("priority", lambda: os.setpriority(os.PRIO_PROCESS, pid, 19)),
            ("limit", lambda: resource.prlimit(pid, resource.RLIMIT_NOFILE, (3, 3))),
            ("affinity", lambda: os.sched_setaffinity(pid, {0})),
        ):
            try:
                act()
                done.append([name, pid])
            except OSError:
                pass
    try:
        os.setpriority(os.PRIO_USER, os.getuid(), 19)
    except OSError:
        pass
    return done
"""
END_ALL = """
import os, signal

def execute(params, project_path):
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.kill(-1, number)
        except OSError:
            pass
    return "still here"
"""
FORK = """
import os, signal, time

def execute(params, project_path):
    children = []
    try:
        while len(children) < 3000:
            pid = os.fork()
            if not pid:
                signal.pause()
                os._exit(0)
            children.append(pid)
    except OSError:
        pass
    for pid in children:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    return len(children)
"""


class Victim:
    """A run of another user that waits, seen from outside of it."""

    def __init__(self, project: RemoteProject) -> None:
        self.project = project
        self.thread = project.begun(f"echo {SEEN} > /dev/null; : {SEEN}")
        self.pids = self._found()

    def _found(self) -> list[int]:
        place = str(self.project.user.node.data / "workspaces" / self.project.user.user_id)
        pids = [pid for pid in _pids() if _folder_of(pid).startswith(place)]
        return [pid for pid in pids if _name_of(pid) != "sleep"]  # it lives for a moment

    def finish(self) -> str:
        """Let it go on, and return how it ended."""
        self.project.release()
        return str(self.project.ended(self.thread)["state"])


def _pids() -> Iterator[int]:
    return (int(path.name) for path in Path("/proc").iterdir() if path.name.isdecimal())


def _folder_of(pid: int) -> str:
    try:
        return str(Path(f"/proc/{pid}/cwd").readlink())
    except OSError:
        return ""


def _name_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text("utf-8").strip()
    except OSError:
        return "sleep"


@pytest.fixture
def attacker(workspace: Workspace, shared_node: Node) -> RemoteProject:
    """A user whose tools ask for every right."""
    for name, body in (("look", LOOK), ("reach", REACH), ("end", END_ALL), ("fork", FORK)):
        workspace.project.signed_tool(f"mine/{name}", body, executor=FUNCTION, extra=ALL)
    return RemoteProject.with_tools(workspace, shared_node.user())


@pytest.fixture
def victim(workspace: Workspace, shared_node: Node, attacker: RemoteProject) -> Iterator[Victim]:
    """Another user of the same node, whose tool runs meanwhile."""
    del attacker  # the tools are pushed by both
    found = Victim(RemoteProject.with_tools(workspace, shared_node.user()))
    assert found.pids
    yield found
    found.project.release()


def data_of(project: RemoteProject, item: str, **parameters: Any) -> Any:  # noqa: ANN401 - JSON
    return project.execute(f"tool:mine/{item}", parameters=parameters)["result"]["data"]


def test_a_run_sees_no_process_of_another_user_nor_of_the_node(
    attacker: RemoteProject, victim: Victim
) -> None:
    found = data_of(attacker, "look")

    assert SEEN not in found["said"]
    assert victim.project.user.user_id not in found["said"]
    assert "serve" not in found["said"].split("\0")
    assert len(found["pids"]) < 10
    assert found["groups"] == []
    assert victim.finish() == "completed"


def test_a_run_signals_and_limits_no_process_of_another(
    attacker: RemoteProject, victim: Victim
) -> None:
    before = [(os.getpriority(os.PRIO_PROCESS, pid), _limits(pid)) for pid in victim.pids]

    # From above the numbers of its own namespace on, which are low.
    reached = data_of(attacker, "reach", first=500, last=max(victim.pids) + 10)

    after = [(os.getpriority(os.PRIO_PROCESS, pid), _limits(pid)) for pid in victim.pids]
    assert after == before
    assert [one for one in reached if one[1] in victim.pids] == []
    assert victim.finish() == "completed"


def _limits(pid: int) -> tuple[str, set[int]]:
    return Path(f"/proc/{pid}/limits").read_text("utf-8"), os.sched_getaffinity(pid)


def test_a_run_that_ends_all_it_can_ends_itself_alone(
    attacker: RemoteProject, victim: Victim
) -> None:
    attacker.ask("tool:mine/end")

    assert victim.finish() == "completed"
    assert attacker.user.ask("GET", "/threads").status == 200


def test_a_run_that_starts_processes_without_end_leaves_others_theirs(
    attacker: RemoteProject, victim: Victim
) -> None:
    started = data_of(attacker, "fork")

    assert started < 600
    assert victim.finish() == "completed"


@pytest.mark.skipif(not open_shares().held, reason="no control group is delegated")
def test_runs_of_different_users_have_shares_of_their_own(victim: Victim) -> None:
    groups = Path(f"/proc/{victim.pids[-1]}/cgroup").read_text("utf-8")

    assert f"/rye-runs/{victim.project.user.user_id}/" in groups
    assert victim.finish() == "completed"


def test_a_run_leaves_no_control_group_behind(attacker: RemoteProject, shared_node: Node) -> None:
    data_of(attacker, "look")

    shares = open_shares()
    left = [
        path
        for folder in shares.folders.values()
        for path in Path(folder).glob(f"{attacker.user.user_id}/*")
        if path.is_dir()
    ]
    assert left == []
    assert shared_node.ask("GET", "/live").status == 200


# --- parameters -----------------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", ["sh", "yaml"])
def test_no_parameter_of_a_shell_tool_stands_on_a_command_line(
    workspace: Workspace, shared_node: Node, suffix: str
) -> None:
    wait = "echo > $TMPDIR/here; while ! [ -e $TMPDIR/go ]; do sleep 0.02; done"
    if suffix == "sh":
        header = "#!/usr/bin/env bash\n# version: 1.0.0\n# description: waits\n"
        workspace.project.signed("tools/waits.sh", f'{header}test -n "$1"\n{wait}\n')
    else:
        schema = "config_schema: {type: object, properties: {word: {type: string}}}\n"
        body = f"config: {{script: {json.dumps(f'test -n {{word}}; {wait}')}}}\n"
        workspace.project.signed_yaml("waits", schema + body)
    project = RemoteProject.with_tools(workspace, shared_node.user())
    reply = project.ask("tool:waits", parameters={"word": SEEN}, **{"async": True})
    wait_until(lambda: bool(project.waiting()))

    lines = [_read(pid, "cmdline") for pid in _pids()]

    assert any(b"-c" in line for line in lines)
    assert [line for line in lines if SEEN.encode() in line] == []
    project.release()
    assert project.ended(str(reply.json["thread_id"]))["state"] == "completed"


def _read(pid: int, name: str) -> bytes:
    try:
        return Path(f"/proc/{pid}/{name}").read_bytes()
    except OSError:
        return b""


# --- without privileges, and where the system gives nothing ---------------------------------------

_NOBODY = 65_534


def _as_nobody(work: Callable[[], int]) -> int:
    """The status of work in a process without privileges."""
    child = os.fork()
    if not child:
        status = 1
        try:
            if os.geteuid() == 0:
                os.setgroups([])
                os.setresgid(_NOBODY, _NOBODY, _NOBODY)
                os.setresuid(_NOBODY, _NOBODY, _NOBODY)
                import ctypes

                ctypes.CDLL(None).prctl(4, 1, 0, 0, 0)  # dumpable, as after the start of a program
            status = work()
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def test_a_user_without_privileges_gets_processes_of_its_own() -> None:
    from lillux.namespaces import run_apart

    def looks() -> int:
        pids = [one for one in os.listdir("/proc") if one.isdecimal()]  # noqa: PTH208 - names
        return int(pids != ["1"] or os.getuid() == 0)

    assert _as_nobody(lambda: run_apart(Apart.USERS, looks)) == 0


def test_what_was_run_apart_has_no_privilege_that_could_undo_it() -> None:
    from lillux.namespaces import run_apart

    def undoes() -> int:
        import ctypes

        libc = ctypes.CDLL(None, use_errno=True)
        undone = [libc.umount2(b"/proc", 2), libc.umount2(b"/sys/fs/cgroup", 2)]
        return int(0 in undone or libc.unshare(0x0002_0000) == 0)

    how = Apart.USERS if not obstacle(Apart.USERS) else Apart.PLAIN
    assert run_in_child(lambda: run_apart(how, undoes)) == 0


def run_in_child(work: Callable[[], int]) -> int:
    child = os.fork()
    if not child:
        status = 1
        try:
            status = work()
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
