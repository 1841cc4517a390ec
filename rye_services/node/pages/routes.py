"""Routes of the pages of a node: login, sessions, and which page an address shows.

A person logs in with an API key and gets a cookie that the node signed. What a page changes is a
form: it is taken from pages of this node only (the browser says where a form comes from, and the
form carries the token of its session), and its key needs the scope that the route of the same work
needs.
"""

import hmac
import json
import secrets
from base64 import urlsafe_b64encode
from collections.abc import Callable, Iterator, Mapping
from hashlib import sha256
from pathlib import PurePosixPath
from typing import Annotated, Any
from urllib.parse import parse_qs

from fastapi import APIRouter, Depends, Query, Request
from sqlalchemy import delete, insert, select, update
from starlette.concurrency import run_in_threadpool
from starlette.responses import RedirectResponse, Response, StreamingResponse

from lillux.digests import sha256_hex
from lillux.store_layout import is_digest
from lillux.values import dataclass
from rye_services.logs import note_user
from rye_services.node.pages.data import MOST_RUNS, MOST_WHOLE_CONFLICTS, Comparisons, PageData
from rye_services.node.pages.views import WAITING, History, RunFilter, ShownSnapshot
from rye_services.node.queue.logs import LogPiece
from rye_services.node.queue.rows import RUNNING
from rye_services.node.run_routes import LOG_PIECES, log_events, require_own_run
from rye_services.node.runs.execution import Order
from rye_services.node.services import NodeServices
from rye_services.node.worker.jobs import JobAction
from rye_services.people.actors import Actor, act_as, acting
from rye_services.people.audit import FailedLogIns
from rye_services.people.credentials import (
    ACCOUNT,
    EXECUTE,
    MANAGE,
    SECRETS,
    THREADS,
    WEBHOOKS,
    ApiKey,
    Principal,
    Role,
    allows,
)
from rye_services.people.people import OPEN
from rye_services.storage.database import Database, page_sessions
from rye_services.web import texts
from rye_services.web.drawings import history_picture
from rye_services.web.http import RequestProblem, client_address
from rye_services.web.page import (
    ADMIN,
    API,
    BROWSE,
    CANCEL,
    DIFF,
    FILE,
    HEADERS,
    HOME,
    ITEMS,
    LOGIN,
    LOGOUT,
    NODE_FILES,
    OUTPUT,
    PROJECT,
    RETRY,
    REVOKE_WEBHOOK,
    RUN,
    RUN_EVENTS,
    RUN_PART,
    RUN_PICTURE,
    RUNS,
    SECRETS_PAGE,
    TEAMS,
    WEBHOOKS_PAGE,
    add_files,
    page_answer,
    page_of,
    render,
)
from ryeos import __version__

# --- sessions -------------------------------------------------------------------------------------
# Sessions of people on the pages of a node: rows of the database, so that any server knows them.
#
# A session is begun by a user with an API key, or whom an OpenID provider knows. The cookie is
# random, new with each sign-in, and only its digest is kept. Whether the key still counts, or the
# person may still use the node, is asked for each request. A form carries the HMAC of the cookie
# (`form_token`): a page of another site cannot know it.

COOKIE = "rye_session"
SESSION_S = 12 * 3600
LONGEST_COOKIE = 200

PERSON_SCOPES = ("remote:*", "registry:*", ACCOUNT)
"""What a user may do on pages who signed in at a provider; to manage the node takes a key."""

_PURPOSE = b"rye-node page sessions v1"
_FORM_PURPOSE = b"form:"
_MOST = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class PageSession:
    """Who is signed in. ``key_id``: of the API key that they showed; None for a provider.

    owner  the team whose projects they look at, None for their own
    """

    user_id: str
    key_id: str | None
    owner: str | None
    until_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Guest:
    """A user who is signed in: the cookie they sent, and as whom they act.

    principal  of a member who looks at a team's projects the owner is that team
    key_name   what they signed in with, as the page says it
    """

    cookie: str
    principal: Principal
    key_name: str

    @property
    def user_id(self) -> str:
        """Whose projects the pages show."""
        return self.principal.user_id

    @property
    def who(self) -> str:
        """The person."""
        return self.principal.who

    def may(self, scope: str, role: Role = Role.READ) -> bool:
        """Whether their key is for this, and in a team their role."""
        own = self.principal.role
        return allows(self.principal.scopes, scope) and (own is None or own.includes(role))


