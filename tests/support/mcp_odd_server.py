"""An MCP server over standard input and output that behaves as its first argument says.

Needs nothing but Python, so that it starts fast; every behaviour is one that real servers have.
"""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from typing import Any

BEHAVIOUR = sys.argv[1] if len(sys.argv) > 1 else "plain"
VERSION = "2025-11-25"


def write(message: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def read() -> dict[str, Any]:
    line = sys.stdin.readline()
    if not line:
        at_the_end()
        raise SystemExit(0)
    message: dict[str, Any] = json.loads(line)
    return message


def at_the_end() -> None:
    if BEHAVIOUR == "stays":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        while True:
            signal.pause()


def refuse(message: dict[str, Any], code: int, text: str) -> None:
    write({"id": message["id"], "error": {"code": code, "message": text}})


def initialize(message: dict[str, Any]) -> None:
    version = message["params"]["protocolVersion"]
    info = {"name": "odd", "version": "1"}
    result = {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": info}
    write({"id": message["id"], "result": result})


def answer(message: dict[str, Any], text: str, **more: object) -> None:
    content = [{"type": "text", "text": text}]
    write({"id": message["id"], "result": {"content": content, **more}})


def ask(method: str) -> dict[str, Any]:
    """Send a request to the client; its answer."""
    write({"id": "mine", "method": method, "params": {}})
    return read()


def call(message: dict[str, Any]) -> None:
    CALLS.get(BEHAVIOUR, tell_everything)(message)


def tell_everything(message: dict[str, Any]) -> None:
    received = {
        "arguments": message["params"]["arguments"],
        "argv": sys.argv[1:],
        "env": dict(os.environ),
    }
    answer(message, json.dumps(received))


def ask_the_client(message: dict[str, Any]) -> None:
    answer(message, json.dumps([ask("ping"), ask("sampling/createMessage")]))


def never_answer(_: dict[str, Any]) -> None:
    write({"method": "notifications/message", "params": {"data": "wait"}})
    signal.pause()


def crash(_: dict[str, Any]) -> None:
    sys.stderr.write("Traceback\nboom\n")
    raise SystemExit(3)


def write_garbage(message: dict[str, Any]) -> None:
    sys.stdout.write("Listening on stdio\n\n\x00\xff{]\n")
    answer(message, "after garbage")


def write_without_end(_: dict[str, Any]) -> None:
    while True:
        sys.stdout.write("x" * 65536)


def tell(message: dict[str, Any]) -> None:
    token = message["params"]["_meta"]["progressToken"]
    progress = {"progressToken": token, "progress": 1, "total": 2, "message": "half"}
    write({"method": "notifications/progress", "params": progress})
    write({"method": "notifications/message", "params": {"level": "info", "data": "hi"}})
    answer(message, "reported")


def flood_stderr(message: dict[str, Any]) -> None:
    for _ in range(100):
        sys.stderr.write("e" * 65536)
    sys.stderr.write("the end")
    answer(message, "flooded")


def leave_a_child(message: dict[str, Any]) -> None:
    subprocess.Popen(["sleep", "600"], close_fds=False, stdin=subprocess.DEVNULL)
    answer(message, "left")


def end_in_the_line(message: dict[str, Any]) -> None:
    content = [{"type": "text", "text": "the last line"}]
    answered = {"jsonrpc": "2.0", "id": message["id"], "result": {"content": content}}
    sys.stdout.write("\ufeff" + json.dumps(answered))
    sys.stdout.flush()
    raise SystemExit(0)


CALLS: dict[str, Callable[[dict[str, Any]], None]] = {
    "asks": ask_the_client,
    "crashes in a call": crash,
    "ends in the line": end_in_the_line,
    "fails": lambda message: answer(message, "it went wrong", isError=True),
    "floods stderr": flood_stderr,
    "leaves a child": leave_a_child,
    "never answers": never_answer,
    "refuses": lambda message: refuse(message, -32602, "unknown tool"),
    "strange": lambda message: write({"id": message["id"], "result": {"content": "text"}}),
    "tells": tell,
    "writes garbage": write_garbage,
    "writes too much": lambda m: answer(m, "x" * int(m["params"]["arguments"]["size"])),
    "writes without end": write_without_end,
}


def probed(message: dict[str, Any]) -> None:
    match BEHAVIOUR:
        case "ends at a probe":
            raise SystemExit(1)
        case "silent to a probe" | "silent to all":
            pass
        case "talks":
            sys.stdout.write("Welcome to my server!\n")
            sys.stdout.flush()
        case "slow to a probe":
            initialized = read()
            result = {"supportedVersions": ["2026-07-28"], "resultType": "complete"}
            write({"id": message["id"], "result": result})
            refuse(initialized, -32022, "only the modern revisions")
        case _:
            refuse(message, -32601, "Method not found")


def serve() -> None:
    while True:
        message = read()
        match message["method"]:
            case "server/discover":
                probed(message)
            case "initialize" if BEHAVIOUR == "refuses to begin":
                refuse(message, -32603, "no licence")
            case "initialize" if BEHAVIOUR not in {"silent to all", "talks"}:
                initialize(message)
            case "tools/call":
                call(message)


if BEHAVIOUR == "crashes":
    sys.stderr.write("ImportError: no module named nothing\n")
    raise SystemExit(1)
if BEHAVIOUR == "never reads":
    signal.pause()
if hasattr(sys.stdout, "reconfigure"):
    sys.stdout.reconfigure(encoding="utf-8", errors="surrogateescape")
serve()
