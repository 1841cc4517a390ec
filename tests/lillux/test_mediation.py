"""Changes that the supervisor makes for a confined program: what it gets, and what it does not."""

import errno
import os
import shutil
import socket
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from textwrap import dedent
from threading import Thread

import pytest

from lillux.folder_restrictions import Access, FolderRestrictions
from lillux.mediation.write_rules import WriteRules
from lillux.process import ProcessManager
from lillux.process.model import Command
from lillux.sandbox import Confinement, Mediation, obstacle
from lillux.seccomp import number_of
from tests.support.workspace import ROOT

PYTHON = Path(sys.executable).resolve()
NULL = Path("/dev/null")
PRELUDE = """
import ctypes, os, socket, stat, subprocess, sys, threading
libc = ctypes.CDLL(None, use_errno=True)
def tried(act):
    try:
        print(act())
    except OSError as error:
        print(error.errno)
def call(number, *words):
    words = (ctypes.c_long(w) if isinstance(w, int) else w for w in (number, *words))
    result = libc.syscall(*words)
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result
def write(path, text="x"):
    with open(path, "w") as file:
        file.write(text)
"""
pytestmark = pytest.mark.skipif(
    bool(obstacle(Confinement(mediated=Mediation(()), is_hardened=True))),
    reason="Linux holds it",
)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project with kept files, some others, and a secret beside it."""
    path = tmp_path / "project"
    (path / ".ai/tools").mkdir(parents=True)
    (path / ".ai/tools/t.py").write_text("kept", "utf-8")
    (path / "old").mkdir()
    (path / "old/file").write_text("old", "utf-8")
    (tmp_path / "secret").write_text("secret", "utf-8")
    (tmp_path / "secret").chmod(0o600)
    return path


def confinement(project: Path, *kept: Path) -> Confinement:
    return Confinement(writable=(NULL,), mediated=Mediation((project,), kept or (project / ".ai",)))


def run(code: str, project: Path, wanted: Confinement | None = None) -> Sequence[str]:
    """The lines that a confined Python prints, started in the project."""
    command = Command(
        argv=(str(PYTHON), "-I", "-c", PRELUDE + code),
        env={"PATH": os.defpath},
        cwd=project,
        timeout_s=60,
        confinement=wanted or confinement(project),
    )
    outcome = ProcessManager().run(command)
    assert outcome.exit_code == 0, outcome.stderr.data.decode()
    return outcome.stdout.data.decode().splitlines()


def snapshot(folder: Path) -> dict[str, object]:
    """All that is in a folder, with modes, links and contents."""
    found: dict[str, object] = {}
    for path in sorted(folder.rglob("*")):
        status = path.lstat()
        kind = stat.S_IFMT(status.st_mode)
        content: object = None
        if kind == stat.S_IFREG:
            content = path.read_bytes()
        elif kind == stat.S_IFLNK:
            content = os.readlink(path)  # noqa: PTH115 - the text of it
        modified = status.st_mtime_ns if status.st_mtime < 10**9 else None
        links = status.st_nlink if kind == stat.S_IFREG else None
        name = str(path.relative_to(folder))
        found[name] = kind, stat.S_IMODE(status.st_mode), links, modified, content
    return found


# --- what is given --------------------------------------------------------------------------------


def test_new_entries_are_made_beside_what_is_kept(project: Path) -> None:
    run(
        """
write("new")
os.makedirs("a/b")
write("a/b/c", "deep")
os.rename("a", "moved")
os.symlink("moved", "link")
write("link/through", "link")
os.link("new", "second")
os.unlink("new")
os.truncate("second", 0)
write("old/file", "changed")
os.mkfifo("pipe")
os.rmdir("moved/b") if not os.unlink("moved/b/c") else None
""",
        project,
    )

    assert sorted(os.listdir(project)) == [".ai", "link", "moved", "old", "pipe", "second"]  # noqa: PTH208
    assert (project / "moved/through").read_text(encoding="utf-8") == "link"
    assert (project / "second").read_bytes() == b""
    assert (project / "old/file").read_text(encoding="utf-8") == "changed"


def test_the_umask_and_the_mode_of_the_caller_count(project: Path) -> None:
    lines = run(
        """
for mask in (0, 0o022, 0o077):
    os.umask(mask)
    os.close(os.open(f"f{mask}", os.O_CREAT | os.O_WRONLY, 0o776))
    os.mkdir(f"d{mask}", 0o775)
    os.mkfifo(f"p{mask}", 0o666)
    print(*(oct(stat.S_IMODE(os.stat(f"{kind}{mask}").st_mode)) for kind in "fdp"))
""",
        project,
    )

    assert lines == ["0o776 0o775 0o666", "0o754 0o755 0o644", "0o700 0o700 0o600"]


def test_flags_of_opening_mean_what_they_mean_elsewhere(project: Path) -> None:
    lines = run(
        """
write("a", "one")
with open("a", "a") as file:
    file.write("two")