def principal_of_key(key: ApiKey) -> Principal:
    """Who shows an API key on a page."""
    scopes = None if key.scopes is None else frozenset(key.scopes)
    return Principal(key.user_id, "page", scopes, key.id)


class PageSessions:
    """The sessions in the database. Thread-safe, and so across processes."""

    def __init__(self, database: Database, node_secret: bytes) -> None:
        self._database = database
        self._form_key = hmac.digest(node_secret, _PURPOSE, sha256)

    def begin(self, user_id: str, key_id: str | None, now_s: float) -> str:
        """A new session: the value of its cookie. Those that are over are forgotten."""
        cookie = secrets.token_urlsafe(32)
        columns = page_sessions.c
        row: dict[str, Any] = {"id_hash": _hash(cookie), "user_id": user_id, "key_id": key_id}
        row |= {"created_at_s": now_s, "until_s": now_s + SESSION_S}
        theirs = select(columns.id_hash).where(columns.user_id == user_id)
        older = theirs.order_by(columns.created_at_s.desc()).offset(_MOST - 1)
        with self._database.writing(lock=f"page sessions of {user_id}") as connection:
            surplus = connection.scalars(older).all()
            connection.execute(delete(page_sessions).where(columns.until_s < now_s))
            connection.execute(delete(page_sessions).where(columns.id_hash.in_(surplus)))
            connection.execute(insert(page_sessions).values(**row))
        return cookie

    def find(self, cookie: str, now_s: float) -> PageSession | None:
        """Whose a cookie is; None for one that is over, was ended, or never was."""
        if not cookie or len(cookie) > LONGEST_COOKIE or not cookie.isascii():
            return None
        columns = page_sessions.c
        query = select(columns.user_id, columns.key_id, columns.owner, columns.until_s)
        with self._database.reading() as connection:
            row = connection.execute(query.where(columns.id_hash == _hash(cookie))).first()
        if row is None or row.until_s <= now_s:
            return None
        return PageSession(
            user_id=row.user_id, key_id=row.key_id, owner=row.owner, until_s=row.until_s
        )

    def look_at(self, cookie: str, owner: str | None) -> None:
        """Let the pages show what a team owns, or what the person does."""
        change = update(page_sessions).where(page_sessions.c.id_hash == _hash(cookie))
        with self._database.writing() as connection:
            connection.execute(change.values(owner=owner))

    def end(self, cookie: str) -> None:
        """End a session: its cookie counts no longer, nor do copies of it."""
        with self._database.writing() as connection:
            gone = delete(page_sessions).where(page_sessions.c.id_hash == _hash(cookie))
            connection.execute(gone)

    def form_token(self, cookie: str) -> str:
        """What forms of this session carry."""
        mac = hmac.digest(self._form_key, _FORM_PURPOSE + cookie.encode(), sha256)
        return urlsafe_b64encode(mac).decode().rstrip("=")

    def is_form_token(self, token: str, cookie: str) -> bool:
        """Whether a form came from a page of this session; compared in constant time."""
        return hmac.compare_digest(token.encode(), self.form_token(cookie).encode())


def _hash(cookie: str) -> str:
    return sha256_hex(cookie.encode("utf-8", "surrogateescape"))


# --- who looks ------------------------------------------------------------------------------------

_LONGEST_FORM, _MOST_FIELDS = 4096, 10
_FOREIGN = "This form did not come from a page of this node."
_NO_KEY = "No valid key is like this. Check it, or ask for a new one."
_NO_SCOPE = f"This key may not see executions: it lacks the scope {THREADS}."


@dataclass(frozen=True, slots=True, kw_only=True)
class Viewer:
    """Who looks at a page, as it says. ``form_token`` goes into every form of it.

    owner  whose projects they look at: themselves, or one of their ``teams``
    """

    user_id: str
    owner: str
    teams: tuple[str, ...]
    key_name: str
    form_token: str
    may_execute: bool
    may_bind: bool
    may_manage: bool
    may_change: bool
    sees_secrets: bool
    sees_webhooks: bool


