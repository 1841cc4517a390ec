"""What a server says of itself, and what its protocol asks of whoever carries it out. Values."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

from lillux.jsonrpc import Id, Message
from lillux.values import dataclass
from ryeos.mcp.eras import Caller

TYPE_CHECKING = False  # `typing` is not worth its time at a start
if TYPE_CHECKING:
    from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """What a server says of itself.

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
        """Whether a capability is declared with an option of it."""
        offered = self.capabilities.get(capability)
        return isinstance(offered, dict) and offered.get(option) is True

    def extends(self, extension: str) -> bool:
        """Whether an extension is declared."""
        return extension in self.capabilities.get("extensions", {})


class Pace(Enum):
    """How long a call may take, which decides who carries it out.

    AT_ONCE  no longer than it takes to write its answer: by the reader itself
    SHORT    as long as looking something up does
    LONG     as long as a program runs
    """

    AT_ONCE = "at once"
    SHORT = "short"
    LONG = "long"


@dataclass(frozen=True, slots=True)
class Call:
    """A request for the server to carry out. ``id`` is how it is spoken of."""

    id: Id
    method: str
    params: Mapping[str, Any]
    caller: Caller


@dataclass(frozen=True, slots=True)
class Send:
    """A message for the client."""

    message: Message


@dataclass(frozen=True, slots=True)
class Begin:
    """A call to carry out."""

    call: Call


@dataclass(frozen=True, slots=True)
class Cancel:
    """A call that nobody waits for any more; it gets no answer."""

    id: Id


@dataclass(frozen=True, slots=True)
class TaskId:
    """A task that somebody wants to hear of; it need not exist."""

    id: str


Watched = str | TaskId


@dataclass(frozen=True, slots=True)
class Watch:
    """What clients want to hear of now, of all that can change by itself.

    lists  names of lists: tools, prompts, resources
    uris   single resources
    tasks  single tasks
    """

    lists: frozenset[str] = frozenset()
    uris: frozenset[str] = frozenset()
    tasks: frozenset[TaskId] = frozenset()


Event = Send | Begin | Cancel | Watch
