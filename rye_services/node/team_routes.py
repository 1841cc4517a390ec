"""Routes of people about themselves, their keys, tokens and teams, and about whose a project is.

Page: ``docs/teams.md``. What an operator does about others has commands and a page.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Annotated, Any

from fastapi import APIRouter, Security
from pydantic import AfterValidator, BaseModel, Field
from starlette.requests import Request

from lillux.pem import PemError
from lillux.shapes import of_attributes, write
from rye_services.names import RegistryNameError
from rye_services.node.answers import (
    AccountAnswer,
    DeletedAnswer,
    InvitationsAnswer,
    JoinedAnswer,
    MemberAnswer,
    MembershipAnswer,
    MovedAnswer,
    NewInvitationAnswer,
    NewTokenAnswer,
    PersonKeysAnswer,
    ProjectAnswer,
    ProjectsAnswer,
    RemovedMemberAnswer,
    TeamAnswer,
    TeamsAnswer,
    TokenAnswer,
    TokensAnswer,
)
from rye_services.node.services import NodeServices
from rye_services.node.store.heads import valid_project_path
from rye_services.node.store.objects import QuotaExceededError
from rye_services.people.callers import authenticate, authenticator, caller, owner_caller
from rye_services.people.credentials import (
    ACCOUNT,
    DEFAULT_SCOPES,
    PUSH,
    THREADS,
    ApiKey,
    ApiKeyMissingError,
    Principal,
    Role,
    UserIdError,
    ensure_user,
    valid_scopes,
)
from rye_services.people.people import PersonKeyAnswer, PersonMissingError
from rye_services.people.teams import (
    MAX_INVITATION_DAYS,
    Member,
    RoleError,
)
from rye_services.refusal import RefusedError
from rye_services.storage.database import stamp
from rye_services.web.http import RequestProblem
from rye_services.web.openapi import CALLER, answers
from ryeos.items.errors import RyeError, http_status_of
from ryeos.remote.identity import IdentityError, decode_public_key

LONGEST_TOKEN_DAYS, DEFAULT_TOKEN_DAYS = 366, 90
_TOKEN_SCOPES = ("remote:", "registry:")

_REFUSED = (
    RefusedError,
    PersonMissingError,
    ApiKeyMissingError,
    RoleError,
    UserIdError,
    RegistryNameError,
    IdentityError,
)


@contextmanager
def refused() -> Iterator[None]:
    """Errors about people and teams become refusals that say what to do. Raises RequestProblem."""
    try:
        yield
    except _REFUSED as error:
        raise _problem(error) from error
    except (PemError, QuotaExceededError) as error:
        raise RequestProblem(http_status_of(error), str(error)) from error


def _problem(error: RyeError) -> RequestProblem:
    hint = f"; {error.hint}" if error.hint else ""
    return RequestProblem(http_status_of(error), f"{error}{hint}")


async def _authenticated(
    request: Request, _: Annotated[None, Security(CALLER, scopes=[])]
) -> Principal:
    return await authenticate(request, authenticator(request).principal)


AnyCaller = Annotated[Principal, Security(_authenticated)]
"""A known caller, whatever their key is for."""

Person = Annotated[Principal, caller(ACCOUNT)]
TeamAdmin = Annotated[Principal, owner_caller(ACCOUNT, Role.ADMIN)]
Mover = Annotated[Principal, owner_caller(ACCOUNT, Role.ADMIN)]
Viewer = Annotated[Principal, owner_caller(THREADS, Role.READ)]


def people_router(services: NodeServices) -> APIRouter:
    """All routes of people and teams."""
    routes = APIRouter()
    _add_account(routes, services)
    _add_tokens(routes, services)
    _add_teams(routes, services)
    _add_members(routes, services)
    _add_invitations(routes, services)
    _add_projects(routes, services)
    return routes


# --- account --------------------------------------------------------------------------------------


def _teams_of(services: NodeServices, user_id: str) -> tuple[Member, ...]:
    """The teams of a caller; the first time, a row is made of them."""
    found = services.teams.of_known(user_id)
    if found is None:
        with services.database.writing() as connection:
            ensure_user(connection, user_id, stamp(services.clock()))
    return found or ()


class NewPersonKey(BaseModel):
    """A further key of the caller. Without scopes it may do what the key may that adds it."""

    public_key: str = Field(max_length=200, examples=["ed25519:..."])
    label: str = Field(default="", max_length=200)
    scopes: list[str] | None = Field(default=None, max_length=20)
    expires_in_days: int | None = Field(default=None, ge=1, le=36_500)


def _add_account(routes: APIRouter, services: NodeServices) -> None:
    people = services.people

    @routes.get("/account", tags=["account"], responses=answers(AccountAnswer))
    def account(who: AnyCaller) -> dict[str, Any]:
        """Who the caller is, what their key is for, and their teams."""
        found = _teams_of(services, who.user_id) if who.role is None else ()
        return write(
            AccountAnswer(
                user_id=who.who,
                key_id=who.key_id,
                scopes=None if who.scopes is None else tuple(sorted(who.scopes)),
                team=who.user_id if who.role is not None else None,
                role=who.role,
                teams=tuple(of_attributes(MembershipAnswer, one) for one in found),
            )
        )

    @routes.get("/account/keys", tags=["account"], responses=answers(PersonKeysAnswer))
    def list_keys(who: Person) -> dict[str, Any]:
        """The further keys of the caller; ``first`` is the one that they are called by."""
        first = services.authorized_keys.find(who.user_id)
        keys = [one.as_answer() for one in people.keys_of(who.user_id)]
        return {"first": f"fp:{first.fingerprint}" if first else None, "keys": keys}

    @routes.post("/account/keys", tags=["account"], responses=answers(PersonKeyAnswer, 409))
    def add_key(who: Person, new: NewPersonKey) -> dict[str, Any]:
        """Let the caller sign with one more key: it sees the same store and projects."""
        with refused():
            key = people.add_key(
                who.user_id,
                decode_public_key(new.public_key),
                label=new.label,
                scopes=_granted_scopes(who, new.scopes),
                by=who.user_id,
                expires_at=_after(services, new.expires_in_days),
            )
        return key.as_answer()

    @routes.delete(
        "/account/keys/{fingerprint}", tags=["account"], responses=answers(DeletedAnswer, 404)
    )
    def remove_key(who: Person, fingerprint: str) -> dict[str, str]:
        """Revoke a key of the caller; the first one is the operator's to revoke."""
        bare = fingerprint.removeprefix("fp:")
        with refused():
            people.remove_key(who.user_id, bare)
        return {"deleted": f"fp:{bare}"}