class Gate:
    """Who is logged in, and how one gets there. Thread-safe."""

    def __init__(self, services: NodeServices) -> None:
        self._services = services
        self.sessions = PageSessions(services.database, services.keys.box_private)
        self._failed = FailedLogIns(services.audit, services.database)

    def guest(self, request: Request) -> Guest | None:
        """Who sent a request; None where no user is signed in, or they may do nothing any more."""
        cookie = request.cookies.get(COOKIE, "")
        session = self.sessions.find(cookie, self._now_s)
        if session is None or self._services.people.state_of(session.user_id) != OPEN:
            return None
        principal = Principal(session.user_id, "page", frozenset(PERSON_SCOPES), "")
        key_name = "signed in"
        if session.key_id is not None:
            key = self._services.api_keys.valid_key(session.key_id)
            if key is None or key.role is not None:
                return None
            principal, key_name = principal_of_key(key), key.name
        if not allows(principal.scopes, THREADS):
            return None
        note_user(principal.user_id)
        return Guest(
            cookie=cookie,
            principal=self._acting_principal(principal, session.owner),
            key_name=key_name,
        )

    def _acting_principal(self, principal: Principal, owner: str | None) -> Principal:
        """As whom they look: as themselves where they are no member of the team any more."""
        try:
            return self._services.teams.acting_for(principal, owner, Role.READ)
        except RequestProblem:
            return principal

    def key_of(self, token: str, address: str) -> ApiKey | None:
        """The key that a user types to log in; None where no key that counts is like this.

        A token of a team is no person's, and logs no one in.
        """
        known = self._services.api_keys.find(token)
        if known is None or known.key.role is not None:
            self._failed.note(address)
            return None
        return known.key if known.user_state in {None, OPEN} else None

    def log_in(self, user_id: str, key_id: str | None, address: str) -> str:
        """The cookie of a new session, and a note in the audit."""
        with acting(Actor(user_id, address, key_id or "")):
            self._services.audit.note("log-in", "page")
        return self.sessions.begin(user_id, key_id, self._now_s)

    def log_out(self, guest: Guest) -> None:
        """End the session: its cookie counts no longer, nor do copies of it."""
        self.sessions.end(guest.cookie)

    def viewer(self, guest: Guest) -> Viewer:
        """What the page says about them."""
        teams = self._services.teams.of(guest.who)
        return Viewer(
            user_id=guest.who,
            owner=guest.user_id,
            teams=tuple(one.team_id for one in teams),
            key_name=guest.key_name,
            form_token=self.sessions.form_token(guest.cookie),
            may_execute=guest.may(EXECUTE, Role.RUN),
            may_bind=guest.may(WEBHOOKS, Role.ADMIN),
            may_manage=guest.may(MANAGE),
            may_change=guest.may(ACCOUNT),
            sees_secrets=guest.may(SECRETS, Role.RUN),
            sees_webhooks=guest.may(WEBHOOKS),
        )

    def is_own_form(self, guest: Guest, token: str) -> bool:
        """Whether a form was made for this session."""
        return self.sessions.is_form_token(token, guest.cookie)

    @property
    def _now_s(self) -> float:
        return self._services.clock().timestamp()


