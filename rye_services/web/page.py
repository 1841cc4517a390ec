"""What all pages share: their templates, headers, files and addresses. The door of Jinja2.

Templates are the files of ``templates/``. Whatever they print is escaped, and letters that hide or
turn others are shown as lost. Markup comes from templates and from `rye_services.web.texts` only.
"""

from collections.abc import Iterable, Mapping
from functools import cache
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

from fastapi import APIRouter
from starlette.datastructures import MutableHeaders
from starlette.responses import HTMLResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from lillux.foreign_text import without_control_characters
from rye_services.web.http import RequestProblem
from ryeos.app.output import utc_text

if TYPE_CHECKING:
    from jinja2 import Environment

# --- templates ------------------------------------------------------------------------------------

_UNITS = ("bytes", "KiB", "MiB", "GiB", "TiB")
_KILO = 1024


def render(template: str, **values: object) -> str:
    """A page: the template of this name with these values. Raises what Jinja2 does."""
    return _environment().get_template(template).render(values)


@cache
def _environment() -> "Environment":
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    made = Environment(
        loader=FileSystemLoader(Path(__file__).parent / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=presentable,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    made.filters |= {"bytes": byte_count, "utc_text": utc_text}
    made.globals |= {
        "page_of": page_of,
        "bundle_page": bundle_page,
        "item_page": item_page,
        "namespace_page": namespace_page,
        "person_page": person_page,
    }
    return made


def presentable(value: object) -> object:
    """What a template prints for a value: nothing for None, a text without control characters."""
    if value is None:
        return ""
    if type(value) is str:  # no `Markup`, which is as its maker wants it
        return without_control_characters(value)
    return value


def byte_count(count: int) -> str:
    """A number of bytes for people: ``3.4 MiB``."""
    amount, unit = float(count), 0
    while amount >= _KILO and unit < len(_UNITS) - 1:
        amount, unit = amount / _KILO, unit + 1
    return f"{count} bytes" if unit == 0 else f"{amount:.1f} {_UNITS[unit]}"


# --- headers --------------------------------------------------------------------------------------
# The headers of pages, on whatever is answered at their addresses: refusals and errors too.

HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; "
        "img-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    # With `no-referrer` a browser would send `Origin: null` with our own forms.
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
    "Cache-Control": "no-store",
}
"""Headers of every page: nothing from elsewhere, nothing inline, no frame, nothing kept."""

_POLICY = "Content-Security-Policy"
PLAIN_HEADERS = {**HEADERS, _POLICY: HEADERS[_POLICY].replace("connect-src 'self'; ", "")}
"""Of pages without live parts: their scripts ask for nothing."""

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
    return path in {HOME, API} or path.startswith(_BELOW)


def _with_headers(send: Send) -> Send:
    async def adding(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in HEADERS.items():
                headers.setdefault(name, value)
        await send(message)

    return adding


def page_answer(
    source: str, status: int = 200, headers: Mapping[str, str] = HEADERS
) -> HTMLResponse:
    """The answer that a page is."""
    return HTMLResponse(source, status, headers)


# --- files ----------------------------------------------------------------------------------------
# Style, scripts and icon. They are the same for all users, and come from the node itself.

NODE_FILES, REGISTRY_FILES = "/page/files", "/browse/files"
FILES = {
    "style.css": "text/css",
    "page.js": "text/javascript",
    "htmx.min.js": "text/javascript",
    "htmx.LICENSE.txt": "text/plain",
    "icon.svg": "image/svg+xml",
}
_FILE_AGE_S = 300


def add_files(routes: APIRouter, address: str) -> None:
    """Serve the files of pages below an address."""

    @routes.get(f"{address}/{{name}}")
    def file(name: str) -> Response:
        if name not in FILES:
            raise RequestProblem(404, "not found")
        headers = {**HEADERS, "Cache-Control": f"public, max-age={_FILE_AGE_S}"}
        return Response(_file(name), media_type=FILES[name], headers=headers)


@cache
def _file(name: str) -> bytes:
    return (resources.files("rye_services.web") / "page_files" / name).read_bytes()


# --- addresses ------------------------------------------------------------------------------------

HOME = "/"
API = "/docs"
LOGIN, LOGOUT = "/page/login", "/page/logout"
SIGN_IN, SIGN_IN_BACK, DEVICE = "/page/sign-in", "/page/sign-in/back", "/page/device"
TEAMS, TEAM = "/page/teams", "/page/team"
CHANGE_TEAMS, LOOK_AT = "/page/teams/change", "/page/look-at"
RUNS, RUN, RUN_PART = "/page/executions", "/page/thread", "/page/thread/part"
RUN_EVENTS, RUN_PICTURE = "/page/thread/events", "/page/thread/picture"
RETRY, CANCEL = "/page/thread/retry", "/page/thread/cancel"
PROJECT, FILE, DIFF, OUTPUT = "/page/project", "/page/file", "/page/diff", "/page/output"
REVOKE_WEBHOOK = "/page/webhooks/revoke"
ITEMS, FORM_PAGE, START = "/page/items", "/page/form", "/page/start"
WEBHOOKS_PAGE = "/page/webhooks"
SECRETS_PAGE, SET_SECRET, DELETE_SECRET = (
    "/page/secrets",
    "/page/secrets/set",
    "/page/secrets/delete",
)
ADMIN, COLLECT = "/page/admin", "/page/admin/collect"
SET_USER_STATE = "/page/admin/users/state"
REVOKE_KEY, REVOKE_API_KEY = "/page/admin/keys/revoke", "/page/admin/api-keys/revoke"
BROWSE, BUNDLES = "/browse", "/browse/bundles"


def page_of(address: str, /, **values: object) -> str:
    """An address with these values in its query; what says nothing is left out."""
    return with_query(address, values.items())


def with_query(path: str, values: Iterable[tuple[str, Any]]) -> str:
    """As `page_of`, for names that no argument can have."""
    said = [(name, value) for name, value in values if value not in ("", None)]
    return f"{path}?{urlencode(said, quote_via=quote)}" if said else path


def item_page(item_type: str, item_id: str, version: str = "") -> str:
    """An item of a registry: a version, or the highest one."""
    return page_of(f"{BROWSE}/item/{quote(item_type)}/{quote(item_id)}", version=version)


def bundle_page(bundle_id: str, version: str = "") -> str:
    """A bundle of a registry: a version, or the highest one."""
    return page_of(f"{BROWSE}/bundle/{quote(bundle_id)}", version=version)


def namespace_page(name: str) -> str:
    """What is published below a namespace."""
    return f"{BROWSE}/namespace/{quote(name)}"


def person_page(name: str) -> str:
    """What an account published, and the keys that it signs with."""
    return f"{BROWSE}/person/{quote(name)}"
