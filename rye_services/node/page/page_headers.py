"""The headers of pages, on whatever is answered at their addresses: refusals and errors too."""

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from rye_services.node.page import links
from rye_services.node.page.shell import HEADERS

_BELOW = ("/page/", "/browse")  # of a node, and of a registry


class PageHeaders:
    """Adds the headers of pages to answers at their addresses that have them not."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] == "http" and _is_page(scope["path"]):
            await self._app(scope, receive, _with_headers(send))
        else:
            await self._app(scope, receive, send)


def _is_page(path: str) -> bool:
    return path in {links.HOME, links.API} or path.startswith(_BELOW)


def _with_headers(send: Send) -> Send:
    async def adding(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in HEADERS.items():
                headers.setdefault(name, value)
        await send(message)

    return adding
