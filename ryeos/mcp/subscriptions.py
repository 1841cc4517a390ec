"""The changes that clients subscribe to, in legacy and modern revisions. Pure.

A modern client holds a ``subscriptions/listen`` open, also for tasks that it names. A legacy one
subscribes to single resources; changes of a list are reported to it once it has requested the list,
since it has no other way to subscribe.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from lillux.jsonrpc import INVALID_PARAMS, Id, Notification, Request, Result
from lillux.values import dataclass
from ryeos.mcp.revisions import (
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
        """True if a request to listen is open."""
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