class Pages:
    """Answers with the pages of one node. Thread-safe."""

    def __init__(self, services: NodeServices) -> None:
        self.services, self.gate = services, Gate(services)
        self._comparisons = Comparisons()

    def data(self, guest: Guest) -> PageData:
        """What they may see."""
        return PageData(self.services, guest.user_id, self._comparisons)

    def shown(self, request: Request, page: Callable[[Guest], Response | None]) -> Response:
        """The page for a user who is logged in, else the login. What is refused is a page too."""
        guest = self.gate.guest(request)
        if guest is None:
            return self.login("", 200 if request.url.path == HOME else 401)
        act_as(Actor(guest.who, client_address(request), guest.principal.key_id))
        if "%00" in request.url.query:  # no text of a database has one
            return self.message(guest, "Not found", "There is no such thing here.", 404)
        try:
            answer = page(guest)
        except RequestProblem as problem:
            return self.message(guest, "Not possible", _words(problem), problem.status_code)
        if answer is None:
            return self.message(guest, "Not found", "There is no such thing here.", 404)
        return answer

    async def changed(
        self,
        request: Request,
        scope: str,
        change: Callable[[Guest, Mapping[str, str]], Response],
        role: Role = Role.READ,
        *,
        limits: tuple[int, int] = (_LONGEST_FORM, _MOST_FIELDS),
    ) -> Response:
        """What a form changes: by its own page, for a key that has the scope.

        ``limits``: bytes and fields that it may have.
        """
        fields = await form_fields(request, *limits)

        def work(guest: Guest) -> Response:
            if not (comes_from_here(request) and self.is_own(guest, fields)):
                raise RequestProblem(403, _FOREIGN)
            if not guest.may(scope):
                raise RequestProblem(403, f"This key lacks the scope {scope}.")
            if not guest.may(scope, role):
                words = f"In {guest.user_id} this needs the role {role.value}."
                raise RequestProblem(403, words)
            return change(guest, fields)

        return await run_in_threadpool(self.shown, request, work)

    def is_own(self, guest: Guest, fields: Mapping[str, str]) -> bool:
        """Whether a form was made for the session of its sender."""
        return self.gate.is_own_form(guest, fields.get("token", ""))

    def page(  # ``here`` is the address in the navigation that the page belongs to
        self, guest: Guest, template: str, /, status: int = 200, **values: object
    ) -> Response:
        """A page for a user who is logged in."""
        return page_answer(self._rendered(template, self.gate.viewer(guest), **values), status)

    def login(self, problem: str, status: int) -> Response:
        """The page that asks for an API key. ``problem``: why the last one did not do."""
        return page_answer(self._rendered("node/login.html", None, problem=problem), status)

    def message(self, guest: Guest | None, title: str, words: str, status: int) -> Response:
        """A sentence, where there is no page to show."""
        viewer = None if guest is None else self.gate.viewer(guest)
        source = self._rendered("node/message.html", viewer, title=title, words=words)
        return page_answer(source, status)

    def open_page(self, template: str, /, **values: object) -> Response:
        """A page for any visitor."""
        return page_answer(self._rendered(template, None, **values))

    def _rendered(self, template: str, viewer: Viewer | None, /, **values: object) -> str:
        settings = self.services.settings
        has_registry = {"registry", "all"} & set(settings.roles)
        return render(
            template,
            viewer=viewer,
            navigation=tuple(_navigation(viewer, has_registry=bool(has_registry))),
            here=values.pop("here", ""),
            node_name=settings.name,
            has_registry=bool(has_registry),
            has_provider=bool(settings.oidc_issuer),
            **values,
        )


def _navigation(viewer: Viewer | None, *, has_registry: bool) -> Iterator[tuple[str, str]]:
    """Where one can go from any page: addresses with their names."""
    if viewer is not None:
        yield HOME, "Runs"
        yield ITEMS, "Items"
        if viewer.sees_secrets:
            yield SECRETS_PAGE, "Secrets"
        if viewer.sees_webhooks:
            yield WEBHOOKS_PAGE, "Webhooks"
        yield TEAMS, "Teams"
        if viewer.may_manage:
            yield ADMIN, "Admin"
    if has_registry:
        yield BROWSE, "Registry"
    yield API, "API"


def _words(problem: RequestProblem) -> str:
    detail = problem.detail
    if isinstance(detail, Mapping):
        return str(detail.get("error", ""))
    return str(detail)


# --- page routes ----------------------------------------------------------------------------------


def page_router(pages: Pages) -> APIRouter:
    """The pages. They are for people: no OpenAPI document lists them."""
    routes = APIRouter(include_in_schema=False)
    _add_doors(routes, pages)
    _add_run_pages(routes, pages)
    _add_output_page(routes, pages)
    _add_project_pages(routes, pages)
    _add_forms(routes, pages)
    _add_api_page(routes, pages)
    add_files(routes, NODE_FILES)
    return routes


Text = Annotated[str, Query(max_length=1024)]
Digest = Annotated[str, Query(max_length=64)]


def _run_filter(  # noqa: PLR0917 - the fields of a form
    q: Text = "",
    state: Annotated[str, Query(max_length=40)] = "",
    item: Text = "",
    project: Text = "",
    user: Annotated[str, Query(max_length=64)] = "",
    since: Annotated[str, Query(max_length=40)] = "",
    until: Annotated[str, Query(max_length=40)] = "",
    page: Annotated[int, Query(ge=1, le=100_000)] = 1,
    size: Annotated[int, Query(ge=1, le=MOST_RUNS)] = 50,
) -> RunFilter:
    return RunFilter(
        text=q,
        state=state,
        item=item,
        project=project,
        user=user,
        since=since,
        until=until,
        page=page,
        size=size,
    )