print(open("a").read())
tried(lambda: os.open("a", os.O_CREAT | os.O_EXCL | os.O_WRONLY))
os.symlink("a", "l")
tried(lambda: os.open("l", os.O_WRONLY | os.O_NOFOLLOW))
tried(lambda: os.open("old", os.O_WRONLY))
tried(lambda: os.open("missing", os.O_WRONLY))
tried(lambda: os.open("a/x", os.O_WRONLY | os.O_CREAT))
os.symlink("loop", "loop")
tried(lambda: os.open("loop", os.O_WRONLY))
fd = os.open("a", os.O_RDWR)
print(os.get_inheritable(fd), os.get_blocking(fd))
os.symlink("made", "dangling")
write("dangling", "through")
print(open("made").read())
""",
        project,
    )

    assert lines == ["onetwo", "17", "40", "21", "2", "20", "40", "False True", "through"]


def test_a_file_without_a_name_gets_one(project: Path) -> None:
    lines = run(
        """
folder = os.open(".", os.O_RDONLY)
fd = os.open(".", os.O_TMPFILE | os.O_RDWR, 0o640)
os.write(fd, b"text")
os.link(f"/proc/self/fd/{fd}", "named", dst_dir_fd=folder, follow_symlinks=True)
os.fchmod(fd, 0o604)
print(open("named").read(), oct(os.stat("named").st_mode))
""",
        project,
    )

    assert lines == ["text 0o100604"]


def test_a_file_starts_as_soon_as_its_writer_has_closed_it(project: Path) -> None:
    code = """
    def started(name):
        descriptor = os.open(name, os.O_WRONLY | os.O_CREAT, 0o700)
        os.write(descriptor, b"#!/bin/sh\\nexit 0\\n")
        os.close(descriptor)
        return os.posix_spawn(name, [name], {})
    for number in range(150):
        child = started(f"program{number}")
        os.waitpid(child, 0)
    print("all started")
    """

    assert run(dedent(code), project) == ["all started"]


def test_an_open_file_is_opened_again_by_its_descriptor(project: Path) -> None:
    run(
        """
write("out", "")
os.dup2(os.open("out", os.O_WRONLY), 1)
for path in ("/dev/stdout", "/proc/self/fd/1", f"/proc/{os.getpid()}/fd/1"):
    with open(path, "a") as file:
        file.write("line,")
""",
        project,
    )

    assert (project / "out").read_text(encoding="utf-8") == "line,line,line,"


def test_a_pipe_without_a_reader_lets_others_go_on(project: Path) -> None:
    lines = run(
        """
os.mkfifo("pipe")
writer = threading.Thread(target=lambda: write("pipe", "through"))
writer.start()
for at in range(20):
    write(f"f{at}")
print(open("pipe").read())
writer.join()
""",
        project,
    )

    assert lines == ["through"]


def test_metadata_changes_where_something_may_be_written(project: Path) -> None:
    lines = run(
        """
os.symlink("old", "link")
os.chmod("old/file", 0o640)
os.utime("old/file", (5, 6))
os.utime("link", (7, 8), follow_symlinks=False)
os.chown("old/file", -1, -1)
os.lchown("link", -1, -1)
fd = os.open("old/file", os.O_RDONLY)
os.fchmod(fd, 0o604)
os.utime(fd, ns=(9, 10))
os.fchown(fd, -1, -1)
os.chmod(".", 0o755)
status = os.stat("old/file")
print(oct(status.st_mode), status.st_mtime_ns, int(os.lstat("link").st_mtime))
fd = os.memfd_create("x")
os.fchmod(fd, 0o600)
""",
        project,
    )

    assert lines == ["0o100604 10 8"]


def test_programs_start_by_vfork_as_before(project: Path) -> None:
    lines = run(
        """
for _ in range(5):
    print(subprocess.run(["/bin/sh", "-c", "echo x > made; cat made"], capture_output=True).stdout)
""",
        project,
    )

    assert lines == ["b'x\\n'"] * 5


@pytest.mark.skipif(not shutil.which("git"), reason="git is not installed")
def test_git_and_tar_work_in_a_new_folder_of_the_project(project: Path) -> None:
    script = """set -e
