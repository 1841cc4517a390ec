"""A small client of MCP over real pipes, which keeps every line of the server."""

import json
import os
import subprocess
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from threading import Condition, Thread
from time import monotonic
from types import TracebackType
from typing import Any, Self

PATIENCE_S = 60.0
LEGACY, MODERN = "2025-11-25", "2026-07-28"
_CLIENT = {"name": "rye-tests", "version": "1"}
INITIALIZE = {"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": _CLIENT}
MODERN_META = {
    "io.modelcontextprotocol/protocolVersion": MODERN,
    "io.modelcontextprotocol/clientCapabilities": {},
}


class McpClient:
    """One server, started now. Keeps every message and every other line.

    Use as a context: leaving it ends the server by force, if it still runs.
    """

    def __init__(
        self, argv: Sequence[str | Path], *, env: Mapping[str, str], cwd: Path, stderr: Path
    ) -> None:
        with stderr.open("wb") as errors:
            self.process = subprocess.Popen(
                argv,
                env=dict(env),
                cwd=cwd,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
            )
        self._stderr = stderr
        self.messages: list[dict[str, Any]] = []
        self.longest_line = 0
        self.noise: list[bytes] = []
        self._news = Condition()
        self._is_over = False
        self._last_id = 0
        self._reader = Thread(target=self._read, daemon=True)
        self._reader.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.process.kill()
        self.process.wait()
        self._reader.join(PATIENCE_S)
        for stream in (self.process.stdin, self.process.stdout):
            if stream:
                with suppress(OSError):
                    stream.close()

    @property
    def stderr(self) -> str:
        """What the server has written to standard error."""
        return self._stderr.read_text("utf-8", "replace")

    # ------------------------------------------------------------------ sending

    def write(self, *lines: bytes) -> None:
        """Write lines as they are."""
        assert self.process.stdin
        self.process.stdin.write(b"".join(line + b"\n" for line in lines))
        self.process.stdin.flush()

    def send(self, method: str, params: Mapping[str, Any] | None = None) -> int:
        """Send a request; its id."""
        self._last_id += 1
        self.write(request(self._last_id, method, params))
        return self._last_id

    def notify(self, method: str, params: Mapping[str, Any] | None = None) -> None:
        """Send a notification."""
        message = {"jsonrpc": "2.0", "method": method, "params": params or {}}
        self.write(json.dumps(message).encode())

    def cancel(self, request_id: int) -> None:
        """Cancel a request."""
        self.notify("notifications/cancelled", {"requestId": request_id})

    def start_tool(self, name: str, meta: Mapping[str, Any] | None = None, **arguments: Any) -> int:  # noqa: ANN401 - JSON
        """Send a call of a tool; its id."""
        params: dict[str, Any] = {"name": name, "arguments": arguments}
        return self.send("tools/call", params | ({"_meta": meta} if meta else {}))

    def close_stdin(self) -> None:
        """Say that no more requests follow."""
        assert self.process.stdin
        self.process.stdin.close()

    # ------------------------------------------------------------------ answers

    def initialize(self) -> dict[str, Any]:
        """Begin a conversation by the legacy revisions; the result of initialize."""
        result = self.result(self.send("initialize", INITIALIZE))
        self.notify("notifications/initialized")
        return result

    def answer(self, request_id: int, patience_s: float = PATIENCE_S) -> dict[str, Any]:
        """The answer to a request: a result or an error. Fails the test when there is none."""
        found: list[dict[str, Any]] = []

        def is_there() -> bool:
            found[:] = self.answers(request_id)
            return bool(found)

        self.wait_until(is_there, f"no answer to {request_id}", patience_s)
        return found[0]

    def answers(self, request_id: int) -> list[dict[str, Any]]:
        """All answers to a request so far."""
        return [m for m in self.messages if m.get("id") == request_id]

    def result(self, request_id: int, patience_s: float = PATIENCE_S) -> dict[str, Any]:
        """The result of a request. Fails the test for an error."""
        answer = self.answer(request_id, patience_s)
        assert "result" in answer, answer
        found: dict[str, Any] = answer["result"]
        return found

    def call(self, name: str, **arguments: Any) -> dict[str, Any]:  # noqa: ANN401 - JSON
        """The result of a tool."""
        return self.result(self.start_tool(name, **arguments))

    def envelope(self, name: str, **arguments: Any) -> dict[str, Any]:  # noqa: ANN401 - JSON
        """The envelope that a tool answers with, after a look at its two forms."""
        return envelope_of(self.call(name, **arguments))

    def notifications(self, method: str) -> list[dict[str, Any]]:
        """The parameters of all notifications of a method so far."""
        return [m["params"] for m in self.messages if m.get("method") == method and "id" not in m]

    def wait_until(
        self,
        is_reached: Callable[[], object],
        problem: str,
        patience_s: float = PATIENCE_S,
    ) -> None:
        """Read messages until the condition is true."""
        deadline = monotonic() + patience_s
        with self._news:
            while not is_reached():
                left_s = deadline - monotonic()
                assert left_s > 0 and not self._is_over, f"{problem}; it says: {self.stderr}"  # noqa: PT018
                self._news.wait(left_s)

    def await_end(self, patience_s: float = PATIENCE_S) -> int:
        """The status that the server ends with; all that it wrote was read."""
        status = self.process.wait(patience_s)
        self._reader.join(patience_s)
        return status

    def _read(self) -> None:
        assert self.process.stdout
        for line in self.process.stdout:
            with self._news:
                self.longest_line = max(self.longest_line, len(line))
                try:
                    message = json.loads(line)
                except ValueError:
                    self.noise.append(line)
                else:
                    self.messages += message if isinstance(message, list) else [message]
                self._news.notify_all()
        with self._news:
            self._is_over = True
            self._news.notify_all()


def request(request_id: object, method: str, params: Mapping[str, Any] | None = None) -> bytes:
    """The line of a request."""
    message = {"jsonrpc": "2.0", "id": request_id, "method": method, "params": params or {}}
    return json.dumps(message).encode()


def envelope_of(result: Mapping[str, Any]) -> dict[str, Any]:
    """The structure of a result of a tool, whose text must not be empty."""
    structure: dict[str, Any] = result["structuredContent"]
    assert result["content"][0]["text"]
    assert result["isError"] == (structure["status"] == "error")
    return structure


def is_running(pid: int) -> bool:
    """Whether a process is there and no zombie."""
    try:
        os.kill(pid, 0)
        stat = Path(f"/proc/{pid}/stat").read_text("utf-8", "replace")
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return stat.rpartition(")")[2].split()[0] != "Z"