WantedRuns = Annotated[RunFilter, Depends(_run_filter)]


def _add_run_pages(routes: APIRouter, pages: Pages) -> None:
    services = pages.services

    @routes.get(HOME)
    def home(request: Request, wanted: WantedRuns) -> Response:
        def page(guest: Guest) -> Response:
            data, allowed = pages.data(guest), _allowed_filter(guest, wanted)
            return pages.page(
                guest,
                "node/home.html",
                here=HOME,
                node_id=services.keys.node_id,
                version=__version__,
                storage=data.storage,
                projects=data.projects(),
                activity=data.activity(),
                runs=data.runs(allowed),
                states=data.states(allowed),
            )

        return pages.shown(request, page)

    @routes.get(RUNS)
    def runs(request: Request, wanted: WantedRuns) -> Response:
        def part(guest: Guest) -> Response:
            found = pages.data(guest).runs(_allowed_filter(guest, wanted))
            return pages.page(guest, "node/runs.html", runs=found)

        return pages.shown(request, part)

    def run_as(
        request: Request, thread_id: Annotated[str, Query(alias="id", max_length=300)]
    ) -> Response:
        def page(guest: Guest) -> Response | None:
            found = pages.data(guest).run(thread_id)
            if found is None:
                return None
            whole = request.url.path == RUN
            template = "node/run.html" if whole else "node/run_part.html"
            return pages.page(
                guest, template, run=found, code=texts.code, most_conflicts=MOST_WHOLE_CONFLICTS
            )

        return pages.shown(request, page)

    routes.add_api_route(RUN, run_as, methods=["GET"])
    routes.add_api_route(RUN_PART, run_as, methods=["GET"])

    _add_run_picture(routes, pages)
    _add_run_events(routes, pages)


def _add_run_picture(routes: APIRouter, pages: Pages) -> None:
    """The picture of a graph that ran, as an image: what is in it is no part of the page."""

    @routes.get(RUN_PICTURE)
    def picture(
        request: Request, thread_id: Annotated[str, Query(alias="id", max_length=300)]
    ) -> Response:
        def drawn(guest: Guest) -> Response | None:
            text = pages.data(guest).picture(thread_id)
            if text is None:
                return None
            return Response(text, media_type="image/svg+xml", headers=HEADERS)

        return pages.shown(request, drawn)


def _add_run_events(routes: APIRouter, pages: Pages) -> None:
    """The log of a run as it is written, for the script of its page; without it a page polls.

    A stream ends when the session does, and when this server is asked to end; the browser asks
    again then, perhaps another server.
    """

    @routes.get(RUN_EVENTS, response_model=None)
    async def events(
        request: Request,
        thread_id: Annotated[str, Query(alias="id", max_length=300)],
        after: Annotated[int, Query(ge=0, le=2**31 - 1)] = 0,
    ) -> Response:
        services = pages.services

        def read(number: int) -> tuple[list[LogPiece], str]:
            guest = pages.gate.guest(request)
            if guest is None:
                raise RequestProblem(401, "not logged in")
            row = (
                None if services.watch.health.is_draining else pages.data(guest).run_row(thread_id)
            )
            if row is None:
                raise RequestProblem(404, f"thread not found: {thread_id[:300]!a}")
            return services.executions.logs.read(thread_id, number, LOG_PIECES), row.state

        pieces, state = await run_in_threadpool(read, after)
        stream = log_events(read, pieces, state, after, (RUNNING, WAITING))
        return StreamingResponse(stream, media_type="text/event-stream", headers=HEADERS)


def _add_output_page(routes: APIRouter, pages: Pages) -> None:
    @routes.get(OUTPUT)
    def output(
        request: Request,
        thread_id: Annotated[str, Query(alias="id", max_length=300)],
        file: Annotated[str, Query(max_length=4096)],
    ) -> Response:
        def page(guest: Guest) -> Response | None:
            side = pages.data(guest).output(thread_id, file)
            if side is None:
                return None
            return _file_page(pages, guest, file, side, back=page_of(RUN, id=thread_id))

        return pages.shown(request, page)


