"""The log of a server: lines as text or as JSON, and the request that each line belongs to.

A request has a record from its first byte to the end of its answer. Context variables carry it into
the threads of the request and into the executions that it starts, so that a line says which request
it is about, wherever it is written. Page: ``docs/operating.md``.
"""

import json
import logging
import os
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime
from ipaddress import (
    IPv4Address,
    IPv4Network,
    IPv6Address,
    IPv6Network,
    ip_address,
    ip_network,
)
from typing import Any

from starlette.datastructures import Headers

# --- records --------------------------------------------------------------------------------------


class RequestRecord:
    """What the log says about one request. It is filled in as the request is served.

    client  the address that the request came from, as `client_address` finds it
    route   the template of its route, like ``/threads/{thread_id}``; "" before one is found
    user    who sent it, once that is known
    status  of the answer; 0 before there is one
    """

    __slots__ = (
        *("client", "duration_ms", "method", "request_id", "route", "status", "trace_id", "user"),
    )

    def __init__(self, request_id: str, *, client: str, method: str) -> None:
        self.request_id, self.client, self.method = request_id, client, method
        self.route = self.user = self.trace_id = ""
        self.status, self.duration_ms = 0, 0.0

    def facts(self) -> dict[str, Any]:
        """What is known by now, by the names that lines in JSON have."""
        found = {name: getattr(self, name) for name in _REQUEST_FACTS}
        if self.status:
            found["duration_ms"] = round(self.duration_ms, 1)
        return {name: value for name, value in found.items() if value}


_REQUEST_FACTS = ("request_id", "user", "client", "method", "route", "status", "trace_id")
_request: ContextVar[RequestRecord | None] = ContextVar("request", default=None)
_execution: ContextVar[str] = ContextVar("execution", default="")


def current_request() -> RequestRecord | None:
    """The request that this code works for, in whichever thread; None where it is for none."""
    return _request.get()


def note_user(user_id: str) -> None:
    """Record who sent the current request, if there is one."""
    record = _request.get()
    if record is not None:
        record.user = user_id


@contextmanager
def in_request(record: RequestRecord) -> Iterator[None]:
    """Mark the log lines of a block as those of a request."""
    token = _request.set(record)
    try:
        yield
    finally:
        _request.reset(token)


@contextmanager
def in_execution(thread_id: str) -> Iterator[None]:
    """Mark the log lines of a block as those of an execution."""
    token = _execution.set(thread_id)
    try:
        yield
    finally:
        _execution.reset(token)


# --- lines ----------------------------------------------------------------------------------------

_TEXT = "%(asctime)s %(levelname)s %(name)s: %(message)s"


class TextLines(logging.Formatter):
    """Lines for people; one of a request ends with the number of that request."""

    def __init__(self) -> None:
        super().__init__(_TEXT)

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - logging's name
        """The line without a trace."""
        request = _request.get()
        line = super().formatMessage(record)
        return line if request is None else f"{line} [{request.request_id}]"


class JsonLines(logging.Formatter):
    """One JSON object a line, in ASCII: no text that is logged can begin another line."""

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        created = datetime.fromtimestamp(record.created, UTC)
        line: dict[str, Any] = {
            "time": created.isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        request = _request.get()
        if request is not None:
            line |= request.facts()
        if thread_id := _execution.get():
            line["thread_id"] = thread_id
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)


def log_to_stderr(level: str) -> None:
    """Log everything as a line on standard error, ``level`` being a name of `logging`."""
    known = logging.getLevelNamesMapping()
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(TextLines())
    logging.basicConfig(level=known.get(level.upper(), logging.INFO), handlers=[handler])
    for name in ("uvicorn", "mcp", "alembic.runtime.plugins"):  # we log starts and ends ourselves
        logging.getLogger(name).setLevel(max(logging.WARNING, logging.getLogger().level))
    logging.captureWarnings(capture=True)


def log_as_json() -> None:
    """Write lines as JSON from now on: settings are read after the first lines may be needed."""
    for handler in logging.getLogger().handlers:
        if isinstance(handler.formatter, TextLines):
            handler.setFormatter(JsonLines())


# --- client addresses -----------------------------------------------------------------------------
# Where a request came from. What a header says counts only from a proxy that is trusted: any client
# can write such a header. It is read from the right, since proxies add their entry there.

Network = IPv4Network | IPv6Network
_Address = IPv4Address | IPv6Address

_MAX_HEADER_CHARACTERS = 4096
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_ELEMENT = re.compile(r'(?:[^,"]|"(?:[^"\\]|\\.)*")+')
_FOR = re.compile(r'(?:^|;)\s*for=("?)([^";]*)\1\s*(?:;|$)', re.IGNORECASE)
_FORWARDING = ("x-forwarded-for", "forwarded", "x-real-ip", "via")


def networks_of(texts: Sequence[str]) -> tuple[Network, ...]:
    """The networks of texts like ``10.0.0.0/8``. Raises ValueError."""
    return tuple(ip_network(text) for text in texts)


def client_address(peer: str, headers: Headers, trusted: Sequence[Network]) -> str:
    """The address that a request came from.

    It is the last one in ``X-Forwarded-For`` or ``Forwarded`` that is not of a trusted proxy;
    ``peer``, the other end of the connection, where that is not trusted itself. Where both headers
    are there and differ, one of them may be the sender's own, and neither is believed.
    """
    if not is_trusted(peer, trusted):
        return peer
    found = peer
    for hop in reversed(_hops(headers)):
        address = _address(hop)
        if address is None:
            break
        found = str(address)
        if not is_trusted(found, trusted):
            break
    return found


def is_trusted(address: str, trusted: Sequence[Network]) -> bool:
    """Whether an address lies in one of the networks."""
    parsed = _address(address)
    return parsed is not None and any(parsed in network for network in trusted)


def is_direct_loopback(peer: str, headers: Headers) -> bool:
    """Whether a request comes from this machine, and no proxy says that it handed it on."""
    address = _address(peer)
    local = address is not None and address.is_loopback
    return local and not any(name in headers for name in _FORWARDING)


def request_id_of(peer: str, headers: Headers, trusted: Sequence[Network]) -> str:
    """The number of a request: that of a trusted proxy if it is a plain word, else a new one."""
    given = headers.get("x-request-id", "")
    if _ID.fullmatch(given) and is_trusted(peer, trusted):
        return given
    return os.urandom(8).hex()


def _hops(headers: Headers) -> list[str]:
    """The addresses that proxies wrote, the nearest one last."""
    listed = ",".join(headers.getlist("x-forwarded-for"))
    standard = ",".join(headers.getlist("forwarded"))
    if len(listed) + len(standard) > _MAX_HEADER_CHARACTERS:
        return []
    hops = [one.strip() for one in listed.split(",")] if listed else []
    elements = [_for(one.strip()) for one in _ELEMENT.findall(standard)]
    if hops and elements and [*map(_address, hops)] != [*map(_address, elements)]:
        return []
    return hops or elements


def _for(element: str) -> str:
    matched = _FOR.search(element)
    return matched[2] if matched else ""


def _address(text: str) -> _Address | None:
    """An address, also with a port behind it; None for any other text."""
    if text.startswith("["):
        text = text[1:].partition("]")[0]
    elif text.count(":") == 1:
        text = text.partition(":")[0]
    try:
        parsed = ip_address(text)
    except ValueError:
        return None
    mapped = parsed.ipv4_mapped if isinstance(parsed, IPv6Address) else None
    return mapped or parsed
