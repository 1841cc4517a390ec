"""The changes that clients subscribe to, in legacy and modern revisions. Pure.

A modern client holds a ``subscriptions/listen`` open, also for tasks that it names. A legacy one
subscribes to single resources; changes of a list are reported to it once it has requested the list,
since it has no other way to subscribe.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from lillux.jsonrpc import (
    INVALID_PARAMS,
    INVALID_REQUEST,
    Failure,
    Id,
    Notification,
    Request,
    Result,
)
from lillux.values import dataclass
from ryeos.mcp.revisions import (
    MISSING_CAPABILITY,
    SUBSCRIPTION_KEY,
    TASKS_EXTENSION,
    McpCaller,
    RpcError,
    Server,
    TaskId,
    tasks_not_declared,
)

UPDATED = "notifications/resources/updated"
TASK = "notifications/tasks"
_LISTS = {
    "toolsListChanged": "tools",
    "promptsListChanged": "prompts",
    "resourcesListChanged": "resources",
}


@dataclass(frozen=True, slots=True)
class _Listener:
    """One ``subscriptions/listen`` that is open."""

    lists: frozenset[str]
    uris: frozenset[str]
    tasks: frozenset[TaskId]


class Subscriptions:
    """Those of one conversation with a server."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._listeners: dict[Id, _Listener] = {}
        self._subscribed: set[str] = set()
        self._listed: set[str] = set()

    def __contains__(self, listener_id: Id) -> bool:
        """Whether a request to listen is open."""
        return listener_id in self._listeners

    @property
    def lists(self) -> frozenset[str]:
        """The names of all lists that a client wants to hear of."""
        wanted = (listener.lists for listener in self._listeners.values())
        return frozenset(self._listed).union(*wanted)

    @property
    def uris(self) -> frozenset[str]:
        """All single resources that a client wants to hear of."""
        wanted = (listener.uris for listener in self._listeners.values())
        return frozenset(self._subscribed).union(*wanted)

    @property
    def tasks(self) -> frozenset[TaskId]:
        """All tasks that a client wants to hear of."""
        wanted = (listener.tasks for listener in self._listeners.values())
        return frozenset[TaskId]().union(*wanted)

    def listen(self, request: Request, caller: McpCaller) -> Notification:
        """Open a subscription; its first message tells what of it is honoured. Raises RpcError."""
        wanted = request.params.get("notifications")
        if not isinstance(wanted, dict):
            raise RpcError(INVALID_PARAMS, "notifications: expected an object")
        honoured: dict[str, Any] = {
            name: True
            for name, capability in _LISTS.items()
            if wanted.get(name) is True and self._server.offers(capability, "listChanged")
        }
        uris = _texts(wanted, "resourceSubscriptions", "URIs")
        if uris and self._server.offers("resources", "subscribe"):
            honoured["resourceSubscriptions"] = uris
        task_ids = _texts(wanted, "taskIds", "ids of tasks")
        if task_ids and self._server.extends(TASKS_EXTENSION):
            if not caller.extends(TASKS_EXTENSION):
                raise tasks_not_declared()
            honoured["taskIds"] = task_ids
        self._listeners[request.id] = _Listener(
            lists=frozenset(_LISTS[name] for name in honoured if name in _LISTS),
            uris=frozenset(honoured.get("resourceSubscriptions", ())),
            tasks=frozenset(TaskId(one) for one in honoured.get("taskIds", ())),
        )
        acknowledged = "notifications/subscriptions/acknowledged"
        return _tagged(acknowledged, {"notifications": honoured}, request.id)

    def end(self, listener_id: Id) -> bool:
        """End a subscription without a message; whether there was one."""
        return self._listeners.pop(listener_id, None) is not None

    def end_all(self) -> Iterator[Result]:
        """The last message of each subscription."""
        for listener_id in tuple(self._listeners):
            del self._listeners[listener_id]
            meta = {SUBSCRIPTION_KEY: listener_id}
            yield Result(listener_id, {"resultType": "complete", "_meta": meta})

    def subscribe(self, request: Request) -> None:
        """Follow a resource. Raises RpcError."""
        self._subscribed.add(_uri(request))

    def unsubscribe(self, request: Request) -> None:
        """Follow a resource no more. Raises RpcError."""
        self._subscribed.discard(_uri(request))

    def follow_list(self, name: str) -> bool:
        """Follow a list for a legacy client; False if it was followed already."""
        is_news = name not in self._listed and self._server.offers(name, "listChanged")
        if is_news:
            self._listed.add(name)
        return is_news

    def list_changed(self, name: str) -> Iterator[Notification]:
        """The notifications that a list has changed."""
        method = f"notifications/{name}/list_changed"
        for listener_id, listener in self._listeners.items():
            if name in listener.lists:
                yield _tagged(method, {}, listener_id)
        if name in self._listed:
            yield Notification(method)

    def resource_updated(self, uri: str) -> Iterator[Notification]:
        """The notifications that a resource has changed."""
        for listener_id, listener in self._listeners.items():
            if uri in listener.uris:
                yield _tagged(UPDATED, {"uri": uri}, listener_id)
        if uri in self._subscribed:
            yield Notification(UPDATED, {"uri": uri})

    def task_changed(self, task_id: str, task: Mapping[str, Any]) -> Iterator[Notification]:
        """The notifications that a task has changed, with the whole task."""
        for listener_id, listener in self._listeners.items():
            if TaskId(task_id) in listener.tasks:
                yield _tagged(TASK, task, listener_id)


