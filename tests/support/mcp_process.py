"""A server on pipes, read and written line by line."""

import json
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from threading import Thread
from typing import Any

META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
}


class McpProcess:
    """Writes bytes, reads messages."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        self._pings = count()

    def write(self, text: bytes) -> None:
        """Send bytes as they are, while the server may already be answering."""
        assert self._process.stdin is not None
        self._process.stdin.write(text)
        self._process.stdin.flush()

    def read(self) -> dict[str, Any]:
        """The next message. Fails the test when the server is gone."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, "the server has ended"
        message: dict[str, Any] = json.loads(line)
        return message

    def answers(self, text: bytes) -> list[dict[str, Any]]:
        """The messages until the ping after these bytes is answered."""
        last = f"ping-{next(self._pings)}"
        ping = json.dumps({"jsonrpc": "2.0", "id": last, "method": "ping"}).encode()
        writer = Thread(target=self.write, args=(text + b"\n" + ping + b"\n",))
        writer.start()
        messages = []
        while (message := self.read()).get("id") != last:
            messages.append(message)
        writer.join()
        assert message["result"] == {}
        return messages


def request(request_id: object, method: str, **params: object) -> bytes:
    """A request of the modern revision, as a line without its end."""
    message = {"jsonrpc": "2.0", "id": request_id, "method": method}
    return json.dumps({**message, "params": {"_meta": META, **params}}).encode()


@contextmanager
def mcp_process(
    command: Sequence[str | Path], *, cwd: Path, environ: Mapping[str, str]
) -> Iterator[McpProcess]:
    """A server while a block runs, which has to end by itself when its input does."""
    with subprocess.Popen(
        command, cwd=cwd, env=environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        try:
            yield McpProcess(process)
            process.communicate(timeout=30)
        finally:
            process.kill()
    assert process.returncode == 0
