"""``rye remote whoami|keys|tokens|teams|projects|move``: people, teams and whose a project is."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from lillux.fields import is_number
from lillux.files import read_bytes
from lillux.foreign_text import one_line
from lillux.http.client import wait_for
from lillux.key_files import PUBLIC_KEY_FILE
from lillux.pem import MAX_PEM_BYTES
from lillux.signing import canonical_public_pem
from ryeos.app.command_line import Action, Arguments, CommandSpec
from ryeos.app.output import utc_text
from ryeos.cli.remote_run import linked, remote_environment, take_remote, take_team, team_of
from ryeos.cli.session import Session
from ryeos.items.errors import RyeError, UsageError
from ryeos.remote.account import ROLES, TeamClient, valid_team
from ryeos.remote.identity import encode_public_key
from ryeos.remote.link import RemoteEnvironment, open_node, remotes_of
from ryeos.remote.remote_values import team_and_path, valid_project_name

_Rows = tuple[dict[str, Any], ...]
_MOST_DAYS = 36_500


@contextmanager
def _client(session: Session, team: str = "") -> Iterator[TeamClient]:
    """What asks the node that was named, about what a team owns where one is."""
    with remote_environment(session) as around:
        remote = remotes_of(around).resolve(session.arguments.remote)
        yield TeamClient(open_node(around, remote, owner=team))


def _cell(row: Mapping[str, Any], name: str) -> str:
    value = row.get(name)
    text = one_line("-" if value is None or value == "" else str(value), 80)
    return utc_text(text) if name.endswith("_at") else text


def _table(rows: _Rows, *names: str) -> str:
    """The rows, a line each, with these of their values in columns."""
    cells = [[_cell(row, name) for name in names] for row in rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in cells
    )


def _show_rows(session: Session, name: str, rows: _Rows, empty: str, *columns: str) -> None:
    session.output.answer({"status": "success", name: list(rows)}, _table(rows, *columns))
    if not rows and not session.output.as_json:
        session.output.note(empty)


def _done(session: Session, text: str, **facts: object) -> None:
    session.output.answer({"status": "success", **facts}, one_line(text, 400))


def _scopes(session: Session) -> list[str] | None:
    return list(session.arguments.scope) if session.arguments.scope else None


def _take_days(parser: Arguments, words: str) -> None:
    parser.add_argument("--expires-days", metavar="N", type=int, help=words)


def _days(session: Session) -> int | None:
    days = session.arguments.expires_days
    if days is not None and not 0 < days <= _MOST_DAYS:
        raise UsageError(f"--expires-days: expected 1 to {_MOST_DAYS}, found {days}")
    return None if days is None else int(days)


# --- whoami ---------------------------------------------------------------------------------------


def _whoami(session: Session) -> int:
    with _client(session) as client:
        found = client.account()
    scopes = found.get("scopes")
    teams = found.get("teams") or []
    rights = "everything" if scopes is None else one_line(", ".join(map(str, scopes)))
    lines = [
        f"{_cell(found, 'user_id')}, with {_cell(found, 'key_id')}: {rights}",
        *(f"  {_cell(one, 'role'):<6} in {_cell(one, 'team_id')}" for one in teams),
    ]
    session.output.answer({"status": "success", **found}, "\n".join(lines))
    return 0


# --- login ----------------------------------------------------------------------------------------

_MOST_POLLS = 200
_LONGEST_POLL_S = 60.0


def _configure_login(parser: Arguments) -> None:
    parser.add_argument("--label", metavar="TEXT", help="what the page calls this machine")
    take_remote(parser)


def _login(session: Session) -> int:
    """Have a person say on a page of the node that this machine's key is theirs."""
    from platform import node

    from ryeos.cli.session import cancelled_by_signals

    key = session.rye.signing_key()
    with remote_environment(session, cancelled_by_signals()) as around:
        remote = remotes_of(around).resolve(session.arguments.remote)
        client = TeamClient(open_node(around, remote))
        public_key = encode_public_key(key.public_pem)
        begun = client.begin_sign_in(public_key, (session.arguments.label or node())[:100])
        url, code = str(begun["verification_url"]), str(begun["user_code"])
        session.output.note(
            f"open {one_line(url, 300)} and type {one_line(code)}; the page shows the key"
            f" fp:{key.fingerprint}"
        )
        state, user_id = _poll_sign_in(client, begun, around)
    if state != "approved":
        words = {"refused": "it was refused there", "over": "its time is over"}
        raise RyeError(
            f"remote {remote.name}: not logged in: {words.get(state, 'cancelled')}",
            code="PERMISSION_DENIED",
            hint="begin once more: rye remote login",
        )
    _done(session, f"this machine signs for {user_id} on {remote.name}", user_id=user_id)
    return 0