def _add_project_pages(routes: APIRouter, pages: Pages) -> None:
    @routes.get(PROJECT)
    def project(request: Request, path: Text, snapshot: Digest = "", folder: Text = "") -> Response:
        return pages.shown(request, lambda guest: _project(pages, guest, path, snapshot, folder))

    @routes.get(FILE)
    def file(
        request: Request,
        path: Text,
        snapshot: Digest,
        name: Annotated[str, Query(alias="file", max_length=4096)],
    ) -> Response:
        def page(guest: Guest) -> Response | None:
            data = pages.data(guest)
            found = _snapshot(data, snapshot)
            side = None if found is None else data.file(found, name)
            if side is None:
                return None
            back = page_of(PROJECT, path=path, snapshot=snapshot, folder=name.rpartition("/")[0])
            return _file_page(pages, guest, name, side, back=back)

        return pages.shown(request, page)

    @routes.get(DIFF)
    def diff(
        request: Request,
        path: Text,
        to: Digest,
        begin: Annotated[str, Query(alias="from", max_length=64)] = "",
    ) -> Response:
        return pages.shown(request, lambda guest: _diff(pages, guest, path, begin, to))


def _project(pages: Pages, guest: Guest, path: str, snapshot: str, folder: str) -> Response | None:
    data = pages.data(guest)
    project = data.project(path)
    if project is None:
        return None
    shown = _snapshot(data, snapshot or project.snapshot_hash)
    if shown is None and snapshot:
        return None
    history = data.history(project)
    return pages.page(
        guest,
        "node/project.html",
        project=project,
        shown=shown,
        folder=data.folder(shown, folder.strip("/")) if shown else None,
        history=history,
        picture=_picture(history),
        conflicted=data.conflicted(path),
        webhooks=data.webhooks(path),
    )


def _snapshot(data: PageData, digest: str) -> ShownSnapshot | None:
    """A snapshot of the user's. Raises RequestProblem for one that is gone for good."""
    found = data.snapshot(digest)
    if found is None and is_digest(digest) and (at := data.accepted_loss(digest)):
        raise RequestProblem(
            410,
            f"Snapshot {digest[:12]} was lost. The operator of this node accepted that {at[:10]}.",
        )
    return found


def _picture(history: History) -> object:
    return history_picture(history.snapshots, is_cut=history.is_cut)


def _diff(pages: Pages, guest: Guest, path: str, begin: str, to: str) -> Response | None:
    """What a snapshot changed, of another one or of its first parent."""
    data = pages.data(guest)
    after = _snapshot(data, to)
    if after is None:
        return None
    before: ShownSnapshot | None = None
    if begin or after.parents:
        before = data.snapshot(begin or after.parents[0])
        if before is None:
            return None
    found = data.difference(before, after)
    if found is None:
        return None
    return pages.page(
        guest, "node/diff.html", path=path, before=before, after=after, difference=found
    )


def _file_page(pages: Pages, guest: Guest, name: str, side: Any, *, back: str) -> Response:  # noqa: ANN401
    suffix = PurePosixPath(name).suffix
    code = texts.code(side.content, suffix) if side.is_text else None
    return pages.page(guest, "node/file.html", name=name, side=side, code=code, back=back)


def _allowed_filter(guest: Guest, wanted: RunFilter) -> RunFilter:
    """The filter, where they may see these runs. Raises RequestProblem."""
    if wanted.user in {"", guest.user_id} or guest.may(MANAGE):
        return wanted
    raise RequestProblem(403, f"This key may not see runs of others: it lacks the scope {MANAGE}.")


# --- forms ----------------------------------------------------------------------------------------


def _add_forms(routes: APIRouter, pages: Pages) -> None:
    @routes.post(RETRY)
    async def retry(request: Request) -> Response:
        def change(guest: Guest, fields: Mapping[str, str]) -> Response:
            return _to(page_of(RUN, id=_repeated(pages, guest, fields.get("id", ""))))

        return await pages.changed(request, EXECUTE, change, Role.RUN)

    @routes.post(CANCEL)
    async def cancel(request: Request) -> Response:
        def change(guest: Guest, fields: Mapping[str, str]) -> Response:
            thread_id = fields.get("id", "")
            require_own_run(pages.services, guest.principal, thread_id)
            state = pages.services.executions.cancel(guest.user_id, thread_id, guest.who)
            if state is None:
                raise RequestProblem(404, "There is no such run.")
            return _to(page_of(RUN, id=thread_id))

        return await pages.changed(request, EXECUTE, change, Role.RUN)

    @routes.post(REVOKE_WEBHOOK)
    async def revoke(request: Request) -> Response:
        def change(guest: Guest, fields: Mapping[str, str]) -> Response:
            if not pages.services.webhooks.revoke(guest.user_id, fields.get("hook_id", "")):
                raise RequestProblem(404, "There is no such webhook, or it was revoked before.")
            path = fields.get("path", "")
            return _to(page_of(PROJECT, path=path) if path else WEBHOOKS_PAGE)

        return await pages.changed(request, WEBHOOKS, change, Role.ADMIN)