mkdir src; echo 1 > src/a; ln -s a src/l; chmod 700 src/a; touch -d 2001-01-01 src/a
tar cf t.tar src; mkdir x; tar xf t.tar -C x; cp -a src y
stat -c '%a %Y' x/src/a y/a
git init -q r; cp -p src/a r/; cd r; git add .
git -c user.name=a -c user.email=b commit -qm one
cd ..; git clone -q r s; cat s/a; install -m 640 s/a z; stat -c %a z; rm -rf r s x y
"""
    command = Command(
        argv=("/bin/sh", "-c", script),
        env={"PATH": os.environ["PATH"], "HOME": str(project)},
        cwd=project,
        confinement=confinement(project),
    )

    outcome = ProcessManager().run(command)

    assert outcome.stderr.data.decode() == ""
    assert outcome.stdout.data.decode().split() == [
        *("700", "978307200"),
        *("700", "978307200"),
        "1",
        "640",
    ]


# --- what is not given ----------------------------------------------------------------------------

KEPT_WAYS = {
    "a new file": "write('.ai/x')",
    "its file": "write('.ai/tools/t.py')",
    "appending": "open('.ai/tools/t.py', 'a')",
    "cutting it off": "os.truncate('.ai/tools/t.py', 0)",
    "a folder": "os.mkdir('.ai/d')",
    "removing it": "os.unlink('.ai/tools/t.py')",
    "moving it away": "os.rename('.ai', 'moved')",
    "moving its file": "os.rename('.ai/tools/t.py', 't.py')",
    "moving over it": "write('n'); os.rename('n', '.ai/tools/t.py')",
    "exchanging it": "os.mkdir('n'); call({renameat2}, -100, b'n', -100, b'.ai', 2)",
    "a hard link of it": "os.link('.ai/tools/t.py', 'hard'); write('hard')",
    "a link into it": "os.symlink('.ai/tools', 'l'); write('l/t.py')",
    "a link to it": "os.symlink('.ai/tools/t.py', 'l'); write('l')",
    "an absolute link": "os.symlink(os.path.abspath('.ai/tools/t.py'), 'l'); write('l')",
    "a link that is not there": "os.symlink('.ai/new', 'l'); write('l')",
    "its folder opened": "d = os.open('.ai', os.O_RDONLY); os.open('x', 65, dir_fd=d)",
    "a working directory in it": "os.chdir('.ai/tools'); write('t.py')",
    "the way of /proc": "os.chdir('.ai'); write('/proc/self/cwd/tools/t.py')",
    "dots": "write('old/../.ai/tools/../tools/t.py')",
    "its descriptor again": "fd = os.open('.ai/tools/t.py', 0); write(f'/proc/self/fd/{{fd}}')",
    "a node": "os.mknod('.ai/n')",
    "a file without a name": "fd = os.open('.ai', os.O_TMPFILE | os.O_RDWR)",
    "naming a file in it": "d = os.open('.ai', 0); fd = os.open('.', os.O_TMPFILE | os.O_RDWR);"
    " os.link(f'/proc/self/fd/{{fd}}', 'x', dst_dir_fd=d, follow_symlinks=True)",
    "another case": "os.rename('old', '.AI')",
    "characters that are not seen": "os.mkdir('.a\\u200di')",
    "its mode": "os.chmod('.ai/tools/t.py', 0o777)",
    "its mode by a descriptor": "os.fchmod(os.open('.ai/tools/t.py', os.O_RDONLY), 0o777)",
    "its time": "os.utime('.ai/tools/t.py', (1, 1))",
    "its attributes": "os.setxattr('.ai/tools/t.py', 'user.x', b'1')",
    "a secret": "write('../secret')",
    "the mode of a secret": "os.chmod('../secret', 0o666)",
    "the mode of a secret by a link": "os.symlink('../secret', 'l'); os.chmod('l', 0o666)",
    "the time of a secret": "os.utime('../secret', (1, 1))",
    "the owner of a secret": "os.chown('../secret', os.getuid(), os.getgid())",
    "the attributes of a secret": "os.setxattr('../secret', 'user.x', b'1')",
    "a hard link of a secret": "os.link('../secret', 'h')",
    "a secret moved in": "os.rename('../secret', 's')",
    "the mode of a secret by descriptor": "os.fchmod(os.open('../secret', os.O_RDONLY), 0o666)",
    "the folder above": "os.chmod('..', 0o777)",
    "moving the project": "os.rename('../project', '../other')",
    "its flags": "import fcntl; fcntl.ioctl(os.open('../secret', 0), 0x40086602, b'\\0' * 8)",
    "a filter of its own, then the mode": """
program = (ctypes.c_ushort * 4)(6, 0, 0, 0x7fff)
line = ctypes.create_string_buffer(bytes.fromhex('060000000000ff7f'))
class Prog(ctypes.Structure):
    _fields_ = (('n', ctypes.c_ushort), ('p', ctypes.c_void_p))
prog = Prog(1, ctypes.addressof(line))
call({seccomp}, 1, 0, ctypes.byref(prog))
os.chmod('../secret', 0o666)""",
}


@pytest.mark.parametrize("way", KEPT_WAYS)
def test_nothing_that_is_kept_or_outside_is_changed(project: Path, way: str) -> None:
    code = KEPT_WAYS[way].format(renameat2=number_of("renameat2"), seccomp=number_of("seccomp"))
    kept, secret = snapshot(project / ".ai"), snapshot(project.parent)["secret"]
    body = "\n".join(f"        {line}" for line in code.strip().replace("; ", "\n").splitlines())
    if "class Prog" in code:
        body = "\n".join(f"        {line}" for line in code.strip().splitlines())
    lines = run(
        f"def act():\n    try:\n{body}\n    except OSError as error:\n"
        "        return error.errno\n    return 'done'\nprint(act())",
        project,
    )

    assert snapshot(project / ".ai") == kept
    assert snapshot(project.parent)["secret"] == secret
    assert sorted(os.listdir(project.parent)) == ["project", "secret"]  # noqa: PTH208
    assert (project / ".ai").is_dir()
    assert lines[-1] in {"1", "13", "18"}, lines


ABSENT_WAYS = {
    "the folder": "os.mkdir('sub/.ai')",
    "a link": "os.symlink('../old', 'sub/.ai')",
    "a file": "write('sub/.ai')",
    "a folder moved there": "os.rename('old', 'sub/.ai')",
    "what lies above, moved": "os.rename('sub', 'other')",
    "a link above": "os.rmdir('sub') or os.symlink('old', 'sub')",
}


@pytest.mark.parametrize("way", ABSENT_WAYS)
def test_what_is_kept_is_not_made_where_nothing_is_there_yet(project: Path, way: str) -> None:
    (project / "sub").mkdir()

    lines = run(
        f"tried(lambda: {ABSENT_WAYS[way]})", project, confinement(project, project / "sub/.ai")
    )

    assert lines == ["13"]
    assert list((project / "sub").iterdir()) == []


def test_what_lies_above_a_kept_path_is_made_as_a_folder_alone(project: Path) -> None:
    wanted = confinement(project, project / "sub/.ai")

    lines = run(
        """
