"""The revisions of the Model Context Protocol, and what a result looks like in each. Pure.

Up to 2025-11-25 a conversation begins with ``initialize``. From 2026-07-28 on every request says
for itself which revision it is of, and every result says what it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

from lillux.jsonrpc import INVALID_PARAMS, Id, Message
from lillux.mcp_client.versions import (
    CAPABILITIES_KEY,
    KNOWN,
    LEGACY,
    MODERN,
    NEWEST_LEGACY,
    VERSION_KEY,
)
from lillux.values import dataclass, field

TYPE_CHECKING = False  # importing typing costs more than this start may take

if TYPE_CHECKING:
    from typing import Any


UNSUPPORTED_VERSION = -32022
MISSING_CAPABILITY = -32021
BATCHES = "2025-03-26"
_META = "io.modelcontextprotocol/"
TASKS_EXTENSION = _META + "tasks"
SERVER_INFO_KEY, CLIENT_INFO_KEY = _META + "serverInfo", _META + "clientInfo"
SUBSCRIPTION_KEY = _META + "subscriptionId"

# What the older revisions do not know, by the first one that does.
_SINCE_ANNOTATIONS, _SINCE_STRUCTURE, _SINCE_ICONS = "2025-03-26", "2025-06-18", "2025-11-25"
_SINCE_AUDIO = "2025-03-26"
_HOUR_MS = 3_600_000
_LIST_MS = 5_000
# How long a client may keep a result, and who may.
_CACHE: Mapping[str, tuple[int, str]] = {
    "server/discover": (_HOUR_MS, "private"),
    "tools/list": (_HOUR_MS, "public"),
    "prompts/list": (_LIST_MS, "private"),
    "resources/list": (_LIST_MS, "private"),
    "resources/templates/list": (_LIST_MS, "private"),
    "resources/read": (0, "private"),
    "skills/list": (_LIST_MS, "private"),
    "skills/get": (0, "private"),
    "resources/directory/read": (0, "private"),
}
# Lists whose entries have fields that not every revision knows, by the name of the list.
_LISTED: Mapping[str, str] = {
    "tools/list": "tools",
    "prompts/list": "prompts",
    "resources/list": "resources",
    "resources/templates/list": "resourceTemplates",
}


class RpcError(Exception):
    """An error of the protocol: a code, one sentence, and data for programs."""

    def __init__(self, code: int, message: str, data: Mapping[str, Any] | None = None) -> None:
        self.code, self.message, self.data = code, message, data
        super().__init__(message)


@dataclass(frozen=True, slots=True, kw_only=True)
class McpCaller:
    """A request's words on its caller.

    version       the revision whose rules hold for it
    capabilities  what the client can do, as it said for this request or when it began
    meta          the request's ``_meta``
    client        the name of the client's program, as it says it
    """

    version: str
    capabilities: Mapping[str, Any] = field(default_factory=dict)
    meta: Mapping[str, Any] = field(default_factory=dict)
    client: str = ""

    @property
    def is_modern(self) -> bool:
        """True if the stateless rules hold."""
        return self.version == MODERN

    @property
    def progress_token(self) -> str | int | None:
        """The token for progress of this request; None when the client gave none."""
        token = self.meta.get("progressToken")
        return token if isinstance(token, str | int) and not isinstance(token, bool) else None

    def can(self, capability: str) -> bool:
        """True if the client has a capability."""
        return isinstance(self.capabilities.get(capability), dict)

    def extends(self, extension: str) -> bool:
        """True if the client has an extension."""
        extensions = self.capabilities.get("extensions")
        return isinstance(extensions, dict) and extension in extensions


def tasks_not_declared() -> RpcError:
    """The error for a client that asks for a task without declaring the extension."""
    needed: dict[str, Any] = {"requiredCapabilities": {"extensions": {TASKS_EXTENSION: {}}}}
    message = f"the client has not said that it has {TASKS_EXTENSION}"
    return RpcError(MISSING_CAPABILITY, message, needed)


def modern_caller(meta: Mapping[str, Any]) -> McpCaller:
    """The caller of a request that names its revision. Raises RpcError."""
    version, capabilities = meta[VERSION_KEY], meta.get(CAPABILITIES_KEY)
    if not isinstance(version, str):
        raise RpcError(INVALID_PARAMS, f"_meta {VERSION_KEY}: expected a string")
    if version != MODERN:
        # Naming the older ones to a client that just tried one that way would lead in a circle.
        supported = [MODERN] if version in LEGACY else list(reversed(KNOWN))
        data = {"supported": supported, "requested": version}
        raise RpcError(UNSUPPORTED_VERSION, "unsupported protocol version", data)
    if not isinstance(capabilities, dict):
        raise RpcError(INVALID_PARAMS, f"_meta {CAPABILITIES_KEY}: expected an object")
    client = client_name(meta.get(CLIENT_INFO_KEY))
    return McpCaller(version=version, capabilities=capabilities, meta=meta, client=client)


def client_name(info: object) -> str:
    """The name in what a client says of itself; ``""`` where it says none."""
    name = info.get("name") if isinstance(info, dict) else None
    return name[:100] if isinstance(name, str) else ""


def negotiated(params: Mapping[str, Any]) -> str:
    """The revision that an ``initialize`` leads to. Raises RpcError."""
    wished = params.get("protocolVersion")
    if not isinstance(wished, str):
        raise RpcError(INVALID_PARAMS, "protocolVersion: expected a string")
    return wished if wished in LEGACY else NEWEST_LEGACY


def knows_structure(version: str) -> bool:
    """True if results may have structured content, titles and links to resources."""
    return version >= _SINCE_STRUCTURE


def fitted_info(info: Mapping[str, Any], version: str) -> dict[str, Any]:
    """The server's name and version, as far as a revision knows the fields."""
    fields = {"name", "version"}
    if version >= _SINCE_STRUCTURE:
        fields |= {"title"}
    if version >= _SINCE_ICONS:
        fields |= {"description", "icons", "websiteUrl"}
    return {name: value for name, value in info.items() if name in fields}


