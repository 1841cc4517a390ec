"""Two users of one node: what one runs does not see, signal, limit or slow what the other runs."""

import json
import os
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from lillux.file_locks import locked
from lillux.namespaces import Apart, closed_folder, obstacle
from lillux.shares import open_shares
from lillux.uids import UidRange, become, obstacle_to
from rye_services.node.worker.isolation import UID_LOCKS
from rye_services.settings import DEFAULT_UIDS
from tests.support.endings import wait_until
from tests.support.node import Node, node_at, until_killed
from tests.support.remote_projects import RemoteProject
from tests.support.workspace import ROOT, Workspace

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


# --- user ids -------------------------------------------------------------------------------------

HAS_UIDS = sys.platform == "linux" and obstacle_to(DEFAULT_UIDS) == ""
with_uids = pytest.mark.skipif(not HAS_UIDS, reason="the node is not root, or has no user ids")
WHO = """
import os, resource

def execute(params, project_path):
    return {
        "users": [*os.getresuid(), *os.getresgid(), *os.getgroups()],
        "owner": os.stat(project_path).st_uid,
        "processes": resource.getrlimit(resource.RLIMIT_NPROC)[0],
    }
"""
LEAVE = """
import os, sys, time

def execute(params, project_path):
    for _ in range(20):
        if not os.fork():
            os.setsid()
            if not os.fork():
                os.closerange(0, 1000)
                time.sleep(600)
            os._exit(0)
    for folder in (project_path, os.environ["TMPDIR"]):
        with open(folder + "/left", "w") as file:
            file.write("left")
    os.mkdir(os.environ["TMPDIR"] + "/closed", 0)
    return os.getuid()
"""
GRAPH = """\
version: "1.0.0"
tool_type: graph
executor_id: rye/core/runtimes/state-graph/runtime
category: ""
description: asks a tool
permissions: ["rye.*"]
config:
  start: ask
  nodes:
    ask:
      action: {item_id: "tool:who"}
      assign: {users: "${result.users}"}
"""
SERVER = """
import json, os, sys

for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message:
        continue
    result = {"content": [{"type": "text", "text": str(os.getresuid())}]}
    if message["method"] == "initialize":
        info = {"name": "who", "version": "1"}
        version = message["params"]["protocolVersion"]
        result = {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": info}
    elif message["method"] == "tools/list":
        result = {"tools": [{"name": "who", "inputSchema": {"type": "object"}}]}
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
"""


