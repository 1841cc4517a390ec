"""Teams: who is a member with which role, who invites whom; and the door to what a team owns.

A team owns projects as a person does: its id stands where theirs would. `Teams.acting_for` is the
one place that lets a member act as the owner; `Teams.guard` asks once more in the transaction that
changes something, since a member may be removed meanwhile. Page: ``docs/teams.md``.
"""

import secrets as random
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

from sqlalchemy import Connection, Row, and_, delete, func, insert, or_, select, update

from lillux.canonical_json import canonical_json
from lillux.digests import sha256_hex
from lillux.shapes import write
from lillux.values import dataclass, replace
from rye_services.names import is_reserved
from rye_services.people.audit import Audit
from rye_services.people.credentials import ApiKey, AuthorizedKeys, Principal, Role, ensure_user
from rye_services.people.people import (
    OPEN,
    PERSON,
    TEAM,
    WAITING,
    People,
    PersonMissingError,
    name_lock,
    person_error,
    require_free_name,
)
from rye_services.refusal import RefusedError
from rye_services.storage.database import (
    Database,
    api_keys,
    from_row,
    hold,
    invitations,
    project_refs,
    stamp,
    team_members,
    teams,
    users,
)
from rye_services.web.http import RequestProblem
from ryeos.items.context import Clock, utc_now
from ryeos.items.errors import RyeError
from ryeos.sync.contents import ContentStore, ReadContents
from ryeos.sync.objects import ItemSource, SourceManifest
from ryeos.trust.store import write_key_document

MAX_TEAMS = 20
"""That one person makes."""

MAX_MEMBERS, MAX_INVITATIONS = 1000, 100
MAX_INVITATION_DAYS = 30
_LONGEST_TITLE = 200
_PREFIX = "rye_inv_"
_RANDOM_BYTES = 24
_members, _invitations = team_members.c, invitations.c


def _team_error(team: str, problem: str, *, hint: str = "see docs/teams.md") -> RefusedError:
    """The error of an invalid change of a team."""
    return RefusedError(f"team {team[:80]!a}: {problem}", code="CONFLICT", hint=hint)


def _missing_error(what: str) -> RefusedError:
    """The error of a team, member or invitation that is not there as far as the caller may know."""
    return RefusedError(
        f"{what}: there is none",
        code="ITEM_NOT_FOUND",
        hint="list them with: rye remote teams list",
    )


def _invitation_error(problem: str) -> RefusedError:
    """The error of an invitation that is used, over, revoked, another person's, or never made."""
    return RefusedError(
        f"invitation: {problem}",
        code="PERMISSION_DENIED",
        hint="ask who invited you for a new one",
    )


