import os
import signal
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from lillux.seccomp import Filter, Hold, Sockets, can_filter, instructions, refuse_sockets

ROOT = Path(__file__).parents[2]
needs_seccomp = pytest.mark.skipif(not can_filter(), reason="no seccomp filters on this system")
needs_x86 = pytest.mark.skipif(
    not can_filter() or os.uname().machine != "x86_64", reason="for x86-64"
)
CODE = """
import asyncio, ctypes, errno, multiprocessing, os, socket, subprocess, sys, threading
from lillux.seccomp import Sockets, refuse_sockets

def refused(action):
    try:
        action()
    except OSError as error:
        print(errno.errorcode[error.errno])
    else:
        print("done")

if __name__ == "__main__":
    assert refuse_sockets(Sockets())
    exec(sys.stdin.read())
"""


def filtered(code: str) -> subprocess.CompletedProcess[str]:
    """A process that has given local sockets away, and then runs the code."""
    return subprocess.run(
        [sys.executable, "-c", CODE],
        input=code,
        capture_output=True,
        encoding="utf-8",
        check=False,
        cwd=ROOT,
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT)},
    )


def said(code: str) -> str:
    """The output of the code in a process with the filter."""
    ended = filtered(code)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


@needs_seccomp
@pytest.mark.parametrize("kind", ["SOCK_STREAM", "SOCK_DGRAM", "SOCK_SEQPACKET"])
def test_no_local_socket_is_opened(kind: str) -> None:
    code = f"refused(lambda: socket.socket(socket.AF_UNIX, socket.{kind}))"

    assert said(code) == "EACCES\n"


@needs_seccomp
def test_the_upper_half_of_an_argument_does_not_hide_a_call() -> None:
    code = """
libc = ctypes.CDLL(None, use_errno=True)
number = {"x86_64": 41, "aarch64": 198}[os.uname().machine]
family = ctypes.c_ulong(0xFFFF_FFFF_0000_0001)
print(libc.syscall(ctypes.c_long(number), family, ctypes.c_ulong(1), ctypes.c_ulong(0)))
print(errno.errorcode[ctypes.get_errno()])
"""

    assert said(code) == "-1\nEACCES\n"


@needs_seccomp
def test_threads_and_programs_that_are_started_open_no_local_socket_either() -> None:
    code = """
opening = lambda: refused(lambda: socket.socket(socket.AF_UNIX))
thread = threading.Thread(target=opening)
thread.start()
thread.join()
inner = "import socket; socket.socket(socket.AF_UNIX)"
ended = subprocess.run([sys.executable, "-c", inner], capture_output=True, encoding="utf-8")
print(ended.returncode, ended.stderr.splitlines()[-1])
"""

    assert said(code) == "EACCES\n1 PermissionError: [Errno 13] Permission denied\n"


@needs_seccomp
def test_other_sockets_are_opened_as_before() -> None:
    code = """
listening = socket.create_server(("127.0.0.1", 0))
client = socket.create_connection(listening.getsockname())
accepted, _ = listening.accept()
client.sendall(b"hello")
print(accepted.recv(5).decode())
socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
socket.socket(socket.AF_NETLINK, socket.SOCK_RAW)
print(socket.getaddrinfo("localhost", 80)[0][4][1])
"""

    assert said(code) == "hello\n80\n"


@needs_seccomp
@pytest.mark.parametrize("kind", ["SOCK_STREAM", "SOCK_SEQPACKET", "SOCK_STREAM | 0x800 | 0x80000"])
def test_socket_pairs_within_the_process_are_opened_as_before(kind: str) -> None:
    kind = kind.replace("SOCK_", "socket.SOCK_")
    code = (
        f"one, two = socket.socketpair(socket.AF_UNIX, {kind}); one.send(b'x'); print(two.recv(1))"
    )

    assert said(code) == "b'x'\n"


@needs_seccomp
@pytest.mark.parametrize("kind", ["SOCK_DGRAM", "SOCK_RAW", "SOCK_DGRAM | socket.SOCK_NONBLOCK"])
def test_no_datagram_pair_is_opened(kind: str) -> None:
    code = f"refused(lambda: socket.socketpair(socket.AF_UNIX, socket.{kind}))"

    assert said(code) == "EACCES\n"