def user_of(pid: int) -> int:
    """The real user of a process, -1 for one that has ended."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text("utf-8").splitlines()
    except OSError:
        return -1
    return next(int(line.split()[1]) for line in lines if line.startswith("Uid:"))


def run_as(uid: int, work: Callable[[], int]) -> int:
    """The status of work that a user does whom nothing but the system holds: no Landlock."""

    def as_user() -> int:
        become(uid)
        return work()

    return run_in_child(as_user)


@pytest.fixture
def somebody(workspace: Workspace, shared_node: Node) -> RemoteProject:
    """A user with an item of every kind that starts processes."""
    workspace.project.signed_tool("who", WHO, executor=FUNCTION)
    workspace.project.signed_tool("leave", LEAVE, executor=FUNCTION, extra=ALL)
    workspace.project.signed("tools/graph.yaml", GRAPH)
    config = {"command": "python3", "args": ["src/server.py"], "tool_name": "who"}
    workspace.project.signed_yaml(
        "server", f"config: {json.dumps(config)}\n", executor="rye/core/runtimes/mcp/stdio"
    )
    project = RemoteProject.with_tools(workspace, shared_node.user())
    project.write("src/server.py", SERVER)
    project.push()
    return project


@with_uids
def test_a_run_has_a_user_id_that_neither_the_node_nor_another_run_has(
    somebody: RemoteProject, shared_node: Node
) -> None:
    victim = Victim(RemoteProject.with_tools(somebody.workspace, shared_node.user()))

    found = somebody.execute("tool:who")["result"]["data"]

    own, others = set(found["users"]), {user_of(pid) for pid in victim.pids}
    assert len(own) == 1
    assert own.isdisjoint(others | {user_of(shared_node.pid)})
    assert own == {found["owner"]}
    assert DEFAULT_UIDS.first <= found["owner"] <= DEFAULT_UIDS.last
    assert found["processes"] == 512
    assert victim.finish() == "completed"


@with_uids
def test_every_kind_of_item_runs_under_such_an_id(somebody: RemoteProject) -> None:
    shell = somebody.script("id -u; echo changed > src/x.txt; touch $TMPDIR/x")
    graph = somebody.execute("tool:graph")["result"]["data"]
    server = somebody.execute("tool:server")["result"]["data"]

    assert shell.json["status"] == "success", shell.json
    assert shell.json["merge_type"] == "fast-forward"
    assert shell.json["result"]["data"] >= DEFAULT_UIDS.first
    assert min(graph["state"]["users"]) >= DEFAULT_UIDS.first
    assert str(DEFAULT_UIDS.first)[:3] in str(server)


@with_uids
def test_a_run_cannot_read_the_files_of_another_even_without_landlock(
    somebody: RemoteProject, shared_node: Node
) -> None:
    victim = Victim(RemoteProject.with_tools(somebody.workspace, shared_node.user()))
    (here,) = victim.project.waiting()
    owner = here.stat().st_uid
    workspaces = shared_node.data / "workspaces"
    slot = workspaces.joinpath(*here.relative_to(workspaces).parts[:3])
    there = str(here.relative_to(slot.parent))
    beside = os.open(slot.parent, os.O_PATH)  # as if every folder above it were open

    def reads() -> int:
        try:
            os.close(os.open(there, os.O_RDONLY, dir_fd=beside))
        except PermissionError:
            return 1
        return 0

    assert run_as(owner, reads) == 0
    assert run_as(owner + 1, reads) == 1
    assert victim.finish() == "completed"
    wait_until(lambda: slot.stat().st_mode & 0o777 == 0o700)
    assert slot.stat().st_uid == os.geteuid()
    assert run_as(owner, reads) == 1


@with_uids
def test_a_run_cannot_end_the_processes_of_another_even_without_namespaces(
    somebody: RemoteProject, shared_node: Node
) -> None:
    victim = Victim(RemoteProject.with_tools(somebody.workspace, shared_node.user()))
    pid = min(pid for pid in victim.pids if user_of(pid) >= DEFAULT_UIDS.first)
    owner = user_of(pid)

    import resource  # here: that user cannot read the library where it lies in a home

    def reaches() -> int:
        for act in (
            lambda: os.kill(pid, 0),
            lambda: os.setpriority(os.PRIO_PROCESS, pid, 19),
            lambda: resource.prlimit(pid, resource.RLIMIT_NOFILE, (3, 3)),
            lambda: os.sched_setaffinity(pid, {0}),
            lambda: os.listdir(f"/proc/{pid}/fd"),  # noqa: PTH208 - names
        ):
            with pytest.raises(PermissionError):
                act()
        return 0

    assert run_as(owner + 1, reaches) == 0
    assert victim.finish() == "completed"


@with_uids
def test_nothing_of_a_user_id_is_left_after_the_run(
    somebody: RemoteProject, shared_node: Node
) -> None:
    uid = somebody.execute("tool:leave")["result"]["data"]

    assert [pid for pid in _pids() if user_of(pid) == uid] == []
    workspaces = shared_node.data / "workspaces" / somebody.user.user_id
    left = [path for path in workspaces.rglob("*") if path.name in {"left", "closed"}]
    assert left == []
    again = somebody.execute("tool:who")["result"]["data"]
    assert again["owner"] == uid  # the checkout need not be read again


@with_uids
def test_a_node_without_a_free_user_id_says_so_and_runs_again_with_one(
    workspace: Workspace, tmp_path: Path
) -> None:
    numbers = UidRange(DEFAULT_UIDS.last + 100, DEFAULT_UIDS.last + 100)
    environ = {
        "RYE_NODE_RUN_UIDS": str(numbers),
        "RYE_NODE_MAX_CONCURRENT": "1",
        "RYE_NODE_QUEUE_WAIT_S": "0",
    }
    workspace.project.signed_tool("who", WHO, executor=FUNCTION)
    with until_killed(node_at(tmp_path / "node", environ=environ)) as node:
        project = RemoteProject.with_tools(workspace, node.user())
        with locked(UID_LOCKS / str(numbers.first)):
            refused = project.ask("tool:who")

        assert refused.status == 503, refused.json
        assert refused.headers["retry-after"] == "5"
        assert refused.json["detail"]["error"] == (
            "every user id of run_uids is in use on its machine: ask again later"
        )
        assert project.execute("tool:who")["result"]["data"]["owner"] == numbers.first


@with_uids
def test_a_node_that_is_told_to_gives_no_user_ids(workspace: Workspace, tmp_path: Path) -> None:
    workspace.project.signed_tool("who", WHO, executor=FUNCTION)
    environ = {"RYE_NODE_RUN_UIDS": "off"}
    with until_killed(node_at(tmp_path / "node", environ=environ)) as node:
        project = RemoteProject.with_tools(workspace, node.user())

        found = project.execute("tool:who")["result"]["data"]

        assert set(found["users"]) == {os.geteuid()}
        assert any("they are one user of the system" in line for line in node.log)


# A program that begins another one as a machine would that gives root less than all.
LESS = """
import ctypes, os, platform, struct, sys