def _repeated(pages: Pages, guest: Guest, thread_id: str) -> str:
    """Start the same run once more, from HEAD as it is now; its id. Raises RequestProblem."""
    run = pages.data(guest).run(thread_id)
    if run is None:
        raise RequestProblem(404, "There is no such run.")
    given = None if run.parameters is None else run.parameters.given
    if not run.is_repeatable or given is None or given.parameters is None:
        raise RequestProblem(409, "This run cannot be repeated: not all it was given is kept.")
    order = Order(
        user_id=guest.user_id,
        started_by=guest.principal.person,
        may_change=guest.may(EXECUTE, Role.PUSH),
        project_path=run.row.project_path,
        action=JobAction.EXECUTE,
        item_ref=run.row.item_id,
        parameters=given.parameters,
        is_async=True,
        vault_keys=given.vault_keys,
    )
    return str(pages.services.executions.accept(order)["thread_id"])


def _add_doors(routes: APIRouter, pages: Pages) -> None:
    gate = pages.gate

    @routes.post(LOGIN)
    async def log_in(request: Request) -> Response:
        if not comes_from_here(request):
            return pages.login(_FOREIGN, 403)
        token = (await form_fields(request)).get("key", "").strip()
        address = client_address(request)
        key = await run_in_threadpool(gate.key_of, token, address)
        if key is None:
            return pages.login(_NO_KEY, 401)
        if not allows(None if key.scopes is None else frozenset(key.scopes), THREADS):
            return pages.login(_NO_SCOPE, 403)
        cookie = await run_in_threadpool(gate.log_in, key.user_id, key.id, address)
        return with_session(request, _to(HOME), cookie)

    @routes.post(LOGOUT)
    async def log_out(request: Request) -> Response:
        guest = await run_in_threadpool(gate.guest, request)
        fields = await form_fields(request)
        if guest is not None and not (comes_from_here(request) and pages.is_own(guest, fields)):
            return pages.message(guest, "Refused", _FOREIGN, 403)
        if guest is not None:
            await run_in_threadpool(gate.log_out, guest)
        answer = _to(HOME)
        answer.delete_cookie(COOKIE, httponly=True, samesite="strict", secure=is_https(request))
        return answer


def with_session(request: Request, answer: Response, cookie: str) -> Response:
    """An answer with the cookie of a session that has begun."""
    answer.set_cookie(
        COOKIE,
        cookie,
        max_age=SESSION_S,
        httponly=True,
        samesite="strict",
        secure=is_https(request),
    )
    return answer


def comes_from_here(request: Request) -> bool:
    """Whether a form was sent by a page of this node, as far as the browser says.

    ``Sec-Fetch-Site`` is sent by every browser of today and set by no page. Where it is missing the
    origin decides, and a program that sends neither is no browser that could be misled.
    """
    site = request.headers.get("sec-fetch-site")
    if site is not None:
        return site == "same-origin"
    origin = request.headers.get("origin")
    return origin is None or origin.partition("://")[2] == request.headers.get("host")


def is_https(request: Request) -> bool:
    """Whether the browser came by TLS, perhaps to a proxy in front of this node."""
    return "https" in (request.url.scheme, request.headers.get("x-forwarded-proto"))


async def form_fields(
    request: Request, longest: int = _LONGEST_FORM, most: int = _MOST_FIELDS
) -> dict[str, str]:
    """The fields of a form, each once; none of one that is no form, or a long one."""
    body = await request.body()
    if len(body) > longest:
        return {}
    try:
        fields = parse_qs(body.decode("utf-8", "replace"), max_num_fields=most)
    except ValueError:  # more fields than any form of ours has
        return {}
    return {name: values[-1] for name, values in fields.items() if "\0" not in values[-1]}


