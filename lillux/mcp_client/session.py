"""One MCP call, or a list of tools, as a state machine without input or output.

A transport sends what `ClientSession` gives it, and hands in what came. Its table of transitions
says what an answer means in which state:

(1) PROBING       ``server/discover`` was sent. A server that speaks the modern revision says so;
                  any other answer leads to ``initialize``.
(2) BOTH_SENT     it has not answered the probe for a while: ``initialize`` was sent as well, and
                  the first of both that succeeds decides.
(3) INITIALIZING  ``initialize`` alone is out.
(4) CALLING       ``tools/call`` is out, or ``tools/list``, which is asked for page after page.
                  A call that ``requires`` something of the list asks for it first, in the same
                  conversation: the server that is judged is the one that is called.
(5) OVER          ``outcome`` says what came of it.

What cannot be an answer to what was asked ends the conversation at once: nothing better will come.
A number that is written as text (``"1"``) or as ``1.0`` is that number.
"""

import json
from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any, ClassVar

from lillux.errors import LilluxError
from lillux.jsonrpc import (
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    Failure,
    Id,
    Incoming,
    MalformedMessage,
    Message,
    Notification,
    Request,
    Result,
)
from lillux.mcp_client.versions import (
    CAPABILITIES_KEY,
    CLIENT_KEY,
    KNOWN,
    LEGACY,
    MODERN,
    VERSION_KEY,
    AllowedVersions,
)
from lillux.values import dataclass, field

MAX_TOOLS, MAX_PAGES = 1000, 40


@dataclass(frozen=True, slots=True)
class ToolListing:
    """Asks for every tool; the answer's result is ``{"tools": [...], "truncated": bool}``."""

    method: ClassVar[str] = "tools/list"


class Pages:
    """The tools that came so far. ``next_cursor`` asks for more, ``""`` where that is all."""

    def __init__(self) -> None:
        self._tools: list[Mapping[str, Any]] = []
        self._count = 0
        self._is_cut = False
        self.next_cursor = ""

    def add(self, result: Mapping[str, Any]) -> str:
        """Take a page; what is wrong with it, ``""`` for nothing."""
        tools = result.get("tools")
        if not isinstance(tools, list) or not all(isinstance(tool, dict) for tool in tools):
            return "expected a result whose tools is a list of objects"
        cursor = result.get("nextCursor")
        if not isinstance(cursor, str | None):
            return "expected a result whose nextCursor is a string"
        self._count += 1
        self._tools += tools
        self._is_cut = len(self._tools) > MAX_TOOLS or bool(cursor and self._count == MAX_PAGES)
        self.next_cursor = "" if self._is_cut else cursor or ""
        return ""

    def result(self) -> dict[str, Any]:
        """All of them, at most `MAX_TOOLS`."""
        return {"tools": self._tools[:MAX_TOOLS], "truncated": self._is_cut}


UNSUPPORTED_VERSION = -32022
PROBE_ID, INITIALIZE_ID, CALL_ID = 1, 2, 3
_LONGEST_NOTICE = 500
_ID_DIGITS = 9


class SessionState(Enum):
    """State of a conversation."""

    NEW = "new"
    PROBING = "probing"
    BOTH_SENT = "both sent"
    INITIALIZING = "initializing"
    CALLING = "calling"
    OVER = "over"


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A tool, and its arguments as JSON values.

    ``requires`` gets all tools of the server, ``{"tools": [...], "truncated": bool}``, before the
    call: an error that it gives ends the conversation, and the tool is not called.
    """

    name: str
    arguments: Mapping[str, Any] = field(default_factory=dict, repr=False)
    requires: Callable[[Mapping[str, Any]], LilluxError | None] | None = None
    method: ClassVar[str] = "tools/call"


@dataclass(frozen=True, slots=True)
class ClientInfo:
    """The caller."""

    name: str
    version: str


@dataclass(frozen=True, slots=True)
class ToolAnswer:
    """The tool's answer: a ``CallToolResult`` as it came, and the revision it came in."""

    result: Mapping[str, Any]
    version: str


@dataclass(frozen=True, slots=True)
class Refusal:
    """An error of the server. ``stage`` is the method that it refused."""

    stage: str
    code: int
    message: str
    data: Any = None


