"""The rights of a confined program, enforced by the kernel; profiles of other systems as text."""

import os
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from lillux.attempts import Attempt
from lillux.errors import UnsafePathError
from lillux.folder_restrictions import Access, FolderRestrictions
from lillux.landlock import landlock_version, open_real
from lillux.process import ProcessManager
from lillux.process.model import Command
from lillux.process.spawn import bubblewrap, spawn, started_words
from lillux.sandbox import Confinement, obstacle
from lillux.seccomp import (
    HARDENED,
    Addresses,
    Filter,
    Reach,
    Sockets,
    can_filter,
    instructions,
    number_of,
    supervised_calls,
)
from lillux.supervisor import can_supervise
from lillux.system_places import loaders_of, program_places, system_places
from tests.support.programs import unavailable
from tests.support.workspace import ROOT

PYTHON = Path(sys.executable).resolve()
PLACES = (*system_places(), *program_places(PYTHON.parent))
NULL = Path("/dev/null")
linux = pytest.mark.skipif(not landlock_version() or not can_filter(), reason="Linux holds it")


def run(
    code: str, wanted: Confinement, attempts: list[Attempt] | None = None, **env: str
) -> Sequence[str]:
    """The lines that a confined Python prints."""
    heard = attempts if attempts is not None else []
    command = Command(
        argv=(str(PYTHON), "-I", "-c", PRELUDE + code),
        env={"PATH": os.defpath, **env},
        timeout_s=30,
        confinement=wanted,
        on_attempt=heard.append,
    )
    outcome = ProcessManager().run(command)
    assert outcome.exit_code == 0, outcome.stderr.data.decode()
    return outcome.stdout.data.decode().splitlines()


PRELUDE = """
import os, socket, subprocess
def tried(act):
    try:
        print(act())
    except OSError as error:
        print(error.errno)
def connected(host, port):
    with socket.create_connection((host, port), timeout=5) as made:
        return made.getpeername()[1] == port
"""
DENIED = "13"


@pytest.fixture
def servers() -> Iterator[tuple[int, int]]:
    with (
        socket.create_server(("127.0.0.1", 0)) as one,
        socket.create_server(("::1", 0), family=10) as two,
    ):
        yield one.getsockname()[1], two.getsockname()[1]


