"""Routes of the status page: login, sessions, and which page an address shows.

A person logs in with an API key and gets a cookie that the node signed (`page.sessions`). Forms are
taken from pages of this node only: the browser says where a form comes from, and the form carries
the token of its session. Nothing can be changed here but being logged in.
"""

import hmac
import json
import secrets
from base64 import b64decode, urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Mapping
from functools import cache
from hashlib import sha256
from importlib import resources
from typing import Annotated, Any
from urllib.parse import parse_qs

from fastapi import APIRouter, Query, Request
from sqlalchemy import Row, select
from sqlalchemy.dialects import postgresql, sqlite
from starlette.concurrency import run_in_threadpool
from starlette.responses import HTMLResponse, RedirectResponse, Response

from lillux.digests import sha256_hex
from lillux.errors import LilluxError
from lillux.store import Store
from lillux.store_files import ObjectKind
from lillux.values import dataclass
from rye_services.credentials import THREADS, ApiKey, allows
from rye_services.database import Database, project_refs, request_nonces, threads, users
from rye_services.http import RequestProblem
from rye_services.node.page import (
    api_page,
    executions_part,
    login_page,
    message_page,
    newest_first,
    overview_page,
    project_page,
    thread_page,
)
from rye_services.node.rows import cut
from rye_services.node.services import NodeServices
from rye_services.page import (
    API,
    EXECUTIONS,
    HEADERS,
    HOME,
    LOGIN,
    LOGOUT,
    PROJECT,
    THREAD,
    Absence,
    Execution,
    History,
    Overview,
    Project,
    ShownConflict,
    ShownSnapshot,
    ShownStorage,
    ShownThread,
    Side,
    Viewer,
)
from ryeos import __version__

# --- page data ------------------------------------------------------------------------------------
# What the page shows of one user, read from the database and the user's store. Writes nothing.

MOST_EXECUTIONS = 50
MOST_PROJECTS = 200
MOST_SNAPSHOTS = 200
LARGEST_SHOWN_BYTES = 200_000
MOST_SHOWN_CHARACTERS = 2_000_000
"""Of all conflicts of a page together; the sides of later ones are too long."""

_MOST_CONFLICTS = 1_000
_LONGEST_FIELD = 10_000
_LISTED = (
    "thread_id",
    "item_id",
    "project_path",
    "state",
    "created_at",
    "completed_at",
    "merge_conflicts",
    "merge_conflict_count",
    "error_message",
)
_ROW = (
    "thread_id",
    "state",
    "project_path",
    "execution_mode",
    "created_at",
    "completed_at",
    "system_version",
    "merge_type",
    "snapshot_hash",
    "unmerged_snapshot_hash",
    "execution_snapshot_hash",
    "runtime_outputs_bundle_hash",
    "error_phase",
    "error_message",
)