os.makedirs("x/.ai")
tried(lambda: os.rename("x", "sub"))
tried(lambda: os.symlink("x", "sub"))
tried(lambda: os.mkdir("sub"))
tried(lambda: os.mkdir("sub/.ai"))
tried(lambda: os.mkdir("sub/other"))
""",
        project,
        wanted,
    )

    assert lines == ["13", "13", "None", "13", "None"]


def test_a_further_confinement_inside_holds_for_every_change(project: Path) -> None:
    (project / "inner").mkdir()
    lines = run(
        f"""
sys.path.insert(0, {str(ROOT)!r})
from pathlib import Path
from lillux.process import ProcessManager
from lillux.process.model import Command
from lillux.sandbox import Confinement
code = '''
import os
def tried(act):
    try:
        print(act())
    except OSError as error:
        print(error.errno)
tried(lambda: open("inner/a", "w").close())
tried(lambda: open("new", "w").close())
tried(lambda: os.mkdir("newdir"))
tried(lambda: os.rename("old", "newer"))
tried(lambda: os.unlink("old/file"))
tried(lambda: os.symlink("a", "b"))
tried(lambda: os.chmod("old/file", 0o777))
tried(lambda: os.truncate("old/file", 0))
'''
inner = Confinement(writable=(Path({str(project / "inner")!r}), Path("/dev/null")))
command = Command(argv=(sys.executable, "-I", "-c", code), env={{}}, confinement=inner)
outcome = ProcessManager().run(command)
print(outcome.stdout.data.decode(), end="")
print(outcome.stderr.data.decode(), end="")
""",
        project,
    )

    assert lines == ["None", "13", "13", "13", "13", "13", "1", "13"]
    assert (project / "old/file").read_text(encoding="utf-8") == "old"


def test_processes_of_others_are_not_changed_and_its_own_are(project: Path) -> None:
    with subprocess.Popen(["/bin/sleep", "60"]) as other:
        try:
            lines = run(
                f"""
import resource
target = {other.pid}
for act in (
    lambda: os.pidfd_open(target),
    lambda: os.sched_setaffinity(target, os.sched_getaffinity(0)),
    lambda: os.setpriority(os.PRIO_PROCESS, target, 5),
    lambda: os.setpriority(os.PRIO_USER, 0, 5),
    lambda: resource.prlimit(target, resource.RLIMIT_CORE, (0, 0)),
    lambda: call({number_of("sched_setscheduler")}, target, 0, ctypes.c_char_p(bytes(4))),
    lambda: call({number_of("ioprio_set")}, 1, target, 0),
    lambda: call({number_of("process_madvise")}, 0, 0, 0, 0, 0),
    lambda: os.kill(target, 9),
):
    tried(act)
own = subprocess.Popen(["/bin/sleep", "60"])
os.close(os.pidfd_open(own.pid))
os.setpriority(os.PRIO_PROCESS, own.pid, 5)
resource.prlimit(own.pid, resource.RLIMIT_CORE, (0, 0))
os.sched_setaffinity(own.pid, os.sched_getaffinity(0))
thread = threading.Thread(
    target=lambda: os.sched_setaffinity(threading.get_native_id(), os.sched_getaffinity(0)))
thread.start()
thread.join()
own.kill()
print(own.wait())
""",
                project,
            )
        finally:
            other.kill()

    assert lines == ["1"] * 9 + ["-9"]


FOREIGN = "os.open('../secret', os.O_RDONLY)"
CONTROLS = {
    "the version of a file, as ext4 sets it": (0x4008_6604, 8),
    "flags of XFS": (0x401C_5820, 28),
    "a subvolume": (0x5000_940E, 1024),
    "attributes of f2fs": (0xF504, 8),
    "an exchange of two files' blocks": (0xC028_660F, 40),
    "a number that no file system has today": (0x4008_66FE, 8),
}


@pytest.mark.parametrize("what", CONTROLS)
def test_no_control_of_a_file_system_changes_by_a_descriptor_that_reads(
    project: Path, what: str
) -> None:
    number, size = CONTROLS[what]
    changed = (project.parent / "secret").stat().st_ctime_ns

    lines = run(
        f"import fcntl\ntried(lambda: fcntl.ioctl({FOREIGN}, {number}, bytes({size})))", project
    )

    assert lines == ["1"]
    assert (project.parent / "secret").stat().st_ctime_ns == changed


def test_what_file_systems_tell_and_copies_of_blocks_are_left(project: Path) -> None:
    lines = run(
        """
import errno, fcntl
def told(number, size, file):
    try:
        fcntl.ioctl(file, number, bytearray(size) if size else source.fileno())
    except OSError as error:
        return errno.errorcode[error.errno]
    return "told"
