"""``rye.pyz mcp`` ends when its client does, with all that it has started, and cancels for good."""

import ctypes
import os
import re
import signal
import subprocess
import sys
from array import array
from collections.abc import Iterator
from pathlib import Path
from random import Random
from time import monotonic

import pytest

from tests.support.built import Machine
from tests.support.endings import wait_until
from tests.support.mcp_client import MODERN_META, McpClient, is_running, request
from tests.support.mcp_server_machine import BASH, Family, children, server

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(os.name == "nt", reason="the tools of these tests are for POSIX"),
]

# The server takes 1.5 s; clients send TERM after two.
CLIENTS_PATIENCE_S = 2.0
CANCELLED_CALLS = 1000
# A pipe of 64 KiB with less room left than the answer that is being written needs: answers of one
# page and a bit fill three of four pages.
FULL_PIPE_BYTES = 47_000


@pytest.fixture
def family(machine: Machine) -> Iterator[Family]:
    """A script that does not want to end; its pipe is where what an agent starts may write."""
    made = Family(machine.project / "family")
    yield made
    made.close()


@pytest.fixture
def client(machine: Machine) -> Iterator[McpClient]:
    """A client of a server on a machine with nothing."""
    with server(machine) as client:
        client.initialize()
        yield client


def run_family(client: McpClient, family: Family, count: int = 1) -> list[int]:
    """Calls that have the script run; return when it does."""
    parameters = {"command": family.script}
    calls = [
        client.start_tool("execute", item_id=BASH, parameters=parameters) for _ in range(count)
    ]
    family.await_running(count)
    return calls


@pytest.mark.heavy
def test_the_end_of_the_pipe_ends_server_and_programs(client: McpClient, family: Family) -> None:
    calls = run_family(client, family, 3)

    started = monotonic()
    client.close_stdin()
    status = client.await_end()
    took_s = monotonic() - started
    family.await_end()

    assert (status, took_s < CLIENTS_PATIENCE_S) == (0, True)
    assert [client.answers(call) for call in calls] == [[], [], []]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_ends_server_and_programs(
    number: signal.Signals, client: McpClient, family: Family
) -> None:
    run_family(client, family)

    started = monotonic()
    client.process.send_signal(number)
    status = client.await_end()
    took_s = monotonic() - started
    family.await_end()

    assert (status, took_s < CLIENTS_PATIENCE_S, client.stderr) == (0, True, "")


@pytest.mark.skipif(sys.platform != "linux", reason="descendants are found by /proc")
def test_a_killed_server_takes_its_programs_with_it_within_a_second(
    machine: Machine, family: Family
) -> None:
    with server(machine) as client:
        client.initialize()
        run_family(client, family, 2)
        client.process.kill()
        started = monotonic()
        family.await_end()
        took_s = monotonic() - started

    assert took_s < 1


@pytest.mark.skipif(sys.platform != "linux", reason="threads have numbers of their own there")
@pytest.mark.parametrize("opened", [False, True], ids=["before a message", "in a call"])
def test_a_signal_that_another_thread_gets_ends_server_and_programs(
    machine: Machine, family: Family, *, opened: bool
) -> None:
    """A thread that waits for a read is not woken by a signal to another thread."""
    with server(machine) as client:
        wait_until(lambda: _has_caught_signals(client.process.pid))
        if opened:
            client.initialize()
            run_family(client, family)
        wait_until(lambda: len(_other_threads(client.process.pid)) > 0)

        _send_to_thread(client.process.pid, _other_threads(client.process.pid)[0])
        status = client.await_end()

    family.await_end()
    assert status == 0


def test_a_client_that_reads_no_more_ends_server_and_programs_in_silence(
    machine: Machine, family: Family
) -> None:
    reading, writing = os.pipe()
    errors = machine.temporary / "errors"
    with (
        errors.open("wb") as stderr,
        subprocess.Popen(
            [*machine.rye, "mcp"],
            env=machine.environ(),
            cwd=machine.project,
            stdin=subprocess.PIPE,
            stdout=writing,
            stderr=stderr,
        ) as process,
    ):
        os.close(writing)
        assert process.stdin
        begin = {"protocolVersion": "2025-11-25", "capabilities": {}}
        call = {"name": "execute", "arguments": {"item_id": BASH}}
        call["arguments"] |= {"parameters": {"command": family.script}}  # type: ignore[operator]
        for line in (request(1, "initialize", begin), request(2, "tools/call", call)):
            process.stdin.write(line + b"\n")
        process.stdin.flush()
        family.await_running()

        os.close(reading)
        process.stdin.write(request(3, "ping") + b"\n")
        process.stdin.flush()
        status = process.wait()

    family.await_end()
    assert (status, errors.read_bytes()) == (0, b"")