def _granted_scopes(who: Principal, scopes: list[str] | None) -> tuple[str, ...] | None:
    """The scopes of what a caller makes: none that their own key has not. Raises RequestProblem."""
    if scopes is None:
        return None if who.scopes is None else tuple(sorted(who.scopes))
    for scope in valid_scopes(scopes):
        who.require(scope)
    return tuple(scopes)


def _after(services: NodeServices, days: int | None) -> datetime | None:
    return None if days is None else services.clock() + timedelta(days=days)


# --- tokens ---------------------------------------------------------------------------------------


class NewToken(BaseModel):
    """A token for a program. ``role``: of a token of a team."""

    name: str = Field(min_length=1, max_length=100, pattern=r"^[A-Za-z0-9._ -]+$")
    scopes: list[str] = Field(default_factory=lambda: list(DEFAULT_SCOPES), max_length=20)
    expires_in_days: int = Field(default=DEFAULT_TOKEN_DAYS, ge=1, le=LONGEST_TOKEN_DAYS)
    role: Role | None = None


def _add_tokens(routes: APIRouter, services: NodeServices) -> None:
    api_keys = services.api_keys

    @routes.get("/account/tokens", tags=["account"], responses=answers(TokensAnswer))
    def list_tokens(who: TeamAdmin) -> dict[str, Any]:
        """The tokens of the caller, or of a team, without their texts."""
        return {"tokens": [shown_token(one) for one in api_keys.of(who.user_id)]}

    @routes.post("/account/tokens", tags=["account"], responses=answers(NewTokenAnswer, 409))
    def add_token(who: TeamAdmin, new: NewToken) -> dict[str, Any]:
        """Make a token for the caller, or for a team; its text is shown this once.

        A caller grants nothing beyond their own key. One of a team is for that team alone,
        and has no more rights than the member who made it has at the time.
        """
        with refused():
            text, key = api_keys.create_named(
                who.user_id,
                name=new.name,
                scopes=_token_scopes(who, new),
                expires_after=timedelta(days=new.expires_in_days),
                role=_token_role(who, new),
                created_by=who.person or None,
            )
        return {"token": text, **shown_token(key)}

    @routes.delete(
        "/account/tokens/{token_id}", tags=["account"], responses=answers(DeletedAnswer, 404)
    )
    def revoke_token(who: TeamAdmin, token_id: str) -> dict[str, str]:
        """Revoke a token."""
        mine = [one for one in api_keys.of(who.user_id) if one.id == token_id]
        with refused():
            if not mine:
                raise ApiKeyMissingError(token_id)
            api_keys.revoke(mine[0].id)
        return {"deleted": mine[0].id}


