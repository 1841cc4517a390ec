"""An MCP server over standard input and output that behaves as its first argument says.

Needs nothing but Python, so that it starts fast; every behaviour is one that real servers have.
"""

import json
import os
import signal
import subprocess
import sys
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
    """A request to the client, and what it says."""
    write({"id": "mine", "method": method, "params": {}})
    return read()


def call(message: dict[str, Any]) -> None:
    arguments = message["params"]["arguments"]
    match BEHAVIOUR:
        case "asks":
            answer(message, json.dumps([ask("ping"), ask("sampling/createMessage")]))
        case "never answers":
            write({"method": "notifications/message", "params": {"data": "wait"}})
            signal.pause()
        case "crashes in a call":
            sys.stderr.write("Traceback\nboom\n")
            raise SystemExit(3)
        case "writes garbage":
            sys.stdout.write("Listening on stdio\n\n\x00\xff{]\n")
            answer(message, "after garbage")
        case "writes too much":
            answer(message, "x" * int(arguments["size"]))
        case "writes without end":
            while True:
                sys.stdout.write("x" * 65536)
        case "tells":
            token = message["params"]["_meta"]["progressToken"]
            progress = {"progressToken": token, "progress": 1, "total": 2, "message": "half"}
            write({"method": "notifications/progress", "params": progress})
            write({"method": "notifications/message", "params": {"level": "info", "data": "hi"}})
            answer(message, "told")
        case "floods stderr":
            for _ in range(100):
                sys.stderr.write("e" * 65536)
            sys.stderr.write("the end")
            answer(message, "flooded")
        case "leaves a child":
            subprocess.Popen(["sleep", "600"], close_fds=False, stdin=subprocess.DEVNULL)
            answer(message, "left")
        case "refuses":
            refuse(message, -32602, "unknown tool")
        case "fails":
            answer(message, "it went wrong", isError=True)
        case "strange":
            write({"id": message["id"], "result": {"content": "text"}})
        case _:
            told = {"arguments": arguments, "argv": sys.argv[1:], "env": dict(os.environ)}
            answer(message, json.dumps({**told, "cwd": os.getcwd()}))  # noqa: PTH109


def serve() -> None:
    if BEHAVIOUR == "crashes":
        sys.stderr.write("ImportError: no module named nothing\n")
        raise SystemExit(1)
    if BEHAVIOUR == "never reads":
        signal.pause()
    probe: dict[str, Any] = {}
    while True:
        message = read()
        match message["method"]:
            case "server/discover" if BEHAVIOUR == "ends at a probe":
                raise SystemExit(1)
            case "server/discover" if BEHAVIOUR == "silent to a probe":
                pass
            case "server/discover" if BEHAVIOUR == "slow to a probe":
                probe = message
            case "server/discover":
                refuse(message, -32601, "Method not found")
            case "initialize" if BEHAVIOUR == "slow to a probe":
                result = {"supportedVersions": ["2026-07-28"], "resultType": "complete"}
                write({"id": probe["id"], "result": result})
                refuse(message, -32022, "only the modern era")
            case "initialize" if BEHAVIOUR == "refuses to begin":
                refuse(message, -32603, "no licence")
            case "initialize":
                initialize(message)
            case "tools/call":
                call(message)


if hasattr(sys.stdout, "reconfigure"):
    sys.stdout.reconfigure(encoding="utf-8", errors="surrogateescape")
serve()
