"""HTML and SVG from values. Pure; whatever is not `Html` is escaped."""

import re
from collections.abc import Iterable, Mapping
from enum import StrEnum
from html import escape
from urllib.parse import quote, urlencode

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from lillux.values import dataclass

# --- markup ---------------------------------------------------------------------------------------

# What the parser of HTML drops, or takes for something else: shown as the sign of a lost letter.
_UNPRINTABLE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")
# They turn the text around them over, so that a path reads as another one.
_TURNING = re.compile("[\u200e\u200f\u202a-\u202e\u2066-\u2069]")
_EMPTY = frozenset({"br", "hr", "img", "input", "link", "meta"})


@dataclass(frozen=True, slots=True)
class Html:
    """Markup that is ready to be sent; made by `tag`, `joined` and `text` only."""

    source: str

    def __str__(self) -> str:
        return self.source


HtmlPart = Html | str | int | float | None


def text(value: str) -> Html:
    """A text as it is to be read: escaped, without letters that hide or turn others."""
    return Html(escape(_TURNING.sub("\ufffd", _UNPRINTABLE.sub("\ufffd", value))))


def joined(parts: Iterable[HtmlPart]) -> Html:
    """The parts one after another; ``None`` is nothing."""
    return Html("".join(_source(part) for part in parts))


def tag(element: str, /, *children: HtmlPart, **attributes: str | float | bool | None) -> Html:
    """An element. ``class_`` is the attribute ``class``, ``data_id`` is ``data-id``.

    An attribute that is ``None`` or ``False`` is left out; ``True`` stands without a value.
    """
    opened = "".join(_attribute(key, value) for key, value in attributes.items())
    if element in _EMPTY:
        return Html(f"<{element}{opened}>")
    return Html(f"<{element}{opened}>{joined(children)}</{element}>")


def _source(part: HtmlPart) -> str:
    match part:
        case None:
            return ""
        case Html():
            return part.source
        case _:
            return text(str(part)).source


def _attribute(key: str, value: str | float | bool | None) -> str:  # noqa: FBT001
    if value is None or value is False:
        return ""
    name = key.rstrip("_").replace("_", "-")
    return f" {name}" if value is True else f' {name}="{text(str(value))}"'


# --- page headers ---------------------------------------------------------------------------------
# The headers of pages, on whatever is answered at their addresses: refusals and errors too.

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


# --- links ----------------------------------------------------------------------------------------
# The addresses of the page. Pure.

HOME = "/"
LOGIN = "/page/login"
LOGOUT = "/page/logout"
PROJECT = "/page/project"
THREAD = "/page/thread"
EXECUTIONS = "/page/executions"
STYLE = "/page/files/style.css"
SCRIPT = "/page/files/page.js"
ICON = "/page/files/icon.svg"
API = "/docs"
OPENAPI = "/openapi.json"


def project_link(project_path: str) -> str:
    """The history of a project."""
    return f"{PROJECT}?{urlencode({'path': project_path}, quote_via=quote)}"


def thread_link(thread_id: str) -> str:
    """One execution."""
    return f"{THREAD}?{urlencode({'id': thread_id}, quote_via=quote)}"


def snapshot_anchor(digest: str) -> str:
    """The row of a snapshot in its table."""
    return f"snapshot-{digest[:16]}"


# --- model ----------------------------------------------------------------------------------------
# What the page shows: values that hold no markup, and know no database.


@dataclass(frozen=True, slots=True, kw_only=True)
class Viewer:
    """Who looks at the page. ``form_token`` goes into every form of it."""

    user_id: str
    key_name: str
    form_token: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Execution:
    """An execution in a list. Times are ISO 8601, UTC; ``merge_type`` is "" where none is known."""

    thread_id: str
    item_id: str
    project_path: str
    state: str
    created_at: str
    completed_at: str = ""
    conflicts: int = 0
    error: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Project:
    """A project and its HEAD."""

    project_path: str
    snapshot_hash: str
    revision: int
    moved_at: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownSnapshot:
    """A snapshot of the history; its first parent is the mainline."""

    digest: str
    parents: tuple[str, ...]
    source: str
    detail: str
    timestamp: str
    thread_id: str = ""


@dataclass(frozen=True, slots=True)
class ShownStorage:
    """Bytes in a user's store, and how many there may be."""

    used_bytes: int
    limit_bytes: int


class Absence(StrEnum):
    """Why a side of a conflict has no text."""

    DELETED = "not there"
    BINARY = "not text"
    TOO_LONG = "too long to show"
    LOST = "no longer in the store"


@dataclass(frozen=True, slots=True)
class Side:
    """One version of a file in a conflict: its text, or why there is none."""

    digest: str | None
    content: str | Absence


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownConflict:
    """A path that both HEAD ("ours") and the execution ("theirs") changed."""

    path: str
    kind: str
    base: Side
    ours: Side
    theirs: Side


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownThread:
    """An execution, whole. ``fields`` are what its row says, in order."""

    execution: Execution
    fields: Mapping[str, str]
    conflicts: tuple[ShownConflict, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Overview:
    """The first page."""

    node_name: str
    node_id: str
    version: str
    active: int
    most_active: int
    storage: ShownStorage
    executions: tuple[Execution, ...]
    projects: tuple[Project, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """The snapshots of a project, newest first; ``is_cut`` where older ones are not shown."""

    project: Project
    snapshots: tuple[ShownSnapshot, ...]
    is_cut: bool


# --- shell ----------------------------------------------------------------------------------------
# What every page stands in: head, heading, navigation. Pure.

HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; "
        "img-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
"""Headers of every page: nothing from elsewhere, nothing inline, no frame, nothing kept."""


def document(title: str, *body: HtmlPart, viewer: Viewer | None, refresh_s: int = 0) -> str:
    """A whole page. ``refresh_s``: how often it is loaded anew in a browser without scripts."""
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("title", f"{title} - Rye node"),
        tag("link", rel="icon", href=ICON, type="image/svg+xml"),
        tag("link", rel="stylesheet", href=STYLE),
        tag("script", src=SCRIPT, defer=True),
        tag("noscript", tag("meta", http_equiv="refresh", content=refresh_s))
        if refresh_s
        else None,
    )
    page = tag(
        "body",
        tag("a", "Skip to the content", href="#content", class_="skip"),
        tag("header", tag("a", "Rye node", href=HOME, class_="name"), _navigation(viewer)),
        tag("main", tag("h1", title), *body, id="content"),
    )
    return f"<!DOCTYPE html>\n{tag('html', head, page, lang='en')}\n"


def _navigation(viewer: Viewer | None) -> Html:
    api = tag("a", "API", href=API)
    if viewer is None:
        return tag("nav", api, aria_label="Pages")
    leave = tag(
        "form",
        tag("input", type="hidden", name="token", value=viewer.form_token),
        tag("button", "Log out", type="submit"),
        method="post",
        action=LOGOUT,
    )
    who = tag("span", f"{viewer.user_id} ({viewer.key_name})", class_="who")
    return tag("nav", api, who, leave, aria_label="Pages")


def table(caption: str, headings: list[str], rows: list[Html], *, empty: str) -> Html:
    """A table with a caption and headings that a screen reader can use; a sentence where empty."""
    if not rows:
        return tag("p", empty, class_="empty")
    heads = (tag("th", heading, scope="col") for heading in headings)
    return tag(
        "div",
        tag(
            "table",
            tag("caption", caption),
            tag("thead", tag("tr", *heads)),
            tag("tbody", joined(rows)),
        ),
        class_="wide",
        role="region",
        tabindex=0,
        aria_label=caption,
    )