@dataclass(frozen=True, slots=True)
class InvalidAnswer:
    """An answer that means nothing in this protocol."""

    problem: str


@dataclass(frozen=True, slots=True)
class Rejection:
    """The list of tools is not what the call requires."""

    error: LilluxError


CallOutcome = ToolAnswer | Refusal | InvalidAnswer | Rejection


@dataclass(frozen=True, slots=True)
class Turn:
    """Outcome of a message: messages to send, in order, and lines for a person."""

    send: tuple[Message, ...] = ()
    notices: tuple[str, ...] = ()


NOTHING = Turn()
Handler = Callable[["ClientSession", Any], Turn]


class ClientSession:
    """See the module. Of one thread.

    answers_probe  whether the server has answered the probe, in whichever way
    noise          the first thing that it wrote and that is no message
    """

    def __init__(
        self, call: ToolCall | ToolListing, client: ClientInfo, wanted: AllowedVersions
    ) -> None:
        self._call, self._client, self._wanted = call, client, wanted
        self._pages, self.call_id = Pages(), CALL_ID
        requires = call.requires if isinstance(call, ToolCall) else None
        self._asks: ToolCall | ToolListing = ToolListing() if requires else call
        self.state = SessionState.NEW
        self.answers_probe = False
        self.noise = ""
        self._was_told_of_notification = False
        self.version = ""
        self.outcome: CallOutcome | None = None

    @property
    def is_modern(self) -> bool:
        """True if what is sent now is of the stateless revision."""
        return self.state is SessionState.PROBING or self.version == MODERN

    @property
    def stage(self) -> str:
        """Name of what is waited for."""
        return (
            self._asks.method if self.state is SessionState.CALLING else "start of the conversation"
        )

    @property
    def step(self) -> tuple[bool, int]:
        """Progress of the conversation: another value after every step."""
        return self.state is SessionState.CALLING, self.call_id

    @property
    def awaits_tool(self) -> bool:
        """True if the tool itself runs, which may take its time; nothing else may."""
        return self.state is SessionState.CALLING and isinstance(self._asks, ToolCall)

    def start(self) -> Turn:
        """The first message."""
        if not self._wanted.modern:
            return self._initialize()
        if not self._wanted.legacy:
            return self._call_out(MODERN)
        self.state = SessionState.PROBING
        return Turn((Request(PROBE_ID, "server/discover", {"_meta": self._meta()}),))

    def probe_is_overdue(self) -> Turn:
        """Send ``initialize`` as well. For transports on which an answer can fail to come."""
        if self.state is not SessionState.PROBING:
            return NOTHING
        turn = self._initialize()
        self.state = SessionState.BOTH_SENT
        return turn

    def receive(self, message: Incoming) -> Turn:
        """Outcome of a message. Whatever it is, this raises nothing."""
        match message:
            case Request():
                return Turn((_reply(message),))
            case Notification():
                return Turn(notices=_notices(message))
            case MalformedMessage():
                return self._malformed(message)
            case Failure(id=None):
                if message.code == METHOD_NOT_FOUND and self._is_of_notification():
                    return Turn(notices=(f"it refuses a notification: {message.message}"[:500],))
                return self._refused_unread(message)
            case Result() | Failure():
                return self._take_answer(message)

    def _take_answer(self, message: Result | Failure) -> Turn:
        given = "" if message.id is None else message.id
        answered = answered_id(given)
        if answered == CALL_ID != self.call_id:
            return NOTHING  # a page that came already
        if not (isinstance(answered, int) and PROBE_ID <= answered <= self.call_id):
            return self._end(InvalidAnswer(_unasked(given)))
        self.answers_probe |= answered == PROBE_ID
        request_id = CALL_ID if answered == self.call_id else answered
        handler = self.TRANSITIONS.get((self.state, request_id, type(message)))
        return handler(self, message) if handler else NOTHING

    def _malformed(self, message: MalformedMessage) -> Turn:
        said = f"not a message ({message.problem}): {message.shown}"
        self.noise = self.noise or message.shown
        is_answer = message.is_answer or message.is_bare
        if not is_answer or self.state is SessionState.OVER:
            return Turn(notices=(said,))
        if message.is_empty and self._is_of_notification():
            return Turn(notices=(said,))
        answered = None if message.id is None else answered_id(message.id)
        if self.state is SessionState.PROBING or answered == PROBE_ID:
            return self.refused(INVALID_REQUEST, message.problem)
        return self._end(InvalidAnswer(said))

    def _is_of_notification(self) -> bool:
        """True if an answer without an id is one to ``notifications/initialized``; once."""
        can_be = self.state is SessionState.CALLING and self.version != MODERN
        is_first, self._was_told_of_notification = not self._was_told_of_notification, True
        return can_be and is_first

    def refused(self, code: int, message: str) -> Turn:
        """The server refused the pending request, without a JSON-RPC answer."""
        return self._refused_unread(Failure(None, code, message))

    def _refused_unread(self, failure: Failure) -> Turn:
        waiting = {
            SessionState.PROBING: PROBE_ID,
            SessionState.INITIALIZING: INITIALIZE_ID,
            SessionState.CALLING: CALL_ID,
        }
        pending = waiting.get(self.state)
        if pending is None:
            return NOTHING
        self.answers_probe |= pending == PROBE_ID
        return self.TRANSITIONS[self.state, pending, Failure](self, failure)

    def _discovered(self, message: Result) -> Turn:
        versions = message.result.get("supportedVersions")
        if isinstance(versions, list) and MODERN in versions:
            return self._call_out(MODERN)
        return self._not_modern(message)

    def _not_modern(self, message: Result | Failure) -> Turn:
        """The probe failed. Only a server that speaks no revision of ours is given up."""
        if self.state is SessionState.BOTH_SENT:
            self.state = SessionState.INITIALIZING
            return NOTHING
        if isinstance(message, Failure) and message.code == UNSUPPORTED_VERSION:
            supported = _supported(message)
            if supported and not set(supported) & set(LEGACY):
                return self._disagree(supported)
        return self._initialize()

    def _initialized(self, message: Result) -> Turn:
        version = message.result.get("protocolVersion")
        if not isinstance(version, str) or version not in LEGACY:
            return self._disagree([version])
        turn = self._call_out(version)
        return Turn((Notification("notifications/initialized"), *turn.send))

    def _not_initialized(self, message: Failure) -> Turn:
        return self._end(Refusal("initialize", message.code, message.message, message.data))

    def _initialize_refused_first(self, _: Failure) -> Turn:
        """The probe may still be answered: a server may speak the stateless revision alone."""
        self.state = SessionState.PROBING
        return NOTHING

    def _answered(self, message: Result) -> Turn:
        kind = message.result.get("resultType", "complete")
        if kind != "complete":
            return self._end(
                InvalidAnswer(f"expected a complete result, got one of type {kind!r}"[:200])
            )
        if isinstance(self._asks, ToolListing):
            return self._take_page(message.result)
        problem = _result_problem(message.result)
        if problem:
            return self._end(InvalidAnswer(problem))
        return self._end(ToolAnswer(message.result, self.version))

    def _take_page(self, result: Mapping[str, Any]) -> Turn:
        problem = self._pages.add(result)
        if problem:
            return self._end(InvalidAnswer(problem))
        if not self._pages.next_cursor:
            call, listed = self._call, self._pages.result()
            if isinstance(call, ToolListing) or call.requires is None:
                return self._end(ToolAnswer(listed, self.version))
            error = call.requires(listed)
            if error:
                return self._end(Rejection(error))
            self._asks = call
        self.call_id += 1
        return self._call_out(self.version)

    def _call_refused(self, message: Failure) -> Turn:
        return self._end(Refusal(self._asks.method, message.code, message.message, message.data))

    def _initialize(self) -> Turn:
        self.state = SessionState.INITIALIZING
        params = {
            "protocolVersion": self._wanted.legacy,
            "capabilities": {},
            "clientInfo": self._client_info(),
        }
        return Turn((Request(INITIALIZE_ID, "initialize", params),))

    def _call_out(self, version: str) -> Turn:
        self.state, self.version = SessionState.CALLING, version
        meta = self._meta() if version == MODERN else {}
        match self._asks:
            case ToolCall(name=name, arguments=arguments):
                meta |= {"progressToken": self.call_id}
                params = {"_meta": meta, "name": name, "arguments": dict(arguments)}
            case ToolListing():
                params = {"_meta": meta} if meta else {}
                params |= {"cursor": self._pages.next_cursor} if self._pages.next_cursor else {}
        return Turn((Request(self.call_id, self._asks.method, params),))

    def _meta(self) -> dict[str, Any]:
        return {
            VERSION_KEY: MODERN,
            CAPABILITIES_KEY: {},
            CLIENT_KEY: self._client_info(),
        }

    def _client_info(self) -> dict[str, str]:
        return {"name": self._client.name, "version": self._client.version}

    def _disagree(self, offered: list[Any]) -> Turn:
        found = ", ".join(str(version) for version in offered)[:200]
        known = ", ".join(KNOWN)
        return self._end(InvalidAnswer(f"expected a revision among {known}, it offers {found}"))

    def _end(self, outcome: CallOutcome) -> Turn:
        self.state, self.outcome = SessionState.OVER, outcome
        return NOTHING

    # What an answer to which of our requests means; any other answer means nothing.
    TRANSITIONS: ClassVar[Mapping[tuple[SessionState, object, type], Handler]] = {
        (SessionState.PROBING, PROBE_ID, Result): _discovered,
        (SessionState.PROBING, PROBE_ID, Failure): _not_modern,
        (SessionState.BOTH_SENT, PROBE_ID, Result): _discovered,
        (SessionState.BOTH_SENT, PROBE_ID, Failure): _not_modern,
        (SessionState.BOTH_SENT, INITIALIZE_ID, Result): _initialized,
        (SessionState.BOTH_SENT, INITIALIZE_ID, Failure): _initialize_refused_first,
        (SessionState.INITIALIZING, INITIALIZE_ID, Result): _initialized,
        (SessionState.INITIALIZING, INITIALIZE_ID, Failure): _not_initialized,
        (SessionState.CALLING, CALL_ID, Result): _answered,
        (SessionState.CALLING, CALL_ID, Failure): _call_refused,
    }


