"""Answers the first requests before threads are imported, then hands over to `ryeos.mcp.stdio`.

Threads, and all that needs them, cost as much as the rest of ours does up to the first answer: they
come while the client reads it.
"""

from __future__ import annotations

import os
import time
from _thread import start_new_thread  # as in `ryeos.mcp.wire`
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from lillux.jsonrpc import Failure, Result
from ryeos.mcp.protocol import McpSession
from ryeos.mcp.revisions import Send, SessionEvent
from ryeos.mcp.wire import Log, SignalWatch, Wire, leave, quiet

TYPE_CHECKING = False  # importing `typing` would slow the start
if TYPE_CHECKING:
    from typing import NoReturn

    from ryeos.mcp.stdio import Features


PARENT_POLL_S = 1.0


def serve(session: McpSession, features: Features, wire: Wire, log: Log = quiet) -> NoReturn:
    """Serve until the client is gone, and end the process. In the main thread only.

    ``log`` gets a level and a line for what happens.
    """
    parent = os.getppid()
    signals = SignalWatch(leave)
    try:
        with _leaving_with(parent):
            events = answer_first(session, wire)
            from ryeos.mcp.stdio import McpServer
        McpServer(session, features, wire, parent=parent, log=log).run(events, signals)
    except OSError:  # nothing has begun that would have to be ended
        leave()


def answer_first(session: McpSession, wire: Wire) -> Iterable[SessionEvent]:
    """Read and answer, up to the first answer; the events that are left to be carried out.

    Raises OSError when the client reads no more.
    """
    while chunk := wire.read():
        events = iter(session.receive(chunk))
        for event in events:
            if not isinstance(event, Send):
                return (event, *events)
            wire.send(event.message)
            if isinstance(event.message, Result | Failure):
                return events
    return session.end_of_input()


@contextmanager
def _leaving_with(parent: int) -> Iterator[None]:
    """End this process when its parent is gone, though another process may hold the pipe.

    On Windows the number of the parent stays what it was: there it is seen from the first answer
    on, by the server.
    """
    over: list[bool] = []
    start_new_thread(_leave_with, (parent, over))
    try:
        yield
    finally:
        over.append(True)


def _leave_with(parent: int, over: list[bool]) -> None:
    while not over:
        time.sleep(PARENT_POLL_S)
        if not over and os.getppid() != parent:
            leave()
