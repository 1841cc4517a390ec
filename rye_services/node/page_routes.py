"""The status page: who may see it, and which page an address is.

A person logs in with an API key and gets a cookie that the node signed (`page.sessions`). Forms are
taken from pages of this node only: the browser says where a form comes from, and the form carries
the token of its session. Nothing can be changed here but being logged in.
"""

import secrets
from collections.abc import Callable
from functools import cache
from importlib import resources
from typing import Annotated
from urllib.parse import parse_qs

from fastapi import APIRouter, Query, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import HTMLResponse, RedirectResponse, Response

from lillux.values import dataclass
from rye_services.api_keys import ApiKey
from rye_services.node.page import links
from rye_services.node.page.api_view import api_page
from rye_services.node.page.ended_sessions import EndedSessions
from rye_services.node.page.model import Overview, Viewer
from rye_services.node.page.page_data import PageData
from rye_services.node.page.sessions import (
    COOKIE,
    SESSION_S,
    Session,
    form_token,
    is_form_token,
    read_session,
    seal_session,
    session_key,
)
from rye_services.node.page.shell import HEADERS
from rye_services.node.page.views import (
    executions_part,
    login_page,
    message_page,
    overview_page,
    project_page,
    thread_page,
)
from rye_services.node.services import NodeServices
from rye_services.problems import Problem
from rye_services.scopes import THREADS, allows
from ryeos import __version__

_FILES = {"style.css": "text/css", "page.js": "text/javascript", "icon.svg": "image/svg+xml"}
_FILE_AGE_S = 300
_LONGEST_FORM = 4096
_FOREIGN = "This form did not come from a page of this node."
_NO_KEY = "No key that counts here is like this. Look at it again, or ask for a new one."
_NO_SCOPE = f"This key may not see executions: it lacks the scope {THREADS}."


@dataclass(frozen=True, slots=True)
class _Guest:
    """Somebody who is logged in: the cookie they sent, its session, and the key behind it."""

    cookie: str
    session: Session
    key: ApiKey


class _Gate:
    """Who is logged in, and how one gets there. Thread-safe."""

    def __init__(self, services: NodeServices) -> None:
        self._services = services
        self._key = session_key(services.keys.box_private)
        self._ended = EndedSessions(services.database)

    def guest(self, request: Request) -> _Guest | None:
        """Who sent a request; None where nobody is logged in, or their key counts no longer."""
        cookie = request.cookies.get(COOKIE, "")
        session = read_session(cookie, self._key, now_s=self._now_s)
        if session is None or self._ended.has(cookie):
            return None
        key = self._services.api_keys.counting(session.key_id)
        return _Guest(cookie, session, key) if key is not None and _may_look(key) else None

    def log_out(self, guest: _Guest) -> None:
        """End the session: its cookie counts no longer, whoever has a copy."""
        self._ended.end(guest.cookie, guest.session.until_s)

    def viewer(self, guest: _Guest) -> Viewer:
        """What the page says about them."""
        return Viewer(
            user_id=guest.key.user_id,
            key_name=guest.key.name,
            form_token=form_token(guest.cookie, self._key),
        )

    def cookie_for(self, key: ApiKey) -> str:
        """The cookie of a new session."""
        session = Session(key.id, int(self._now_s) + SESSION_S, secrets.token_hex(8))
        return seal_session(session, self._key)

    def is_own_form(self, guest: _Guest, token: str) -> bool:
        """Whether a form was made for this session."""
        return is_form_token(token, guest.cookie, self._key)

    @property
    def _now_s(self) -> float:
        return self._services.clock().timestamp()


def router(services: NodeServices) -> APIRouter:
    """The pages. They are for people: no OpenAPI document lists them."""
    routes = APIRouter(include_in_schema=False)
    gate = _Gate(services)
    _add_pages(routes, services, gate)
    _add_doors(routes, services, gate)
    _add_open_pages(routes)
    return routes