def _poll_sign_in(
    client: TeamClient, begun: Mapping[str, Any], around: RemoteEnvironment
) -> tuple[str, str]:
    """How the sign-in ended, and who it is. Asks as seldom as the node wants."""
    said: Any = begun.get("interval_s")
    wait_s = min(max(float(said), 0.2), _LONGEST_POLL_S) if is_number(said) else 3.0
    for _ in range(_MOST_POLLS):
        found = client.sign_in_state(str(begun["device_code"]))
        if found["state"] != "waiting":
            return str(found["state"]), str(found.get("user_id"))
        wait_for(wait_s, around.cancellation)
        if around.cancellation is not None and around.cancellation.is_set:
            return "cancelled", ""
    return "over", ""


# --- keys -----------------------------------------------------------------------------------------


def _configure_keys(parser: Arguments) -> None:
    add = parser.add_argument
    add("words", metavar="KEY", nargs="*", help="add: a PEM file, or ed25519:...; remove: fp:...")
    add("--label", metavar="TEXT", default="", help="add: where it is, like laptop")
    add("--scope", metavar="S", action="append", help="add: what for (as the key that adds it)")
    _take_days(parser, "add: how long it counts")
    take_remote(parser)


def _list_keys(session: Session) -> None:
    with _client(session) as client:
        found = client.keys()
    rows: _Rows = tuple(row for row in found.get("keys") or () if isinstance(row, dict))
    first = found.get("first")
    envelope = {"status": "success", "first": first, "keys": list(rows)}
    lines = [f"{one_line(str(first))}  the operator let it in"] if first else []
    lines += [_table(rows, "fingerprint", "created_at", "label")] if rows else []
    session.output.answer(envelope, "\n".join(lines))


def _add_key(session: Session, word: str) -> None:
    arguments = session.arguments
    public_key = word if word.startswith("ed25519:") else encode_public_key(_pem(word))
    with _client(session) as client:
        key = client.add_key(
            public_key, label=arguments.label, scopes=_scopes(session), days=_days(session)
        )
    _done(session, f"{_cell(key, 'fingerprint')} is your key now", key=key)


def _pem(path: str) -> bytes:
    try:
        return canonical_public_pem(read_bytes(Path(path).expanduser(), MAX_PEM_BYTES))
    except FileNotFoundError:
        raise UsageError(
            f"{path}: expected a PEM file, found none",
            hint=f"on the other machine it is ~/.ai/config/keys/signing/{PUBLIC_KEY_FILE}",
        ) from None


def _remove_key(session: Session, word: str) -> None:
    with _client(session) as client:
        client.remove_key(word)
    _done(session, f"{word} counts no longer", removed=word)


_KEY_ACTIONS = {
    "list": Action(_list_keys),
    "add": Action(_add_key, "KEY"),
    "remove": Action(_remove_key, "FINGERPRINT"),
}


# --- tokens ---------------------------------------------------------------------------------------


def _configure_tokens(parser: Arguments) -> None:
    add = parser.add_argument
    add("words", metavar="NAME|ID", nargs="*", help="create NAME, revoke ID")
    add("--scope", metavar="S", action="append", help="create: what for (remote:*)")
    add("--role", choices=ROLES, help="create with --team: what it may there (run)")
    _take_days(parser, "create: how long it counts (90)")
    take_team(parser)
    take_remote(parser)


def _list_tokens(session: Session) -> None:
    with _client(session, team_of(session)) as client:
        rows = client.tokens()
    columns = ("id", "name", "role", "expires_at", "revoked_at")
    _show_rows(session, "tokens", rows, "no tokens", *columns)


