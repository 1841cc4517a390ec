"""The page of those who manage a node: users, keys, quotas, runs of all, collections of garbage.

It is for keys with the scope that the routes of the same work need. Of runs of others it shows who
runs what where, and never what came of it.
"""

from collections.abc import Mapping, Sequence

from fastapi import APIRouter, Request
from sqlalchemy import func, select
from starlette.responses import RedirectResponse, Response

from lillux.values import dataclass
from rye_services.audit import AuditFilter
from rye_services.credentials import (
    MANAGE,
    ApiKeyMissingError,
    AuthorizedKeyMissingError,
    LastManagerError,
)
from rye_services.database import threads, users
from rye_services.http import RequestProblem
from rye_services.node.admin_routes import sweep
from rye_services.node.pages.data import LISTED, run_row
from rye_services.node.pages.routes import Pages
from rye_services.node.pages.sessions import Guest
from rye_services.node.pages.views import RunRow
from rye_services.node.queue.rows import RUNNING
from rye_services.node.services import NodeServices
from rye_services.node.storage import UserGarbage
from rye_services.page import (
    ADMIN,
    COLLECT,
    HEADERS,
    REVOKE_API_KEY,
    REVOKE_KEY,
    SET_USER_STATE,
)
from rye_services.people import CLOSED, OPEN, PersonMissingError

_MOST_USERS, _MOST_JOBS, _MOST_SWEEPS = 500, 200, 20


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownUser:
    """A user or a team, what they store and may, and how many of their runs are remembered.

    state  ``open``, ``waiting`` to be let in, ``closed``
    """

    user_id: str
    kind: str
    state: str
    quota_bytes: int | None
    created_at: str
    stored_bytes: int
    runs: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditEntry:
    """Something that changed what a user may do: who did it, when, from where."""

    at: str
    who: str
    where: str
    what: str


def admin_page_router(pages: Pages) -> APIRouter:
    """The page and its forms. No OpenAPI document lists them."""
    routes = APIRouter(include_in_schema=False)

    @routes.get(ADMIN)
    def admin(request: Request) -> Response:
        return pages.shown(request, lambda guest: _page(pages, guest))

    @routes.post(COLLECT)
    async def collect(request: Request) -> Response:
        def change(guest: Guest, _: Mapping[str, str]) -> Response:
            found = sweep(pages.services)
            pages.services.audit.note("gc", "", {"removed": sum(one.removed for one in found)})
            return _page(pages, guest, found)

        return await pages.changed(request, MANAGE, change)

    @routes.post(SET_USER_STATE)
    async def set_state(request: Request) -> Response:
        def change(guest: Guest, fields: Mapping[str, str]) -> Response:
            return _set_state(pages.services, guest, fields)

        return await pages.changed(request, MANAGE, change)

    _add_key_forms(routes, pages)
    return routes


def _add_key_forms(routes: APIRouter, pages: Pages) -> None:
    @routes.post(REVOKE_KEY)
    async def revoke_key(request: Request) -> Response:
        def change(_: Guest, fields: Mapping[str, str]) -> Response:
            return _revoked_key(pages.services, fields.get("fingerprint", ""))

        return await pages.changed(request, MANAGE, change)

    @routes.post(REVOKE_API_KEY)
    async def revoke_api_key(request: Request) -> Response:
        def change(_: Guest, fields: Mapping[str, str]) -> Response:
            try:
                pages.services.api_keys.revoke(fields.get("id", ""))
            except ApiKeyMissingError as error:
                raise RequestProblem(404, str(error)) from error
            return _back()

        return await pages.changed(request, MANAGE, change)


def _page(pages: Pages, guest: Guest, collected: Sequence[UserGarbage] = ()) -> Response:
    """The page, for who may see it. Raises RequestProblem."""
    if not guest.may(MANAGE):
        raise RequestProblem(403, f"This key may not manage the node: it lacks the scope {MANAGE}.")
    services = pages.services
    return pages.page(
        guest,
        "node/admin.html",
        users=_users(services),
        most_bytes=services.settings.max_user_storage_bytes,
        keys=services.authorized_keys.all(),
        teams=[(one.id, services.teams.members(one.id)) for one in services.teams.all()],
        api_keys=services.api_keys.all(),
        jobs=_jobs(services),
        queue=services.executions.queue_state,
        audit=audit_entries(services),
        sweeps=services.sync.storage.sweeps.listed(_MOST_SWEEPS),
        settings=services.settings,
        collected=collected,
    )


def _users(services: NodeServices) -> tuple[ShownUser, ...]:
    """The users who store most first."""
    counted = select(threads.c.user_id, func.count().label("runs")).group_by(threads.c.user_id)
    runs = counted.subquery()
    query = (
        select(users, runs.c.runs)
        .outerjoin(runs, runs.c.user_id == users.c.id)
        .order_by(users.c.state == OPEN, users.c.stored_bytes.desc(), users.c.id)
        .limit(_MOST_USERS)
    )
    with services.database.reading() as connection:
        return tuple(
            ShownUser(
                user_id=row.id,
                kind=row.kind,
                state=row.state,
                quota_bytes=row.quota_bytes,
                created_at=row.created_at,
                stored_bytes=row.stored_bytes,
                runs=row.runs or 0,
            )
            for row in connection.execute(query)
        )


def _jobs(services: NodeServices) -> tuple[RunRow, ...]:
    """What runs and what waits, of all users, those that came first in front."""
    columns = threads.c
    query = select(*(columns[name] for name in LISTED)).where(
        columns.state == RUNNING, columns.remote_name == services.settings.name
    )
    oldest = query.order_by(columns.created_at, columns.thread_id).limit(_MOST_JOBS)
    with services.database.reading() as connection:
        return tuple(run_row(row) for row in connection.execute(oldest))


def audit_entries(services: NodeServices) -> tuple[AuditEntry, ...]:
    """Who changed what others may do, the newest first."""
    return tuple(
        AuditEntry(at=one.at, who=one.actor, where=one.address, what=f"{one.action} {one.target}")
        for one in services.audit.entries(AuditFilter(), limit=_MOST_JOBS)
    )


def _set_state(services: NodeServices, guest: Guest, fields: Mapping[str, str]) -> Response:
    """Let a person in, or no longer: then what they run is ended, too."""
    user_id, state = fields.get("user", ""), fields.get("state", "")
    try:
        services.people.set_state(user_id, OPEN if state == OPEN else CLOSED)
    except PersonMissingError as error:
        raise RequestProblem(404, str(error)) from error
    if state != OPEN:
        services.executions.rows.cancel_of(user_id, guest.who)
    return _back()


def _revoked_key(services: NodeServices, fingerprint: str) -> Response:
    try:
        services.authorized_keys.revoke_unless_last(fingerprint)
    except AuthorizedKeyMissingError as error:
        raise RequestProblem(404, str(error)) from error
    except LastManagerError as error:
        raise RequestProblem(409, str(error)) from error
    return _back()


def _back() -> RedirectResponse:
    return RedirectResponse(ADMIN, 303, HEADERS)
