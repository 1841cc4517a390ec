"""Commands of operators: ``audit``, ``users``, ``teams``, ``quota``, ``jobs``, ``accounts``...

Contract: ``docs/node.md``, Commands, and ``docs/teams.md``. What only one of them needs is imported
by it. First what modules of commands share: answers, columns, and who types a command.
"""

import argparse
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from getpass import getuser
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any

from lillux.files import read_bytes
from lillux.foreign_text import printable, without_control_characters
from lillux.pem import MAX_PEM_BYTES
from lillux.values import dataclass
from rye_services.settings import Settings, bytes_of, settings_of
from ryeos.app.command_line import Arguments, CommandSpec, no_arguments
from ryeos.app.output import field_text, utc_text
from ryeos.items.errors import UsageError

if TYPE_CHECKING:
    from rye_services.storage.database import Database

# --- answers --------------------------------------------------------------------------------------
# What the modules of commands share: the form of an answer, columns, and who types a command.

_SAY_EVERY_S = 2.0


@dataclass(frozen=True, slots=True)
class CommandAnswer:
    """What a command answers: as JSON, as text; and what it says besides."""

    envelope: Mapping[str, Any]
    text: str
    notes: tuple[str, ...] = ()


def columns(rows: Sequence[Sequence[str]]) -> str:
    """Rows as lines, each column as wide as its widest cell; ``""`` for no rows.

    What could steer a terminal is escaped: cells have texts that others wrote.
    """
    rows = [[printable(cell, 0) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = (
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    )
    return "\n".join(lines)


def unix_user() -> str:
    """Who types a command, as the system says; on systems without such users as Python does."""
    try:
        import pwd

        return pwd.getpwuid(os.getuid()).pw_name
    except (ImportError, KeyError):
        pass
    try:
        return getuser()
    except (OSError, KeyError, ImportError):  # a number without a name
        return str(os.getuid()) if hasattr(os, "getuid") else "unknown"


def say_line(line: str) -> None:
    """Write a line to standard error, which is read while a command works."""
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


def progress_of(parsed: argparse.Namespace) -> Callable[[str, int, int], None]:
    """Says on standard error how far long work is, every two seconds."""
    said_s = monotonic()

    def say(what: str, done: int, total: int) -> None:
        nonlocal said_s
        if not parsed.quiet and monotonic() - said_s >= _SAY_EVERY_S:
            said_s = monotonic()
            say_line(f"rye-node: {what}: {done} of {total}")

    return say


# --- data -----------------------------------------------------------------------------------------

_LOOK_AGAIN_S = 0.5
_PIECES = 200
_DEFAULT = "default"
_JOB_STATES = ("waiting", "running", "completed", "error", "cancelled")
_MOST_BYTES = 2**60


@contextmanager
def _open_node(
    parsed: argparse.Namespace, environ: Mapping[str, str]
) -> Iterator["tuple[Settings, Database]"]:
    """The settings and the database of the node, closed at the end."""
    from rye_services.process.data_folder import open_database, require_data

    settings = require_data(settings_of(parsed, environ))
    database = open_database(settings)
    try:
        yield settings, database
    finally:
        database.close()


# --- audit ----------------------------------------------------------------------------------------


def _configure_audit(parser: Arguments) -> None:
    parser.add_argument("--action", metavar="A", default="", help="like keys.add, or keys")
    parser.add_argument("--actor", metavar="A", default="", help="a user, or command:NAME")
    parser.add_argument("--since", metavar="T", type=_utc_time, help="like 2026-11-24T08:00")
    parser.add_argument("--limit", metavar="N", type=_count, default=50, help="default 50")


def _audit(parsed: argparse.Namespace, environ: Mapping[str, str]) -> CommandAnswer:
    from rye_services.people.audit import Audit, AuditFilter

    wanted = AuditFilter(action=parsed.action, actor=parsed.actor, since=parsed.since or "")
    with _open_node(parsed, environ) as (_, database):
        found = Audit(database).entries(wanted, limit=parsed.limit)
    rows = [
        (
            utc_text(one.at),
            one.actor,
            one.address or "-",
            one.action,
            one.target,
            _facts(one.details),
        )
        for one in found
    ]
    envelope = {"status": "success", "entries": [one.as_answer() for one in found]}
    return CommandAnswer(envelope, columns(rows) or "no entries")


def _facts(details: Mapping[str, Any] | None) -> str:
    """Details on one line; what is no plain text is escaped, so that it cannot steer a terminal."""
    return ascii(", ".join(f"{name} {value}" for name, value in (details or {}).items()))[1:-1]


def _utc_time(text: str) -> str:
    from rye_services.storage.database import stamp

    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"expected a moment like 2026-11-24T08:00, found {text[:80]!r}"
        ) from None
    return stamp(at if at.tzinfo else at.replace(tzinfo=UTC))


def _count(text: str) -> int:
    from rye_services.people.audit import MOST_LISTED

    if not text.isascii() or not text.isdigit() or not 0 < int(text[:9]) <= MOST_LISTED:
        raise argparse.ArgumentTypeError(f"expected 1 to {MOST_LISTED}, found {text[:80]!r}")
    return int(text)


# --- users and quotas -----------------------------------------------------------------------------


def _configure_show_user(parser: Arguments) -> None:
    parser.add_argument(
        "id", metavar="ID", help="its beginning, or the label of a key, will do too"
    )


def _configure_set_quota(parser: Arguments) -> None:
    parser.add_argument("user", metavar="USER")
    parser.add_argument("bytes", metavar="BYTES", help="like 5 GiB; default: as the setting says")


def _list_users(parsed: argparse.Namespace, environ: Mapping[str, str]) -> CommandAnswer:
    from rye_services.node.operators import Users

    with _open_node(parsed, environ) as (settings, database):
        found = Users(database).all()
    default = settings.max_user_storage_bytes
    shown = [one.as_answer(default) for one in found]
    rows = [
        (
            one["id"],
            f"{one['stored_bytes']} of {one['allowed_bytes']} bytes",
            f"{one['heads']} projects",
            f"{one['executions']} executions",
            utc_text(one["last_seen"]) or "never seen",
        )
        for one in shown
    ]
    return CommandAnswer({"status": "success", "users": shown}, columns(rows) or "no users")


def _show_user(parsed: argparse.Namespace, environ: Mapping[str, str]) -> CommandAnswer:
    from rye_services.node.operators import Users
    from rye_services.people.credentials import AuthorizedKeys

    with _open_node(parsed, environ) as (settings, database):
        user = Users(database).meant(parsed.id, AuthorizedKeys(database).all())
    shown = user.as_answer(settings.max_user_storage_bytes)
    words = [
        (name.replace("_", " "), "-" if value in (None, "") else field_text(name, value))
        for name, value in shown.items()
    ]
    return CommandAnswer({"status": "success", "user": shown}, columns(words))


def _set_quota(parsed: argparse.Namespace, environ: Mapping[str, str]) -> CommandAnswer:
    from rye_services.node.operators import Users
    from rye_services.people.credentials import AuthorizedKeys, valid_user_id

    quota = None if parsed.bytes == _DEFAULT else _bytes(parsed.bytes)
    user = valid_user_id(parsed.user.removeprefix("fp:"))
    with _open_node(parsed, environ) as (settings, database):
        has_key = AuthorizedKeys(database).find(user) is not None
        Users(database).set_quota(user, quota, has_key=has_key)
    allowed = settings.max_user_storage_bytes if quota is None else quota
    envelope = {"status": "success", "user_id": user, "quota_bytes": quota}
    return CommandAnswer({**envelope, "allowed_bytes": allowed}, f"{user}: {allowed} bytes")


def _bytes(text: str) -> int:
    found = bytes_of("BYTES", text)
    if found > _MOST_BYTES:
        raise UsageError(f"BYTES: expected at most {_MOST_BYTES}, found {found}", hint="like 5 GiB")
    return found


def _list_quotas(parsed: argparse.Namespace, environ: Mapping[str, str]) -> CommandAnswer:
    from rye_services.node.operators import Users

    with _open_node(parsed, environ) as (settings, database):
        own = [one for one in Users(database).all() if one.quota_bytes is not None]
    rows = [(one.id, f"{one.quota_bytes} bytes", f"{one.stored_bytes} stored") for one in own]
    quotas = [
        {"user_id": one.id, "quota_bytes": one.quota_bytes, "stored_bytes": one.stored_bytes}
        for one in own
    ]
    default = settings.max_user_storage_bytes
    rows.append(("all others" if own else "all users", f"{default} bytes", ""))
    envelope = {"status": "success", "default_bytes": default, "quotas": quotas}
    return CommandAnswer(envelope, columns(rows))


# --- jobs -----------------------------------------------------------------------------------------


def _configure_list_jobs(parser: Arguments) -> None:
    parser.add_argument("--user", metavar="U", default="", help="of one user only")
    parser.add_argument(
        "--state", metavar="S", default="", choices=_JOB_STATES, help="in one state"
    )
    parser.add_argument("--limit", metavar="N", type=_count, default=50, help="default 50")


def _configure_cancel_job(parser: Arguments) -> None:
    parser.add_argument("id", metavar="ID", help="of an execution, or its beginning")


def _configure_list_sweeps(parser: Arguments) -> None:
    parser.add_argument("--limit", metavar="N", type=_count, default=20, help="default 20")


def _configure_job_logs(parser: Arguments) -> None:
    parser.add_argument("id", metavar="ID", help="of an execution, or its beginning")
    parser.add_argument("-f", "--follow", action="store_true", help="until it has ended")


def _list_jobs(parsed: argparse.Namespace, environ: Mapping[str, str]) -> CommandAnswer:
    from rye_services.node.operators import Jobs

    user = parsed.user.removeprefix("fp:")
    with _open_node(parsed, environ) as (_, database):
        jobs = Jobs(database).listed(user_id=user, state=parsed.state, limit=parsed.limit)
    names = ("thread_id", "state", "user_id", "item_id", "project_path")
    rows = [(utc_text(one["created_at"]), *(one[name] for name in names)) for one in jobs]
    return CommandAnswer({"status": "success", "jobs": jobs}, columns(rows) or "no executions")


def _list_sweeps(parsed: argparse.Namespace, environ: Mapping[str, str]) -> CommandAnswer:
    from rye_services.node.storage import Sweeps

    with _open_node(parsed, environ) as (_, database):
        found = Sweeps(database).listed(parsed.limit)
    lines = []
    for one in found:
        facts = f"{one.removed} removed, {one.freed_bytes} bytes"
        words = (utc_text(one.started_at), one.started_by, f"{one.took_s:.1f} s", facts)
        lines.append((*words, f"{one.stores - one.left_alone_count} of {one.stores} stores"))
        lines += [
            ("", left["user_id"], left["state"], left["problem"], "") for left in one.left_alone
        ]
    envelope = {"status": "success", "sweeps": [one.as_answer() for one in found]}
    return CommandAnswer(envelope, columns(lines) or "no sweeps")


def _cancel_job(parsed: argparse.Namespace, environ: Mapping[str, str]) -> CommandAnswer:
    from rye_services.node.operators import Jobs
    from rye_services.node.queue.rows import RUNNING, ThreadRows

    with _open_node(parsed, environ) as (_, database):
        job = Jobs(database).one(parsed.id)
        rows = ThreadRows(database, "", lambda _: False)
        by = f"command:{unix_user()}"[:64]
        state = rows.cancel(job["user_id"], job["thread_id"], by)
    words = "its server ends it" if state == RUNNING else f"{state}"
    envelope = {"status": "success", "thread_id": job["thread_id"], "state": state}
    return CommandAnswer(envelope, f"{job['thread_id']}: {words}")


def _job_logs(parsed: argparse.Namespace, environ: Mapping[str, str]) -> CommandAnswer:
    """The log; as text it is written piece by piece, so that one who follows sees it come."""
    from rye_services.node.operators import WAITING, Jobs
    from rye_services.node.queue.logs import RunLogs
    from rye_services.node.queue.rows import RUNNING

    pieces: list[dict[str, Any]] = []
    last = 0
    with _open_node(parsed, environ) as (_, database):
        while True:
            job = Jobs(database).one(parsed.id)  # first: what was written before its end is read
            found = RunLogs(database).read(job["thread_id"], last, _PIECES)
            for one in found:
                last = one.number
                if parsed.json:
                    pieces.append(one.as_answer())
                else:
                    sys.stdout.write(without_control_characters(one.text))
            sys.stdout.flush()
            is_over = not parsed.follow or job["state"] not in (RUNNING, WAITING)
            if not found and is_over:
                break
            if not found:
                time.sleep(_LOOK_AGAIN_S)
    envelope = {"status": "success", "thread_id": job["thread_id"], "state": job["state"]}
    return CommandAnswer({**envelope, "pieces": pieces}, "")


# --- migrate --------------------------------------------------------------------------------------


def _configure_migrate(parser: Arguments) -> None:
    parser.add_argument(
        "--to",
        metavar="URL",
        required=True,
        help="postgresql://..., sqlite:///..., s3://BUCKET/PREFIX",
    )


def _migrate(parsed: argparse.Namespace, environ: Mapping[str, str]) -> CommandAnswer:
    from rye_services.operations.migrate import migrate
    from rye_services.process.data_folder import require_data

    if parsed.to.startswith("s3://"):
        return _move_stores(parsed, environ)
    done = migrate(require_data(settings_of(parsed, environ)), parsed.to)
    facts = {"database": done.address, "rows": dict(done.rows)}
    rows = sum(done.rows.values())
    note = (
        "set RYE_NODE_DATABASE_URL, or database_url in config/node.yaml, to the new database:"
        " the node refuses the former one from now on"
    )
    text = f"copied {rows} rows of {len(done.rows)} tables into {done.address}"
    return CommandAnswer({"status": "success", **facts}, text, (note,))


def _move_stores(parsed: argparse.Namespace, environ: Mapping[str, str]) -> CommandAnswer:
    from rye_services.operations.migrate import move_stores
    from rye_services.process.data_folder import require_data

    settings = require_data(settings_of(parsed, environ))
    done = move_stores(settings, parsed.to, environ, progress_of(parsed))
    facts = {
        "store": done.address,
        "copied": done.copied,
        "copied_bytes": done.copied_bytes,
        "kept": done.kept,
    }
    note = (
        f"the node no longer uses {settings.cas_base_path} and {settings.registry_store_dir}:"
        " remove them once rye-node.pyz fsck says that all is sound"
    )
    words = f"{done.copied} files copied, {done.copied_bytes} bytes; {done.kept} were there"
    return CommandAnswer({"status": "success", **facts}, f"{done.address}: {words}", (note,))


# --- keys rotate ----------------------------------------------------------------------------------


def _rotate(parsed: argparse.Namespace, environ: Mapping[str, str]) -> CommandAnswer:
    from rye_services.node.rotation import rotate

    with _open_node(parsed, environ) as (settings, database):
        done = rotate(settings, database)
    facts = {
        "node_id": f"fp:{done.fingerprint}",
        "former_node_id": f"fp:{done.former}",
        "resealed": done.resealed,
        "unreadable": done.unreadable,
    }
    note = (
        f"clients have pinned fp:{done.former}: on each, rye remote forget NAME, and have its"
        f" node_id say fp:{done.fingerprint}"
    )
    notes = [note]
    if done.unreadable:
        notes.append(f"{done.unreadable} secrets were sealed to a key before that one: kept")
    text = f"fp:{done.former} -> fp:{done.fingerprint}: {done.resealed} secrets sealed anew"
    return CommandAnswer({"status": "success", **facts}, text, tuple(notes))


# --- people ---------------------------------------------------------------------------------------
# Page: ``docs/teams.md``.

_ROLES = ("read", "run", "push", "admin")


def _by() -> str:
    return f"command:{unix_user()}"[:64]


def _configure_add_user(parser: Arguments) -> None:
    parser.add_argument("id", metavar="NAME", help="2 to 39 of a-z, 0-9, - and _")
    parser.add_argument("--key", metavar="KEY", help="the first key: a PEM file, or ed25519:...")
    declare_scopes(parser)


def _configure_add_key(parser: Arguments) -> None:
    parser.add_argument("id", metavar="ID")
    parser.add_argument("key", metavar="KEY", help="a PEM file, or ed25519:...")
    parser.add_argument("--label", metavar="TEXT", default="")
    declare_scopes(parser)


def _configure_list_keys(parser: Arguments) -> None:
    parser.add_argument("id", metavar="ID")


def _configure_remove_key(parser: Arguments) -> None:
    parser.add_argument("id", metavar="ID")
    parser.add_argument("fingerprint", metavar="FINGERPRINT")


def _configure_open_user(parser: Arguments) -> None:
    parser.add_argument("id", metavar="ID")


def _configure_close_user(parser: Arguments) -> None:
    parser.add_argument("id", metavar="ID")


def _configure_invite(parser: Arguments) -> None:
    parser.add_argument("--email", metavar="ADDRESS", default="", help="only who has this address")
    parser.add_argument("--days", metavar="N", type=int, default=7, help="1 to 30 (default 7)")


def _add_user(parsed: argparse.Namespace, environ: Mapping[str, str]) -> CommandAnswer:
    from rye_services.people.people import People

    pem = None if parsed.key is None else typed_pem(parsed.key)
    scopes = typed_scopes(parsed)
    with _open_node(parsed, environ) as (_, database):
        people = People(database)
        user_id = parsed.id.removeprefix("fp:")
        people.add(user_id)
        if pem is not None:
            people.add_key(user_id, pem, label="", scopes=scopes, by=_by())
    return CommandAnswer({"status": "success", "user_id": user_id}, f"{user_id} is a user now")


def _add_key(parsed: argparse.Namespace, environ: Mapping[str, str]) -> CommandAnswer:
    from rye_services.people.people import People

    pem, user_id = typed_pem(parsed.key), parsed.id.removeprefix("fp:")
    scopes = typed_scopes(parsed)
    with _open_node(parsed, environ) as (_, database):
        key = People(database).add_key(user_id, pem, label=parsed.label, scopes=scopes, by=_by())
    envelope = {"status": "success", "user_id": user_id, **key.as_answer()}
    return CommandAnswer(envelope, f"{user_id} signs with fp:{key.fingerprint}")


def _list_keys(parsed: argparse.Namespace, environ: Mapping[str, str]) -> CommandAnswer:
    from rye_services.people.people import People

    user_id = parsed.id.removeprefix("fp:")
    with _open_node(parsed, environ) as (_, database):
        found = People(database).keys_of(user_id)
    rows = [
        (f"fp:{one.fingerprint}", utc_text(one.created_at), shown_scopes(one.scopes), one.label)
        for one in found
    ]
    envelope = {"status": "success", "user_id": user_id}
    keys = [one.as_answer() for one in found]
    return CommandAnswer({**envelope, "keys": keys}, columns(rows) or "no further keys")


def _remove_key(parsed: argparse.Namespace, environ: Mapping[str, str]) -> CommandAnswer:
    from rye_services.people.people import People

    user_id, key = parsed.id.removeprefix("fp:"), parsed.fingerprint.removeprefix("fp:")
    with _open_node(parsed, environ) as (_, database):
        People(database).remove_key(user_id, key)
    envelope = {"status": "success", "user_id": user_id, "removed": f"fp:{key}"}
    return CommandAnswer(envelope, f"fp:{key} counts no longer")


def _open_user(parsed: argparse.Namespace, environ: Mapping[str, str]) -> CommandAnswer:
    from rye_services.people.people import OPEN, People

    user_id = parsed.id.removeprefix("fp:")
    with _open_node(parsed, environ) as (_, database):
        before = People(database).set_state(user_id, OPEN)
    envelope = {"status": "success", "user_id": user_id, "before": before, "state": OPEN}
    return CommandAnswer(envelope, f"{user_id} may use this node")


def _close_user(parsed: argparse.Namespace, environ: Mapping[str, str]) -> CommandAnswer:
    """First nothing they show counts any more; then what they run is ended."""
    from rye_services.node.queue.rows import ThreadRows
    from rye_services.people.people import CLOSED, People
    from rye_services.people.teams import Teams

    user_id = parsed.id.removeprefix("fp:")
    with _open_node(parsed, environ) as (_, database):
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
    from rye_services.people.teams import Teams

    with _open_node(parsed, environ) as (_, database):
        text, made = Teams(database).invite(
            None, None, email=parsed.email, days=parsed.days, by=_by()
        )
    envelope = {"status": "success", "invitation": text, **made.as_answer()}
    return CommandAnswer(
        envelope, text, (f"it lets one person in, until {utc_text(made.expires_at)}",)
    )


def declare_scopes(command: Arguments) -> None:
    """What a key is let in for; read by `typed_scopes`."""
    command.add_argument(
        "--scope",
        metavar="S",
        action="append",
        help="what for (default remote:*: to push projects and to run items)",
    )
    command.add_argument(
        "--admin", action="store_true", help="for everything: the node, its users, keys and teams"
    )


def typed_scopes(parsed: argparse.Namespace, *, publishes: bool = False) -> tuple[str, ...]:
    """The scopes that a command gives a key. Raises UsageError where both flags are typed.

    ``publishes``: namespaces of a registry are named, which the key is of no use for otherwise.
    """
    from rye_services.people.credentials import (
        DEFAULT_SCOPES,
        EVERYTHING,
        REGISTRY_READ,
        REGISTRY_WRITE,
    )

    if parsed.admin and parsed.scope:
        raise UsageError(
            "--admin: expected without --scope, as it stands for every scope",
            hint="leave one of them out",
        )
    if parsed.admin:
        return (EVERYTHING,)
    of_a_registry = (REGISTRY_READ, REGISTRY_WRITE) if publishes else ()
    return tuple(parsed.scope or (*DEFAULT_SCOPES, *of_a_registry))


def shown_scopes(scopes: Sequence[str] | None) -> str:
    """Scopes in a column; of a key that has all that its user has ``*``."""
    from rye_services.people.credentials import EVERYTHING

    return EVERYTHING if scopes is None else ",".join(scopes)


def typed_pem(key: str) -> bytes:
    """The PEM of a key as it was typed. Raises PublicKeyError, UsageError, FileSystemError."""
    from rye_services.people.credentials import typed_public_key

    return typed_public_key(key, "KEY") if key.startswith("ed25519:") else _pem_file(key)


def _pem_file(path: str) -> bytes:
    try:
        return read_bytes(Path(path).expanduser(), MAX_PEM_BYTES)
    except FileNotFoundError:
        hint = "a client's is ~/.ai/config/keys/signing/public_key.pem: rye keys show"
        raise UsageError(f"{path}: expected a PEM file, found none", hint=hint) from None


# --- teams ----------------------------------------------------------------------------------------


def _configure_show_team(parser: Arguments) -> None:
    parser.add_argument("team", metavar="TEAM")


def _configure_add_team(parser: Arguments) -> None:
    parser.add_argument("team", metavar="TEAM")
    parser.add_argument("--admin", metavar="USER", required=True, help="its first admin")


def _configure_set_role(parser: Arguments) -> None:
    parser.add_argument("team", metavar="TEAM")
    parser.add_argument("user", metavar="USER")
    parser.add_argument("wanted", metavar="ROLE", choices=_ROLES, help=", ".join(_ROLES))


def _configure_remove_member(parser: Arguments) -> None:
    parser.add_argument("team", metavar="TEAM")
    parser.add_argument("user", metavar="USER")


def _list_teams(parsed: argparse.Namespace, environ: Mapping[str, str]) -> CommandAnswer:
    from rye_services.people.teams import Teams

    with _open_node(parsed, environ) as (_, database):
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
    from rye_services.people.teams import Teams

    with _open_node(parsed, environ) as (_, database):
        found = Teams(database).members(parsed.team)
    rows = [(one.user_id, one.role.value, utc_text(one.added_at), one.added_by) for one in found]
    members = [one.as_answer() for one in found]
    envelope = {"status": "success", "team_id": parsed.team, "members": members}
    return CommandAnswer(envelope, columns(rows) or "no members")


def _add_team(parsed: argparse.Namespace, environ: Mapping[str, str]) -> CommandAnswer:
    from rye_services.people.teams import Teams

    admin = parsed.admin.removeprefix("fp:")
    with _open_node(parsed, environ) as (_, database):
        Teams(database).add(parsed.team, admin, reserved=True)
    envelope = {"status": "success", "team_id": parsed.team, "admin": admin}
    return CommandAnswer(envelope, f"{parsed.team} is there, and {admin} is its admin")


def _set_role(parsed: argparse.Namespace, environ: Mapping[str, str]) -> CommandAnswer:
    from rye_services.people.credentials import AuthorizedKeys, Role
    from rye_services.people.teams import Teams

    user_id = parsed.user.removeprefix("fp:")
    with _open_node(parsed, environ) as (_, database):
        has_key = AuthorizedKeys(database).find(user_id) is not None
        Teams(database).set_role(
            parsed.team, user_id, Role(parsed.wanted), by=_by(), has_key=has_key
        )
    envelope = {"status": "success", "team_id": parsed.team, "user_id": user_id}
    text = f"{user_id} has the role {parsed.wanted} in {parsed.team}"
    return CommandAnswer({**envelope, "role": parsed.wanted}, text)


def _remove_member(parsed: argparse.Namespace, environ: Mapping[str, str]) -> CommandAnswer:
    from rye_services.node.queue.rows import ThreadRows
    from rye_services.people.teams import Teams

    user_id = parsed.user.removeprefix("fp:")
    with _open_node(parsed, environ) as (_, database):
        Teams(database).remove(parsed.team, user_id)
        rows = ThreadRows(database, "", lambda _: False)
        ended = rows.cancel_of(user_id, _by(), user_id=parsed.team)
    envelope = {"status": "success", "team_id": parsed.team, "user_id": user_id}
    text = f"{user_id} is no longer in {parsed.team}; {len(ended)} executions are being ended"
    return CommandAnswer({**envelope, "cancelled": list(ended)}, text)


# --- accounts -------------------------------------------------------------------------------------
# ``accounts``: who may publish in a registry, said by a user who can write its files.

_FIRST_KEY = "first"
_ACCOUNT_SCOPES = ("registry:read", "registry:write")


def _configure_add_account(parser: Arguments) -> None:
    parser.add_argument("name", metavar="NAME", help="2 to 39 of a-z, 0-9, - and _")
    parser.add_argument("--key", metavar="FILE", help="the public key that it signs with, PEM")
    parser.add_argument("--reserved", action="store_true", help="also under a reserved name")


def _configure_disable_account(parser: Arguments) -> None:
    parser.add_argument("name", metavar="NAME")


def _configure_enable_account(parser: Arguments) -> None:
    parser.add_argument("name", metavar="NAME")


def _configure_add_account_key(parser: Arguments) -> None:
    parser.add_argument("name", metavar="NAME")
    parser.add_argument("key", metavar="FILE", help="a public key, PEM")


def _configure_grant_namespace(parser: Arguments) -> None:
    parser.add_argument("name", metavar="NAME")
    parser.add_argument("namespace", metavar="NAMESPACE")


def _configure_take_down(parser: Arguments) -> None:
    parser.add_argument("ref", metavar="REF", help="like tool:ada/text/count, or bundle:shapes")
    parser.add_argument("--version", metavar="V", help="this one only")


def _take_down(parsed: argparse.Namespace, environ: Mapping[str, str]) -> CommandAnswer:
    from rye_services.registry.names import bundle_name, item_name, version_of

    kind, _, item_id = parsed.ref.partition(":")
    version = None if parsed.version is None else version_of(parsed.version).text
    services = _registry(parsed, environ)
    if kind == "bundle":
        gone = services.bundles.take_down(bundle_name(item_id), version)
    else:
        gone = services.items.take_down(item_name(kind, item_id), version)
    envelope = {"status": "success", "ref": parsed.ref, "deleted_versions": list(gone)}
    return CommandAnswer(envelope, f"deleted {parsed.ref}: {', '.join(gone)}")


def _add_account(parsed: argparse.Namespace, environ: Mapping[str, str]) -> CommandAnswer:
    pem = None if parsed.key is None else _pem_file(parsed.key)
    services = _registry(parsed, environ)
    account = services.accounts.add(parsed.name, reserved=parsed.reserved)
    if pem is not None:
        services.accounts.add_key(account.name, pem)
    token, _ = services.api_keys.create(account.name, name=_FIRST_KEY, scopes=_ACCOUNT_SCOPES)
    envelope = {"status": "success", "account": account.name, "key": token, "name": _FIRST_KEY}
    return CommandAnswer(envelope, token, ("keep it safe: it cannot be shown again",))


def _list_accounts(parsed: argparse.Namespace, environ: Mapping[str, str]) -> CommandAnswer:
    services = _registry(parsed, environ)
    shown = [
        {
            "name": account.name,
            "created_at": account.created_at,
            "disabled_at": account.disabled_at,
            "stored_bytes": account.stored_bytes,
            "namespaces": [one.name for one in services.namespaces.of(account.name)],
            "keys": list(services.accounts.keys_of(account.name)),
        }
        for account in services.accounts.all()
    ]
    lines = [
        "  ".join(
            (
                one["name"],
                "disabled" if one["disabled_at"] else "open",
                f"{one['stored_bytes']} bytes",
                ",".join(one["namespaces"]) or "no namespace",
            )
        )
        for one in shown
    ]
    return CommandAnswer(
        {"status": "success", "accounts": shown}, "\n".join(lines) or "no accounts"
    )


def _disable_account(parsed: argparse.Namespace, environ: Mapping[str, str]) -> CommandAnswer:
    _registry(parsed, environ).accounts.disable(parsed.name)
    return CommandAnswer({"status": "success", "disabled": parsed.name}, f"disabled {parsed.name}")


def _enable_account(parsed: argparse.Namespace, environ: Mapping[str, str]) -> CommandAnswer:
    _registry(parsed, environ).accounts.enable(parsed.name)
    return CommandAnswer({"status": "success", "enabled": parsed.name}, f"enabled {parsed.name}")


def _add_account_key(parsed: argparse.Namespace, environ: Mapping[str, str]) -> CommandAnswer:
    pem = _pem_file(parsed.key)
    fingerprint = _registry(parsed, environ).accounts.add_key(parsed.name, pem)
    envelope = {"status": "success", "account": parsed.name, "fingerprint": fingerprint}
    return CommandAnswer(envelope, f"{parsed.name} signs with {fingerprint}")


def _grant_namespace(parsed: argparse.Namespace, environ: Mapping[str, str]) -> CommandAnswer:
    services = _registry(parsed, environ)
    account = services.accounts.open_account(parsed.name).name
    services.namespaces.claim(parsed.namespace, account, reserved=True)
    envelope = {"status": "success", "account": account, "namespace": parsed.namespace}
    return CommandAnswer(envelope, f"{parsed.namespace} belongs to {account}")


def _registry(parsed: argparse.Namespace, environ: Mapping[str, str]) -> Any:  # noqa: ANN401 - imported late
    """The services on the data, which are there already."""
    from rye_services.process.data_folder import require_data
    from rye_services.registry.services import open_registry_alone

    services = open_registry_alone(require_data(settings_of(parsed, environ)), environ=environ)
    parsed.held.callback(services.database.close)
    return services


AUDIT = CommandSpec(_configure_audit, _audit)
LIST_USERS = CommandSpec(no_arguments, _list_users)
SHOW_USER = CommandSpec(_configure_show_user, _show_user)
SET_QUOTA = CommandSpec(_configure_set_quota, _set_quota)
LIST_QUOTAS = CommandSpec(no_arguments, _list_quotas)
LIST_JOBS = CommandSpec(_configure_list_jobs, _list_jobs)
CANCEL_JOB = CommandSpec(_configure_cancel_job, _cancel_job)
LIST_SWEEPS = CommandSpec(_configure_list_sweeps, _list_sweeps)
JOB_LOGS = CommandSpec(_configure_job_logs, _job_logs)
MIGRATE = CommandSpec(_configure_migrate, _migrate)
ROTATE = CommandSpec(no_arguments, _rotate)
ADD_USER = CommandSpec(_configure_add_user, _add_user)
ADD_KEY = CommandSpec(_configure_add_key, _add_key)
LIST_KEYS = CommandSpec(_configure_list_keys, _list_keys)
REMOVE_KEY = CommandSpec(_configure_remove_key, _remove_key)
OPEN_USER = CommandSpec(_configure_open_user, _open_user)
CLOSE_USER = CommandSpec(_configure_close_user, _close_user)
INVITE = CommandSpec(_configure_invite, _invite)
LIST_TEAMS = CommandSpec(no_arguments, _list_teams)
SHOW_TEAM = CommandSpec(_configure_show_team, _show_team)
ADD_TEAM = CommandSpec(_configure_add_team, _add_team)
SET_ROLE = CommandSpec(_configure_set_role, _set_role)
REMOVE_MEMBER = CommandSpec(_configure_remove_member, _remove_member)
ADD_ACCOUNT = CommandSpec(_configure_add_account, _add_account)
LIST_ACCOUNTS = CommandSpec(no_arguments, _list_accounts)
DISABLE_ACCOUNT = CommandSpec(_configure_disable_account, _disable_account)
ENABLE_ACCOUNT = CommandSpec(_configure_enable_account, _enable_account)
ADD_ACCOUNT_KEY = CommandSpec(_configure_add_account_key, _add_account_key)
GRANT_NAMESPACE = CommandSpec(_configure_grant_namespace, _grant_namespace)
TAKE_DOWN = CommandSpec(_configure_take_down, _take_down)