source, target = open("old/file"), open("copy", "wb")
for number, size, file in (
    (0x8008_6601, 8, source), (0x8008_7601, 8, source), (0x801C_581F, 28, source),
    (0xC020_660B, 32, source), (0x4004_9409, 0, target), (0x5401, 64, source),
    (0x1260, 8, source), (0x8008_1272, 8, source),
):
    print(told(number, size, file) == "EPERM")
""",
        project,
    )

    assert lines == ["False"] * 8


def test_no_lease_or_notice_of_a_file_makes_others_wait(project: Path) -> None:
    lines = run(
        f"""
import fcntl
file = {FOREIGN}
for command, argument in ((1024, 0), (1024, 1), (1026, 0x8000_000F), (1040, bytes(8))):
    tried(lambda: fcntl.fcntl(file, command, argument))
print(fcntl.fcntl(file, 1025))
""",
        project,
    )

    assert lines == ["1"] * 4 + ["2"]  # F_UNLCK
    with (project.parent / "secret").open("ab", buffering=0) as file:
        file.write(b"more")


def test_no_lock_of_a_file_that_is_not_its_own_is_held(project: Path) -> None:
    lines = run(
        f"""
import fcntl
for path in ("../secret", ".ai/tools/t.py", "/etc/passwd"):
    for how in (fcntl.LOCK_SH, fcntl.LOCK_EX, fcntl.LOCK_EX | fcntl.LOCK_NB):
        tried(lambda: fcntl.flock(os.open(path, os.O_RDONLY), how))
print(fcntl.flock({FOREIGN}, fcntl.LOCK_UN))
""",
        project,
    )

    assert lines == [str(errno.EOPNOTSUPP)] * 9 + ["None"]


def test_locks_of_its_own_files_are_held_waited_for_and_let_go(project: Path) -> None:
    lines = run(
        """
import fcntl, signal, tempfile
one, other, shared = (open("lock", "a") for _ in range(3))
fcntl.flock(one, fcntl.LOCK_EX)
tried(lambda: fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB))
taken = []
thread = threading.Thread(target=lambda: taken.append(fcntl.flock(other, fcntl.LOCK_EX)))
thread.start()
print(taken)
fcntl.flock(one, fcntl.LOCK_UN)
thread.join()
print(taken)
def alarm(*_):
    raise TimeoutError
signal.signal(signal.SIGALRM, alarm)
signal.setitimer(signal.ITIMER_REAL, 0.1)
try:
    fcntl.flock(one, fcntl.LOCK_EX)
except TimeoutError:
    print("interrupted")
other.close()
fcntl.flock(one, fcntl.LOCK_SH)
fcntl.flock(shared, fcntl.LOCK_SH)
os.unlink("lock")
shared.close()
fcntl.flock(one, fcntl.LOCK_EX | fcntl.LOCK_NB)
print("done")
""",
        project,
    )

    assert lines == [str(errno.EWOULDBLOCK), "[]", "[None]", "interrupted", "done"]


def test_no_signal_of_a_file_goes_to_processes_of_others(project: Path) -> None:
    with subprocess.Popen(["/bin/sleep", "60"]) as other:
        try:
            lines = run(
                f"""
import fcntl, signal, struct
here, there = os.pipe()
for act in (
    lambda: fcntl.fcntl(here, 8, {other.pid}),
    lambda: fcntl.fcntl(here, 8, -{os.getpgid(other.pid)}),
    lambda: fcntl.fcntl(here, 15, struct.pack("ii", 1, {other.pid})),
    lambda: fcntl.ioctl(here, 0x8901, struct.pack("i", {other.pid})),
    lambda: fcntl.ioctl(here, 0x8902, struct.pack("i", {other.pid})),
):
    tried(act)
heard = []
signal.signal(signal.SIGIO, lambda *_: heard.append("heard"))
fcntl.fcntl(here, fcntl.F_SETOWN, os.getpid())
fcntl.fcntl(here, fcntl.F_SETFL, os.O_ASYNC)
os.write(there, b"x")
print(fcntl.fcntl(here, fcntl.F_GETOWN) == os.getpid(), *heard)
fcntl.fcntl(here, fcntl.F_SETOWN, 0)
fcntl.fcntl(here, fcntl.F_SETFD, fcntl.FD_CLOEXEC)
""",
                project,
            )
        finally:
            other.kill()

    assert lines == ["1"] * 5 + ["True heard"]


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Path]:
    """The path of a local socket outside of the project that answers."""
    path = tmp_path / "service"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
        server.listen()

        def serve() -> None:
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                with connection:
                    connection.sendall(b"service")

        Thread(target=serve, daemon=True).start()
        yield path
        server.shutdown(socket.SHUT_RDWR)


LOCAL = """
def reached(path):
    with socket.socket(socket.AF_UNIX) as made:
        made.connect(path)
        return made.recv(20)
"""


def test_local_sockets_are_reached_where_they_are_named_or_may_be_written(
    project: Path, service: Path
) -> None:
    narrow = Confinement(
        writable=(NULL,), mediated=Mediation((project,), (project / ".ai",)), local_sockets=()
    )
    named = Confinement(writable=(NULL,), mediated=Mediation((project,)), local_sockets=(service,))
    code = (
        LOCAL
        + f"""
