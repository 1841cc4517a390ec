"""What the headers of a POST say about the message in it. Pure.

From 2026-07-28 on a server may route and refuse by headers alone, so method, name and revision
stand there as well, and the arguments that the tool's schema marks with ``x-mcp-header``.
"""

import base64
import re
from collections.abc import Iterator, Mapping
from typing import Any

from lillux.jsonrpc import Message, Notification, Request
from lillux.mcp_client.versions import MODERN, VERSION_KEY

_PLAIN = re.compile(r"[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?")
_WRAPPED = re.compile(r"=\?base64\?.*\?=")
_HEADER_NAME = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_SESSION_ID = re.compile(r"[\x21-\x7e]{1,1024}")
_DEPTH = 20


def message_headers(
    message: Message, *, version: str, session_id: str, schema: Mapping[str, Any] | None
) -> dict[str, str]:
    """The headers for one message.

    version     the negotiated one, ``""`` before that
    session_id  of the older era, ``""`` for none
    schema      of the tool's arguments
    """
    headers = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
    if isinstance(message, Request) and _is_modern(message):
        headers |= {"MCP-Protocol-Version": MODERN, "Mcp-Method": message.method}
        name = message.params.get("name")
        if isinstance(name, str):
            headers["Mcp-Name"] = header_value(name)
            headers |= dict(_argument_headers(schema or {}, message.params.get("arguments")))
        return headers
    if version:
        headers["MCP-Protocol-Version"] = version
    if session_id:
        headers["Mcp-Session-Id"] = session_id
    return headers


def header_value(text: str) -> str:
    """The text, wrapped in base64 unless a header carries it unchanged."""
    if _PLAIN.fullmatch(text) and not _WRAPPED.fullmatch(text):
        return text
    encoded = base64.b64encode(text.encode("utf-8", "surrogatepass")).decode("ascii")
    return f"=?base64?{encoded}?="


def usable_session_id(text: str) -> str:
    """The id if it has the shape that one must have, else ``""``."""
    return text if _SESSION_ID.fullmatch(text) else ""


def _is_modern(message: Request | Notification) -> bool:
    meta = message.params.get("_meta")
    return isinstance(meta, Mapping) and meta.get(VERSION_KEY) == MODERN


def _argument_headers(schema: object, value: object, depth: int = 0) -> Iterator[tuple[str, str]]:
    """A header for every marked property that has a value, through objects inside objects."""
    properties = schema.get("properties") if isinstance(schema, Mapping) else None
    if not isinstance(properties, Mapping) or not isinstance(value, Mapping) or depth > _DEPTH:
        return
    for name, part in properties.items():
        given = value.get(name)
        if given is None or not isinstance(part, Mapping):
            continue
        marked = part.get("x-mcp-header")
        if isinstance(marked, str) and _HEADER_NAME.fullmatch(marked):
            match given:
                case bool():
                    yield f"Mcp-Param-{marked}", "true" if given else "false"
                case str() | int():
                    yield f"Mcp-Param-{marked}", header_value(str(given))
        yield from _argument_headers(part, given, depth + 1)
