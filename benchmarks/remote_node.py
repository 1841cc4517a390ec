"""A node under measurement: its memory, and the time of ``/health`` under load."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from lillux.values import dataclass, field
from tests.support.node import CHECKOUT_COMMAND, Node

# In a separate process, so that measuring does not wait for the measured node. An idle process that
# only echoes is measured in turn; its time is overhead of the machine.
_PROBE = """
import http.client, json, multiprocessing, select, socket, sys
from time import perf_counter

def echo(listener):
    connection, _ = listener.accept()
    while data := connection.recv(1):
        connection.sendall(data)

def request(connection):
    connection.request("GET", "/health")
    connection.getresponse().read()

def echoed(connection):
    connection.sendall(b"x")
    connection.recv(1)

def timed(action, connection):
    started = perf_counter()
    action(connection)
    return (perf_counter() - started) * 1000

if __name__ == "__main__":
    listener = socket.create_server(("127.0.0.1", 0))
    echoing = multiprocessing.get_context("fork").Process(target=echo, args=(listener,))
    echoing.start()
    idle = socket.create_connection(listener.getsockname())
    node = http.client.HTTPConnection("127.0.0.1", int(sys.argv[1]), timeout=60)
    times = {"node": [], "idle": []}
    while not select.select([sys.stdin], [], [], 0.02)[0]:
        times["node"].append(timed(request, node))
        times["idle"].append(timed(echoed, idle))
    idle.close()
    print(json.dumps(times))
"""
_KIB = 1024


@dataclass(frozen=True, slots=True)
class Watched:
    """A node and its measurements. Times in milliseconds, each with one of an idle process."""

    node: Node
    health_ms: list[float] = field(default_factory=list)
    idle_ms: list[float] = field(default_factory=list)

    def peak_mib(self) -> float:
        """The most memory its process has had."""
        return peak_mib(self.node.pid)


@contextmanager
def watched_node(data: Path, pyz: Path) -> Iterator[Watched]:
    """A node of the built file ``pyz``, or of the checkout where that is not built, while watched.

    The times are there after the block.
    """
    command = (sys.executable, "-I", str(pyz)) if pyz.is_file() else CHECKOUT_COMMAND
    watched = Watched(Node(data, command=command))
    watched.node.start()
    probe = subprocess.Popen(
        [sys.executable, "-I", "-c", _PROBE, str(watched.node.port)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        encoding="utf-8",
    )
    try:
        yield watched
        times = json.loads(probe.communicate("\n")[0])
        watched.health_ms.extend(times["node"])
        watched.idle_ms.extend(times["idle"])
    finally:
        probe.kill()
        probe.wait()
        watched.node.end()


def peak_mib(pid: int) -> float:
    """The most memory a process has had so far; 0 for one that is gone."""
    try:
        status = Path(f"/proc/{pid}/status").read_text("utf-8")
    except (FileNotFoundError, ProcessLookupError):
        return 0.0
    words = status.partition("VmHWM:")[2].split()
    return int(words[0]) / _KIB if words else 0.0
