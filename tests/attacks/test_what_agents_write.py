"""What an agent, a graph or a node starts writes: its project and its own folder, nothing else."""

import os
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from shutil import which
from tempfile import TemporaryDirectory

import pytest

from lillux.dotenv_files import NEVER_FROM_DOTENV
from lillux.landlock import landlock_version
from lillux.mediation.changes import MAX_COPIED
from lillux.seccomp import HARDENED, TRACING, can_filter, number_of
from lillux.supervisor import can_supervise
from lillux.values import replace
from ryeos.items.errors import SpecError
from ryeos.items.places import CODE_VARIABLES as CODE_NAMES
from ryeos.items.refs import PROJECT, Space
from ryeos.run.model import ExecutionRequest, ExecutionResult
from tests.support.workspace import Workspace

pytestmark = pytest.mark.skipif(
    not (landlock_version() and can_filter() and can_supervise()),
    reason="what agents write is held by Landlock and seccomp",
)


@pytest.fixture
def prepared(workspace: Workspace) -> Workspace:
    """A home with what its user's shells and programs read, and a project with an item."""
    home, project = workspace.home, workspace.project_path
    for name in (".bashrc", ".ssh/id", "bin/tool", ".config/git/config", ".cargo/bin/cargo"):
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text("mine", "utf-8")
    (home / "bin/tool").chmod(0o755)
    for name in ("config/keys/trusted", "state/cache/python", "bundles/x", "tools/mine"):
        (workspace.user.space.ai / name).mkdir(parents=True, exist_ok=True)
    (workspace.user.space.ai / ".env").write_text("TOKEN=secret", "utf-8")
    workspace.project.write("tools/mine/x.yaml", "text")
    (project / "src").mkdir()
    (project / "src/a.txt").write_text("a", "utf-8")
    workspace.env |= {"PATH": f"{home}/bin:{os.environ['PATH']}", "A": str(home)}
    shell(workspace, "true")  # makes the caches, and the lock of the tool itself
    return workspace


def shell(workspace: Workspace, command: str) -> ExecutionResult:
    """What comes of a command of an agent."""
    request = ExecutionRequest(item_id="rye/bash/bash", parameters={"command": command})
    return workspace.rye(confines=True).executor.execute(request)


def output(result: ExecutionResult) -> str:
    assert isinstance(result.data, dict), result.failure
    return f"{result.data['stdout']}{result.data['stderr']}"


def state(folder: Path) -> list[tuple[str, int, int, bytes]]:
    """All that is in a folder: names, modes, links and contents."""
    found = []
    for path in sorted(folder.rglob("*")):
        status = path.lstat()
        is_file = stat.S_ISREG(status.st_mode)
        text = path.read_bytes() if is_file else b""
        found.append((str(path), status.st_mode, status.st_nlink if is_file else 0, text))
    return found


BELOW_AI = {
    "a file": "echo x > .ai/tools/mine/y.yaml",
    "over a file": "echo x > .ai/tools/mine/x.yaml",
    "a longer file": "echo x >> .ai/tools/mine/x.yaml",
    "no file": "rm .ai/tools/mine/x.yaml",
    "a folder": "mkdir .ai/new",
    "moving the folder": "mv .ai ai",
    "moving a folder in it": "mv .ai/tools .ai/old",
    "moving a folder out of it": "mv .ai/tools tools",
    "moving a folder into it": "mv src .ai/tools/src",
    "exchanging it": 'python3 -c \'import ctypes; ctypes.CDLL(None).renameat2(-100, b"src", -100,'
    ' b".ai", 2)\'',
    "a link in its place": "rm -r .ai; ln -s src .ai",
    "a link in it": "ln -s /etc .ai/tools/link",
    "a hard link in it": "ln src/a.txt .ai/tools/mine/a.txt",
    "a hard link out of it": "ln .ai/tools/mine/x.yaml src/x; echo x >> src/x; rm -f src/x",
    "by a link": "ln -s ../.ai/tools/mine src/l; echo x > src/l/y.yaml; rm src/l",
    "by its own root": "echo x > /proc/self/cwd/.ai/tools/mine/y.yaml",
    "from inside": "cd .ai/tools && echo x > y",
    "by a descriptor of its folder": 'python3 -c \'import os; f=os.open(".ai/tools", os.O_RDONLY);'
    ' os.open("y", os.O_CREAT | os.O_WRONLY, dir_fd=f)\'',
    "its mode": "chmod -R a+w .ai",
    "its times": "touch -d 2001-01-01 .ai/tools/mine/x.yaml",
    "a device": "mknod .ai/tools/x p",
    "a socket": "python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind(\".ai/tools/s\")'",
}


@pytest.mark.parametrize("way", BELOW_AI)
def test_nothing_below_ai_of_the_project_is_changed(prepared: Workspace, way: str) -> None:
    ai = prepared.project_path / ".ai"
    before = state(ai)

    shell(prepared, BELOW_AI[way])

    assert state(ai) == before
    assert not ai.is_symlink()