tried(lambda: reached({str(service)!r}))
tried(lambda: reached("../service"))
os.symlink({str(service)!r}, "link") if not os.path.islink("link") else None
tried(lambda: reached("link"))
tried(lambda: reached("\\0abstract"))
tried(lambda: socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM))
if not os.path.exists("own"):
    server = socket.socket(socket.AF_UNIX)
    server.bind("own")
    server.listen()
    client = socket.socket(socket.AF_UNIX)
    client.connect("own")
    print(bool(server.accept()))
tried(lambda: socket.socket(socket.AF_UNIX).bind("../made"))
tried(lambda: socket.socket(socket.AF_UNIX).bind(".ai/made"))
"""
    )

    assert run(code, project, narrow) == ["13", "13", "13", "13", "13", "True", "13", "13"]
    assert run(code, project, named)[:3] == ["b'service'"] * 3
    assert not (project.parent / "made").exists()


def test_in_a_shared_folder_only_sockets_of_the_run_itself_are_reached() -> None:
    with tempfile.TemporaryDirectory(dir="/tmp") as name:
        other = Path(name, "agent")
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(str(other))
            server.listen()
            code = (
                LOCAL
                + f"""
tried(lambda: reached({str(other)!r}))
own = {name!r} + "/own"
server = socket.socket(socket.AF_UNIX)
server.bind(own)
server.listen()
socket.socket(socket.AF_UNIX).connect(own)
print(bool(server.accept()))
os.rename({str(other)!r}, own + "2")
tried(lambda: reached(own + "2"))
"""
            )
            given = Mediation((Path("/tmp"),))
            lines = run(
                code, Path(name), Confinement(writable=(NULL,), mediated=given, local_sockets=())
            )
            named = Confinement(
                writable=(NULL,), mediated=given, local_sockets=(Path(name, "own2"),)
            )
            connected = run(
                LOCAL + f"socket.socket(socket.AF_UNIX).connect({name!r} + '/own2'); print('in')",
                Path(name),
                named,
            )

    assert lines == ["13", "True", "13"]
    assert connected == ["in"]


def test_streams_of_the_internet_work_beside_limited_local_sockets(project: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        lines = run(
            f"print(socket.create_connection(('127.0.0.1', {port}), timeout=5).getpeername()[1])",
            project,
            Confinement(writable=(NULL,), mediated=Mediation((project,)), local_sockets=()),
        )

    assert lines == [str(port)]


def test_where_nothing_is_written_no_metadata_is_changed(project: Path) -> None:
    lines = run(
        """
fd = os.open("old/file", os.O_RDONLY)
for act in (
    lambda: os.chmod("old/file", 0o777), lambda: os.fchmod(fd, 0o777),
    lambda: os.utime("old/file"), lambda: os.utime(fd), lambda: os.lchown("old/file", -1, -1),
    lambda: os.setxattr("old/file", "user.x", b"1"), lambda: os.removexattr(fd, "user.x"),
    lambda: call(452, -100, b"old/file", 0o777, 0),
):
    tried(act)
""",
        project,
        Confinement(writable=(NULL,)),
    )

    assert lines == ["1"] * 8


def test_under_withholding_alone_metadata_of_what_is_withheld_is_kept(project: Path) -> None:
    held = Confinement(withholding=FolderRestrictions(((project / ".ai", Access.READ),)))

    lines = run(
        """
tried(lambda: os.chmod(".ai/tools/t.py", 0o777))
tried(lambda: os.chmod("old/file", 0o600))
""",
        project,
        held,
    )

    assert lines == ["1", "None"]


def test_a_base_leaves_what_is_not_named_out(project: Path) -> None:
    hidden = project.parent / "hidden"
    hidden.mkdir()
    for name in ("a", "b"):
        (hidden / name).write_text(name, "utf-8")
    held = Confinement(
        withholding=FolderRestrictions(
            (
                (project, Access.ALL),
                (hidden, Access.NONE),
                (hidden / "a", Access.ALL),
                (NULL, Access.ALL),
            ),
            Access.READ,
        )
    )

    lines = run(
        """
tried(lambda: write("made"))
tried(lambda: write("../made"))
tried(lambda: os.chmod("../secret", 0o777))
tried(lambda: open("../secret").read())
tried(lambda: write("../hidden/a"))
tried(lambda: open("../hidden/b"))
""",
        project,
        held,
    )

    assert lines == ["None", "13", "1", "secret", "None", "13"]


def test_programs_start_from_no_file_without_a_name(project: Path) -> None:
    wanted = Confinement(writable=(NULL,), executable=(PYTHON, *_loaders()))

    lines = run(
        f"""
tried(lambda: os.memfd_create("x"))
tried(lambda: os.memfd_create("x", 0x10))
fd = os.open("/bin/true", os.O_RDONLY)
tried(lambda: os.execve(fd, ["true"], {{}}))
tried(lambda: call({number_of("execveat")}, fd, b"", 0, 0, 0x1000))
""",
        project,
        wanted,
    )

    assert lines == ["13"] * 4


def test_the_loader_of_programs_does_not_start_by_itself(project: Path) -> None:
    wanted = Confinement(writable=(NULL,), executable=(PYTHON, *_loaders()))
    (given,) = _loaders()
    (project / "link").symlink_to(given)

    lines = run(
        f"""
