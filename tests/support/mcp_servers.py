"""MCP servers that tests start: where their files are, and those over HTTP while a block runs."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

SUPPORT = Path(__file__).resolve().parent
ODD_SERVER = SUPPORT / "mcp_odd_server.py"
SDK_SERVER = SUPPORT / "mcp_sdk_server.py"
LISTING_SERVER = SUPPORT / "mcp_listing_server.py"


@contextmanager
def sdk_over_http(kind: str) -> Iterator[str]:
    """The address of a server of the official SDK: ``stream``, ``json``, ``stateless``, ``sse``."""
    with subprocess.Popen(
        [sys.executable, "-I", SDK_SERVER, kind],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        encoding="utf-8",
    ) as server:
        try:
            assert server.stdout is not None
            port = int(server.stdout.readline())
            yield f"http://127.0.0.1:{port}/{'sse' if kind == 'sse' else 'mcp'}"
        finally:
            server.kill()
