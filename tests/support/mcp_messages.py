"""The messages between a client and a server, validated by the official schemas."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator, ValidationError

VECTORS = Path(__file__).resolve().parents[1] / "vectors" / "mcp"
MODERN, NEWEST_LEGACY = "2026-07-28", "2025-11-25"
VERSION_KEY = "io.modelcontextprotocol/protocolVersion"
# The definition of a method's result is named after it, but for these.
RESULTS = {
    "ping": "EmptyResult",
    "initialize": "InitializeResult",
    "server/discover": "DiscoverResult",
    "subscriptions/listen": "SubscriptionsListenResult",
    "tools/list": "ListToolsResult",
    "tools/call": "CallToolResult",
    "prompts/list": "ListPromptsResult",
    "prompts/get": "GetPromptResult",
    "resources/list": "ListResourcesResult",
    "resources/templates/list": "ListResourceTemplatesResult",
    "resources/read": "ReadResourceResult",
    "completion/complete": "CompleteResult",
}

Json = dict[str, Any]


@cache
def judge(version: str, name: str) -> Any:  # noqa: ANN401 - a function that the library makes
    """A validator that raises ValidationError."""
    schema = json.loads((VECTORS / f"{version}.json").read_text("utf-8"))
    schema |= {"$ref": f"#/$defs/{name}"}
    formats = Draft202012Validator.FORMAT_CHECKER
    return Draft202012Validator(schema, format_checker=formats).validate


@dataclass(slots=True)
class Conversation:
    """The messages of one process of a server, in their order.

    open_requests  method and protocol revision of each open request, by its id
    """

    sent: list[Json] = field(default_factory=list)
    heard: list[Json] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    versions: set[str] = field(default_factory=set)
    open_requests: dict[object, tuple[str, str]] = field(default_factory=dict)

    def client_says(self, message: Json) -> None:
        """Record a message of the client, and its request if it is one."""
        self.sent.append(message)
        if "method" in message and "id" in message:
            meta = message.get("params", {}).get("_meta", {})
            version = meta.get(VERSION_KEY, NEWEST_LEGACY)
            self.open_requests[message["id"]] = message["method"], version
            if message["method"] != "server/discover":
                self.versions.add(version)

    def server_says(self, message: Json) -> None:
        """Validate a message by the revision of its request."""
        self.heard.append(message)
        for version, definition, value in self._rules(message):
            try:
                judge(version, definition)(value)
            except ValidationError as error:
                self.problems.append(f"{definition} of {version}: {error.message}: {message}")

    def _rules(self, message: Json) -> Iterator[tuple[str, str, Json]]:
        if "method" in message:
            version = max(self.versions)
            yield version, "JSONRPCNotification", message
            yield version, "ServerNotification", message
            return
        method, version = self.open_requests.pop(message.get("id"), ("", NEWEST_LEGACY))
        if not method:
            self.problems.append(f"an answer to nothing: {message}")
        elif "error" in message:
            yield version, "JSONRPCErrorResponse", message
        else:
            yield version, "JSONRPCResultResponse", message
            yield version, RESULTS[method], message["result"]


def conversations(folder: Path) -> list[Conversation]:
    """The records of `tests.support.mcp_recorder` in a folder, longest first."""
    found = []
    for record in folder.glob("*.jsonl"):
        conversation = Conversation()
        for entry in record.read_text("utf-8").splitlines():
            sender, line = json.loads(entry)
            read_message = (
                conversation.client_says if sender == "client" else conversation.server_says
            )
            read_message(json.loads(line))
        found.append(conversation)
    return sorted(found, key=lambda each: len(each.sent), reverse=True)