@needs_seccomp
def test_event_loops_and_pools_of_processes_work() -> None:
    code = """
async def run():
    process = await asyncio.create_subprocess_exec("echo", "from a loop", stdout=-1)
    return (await process.communicate())[0].decode().strip()

print(asyncio.run(run()))
one, two = multiprocessing.Pipe()
process = multiprocessing.get_context("fork").Process(target=one.send, args=("from a process",))
process.start()
print(two.recv())
process.join()
"""

    assert said(code) == "from a loop\nfrom a process\n"


@needs_seccomp
def test_no_ring_is_made_that_would_open_them() -> None:
    code = """
libc = ctypes.CDLL(None, use_errno=True)
print(libc.syscall(ctypes.c_long(425), ctypes.c_long(1), ctypes.create_string_buffer(256)))
print(errno.errorcode[ctypes.get_errno()])
"""

    assert said(code) == "-1\nENOSYS\n"


@needs_x86
def test_calls_by_the_numbers_of_x32_are_refused() -> None:
    code = """
libc = ctypes.CDLL(None, use_errno=True)
for number in (39, 41):  # getpid, socket
    arguments = (ctypes.c_long(1), ctypes.c_long(1), ctypes.c_long(0))
    print(libc.syscall(ctypes.c_long(0x4000_0000 | number), *arguments))
    print(errno.errorcode[ctypes.get_errno()])
"""

    assert said(code) == "-1\nENOSYS\n" * 2


@needs_x86
def test_a_call_of_another_architecture_ends_the_process() -> None:
    code = """
import mmap
code = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
code.write(bytes.fromhex("b814000000cd80c3"))  # getpid of 32 bits: mov eax, 20; int 0x80; ret
address = ctypes.addressof(ctypes.c_char.from_buffer(code))
ctypes.CFUNCTYPE(ctypes.c_int)(address)()
print("went on")
"""
    ended = filtered(code)

    # The kernel may not run 32-bit code: then the instruction itself is wrong.
    assert ended.returncode in {-signal.SIGSYS, -signal.SIGSEGV}
    assert ended.stdout == ""


def test_without_filters_nothing_is_done() -> None:
    assert not refuse_sockets(Sockets(), platform="darwin")
    assert not refuse_sockets(Sockets(), platform="win32")
    assert not refuse_sockets(Sockets(), platform="linux", machine="riscv64")


NETWORK_ALONE = Sockets()


def verdict(
    machine: str,
    audit_number: int,
    number: int,
    *arguments: int,
    allowed: Sockets | Filter = NETWORK_ALONE,
) -> int:
    """The verdict of the filter of a machine on a call, as the kernel reads it."""
    words = [*arguments, 0, 0, 0, 0, 0, 0][:6]
    call = struct.pack("<iIQ6Q", number, audit_number, 0, *words)
    lines, at, accumulator = instructions(machine, allowed), 0, 0
    while True:
        code, if_so, if_not, operand = lines[at]
        match code:
            case 0x20:
                (accumulator,) = struct.unpack_from("<I", call, operand)
                at += 1
            case 0x54:
                accumulator &= operand
                at += 1
            case 0x15:
                at += 1 + (if_so if accumulator == operand else if_not)
            case 0x35:
                at += 1 + (if_so if accumulator >= operand else if_not)
            case _:
                return operand


ALLOWED, KILLED, REFUSED, UNKNOWN = 0x7FFF0000, 0x80000000, 0x50000 | 13, 0x50000 | 38
X86, ARM, I386 = 0xC000003E, 0xC00000B7, 0x40000003


@pytest.mark.parametrize(
    ("machine", "audit_number", "socket", "socketpair"),
    [("x86_64", X86, 41, 53), ("aarch64", ARM, 198, 199)],
)
def test_the_filter_of_each_machine_decides_the_same(
    machine: str, audit_number: int, socket: int, socketpair: int
) -> None:
    def decide(number: int, *arguments: int) -> int:
        return verdict(machine, audit_number, number, *arguments)

    assert [decide(socket, family, 1) for family in (1, 2, 10, 16)] == [REFUSED, *[ALLOWED] * 3]
    assert decide(socket, 0xFFFFFFFF00000001, 1) == REFUSED
    kinds = (1, 1 | 0x80800, 5, 2, 2 | 0x800, 3)
    assert [decide(socketpair, 1, kind) for kind in kinds] == [*[ALLOWED] * 3, *[REFUSED] * 3]
    assert decide(socketpair, 30, 2) == ALLOWED
    assert decide(425) == UNKNOWN
    assert {decide(number, 1, 2) for number in range(500)} == {ALLOWED, REFUSED, UNKNOWN}
    assert sum(decide(number, 1, 2) != ALLOWED for number in range(500)) == 3


