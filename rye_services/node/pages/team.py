"""The pages of a person about themselves: teams and their members, invitations, keys, tokens.

Each form names what it does; it is taken from pages of this node only, for a key with the scope
``account:manage``, and for a member whose role is for it.
"""

from collections.abc import Callable, Mapping
from typing import Annotated

from fastapi import APIRouter, Query, Request
from starlette.responses import RedirectResponse, Response

from rye_services.credentials import ACCOUNT, THREADS, Principal, Role
from rye_services.http import RequestProblem
from rye_services.node.pages.routes import Pages
from rye_services.node.pages.sessions import Guest
from rye_services.node.services import NodeServices
from rye_services.node.team_routes import refused, removed_member, require_open_teams, shown_token
from rye_services.page import CHANGE_TEAMS, HEADERS, HOME, LOOK_AT, TEAM, TEAMS, page_of

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