class PageData:
    """What one user may see."""

    def __init__(self, services: NodeServices, user_id: str) -> None:
        self._services, self._user_id = services, user_id

    @property
    def _store(self) -> Store:
        return self._services.stores.of(self._user_id)

    def storage(self) -> ShownStorage:
        """Bytes stored and allowed."""
        query = select(users.c.stored_bytes).where(users.c.id == self._user_id)
        with self._services.database.reading() as connection:
            used = connection.scalar(query) or 0
        return ShownStorage(used, self._services.settings.max_user_storage_bytes)

    def executions(self) -> tuple[Execution, ...]:
        """The newest executions."""
        columns = threads.c
        query = select(*(columns[name] for name in _LISTED)).where(
            columns.user_id == self._user_id, columns.remote_name == self._services.settings.name
        )
        query = query.order_by(columns.created_at.desc(), columns.thread_id).limit(MOST_EXECUTIONS)
        with self._services.database.reading() as connection:
            return tuple(_execution(row) for row in connection.execute(query))

    def projects(self) -> tuple[Project, ...]:
        """The projects with a HEAD, those that moved last first."""
        columns = project_refs.c
        query = self._heads().order_by(columns.head_updated_at.desc()).limit(MOST_PROJECTS)
        with self._services.database.reading() as connection:
            return tuple(_project(row) for row in connection.execute(query))

    def history(self, project_path: str) -> History | None:
        """The snapshots that lead to HEAD, merged ones too; None for a project that is not there.

        Snapshots that the store does not hold any more are left out: the rest is still true.
        """
        query = self._heads().where(project_refs.c.project_path == project_path)
        with self._services.database.reading() as connection:
            row = connection.execute(query).one_or_none()
        if row is None:
            return None
        project = _project(row)
        found, is_cut = self._ancestors(project.snapshot_hash)
        return History(project=project, snapshots=newest_first(found), is_cut=is_cut)

    def thread(self, thread_id: str) -> ShownThread | None:
        """An execution and its conflicts; None for one that is not this user's."""
        columns = threads.c
        query = select(threads).where(
            columns.thread_id == thread_id, columns.user_id == self._user_id
        )
        with self._services.database.reading() as connection:
            row = connection.execute(query).one_or_none()
        if row is None:
            return None
        values = row._mapping  # noqa: SLF001 - the public name of a row's columns
        fields = {
            name.replace("_", " "): cut(str(values[name]), _LONGEST_FIELD)
            for name in _ROW
            if values[name]
        }
        fields |= self._receipt(values["result_hash"])
        conflicts, left = list[ShownConflict](), MOST_SHOWN_CHARACTERS
        for path, sides in _conflicts(row.merge_conflicts).items():
            conflict = self._conflict(path, sides, left)
            conflicts.append(conflict)
            left -= _characters(conflict)
        return ShownThread(execution=_execution(row), fields=fields, conflicts=tuple(conflicts))

    def _receipt(self, result_hash: str | None) -> dict[str, str]:
        """The rights in the receipt of an execution; nothing without a receipt."""
        try:
            stored = self._store.get_object(result_hash) if result_hash else {}
            payload = stored["result"]["receipt"]["envelope"]["payload"]
            rights = json.loads(b64decode(payload))["predicate"]["rights"]
        except (LilluxError, ValueError, KeyError, TypeError):
            return {}
        shown = {f"may {key}": value for key, value in rights.items() if key != "level"}
        return {
            name: cut(
                value if isinstance(value, str) else ", ".join(map(str, value)), _LONGEST_FIELD
            )
            for name, value in shown.items()
            if isinstance(value, str | list)
        }

    def _heads(self) -> Any:  # noqa: ANN401 - a select of SQLAlchemy
        columns = project_refs.c
        return select(project_refs).where(
            columns.user_id == self._user_id, columns.remote_name == self._services.settings.name
        )

    def _ancestors(self, head: str) -> tuple[dict[str, ShownSnapshot], bool]:
        """The snapshots above HEAD, breadth first, so that what is cut off is the oldest."""
        store, found, waiting = self._store, dict[str, ShownSnapshot](), [head]
        while waiting and len(found) < MOST_SNAPSHOTS:
            digest = waiting.pop(0)
            snapshot = _snapshot(store, digest) if digest not in found else None
            if snapshot is not None:
                found[digest] = snapshot
                waiting.extend(snapshot.parents)
        return found, any(digest not in found for digest in waiting)

    def _conflict(self, path: str, sides: Mapping[str, Any], left: int) -> ShownConflict:
        """With the texts of its sides, as long as ``left`` more characters may be shown."""
        most = min(LARGEST_SHOWN_BYTES, left)
        return ShownConflict(
            path=cut(path, _LONGEST_FIELD),
            kind=cut(str(sides.get("type", ""))),
            base=self._side(sides.get("base"), most),
            ours=self._side(sides.get("ours"), most),
            theirs=self._side(sides.get("theirs"), most),
        )

    def _side(self, digest: object, most: int) -> Side:
        if not isinstance(digest, str) or not digest:
            return Side(None, Absence.DELETED)
        store = self._store
        try:
            blob = _blob_of(store, digest)
            if (store.size(ObjectKind.BLOB, blob) or 0) > most:
                return Side(digest, Absence.TOO_LONG)
            data = store.get_blob(blob)
        except LilluxError:
            return Side(digest, Absence.LOST)
        try:
            return Side(digest, data.decode() if b"\0" not in data else Absence.BINARY)
        except UnicodeDecodeError:
            return Side(digest, Absence.BINARY)


def _blob_of(store: Store, digest: str) -> str:
    """The blob of an item, or the digest itself: a file is its blob."""
    if not store.has_object(digest):
        return digest
    value = store.get_object(digest)
    is_item = isinstance(value, dict) and value.get("kind") == "item_source"
    return str(value["content_blob_hash"]) if is_item else digest


def _characters(conflict: ShownConflict) -> int:
    sides = (conflict.base, conflict.ours, conflict.theirs)
    return sum(len(side.content) for side in sides)


def _snapshot(store: Store, digest: str) -> ShownSnapshot | None:
    try:
        value = store.get_object(digest)
    except LilluxError:
        return None
    if not isinstance(value, dict) or value.get("kind") != "project_snapshot":
        return None
    metadata = value.get("metadata")
    thread_id = metadata.get("thread_id", "") if isinstance(metadata, dict) else ""
    return ShownSnapshot(
        digest=digest,
        parents=tuple(str(parent) for parent in value.get("parent_hashes", ())),
        source=cut(str(value.get("source", ""))),
        detail=cut(str(value.get("source_detail", ""))),
        timestamp=cut(str(value.get("timestamp", ""))),
        thread_id=cut(str(thread_id)),
    )