@pytest.mark.parametrize(
    "command",
    [
        "mkdir .ai",
        "mkdir -p .ai/tools",
        "ln -s src .ai",
        "mv src .ai",
        "cp -r src .ai",
        "echo x > .ai",
        "mkdir made && mv made .ai",
        'python3 -c \'import os; os.symlink("src", "./src/../.ai")\'',
    ],
)
def test_a_folder_for_items_is_not_made_where_none_is(workspace: Workspace, command: str) -> None:
    project = workspace.project_path
    for path in sorted((project / ".ai").rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    (project / ".ai").rmdir()
    (project / "src").mkdir()

    shell(workspace, command)

    assert not os.path.lexists(project / ".ai")


ELSEWHERE = {
    "start files of a shell": "echo x >> $A/.bashrc",
    "new files in the home": "echo x > $A/.profile; mkdir $A/.config/systemd; echo x > $A/.npmrc",
    "a program of the user": "echo x > $A/bin/tool; echo x > $A/bin/git; chmod +x $A/bin/tool",
    "a program beside a cache": "mkdir -p $A/.cargo/registry; echo x > $A/.cargo/bin/cargo",
    "configuration of git": "git config --global core.pager x; echo > $A/.config/git/config",
    "user space": "echo x > $A/.ai/tools/mine/x.sh; touch $A/.ai/config/keys/trusted/x.toml",
    "bytecode": "echo x > $A/.ai/state/cache/python/x.pyc; mkdir -p $A/.ai/state/cache/no-bytecode",
    "bundles": "echo x > $A/.ai/bundles/x/y",
    "moving user space": "mv $A/.ai $A/ai; mv $A/.ai/config $A/.ai/old",
    "hard links into the project": "ln $A/.bashrc src/b; echo x >> src/b; rm -f src/b",
    "links in the project": "ln -s $A/.bashrc src/b; echo x >> src/b; rm src/b",
    "its modes": "chmod -R a+rwx $A/.ai $A/.ssh; chmod 777 $A",
    "its times": "touch -d 2001-01-01 $A/.bashrc $A/.ssh/id",
    "moving the project": "mv $PWD $A/elsewhere; mkdir -p $A/new",
}


@pytest.mark.parametrize("way", ELSEWHERE)
def test_nothing_in_the_home_of_the_user_is_changed(prepared: Workspace, way: str) -> None:
    before = state(prepared.home)

    shell(prepared, ELSEWHERE[way])

    assert state(prepared.home) == before


def test_the_shared_folder_for_temporary_files_is_not_written(prepared: Workspace) -> None:
    with TemporaryDirectory(prefix="t", dir="/tmp") as other:
        (Path(other) / "a").write_text("a", "utf-8")
        shell(prepared, f"echo x > {other}/a; echo x > {other}/b; rm -r {other}; touch /tmp/rye-x")

        assert state(Path(other))[0][3] == b"a"
        assert len(list(Path(other).iterdir())) == 1
    assert not Path("/tmp/rye-x").exists()


def test_caches_and_the_program_of_rye_are_not_written(prepared: Workspace) -> None:
    cache = prepared.project_path / "cache"
    (cache / "rye" / "programs").mkdir(parents=True)
    prepared.env |= {"XDG_CACHE_HOME": str(cache)}

    shell(prepared, "touch cache/rye/programs/x; mv cache/rye cache/other; touch cache/beside")

    assert sorted(one.name for one in cache.rglob("*")) == ["beside", "programs", "rye"]


def test_an_env_file_of_user_space_is_not_read(prepared: Workspace) -> None:
    found = output(shell(prepared, "cat $A/.ai/.env; cp $A/.ai/.env src/env"))

    assert "secret" not in found
    assert not (prepared.project_path / "src/env").exists()


TERMINALS = """
import glob, os, pty
for path in ["/dev/tty", "/dev/ptmx", "/dev/pts/ptmx", "/dev/console", {own!r},
             *glob.glob("/dev/pts/[0-9]*"), *glob.glob("/dev/tty[0-9]*"), *glob.glob("/dev/vcs*"),
             *glob.glob("/dev/input/*")]:
    for how in (os.O_RDONLY, os.O_WRONLY, os.O_RDWR, os.O_PATH):
        try:
            descriptor = os.open(path, how | os.O_NOCTTY)
        except OSError:
            continue
        if how != os.O_PATH:
            print("opened", path)
        else:
            try:
                os.open(f"/proc/self/fd/{{descriptor}}", os.O_RDWR | os.O_NOCTTY)
                print("opened again", path)
            except OSError:
                pass
"""


def test_no_terminal_is_opened(prepared: Workspace) -> None:
    master, slave = os.openpty()
    try:
        text = TERMINALS.format(own=os.ttyname(slave))
        (prepared.project_path / "src/t.py").write_text(text, "utf-8")

        result = shell(prepared, f"{sys.executable} src/t.py; echo ended")

        assert output(result) == "ended\n"
    finally:
        os.close(master)
        os.close(slave)


def test_devices_without_effect_can_be_used(prepared: Workspace) -> None:
    command = "echo x > /dev/null && head -c 1 /dev/zero /dev/urandom > src/z && cat < /dev/null"

    assert shell(prepared, command).success
    assert not shell(prepared, "cat /dev/kmsg").success


def test_the_environment_of_other_processes_is_not_read(prepared: Workspace) -> None:
    other = subprocess.Popen(["sleep", "60"], env={"TOKEN": "secret-of-another"})
    try:
        found = output(shell(prepared, f"cat /proc/{other.pid}/environ /proc/{other.pid}/mem"))
        assert "secret-of-another" not in found
        assert "ermission denied" in found
    finally:
        other.kill()
        other.wait()


@pytest.fixture
def agent_socket(prepared: Workspace) -> Iterator[Path]:
    """A socket of the session of the user, like that of ssh-agent."""
    with TemporaryDirectory(prefix="t", dir="/tmp") as folder:
        path = Path(folder) / "agent"
        with socket.socket(socket.AF_UNIX) as listening:
            listening.bind(str(path))
            listening.listen()
            yield path


CONNECT = (
    "import socket, sys; s = socket.socket(socket.AF_UNIX); s.connect({!r}); print('connected')"
)


def connect(path: str) -> str:
    return f'{sys.executable} -c "{CONNECT.format(path)}"'


def test_no_socket_of_the_session_is_connected_to(prepared: Workspace, agent_socket: Path) -> None:
    prepared.env |= {"SSH_AUTH_SOCK": str(agent_socket), "DISPLAY": ":0"}

    found = output(
        shell(prepared, f"{connect(str(agent_socket))}; echo {{$SSH_AUTH_SOCK$DISPLAY}}")
    )

    assert "connected" not in found
    assert "{}" in found


def test_a_socket_that_the_policy_names_is_connected_to(
    prepared: Workspace, agent_socket: Path
) -> None:
    policy(prepared, f"agents: {{sockets: [{agent_socket}]}}")
    prepared.env |= {"SSH_AUTH_SOCK": str(agent_socket)}

    found = output(shell(prepared, f"{connect(str(agent_socket))}; echo $SSH_AUTH_SOCK"))

    assert found == f"connected\n{agent_socket}\n"


def test_a_socket_of_its_own_is_connected_to(prepared: Workspace) -> None:
    (prepared.project_path / "src/s.py").write_text(
        "import os, socket, tempfile\n"
        "for folder in ('.', 'src', tempfile.gettempdir()):\n"
        "    a, b = socket.socket(socket.AF_UNIX), socket.socket(socket.AF_UNIX)\n"
        "    a.bind(f'{folder}/s'); a.listen(); b.connect(f'{folder}/s'); print('connected')\n",
        "utf-8",
    )

    assert output(shell(prepared, f"{sys.executable} src/s.py")) == "connected\n" * 3


WORK = {
    "a new file": "echo x > new && test -e new",
    "a new folder with files": "mkdir -p a/b && echo x > a/b/c && echo y >> a/b/c && cat a/b/c",
    "moving": "echo x > a && mv a b && mkdir d && mv b d/b && mv d e && mv e/b . && test -e b",
    "removing": "echo x > a && rm a && mkdir d && rmdir d && mkdir -p d/e && rm -r d",
    "links": "echo x > a && ln -s a l && ln a h && cat l h && rm l h",
    "modes": "echo x > a && chmod 750 a && chmod u+x src/a.txt && touch -d 2001-01-01 a src/a.txt",
    "keeping modes and times": "cp -p src/a.txt b && cp -a src c && mv c d",
    "a pipe with a name": "mkfifo p && (echo x > p & cat p) && rm p",
    "its temporary folder": "f=$(mktemp) && echo x > $f && d=$(mktemp -d) && echo x > $d/x",
    "a document in the shell": "cat <<< x > a && cat > b <<END\nx\nEND\ncat a b",
    "editing in place": "echo x > a && sed -i s/x/y/ a && grep -q y a",
    "an archive": "tar cf a.tar src && mkdir out && tar xf a.tar -C out && cat out/src/a.txt",
    "reading the home": "cat $A/.bashrc",
    "a lock of its own": "flock lock true && flock -w 5 src flock -n src/a.txt true && rm lock",
    "a copy of blocks": "cp --reflink=auto src/a.txt b && cmp src/a.txt b && cp --sparse=auto b c",
    "a local repository": "git init -q r && cd r && echo x > f && git add f && git -c user.name=a"
    " -c user.email=a@b commit -qm x && git log --oneline && git checkout -q -b two",
}


@pytest.mark.parametrize("what", WORK)
def test_work_in_the_project_goes_on_as_before(prepared: Workspace, what: str) -> None:
    result = shell(prepared, WORK[what])

    assert result.success, (result.error, result.data)
    assert "denied" not in output(result)


# --- the system -----------------------------------------------------------------------------------

CALLS = """
import ctypes, os, signal, sys
libc = ctypes.CDLL(None, use_errno=True)
def tell(number, *words):
    ok = libc.syscall(number, *map(ctypes.c_long, words)) >= 0
    print("done" if ok else os.strerror(ctypes.get_errno()))
"""


def calling(workspace: Workspace, code: str) -> list[str]:
    """What Python code of an agent prints, with ``tell`` to call the system."""
    (workspace.project_path / "src/calls.py").write_text(CALLS + code, "utf-8")
    return output(shell(workspace, f"{sys.executable} src/calls.py")).splitlines()


@pytest.mark.parametrize("name", [one for one in HARDENED if one not in TRACING])
def test_calls_that_reach_the_kernel_or_shared_memory_are_refused(
    prepared: Workspace, name: str
) -> None:
    found = calling(prepared, f"tell({number_of(name)}, 0, 0, 0, 0, 0)")

    assert found == ["Operation not permitted"]


def test_a_process_of_its_own_is_traced_and_no_other(prepared: Workspace) -> None:
    trace = number_of("ptrace")
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as other:
        found = calling(
            prepared,
            "import subprocess\n"
            "own = subprocess.Popen(['/bin/sleep', '60'])\n"
            f"tell({trace}, 16, own.pid, 0, 0)\n"
            f"tell({trace}, 16, {other.pid}, 0, 0)\n"
            "own.kill()",
        )
        other.communicate(b"\n")

    assert found == ["done", "Operation not permitted"]


@pytest.mark.skipif(os.getuid() != 0, reason="others have no capabilities")
def test_root_keeps_no_capabilities_but_those_for_files_and_processes(prepared: Workspace) -> None:
    found = output(shell(prepared, "grep -E 'Cap(Inh|Prm|Eff)' /proc/self/status")).split()

    ordinary = sum(1 << number for number in (0, 1, 3, 4, 5, 6, 7))
    assert all(int(word, 16) & ~ordinary == 0 for word in found[1::2])
    # To set what is set already changes nothing.
    tick = "b = ctypes.create_string_buffer(208); libc.adjtimex(b); b[0:4] = b'\\0\\x40\\0\\0'\n"
    assert calling(prepared, f"{tick}print(libc.adjtimex(b))") == ["-1"]


def test_files_of_root_are_given_to_others_as_before(prepared: Workspace) -> None:
    user = 1234 if os.getuid() == 0 else os.getuid()

    result = shell(prepared, f"echo x > new && chown {user} new && chmod 4755 new && rm new")

    assert result.success, result.data


def test_limits_of_a_process_that_is_not_there_are_not_set(prepared: Workspace) -> None:
    with subprocess.Popen(["/bin/true"]) as ended:
        pass

    found = calling(
        prepared,
        "limits = (ctypes.c_uint64 * 2)(77, 77)\n"
        f"tell({number_of('prlimit64')}, {ended.pid}, 7, ctypes.addressof(limits), 0)\n"
        f"tell({number_of('setpriority')}, 0, {ended.pid}, 5)\n"
        f"tell({number_of('sched_setaffinity')}, {ended.pid}, 8, ctypes.addressof(limits))\n"
        f"tell({number_of('pidfd_open')}, {ended.pid}, 0)",
    )

    assert found == ["No such process"] * 4


def test_a_process_of_its_own_is_held_until_it_is_waited_for(prepared: Workspace) -> None:
    found = calling(
        prepared,
        "import resource, select, subprocess\n"
        "own = subprocess.Popen(['/bin/cat'], stdin=subprocess.PIPE)\n"
        "resource.prlimit(own.pid, resource.RLIMIT_CORE, (0, 0))\n"
        "held = os.pidfd_open(own.pid)\n"
        "print(os.get_inheritable(held))\n"
        "own.stdin.close()\n"
        "select.select([held], [], [])\n"
        "os.close(os.pidfd_open(own.pid))\n"
        "print(own.wait())",
    )

    assert found == ["False", "0"]


def test_no_file_of_the_home_is_changed_or_held_by_a_descriptor_that_reads(
    prepared: Workspace,
) -> None:
    file = prepared.home / ".bashrc"
    before = file.stat()

    found = calling(
        prepared,
        "import fcntl, os\n"
        f"file = os.open({str(file)!r}, os.O_RDONLY)\n"
        "version = ctypes.create_string_buffer(8)\n"
        f"tell({number_of('ioctl')}, file, 0x40086604, ctypes.addressof(version))\n"
        f"tell({number_of('fcntl')}, file, 1024, 0)\n"
        f"tell({number_of('fcntl')}, file, 1026, 1)\n"
        f"tell({number_of('fcntl')}, file, 8, os.getppid())",
    )

    assert found[:3] == ["Operation not permitted"] * 3
    assert found[3] == "done"  # its own shell
    assert file.stat().st_ctime_ns == before.st_ctime_ns


def test_no_lock_of_user_space_is_held(prepared: Workspace) -> None:
    prepared.rye().receipts.log.append({"item": "tool:a"}, [])
    locks = list(prepared.user.space.ai.rglob("*.lock"))

    found = calling(
        prepared,
        "import fcntl\n"
        f"for path in {[*map(str, locks)]}:\n"
        "    try:\n"
        "        with open(path) as file: fcntl.flock(file, fcntl.LOCK_SH)\n"
        "        print('held', path)\n"
        "    except PermissionError: print('refused')",
    )

    assert any(path.name == "receipts.lock" for path in locks)
    assert set(found) == {"refused"}


def test_no_lock_of_the_project_is_held(prepared: Workspace) -> None:
    lock = prepared.project.space.lock("sign")
    lock.parent.mkdir(parents=True, exist_ok=True)
    lock.touch()

    found = calling(
        prepared,
        f"held = os.open({str(lock)!r}, os.O_RDONLY)\n"
        f"for how in (1, 2, 5, 6): tell({number_of('flock')}, held, how)\n"
        "own = os.open('src/lock', os.O_CREAT | os.O_RDWR)\n"
        f"tell({number_of('flock')}, own, 2)",
    )

    assert found == ["Operation not supported"] * 4 + ["done"]


# --- programs on the path -------------------------------------------------------------------------

USERS_TOOL = '''"""Says who runs it"""
__version__ = "1.0.0"
__tool_type__ = "python"
__executor_id__ = "rye/core/runtimes/python/function"
__category__ = "mine"
__tool_description__ = "says who runs it"
import shutil
def execute(params, project_path):
    return [shutil.which(name) or "" for name in ("python3", "planted")]
'''


@pytest.fixture
def planted(prepared: Workspace, tmp_path: Path) -> Path:
    """What programs of an agent wrote, in folders of projects that are on the user's PATH."""
    mark = tmp_path / "mark"
    other = tmp_path / "other"
    (other / ".ai").mkdir(parents=True)
    folders = [prepared.project_path / ".venv/bin", other / "node_modules/.bin"]
    for folder in folders:
        folder.mkdir(parents=True)
        for name in ("bash", "python3", "python", "node", "git", "planted"):
            real = {"python": sys.executable, "python3": sys.executable}.get(name, f"/bin/{name}")
            text = f'#!/bin/sh\necho {name} >> {mark}\nexec {real} "$@"\n'
            (folder / name).write_text(text, "utf-8")
            (folder / name).chmod(0o755)
    prepared.env["PATH"] = ":".join([*map(str, folders), prepared.env["PATH"]])
    return mark


@pytest.mark.parametrize("space", ["user", "project"])
def test_no_program_of_a_project_on_the_path_runs_a_tool(
    prepared: Workspace, planted: Path, space: str
) -> None:
    (prepared.user if space == "user" else prepared.project).signed("tools/mine/who.py", USERS_TOOL)

    result = prepared.rye().executor.execute(ExecutionRequest(item_id="mine/who"))

    assert result.success, result.error
    assert not planted.exists()
    assert result.data[1] == ""
    notes = " ".join(result.metadata["warnings"])
    assert ".venv/bin" in notes
    assert "node_modules/.bin: left out of the PATH, as it lies in a project" in notes


def test_no_program_of_a_project_on_the_path_runs_a_tool_of_the_bundle(
    prepared: Workspace, planted: Path
) -> None:
    request = ExecutionRequest(item_id="rye/bash/bash", parameters={"command": "git --version"})

    result = prepared.rye().executor.execute(request)

    assert output(result).startswith("git version")
    assert not planted.exists()


def test_a_shell_of_an_agent_has_the_programs_of_its_project(
    prepared: Workspace, planted: Path
) -> None:
    result = shell(prepared, "command -v planted python3")

    folder = prepared.project_path / ".venv/bin"
    assert output(result).split() == [f"{folder}/planted", f"{folder}/python3"]
    assert not planted.exists()
    assert not any("PATH" in one for one in result.metadata.get("warnings", ()))


def test_a_link_in_another_project_gives_no_folder_of_the_path(
    prepared: Workspace, planted: Path, tmp_path: Path
) -> None:
    cache, link = prepared.home / ".cache/pip/bin", tmp_path / "other/tools"
    cache.mkdir(parents=True)
    link.symlink_to(cache)  # where its agent may write, and which is no project
    (tmp_path / "linked").symlink_to(link)
    prepared.env["PATH"] = f"{tmp_path}/linked:{link}:{os.environ['PATH']}"
    request = ExecutionRequest(item_id="rye/bash/bash", parameters={"command": "echo $PATH"})

    found = output(prepared.rye().executor.execute(request)).strip().split(":")

    assert not {f"{tmp_path}/linked", str(link)} & set(found)


def test_a_project_without_items_is_known_once_an_agent_worked_there(
    prepared: Workspace, planted: Path, tmp_path: Path
) -> None:
    request = ExecutionRequest(item_id="rye/bash/bash", parameters={"command": "echo $PATH"})
    other = tmp_path / "other"
    (other / ".ai").rename(other / "no-items")
    folder = f"{other}/node_modules/.bin"
    before = prepared.rye().executor.execute(request)
    there = replace(prepared.context(confines=True).spaces, project=Space(PROJECT, other))
    in_other = ExecutionRequest(item_id="rye/bash/bash", parameters={"command": "true"})
    prepared.rye(confines=True, spaces=there).executor.execute(in_other)
    after = prepared.rye().executor.execute(request)

    assert folder in output(before)
    assert folder not in output(after)


@pytest.mark.parametrize("space", ["user", "project"])
def test_a_link_on_the_path_that_leads_into_a_project_runs_no_tool(
    prepared: Workspace, planted: Path, space: str
) -> None:
    (prepared.user if space == "user" else prepared.project).signed("tools/mine/who.py", USERS_TOOL)
    inside, outside = prepared.project_path / ".venv/bin", prepared.home / "linked"
    between = prepared.project_path / "between"
    outside.mkdir()
    between.symlink_to("/bin/bash")  # as it is before an agent replaces it
    for name in ("python3", "python", "node"):
        (outside / name).symlink_to(inside / name)
    (outside / "bash").symlink_to(between)
    prepared.env["PATH"] = f"{outside}:{os.environ['PATH']}"

    own = prepared.rye().executor.execute(ExecutionRequest(item_id="mine/who"))
    request = ExecutionRequest(item_id="rye/bash/bash", parameters={"command": "echo $BASH"})
    bundled = prepared.rye().executor.execute(request)

    assert own.success, own.error
    assert not planted.exists()
    assert output(bundled).strip() not in {str(outside / "bash"), str(between)}
    notes = " ".join(own.metadata["warnings"] + bundled.metadata["warnings"])
    if space == "user":
        leads = f"{outside}/python3: left out, as it is a link to {inside}/python3 in a project"
        assert leads in notes
    else:  # its own project's, which it could use if it were approved
        assert f"{outside}/python3: not used, as you have not approved it" in notes
    assert f"{outside}/bash: left out, as it is a link to {between} in a project" in notes


FROBNICATE = """\
#!/bin/bash
# version: 1.0.0
# tool_type: bash
# executor_id: rye/core/runtimes/bash/bash
# category: mine
# name: frob
# description: starts a program by its name
frobnicate
useful
"""


def with_linked_programs(prepared: Workspace, folder: Path) -> Path:
    """A folder of the PATH with a program that is a link to ``folder``, and with another one."""
    folder.mkdir(parents=True)
    bin_folder = prepared.home / "linked"
    bin_folder.mkdir()
    for path in (folder / "frobnicate", prepared.home / "useful"):
        path.write_text(f"#!/bin/sh\necho {path.name} of the user\n", "utf-8")
        path.chmod(0o755)
        (bin_folder / path.name).symlink_to(path)
    prepared.env["PATH"] = f"{bin_folder}:{os.environ['PATH']}"
    return bin_folder


@pytest.mark.parametrize("where", ["project", "policy"])
@pytest.mark.parametrize("space", ["user", "project"])
def test_a_program_that_a_tool_starts_by_its_name_is_no_link_to_where_agents_write(
    prepared: Workspace, space: str, where: str
) -> None:
    folder = (prepared.project_path if where == "project" else prepared.home / "work") / "tools"
    bin_folder = with_linked_programs(prepared, folder)
    if where == "policy":
        policy(prepared, 'agents: {write: ["~/work"]}')
    (prepared.user if space == "user" else prepared.project).signed(
        "tools/mine/frob.sh", FROBNICATE
    )

    shell(prepared, f"echo 'echo of the agent' >> {folder}/frobnicate")
    written = shell(prepared, "frobnicate")
    own = prepared.rye().executor.execute(ExecutionRequest(item_id="mine/frob"))

    assert "of the agent" in output(written)  # it runs its own code, with its own rights
    assert isinstance(own.data, dict)
    assert own.data["stdout"] == "useful of the user\n"
    notes = [one for one in own.metadata["warnings"] if f"{bin_folder}/frobnicate: " in one]
    assert len(notes) == 1
    assert not written.metadata.get("warnings")


def test_a_link_to_a_program_of_the_project_counts_once_its_user_approved_it(
    prepared: Workspace,
) -> None:
    with_linked_programs(prepared, prepared.project_path / "bin")
    prepared.project.signed("tools/mine/frob.sh", FROBNICATE)
    prepared.approve()

    own = prepared.rye().executor.execute(ExecutionRequest(item_id="mine/frob"))

    assert output(own).split("\n")[:2] == ["frobnicate of the user", "useful of the user"]


def test_many_links_of_a_folder_into_projects_are_noted_in_few_lines(prepared: Workspace) -> None:
    bin_folder = with_linked_programs(prepared, prepared.project_path / "tools")
    for number in range(9):
        (bin_folder / f"a{number}").symlink_to(prepared.project_path / "tools/frobnicate")
    prepared.user.signed("tools/mine/frob.sh", FROBNICATE)

    own = prepared.rye().executor.execute(ExecutionRequest(item_id="mine/frob"))

    notes = [one for one in own.metadata["warnings"] if str(bin_folder) in one]
    assert [one.split(": ")[0] for one in notes] == [
        *(f"{bin_folder}/a{number}" for number in range(5)),
        str(bin_folder),
    ]
    assert "5 further entries" in notes[-1]


def test_a_tool_that_reads_little_starts_the_other_programs_of_such_a_folder(
    prepared: Workspace,
) -> None:
    bin_folder = with_linked_programs(prepared, prepared.project_path / "tools")
    (bin_folder / "plain").write_text("#!/bin/sh\necho plain\n", "utf-8")
    (bin_folder / "plain").chmod(0o755)
    limited = FROBNICATE.replace("frobnicate\nuseful", "plain").replace(
        "# description", '# sandbox: {"read": [], "write": [], "programs": "any"}\n# description'
    )
    prepared.user.signed("tools/mine/frob.sh", limited)

    own = prepared.rye().executor.execute(ExecutionRequest(item_id="mine/frob"))

    assert output(own) == "plain\n"


CODE_VARIABLES = {
    "PYTHONPATH": ("/usr/lib/x:{lib}", "/usr/lib/x"),
    "NODE_PATH": ("{lib}", ""),
    "LD_LIBRARY_PATH": ("{lib}:/opt/lib", "/opt/lib"),
    "BASH_ENV": ("{lib}/env.sh", ""),
    "PYTHONSTARTUP": ("start.py", ""),
    "NODE_OPTIONS": ("--max-old-space-size=99 --require {lib}/x.js", ""),
    "JAVA_TOOL_OPTIONS": ("-javaagent:{lib}/a.jar=x", ""),
    "PERL5OPT": ("-I{lib} -Mx", ""),
    "PERLLIB": ("/opt/perl", "/opt/perl"),
    "RUBYLIB": ("{lib}/../other:/opt/ruby", "/opt/ruby"),
    "LUA_PATH": ("{lib}/?.lua;;", ""),
    "RUBYOPT": ("-r./x", ""),
    "_JAVA_OPTIONS": ("-Duser.timezone=Europe/Berlin", "-Duser.timezone=Europe/Berlin"),
    "JDK_JAVA_OPTIONS": ("-Djava.library.path=/opt/a", "-Djava.library.path=/opt/a"),
    "ENV": ("production", "production"),
    "LD_BIND_NOW": ("1", "1"),
    "PERL5LIB": ("lib", ""),
    "GEM_PATH": ("/opt/gems:", "/opt/gems"),
    "LD_RUN_PATH": ("/opt/a;lib:", "/opt/a"),
    "OPENSSL_CONF": ("openssl.cnf", ""),
    "CLASSPATH": ("{lib}/a.jar:/opt/b.jar", "/opt/b.jar"),
    "PAGER": ("./less", ""),
    "GIT_PAGER": ("{lib}/less -R", ""),
    "EDITOR": ("lib/vi", ""),
    "VISUAL": ("code --wait", "code --wait"),
    "GIT_EDITOR": ("sh ./vi", ""),
}


@pytest.mark.parametrize("name", [*CODE_VARIABLES])
def test_variables_of_the_user_load_no_code_of_a_project(prepared: Workspace, name: str) -> None:
    library = prepared.project_path / "lib"
    library.mkdir()
    given, kept = (one.format(lib=library) for one in CODE_VARIABLES[name])
    prepared.env[name] = given
    asked = ExecutionRequest(item_id="rye/bash/bash", parameters={"command": f"echo ${name}"})

    own = prepared.rye().executor.execute(asked)
    agents = shell(prepared, f"echo ${name}")

    assert output(own).strip() == kept
    assert output(agents).strip() == given  # held to the project, whatever it loads
    notes = [one for one in own.metadata.get("warnings", ()) if one.startswith(f"{name}: ")]
    assert len(notes) == (given != kept)
    assert prepared.rye().context.own_environment.get(name, "") == kept


PERL_TOOL = FROBNICATE.replace("frobnicate\nuseful", "perl -e 'print 1'")


@pytest.mark.skipif(which("perl") is None, reason="needs perl")
@pytest.mark.parametrize(
    "variables", [{"PERL5OPT": "-I. -Mevil"}, {"PERL5LIB": ".", "PERL5OPT": "-Mevil"}]
)
def test_perl_loads_no_module_of_the_project_that_a_tool_of_user_space_runs_in(
    prepared: Workspace, variables: dict[str, str]
) -> None:
    started = prepared.home / "started"
    module = f"open(F, '>{started}'); close(F); 1;\n"
    (prepared.project_path / "evil.pm").write_text(module, "utf-8")
    prepared.user.signed("tools/mine/frob.sh", PERL_TOOL)
    prepared.env |= variables

    own = prepared.rye().executor.execute(ExecutionRequest(item_id="mine/frob"))

    assert not started.exists()
    assert own.metadata["warnings"]


def test_git_starts_no_editor_of_the_project_in_a_tool_of_user_space(prepared: Workspace) -> None:
    started = prepared.home / "started"
    editor = prepared.project_path / "vi"
    editor.write_text(f"#!/bin/sh\ntouch {started}\n", "utf-8")
    editor.chmod(0o755)
    commit = "git init -q . && git -c user.name=x -c user.email=x commit -q --allow-empty"
    prepared.user.signed("tools/mine/frob.sh", FROBNICATE.replace("frobnicate\nuseful", commit))
    for name in ("GIT_EDITOR", "VISUAL", "EDITOR"):
        prepared.env[name] = "./vi"

    prepared.rye().executor.execute(ExecutionRequest(item_id="mine/frob"))

    assert (prepared.project_path / ".git").is_dir()
    assert not started.exists()


def test_what_loads_code_is_never_taken_from_a_dotenv_file() -> None:
    patterns = NEVER_FROM_DOTENV

    left = {one for one in CODE_NAMES if not any(fnmatchcase(one, each) for each in patterns)}

    assert left == set()


# --- policy ---------------------------------------------------------------------------------------


def policy(workspace: Workspace, text: str) -> None:
    text = f'version: "1.0.0"\ncategory: sandbox\n{text}\n'
    workspace.user.write("config/sandbox/policy.yaml", text)


def test_the_policy_gives_folders_and_makes_them(prepared: Workspace) -> None:
    policy(prepared, 'agents: {write: ["~/data", "/tmp"]}')

    result = shell(
        prepared, "echo x > $A/data/x && cat $A/data/x && f=/tmp/$$ && touch $f && rm $f"
    )

    assert result.success, result.error
    assert (prepared.home / "data/x").read_text("utf-8") == "x\n"


def test_the_refusal_names_the_line_of_the_policy(prepared: Workspace) -> None:
    (prepared.home / ".cache/foo").mkdir(parents=True)

    envelope = prepared.rye(confines=True).executor.execute(
        ExecutionRequest(
            item_id="rye/bash/bash", parameters={"command": "echo x > $A/.cache/foo/x; exit 1"}
        )
    )

    (refused,) = envelope.metadata["refused"]
    assert refused["target"] == str(prepared.home / ".cache/foo/x")
    assert 'agents: {write: ["~/.cache/foo"]}' in refused["policy"]


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("~", "has your home folder in it"),
        ("/", "has your home folder in it"),
        ("~/bin", "programs on your PATH"),
        ("~/.cargo/bin/x", "programs on your PATH"),
        ("~/.ai", "belongs to Rye"),
        ("~/.ai/state/cache", "belongs to Rye"),
        ("~/.cache/rye/programs", "belongs to Rye"),
        ("~/.local/bin", "programs on your PATH"),
        ("/usr/bin", "programs on your PATH"),
        ("~/.bashrc", "read by your shells"),
        ("~/.config/git", "read by your shells"),
        ("/proc/1", "belongs to the system"),
        ("/etc", "belongs to the system"),
    ],
)
def test_a_policy_that_gives_more_than_a_place_to_write_to_is_refused(
    prepared: Workspace, path: str, expected: str
) -> None:
    policy(prepared, f'agents: {{write: ["{path}"]}}')

    result = shell(prepared, "true")

    assert isinstance(result.failure, SpecError)
    assert expected in str(result.failure)