@pytest.mark.parametrize(
    ("machine", "audit_number", "ioctl", "fcntl"),
    [("x86_64", X86, 16, 72), ("aarch64", ARM, 29, 25)],
)
def test_controls_of_file_systems_are_refused_but_for_those_that_read(
    machine: str, audit_number: int, ioctl: int, fcntl: int
) -> None:
    allowed = Filter(sockets=Sockets(), metadata=Hold.REFUSED, neighbours=Hold.ASKED)

    def decide(number: int, *arguments: int) -> int:
        return verdict(machine, audit_number, number, *arguments, allowed=allowed)

    kinds = (0x66, 0x76, 0x58, 0x94, 0xF5, 0x72, 0x12, 0xCF)
    sizes = (0, 0x4008_0000, 0x8008_0000, 0xC028_0000)
    said = [decide(ioctl, 3, size | kind << 8 | 0xFE) for kind in kinds for size in sizes]
    assert set(said) == {0x50000 | 1}
    reading = (0x8008_6601, 0x4004_9409, 0xC020_660B, 0x5401, 0x541B, 0x5421, 0x8913)
    assert {decide(ioctl, 3, number) for number in reading} == {ALLOWED}
    assert {decide(ioctl, 3, number) for number in (0x8901, 0x8902, 0x5412)} == {0x50000 | 1}
    assert decide(ioctl, 3, 0xFFFF_FFFF_4008_6604) == 0x50000 | 1
    assert {decide(fcntl, 3, command, 0) for command in (1024, 1026, 1040, 15)} == {0x50000 | 1}
    assert {decide(fcntl, 3, command, 9) for command in (0, 1, 2, 3, 4, 6, 9, 1025, 1030)} == {
        ALLOWED
    }
    assert [decide(fcntl, 3, 8, owner) for owner in (0, 9)] == [ALLOWED, 0x7FC0_0000]


@pytest.mark.parametrize(
    ("machine", "audit_number", "socket"), [("x86_64", X86, 41), ("aarch64", ARM, 198)]
)
@pytest.mark.parametrize("local", [True, False])
def test_without_the_network_local_sockets_alone_are_left(
    machine: str, audit_number: int, socket: int, *, local: bool
) -> None:
    allowed = Sockets(local=local, network=False)

    said = [
        verdict(machine, audit_number, socket, family, 1, allowed=allowed)
        for family in (1, 2, 10, 16, 17)
    ]

    assert said == [ALLOWED if local else REFUSED, *[REFUSED] * 4]
    assert verdict(machine, audit_number, 425, allowed=allowed) == UNKNOWN
    assert verdict(machine, audit_number, 0, 2, 1, allowed=allowed) == ALLOWED


@needs_seccomp
def test_a_process_without_the_network_reaches_nothing() -> None:
    code = CODE.replace("refuse_sockets(Sockets())", "refuse_sockets(Sockets(network=False))")
    ended = subprocess.run(
        [sys.executable, "-c", code],
        input="refused(lambda: socket.socket())\n"
        "refused(lambda: socket.socket(socket.AF_INET6, socket.SOCK_DGRAM))\n"
        "refused(lambda: socket.socketpair())\n",
        capture_output=True,
        encoding="utf-8",
        check=False,
        cwd=ROOT,
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT)},
    )

    assert ended.stdout.split() == ["EACCES", "EACCES", "done"], ended.stderr


@pytest.mark.parametrize(
    ("machine", "other"), [("x86_64", I386), ("x86_64", ARM), ("aarch64", 0x40000028)]
)
def test_the_filter_of_a_machine_takes_no_call_of_another(machine: str, other: int) -> None:
    assert {verdict(machine, other, number, 1) for number in range(500)} == {KILLED}


def test_the_filter_of_x86_knows_no_numbers_of_x32() -> None:
    assert {verdict("x86_64", X86, 0x40000000 | number, 1) for number in range(600)} == {UNKNOWN}
    assert verdict("x86_64", X86, -1) == UNKNOWN
