"""The protocol of the MCP server, for all revisions. Pure: bytes in, events out.

A line is decoded, a message judged by the rules of its revision, and an event says what is to be
done: a line to send, a call to begin, a call to end. The code that carries out a call hands in its
result.
Nothing here knows what the server offers; `Server` says it.

Which rules hold is decided for each request:

(1) its ``_meta`` names a revision       the modern rules, whatever was before
(2) ``initialize``                       the legacy rules; its revision counts for what follows
(3) ``ping``                             answered, always
(4) any other, after an ``initialize``   the legacy rules
(5) any other                            an error that says both ways to begin
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from lillux.jsonrpc import (
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    Failure,
    Id,
    Incoming,
    LineDecoder,
    MalformedMessage,
    Notification,
    OverlongLine,
    Request,
    Result,
    parse_messages,
)
from lillux.mcp_client.versions import CAPABILITIES_KEY, KNOWN, VERSION_KEY
from ryeos.mcp.revisions import (
    BATCHES,
    Begin,
    Cancel,
    McpCall,
    McpCaller,
    RpcError,
    Send,
    Server,
    SessionEvent,
    Watch,
    client_name,
    fitted_info,
    fitted_result,
    modern_caller,
    negotiated,
)

TYPE_CHECKING = False  # importing typing costs more than this start may take

if TYPE_CHECKING:
    from typing import Any

    from ryeos.mcp.legacy_questions import Questions
    from ryeos.mcp.subscriptions import Subscriptions


MAX_LINE_BYTES = 16 * 1024 * 1024
MAX_DEPTH = 200
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class McpSession:
    """One conversation. Of one thread at a time."""

    def __init__(self, server: Server, *, max_line_bytes: int = MAX_LINE_BYTES) -> None:
        self._server = server
        self._lines = LineDecoder(max_line_bytes)
        self._is_at_start = True
        self._legacy: McpCaller | None = None
        self._calls: dict[Id, McpCall] = {}
        self._subscriptions: Subscriptions | None = None
        self._questions: Questions | None = None

    def receive(self, chunk: bytes) -> Iterator[SessionEvent]:
        """The events that the next bytes lead to. Whatever they are, this raises nothing."""
        for line in self._lines.feed(chunk):
            if isinstance(line, OverlongLine):
                yield from self._overlong(line)
            else:
                yield from self._line(line)

    def end_of_input(self) -> Iterator[SessionEvent]:
        """The events of a last line that has no end."""
        for line in self._lines.end():
            yield from self._line(line)

    def _line(self, line: bytes) -> Iterator[SessionEvent]:
        if self._is_at_start:
            self._is_at_start = False
            line = line.removeprefix(_BYTE_ORDER_MARK)
        if not line.strip():
            return
        if line.lstrip()[:1] == b"[" and not self._takes_batches():
            yield Send(Failure(None, INVALID_REQUEST, "batches are not part of this revision"))
            return
        for message in parse_messages(line, MAX_DEPTH):
            yield from self._message(message)

    def succeed(self, call_id: Id, result: Mapping[str, Any]) -> Iterator[SessionEvent]:
        """The answer to a call that was carried out; nothing when it was cancelled.

        A result that is ``input_required`` leads to questions for a client of a legacy revision,
        and to the same call once more when they are answered.
        """
        call = self._calls.get(call_id)
        if call and result.get("resultType") == "input_required":
            from ryeos.mcp.legacy_questions import require_answerable

            try:
                require_answerable(result, call.caller)
            except RpcError as error:
                yield from self.fail(call_id, error)
                return
            if not call.caller.is_modern:
                yield from self._ask(call, result)
                return
        if self._calls.pop(call_id, None) and call:
            fitted = fitted_result(call.method, result, call.caller, self._server.info)
            yield Send(Result(call_id, fitted))

    def fail(self, call_id: Id, error: RpcError) -> Iterator[SessionEvent]:
        """The answer to a call that could not be carried out; nothing when it was cancelled."""
        if self._calls.pop(call_id, None):
            yield Send(_failure(call_id, error))

    def progress(
        self, call_id: Id, progress: float, total: float | None, message: str
    ) -> Iterator[SessionEvent]:
        """The progress of a call, if its caller asked for it and still waits."""
        call = self._calls.get(call_id)
        token = call.caller.progress_token if call else None
        if token is None:
            return
        params: dict[str, Any] = {"progressToken": token, "progress": progress}
        if total is not None:
            params["total"] = total
        if message and call and call.caller.version >= BATCHES:
            params["message"] = message
        yield Send(Notification("notifications/progress", params))

    def list_changed(self, name: str) -> Iterator[SessionEvent]:
        """Notify subscribers that ``tools``, ``prompts`` or ``resources`` have changed."""
        for news in self._subscriptions.list_changed(name) if self._subscriptions else ():
            yield Send(news)

    def resource_updated(self, uri: str) -> Iterator[SessionEvent]:
        """Notify subscribers that a resource has changed."""
        for news in self._subscriptions.resource_updated(uri) if self._subscriptions else ():
            yield Send(news)

    def task_changed(self, task_id: str, task: Mapping[str, Any]) -> Iterator[SessionEvent]:
        """Notify subscribers of the state of a task."""
        for news in self._subscriptions.task_changed(task_id, task) if self._subscriptions else ():
            yield Send(news)

    def close(self) -> Iterator[SessionEvent]:
        """The end: every open subscription gets its result, every call is cancelled."""
        for last_word in self._subscriptions.end_all() if self._subscriptions else ():
            yield Send(last_word)
        for call_id in tuple(self._calls):
            del self._calls[call_id]
            yield Cancel(call_id)

    def _takes_batches(self) -> bool:
        return self._legacy is not None and self._legacy.version == BATCHES

    def _message(self, message: Incoming) -> Iterator[SessionEvent]:
        match message:
            case Request():
                yield from self._request(message)
            case Notification(method="notifications/cancelled"):
                yield from self._cancelled(message.params.get("requestId"))
            case MalformedMessage(
                is_answer=True
            ):  # not answered, but it ends a question that it is for
                yield from self._answered(Failure(message.id, message.code, message.problem))
            case MalformedMessage():
                yield self._unreadable(message.id, message.code, message.problem)
            case Result() | Failure():
                yield from self._answered(message)
            case _:  # no other notification matters
                return

    def _overlong(self, line: OverlongLine) -> Iterator[SessionEvent]:
        from lillux.jsonrpc import begins_an_answer, id_at_start

        if begins_an_answer(line.start):
            return
        problem = f"a message is longer than {line.max_bytes} bytes"
        yield self._unreadable(id_at_start(line.start), INVALID_REQUEST, problem)

    def _unreadable(self, message_id: Id | None, code: int, problem: str) -> Send:
        """The error for what is no message; never by the id of a call that still runs."""
        is_free = message_id is None or not self._is_busy(message_id)
        return Send(Failure(message_id if is_free else None, code, problem))

    def _is_busy(self, request_id: Id) -> bool:
        return request_id in self._calls or request_id in (self._subscriptions or ())

    def _request(self, request: Request) -> Iterator[SessionEvent]:
        if self._is_busy(request.id):
            problem = "a request with this id is still being answered"
            yield Send(Failure(request.id, INVALID_REQUEST, problem))
            return
        try:
            caller = self._caller(request)
            own = self._own_method(request.method, caller)
            if own:
                yield from own(request, caller)
            else:
                begin = self._begin(request, caller)
                yield from self._listing(begin.call)
                yield begin
        except RpcError as error:
            yield Send(_failure(request.id, error))

    def _caller(self, request: Request) -> McpCaller:
        """The caller, whose rules hold for a request: the list at the head of this module."""
        meta = request.params.get("_meta", {})
        if not isinstance(meta, dict):
            raise RpcError(INVALID_PARAMS, "_meta: expected an object")
        if VERSION_KEY in meta:  # (1)
            return modern_caller(meta)
        if request.method == "initialize":  # (2)
            capabilities = request.params.get("capabilities", {})
            known = capabilities if isinstance(capabilities, dict) else {}
            name = client_name(request.params.get("clientInfo"))
            version = negotiated(request.params)
            return McpCaller(version=version, capabilities=known, client=name)
        if self._legacy:  # (3), (4)
            legacy = self._legacy
            return McpCaller(
                version=legacy.version,
                capabilities=legacy.capabilities,
                meta=meta,
                client=legacy.client,
            )
        if request.method == "ping":  # (3)
            return McpCaller(version=KNOWN[0])
        raise RpcError(  # (5)
            INVALID_PARAMS,
            f"expected _meta with {VERSION_KEY} and {CAPABILITIES_KEY}, or initialize first",
        )

    def _own_method(
        self, method: str, caller: McpCaller
    ) -> Callable[[Request, McpCaller], Iterator[SessionEvent]] | None:
        """The function that answers a method of the protocol itself."""
        if caller.is_modern:
            return {
                "server/discover": self._discover,
                "subscriptions/listen": self._listen,
            }.get(method)
        own = {"initialize": self._initialize, "ping": self._ping}
        if self._server.offers("resources", "subscribe"):
            own |= {"resources/subscribe": self._subscribe}
            own |= {"resources/unsubscribe": self._unsubscribe}
        return own.get(method)

    def _begin(self, request: Request, caller: McpCaller) -> Begin:
        capability = self._server.methods.get(request.method)
        if capability is None or (
            request.method in self._server.extensions and not caller.is_modern
        ):
            raise RpcError(METHOD_NOT_FOUND, f"method not found: {request.method[:200]}")
        call = McpCall(request.id, request.method, request.params, caller)
        self._calls[request.id] = call
        return Begin(call)

    def _listing(self, call: McpCall) -> Iterator[SessionEvent]:
        """Subscribe a legacy client to a list that it requests: it cannot do so otherwise."""
        name, _, method = call.method.partition("/")
        if method == "list" and not call.caller.is_modern and self._news.follow_list(name):
            yield self._watch()

    def _cancelled(self, request_id: object) -> Iterator[SessionEvent]:
        if not isinstance(request_id, str | int):
            return
        if self._subscriptions and self._subscriptions.end(request_id):
            yield self._watch()
        elif self._calls.pop(request_id, None):
            yield Cancel(request_id)
            for question_id in self._questions.drop(request_id) if self._questions else ():
                yield Send(Notification("notifications/cancelled", {"requestId": question_id}))

    def _ask(self, call: McpCall, result: Mapping[str, Any]) -> Iterator[SessionEvent]:
        from ryeos.mcp.legacy_questions import Questions

        self._questions = self._questions or Questions()
        for request in self._questions.ask(call.id, result):
            yield Send(request)

    def _answered(self, answer: Result | Failure) -> Iterator[SessionEvent]:
        if self._questions is None:  # we asked nothing, so nothing is an answer
            return
        from ryeos.mcp.legacy_questions import AnsweredCall, RefusedQuestion

        match self._questions.take(answer):
            case AnsweredCall(call_id, params):
                before = self._calls[call_id]
                given = {**before.params, **params}
                call = McpCall(call_id, before.method, given, before.caller)
                self._calls[call_id] = call
                yield Begin(call)
            case RefusedQuestion(call_id, error):
                yield from self.fail(call_id, error)
            case None:
                return

    def _initialize(self, request: Request, caller: McpCaller) -> Iterator[SessionEvent]:
        self._legacy = caller
        capabilities = {
            name: value for name, value in self._server.capabilities.items() if name != "extensions"
        }
        result = {
            "protocolVersion": caller.version,
            "capabilities": capabilities,
            "serverInfo": fitted_info(self._server.info, caller.version),
            "instructions": self._server.instructions,
        }
        yield Send(Result(request.id, result))

    def _ping(self, request: Request, caller: McpCaller) -> Iterator[SessionEvent]:  # noqa: ARG002
        yield Send(Result(request.id, {}))

    def _discover(self, request: Request, caller: McpCaller) -> Iterator[SessionEvent]:
        result = {
            "supportedVersions": list(reversed(KNOWN)),
            "capabilities": dict(self._server.capabilities),
            "instructions": self._server.instructions,
        }
        fitted = fitted_result(request.method, result, caller, self._server.info)
        yield Send(Result(request.id, fitted))

    def _listen(self, request: Request, caller: McpCaller) -> Iterator[SessionEvent]:
        yield Send(self._news.listen(request, caller))
        yield self._watch()

    def _subscribe(self, request: Request, caller: McpCaller) -> Iterator[SessionEvent]:  # noqa: ARG002
        self._news.subscribe(request)
        yield Send(Result(request.id, {}))
        yield self._watch()

    def _unsubscribe(self, request: Request, caller: McpCaller) -> Iterator[SessionEvent]:  # noqa: ARG002
        self._news.unsubscribe(request)
        yield Send(Result(request.id, {}))
        yield self._watch()

    @property
    def _news(self) -> Subscriptions:
        """The changes that clients subscribe to."""
        if self._subscriptions is None:
            from ryeos.mcp.subscriptions import Subscriptions

            self._subscriptions = Subscriptions(self._server)
        return self._subscriptions

    def _watch(self) -> Watch:
        """All that a client wants to hear of."""
        return Watch(self._news.lists, self._news.uris, self._news.tasks)


def _failure(request_id: Id, error: RpcError) -> Failure:
    return Failure(request_id, error.code, error.message, error.data)
