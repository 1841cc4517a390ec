"""A conversation with the server's own parts, in this process: protocol and features, no pipes."""

import json
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator

from lillux.cancellation import Cancellation
from lillux.jsonrpc import Id, as_json
from lillux.mcp_client.versions import CAPABILITIES_KEY, MODERN, VERSION_KEY
from ryeos.app.workspace import Rye
from ryeos.cli.session import own_program
from ryeos.items.context import Context
from ryeos.mcp.features import RyeFeatures, server
from ryeos.mcp.protocol import McpSession
from ryeos.mcp.revisions import Begin, RpcError, Send, SessionEvent
from ryeos.run.threads.start import Program

VECTORS = Path(__file__).resolve().parents[1] / "vectors" / "mcp"
NEWEST_LEGACY = "2025-11-25"
ELICITATION: Mapping[str, Any] = {"elicitation": {"form": {}}}


@cache
def judge(version: str, name: str) -> Any:  # noqa: ANN401 - a function that the library makes
    """A function that raises for a message that does not match its definition."""
    schema = json.loads((VECTORS / f"results-{version}.json").read_text("utf-8"))
    schema |= {"$ref": f"#/$defs/{name}"}
    formats = Draft202012Validator.FORMAT_CHECKER
    return Draft202012Validator(schema, format_checker=formats).validate


class Conversation:
    """A client's view: requests in, answers out, each checked against the official schema.

    version       the revision that every request is of
    capabilities  what the client says it can
    """

    def __init__(
        self,
        rye: Rye,
        *,
        version: str = MODERN,
        capabilities: Mapping[str, Any] | None = None,
        program: Callable[[Context], Program] = own_program,
        **offer: Any,  # noqa: ANN401 - of the server
    ) -> None:
        self.version, self.capabilities = version, dict(capabilities or {})
        self.features = RyeFeatures(lambda: rye, program, lambda: None, **offer)
        options = {name: value for name, value in offer.items() if name != "profile"}
        self.session = McpSession(server("1", "/project", **options))
        self._next_id = 0
        if version != MODERN:
            params = {"protocolVersion": version, "capabilities": self.capabilities}
            list(self.session.receive(_line("initialize", params, 0)))

    def result(self, method: str, definition: str = "", /, **params: Any) -> dict[str, Any]:  # noqa: ANN401
        """The result of a request, which the definition of its revision describes."""
        answer = self.ask(method, **params)
        assert "result" in answer, answer["error"]
        if definition and self.version in {MODERN, NEWEST_LEGACY}:
            judge(self.version, definition)(answer["result"])
        result: dict[str, Any] = answer["result"]
        return result

    def error(self, method: str, /, **params: Any) -> dict[str, Any]:  # noqa: ANN401
        """The error of a request."""
        answer = self.ask(method, **params)
        assert "error" in answer, answer
        judge(MODERN, "JSONRPCErrorResponse")(answer)
        error: dict[str, Any] = answer["error"]
        return error

    def ask(self, method: str, /, **params: Any) -> dict[str, Any]:  # noqa: ANN401
        """The answer to a request."""
        self._next_id += 1
        if self.version == MODERN:
            meta = {VERSION_KEY: MODERN, CAPABILITIES_KEY: self.capabilities}
            params = {"_meta": meta, **params}
        messages = []
        for event in self.session.receive(_line(method, params, self._next_id)):
            messages += [self._outcome(event)] if isinstance(event, Begin) else _sent(event)
        return next(one for one in messages if one.get("id") == self._next_id)

    def _outcome(self, begin: Begin) -> dict[str, Any]:
        call = begin.call
        try:
            result = self.features.answer(call, Cancellation(), lambda *_: None)
            events = list(self.session.succeed(call.id, result))
        except RpcError as error:
            events = list(self.session.fail(call.id, error))
        return _sent(events[0])[0]


def _sent(event: SessionEvent) -> list[dict[str, Any]]:
    return [json.loads(json.dumps(as_json(event.message)))] if isinstance(event, Send) else []


def _line(method: str, params: Mapping[str, Any], request_id: Id) -> bytes:
    message = {"jsonrpc": "2.0", "id": request_id, "method": method, "params": params}
    return json.dumps(message).encode() + b"\n"