class RoleError(RyeError):
    """A user may not do this in a team, or no longer."""

    code = "PERMISSION_DENIED"

    def __init__(self, team: str, who: str, role: Role | None, wanted: Role) -> None:
        self.team, self.who, self.role, self.wanted = team, who, role, wanted
        found = f"{who} has the role {role.value}" if role else f"{who} is no member"
        super().__init__(
            f"team {team}: this needs the role {wanted.value}, and {found}",
            hint=f"an admin of {team} gives roles: rye remote teams set-role {team} {who} ROLE",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """A member, and who made them one when."""

    shape_name = "KnownMemberAnswer"
    team_id: str
    user_id: str
    role: Role
    added_at: str
    added_by: str

    def as_answer(self) -> dict[str, Any]:
        """The member as JSON shows them."""
        return write(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class Invitation:
    """An invitation, without its text."""

    shape_name = "InvitationAnswer"
    id: str
    team_id: str | None
    role: Role | None
    email: str
    created_at: str
    created_by: str
    expires_at: str
    ended_at: str | None  # it was used by ``used_by``, or revoked
    used_by: str | None

    def as_answer(self) -> dict[str, Any]:
        """The invitation as JSON shows it."""
        return write(self)


class Teams:
    """The teams in the database. Thread-safe, and so across processes.

    Whatever decides by the members of a team has its lock meanwhile, so that of two admins who
    leave at once one stays.
    """

    def __init__(self, database: Database, clock: Clock = utc_now) -> None:
        self._database, self._clock = database, clock
        self._audit = Audit(database)

    # --- the door ---------------------------------------------------------------------------------

    def acting_for(self, principal: Principal, owner: str | None, wanted: Role) -> Principal:
        """Who asks, as the owner of what they ask about.

        1. a token of a team is for that team alone
        2. no owner named, or themselves: they own what they ask about
        3. else the owner is a team in which they have a role that includes the wanted one

        Raises RequestProblem, 403: in the same words for a team that is not there.
        """
        if principal.role is not None:  # (1)
            if owner not in {None, "", principal.user_id}:
                raise RequestProblem(403, f"this token is for the team {principal.user_id} alone")
            self._require(principal, wanted)
            return principal
        if not owner or owner == principal.user_id:  # (2)
            return principal
        role = self.role_of(owner, principal.user_id)  # (3)
        if role is None:
            words = f"{principal.user_id} is no member of a team {owner[:64]!a}"
            raise RequestProblem(403, f"{words}; your teams: rye remote teams list")
        member = replace(principal, user_id=owner, person=principal.user_id, role=role)
        self._require(member, wanted)
        return member

    def _require(self, principal: Principal, wanted: Role) -> None:
        role = principal.role
        if role is None or not role.includes(wanted):
            error = RoleError(principal.user_id, principal.who, role, wanted)
            raise RequestProblem(403, f"{error}; {error.hint}")

    def token_role(self, key: ApiKey) -> Role | None:
        """What a token of a team may do now: no more than the member who made it. None: nothing."""
        if key.role is None:
            return None
        if key.created_by is None:
            return Role(key.role)
        maker = self.role_of(key.user_id, key.created_by)
        return None if maker is None else min_role(Role(key.role), maker)

    def guard(self, principal: Principal, wanted: Role) -> Callable[[Connection], None]:
        """What a change does first in its own transaction: ask whether they still may.

        It raises RoleError. A member is removed before that transaction or after it, not in it.
        """
        if principal.role is None or not principal.person:
            return _may_always
        return lambda connection: require_role(
            connection, principal.user_id, principal.person, wanted
        )

    # --- members ----------------------------------------------------------------------------------

    def role_of(self, team: str, user_id: str) -> Role | None:
        """What a person may in a team; None for no member, or a person who may do nothing here."""
        with self._database.reading() as connection:
            return role_in(connection, team, user_id)

    def require_role(self, team: str, user_id: str, wanted: Role) -> None:
        """Refuse a person who may not do this in a team now. Raises RoleError."""
        role = self.role_of(team, user_id)
        if role is None or not role.includes(wanted):
            raise RoleError(team, user_id, role, wanted)

    def of(self, user_id: str) -> tuple[Member, ...]:
        """The teams of a person, by name."""
        wanted = select(team_members).where(_members.user_id == user_id)
        with self._database.single_read() as connection:
            return tuple(map(_member, connection.execute(wanted.order_by(_members.team_id))))

    def of_known(self, user_id: str) -> tuple[Member, ...] | None:
        """As `of`; None for a person who has no row here."""
        joined = users.outerjoin(team_members, _members.user_id == users.c.id)
        wanted = select(team_members).select_from(joined).where(users.c.id == user_id)
        with self._database.single_read() as connection:
            rows = connection.execute(wanted.order_by(_members.team_id)).all()
        return tuple(_member(row) for row in rows if row.team_id is not None) if rows else None

    def is_team(self, owner: str) -> bool:
        """Whether an owner is a team."""
        with self._database.single_read() as connection:
            return connection.scalar(select(teams.c.id).where(teams.c.id == owner)) is not None

    def members(self, team: str, *, are_open: bool = False) -> tuple[Member, ...]:
        """The members of a team, by name; ``are_open``: those who may use the node just now.

        Raises RefusedError `ITEM_NOT_FOUND`.
        """
        wanted = select(team_members).where(_members.team_id == team)
        if are_open:
            wanted = wanted.join_from(team_members, users, users.c.id == _members.user_id).where(
                users.c.state == OPEN
            )
        with self._database.reading() as connection:
            if connection.scalar(select(teams.c.id).where(teams.c.id == team)) is None:
                raise _missing_error(f"team {team[:64]!a}")
            return tuple(map(_member, connection.execute(wanted.order_by(_members.user_id))))

    def all(self) -> tuple[Any, ...]:
        """Every team, by name: its id, title, and when it was made by whom."""
        with self._database.reading() as connection:
            return tuple(connection.execute(select(teams).order_by(teams.c.id)))

    def add(self, name: str, admin: str, *, title: str = "", reserved: bool = False) -> None:
        """A new team with its first admin. ``reserved``: also of a name that is the operator's.

        Raises RefusedError `CONFLICT`, UserIdError, RegistryNameError, PersonMissingError.
        """
        if is_reserved(name) and not reserved:
            raise _team_error(name, "this name is reserved", hint="choose another one")
        if not title.isprintable() or len(title) > _LONGEST_TITLE:
            raise _team_error(name, f"title: expected at most {_LONGEST_TITLE} visible characters")
        now = stamp(self._clock())
        with self._database.writing(lock=name_lock(name)) as connection:
            hold(connection, f"teams of {admin}")
            require_free_name(connection, name)
            made = select(func.count()).where(teams.c.created_by == admin)
            if not reserved and (connection.scalar(made) or 0) >= MAX_TEAMS:
                raise _team_error(name, f"expected at most {MAX_TEAMS} teams of one person")
            _require_open_person(connection, admin, now)
            row = {"id": name, "kind": TEAM, "state": OPEN, "created_at": now}
            connection.execute(insert(users).values(**row, username=title))
            row = {"id": name, "title": title, "created_at": now, "created_by": admin}
            connection.execute(insert(teams).values(**row))
            self._put(connection, name, admin, Role.ADMIN, admin)
            self._audit.write(connection, "teams.add", name, {"admin": admin})

    def set_role(
        self, team: str, user_id: str, role: Role, *, by: str, has_key: bool = False
    ) -> None:
        """Give a person a role: a new member, or another role of one. An admin stays in any case.

        ``has_key``: they have an authorised key, and need not have been here before.

        Raises RefusedError `ITEM_NOT_FOUND`, `CONFLICT`, PersonMissingError.
        """
        with self._database.writing(lock=_lock(team)) as connection:
            _require_team(connection, team)
            now = stamp(self._clock())
            _require_open_person(connection, user_id, now if has_key else None)
            before = role_in(connection, team, user_id, any_state=True)
            if before is Role.ADMIN and role is not Role.ADMIN:
                _require_other_admin(connection, team, user_id)
            self._put(connection, team, user_id, role, by)
            facts = {"user_id": user_id, "role": role.value, "before": before and before.value}
            self._audit.write(connection, "teams.set-role", team, facts)

    def remove(self, team: str, user_id: str) -> None:
        """End a person's membership. An admin stays in any case.

        Raises RefusedError `ITEM_NOT_FOUND`, `CONFLICT`.
        """
        with self._database.writing(lock=_lock(team)) as connection:
            _require_team(connection, team)
            before = role_in(connection, team, user_id, any_state=True)
            if before is None:
                raise _missing_error(f"member {user_id[:64]!a} of {team}")
            if before is Role.ADMIN:
                _require_other_admin(connection, team, user_id)
            connection.execute(delete(team_members).where(_is_member(team, user_id)))
            facts = {"user_id": user_id, "before": before.value}
            self._audit.write(connection, "teams.remove-member", team, facts)

    def close(self, team: str) -> None:
        """Remove a team that owns no project; its name stays taken, as its past names it.

        Raises RefusedError `ITEM_NOT_FOUND`, `CONFLICT`.
        """
        with self._database.writing(lock=_lock(team)) as connection:
            _require_team(connection, team)
            owned = select(project_refs.c.project_path).where(project_refs.c.user_id == team)
            path = connection.scalar(owned.limit(1))
            if path is not None:
                hint = "move its projects first: rye remote move"
                raise _team_error(team, f"it owns the project {path[:80]!a}", hint=hint)
            connection.execute(delete(team_members).where(_members.team_id == team))
            connection.execute(delete(invitations).where(_invitations.team_id == team))
            connection.execute(delete(teams).where(teams.c.id == team))
            ended = update(api_keys).where(api_keys.c.user_id == team)
            connection.execute(ended.values(revoked_at=stamp(self._clock())))
            self._audit.write(connection, "teams.close", team)

    def _put(self, connection: Connection, team: str, user_id: str, role: Role, by: str) -> None:
        count = select(func.count()).where(_members.team_id == team)
        if (connection.scalar(count) or 0) >= MAX_MEMBERS:
            raise _team_error(team, f"expected at most {MAX_MEMBERS} members")
        connection.execute(delete(team_members).where(_is_member(team, user_id)))
        row = {"team_id": team, "user_id": user_id, "role": role.value, "added_by": by[:64]}
        connection.execute(insert(team_members).values(**row, added_at=stamp(self._clock())))

    # --- invitations ------------------------------------------------------------------------------

    def invite(
        self, team: str | None, role: Role | None, *, email: str, days: int, by: str
    ) -> tuple[str, Invitation]:
        """The text of a new invitation, shown this once, and what is kept.

        Without a team it lets a person who signs in use the node. ``email``: only for a person
        whose provider has verified this address.

        Raises RefusedError `INVALID_PARAMS`, `ITEM_NOT_FOUND`, `CONFLICT`.
        """
        if not 1 <= days <= MAX_INVITATION_DAYS:
            raise RefusedError(
                f"days: expected 1 to {MAX_INVITATION_DAYS}, found {days}",
                hint="make a new one when it has expired",
            )
        if email.strip() and not all(email.strip().partition("@")):
            raise RefusedError(
                f"email: expected an address like ada@example.org, found {email[:80]!a}",
                hint="leave it out to let in any person who has the invitation",
            )
        text, now = f"{_PREFIX}{random.token_urlsafe(_RANDOM_BYTES)}", self._clock()
        row = {
            "id": random.token_hex(6),
            "team_id": team,
            "role": role and role.value,
            "email": email.strip().lower(),
            "created_at": stamp(now),
            "created_by": by[:64],
            "expires_at": stamp(now + timedelta(days=days)),
        }
        with self._database.writing(lock=_lock(team or "")) as connection:
            if team is not None:
                _require_team(connection, team)
            open_ones = select(func.count()).where(
                _invitations.team_id.is_(None) if team is None else _invitations.team_id == team,
                _invitations.ended_at.is_(None),
                _invitations.expires_at > stamp(now),
            )
            if (connection.scalar(open_ones) or 0) >= MAX_INVITATIONS:
                problem = f"expected at most {MAX_INVITATIONS} open invitations"
                raise _team_error(team or "", problem, hint="revoke some")
            connection.execute(
                insert(invitations).values(**row, token_hash=sha256_hex(text.encode()))
            )
            facts = {"id": row["id"], "role": row["role"], "email": row["email"]}
            self._audit.write(connection, "teams.invite", team or "", facts)
        return text, _invitation_of({**row, "ended_at": None, "used_by": None})

    def invitations(self, team: str | None) -> tuple[Invitation, ...]:
        """The invitations into a team, or into the node alone; the newest first."""
        is_its = _invitations.team_id.is_(None) if team is None else _invitations.team_id == team
        wanted = select(invitations).where(is_its).order_by(_invitations.created_at.desc())
        with self._database.reading() as connection:
            rows = connection.execute(wanted.limit(MAX_INVITATIONS)).mappings()
            return tuple(map(_invitation_of, rows))

    def revoke_invitation(self, team: str | None, invitation_id: str) -> None:
        """Revoke an invitation. Raises RefusedError `ITEM_NOT_FOUND`."""
        is_its = _invitations.team_id.is_(None) if team is None else _invitations.team_id == team
        ended = update(invitations).where(
            is_its, _invitations.id == invitation_id, _invitations.ended_at.is_(None)
        )
        with self._database.writing() as connection:
            change = ended.values(ended_at=stamp(self._clock()))
            if not connection.execute(change).rowcount:
                raise _missing_error(f"open invitation {invitation_id[:16]!a}")
            facts = {"id": invitation_id}
            self._audit.write(connection, "teams.revoke-invitation", team or "", facts)

    def accept(self, text: str, user_id: str, *, emails: tuple[str, ...] = ()) -> Invitation:
        """Let a person in by an invitation, which no other person can use after them.

        One who waits to be let into the node is let in. A member keeps a role that includes the
        one of the invitation. ``emails``: addresses that a provider has verified.

        Raises RefusedError `PERMISSION_DENIED`, `CONFLICT`.
        """
        is_it = _invitations.token_hash == sha256_hex(text.strip().encode("utf-8", "replace"))
        now = stamp(self._clock())
        with self._database.writing() as connection:
            team = connection.scalar(select(_invitations.team_id).where(is_it))
            hold(connection, _lock(team or ""))
            row = connection.execute(select(invitations).where(is_it).with_for_update()).first()
            if row is None:
                raise _invitation_error("there is none with this text")
            if row.ended_at is not None:
                raise _invitation_error("it was used before, or revoked")
            if row.expires_at <= now:
                raise _invitation_error(f"it was good until {row.expires_at[:16]}")
            if row.email and row.email not in emails:
                raise _invitation_error("it is for a person with another e-mail address")
            _let_in(connection, user_id, now)
            if team is not None:
                self._join(connection, row, user_id)
            used = update(invitations).where(is_it).values(ended_at=now, used_by=user_id)
            connection.execute(used)
            facts = {"id": row.id, "user_id": user_id, "role": row.role}
            self._audit.write(connection, "teams.accept-invitation", team or "", facts)
        return _invitation_of({**row._mapping, "ended_at": now, "used_by": user_id})  # noqa: SLF001 - SQLAlchemy's

    def _join(self, connection: Connection, row: Row[Any], user_id: str) -> None:
        _require_team(connection, row.team_id)
        inviter = role_in(connection, row.team_id, row.created_by)
        if inviter is not Role.ADMIN and not row.created_by.startswith("command:"):
            raise _invitation_error("who made it is no longer an admin of the team")
        role, known = Role(row.role), role_in(connection, row.team_id, user_id)
        if known is None or not known.includes(role):
            self._put(connection, row.team_id, user_id, role, row.created_by)


def min_role(one: Role, other: Role) -> Role:
    """The one that includes less."""
    return other if one.includes(other) else one


def role_in(
    connection: Connection,
    team: str,
    user_id: str,
    *,
    any_state: bool = False,
    holds: bool = False,
) -> Role | None:
    """What a person may in a team, as of a transaction; None for no member.

    ``any_state``: also of a person who may do nothing here just now. ``holds``: a change of it
    waits until the transaction has ended.
    """
    query = select(_members.role).where(_is_member(team, user_id))
    if not any_state:
        query = query.join_from(team_members, users, users.c.id == _members.user_id).where(
            users.c.state == OPEN
        )
    if holds:
        query = query.with_for_update(read=True, of=team_members)
    found = connection.scalar(query)
    return None if found is None else Role(found)


def require_role(connection: Connection, team: str, user_id: str, wanted: Role) -> None:
    """Refuse a person who may no longer do this in a team. Raises RoleError."""
    role = role_in(connection, team, user_id, holds=True)
    if role is None or not role.includes(wanted):
        raise RoleError(team, user_id, role, wanted)


def _may_always(_: Connection) -> None:
    """The guard of an owner, who may change what is theirs."""


def _lock(team: str) -> str:
    return f"team {team}"


def _is_member(team: str, user_id: str) -> Any:  # noqa: ANN401 - SQLAlchemy's
    return and_(_members.team_id == team, _members.user_id == user_id)


def _require_team(connection: Connection, team: str) -> None:
    if connection.scalar(select(teams.c.id).where(teams.c.id == team)) is None:
        raise _missing_error(f"team {team[:64]!a}")


def _require_open_person(connection: Connection, user_id: str, now: str | None) -> None:
    """Raises PersonMissingError, RefusedError `CONFLICT`. With ``now`` a missing row is made."""
    row = connection.execute(
        select(users.c.kind, users.c.state).where(users.c.id == user_id)
    ).first()
    if row is None:
        if now is None:
            raise PersonMissingError(user_id)
        ensure_user(connection, user_id, now)
        return
    if row.kind != PERSON:
        raise person_error(user_id, "expected a person, found a team")
    if row.state != OPEN:
        raise person_error(
            user_id,
            "expected a user of this node, found that they wait for it, or no longer may",
        )


def _require_other_admin(connection: Connection, team: str, user_id: str) -> None:
    others = (
        select(_members.user_id)
        .join_from(team_members, users, users.c.id == _members.user_id)
        .where(
            _members.team_id == team,
            _members.role == Role.ADMIN.value,
            _members.user_id != user_id,
            users.c.state == OPEN,
        )
    )
    if connection.scalar(others.limit(1)) is None:
        raise _team_error(
            team,
            f"{user_id} is its last admin",
            hint=f"make another member one first: rye remote teams set-role {team} USER admin",
        )


def _let_in(connection: Connection, user_id: str, now: str) -> None:
    ensure_user(connection, user_id, now)
    state = connection.scalar(select(users.c.state).where(users.c.id == user_id))
    if state not in {OPEN, WAITING}:
        raise _invitation_error("who wants to use it was removed from this node")
    change = update(users).where(users.c.id == user_id, or_(users.c.state == WAITING))
    connection.execute(change.values(state=OPEN))


def _member(row: Row[Any]) -> Member:
    return from_row(Member, row)


def _invitation_of(row: Any) -> Invitation:  # noqa: ANN401 - a mapping of columns
    return from_row(Invitation, row)


# --- team space -----------------------------------------------------------------------------------
# What stands for a user space in the runs of a team: the keys that its members sign with.
#
# In a person's runs the keys of their user space count. A team pushes none, and what may run in its
# projects is what a user approved who may change them: the keys of members with the role push or
# admin count, as of the beginning of the run. The documents are made for a run and kept nowhere.

_FOLDER = ".ai/config/keys/trusted"


@dataclass(frozen=True, slots=True)
class TeamSpace:
    """The user space of a run, and where its content is read."""

    manifest: SourceManifest
    contents: ReadContents


@dataclass(frozen=True, slots=True)
class TeamSpaces:
    """Makes the user spaces of teams. Thread-safe."""

    teams: Teams
    people: People
    authorized_keys: AuthorizedKeys

    def of(self, owner: str, store: ContentStore) -> TeamSpace | None:
        """That of a team; None for an owner who is no team. Raises SQLAlchemyError."""
        if not self.teams.is_team(owner):
            return None
        blobs: dict[str, bytes] = {}
        objects: dict[str, dict[str, Any]] = {}
        items: dict[str, str] = {}
        for fingerprint, document in self._documents(owner):
            data = document.encode()
            blob = sha256_hex(data)
            item = ItemSource(f"config:keys/trusted/{fingerprint}", blob).as_object()
            digest = sha256_hex(canonical_json(item))
            blobs[blob], objects[digest] = data, item
            items[f"{_FOLDER}/{fingerprint}.toml"] = digest
        return TeamSpace(SourceManifest("user", items), _RunContents(store, blobs, objects))

    def _documents(self, team: str) -> Iterator[tuple[str, str]]:
        """Documents of the keys of those who may push; all that Rye signs is bound and covered."""
        for member in self.teams.members(team, are_open=True):
            if not member.role.includes(Role.PUSH):
                continue
            for fingerprint, pem in self._keys_of(member.user_id):
                document = write_key_document(
                    pem, member.user_id, covers_all=True, binds_identity=True
                )
                yield fingerprint, document

    def _keys_of(self, user_id: str) -> Iterator[tuple[str, bytes]]:
        for key in self.people.keys_of(user_id, are_valid=True):
            yield key.fingerprint, key.public_pem
        first = self.authorized_keys.find(user_id)
        if first is not None:
            yield first.fingerprint, first.public_pem


@dataclass(frozen=True, slots=True)
class _RunContents:
    """The content of a store, and what was made for a run beside it."""

    store: ContentStore
    blobs: dict[str, bytes]
    objects: dict[str, dict[str, Any]]

    def get_blob(self, digest: str) -> bytes:
        """See `ReadContents`."""
        found = self.blobs.get(digest)
        return self.store.get_blob(digest) if found is None else found

    def get_object(self, digest: str) -> Any:  # noqa: ANN401 - any JSON
        """See `ReadContents`."""
        found = self.objects.get(digest)
        return self.store.get_object(digest) if found is None else found

    def has_blob(self, digest: str) -> bool:
        """See `ReadContents`."""
        return digest in self.blobs or self.store.has_blob(digest)

    def has_object(self, digest: str) -> bool:
        """See `ReadContents`."""
        return digest in self.objects or self.store.has_object(digest)