def _create_token(session: Session, name: str) -> None:
    arguments = session.arguments
    if arguments.role and not arguments.team:
        raise UsageError("--role: expected --team TEAM beside it")
    with _client(session, team_of(session)) as client:
        made = client.add_token(
            name, scopes=_scopes(session), days=_days(session), role=arguments.role
        )
    if not session.output.as_json:
        session.output.note("keep it safe: it cannot be shown again")
    session.output.answer({"status": "success", **made}, one_line(str(made["token"]), 400))


def _revoke_token(session: Session, token_id: str) -> None:
    with _client(session, team_of(session)) as client:
        client.revoke_token(token_id)
    _done(session, f"{token_id} counts no longer", revoked=token_id)


_TOKEN_ACTIONS = {
    "list": Action(_list_tokens),
    "create": Action(_create_token, "NAME"),
    "revoke": Action(_revoke_token, "ID"),
}


# --- teams ----------------------------------------------------------------------------------------


def _configure_teams(parser: Arguments) -> None:
    add = parser.add_argument
    add("words", metavar="WORD", nargs="*", help="TEAM, USER, ROLE: see the examples")
    add("--title", metavar="TEXT", default="", help="create: what it is, for people")
    add("--role", choices=ROLES, help="invite: what the newcomer may (run)")
    add("--email", metavar="ADDRESS", help="invite: only who has this verified address")
    _take_days(parser, "invite: how long it lets in (7)")
    take_remote(parser)


def _list_teams(session: Session) -> None:
    with _client(session) as client:
        rows = client.teams()
    empty = "no teams; make one with: rye remote teams create NAME"
    _show_rows(session, "teams", rows, empty, "team_id", "role")


def _create_team(session: Session, team: str) -> None:
    with _client(session) as client:
        found = client.create(team, session.arguments.title)
    text = f"{valid_team(team)} is there, and you are its admin; next: rye remote move @{team}"
    _done(session, text, team=found)


def _show_team(session: Session, team: str) -> None:
    with _client(session) as client:
        found = client.show(team)
    rows: _Rows = tuple(found["members"])
    room = f"{_cell(found, 'stored_bytes')} of {_cell(found, 'allowed_bytes')} bytes"
    text = f"{_table(rows, 'user_id', 'role', 'added_at')}\n{room}"
    session.output.answer({"status": "success", **found}, text)


def _set_role(session: Session, team: str, user: str, role: str) -> None:
    with _client(session) as client:
        client.set_role(team, user, role)
    _done(session, f"{user} has the role {role} in {team}", team=team, user_id=user, role=role)


def _remove_member(session: Session, team: str, user: str) -> None:
    with _client(session) as client:
        gone = client.remove(team, user)
    ended = gone.get("cancelled") or []
    runs = f"; {len(ended)} runs of theirs are being ended" if ended else ""
    _done(session, f"{user} is no longer in {team}{runs}", **gone)


def _leave(session: Session, team: str) -> None:
    with _client(session) as client:
        gone = client.remove(team, str(client.account()["user_id"]))
    _done(session, f"you are no longer in {team}", **gone)


def _invite(session: Session, team: str) -> None:
    arguments = session.arguments
    with _client(session) as client:
        made = client.invite(team, role=arguments.role, email=arguments.email, days=_days(session))
    if not session.output.as_json:
        session.output.note(
            f"it lets one person in, until {_cell(made, 'expires_at')};"
            " they type: rye remote teams join INVITATION"
        )
    session.output.answer({"status": "success", **made}, one_line(str(made["invitation"]), 400))


def _list_invitations(session: Session, team: str) -> None:
    with _client(session) as client:
        rows = client.invitations(team)
    columns = ("id", "role", "email", "expires_at", "ended_at", "used_by")
    _show_rows(session, "invitations", rows, "no invitations", *columns)


def _revoke_invitation(session: Session, team: str, invitation: str) -> None:
    with _client(session) as client:
        client.revoke(team, invitation)
    _done(session, f"{invitation} lets no one in any more", revoked=invitation)


def _join(session: Session, text: str) -> None:
    with _client(session) as client:
        joined = client.join(text)
    team = joined.get("team_id")
    where = f"in {team}: your role is {joined.get('role')}" if team else "a user of this node"
    _done(session, f"you are {where}", **joined)


def _close(session: Session, team: str) -> None:
    with _client(session) as client:
        client.close(team)
    _done(session, f"{team} is closed", closed=team)