def _to(path: str) -> RedirectResponse:
    return RedirectResponse(path, 303, HEADERS)


# --- the routes of the node as a page -------------------------------------------------------------

_METHODS = ("get", "post", "put", "patch", "delete")


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownRoute:
    """A route of the OpenAPI document: what it does, takes and answers.

    shapes   schemas of its body and answers as JSON, each with what it is of
    example  a body to begin with, "" for none in JSON
    """

    name: str
    about: tuple[str, ...]
    parameters: tuple[Mapping[str, Any], ...]
    body: str
    answers: str
    shapes: tuple[tuple[str, str], ...] = ()
    example: str = ""

    @property
    def method(self) -> str:
        """``GET`` and the like."""
        return self.name.partition(" ")[0]

    @property
    def path(self) -> str:
        """Its address, with names in braces."""
        return self.name.partition(" ")[2]


def _add_api_page(routes: APIRouter, pages: Pages) -> None:
    @routes.get(API)
    def api(request: Request, route: Annotated[str, Query(max_length=300)] = "") -> Response:
        document = request.app.openapi()
        if not route:
            return pages.open_page(
                "node/api.html",
                here=API,
                title=f"{document['info']['title']} {document['info']['version']}",
                openapi=str(document["openapi"]),
                routes=shown_routes(document),
            )
        found = next((one for one in shown_routes(document) if one.name == route), None)
        if found is None:
            return pages.message(None, "Not found", "There is no such route here.", 404)
        shapes = tuple((name, texts.code(text, ".json")) for name, text in found.shapes)
        return pages.open_page("node/route.html", here=API, route=found, shapes=shapes)


def shown_routes(openapi: Mapping[str, Any]) -> tuple[ShownRoute, ...]:
    """Every route of the document, in its order."""
    return tuple(
        _route(f"{method.upper()} {path}", methods[method], openapi)
        for path, methods in openapi["paths"].items()
        for method in _METHODS
        if method in methods
    )


_DEEPEST = 6
"""Levels of a schema that are written out; below them its name stands."""


def _route(name: str, operation: Mapping[str, Any], openapi: Mapping[str, Any]) -> ShownRoute:
    about = str(operation.get("description") or operation.get("summary") or "")
    content = operation.get("requestBody", {}).get("content", {})
    bodies = (
        str(kind.get("schema", {}).get("$ref", "")).rpartition("/")[2] or media
        for media, kind in content.items()
    )
    return ShownRoute(
        name=name,
        about=tuple(part for part in about.split("\n\n") if part.strip()),
        parameters=tuple(operation.get("parameters", ())),
        body=", ".join(bodies),
        answers=", ".join(map(str, operation.get("responses", {}))),
        shapes=tuple(_shapes(operation, openapi)),
        example=_example(content, openapi),
    )


def _shapes(operation: Mapping[str, Any], openapi: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    contents = {"Body": operation.get("requestBody", {}).get("content", {})}
    contents |= {
        f"Answer {status}": answer.get("content", {})
        for status, answer in operation.get("responses", {}).items()
    }
    for name, content in contents.items():
        schema = content.get("application/json", {}).get("schema")
        if schema:
            yield name, json.dumps(_resolved(schema, openapi, _DEEPEST), indent=2)


def _resolved(schema: object, openapi: Mapping[str, Any], left: int) -> object:
    """A schema with those that it names in their places, down to a depth."""
    if isinstance(schema, list):
        return [_resolved(one, openapi, left) for one in schema]
    if not isinstance(schema, Mapping):
        return schema
    name = str(schema.get("$ref", "")).rpartition("/")[2]
    if name and left:
        found = openapi.get("components", {}).get("schemas", {}).get(name, {})
        return _resolved(found, openapi, left - 1)
    return {key: _resolved(value, openapi, left) for key, value in schema.items()}


def _example(content: Mapping[str, Any], openapi: Mapping[str, Any]) -> str:
    """A body with each key that is required, or that has an example."""
    schema = _resolved(content.get("application/json", {}).get("schema"), openapi, _DEEPEST)
    if not isinstance(schema, Mapping):
        return ""
    required = schema.get("required", ())
    values = {
        name: (about.get("examples") or [about.get("default")])[0]
        for name, about in schema.get("properties", {}).items()
        if isinstance(about, Mapping) and (name in required or about.get("examples"))
    }
    return json.dumps(values, indent=2)