def _token_scopes(who: Principal, new: NewToken) -> tuple[str, ...]:
    scopes = _granted_scopes(who, new.scopes) or ()
    foreign = [one for one in scopes if not one.startswith(_TOKEN_SCOPES)]
    if who.role is not None and foreign:
        raise RequestProblem(
            400, f"scope {foreign[0]}: a token of a team has remote: and registry:"
        )
    return scopes


def _token_role(who: Principal, new: NewToken) -> Role | None:
    if who.role is None:
        if new.role is not None:
            raise RequestProblem(400, "role: a token of your own has none; name a team as owner")
        return None
    return new.role or Role.RUN


def shown_token(key: ApiKey) -> dict[str, Any]:
    """A token as JSON shows it, without its text."""
    return write(of_attributes(TokenAnswer, key))


# --- teams ----------------------------------------------------------------------------------------


class NewTeam(BaseModel):
    """A team that is to be; the caller is its first admin."""

    name: str = Field(max_length=64)
    title: str = Field(default="", max_length=200)


def _add_teams(routes: APIRouter, services: NodeServices) -> None:
    teams = services.teams

    @routes.get("/teams", tags=["teams"], responses=answers(TeamsAnswer))
    def list_teams(who: AnyCaller) -> dict[str, Any]:
        """The teams of the caller, with their roles."""
        found = teams.of(who.who)
        return write(
            TeamsAnswer(teams=tuple(of_attributes(MembershipAnswer, one) for one in found))
        )

    @routes.post("/teams", tags=["teams"], responses=answers(TeamAnswer, 409))
    def add(who: Person, new: NewTeam) -> dict[str, Any]:
        """Make a team."""
        require_open_teams(services)
        with refused():
            teams.add(new.name, who.user_id, title=new.title)
        return _team(services, new.name)

    @routes.get("/teams/{team}", tags=["teams"], responses=answers(TeamAnswer, 404))
    def one(who: AnyCaller, team: str) -> dict[str, Any]:
        """A team and its members, for a member."""
        teams.acting_for(who, team, Role.READ)
        return _team(services, team)

    @routes.delete("/teams/{team}", tags=["teams"], responses=answers(DeletedAnswer, 404, 409))
    def close(who: Person, team: str) -> dict[str, str]:
        """Close a team that owns no project. Its name is not given again."""
        teams.acting_for(who, team, Role.ADMIN)
        with refused():
            teams.close(team)
        return {"deleted": team}


def require_open_teams(services: NodeServices) -> None:
    """Raises RequestProblem, 403, where the operator alone makes teams."""
    if not services.settings.open_teams:
        words = "the operator of this node makes teams: rye-node.pyz teams add NAME --admin USER"
        raise RequestProblem(403, words)


def _team(services: NodeServices, team: str) -> dict[str, Any]:
    with refused():
        members = services.teams.members(team)
    used, allowed = services.people.room_of(team, services.settings.max_user_storage_bytes)
    return write(
        TeamAnswer(team_id=team, members=members, stored_bytes=used, allowed_bytes=allowed)
    )


# --- members --------------------------------------------------------------------------------------


class NewRole(BaseModel):
    """What a member may do."""

    role: Role


def _add_members(routes: APIRouter, services: NodeServices) -> None:
    teams = services.teams
    path = "/teams/{team}/members/{user_id}"

    @routes.put(path, tags=["teams"], responses=answers(MemberAnswer, 404, 409))
    def set_role(who: Person, team: str, user_id: str, new: NewRole) -> dict[str, Any]:
        """Give a person a role in a team: a new member, or another role."""
        teams.acting_for(who, team, Role.ADMIN)
        bare = user_id.removeprefix("fp:")
        with refused():
            has_key = services.authorized_keys.find(bare) is not None
            teams.set_role(team, bare, new.role, by=who.user_id, has_key=has_key)
        return write(MemberAnswer(team_id=team, user_id=bare, role=new.role))

    @routes.delete(path, tags=["teams"], responses=answers(RemovedMemberAnswer, 404, 409))
    def remove(who: Person, team: str, user_id: str) -> dict[str, Any]:
        """End a membership, another's or one's own. What they run in the team is ended, too."""
        bare = user_id.removeprefix("fp:")
        wanted = Role.READ if bare == who.user_id else Role.ADMIN
        teams.acting_for(who, team, wanted)
        with refused():
            ended = removed_member(services, team, bare, by=who.user_id)
        return write(RemovedMemberAnswer(team_id=team, user_id=bare, cancelled=ended))


def removed_member(services: NodeServices, team: str, user_id: str, *, by: str) -> tuple[str, ...]:
    """End a membership, and with it the runs that they have started there: the ids of those.

    First the membership: what runs meanwhile can no longer change the project. Raises as
    `Teams.remove`.
    """
    services.teams.remove(team, user_id)
    executions = services.executions
    ended = executions.rows.cancel_of(user_id, by, user_id=team)
    for thread_id in ended:  # what waits or runs on this server need not wait to learn of it
        executions.cancel(team, thread_id, by)
    return ended


