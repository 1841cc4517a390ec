"""aimock of npm: a provider of models in all dialects, with a journal of what it was asked."""

import json
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any
from urllib.request import Request, urlopen

from tests.support.programs import require_program, unavailable
from tests.support.workspace import ROOT

_MODULE = (
    ROOT / "build" / "aimock" / "node_modules" / "@copilotkit" / "aimock" / "dist" / "index.js"
)
USAGE: Mapping[str, Mapping[str, int]] = {
    "anthropic-messages": {"input_tokens": 120, "output_tokens": 15},
    "openai-chat": {"prompt_tokens": 120, "completion_tokens": 15, "total_tokens": 135},
    "openai-responses": {"input_tokens": 120, "output_tokens": 15, "total_tokens": 135},
}
"""What a fixture reports, by the names of its dialect: without it aimock says 0."""


class Aimock:
    """A running aimock. ``url`` is the base address of a provider."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process
        self._root = self._line()
        self.url = f"{self._root}/v1"

    def reset(self) -> None:
        """Forget fixtures, journal and chaos."""
        self._ask("POST", "reset", {})

    def add(self, *fixtures: Mapping[str, Any]) -> None:
        """Add fixtures: the first one that matches answers."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(fixtures) + "\n")
        self._process.stdin.flush()
        assert self._line() == "added"

    def journal(self) -> list[dict[str, Any]]:
        """The requests that came, the first one first."""
        entries = self._ask("GET", "journal")
        return [one for one in entries if not one["path"].startswith("/__aimock")]

    def _line(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()

    def _ask(self, method: str, path: str, document: object = None) -> Any:  # noqa: ANN401 - JSON
        data = None if document is None else json.dumps(document).encode()
        headers = {"content-type": "application/json"}
        request = Request(f"{self._root}/__aimock/{path}", data, headers, method=method)  # noqa: S310 - loopback
        with urlopen(request, timeout=20) as reply:  # noqa: S310 - loopback
            return json.load(reply)


@contextmanager
def running_aimock() -> Iterator[Aimock]:
    """An aimock while a block runs. Skips where it is not installed."""
    node = require_program("node")
    if not _MODULE.is_file():
        unavailable("aimock is not installed: scripts/install_model_servers")
    process = subprocess.Popen(
        [str(node), str(ROOT / "tests" / "support" / "aimock.mjs"), str(_MODULE)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        encoding="utf-8",
    )
    try:
        yield Aimock(process)
    finally:
        process.kill()
        process.communicate()


def said(dialect: str, text: str, *, turn: int | None = None, **more: Any) -> dict[str, Any]:  # noqa: ANN401
    """A fixture that answers with a text, at a turn of the conversation."""
    return _fixture(dialect, {"content": text}, turn, more)


def called(
    dialect: str,
    calls: Sequence[tuple[str, Mapping[str, Any] | str]],
    *,
    turn: int | None = None,
    **more: Any,  # noqa: ANN401
) -> dict[str, Any]:
    """A fixture that calls tools, each a name with its arguments or their text."""
    wanted = [
        {
            "name": name,
            "arguments": given if isinstance(given, str) else json.dumps(dict(given)),
            "id": f"call_{turn}_{place}",
        }
        for place, (name, given) in enumerate(calls)
    ]
    return _fixture(dialect, {"toolCalls": wanted}, turn, more)


def refused(status: int, message: str, **more: Any) -> dict[str, Any]:  # noqa: ANN401
    """A fixture that answers with an error status."""
    response = {"error": {"message": message, "type": "rate_limit_error"}, "status": status}
    after = more.pop("retryAfter", None)
    return {
        "match": more.pop("match", {}),
        "response": {**response, **({} if after is None else {"retryAfter": after})},
        **more,
    }


def _fixture(
    dialect: str, response: Mapping[str, Any], turn: int | None, more: Mapping[str, Any]
) -> dict[str, Any]:
    match = {} if turn is None else {"turnIndex": turn}
    return {
        "match": {**match, **more.get("match", {})},
        "response": {**response, "usage": dict(USAGE[dialect])},
        **{name: value for name, value in more.items() if name != "match"},
    }