REFUSED = {
    "the mode of the home": ("chmod 700 $A", "write", "has your home folder in it"),
    "a process": ("cat /proc/1/maps", "read", "belongs to the system"),
    "a startup file": ("touch $A/.bashrc", "write", "read by your shells"),
    "a new startup file": ("touch $A/.zshenv", "write", "read by your shells"),
    "a folder on the PATH": ("touch /usr/bin/zz", "write", "programs on your PATH"),
    "a folder of programs": ("mkdir -p $A/.local/bin", "write", "programs on your PATH"),
}


@pytest.mark.skipif(os.geteuid() != 0, reason="others are refused by modes before")
@pytest.mark.parametrize(("command", "what", "why"), REFUSED.values(), ids=REFUSED)
def test_no_hint_names_what_no_policy_gives(
    prepared: Workspace, command: str, what: str, why: str
) -> None:
    (prepared.home / ".local").mkdir(exist_ok=True)

    (refused,) = shell(prepared, f"{command}; exit 1").metadata["refused"]

    assert refused["what"] == what
    assert refused["policy"].startswith("agents do not get this: ")
    assert why in refused["policy"]
    assert "agents: {" not in refused["policy"]


@pytest.mark.parametrize(
    ("command", "line"),
    [
        ("mkdir $A/.cache/foo", '["~/.cache/foo"]'),
        ("echo x > $A/notes/a", '["~/notes"]'),
        (
            "printf 'npm error path %s\\nnpm error EACCES\\n' $A/.npm/_npx/a >&2; false",
            "~/.npm/_npx",
        ),
    ],
)
def test_a_hint_gives_the_folder_of_one_program(
    prepared: Workspace, command: str, line: str
) -> None:
    for name in (".cache", "notes", ".npm/_npx"):
        (prepared.home / name).mkdir(parents=True, exist_ok=True)

    refused = shell(prepared, f"{command}; exit 1").metadata["refused"]

    assert line in refused[0]["policy"]