def _add_pages(routes: APIRouter, services: NodeServices, gate: _Gate) -> None:
    def shown(request: Request, page: Callable[[PageData, Viewer], str | None]) -> Response:
        guest = gate.guest(request)
        if guest is None:
            return _page(login_page(), status=200 if request.url.path == links.HOME else 401)
        viewer = gate.viewer(guest)
        source = page(PageData(services, guest.key.user_id), viewer)
        if source is None:
            return _page(message_page("Not found", "There is no such thing here.", viewer), 404)
        return _page(source)

    @routes.get(links.HOME)
    def overview(request: Request) -> Response:
        return shown(request, lambda data, viewer: overview_page(_overview(services, data), viewer))

    @routes.get(links.EXECUTIONS)
    def executions(request: Request) -> Response:
        return shown(request, lambda data, _: str(executions_part(data.executions())))

    @routes.get(links.PROJECT)
    def project(request: Request, path: Annotated[str, Query(max_length=1024)]) -> Response:
        def page(data: PageData, viewer: Viewer) -> str | None:
            history = data.history(path)
            return None if history is None else project_page(history, viewer)

        return shown(request, page)

    @routes.get(links.THREAD)
    def thread(
        request: Request, thread_id: Annotated[str, Query(alias="id", max_length=300)]
    ) -> Response:
        def page(data: PageData, viewer: Viewer) -> str | None:
            found = data.thread(thread_id)
            return None if found is None else thread_page(found, viewer)

        return shown(request, page)


def _add_doors(routes: APIRouter, services: NodeServices, gate: _Gate) -> None:
    @routes.post(links.LOGIN)
    async def log_in(request: Request) -> Response:
        if not _comes_from_here(request):
            return _page(login_page(_FOREIGN), 403)
        token = (await _form(request)).get("key", "").strip()
        key = await run_in_threadpool(services.api_keys.find, token)
        if key is None:
            return _page(login_page(_NO_KEY), 401)
        if not _may_look(key):
            return _page(login_page(_NO_SCOPE), 403)
        answer = _to(links.HOME)
        answer.set_cookie(
            COOKIE,
            gate.cookie_for(key),
            max_age=SESSION_S,
            httponly=True,
            samesite="strict",
            secure=_is_https(request),
        )
        return answer

    @routes.post(links.LOGOUT)
    async def log_out(request: Request) -> Response:
        guest = await run_in_threadpool(gate.guest, request)
        token = (await _form(request)).get("token", "")
        if guest is not None and not (_comes_from_here(request) and gate.is_own_form(guest, token)):
            return _page(message_page("Refused", _FOREIGN, gate.viewer(guest)), 403)
        if guest is not None:
            await run_in_threadpool(gate.log_out, guest)
        answer = _to(links.HOME)
        answer.delete_cookie(COOKIE, httponly=True, samesite="strict", secure=_is_https(request))
        return answer


def _add_open_pages(routes: APIRouter) -> None:
    @routes.get(links.API)
    def api(request: Request) -> Response:
        return _page(api_page(request.app.openapi()))

    @routes.get("/page/files/{name}")
    def file(name: str) -> Response:
        if name not in _FILES:
            raise Problem(404, "not found")
        headers = {**HEADERS, "Cache-Control": f"public, max-age={_FILE_AGE_S}"}
        return Response(_file(name), media_type=_FILES[name], headers=headers)


def _overview(services: NodeServices, data: PageData) -> Overview:
    return Overview(
        node_name=services.settings.name,
        node_id=services.keys.node_id,
        version=__version__,
        active=services.capacity.active,
        most_active=services.capacity.places,
        storage=data.storage(),
        executions=data.executions(),
        projects=data.projects(),
    )


def _may_look(key: ApiKey) -> bool:
    return allows(None if key.scopes is None else frozenset(key.scopes), THREADS)


def _comes_from_here(request: Request) -> bool:
    """Whether a form was sent by a page of this node, as far as the browser says.

    ``Sec-Fetch-Site`` is sent by every browser of today and set by no page. Where it is missing the
    origin decides, and a program that sends neither is no browser that could be misled.
    """
    site = request.headers.get("sec-fetch-site")
    if site is not None:
        return site == "same-origin"
    origin = request.headers.get("origin")
    return origin is None or origin.partition("://")[2] == request.headers.get("host")


def _is_https(request: Request) -> bool:
    """Whether the browser came by TLS, perhaps to a proxy in front of this node."""
    return "https" in (request.url.scheme, request.headers.get("x-forwarded-proto"))


async def _form(request: Request) -> dict[str, str]:
    """The fields of a form, each once; none of one that is no form, or a long one."""
    body = await request.body()
    if len(body) > _LONGEST_FORM:
        return {}
    try:
        fields = parse_qs(body.decode("utf-8", "replace"), max_num_fields=10)
    except ValueError:  # more fields than any form of ours has
        return {}
    return {name: values[-1] for name, values in fields.items()}


def _page(source: str, status: int = 200) -> HTMLResponse:
    return HTMLResponse(source, status, HEADERS)


def _to(path: str) -> RedirectResponse:
    return RedirectResponse(path, 303, HEADERS)


@cache
def _file(name: str) -> bytes:
    return (resources.files("rye_services.node.page") / "files" / name).read_bytes()
