"""Whether this program's own MCP server answers: a child of its own, asked in both eras of MCP.

The child is started as a client starts it, with the command line that `mcp install` writes and no
more environment than clients hand on.
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from lillux.process import ProcessManager
from lillux.process.model import Command, ProcessRunner, SpawnError
from lillux.values import dataclass
from ryeos.cli.findings import FAIL, OK, WARN, Check
from ryeos.cli.output import one_line
from ryeos.cli.server_launch import server_launch
from ryeos.cli.session import Session
from ryeos.clients.launch import Launch
from ryeos.errors import UsageError

TIMEOUT_S = 10.0  # the shortest time that a client waits
SLOW_MS = 3000.0
# What the libraries of MCP hand on to a server, of each platform.
HANDED_ON = [
    "HOME",
    "LOGNAME",
    "PATH",
    "SHELL",
    "TERM",
    "USER",
    "APPDATA",
    "HOMEDRIVE",
    "HOMEPATH",
    "LOCALAPPDATA",
    "PATHEXT",
    "PROCESSOR_ARCHITECTURE",
    "SYSTEMDRIVE",
    "SYSTEMROOT",
    "TEMP",
    "USERNAME",
    "USERPROFILE",
]
_CLIENT = {"name": "rye-doctor", "version": "1"}
_MODERN_VERSION, _LEGACY_VERSION = "2026-07-28", "2025-11-25"
_META = {
    "io.modelcontextprotocol/protocolVersion": _MODERN_VERSION,
    "io.modelcontextprotocol/clientCapabilities": {},
    "io.modelcontextprotocol/clientInfo": _CLIENT,
}


@dataclass(frozen=True, slots=True)
class Era:
    """An era of MCP: the messages that ask for the tools, of which the last is answered by them."""

    version: str
    messages: tuple[Mapping[str, Any], ...]

    @property
    def last_id(self) -> object:
        """The id of the request for the tools."""
        return self.messages[-1]["id"]


MODERN = Era(
    _MODERN_VERSION,
    (
        {"jsonrpc": "2.0", "id": 1, "method": "server/discover", "params": {"_meta": _META}},
        {"jsonrpc": "2.0", "id": 2, "method": "tools/list", "params": {"_meta": _META}},
    ),
)
LEGACY = Era(
    _LEGACY_VERSION,
    (
        {
            "jsonrpc": "2.0",
            "id": 1,
            "method": "initialize",
            "params": {
                "protocolVersion": _LEGACY_VERSION,
                "capabilities": {},
                "clientInfo": _CLIENT,
            },
        },
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": 2, "method": "tools/list"},
    ),
)


def handshake(session: Session) -> Iterator[Check]:
    """Whether the server of this program answers in both eras, and how soon it is done."""
    try:
        launch = server_launch(session)
    except UsageError:
        yield Check("mcp", OK, "not tried: this program was not started from a file")
        return
    env = {name: session.environ[name] for name in HANDED_ON if name in session.environ}
    for era in (MODERN, LEGACY):
        yield handshake_finding(era, launch, env, ProcessManager())


def handshake_finding(
    era: Era, launch: Launch, env: Mapping[str, str], runner: ProcessRunner
) -> Check:
    """What is to be said of a server's answers in an era. It starts in a root folder, as often."""
    sent = b"".join(json.dumps(message).encode() + b"\n" for message in era.messages)
    command = Command(
        argv=launch.argv,
        env={**env, **launch.env},
        cwd=Path(Path(launch.argv[0]).anchor or "/"),
        stdin=sent,
        timeout_s=TIMEOUT_S,
    )
    fix = "try it: rye mcp, and type the line of a request"
    try:
        outcome = runner.run(command)
    except SpawnError as error:
        return Check("mcp", FAIL, f"{era.version}: {error}", fix)
    if outcome.timed_out:
        return Check("mcp", FAIL, f"{era.version}: it did not end within {TIMEOUT_S:g} s", fix)
    problem = _problem(era, outcome.stdout.data)
    if problem:
        said = one_line(outcome.stderr.data.decode("utf-8", "replace"), 300)
        shown = f"{era.version}: {problem}" + (f"; it says: {said}" if said else "")
        return Check("mcp", FAIL, shown, fix)
    message = f"{era.version}: answers, started and ended in {outcome.duration_ms:.0f} ms"
    slow = outcome.duration_ms > SLOW_MS
    return Check("mcp", WARN if slow else OK, message, "clients give up after 10 s" * slow)


def _problem(era: Era, data: bytes) -> str:
    """What is wrong with what a server wrote; nothing if it told its tools."""
    answers: dict[object, Any] = {}
    for line in filter(None, data.split(b"\n")):
        try:
            message = json.loads(line)
        except ValueError:
            return f"expected JSON on standard output, found {line[:60]!r}"
        if isinstance(message, dict) and "id" in message:
            answers[message["id"]] = message
    for request in era.messages:
        if "id" not in request:
            continue
        answer = answers.get(request["id"])
        if answer is None:
            return f"no answer to {request['method']}"
        if "result" not in answer:
            return f"{request['method']}: {one_line(str(answer.get('error')), 200)}"
    tools = answers[era.last_id]["result"]
    listed = tools.get("tools") if isinstance(tools, dict) else None
    return "" if isinstance(listed, list) and listed else "it lists no tools"
