"""The pages that manage: a node, and the teams, keys and tokens of a person.

That of a node shows users, keys, quotas, runs of all, collections of garbage. It is for keys with
the scope that the routes of the same work need. Of runs of others it shows who runs what where, and
never what came of it.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated

from fastapi import APIRouter, Query, Request
from sqlalchemy import func, select
from starlette.responses import RedirectResponse, Response

from lillux.values import dataclass
from rye_services.node.admin_routes import sweep
from rye_services.node.pages.data import LISTED, run_row
from rye_services.node.pages.routes import Guest, Pages
from rye_services.node.pages.views import RunRow
from rye_services.node.queue.rows import RUNNING
from rye_services.node.services import NodeServices
from rye_services.node.storage import UserGarbage
from rye_services.node.team_routes import refused, removed_member, require_open_teams, shown_token
from rye_services.people.audit import AuditFilter
from rye_services.people.credentials import (
    ACCOUNT,
    MANAGE,
    THREADS,
    ApiKeyMissingError,
    AuthorizedKeyMissingError,
    LastManagerError,
    Principal,
    Role,
)
from rye_services.people.people import CLOSED, OPEN, PersonMissingError
from rye_services.storage.database import threads, users
from rye_services.web.http import RequestProblem
from rye_services.web.page import (
    ADMIN,
    CHANGE_TEAMS,
    COLLECT,
    HEADERS,
    HOME,
    LOOK_AT,
    REVOKE_API_KEY,
    REVOKE_KEY,
    SET_USER_STATE,
    TEAM,
    TEAMS,
    page_of,
)

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
    """The page, for users who may see it. Raises RequestProblem."""
    if not guest.may(MANAGE):
        raise RequestProblem(403, f"This key may not manage the node: it lacks the scope {MANAGE}.")
    services = pages.services
    return pages.page(
        guest,
        "node/admin.html",
        here=ADMIN,
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


# --- team -----------------------------------------------------------------------------------------
# The pages of a person about themselves: teams and their members, invitations, keys, tokens.
#
# Each form names what it does; it is taken from pages of this node only, for a key with the scope
# ``account:manage``, and for a member whose role is for it.

_INVITED_DAYS = 7
Fields = Mapping[str, str]


def team_page_router(pages: Pages) -> APIRouter:
    """The pages and their forms. No OpenAPI document lists them."""
    routes = APIRouter(include_in_schema=False)

    @routes.get(TEAMS)
    def teams(request: Request) -> Response:
        return pages.shown(request, lambda guest: _teams(pages, guest))

    @routes.get(TEAM)
    def team(
        request: Request, team_id: Annotated[str, Query(alias="id", max_length=64)]
    ) -> Response:
        return pages.shown(request, lambda guest: _team(pages, guest, team_id))

    @routes.post(CHANGE_TEAMS)
    async def change(request: Request) -> Response:
        def changed(guest: Guest, fields: Fields) -> Response:
            action = _ACTIONS.get(fields.get("do", ""))
            if action is None:
                raise RequestProblem(400, "This form does nothing that is known here.")
            with refused():
                return action(pages, guest, fields)

        return await pages.changed(request, ACCOUNT, changed)

    @routes.post(LOOK_AT)
    async def look_at(request: Request) -> Response:
        def changed(guest: Guest, fields: Fields) -> Response:
            owner = fields.get("owner", "")
            person = _person(guest)
            pages.services.teams.acting_for(person, owner, Role.READ)
            is_team = owner not in {"", person.user_id}
            pages.gate.sessions.look_at(guest.cookie, owner if is_team else None)
            return _to(HOME)

        return await pages.changed(request, THREADS, changed)

    return routes


def _person(guest: Guest) -> Principal:
    """A user as themselves, whatever team they look at."""
    one = guest.principal
    return Principal(one.who, one.kind, one.scopes, one.key_id)


def _to(address: str) -> Response:
    return RedirectResponse(address, 303, HEADERS)


def _teams(pages: Pages, guest: Guest) -> Response:
    services, who = pages.services, guest.who
    return pages.page(
        guest,
        "node/teams.html",
        here=TEAMS,
        teams=services.teams.of(who),
        may_make=services.settings.open_teams,
        keys=[one.as_answer() for one in services.people.keys_of(who)],
        tokens=[shown_token(one) for one in services.api_keys.of(who) if not one.revoked_at],
    )


def _team(pages: Pages, guest: Guest, team: str, invitation: str = "") -> Response:
    """A team for a member; ``invitation``: the text of a new one, which is shown this once."""
    services = pages.services
    member = services.teams.acting_for(_person(guest), team, Role.READ)
    if member.role is None:
        raise RequestProblem(404, "There is no such team.")
    is_admin = member.role.includes(Role.ADMIN)
    used, allowed = services.people.room_of(team, services.settings.max_user_storage_bytes)
    return pages.page(
        guest,
        "node/team.html",
        here=TEAMS,
        team=team,
        members=services.teams.members(team),
        roles=tuple(one.value for one in Role),
        is_admin=is_admin,
        invitations=[one for one in services.teams.invitations(team) if one.ended_at is None]
        if is_admin
        else (),
        tokens=[shown_token(one) for one in services.api_keys.of(team) if not one.revoked_at]
        if is_admin
        else (),
        invitation=invitation,
        used=used,
        allowed=allowed,
    )


# --- what forms do --------------------------------------------------------------------------------


def _admin(services: NodeServices, guest: Guest, team: str) -> None:
    """Raises RequestProblem where the caller is no admin of a team."""
    member = services.teams.acting_for(_person(guest), team, Role.ADMIN)
    if member.role is None:
        raise RequestProblem(404, "There is no such team.")


def _role(fields: Fields) -> Role:
    try:
        return Role(fields.get("role", ""))
    except ValueError:
        raise RequestProblem(400, "Expected one of the roles.") from None


def _create(pages: Pages, guest: Guest, fields: Fields) -> Response:
    require_open_teams(pages.services)
    name = fields.get("team", "").strip()
    pages.services.teams.add(name, guest.who)
    return _to(page_of(TEAM, id=name))


def _join(pages: Pages, guest: Guest, fields: Fields) -> Response:
    services = pages.services
    emails = services.people.emails_of(guest.who)
    made = services.teams.accept(fields.get("invitation", ""), guest.who, emails=emails)
    return _to(page_of(TEAM, id=made.team_id) if made.team_id else TEAMS)


def _set_role(pages: Pages, guest: Guest, fields: Fields) -> Response:
    team, user_id = fields.get("team", ""), fields.get("user", "").removeprefix("fp:")
    _admin(pages.services, guest, team)
    has_key = pages.services.authorized_keys.find(user_id) is not None
    role = _role(fields)
    pages.services.teams.set_role(team, user_id, role, by=guest.who, has_key=has_key)
    return _to(page_of(TEAM, id=team))


def _remove(pages: Pages, guest: Guest, fields: Fields) -> Response:
    team, user_id = fields.get("team", ""), fields.get("user", "")
    if user_id != guest.who:
        _admin(pages.services, guest, team)
    removed_member(pages.services, team, user_id, by=guest.who)
    return _to(TEAMS if user_id == guest.who else page_of(TEAM, id=team))


def _invite(pages: Pages, guest: Guest, fields: Fields) -> Response:
    team = fields.get("team", "")
    _admin(pages.services, guest, team)
    text, _ = pages.services.teams.invite(
        team,
        _role(fields),
        email=fields.get("email", "")[:320],
        days=_INVITED_DAYS,
        by=guest.who,
    )
    return _team(pages, guest, team, text)


def _revoke_invitation(pages: Pages, guest: Guest, fields: Fields) -> Response:
    team = fields.get("team", "")
    _admin(pages.services, guest, team)
    pages.services.teams.revoke_invitation(team, fields.get("id", ""))
    return _to(page_of(TEAM, id=team))


def _remove_key(pages: Pages, guest: Guest, fields: Fields) -> Response:
    pages.services.people.remove_key(guest.who, fields.get("key", "").removeprefix("fp:"))
    return _to(TEAMS)


def _revoke_token(pages: Pages, guest: Guest, fields: Fields) -> Response:
    team, token_id = fields.get("team", ""), fields.get("id", "")
    if team:
        _admin(pages.services, guest, team)
    known = pages.services.api_keys.of(team or guest.who)
    if token_id not in {one.id for one in known}:
        raise RequestProblem(404, "There is no such token.")
    pages.services.api_keys.revoke(token_id)
    return _to(page_of(TEAM, id=team) if team else TEAMS)


_ACTIONS: Mapping[str, Callable[[Pages, Guest, Fields], Response]] = {
    "create": _create,
    "join": _join,
    "set-role": _set_role,
    "remove": _remove,
    "invite": _invite,
    "revoke-invitation": _revoke_invitation,
    "remove-key": _remove_key,
    "revoke-token": _revoke_token,
}