def answered_id(given: Id) -> Id:
    """The number of the request that an answer is to, however the server writes it."""
    if isinstance(given, str) and given.isascii() and given.isdigit() and len(given) <= _ID_DIGITS:
        return int(given)
    return given


def _unasked(given: Id) -> str:
    return f"it answered a request with the id {json.dumps(given)[:80]}, which was never sent"


def cancelled(reason: str, call_id: int = CALL_ID) -> Notification:
    """The notification that cancels a call over a pipe, for servers of every revision."""
    return Notification("notifications/cancelled", {"requestId": call_id, "reason": reason})


def _reply(request: Request) -> Result | Failure:
    """We offer nothing: only ``ping`` has an answer."""
    if request.method == "ping":
        return Result(request.id, {})
    return Failure(request.id, METHOD_NOT_FOUND, f"this client has no {request.method[:100]}")


def _notices(message: Notification) -> tuple[str, ...]:
    """A line for a person, from progress and log notifications."""
    params = message.params
    match message.method:
        case "notifications/progress":
            done, total = params.get("progress"), params.get("total")
            amount = f"{done}/{total}" if total is not None else f"{done}"
            return (_line(f"progress {amount} {params.get('message') or ''}"),)
        case "notifications/message":
            return (_line(f"{params.get('level', 'info')}: {params.get('data')}"),)
        case _:
            return ()


def _line(text: str) -> str:
    return " ".join(text.split())[:_LONGEST_NOTICE]


def _supported(message: Failure) -> list[Any]:
    data = message.data if isinstance(message.data, dict) else {}
    supported = data.get("supported")
    return supported if isinstance(supported, list) else []


def _result_problem(result: Mapping[str, Any]) -> str:
    content = result.get("content", [])
    if not isinstance(content, list) or not all(isinstance(block, dict) for block in content):
        return "expected a result whose content is a list of objects"
    if not isinstance(result.get("isError", False), bool):
        return "expected a result whose isError is a boolean"
    return ""