@pytest.mark.heavy
def test_a_client_that_stopped_reading_does_not_keep_the_server(
    machine: Machine, family: Family
) -> None:
    """Its pipe is full, and the thread that writes waits."""
    with subprocess.Popen(
        [*machine.rye, "mcp"],
        env=machine.environ(),
        cwd=machine.project,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as process:
        assert process.stdin
        assert process.stdout
        begin = {"protocolVersion": "2025-11-25", "capabilities": {}}
        process.stdin.write(request(1, "initialize", begin) + b"\n")
        process.stdin.flush()
        process.stdout.readline()
        slow = {"item_id": BASH, "parameters": {"command": family.script}}
        process.stdin.write(
            request(2, "tools/call", {"name": "execute", "arguments": slow}) + b"\n"
        )
        fill = {"command": "head -c 90000 /dev/zero | tr '\\0' x"}
        loud = {"name": "execute", "arguments": {"item_id": BASH, "parameters": fill}}
        process.stdin.write(request(3, "tools/call", loud) + b"\n")
        process.stdin.flush()
        family.await_running()
        assert os.read(process.stdout.fileno(), 1) == b"{"  # it writes now, and cannot go on

        started = monotonic()
        process.send_signal(signal.SIGTERM)
        process.wait()
        took_s = monotonic() - started

    family.await_end()
    assert took_s < CLIENTS_PATIENCE_S


def _parent_of_a_server(machine: Machine, reading: int) -> "subprocess.Popen[bytes]":
    """A process that starts a server on the pipe, and prints its number on standard error."""
    code = (
        "import os, subprocess, sys\n"
        "child = subprocess.Popen(sys.argv[1:], stdin=0, stdout=1, stderr=subprocess.DEVNULL)\n"
        "os.close(0); print(child.pid, file=sys.stderr, flush=True); child.wait()\n"
    )
    return subprocess.Popen(
        [sys.executable, "-I", "-c", code, *map(str, machine.rye), "mcp"],
        env=machine.environ(),
        cwd=machine.project,
        stdin=reading,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )


def test_a_parent_that_was_killed_ends_server_and_programs(
    machine: Machine, family: Family
) -> None:
    """Though another process still holds the pipe."""
    reading, writing = os.pipe()
    with _parent_of_a_server(machine, reading) as parent:
        assert parent.stderr
        server_pid = int(parent.stderr.readline())
        begin = {"protocolVersion": "2025-11-25", "capabilities": {}}
        slow = {"item_id": BASH, "parameters": {"command": family.script}}
        call = request(2, "tools/call", {"name": "execute", "arguments": slow})
        os.write(writing, request(1, "initialize", begin) + b"\n" + call + b"\n")
        family.await_running()

        parent.kill()
        parent.wait()
        wait_until(lambda: not is_running(server_pid))

    family.await_end()
    os.close(reading)
    os.close(writing)


@pytest.mark.heavy
@pytest.mark.parametrize(
    "flood", [("ping", 3000), ("tools/list", 44)], ids=["small answers", "large answers"]
)
@pytest.mark.parametrize("begins_with", ["initialize", "the flood"])
def test_a_client_that_left_without_reading_ends_server_and_programs(
    flood: tuple[str, int], begins_with: str, machine: Machine, family: Family
) -> None:
    """The pipe is full before it ends: the server waits for a process that reads."""
    method, count = flood
    with subprocess.Popen(
        [*machine.rye, "mcp"],
        env=machine.environ(),
        cwd=machine.project,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as process:
        assert process.stdin
        assert process.stdout
        begin = {"protocolVersion": "2025-11-25", "capabilities": {}}
        slow = {"item_id": BASH, "parameters": {"command": family.script}}
        call = request(2, "tools/call", {"name": "execute", "arguments": slow}) + b"\n"
        process.stdin.write(request(1, "initialize", begin) + b"\n" + call)
        lines = b"".join(request(3 + number, method) + b"\n" for number in range(count))
        if begins_with == "initialize":
            process.stdin.flush()
            process.stdout.readline()
        process.stdin.write(lines)
        process.stdin.flush()
        family.await_running()
        answers = process.stdout.fileno()
        wait_until(lambda: _unread_bytes(answers) > FULL_PIPE_BYTES)

        started = monotonic()
        process.stdin.close()
        process.wait()
        took_s = monotonic() - started

    family.await_end()
    assert took_s < CLIENTS_PATIENCE_S


def test_requests_before_the_end_are_answered_to_a_client_that_reads_late(
    machine: Machine,
) -> None:
    with subprocess.Popen(
        [*machine.rye, "mcp"],
        env=machine.environ(),
        cwd=machine.project,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as process:
        begin = request(0, "initialize", {"protocolVersion": "2025-11-25", "capabilities": {}})
        lines = [begin, *(request(1 + number, "ping") for number in range(1000))]
        answers, _ = process.communicate(b"".join(line + b"\n" for line in lines))

    assert len(answers.splitlines()) == 1001


@pytest.mark.skipif(sys.platform != "linux", reason="how far the server is, /proc tells")
def test_a_parent_that_ends_before_the_first_message_ends_the_server(machine: Machine) -> None:
    """Though another process still holds the pipe."""
    reading, writing = os.pipe()
    with _parent_of_a_server(machine, reading) as parent:
        assert parent.stderr
        server_pid = int(parent.stderr.readline())
        wait_until(lambda: _has_caught_signals(server_pid))

        parent.kill()
        parent.wait()
        wait_until(lambda: not is_running(server_pid))

    os.close(reading)
    os.close(writing)


def test_open_subscriptions_end_with_their_result(client: McpClient) -> None:
    listening = client.send(
        "subscriptions/listen", {"_meta": MODERN_META, "notifications": {"toolsListChanged": True}}
    )
    client.wait_until(
        lambda: client.notifications("notifications/subscriptions/acknowledged"), "no word"
    )

    client.close_stdin()
    client.await_end()

    assert client.answers(listening)[0]["result"]["resultType"] == "complete"


def test_a_cancelled_program_is_gone_and_the_server_goes_on(
    client: McpClient, family: Family
) -> None:
    (call,) = run_family(client, family)

    client.cancel(call)
    family.await_end()

    assert client.result(client.send("ping")) == {}
    assert client.answers(call) == []


@pytest.mark.heavy
def test_a_thousand_cancelled_calls_leave_no_process_and_no_second_answer(
    client: McpClient,
) -> None:
    random = Random(4)  # noqa: S311 - the same order each time
    sent = []
    for _ in range(CANCELLED_CALLS):
        command = random.choice(["sleep 600", "true", "true", "exec sleep 0.01"])
        call = client.start_tool("execute", item_id=BASH, parameters={"command": command})
        sent.append(call)
        if random.random() < 0.5:
            client.result(client.send("ping"))
        client.cancel(call)
    last = client.start_tool("execute", item_id=BASH, parameters={"command": "true"})
    client.result(last)

    wait_until(lambda: not _programs(client))
    assert [call for call in sent if len(client.answers(call)) > 1] == []
    assert client.noise == []


def _programs(client: McpClient) -> list[int]:
    return children(client.process.pid)


def _other_threads(pid: int) -> list[int]:
    return [int(task.name) for task in Path(f"/proc/{pid}/task").iterdir() if int(task.name) != pid]


def _send_to_thread(pid: int, thread: int) -> None:
    """Python has this for the threads of its own process only."""
    number = {"x86_64": 234, "aarch64": 131}[os.uname().machine]  # tgkill(2)
    assert ctypes.CDLL(None).syscall(number, pid, thread, signal.SIGTERM) == 0


def _unread_bytes(descriptor: int) -> int:
    from fcntl import ioctl
    from termios import FIONREAD

    count = array("i", [0])
    ioctl(descriptor, FIONREAD, count)
    return count[0]


def _has_caught_signals(pid: int) -> bool:
    """Whether a server is far enough to have its own way to end."""
    status = Path(f"/proc/{pid}/status").read_text("utf-8")
    caught = re.search(r"^SigCgt:\s*(\w+)", status, re.MULTILINE)
    return caught is not None and bool(int(caught[1], 16) >> (signal.SIGTERM - 1) & 1)