def test_a_path_within_a_sentence_is_named(prepared: Workspace) -> None:
    refused = shell(prepared, "git config --global user.name x").metadata["refused"]

    assert [one["target"] for one in refused] == [f"{prepared.home}/.config/git/config"]
    assert refused[0]["policy"].startswith("agents do not get this: ")


def test_a_refused_semaphore_names_shared_memory(prepared: Workspace) -> None:
    lock = "/usr/bin/env python3 -c 'import multiprocessing as m; m.Lock()'"

    with TemporaryDirectory(dir="/var/tmp") as home:  # the other one may lie in /dev/shm
        prepared.env |= {"HOME": home}
        (refused,) = shell(prepared, lock).metadata["refused"]

    assert refused["policy"] == 'your policy allows it with: agents: {write: ["/dev/shm"]}'


def test_refused_shared_memory_is_named_once_and_as_the_folder_it_is_in(
    prepared: Workspace,
) -> None:
    made = "from multiprocessing import shared_memory as s; s.SharedMemory(create=True, size=9)"

    with TemporaryDirectory(dir="/var/tmp") as home:
        prepared.env |= {"HOME": home}
        refused = shell(prepared, f"/usr/bin/env python3 -c '{made}'").metadata["refused"]

    assert [one["target"] for one in refused] == ["/dev/shm"]
    assert refused[0]["policy"].endswith('agents: {write: ["/dev/shm"]}')