libc = ctypes.CDLL(None, use_errno=True)
CAP_SYS_ADMIN, ERRNO = 21, 0x00050000
if sys.argv[1] == "no namespaces":
    unshare = {"x86_64": 272, "aarch64": 97}[platform.machine()]
    steps = [(0x20, 0, 0, 0), (0x15, 0, 1, unshare), (6, 0, 0, ERRNO | 1), (6, 0, 0, 0x7FFF0000)]
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in steps))
    program = struct.pack("HL", len(steps), ctypes.addressof(code))
    assert libc.prctl(22, 2, ctypes.create_string_buffer(program), 0, 0) == 0
assert libc.prctl(24, CAP_SYS_ADMIN, 0, 0, 0) == 0  # no folder can be replaced
os.execv(sys.executable, [sys.executable, *sys.argv[2:]])
"""


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that every user can go to, which one of pytest is not."""
    with TemporaryDirectory(dir="/tmp") as name:
        Path(name).chmod(0o711)
        yield Path(name)


@pytest.fixture
def open_python(open_folder: Path) -> Path:
    """An interpreter that every user can start, with the libraries of this one."""
    name = f"python3.{sys.version_info.minor}"
    places = (Path(sys.base_prefix, "bin", name), Path("/usr/bin", name))
    base = next((place for place in places if _opens(place)), None)
    if base is None:
        pytest.skip(f"no {name} that all users can start")
    subprocess.run([base, "-m", "venv", "--without-pip", open_folder / "venv"], check=True)
    libraries = open_folder.joinpath("venv", "lib", name, "site-packages")
    libraries.joinpath("more.pth").write_text(sysconfig.get_path("purelib"), encoding="utf-8")
    return open_folder / "venv" / "bin" / "python"


def _opens(program: Path) -> bool:
    return program.exists() and closed_folder(program.resolve(), DEFAULT_UIDS.first) is None


@with_uids
@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("no mounts", "processes of its own (user and process namespaces), a user id of its own"),
        ("no namespaces", "each execution has a user id of its own"),
    ],
)
def test_a_run_has_its_id_where_root_has_no_other_right(
    workspace: Workspace, open_folder: Path, open_python: Path, given: str, said: str
) -> None:
    less = open_folder / "less.py"
    less.write_text(LESS, encoding="utf-8")
    data = open_folder / "node"
    data.mkdir(mode=0o711)
    workspace.project.signed_tool("who", WHO, executor=FUNCTION)
    workspace.project.signed_tool("leave", LEAVE, executor=FUNCTION, extra=ALL)
    command = [str(open_python), str(less), given, str(ROOT / "rye_node.py")]
    environ = {"PATH": "/usr/bin:/bin", "HOME": str(open_folder)}
    with until_killed(Node(data, command=command, environ=environ)) as node:
        project = RemoteProject.with_tools(workspace, node.user())

        found = project.execute("tool:who")["result"]["data"]
        uid = project.execute("tool:leave")["result"]["data"]

        assert any(said in line for line in node.log), node.log
        assert set(found["users"]) == {found["owner"]} == {uid}
        assert uid >= DEFAULT_UIDS.first
        assert [pid for pid in _pids() if user_of(pid) == uid] == []