def _conflicts(record: object) -> dict[str, Mapping[str, Any]]:
    """Path to sides; a record may instead say that all retries were used up."""
    if not isinstance(record, dict):
        return {}
    sides = {path: each for path, each in record.items() if isinstance(each, dict)}
    return dict(sorted(sides.items())[:_MOST_CONFLICTS])


def _execution(row: Row[Any]) -> Execution:
    return Execution(
        thread_id=row.thread_id,
        item_id=row.item_id,
        project_path=row.project_path,
        state=row.state,
        created_at=row.created_at,
        completed_at=row.completed_at or "",
        conflicts=row.merge_conflict_count or len(_conflicts(row.merge_conflicts)),
        error=cut(row.error_message or ""),
    )


def _project(row: Row[Any]) -> Project:
    return Project(
        project_path=row.project_path,
        snapshot_hash=row.snapshot_hash,
        revision=row.snapshot_revision,
        moved_at=row.head_updated_at,
    )


# --- sessions -------------------------------------------------------------------------------------
# What the browser of a person who logged in holds: a cookie that the node alone can make. Pure.
#
# The cookie is ``v1.PAYLOAD.MAC``: base64url of a canonical JSON document, and the HMAC-SHA256 of
# ``v1.PAYLOAD``. It names the API key that the person logged in with; whether that key still counts
# is asked for each request, so a revoked key ends its sessions. Nothing secret is in it. One that
# was logged out of is remembered until its end (`ended_sessions`).
#
# A form carries the HMAC of the cookie (`form_token`): a page of somebody else cannot know it.

COOKIE = "rye_session"
SESSION_S = 12 * 3600
LONGEST_COOKIE = 2048

_PURPOSE = b"rye-node page sessions v1"
_FORM_PURPOSE = b"form:"


@dataclass(frozen=True, slots=True)
class PageSession:
    """Who is logged in. ``key_id`` is the id of an API key, ``until_s`` seconds since 1970.

    session_id  makes the cookies of two logins differ, so that each is ended for itself
    """

    key_id: str
    until_s: int
    session_id: str = ""


def session_key(node_secret: bytes) -> bytes:
    """The key of the cookies: derived from a secret of the node, of no use for anything else."""
    return hmac.digest(node_secret, _PURPOSE, sha256)


def seal_session(session: PageSession, key: bytes) -> str:
    """The value of the cookie."""
    document = {"id": session.session_id, "key_id": session.key_id, "until_s": session.until_s}
    text = json.dumps(document, sort_keys=True, separators=(",", ":"))
    signed = "v1." + _base64(text.encode())
    return f"{signed}.{_mac(key, signed)}"