def test_a_long_file_with_a_second_name_is_refused_with_the_line_of_the_policy(
    prepared: Workspace,
) -> None:
    long = prepared.project_path / "src/long"
    with long.open("wb") as file:
        file.truncate(MAX_COPIED + 1)
    (prepared.home / "second").hardlink_to(long)

    before = shell(prepared, "echo x >> src/long; exit 1")
    (refused,) = before.metadata["refused"]
    line = refused["policy"].partition("your policy allows it with: ")[2]
    policy(prepared, line.replace("{project}", str(prepared.project_path)))
    after = shell(prepared, "echo x >> src/long")

    assert "has a second name (hard link)" in refused["policy"]
    assert after.success, after.error
    assert (prepared.home / "second").stat().st_size == MAX_COPIED + 3


def test_a_file_of_a_folder_that_nothing_gives_is_named_by_itself(prepared: Workspace) -> None:
    (refused,) = shell(prepared, "mkdir $A/newdir; exit 1").metadata["refused"]

    assert refused["policy"].endswith('agents: {write: ["~/newdir"]}')


def test_startup_files_below_a_folder_that_the_policy_gives_are_kept(prepared: Workspace) -> None:
    policy(prepared, 'agents: {write: ["~/.config"]}')

    shell(prepared, "echo x > $A/.config/git/config; mkdir $A/.config/fish; echo x > $A/.config/c")

    assert (prepared.home / ".config/git/config").read_text("utf-8") == "mine"
    assert not (prepared.home / ".config/fish").exists()
    assert (prepared.home / ".config/c").is_file()