for path in ({str(given)!r}, "link", "./old/../link"):
    tried(lambda: subprocess.run([path, "/bin/echo", "started"]))
    tried(lambda: os.execve(path, [path, "/bin/echo", "started"], {{}}))
print(subprocess.run([sys.executable, "-I", "-c", "print(1)"], capture_output=True).stdout)
""",
        project,
        wanted,
    )

    assert lines == ["13"] * 6 + ["b'1\\n'"]


def _loaders() -> Sequence[Path]:
    from lillux.system_places import loaders_of

    return [Path(words[0]).resolve() for words in loaders_of(PYTHON)]


def test_a_kept_path_is_compared_as_file_systems_may_do() -> None:
    rules = WriteRules(native=(), mediated=("/p",), kept=("/p/.ai",))

    refused = ("/p/.ai", "/p/.ai/x", "/p/.AI/x", "/p/.a\u200di", "/q", "/pp")
    assert not any(rules.may_change(path) for path in refused)
    assert all(rules.may_change(path) for path in ("/p", "/p/.aix", "/p/a/.ai"))


@pytest.mark.skipif(os.getuid() != 0, reason="needs root, to be somebody else")
@pytest.mark.skipif(not shutil.which("setpriv"), reason="setpriv is not installed")
def test_a_caller_that_gave_up_being_root_gets_no_rights_of_root() -> None:
    with TemporaryDirectory() as folder:  # where everybody can come, unlike pytest's
        Path(folder).chmod(0o755)
        _give_up_being_root(Path(folder))


def _give_up_being_root(project: Path) -> None:
    (project / ".ai").mkdir()
    (project / "root-only").mkdir(mode=0o700)
    script = """
setpriv --reuid 65534 --regid 65534 --clear-groups sh -c '
echo x > new || echo refused; echo y > open/new; stat -c "%u %g" open/new
chmod 777 root-only || echo refused; chown 0 open/new || echo refused
mkdir root-only/x || echo refused
'
"""
    (project / "open").mkdir()
    (project / "open").chmod(0o777)
    command = Command(
        argv=("/bin/sh", "-c", script),
        env={"PATH": os.environ["PATH"]},
        cwd=project,
        confinement=confinement(project),
    )

    outcome = ProcessManager().run(command)

    assert outcome.stdout.data.decode().split("\n")[:-1] == [
        *("refused", "65534 65534", "refused", "refused", "refused")
    ]
    assert stat.S_IMODE((project / "root-only").stat().st_mode) == 0o700


GIVEN_WAYS = {
    "removed": "os.rmdir(given)",
    "moved away": "os.rename(given, given + '-old')",
    "exchanged": f"os.mkdir('x'); call({number_of('renameat2')}, -100, given.encode(), -100,"
    " b'x', 2)",
    "replaced by another": "os.mkdir('x'); os.rename('x', given)",
    "linked": "os.rmdir(given); os.symlink('/', given)",
    "moved by its parent": "os.rename(os.path.dirname(given), given + '-old')",
}


@pytest.mark.parametrize("way", GIVEN_WAYS)
@pytest.mark.parametrize("named", ["{given}", "."])
def test_a_folder_that_was_given_stays_in_its_place(tmp_path: Path, way: str, named: str) -> None:
    """A link in its place would lead the rules of the next start elsewhere."""
    given = tmp_path / "given"
    given.mkdir()
    wanted = Confinement(writable=(NULL,), mediated=Mediation((given,), ()))
    code = f"given = {named.format(given=given)!r}\ndef act():\n    {GIVEN_WAYS[way]}\ntried(act)"

    printed = run(code, given, wanted)

    assert printed != ["None"]
    assert given.is_dir()
    assert not given.is_symlink()
    assert [one.name for one in tmp_path.iterdir()] == ["given"]


# --- files with several names ---------------------------------------------------------------------

LINKED = {
    "append": "with open('linked', 'a') as file: file.write('x')",
    "cut": "os.truncate('linked', 0)",
    "write anew": "write('linked')",
    "open to cut alone": "os.close(os.open('linked', os.O_RDONLY | os.O_TRUNC))",
    "map": (
        "import mmap\nwith open('linked', 'r+b') as file, mmap.mmap(file.fileno(), 0) as memory:"
        " memory[:1] = b'x'"
    ),
    "mode": "os.chmod('linked', 0o777)",
    "times": "os.utime('linked', (1, 1))",
    "attribute": "os.setxattr('linked', 'user.x', b'1')",
    "second name": "os.link('linked', 'old/more'); write('old/more')",
    "other name": "os.rename('linked', 'old/more'); write('old/more')",
    "link": "os.symlink('linked', 'soft'); write('soft')",
    "descriptor": "fd = os.open('linked', os.O_RDONLY); write(f'/proc/self/fd/{fd}')",
    "mode of a descriptor": "os.fchmod(os.open('linked', os.O_RDONLY), 0o777)",
    "descriptor without a name": (
        "fd = os.open('linked', os.O_RDONLY); os.unlink('linked'); write(f'/proc/self/fd/{fd}')"
    ),
    "new name of a descriptor": (
        "fd = os.open('linked', os.O_RDONLY); os.unlink('linked')\n"
        "os.link(f'/proc/self/fd/{fd}', 'new', follow_symlinks=True); write('new')"
    ),
    "further filter": (
        "import struct\n"
        "code = ctypes.create_string_buffer(struct.pack('HBBI', 6, 0, 0, 0x7FFF0000))\n"
        "packed = struct.pack('HxxxxxxQ', 1, ctypes.addressof(code))\n"
        "program = ctypes.create_string_buffer(packed)\n"
        "assert libc.prctl(22, 2, ctypes.c_void_p(ctypes.addressof(program)), 0, 0) == 0\n"
        "write('linked')"
    ),
}


@pytest.mark.parametrize("way", LINKED)
def test_a_file_that_has_a_name_outside_is_not_changed_by_its_name_inside(
    project: Path, way: str
) -> None:
    outside = project.parent / "outside"
    outside.write_text("shared", "utf-8")
    outside.chmod(0o644)
    os.link(outside, project / "linked")
    before = outside.stat()

    run(f"def act():\n    {LINKED[way].replace(chr(10), chr(10) + '    ')}\ntried(act)", project)

    after = outside.stat()
    assert outside.read_text(encoding="utf-8") == "shared"
    assert (after.st_mode, after.st_mtime_ns) == (before.st_mode, before.st_mtime_ns)
    assert not os.listxattr(outside)


def test_a_file_that_has_a_name_outside_becomes_one_of_its_own_where_it_is_written(
    project: Path,
) -> None:
    outside = project.parent / "outside"
    outside.write_text("shared", "utf-8")
    outside.chmod(0o751)
    os.link(outside, project / "linked")

    run("with open('linked', 'a') as file: file.write(' no more')", project)

    inside = project / "linked"
    assert inside.read_text(encoding="utf-8") == "shared no more"
    assert stat.S_IMODE(inside.stat().st_mode) == 0o751
    assert inside.stat().st_nlink == 1
    assert not list(project.glob(".rye-*"))


def test_a_long_file_that_has_a_name_outside_is_refused_to_be_changed_but_may_be_replaced(
    project: Path,
) -> None:
    outside = project.parent / "outside"
    outside.touch()
    os.truncate(outside, 300 * 1024 * 1024)
    os.link(outside, project / "linked")

    lines = run(
        """