@linux
def test_files_outside_are_neither_read_nor_written(tmp_path: Path) -> None:
    for name in ("in", "out", "hidden"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a").write_text(name, "utf-8")
    wanted = Confinement(readable=(*PLACES, tmp_path / "in"), writable=(NULL, tmp_path / "out"))

    lines = run(
        f"""
tried(lambda: open({str(tmp_path / "in/a")!r}).read())
tried(lambda: open({str(tmp_path / "out/a")!r}, "w").write("xy"))
tried(lambda: open({str(tmp_path / "in/a")!r}, "w"))
tried(lambda: open({str(tmp_path / "hidden/a")!r}))
tried(lambda: os.listdir({str(tmp_path / "hidden")!r}))
tried(lambda: os.rename({str(tmp_path / "out/a")!r}, {str(tmp_path / "b")!r}))
""",
        wanted,
    )

    assert [*lines[:3], *lines[3:]] == ["in", "2", *[DENIED] * 3, lines[5]]
    assert lines[5] in {DENIED, "18"}
    assert (tmp_path / "in/a").read_text("utf-8") == "in"


@linux
def test_rules_are_made_again_when_a_folder_is_replaced(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    wanted = Confinement(writable=(NULL, folder))

    def write() -> Sequence[str]:
        return run(f'tried(lambda: open({str(folder / "a")!r}, "w").write("x"))', wanted)

    folder.mkdir()
    before = write()
    (folder / "a").unlink()
    folder.rmdir()
    (tmp_path / "taken").mkdir()  # so that the number of the folder is not used again at once
    folder.mkdir()

    assert [before, write()] == [["1"], ["1"]]


@linux
def test_only_named_programs_are_started(tmp_path: Path) -> None:
    def with_loader(path: str) -> tuple[Path, ...]:
        real = Path(path).resolve()
        return (real, *(Path(words[0]) for words in loaders_of(real)))

    wanted = Confinement(executable=(*with_loader(str(PYTHON)), *with_loader("/bin/true")))

    lines = run(
        """
tried(lambda: subprocess.run(["/bin/true"]).returncode)
tried(lambda: subprocess.run(["/bin/sh", "-c", "exit 0"]).returncode)
""",
        wanted,
    )

    assert lines == ["0", DENIED]


@linux
def test_without_the_network_no_socket_is_opened_but_pairs_work() -> None:
    wanted = Confinement(sockets=Sockets(network=False))

    lines = run(
        """
for family in range(46):
    if family not in (socket.AF_UNIX,):
        try:
            socket.socket(family, socket.SOCK_STREAM).close()
            print("opened", family)
        except OSError as error:
            if error.errno != 13:
                print(family, error)
tried(lambda: socket.socket(socket.AF_UNIX))
tried(lambda: [one.close() for one in socket.socketpair()])
""",
        wanted,
    )

    assert lines == [DENIED, "[None, None]"]


@linux
@pytest.mark.skipif(not can_supervise(), reason="connections are decided by pidfd_getfd")
def test_a_loopback_program_reaches_this_machine_alone(servers: tuple[int, int]) -> None:
    attempts: list[Attempt] = []
    wanted = Confinement(
        sockets=Sockets(streams_only=True), addresses=Addresses(Reach.LOOPBACK), is_hardened=True
    )

    lines = run(
        f"""
tried(lambda: connected("127.0.0.1", {servers[0]}))
tried(lambda: connected("::1", {servers[1]}))
tried(lambda: connected("::ffff:127.0.0.1", {servers[0]}))
tried(lambda: connected("192.0.2.1", 80))
tried(lambda: connected("0.0.0.0", {servers[0]}))
tried(lambda: socket.create_server(("127.0.0.1", 0)).getsockname()[0])
tried(lambda: socket.create_server(("0.0.0.0", 0)))
tried(lambda: socket.socket().listen())
tried(lambda: socket.socket(type=socket.SOCK_DGRAM))
with socket.socket() as one:
    one.setblocking(False)
    print(one.connect_ex(("127.0.0.1", {servers[0]})) in (0, 115))
""",
        wanted,
        attempts,
    )

    allowed = ["True", "True", "True", DENIED, DENIED, "127.0.0.1"]
    assert lines == [*allowed, DENIED, DENIED, DENIED, "True"]
    refused = [one.target for one in attempts if one.was_refused]
    assert refused[:2] == ["192.0.2.1:80", f"0.0.0.0:{servers[0]}"]


@linux
@pytest.mark.skipif(not can_supervise(), reason="connections are decided by pidfd_getfd")
def test_a_program_behind_a_proxy_reaches_its_port_of_this_machine_alone(
    servers: tuple[int, int],
) -> None:
    wanted = Confinement(
        sockets=Sockets(streams_only=True), addresses=Addresses(Reach.PROXY, servers[0])
    )

    lines = run(
        f"""
tried(lambda: connected("127.0.0.1", {servers[0]}))
tried(lambda: connected("192.0.2.1", {servers[0]}))
tried(lambda: connected("::1", {servers[1]}))
tried(lambda: socket.socket().sendto(b"x", 0x20000000, ("127.0.0.1", {servers[0]})))
tried(lambda: socket.socket(socket.AF_INET, socket.SOCK_STREAM, 262))
tried(lambda: socket.create_server(("127.0.0.1", 0)))
""",
        wanted,
    )

    assert lines == ["True", DENIED, DENIED, "95", DENIED, DENIED]


@linux
@pytest.mark.skipif(not can_supervise(), reason="connections are decided by pidfd_getfd")
def test_a_program_on_a_node_reaches_neither_the_machine_nor_its_link(
    servers: tuple[int, int],
) -> None:
    attempts: list[Attempt] = []
    wanted = Confinement(addresses=Addresses(Reach.PUBLIC))

    lines = run(
        f"""
tried(lambda: connected("127.0.0.1", {servers[0]}))
tried(lambda: connected("169.254.169.254", 80))
tried(lambda: socket.socket(type=socket.SOCK_DGRAM).connect(("127.0.0.1", 53)))
""",
        wanted,
        attempts,
    )

    assert lines == [DENIED, DENIED, DENIED]


@linux
@pytest.mark.skipif(not can_supervise(), reason="only such a machine can watch")
def test_a_watched_program_is_reported_and_not_limited(tmp_path: Path) -> None:
    attempts: list[Attempt] = []
    (tmp_path / "a").write_text("x", "utf-8")

    lines = run(
        f"""
tried(lambda: open({str(tmp_path / "a")!r}).read())
tried(lambda: open({str(tmp_path / "b")!r}, "w").write("y"))
os.chdir({str(tmp_path)!r})
os.rename("b", "c")
tried(lambda: subprocess.run(["/bin/true"]).returncode)
""",
        Confinement(watches=True),
        attempts,
    )

    assert lines == ["x", "1", "0"]
    reported = {(one.what, one.target) for one in attempts}
    assert reported >= {
        ("read", str(tmp_path / "a")),
        ("write", str(tmp_path / "b")),
        ("write", str(tmp_path / "c")),
        ("run", "/bin/true"),
    }


@linux
def test_system_calls_to_other_processes_and_the_kernel_are_refused() -> None:
    numbers = (*map(number_of, HARDENED), number_of("io_uring_setup"))

    lines = run(
        f"""
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
for call in {numbers}:
    result = libc.syscall(call, 0, 0, 0, 0, 0, 0)
    print(ctypes.get_errno() if result < 0 else "done")
""",
        Confinement(is_hardened=True),
    )

    assert lines == [*["1"] * len(HARDENED), "38"]


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_every_call_of_a_filter_has_a_number_on_each_machine(machine: str) -> None:
    every = supervised_calls(Addresses(Reach.LOOPBACK), watches=True)
    wanted = Filter(sockets=Sockets(streams_only=True), is_hardened=True, supervised=every)

    lines = instructions(machine, wanted)

    supervised = [line for line in lines if line == (0x06, 0, 0, 0x7FC00000)]
    assert len(supervised) == (len(every) if machine == "x86_64" else len(every) - 6)
    assert all(line[1] < 256 and line[2] < 256 for line in lines)


def test_before_landlock_3_cutting_off_by_path_is_refused_by_the_filter() -> None:
    held = Confinement(writable=(NULL,))

    older, newer = held.filter_for(2), held.filter_for(3)

    assert older is not None
    assert older.refused == ("truncate",)
    assert newer is not None
    assert newer.refused == ()
    assert Confinement(readable=()).filter_for(2) is None
    for machine, number in (("x86_64", 76), ("aarch64", 45)):
        assert (0x15, 0, 1, number) in instructions(machine, older)


@linux
def test_the_filter_of_an_older_system_is_held_by_this_one(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_text("text", "utf-8")
    code = (
        "import os, sys\n"
        "from lillux import seccomp\n"
        "from lillux.sandbox import Confinement\n"
        "seccomp.enter(Confinement(writable=()).filter_for(2))\n"
        "try:\n    os.truncate(sys.argv[1], 0)\nexcept PermissionError:\n    print('refused')\n"
    )

    done = subprocess.run(
        [sys.executable, "-c", code, path],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
        encoding="utf-8",
    )

    assert done.stdout == "refused\n", done.stderr
    assert path.read_text("utf-8") == "text"


@linux
def test_datagrams_on_a_node_reach_the_machine_by_no_call() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        server.bind(("127.0.0.1", 0))
        server.setblocking(False)  # noqa: FBT003 - its only way
        port = server.getsockname()[1]
        lines = run(
            f"""
import ctypes
near, mapped = ("127.0.0.1", {port}), ("::ffff:127.0.0.1", {port})
four = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
six = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
tried(lambda: four.sendto(b"x", near))
tried(lambda: four.sendmsg([b"x"], [], 0, near))
tried(lambda: four.connect(near))
tried(lambda: six.sendto(b"x", mapped))
tried(lambda: six.connect(mapped))
tried(lambda: socket.socket(socket.AF_INET6).connect(mapped))
name = socket.inet_aton("127.0.0.1")
libc = ctypes.CDLL(None, use_errno=True)
def many(family):
    address = ctypes.create_string_buffer(
        family.to_bytes(2, "little") + near[1].to_bytes(2, "big") + name + bytes(8), 16)
    data = ctypes.create_string_buffer(b"x")
    part = (ctypes.c_uint64 * 2)(ctypes.addressof(data), 1)
    words = (ctypes.addressof(address), 16, ctypes.addressof(part), 1, 0, 0, 0, 0)
    header = (ctypes.c_uint64 * 8)(*words)
    if libc.sendmmsg(four.fileno(), header, 1, 0) < 0:
        raise OSError(ctypes.get_errno(), "")
tried(lambda: many(2))
tried(lambda: many(0))
tried(lambda: socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM))
tried(lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, 17))
tried(lambda: socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM))
""",
            Confinement(addresses=Addresses(Reach.PUBLIC)),
        )
        with pytest.raises(BlockingIOError):
            server.recv(10)

    assert lines == [DENIED] * 11


@linux
def test_messages_of_a_connected_pair_pass_on_a_node_with_their_descriptors() -> None:
    lines = run(
        """
a, b = socket.socketpair()
r, w = os.pipe()
socket.send_fds(a, [b"one", b"two"], [w])
data, fds, _, _ = socket.recv_fds(b, 10, 4)
os.write(fds[0], b"through")
print(data, os.read(r, 10))
""",
        Confinement(addresses=Addresses(Reach.PUBLIC)),
    )

    assert lines == ["b'onetwo' b'through'"]


# --- what was decided about -----------------------------------------------------------------------


@linux
def test_a_folder_that_became_a_link_before_the_start_is_not_written(tmp_path: Path) -> None:
    out, secret = tmp_path / "out", tmp_path / "secret"
    for folder in (out, secret):
        folder.mkdir()
    wanted = Confinement(readable=PLACES, writable=(out,))
    out.rename(tmp_path / "moved")
    out.symlink_to(secret)

    with pytest.raises(UnsafePathError) as raised:
        run("open(sys.argv[0])", wanted)

    assert raised.value.path == str(out)
    assert list(secret.iterdir()) == []


@linux
def test_a_folder_above_that_became_a_link_is_not_passed_through(tmp_path: Path) -> None:
    (tmp_path / "a/out").mkdir(parents=True)
    (tmp_path / "b/out").mkdir(parents=True)
    wanted = Confinement(readable=PLACES, writable=(tmp_path / "a/out",))
    (tmp_path / "a").rename(tmp_path / "c")
    (tmp_path / "a").symlink_to("b")

    with pytest.raises(UnsafePathError):
        run("", wanted)


def test_a_kernel_without_openat2_walks_a_path_without_links(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a/b").mkdir(parents=True)
    (tmp_path / "l").symlink_to("a")
    monkeypatch.setattr("lillux.landlock._OPEN_WITHOUT_LINKS", 999)  # ENOSYS

    found = open_real(tmp_path / "a/b")

    assert os.fstat(found).st_ino == (tmp_path / "a/b").stat().st_ino
    os.close(found)
    for path in (tmp_path / "l", tmp_path / "l/b"):
        with pytest.raises(OSError, match="symbolic links"):
            open_real(path)


# --- other systems --------------------------------------------------------------------------------


def test_the_profile_for_macos_says_each_right() -> None:
    wanted = Confinement(
        readable=(Path("/p/in"),),
        writable=(Path('/p/o"ut'),),
        executable=(Path("/usr/bin/git"),),
        sockets=Sockets(streams_only=True),
        addresses=Addresses(Reach.PROXY, 4711),
        withholding=FolderRestrictions(((Path("/u/keys"), Access.NONE),)),
    )

    assert wanted.macos_profile().splitlines() == [
        "(version 1)",
        "(allow default)",
        "(deny file-read-data)",
        '(allow file-read-data (subpath "/p/in"))',
        '(allow file-read-data (subpath "/p/o\\"ut"))',
        '(allow file-read-data (subpath "/usr/bin/git"))',
        "(deny file-write*)",
        '(allow file-write* (subpath "/p/o\\"ut"))',
        "(deny process-exec*)",
        '(allow process-exec* (subpath "/usr/bin/git"))',
        "(deny network*)",
        '(allow network-outbound (remote ip "localhost:4711"))',
        '(deny file-read-data (subpath "/u/keys"))',
        '(deny file-write* (subpath "/u/keys"))',
    ]


def test_macos_programs_start_behind_their_profile() -> None:
    wanted = Confinement(sockets=Sockets(network=False))
    command = Command(argv=("/bin/echo", "a"), env={}, confinement=wanted)

    assert started_words(command, platform="darwin") == (
        "/usr/bin/sandbox-exec",
        "-p",
        "(version 1)\n(allow default)\n(deny network*)\n",
        "/bin/echo",
        "a",
    )


FILES = Confinement(readable=(Path("/usr"),))
HOSTS = Confinement(sockets=Sockets(streams_only=True), addresses=Addresses(Reach.PROXY, 1))


@pytest.mark.parametrize(
    ("wanted", "facts", "problem"),
    [
        (FILES, {"platform": "darwin"}, ""),
        (FILES, {"platform": "win32"}, "this system has no means"),
        (FILES, {"platform": "linux", "landlock": 0}, "no Landlock, and bubblewrap is not"),
        (FILES, {"platform": "linux", "landlock": 0, "bubblewrap": "/usr/bin/bwrap"}, ""),
        (FILES, {"platform": "linux", "landlock": 1}, ""),
        (
            Confinement(executable=(Path("/bin/ls"),)),
            {"platform": "linux", "landlock": 0, "bubblewrap": "/usr/bin/bwrap"},
            "no Landlock",
        ),
        (HOSTS, {"platform": "linux", "landlock": 1, "can_hear": False}, "forbids pidfd_getfd"),
    ],
)
def test_rights_that_a_machine_cannot_enforce_are_reported(
    wanted: Confinement, facts: dict[str, object], problem: str
) -> None:
    if facts["platform"] == "linux" and not can_filter():
        pytest.skip("seccomp is Linux's")

    found = obstacle(wanted, **facts)  # type: ignore[arg-type]

    assert problem in found
    assert bool(problem) is bool(found)


@linux
def test_bubblewrap_holds_files_and_network_where_landlock_is_missing(tmp_path: Path) -> None:
    if not bubblewrap():
        unavailable("bwrap is not installed")
    for name in ("in", "out", "hidden"):
        (tmp_path / name).mkdir()
    (tmp_path / "hidden/a").write_text("x", "utf-8")
    wanted = Confinement(
        readable=(*PLACES, tmp_path / "in"),
        writable=(tmp_path / "out",),
        sockets=Sockets(network=False),
        is_hardened=True,
    )
    code = (
        PRELUDE
        + f"""
tried(lambda: open({str(tmp_path / "out/a")!r}, "w").write("xy"))
tried(lambda: open({str(tmp_path / "hidden/a")!r}))
tried(lambda: open({str(tmp_path / "in/a")!r}, "w"))
tried(lambda: socket.socket())
"""
    )
    command = Command(
        argv=(str(PYTHON), "-I", "-c", code), env={"PATH": os.defpath}, confinement=wanted
    )

    process = spawn(command, landlock=0)
    stdout, stderr = process.communicate(timeout=30)

    if b"bwrap:" in stderr:
        pytest.skip(f"this machine makes no namespaces: {stderr.decode()}")
    assert stdout.decode().split() == ["2", "2", "30", DENIED], stderr
    assert (tmp_path / "out/a").read_text("utf-8") == "xy"


def test_loaders_are_read_out_of_a_program(tmp_path: Path) -> None:
    script = tmp_path / "a"
    script.write_text("#!/usr/bin/env -S node --x\n", "utf-8")
    (tmp_path / "b").write_text("#!\n", "utf-8")

    assert list(loaders_of(script)) == [["/usr/bin/env", "-S", "node", "--x"]]
    assert list(loaders_of(tmp_path / "b")) == list(loaders_of(tmp_path / "none")) == []
    if sys.platform == "linux":
        found = list(loaders_of(Path("/bin/sh").resolve()))
        assert [Path(words[0]).name.startswith("ld-") for words in found] == [True]


@linux
def test_this_process_keeps_its_rights(tmp_path: Path) -> None:
    run("print(1)", Confinement(readable=PLACES, writable=(NULL,), sockets=Sockets(network=False)))

    (tmp_path / "a").write_text("x", "utf-8")
    socket.socket().close()
    assert subprocess.run(["/bin/true"], check=False).returncode == 0


def test_the_settings_of_a_virtual_environment_are_read_with_its_programs() -> None:
    assert Path("/opt/app/pyvenv.cfg") in program_places(Path("/opt/app/bin"))


def test_shims_are_read_with_the_version_that_they_start() -> None:
    places = program_places(Path("/opt/pyenv/shims"))

    assert Path("/opt/pyenv/version") in places
    assert Path("/opt/version") not in program_places(Path("/opt/bin"))


@pytest.mark.skipif(not landlock_version(), reason="this system has no Landlock")
def test_what_lies_beside_a_kept_folder_is_written_without_a_supervisor(tmp_path: Path) -> None:
    """A process that is confined further has none: native rules alone decide about it."""
    for name in ("beside", "kept"):
        (tmp_path / name).mkdir()
    text = (
        "import sys; from pathlib import Path; from lillux import landlock, sandbox\n"
        f"folder = Path({str(tmp_path)!r})\n"
        "mediated = sandbox.Mediation((folder,), (folder / 'kept',))\n"
        "wanted = sandbox.Confinement(writable=(), mediated=mediated)\n"
        "rules = wanted._ruleset(landlock.landlock_version())\n"
        "landlock.c_library().prctl(38, 1, 0, 0, 0)\n"
        "assert landlock.system_call(446, rules, 0) == 0\n"
        "for name in ('beside', 'kept', '.'):\n"
        "    try: (folder / name / 'x').write_text('x')\n"
        "    except PermissionError: print(name)\n"
    )

    done = subprocess.run(
        [sys.executable, "-c", text],
        capture_output=True,
        encoding="utf-8",
        check=False,
        cwd=Path(__file__).parents[2],
    )

    assert (done.stdout.split(), done.stderr) == (["kept", "."], "")