def test_programs_below_a_folder_that_the_policy_gives_are_kept(prepared: Workspace) -> None:
    policy(prepared, 'agents: {write: ["~/.cargo"]}')

    shell(
        prepared, "echo x > $A/.cargo/bin/cargo; mv $A/.cargo/bin $A/.cargo/b; echo x > $A/.cargo/c"
    )

    assert (prepared.home / ".cargo/bin/cargo").read_text("utf-8") == "mine"
    assert (prepared.home / ".cargo/c").is_file()


def test_without_caches_none_of_them_is_written(prepared: Workspace) -> None:
    (prepared.home / ".cache/pip").mkdir(parents=True, exist_ok=True)
    assert shell(prepared, "touch $A/.cache/pip/a").success

    policy(prepared, "agents: {caches: false}")

    assert not shell(prepared, "touch $A/.cache/pip/b").success


def test_the_home_folder_as_a_project_is_not_written(workspace: Workspace) -> None:
    (workspace.home / ".bashrc").write_text("mine", "utf-8")
    workspace.env |= {"HOME": str(workspace.project_path)}

    assert not shell(workspace, "echo x > new").success
    assert not (workspace.project_path / "new").exists()


@pytest.mark.parametrize("step", ["declared", "anything"])
def test_a_graph_of_a_person_writes_no_more(prepared: Workspace, step: str) -> None:
    command = "echo x >> $A/.bashrc; echo x > .ai/tools/mine/x.yaml; true"
    prepared.project.signed(
        "tools/mine/graph.yaml",
        'version: "1.0.0"\ntool_type: graph\nexecutor_id: rye/core/runtimes/state-graph/runtime\n'
        "category: mine\ndescription: a graph\nconfig:\n  start: one\n  nodes:\n    one:\n"
        f"      action: {{primary: execute, item_type: tool, item_id: mine/{step}, params: {{}}}}\n"
        "      next: end\n    end: {type: return}\n",
    )
    block = '\nsandbox: {read: any, write: ["~", "{project}"]}' if step == "declared" else ""
    prepared.project.sign(
        prepared.project.yaml_tool(f"mine/{step}", f'config: {{command: "{command}"}}{block}\n')
    )
    before = state(prepared.home)

    prepared.run("mine/graph")

    assert state(prepared.home) == before


def test_code_in_a_folder_that_the_policy_gives_agents_is_left_out(workspace: Workspace) -> None:
    folder = workspace.home / "shared"
    folder.joinpath("lib").mkdir(parents=True)
    workspace.env["PYTHONPATH"] = f"{folder}/lib"
    workspace.user.signed(
        "config/sandbox/policy.yaml",
        'version: "1.0.0"\ncategory: sandbox\nagents: {write: ["~/shared"]}\n',
    )
    before = dict(workspace.context().project_code)

    workspace.rye(confines=True).execute(
        "tool:rye/bash/bash", {"command": "touch ~/shared/lib/csv.py"}
    )

    assert folder.joinpath("lib/csv.py").exists()
    assert (before, dict(workspace.context().project_code)) == ({}, {"PYTHONPATH": ""})
