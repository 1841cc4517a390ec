"""The MCP server: to its first answer, its memory, a call, a search, and cancelled calls."""

import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from time import perf_counter
from typing import Any

from benchmarks.search import QUERIES, write_items
from benchmarks.timing import MS, Figure, elapsed_ms, medians
from tests.support.mcp_client import INITIALIZE, McpClient, envelope_of, request
from tests.support.mcp_server_machine import BASH, children
from tests.support.workspace import Workspace, publish

BETWEEN_PINGS_S = 0.05
STARTS, CALLS, SEARCHES, CANCELLED, ITEMS = 15, 40, 15, 1000, 10_000
MEBIBYTE_IN_KIB = 1024
_SDK_SERVER = """
try:
    from mcp.server.mcpserver import MCPServer as Server
except ImportError:
    from mcp.server.fastmcp import FastMCP as Server

server = Server("bare")


@server.tool()
def hello() -> str:
    return "hi"


server.run()
"""


def figures(pyz: Path, scratch: Path) -> Iterator[Figure]:
    """Rows for the server of the built file; those against the SDK where it is installed."""
    home = scratch / "mcp-home"
    home.mkdir()
    env = {"HOME": str(home), "PATH": os.environ["PATH"]}
    python = str(Path(getattr(sys, "_base_executable", sys.executable)).resolve())
    ours = [python, "-I", "-S", str(pyz), "mcp"]
    sdk = [sys.executable, "-I", "-c", _SDK_SERVER]
    has_sdk = _has_sdk()
    contenders: dict[str, Callable[[], object]] = {
        "python": lambda: _run([python, "-I", "-S", "-c", "pass"], env),
        "rye": lambda: _first_answer(ours, env, scratch),
    }
    if has_sdk:
        contenders["sdk"] = lambda: _first_answer(sdk, env, scratch)
    _first_answer(ours, env, scratch)  # lays out what it keeps
    found = medians(contenders, STARTS)
    name = "mcp, to the first answer"
    yield Figure(name, found["rye"], "python -c pass", found["python"], "at most 2.0")
    if has_sdk:
        yield Figure(name, found["rye"], "a server of the SDK", found["sdk"], "at most 0.10")
    if has_sdk and sys.platform == "linux":
        memory = [_resident_mib(argv, env, scratch) for argv in (ours, sdk)]
        yield Figure("mcp, memory", memory[0], "the SDK", memory[1], "at most 0.33", "MiB")
    yield from _calls(ours, env, scratch)
    yield from _searches(ours, scratch)


def _calls(argv: Sequence[str], env: Mapping[str, str], scratch: Path) -> Iterator[Figure]:
    """A call of a shell tool, and the memory and processes after cancelled calls."""
    bash = shutil.which("bash") or "bash"
    with _client(argv, env, scratch) as client:
        client.initialize()
        call: dict[str, Any] = {"item_id": BASH, "parameters": {"command": "echo hi"}}
        client.envelope("execute", **call)
        found = medians(
            {
                "rye": lambda: client.envelope("execute", **call),
                "floor": lambda: _run([bash, "-c", "echo hi"], env),
            },
            CALLS,
        )
        name, floor_name = "mcp, a call of a shell tool", "subprocess.run"
        yield Figure(name, found["rye"], floor_name, found["floor"], "at most +8 ms")
        slow: dict[str, Any] = {"item_id": BASH, "parameters": {"command": "sleep 600"}}
        for _ in range(CANCELLED):
            client.cancel(client.start_tool("execute", **slow))
        client.envelope("execute", **call)
        left = float(len(children(client.process.pid)))
        yield Figure("mcp, cancelled calls", left, "calls", CANCELLED, "0 left", "processes")


def _searches(argv: Sequence[str], scratch: Path) -> Iterator[Figure]:
    """A search of many items, cold and warm, and how long others wait for a ``ping`` meanwhile."""
    workspace = Workspace(scratch / "mcp-search", (publish(scratch / "mcp-bundle"),))
    write_items(workspace, ITEMS)
    env = {"HOME": str(workspace.home), "PATH": os.environ["PATH"]}
    argv = [*argv, "--project", str(workspace.project_path)]
    with _client(argv, env, scratch) as client:
        client.initialize()
        ping_ms: list[float] = []
        started = perf_counter()
        search = client.start_tool("search", query="print")
        while not client.answers(search):
            ping_ms.append(elapsed_ms(lambda: client.result(client.send("ping"))))
            time.sleep(BETWEEN_PINGS_S)
        cold_ms = (perf_counter() - started) * MS
        envelope_of(client.result(search))
        client.envelope("search", query="print")
        warm = medians({name: _search(client, query) for name, query in QUERIES.items()}, SEARCHES)
        idle_ms = statistics.median(
            elapsed_ms(lambda: client.result(client.send("ping"))) for _ in range(CALLS)
        )
    name = f"mcp, search {ITEMS} items"
    yield Figure(f"{name}, cold", cold_ms, "a ping", idle_ms, "at most 2.5 s")
    for kind, warm_ms in warm.items():
        yield Figure(f"{name}, warm, {kind}", warm_ms, "a ping", idle_ms)
    median = statistics.median(warm.values())
    yield Figure(f"{name}, warm, the median of these", median, "a ping", idle_ms, "at most 30 ms")
    during_ms = statistics.quantiles(ping_ms, n=20)[-1]
    yield Figure("mcp, 95 of 100 pings meanwhile", during_ms, "a ping", idle_ms, "at most 20 ms")


def _search(client: McpClient, query: str) -> Callable[[], object]:
    return lambda: client.envelope("search", query=query)


def _client(argv: Sequence[str], env: Mapping[str, str], scratch: Path) -> McpClient:
    return McpClient(argv, env=env, cwd=scratch, stderr=scratch / "mcp-stderr")


def _first_answer(argv: Sequence[str], env: Mapping[str, str], scratch: Path) -> None:
    """Start a server, send a request, and kill it: with less overhead than a client."""
    initialize = request(1, "initialize", INITIALIZE) + b"\n"
    pipe, null = subprocess.PIPE, subprocess.DEVNULL
    process = subprocess.Popen(
        argv, env=dict(env), cwd=scratch, stdin=pipe, stdout=pipe, stderr=null
    )
    answer = b""
    with process:
        if process.stdin and process.stdout:
            process.stdin.write(initialize)
            process.stdin.flush()
            answer = process.stdout.readline()
        process.kill()
    if b'"result"' not in answer:
        raise RuntimeError(f"no answer: {argv}")


def _resident_mib(argv: Sequence[str], env: Mapping[str, str], scratch: Path) -> float:
    """The memory of a server that has listed its tools."""
    with _client(argv, env, scratch) as client:
        client.initialize()
        client.result(client.send("tools/list"))
        status = Path(f"/proc/{client.process.pid}/status").read_text("ascii")
    line = next(line for line in status.splitlines() if line.startswith("VmRSS"))
    return int(line.split()[1]) / MEBIBYTE_IN_KIB


def _run(argv: Sequence[str], env: Mapping[str, str]) -> None:
    null = subprocess.DEVNULL
    subprocess.run(argv, env=dict(env), check=True, capture_output=True, stdin=null)


def _has_sdk() -> bool:
    from importlib.util import find_spec

    return find_spec("mcp") is not None