_TEAM_ACTIONS = {
    "list": Action(_list_teams),
    "create": Action(_create_team, "TEAM"),
    "show": Action(_show_team, "TEAM"),
    "set-role": Action(_set_role, "TEAM", "USER", "ROLE"),
    "remove": Action(_remove_member, "TEAM", "USER"),
    "leave": Action(_leave, "TEAM"),
    "invite": Action(_invite, "TEAM"),
    "invitations": Action(_list_invitations, "TEAM"),
    "revoke": Action(_revoke_invitation, "TEAM", "ID"),
    "join": Action(_join, "INVITATION"),
    "close": Action(_close, "TEAM"),
}


# --- projects -------------------------------------------------------------------------------------


def _configure_projects(parser: Arguments) -> None:
    take_team(parser)
    take_remote(parser)


def _projects(session: Session) -> int:
    with _client(session, team_of(session)) as client:
        rows = client.projects()
    columns = ("project_path", "revision", "pushed_at", "snapshot_hash")
    _show_rows(session, "projects", rows, "no projects", *columns)
    return 0


def _configure_move(parser: Arguments) -> None:
    add = parser.add_argument
    add("to", metavar="TO", help="@TEAM, or mine")
    add("--as", dest="new_name", metavar="NAME", help="what it is called there (as now)")
    add("--project", metavar="PROJECT", help="another one of the node, like @acme/app")
    take_remote(parser)


def _move(session: Session) -> int:
    """Give the project to a team, or take it back; what it is called is to be changed here."""
    arguments = session.arguments
    if arguments.project:
        owner, path = team_and_path(valid_project_name("--project", arguments.project))
        _show_moved(session, *_moved_project(session, owner, path))
        return 0
    with linked(session) as link:
        name, moved = _moved_project(session, link.node.owner, link.project_path)
        link.rename(name)
    if not session.output.as_json:
        session.output.note(
            f"say so here: project_path: {one_line(name)} in .ai/config/remotes/remotes.yaml"
        )
    _show_moved(session, name, moved)
    return 0


def _moved_project(session: Session, owner: str, path: str) -> tuple[str, dict[str, Any]]:
    """What the project is called now, with its owner; and what the node says."""
    to, new_path = session.arguments.to, session.arguments.new_name or path
    new_path = valid_project_name("--as", new_path)
    with _client(session, owner) as client:
        if to == "mine":
            return new_path, client.move(path, str(client.account()["user_id"]), new_path)
        team = valid_team(to)
        return f"@{team}/{new_path}", client.move(path, team, new_path)


def _show_moved(session: Session, name: str, moved: Mapping[str, Any]) -> None:
    webhooks = moved.get("webhooks")
    if webhooks and not session.output.as_json:
        session.output.note(f"{webhooks} webhooks for it ended; make them anew")
    _done(session, f"it is {name} now", **{**moved, "status": "success", "project": name})


LOGIN = CommandSpec(_configure_login, _login, ["rye remote login", "rye remote login --remote gpu"])
WHOAMI = CommandSpec(take_remote, _whoami, ["rye remote whoami"])
KEYS = CommandSpec(
    _configure_keys,
    _KEY_ACTIONS,
    [
        "rye remote keys list",
        "rye remote keys add laptop.pem --label laptop",
        "rye remote keys remove fp:07097e6443239d36",
    ],
)
TOKENS = CommandSpec(
    _configure_tokens,
    _TOKEN_ACTIONS,
    [
        "rye remote tokens create ci --expires-days 30",
        "rye remote tokens create deploy --team acme --role push",
        "rye remote tokens revoke 3d4c030534b1c1c6",
    ],
)
TEAMS = CommandSpec(
    _configure_teams,
    _TEAM_ACTIONS,
    [
        "rye remote teams create acme",
        "rye remote teams invite acme --role push",
        "rye remote teams join rye_inv_...",
        "rye remote teams set-role acme 07097e6443239d36 admin",
        "rye remote teams remove acme 07097e6443239d36",
    ],
)
PROJECTS = CommandSpec(
    _configure_projects,
    _projects,
    ["rye remote projects", "rye remote projects --team acme"],
)
MOVE = CommandSpec(
    _configure_move,
    _move,
    ["rye remote move @acme", "rye remote move mine --project @acme/app --as app"],
)
