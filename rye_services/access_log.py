"""A line in the log for each request: ``POST /push 200 12 ms``. No query, no headers, no body."""

import logging
from time import monotonic

from starlette.types import ASGIApp, Message, Receive, Scope, Send

_QUIET_PATHS = frozenset({"/health", "/status"})


class AccessLog:
    """Logs what was asked for and how it was answered."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http" or scope["path"] in _QUIET_PATHS:
            await self._app(scope, receive, send)
            return
        began_s = monotonic()
        status = 0

        async def noting(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._app(scope, receive, noting)
        finally:
            took_ms = (monotonic() - began_s) * 1000
            path = ascii(scope["path"][:200])[1:-1]  # a line break would start another entry
            logging.getLogger("rye_services.access").info(
                "%s %s %s %.0f ms", scope["method"], path, status or "cut", took_ms
            )
