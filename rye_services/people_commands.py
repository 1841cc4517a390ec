"""Commands of who runs a node about people and teams: ``users open``, ``teams add`` and others.

What only one of them needs is imported by it. Page: ``docs/teams.md``.
"""

import argparse
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from lillux.files import read_bytes
from lillux.signing import MAX_PEM_BYTES
from rye_services.commands import CommandAnswer, Declare, columns, unix_user
from rye_services.settings import settings_of
from ryeos.items.errors import UsageError

if TYPE_CHECKING:
    from rye_services.database import Database

_ROLES = ("read", "run", "push", "admin")


@contextmanager
def _database(parsed: argparse.Namespace, environ: Mapping[str, str]) -> "Iterator[Database]":
    from rye_services.data_folder import open_database, require_data

    database = open_database(require_data(settings_of(parsed, environ)))
    try:
        yield database
    finally:
        database.close()


def _by() -> str:
    return f"command:{unix_user()}"[:64]


# --- people ---------------------------------------------------------------------------------------


def declare_people(declare: Declare) -> None:
    """The actions of ``users`` that change something."""
    add = declare("add", _add_user, "make a person who has no key yet")
    add.add_argument("id", metavar="NAME", help="2 to 39 of a-z, 0-9, - and _")
    add.add_argument("--key", metavar="KEY", help="the first key: a PEM file, or ed25519:...")
    key = declare("add-key", _add_key, "let a person sign with a further key")
    key.add_argument("id", metavar="ID")
    key.add_argument("key", metavar="KEY", help="a PEM file, or ed25519:...")
    key.add_argument("--label", metavar="TEXT", default="")
    keys = declare("keys", _list_keys, "the further keys of a person")
    keys.add_argument("id", metavar="ID")
    remove = declare("remove-key", _remove_key, "let a key of a person sign no longer")
    remove.add_argument("id", metavar="ID")
    remove.add_argument("fingerprint", metavar="FINGERPRINT")
    declare("open", _open_user, "let in a person who waits, or was closed").add_argument(
        "id", metavar="ID"
    )
    close = declare("close", _close_user, "lock a person out, and end what they run")
    close.add_argument("id", metavar="ID")
    invite = declare("invite", _invite, "invite a person who signs in; the text is shown once")
    invite.add_argument("--email", metavar="ADDRESS", default="", help="only who has this address")
    invite.add_argument("--days", metavar="N", type=int, default=7, help="1 to 30 (default 7)")


def _add_user(parsed: argparse.Namespace, environ: Mapping[str, str]) -> CommandAnswer:
    from rye_services.people import People

    pem = None if parsed.key is None else typed_pem(parsed.key)
    with _database(parsed, environ) as database:
        people = People(database)
        people.add(parsed.id)
        if pem is not None:
            people.add_key(parsed.id, pem, label="", scopes=None, by=_by())
    return CommandAnswer({"status": "success", "user_id": parsed.id}, f"{parsed.id} is a user now")


def _add_key(parsed: argparse.Namespace, environ: Mapping[str, str]) -> CommandAnswer:
    from rye_services.people import People

    pem, user_id = typed_pem(parsed.key), parsed.id.removeprefix("fp:")
    with _database(parsed, environ) as database:
        key = People(database).add_key(user_id, pem, label=parsed.label, scopes=None, by=_by())
    envelope = {"status": "success", "user_id": user_id, **key.as_answer()}
    return CommandAnswer(envelope, f"{user_id} signs with fp:{key.fingerprint}")


def _list_keys(parsed: argparse.Namespace, environ: Mapping[str, str]) -> CommandAnswer:
    from rye_services.people import People

    user_id = parsed.id.removeprefix("fp:")
    with _database(parsed, environ) as database:
        found = People(database).keys_of(user_id)
    rows = [(f"fp:{one.fingerprint}", one.created_at[:19], one.label) for one in found]
    envelope = {"status": "success", "user_id": user_id}
    keys = [one.as_answer() for one in found]
    return CommandAnswer({**envelope, "keys": keys}, columns(rows) or "no further keys")


def _remove_key(parsed: argparse.Namespace, environ: Mapping[str, str]) -> CommandAnswer:
    from rye_services.people import People

    user_id, key = parsed.id.removeprefix("fp:"), parsed.fingerprint.removeprefix("fp:")
    with _database(parsed, environ) as database:
        People(database).remove_key(user_id, key)
    envelope = {"status": "success", "user_id": user_id, "removed": f"fp:{key}"}
    return CommandAnswer(envelope, f"fp:{key} counts no longer")


def _open_user(parsed: argparse.Namespace, environ: Mapping[str, str]) -> CommandAnswer:
    from rye_services.people import OPEN, People

    user_id = parsed.id.removeprefix("fp:")
    with _database(parsed, environ) as database:
        before = People(database).set_state(user_id, OPEN)
    envelope = {"status": "success", "user_id": user_id, "before": before, "state": OPEN}
    return CommandAnswer(envelope, f"{user_id} may use this node")


