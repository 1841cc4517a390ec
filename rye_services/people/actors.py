"""Who acts: known at the doors of a node (requests, commands), and read far below them.

A file of its own: the command line names who types a command before it loads any database.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from lillux.values import dataclass

NODE = "node"
"""Who acts where no caller asked for it: the node itself, as when it lets the first key in."""


@dataclass(frozen=True, slots=True)
class Actor:
    """Who changes something: a user id or ``command:UNIXUSER``; the address that they ask from.

    key  the id of the API key or hook that they used, where it was one
    """

    name: str
    address: str = ""
    key: str = ""


_actor: ContextVar[Actor | None] = ContextVar("actor", default=None)


def act_as(actor: Actor) -> None:
    """Record what this request or command changes as changed by this actor."""
    _actor.set(actor)


def current_actor() -> Actor:
    """The actor of the changes that are made now."""
    return _actor.get() or Actor(NODE)


@contextmanager
def acting(actor: Actor) -> Iterator[None]:
    """As `act_as`, for a block."""
    token = _actor.set(actor)
    try:
        yield
    finally:
        _actor.reset(token)