def fitted_result(
    method: str, result: Mapping[str, Any], caller: McpCaller, info: Mapping[str, Any]
) -> dict[str, Any]:
    """A result in the form that a caller's revision has for it."""
    fitted = dict(result)
    if caller.is_modern:
        fitted.setdefault("resultType", "complete")
        fitted["_meta"] = {**fitted.get("_meta", {}), SERVER_INFO_KEY: dict(info)}
        if method in _CACHE and fitted["resultType"] == "complete":
            ttl_ms, scope = _CACHE[method]
            fitted = {"ttlMs": ttl_ms, "cacheScope": scope, **fitted}
        return fitted
    if method in _LISTED:
        entries = fitted[_LISTED[method]]
        fitted[_LISTED[method]] = [_fitted_entry(entry, caller.version) for entry in entries]
    if method == "tools/call" and not knows_structure(caller.version):
        fitted.pop("structuredContent", None)
        unknown = {"resource_link"} | ({"audio"} if caller.version < _SINCE_AUDIO else set())
        blocks = fitted.get("content", ())
        fitted["content"] = [block for block in blocks if block.get("type") not in unknown]
    return fitted


def _fitted_entry(entry: Mapping[str, Any], version: str) -> dict[str, Any]:
    """A tool, a prompt or a resource as far as a revision knows its fields."""
    unknown = set()
    if version < _SINCE_STRUCTURE:
        unknown |= {"title", "outputSchema", "_meta"}
    if version < _SINCE_ANNOTATIONS:
        unknown |= {"annotations"}
    return {name: value for name, value in entry.items() if name not in unknown}


# What a server says of itself, and what its protocol asks of the code that carries it out. Values.


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """A server's words on itself.

    info          ``{name, title, version, ...}``
    capabilities  of the modern revision; the legacy ones are the same without extensions
    methods       those of its own, by the capability that they belong to
    extensions    those of its methods that only the modern revision has
    """

    info: Mapping[str, Any]
    instructions: str
    capabilities: Mapping[str, Any]
    methods: Mapping[str, str]
    extensions: frozenset[str] = frozenset()

    def offers(self, capability: str, option: str) -> bool:
        """True if a capability is declared with an option of it."""
        offered = self.capabilities.get(capability)
        return isinstance(offered, dict) and offered.get(option) is True

    def extends(self, extension: str) -> bool:
        """True if an extension is declared."""
        return extension in self.capabilities.get("extensions", {})


class Pace(Enum):
    """The time that a call may take, which decides who carries it out.

    AT_ONCE  no longer than it takes to write its answer: by the reader itself
    SHORT    as long as looking something up does
    LONG     as long as a program runs
    """

    AT_ONCE = "at once"
    SHORT = "short"
    LONG = "long"


@dataclass(frozen=True, slots=True)
class McpCall:
    """A request for the server to carry out. ``id`` is how it is spoken of."""

    id: Id
    method: str
    params: Mapping[str, Any]
    caller: McpCaller


@dataclass(frozen=True, slots=True)
class Send:
    """A message for the client."""

    message: Message


@dataclass(frozen=True, slots=True)
class Begin:
    """A call to carry out."""

    call: McpCall


@dataclass(frozen=True, slots=True)
class Cancel:
    """A cancelled call; it gets no answer."""

    id: Id


@dataclass(frozen=True, slots=True)
class TaskId:
    """A task that a client wants to hear of; it need not exist."""

    id: str


WatchedName = str | TaskId


@dataclass(frozen=True, slots=True)
class Watch:
    """Changes that clients watch now, of all that can change by itself.

    lists  names of lists: tools, prompts, resources
    uris   single resources
    tasks  single tasks
    """

    lists: frozenset[str] = frozenset()
    uris: frozenset[str] = frozenset()
    tasks: frozenset[TaskId] = frozenset()


SessionEvent = Send | Begin | Cancel | Watch