def read_session(cookie: str, key: bytes, *, now_s: float) -> PageSession | None:
    """Who the cookie is of; None where it is not ours, was changed, or is over."""
    if len(cookie) > LONGEST_COOKIE or not cookie.isascii():
        return None
    signed, _, mac = cookie.rpartition(".")
    if not signed.startswith("v1.") or not hmac.compare_digest(mac, _mac(key, signed)):
        return None
    payload = signed.removeprefix("v1.")
    document = json.loads(urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
    session = PageSession(document["key_id"], document["until_s"], document.get("id", ""))
    return session if session.until_s > now_s else None


def form_token(cookie: str, key: bytes) -> str:
    """What forms of this session carry."""
    return _base64(hmac.digest(key, _FORM_PURPOSE + cookie.encode(), sha256))


def is_form_token(token: str, cookie: str, key: bytes) -> bool:
    """Whether a form came from a page of this session; compared in constant time."""
    return hmac.compare_digest(token.encode(), form_token(cookie, key).encode())


def _mac(key: bytes, signed: str) -> str:
    return _base64(hmac.digest(key, signed.encode(), sha256))


def _base64(data: bytes) -> str:
    return urlsafe_b64encode(data).decode().rstrip("=")


# --- page routes ----------------------------------------------------------------------------------

_FILES = {"style.css": "text/css", "page.js": "text/javascript", "icon.svg": "image/svg+xml"}
_FILE_AGE_S = 300
_LONGEST_FORM = 4096
_FOREIGN = "This form did not come from a page of this node."
_NO_KEY = "No valid key is like this. Check it, or ask for a new one."
_NO_SCOPE = f"This key may not see executions: it lacks the scope {THREADS}."


@dataclass(frozen=True, slots=True)
class _Guest:
    """Somebody who is logged in: the cookie they sent, its session, and the key behind it."""

    cookie: str
    session: PageSession
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
        session = PageSession(key.id, int(self._now_s) + SESSION_S, secrets.token_hex(8))
        return seal_session(session, self._key)

    def is_own_form(self, guest: _Guest, token: str) -> bool:
        """Whether a form was made for this session."""
        return is_form_token(token, guest.cookie, self._key)

    @property
    def _now_s(self) -> float:
        return self._services.clock().timestamp()


def page_router(services: NodeServices) -> APIRouter:
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
            return _page(login_page(), status=200 if request.url.path == HOME else 401)
        viewer = gate.viewer(guest)
        source = page(PageData(services, guest.key.user_id), viewer)
        if source is None:
            return _page(message_page("Not found", "There is no such thing here.", viewer), 404)
        return _page(source)

    @routes.get(HOME)
    def overview(request: Request) -> Response:
        return shown(request, lambda data, viewer: overview_page(_overview(services, data), viewer))

    @routes.get(EXECUTIONS)
    def executions(request: Request) -> Response:
        return shown(request, lambda data, _: str(executions_part(data.executions())))

    @routes.get(PROJECT)
    def project(request: Request, path: Annotated[str, Query(max_length=1024)]) -> Response:
        def page(data: PageData, viewer: Viewer) -> str | None:
            history = data.history(path)
            return None if history is None else project_page(history, viewer)

        return shown(request, page)

    @routes.get(THREAD)
    def thread(
        request: Request, thread_id: Annotated[str, Query(alias="id", max_length=300)]
    ) -> Response:
        def page(data: PageData, viewer: Viewer) -> str | None:
            found = data.thread(thread_id)
            return None if found is None else thread_page(found, viewer)

        return shown(request, page)


def _add_doors(routes: APIRouter, services: NodeServices, gate: _Gate) -> None:
    @routes.post(LOGIN)
    async def log_in(request: Request) -> Response:
        if not _comes_from_here(request):
            return _page(login_page(_FOREIGN), 403)
        token = (await _form(request)).get("key", "").strip()
        key = await run_in_threadpool(services.api_keys.find, token)
        if key is None:
            return _page(login_page(_NO_KEY), 401)
        if not _may_look(key):
            return _page(login_page(_NO_SCOPE), 403)
        answer = _to(HOME)
        answer.set_cookie(
            COOKIE,
            gate.cookie_for(key),
            max_age=SESSION_S,
            httponly=True,
            samesite="strict",
            secure=_is_https(request),
        )
        return answer

    @routes.post(LOGOUT)
    async def log_out(request: Request) -> Response:
        guest = await run_in_threadpool(gate.guest, request)
        token = (await _form(request)).get("token", "")
        if guest is not None and not (_comes_from_here(request) and gate.is_own_form(guest, token)):
            return _page(message_page("Refused", _FOREIGN, gate.viewer(guest)), 403)
        if guest is not None:
            await run_in_threadpool(gate.log_out, guest)
        answer = _to(HOME)
        answer.delete_cookie(COOKIE, httponly=True, samesite="strict", secure=_is_https(request))
        return answer


def _add_open_pages(routes: APIRouter) -> None:
    @routes.get(API)
    def api(request: Request) -> Response:
        return _page(api_page(request.app.openapi()))

    @routes.get("/page/files/{name}")
    def file(name: str) -> Response:
        if name not in _FILES:
            raise RequestProblem(404, "not found")
        headers = {**HEADERS, "Cache-Control": f"public, max-age={_FILE_AGE_S}"}
        return Response(_file(name), media_type=_FILES[name], headers=headers)


def _overview(services: NodeServices, data: PageData) -> Overview:
    return Overview(
        node_name=services.settings.name,
        node_id=services.keys.node_id,
        version=__version__,
        active=services.queue.active,
        most_active=services.queue.places,
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
    return (resources.files("rye_services") / "page_files" / name).read_bytes()


# --- ended sessions -------------------------------------------------------------------------------
# Sessions that a person ended before their time: their cookies count no longer, anywhere.
#
# They are kept beside the nonces of signed requests, in rows that no request can have, and dated
# with the end of the session: so restarts and other processes of the node know of them, and the
# sweep of old nonces forgets them once the cookie itself is over.

_KEPT_AS = "page session"
"""Where a fingerprint stands for nonces; a blank is in none."""


class EndedSessions:
    """The cookies of sessions that were ended, as digests. Thread-safe."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def end(self, cookie: str, until_s: int) -> None:
        """Let a cookie count no longer; ``until_s`` is when it would have ended by itself."""
        with self._database.writing() as connection:
            dialect = postgresql if connection.dialect.name == "postgresql" else sqlite
            row = dialect.insert(request_nonces).values(
                fingerprint=_KEPT_AS, nonce_hash=sha256_hex(cookie.encode()), seen_at_s=until_s
            )
            connection.execute(row.on_conflict_do_nothing())

    def has(self, cookie: str) -> bool:
        """Whether the session of a cookie was ended."""
        columns = request_nonces.c
        query = select(columns.seen_at_s).where(
            columns.fingerprint == _KEPT_AS, columns.nonce_hash == sha256_hex(cookie.encode())
        )
        with self._database.reading() as connection:
            return connection.execute(query).first() is not None