# --- invitations ----------------------------------------------------------------------------------


class NewInvitation(BaseModel):
    """An invitation into a team. ``email``: only for a person with this verified address."""

    role: Role = Role.RUN
    email: str = Field(default="", max_length=320)
    expires_in_days: int = Field(default=7, ge=1, le=MAX_INVITATION_DAYS)


class InvitationText(BaseModel):
    """The text of an invitation."""

    invitation: str = Field(max_length=200)


def _add_invitations(routes: APIRouter, services: NodeServices) -> None:
    teams = services.teams
    path = "/teams/{team}/invitations"

    @routes.get(path, tags=["teams"], responses=answers(InvitationsAnswer))
    def listed(who: Person, team: str) -> dict[str, Any]:
        """The invitations into a team, without their texts."""
        teams.acting_for(who, team, Role.ADMIN)
        return write(InvitationsAnswer(invitations=teams.invitations(team)))

    @routes.post(path, tags=["teams"], responses=answers(NewInvitationAnswer, 404, 409))
    def invite(who: Person, team: str, new: NewInvitation) -> dict[str, Any]:
        """Invite a person: the first who has the text becomes a member."""
        teams.acting_for(who, team, Role.ADMIN)
        with refused():
            text, made = teams.invite(
                team, new.role, email=new.email, days=new.expires_in_days, by=who.user_id
            )
        return write(NewInvitationAnswer(facts=made, invitation=text))

    @routes.delete(
        f"{path}/{{invitation_id}}", tags=["teams"], responses=answers(DeletedAnswer, 404)
    )
    def revoke(who: Person, team: str, invitation_id: str) -> dict[str, str]:
        """Revoke an invitation."""
        teams.acting_for(who, team, Role.ADMIN)
        with refused():
            teams.revoke_invitation(team, invitation_id)
        return {"deleted": invitation_id}

    @routes.post("/invitations/accept", tags=["teams"], responses=answers(JoinedAnswer, 409))
    def accept(who: Person, sent: InvitationText) -> dict[str, Any]:
        """Become a member by an invitation."""
        with refused():
            emails = services.people.emails_of(who.user_id)
            made = teams.accept(sent.invitation, who.user_id, emails=emails)
        return write(JoinedAnswer(team_id=made.team_id, role=made.role))


# --- projects -------------------------------------------------------------------------------------


class ProjectMove(BaseModel):
    """A project that is to be another owner's: a team, or the caller; perhaps under a new name."""

    project_path: Annotated[str, AfterValidator(valid_project_path)]
    to: str = Field(max_length=64)
    new_path: Annotated[str, AfterValidator(valid_project_path)] | None = None


def _add_projects(routes: APIRouter, services: NodeServices) -> None:
    @routes.get("/projects", tags=["projects"], responses=answers(ProjectsAnswer))
    def listed(who: Viewer) -> dict[str, Any]:
        """The projects of the caller, or of a team, with their heads."""
        name = services.settings.name
        found = tuple(
            ProjectAnswer(
                project_path=path,
                snapshot_hash=head.snapshot_hash,
                revision=head.revision,
                pushed_at=head.pushed_at,
            )
            for remote, path, head in services.sync.heads.of(who.user_id)
            if remote == name
        )
        return write(ProjectsAnswer(owner=who.user_id, projects=found))

    @routes.post("/projects/move", tags=["projects"], responses=answers(MovedAnswer, 404, 409))
    def move(who: Mover, wanted: ProjectMove) -> dict[str, Any]:
        """Give a project to a team in which the caller may push, or back to the caller.

        Its head and history go along. From a team it takes an admin. Runs stay where they were;
        while one is under way nothing is moved. Webhooks for it end.
        """
        return move_answer(services, who, wanted)


def move_answer(services: NodeServices, who: Principal, wanted: ProjectMove) -> dict[str, Any]:
    """What a move answers. Raises RequestProblem."""
    who.require(PUSH)
    teams = services.teams
    own = Principal(who.who, who.kind, who.scopes, who.key_id)
    target = teams.acting_for(own, wanted.to.removeprefix("fp:"), Role.PUSH)
    from_guard, to_guard = teams.guard(who, Role.ADMIN), teams.guard(target, Role.PUSH)

    def guard(connection: Any) -> None:  # noqa: ANN401 - SQLAlchemy's
        from_guard(connection)
        to_guard(connection)

    with refused():
        done = services.moves.move(
            who.user_id,
            wanted.project_path,
            target.user_id,
            wanted.new_path or wanted.project_path,
            guard,
        )
    return write(MovedAnswer(status="moved", move=done))