tried(lambda: os.truncate("linked", 1))
write("linked")
print(os.stat("linked").st_size)
""",
        project,
    )

    assert lines == [str(errno.EPERM), "1"]
    assert outside.stat().st_size == 300 * 1024 * 1024


def test_names_that_a_run_has_made_itself_stay_names_of_one_file(project: Path) -> None:
    lines = run(
        """
write("one")
os.link("one", "two")
os.link("two", "three")
write("two", "changed")
os.chmod("three", 0o600)
print(open("one").read(), os.stat("one").st_nlink, oct(os.stat("one").st_mode))
""",
        project,
    )

    assert lines == ["changed 3 0o100600"]


def test_what_may_not_be_written_stays_so_whatever_its_names(project: Path) -> None:
    outside = project.parent / "outside"
    outside.write_text("shared", "utf-8")
    outside.chmod(0o444)
    os.link(outside, project / "linked")

    run("tried(lambda: write('linked'))", project)

    assert outside.read_text(encoding="utf-8") == "shared"


def test_programs_work_on_files_that_have_names_outside(project: Path) -> None:
    other = project.parent / "other"
    other.mkdir()
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b", "-c", "init.defaultBranch=main"]
    for words in (["init", "-q"], ["commit", "-q", "--allow-empty", "-m", "first"]):
        subprocess.run([*git, *words], cwd=other, check=True)
    (other / "file").write_text("committed", "utf-8")
    subprocess.run([*git, "add", "."], cwd=other, check=True)
    subprocess.run([*git, "commit", "-qm", "second"], cwd=other, check=True)
    subprocess.run(["git", "clone", "-q", "--local", other, project / "clone"], check=True)
    subprocess.run(["cp", "-al", other, project / "copy"], check=True)
    before = snapshot(other)

    lines = run(
        """
git = ["git", "-c", "user.name=a", "-c", "user.email=a@b", "-c", "gc.auto=0"]
def command(*words, folder):
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True)
    print(done.returncode, done.stderr.strip())
for folder in ("clone", "copy"):
    write(f"{folder}/file", "changed")
    command(*git, "commit", "-qam", "third", folder=folder)
    command(*git, "gc", "-q", folder=folder)
    command(*git, "fsck", folder=folder)
command("cp", "-al", "copy", "again", folder=".")
write("Makefile", "install:\\n\\tinstall -D -m 755 copy/file out/file\\n\\ttouch copy/file\\n")
command("make", "-s", "install", folder=".")
command("chmod", "-R", "u+w", "copy", folder=".")
""",
        project,
    )

    def lasting(found: dict[str, object]) -> dict[str, object]:
        return {name: (one[0], one[1], *one[3:]) for name, one in found.items()}  # type: ignore[index]

    assert [one.strip() for one in lines] == ["0"] * 9
    assert lasting(snapshot(other)) == lasting(before)