def _texts(wanted: Mapping[str, Any], name: str, what: str) -> list[str]:
    texts = wanted.get(name, [])
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise RpcError(INVALID_PARAMS, f"{name}: expected a list of {what}")
    return texts


def _uri(request: Request) -> str:
    uri = request.params.get("uri")
    if not isinstance(uri, str):
        raise RpcError(INVALID_PARAMS, "uri: expected a string")
    return uri


def _tagged(method: str, params: Mapping[str, Any], listener_id: Id) -> Notification:
    return Notification(method, {**params, "_meta": {SUBSCRIPTION_KEY: listener_id}})


# --- asking ---------------------------------------------------------------------------------------
# What a call wants to know of its client, asked in the way of the older revisions. Pure.
#
# From 2026-07-28 on such a call ends with ``input_required``, and the client makes it once more,
# with ``inputResponses`` and the ``requestState`` it was given. Older clients are asked by requests
# of the server instead; with all answers the call is carried out once more. Its caller
# sees no difference.

_CAPABILITY = {
    "elicitation/create": "elicitation",
    "sampling/createMessage": "sampling",
    "roots/list": "roots",
}


@dataclass(slots=True)
class _QuestionRound:
    """The questions of one call.

    state    the ``requestState`` that goes back with the answers; None without one
    open     what was asked and not answered yet: the key of the question, by the request's id
    answers  by the question's key
    """

    call_id: Id
    state: object
    open: dict[Id, str]
    answers: dict[str, Any]


@dataclass(frozen=True, slots=True)
class AnsweredCall:
    """All questions of a call are answered; ``params`` are added to it."""

    call_id: Id
    params: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class RefusedQuestion:
    """A client gave an error instead of an answer."""

    call_id: Id
    error: RpcError


class Questions:
    """The questions of one conversation that are still open."""

    def __init__(self) -> None:
        self._rounds: dict[Id, _QuestionRound] = {}
        self._question_count = 0

    def ask(self, call_id: Id, result: Mapping[str, Any]) -> list[Request]:
        """The requests to send for an ``input_required`` result; there is at least one."""
        requests = []
        this = _QuestionRound(call_id, result.get("requestState"), {}, {})
        for key, question in result["inputRequests"].items():
            self._question_count += 1
            request = Request(
                f"ask-{self._question_count}", question["method"], question.get("params", {})
            )
            this.open[request.id] = key
            self._rounds[request.id] = this
            requests.append(request)
        return requests

    def take(self, answer: Result | Failure) -> AnsweredCall | RefusedQuestion | None:
        """What an answer leads to: nothing while others are missing, or if no question is open."""
        this = self._rounds.pop(answer.id, None) if answer.id is not None else None
        if this is None:
            return None
        if isinstance(answer, Failure):
            self.drop(this.call_id)
            problem = f"the client did not answer: {answer.message}"
            data = {"code": answer.code, "message": answer.message}
            return RefusedQuestion(this.call_id, RpcError(INVALID_REQUEST, problem, data))
        this.answers[this.open.pop(answer.id)] = dict(answer.result)
        if this.open:
            return None
        params: dict[str, Any] = {"inputResponses": this.answers}
        if this.state is not None:
            params["requestState"] = this.state
        return AnsweredCall(this.call_id, params)

    def drop(self, call_id: Id) -> list[Id]:
        """Forget the questions of a call; the requests that the client need not answer now."""
        dropped = [
            request_id for request_id, this in self._rounds.items() if this.call_id == call_id
        ]
        for request_id in dropped:
            del self._rounds[request_id]
        return dropped


def require_answerable(result: Mapping[str, Any], caller: McpCaller) -> None:
    """Ask a client only what it can answer. Raises RpcError."""
    questions = result.get("inputRequests", {})
    wanted = {_CAPABILITY[question["method"]] for question in questions.values()}
    missing = sorted(name for name in wanted if not caller.can(name))
    if missing:
        problem = f"the client lacks what this call needs: {', '.join(missing)}"
        data: dict[str, Any] = {"requiredCapabilities": {name: {} for name in missing}}
        raise RpcError(MISSING_CAPABILITY, problem, data)
    if not questions and not caller.is_modern:
        raise RpcError(INVALID_PARAMS, "this call is to be made again by a client of 2026-07-28")