def _close_user(parsed: argparse.Namespace, environ: Mapping[str, str]) -> CommandAnswer:
    """First nothing they show counts any more; then what they run is ended."""
    from rye_services.node.queue.rows import ThreadRows
    from rye_services.people import CLOSED, People
    from rye_services.teams import Teams

    user_id = parsed.id.removeprefix("fp:")
    with _database(parsed, environ) as database:
        before = People(database).set_state(user_id, CLOSED)
        ended = ThreadRows(database, "", lambda _: False).cancel_of(user_id, _by())
        alone = [one.team_id for one in Teams(database).of(user_id) if one.role.value == "admin"]
    notes = tuple(
        f"{team}: {user_id} was an admin; see: rye-node.pyz teams show {team}" for team in alone
    )
    envelope = {"status": "success", "user_id": user_id, "before": before, "state": CLOSED}
    text = f"{user_id} may not use this node any more; {len(ended)} executions are being ended"
    return CommandAnswer({**envelope, "cancelled": list(ended)}, text, notes)


def _invite(parsed: argparse.Namespace, environ: Mapping[str, str]) -> CommandAnswer:
    from rye_services.teams import Teams

    with _database(parsed, environ) as database:
        text, made = Teams(database).invite(
            None, None, email=parsed.email, days=parsed.days, by=_by()
        )
    envelope = {"status": "success", "invitation": text, **made.as_answer()}
    return CommandAnswer(envelope, text, (f"it lets one person in, until {made.expires_at[:16]}",))


def typed_pem(key: str) -> bytes:
    """The PEM of a key as it was typed. Raises PublicKeyError, UsageError, FileSystemError."""
    from rye_services.credentials import typed_public_key

    if key.startswith("ed25519:"):
        return typed_public_key(key, "KEY")
    try:
        return read_bytes(Path(key).expanduser(), MAX_PEM_BYTES)
    except FileNotFoundError:
        raise UsageError(
            f"{key}: expected a PEM file, found none",
            hint="a client's is ~/.ai/config/keys/signing/public_key.pem: rye keys show",
        ) from None


# --- teams ----------------------------------------------------------------------------------------


def declare_teams(declare: Declare) -> None:
    """The actions of ``teams``."""
    declare("list", _list_teams, "all teams")
    declare("show", _show_team, "the members of one").add_argument("team", metavar="TEAM")
    add = declare("add", _add_team, "make a team, also of a reserved name")
    add.add_argument("team", metavar="TEAM")
    add.add_argument("--admin", metavar="USER", required=True, help="its first admin")
    role = declare("set-role", _set_role, "give a person a role in a team")
    role.add_argument("team", metavar="TEAM")
    role.add_argument("user", metavar="USER")
    role.add_argument("wanted", metavar="ROLE", choices=_ROLES, help=", ".join(_ROLES))
    remove = declare("remove", _remove_member, "end a membership; what they run there ends")
    remove.add_argument("team", metavar="TEAM")
    remove.add_argument("user", metavar="USER")


def _list_teams(parsed: argparse.Namespace, environ: Mapping[str, str]) -> CommandAnswer:
    from rye_services.teams import Teams

    with _database(parsed, environ) as database:
        teams = Teams(database)
        found = [
            {
                "team_id": one.id,
                "title": one.title,
                "created_at": one.created_at,
                "members": len(teams.members(one.id)),
            }
            for one in teams.all()
        ]
    rows = [(one["team_id"], f"{one['members']} members", one["title"]) for one in found]
    return CommandAnswer({"status": "success", "teams": found}, columns(rows) or "no teams")


def _show_team(parsed: argparse.Namespace, environ: Mapping[str, str]) -> CommandAnswer:
    from rye_services.teams import Teams

    with _database(parsed, environ) as database:
        found = Teams(database).members(parsed.team)
    rows = [(one.user_id, one.role.value, one.added_at[:19], one.added_by) for one in found]
    members = [one.as_answer() for one in found]
    envelope = {"status": "success", "team_id": parsed.team, "members": members}
    return CommandAnswer(envelope, columns(rows) or "no members")


def _add_team(parsed: argparse.Namespace, environ: Mapping[str, str]) -> CommandAnswer:
    from rye_services.teams import Teams

    admin = parsed.admin.removeprefix("fp:")
    with _database(parsed, environ) as database:
        Teams(database).add(parsed.team, admin, reserved=True)
    envelope = {"status": "success", "team_id": parsed.team, "admin": admin}
    return CommandAnswer(envelope, f"{parsed.team} is there, and {admin} is its admin")


def _set_role(parsed: argparse.Namespace, environ: Mapping[str, str]) -> CommandAnswer:
    from rye_services.credentials import AuthorizedKeys, Role
    from rye_services.teams import Teams

    user_id = parsed.user.removeprefix("fp:")
    with _database(parsed, environ) as database:
        has_key = AuthorizedKeys(database).find(user_id) is not None
        Teams(database).set_role(
            parsed.team, user_id, Role(parsed.wanted), by=_by(), has_key=has_key
        )
    envelope = {"status": "success", "team_id": parsed.team, "user_id": user_id}
    text = f"{user_id} has the role {parsed.wanted} in {parsed.team}"
    return CommandAnswer({**envelope, "role": parsed.wanted}, text)


def _remove_member(parsed: argparse.Namespace, environ: Mapping[str, str]) -> CommandAnswer:
    from rye_services.node.queue.rows import ThreadRows
    from rye_services.teams import Teams

    user_id = parsed.user.removeprefix("fp:")
    with _database(parsed, environ) as database:
        Teams(database).remove(parsed.team, user_id)
        rows = ThreadRows(database, "", lambda _: False)
        ended = rows.cancel_of(user_id, _by(), user_id=parsed.team)
    envelope = {"status": "success", "team_id": parsed.team, "user_id": user_id}
    text = f"{user_id} is no longer in {parsed.team}; {len(ended)} executions are being ended"
    return CommandAnswer({**envelope, "cancelled": list(ended)}, text)
