"""``rye mcp config|install|uninstall|list-clients``: Rye in the settings of its clients."""

import json
import shlex
from collections.abc import Iterator
from difflib import unified_diff
from pathlib import Path
from typing import Any

from lillux.errors import LilluxError
from ryeos.cli.output import one_line
from ryeos.cli.plain_arguments import Arguments
from ryeos.cli.server_launch import machine_of, server_launch
from ryeos.cli.session import Command, Session
from ryeos.clients.choice import Scope, launch_for, settings_path, user_path
from ryeos.clients.launch import Launch, is_ours
from ryeos.clients.settings import (
    Change,
    Settings,
    read_settings,
    with_entry,
    without_entry,
    write_settings,
)
from ryeos.clients.table import CLIENTS, ENTRY_NAME, Client, Format, find_client
from ryeos.errors import UnsupportedError, UsageError

# The user's own may hold keys of other servers; those of a project are for everybody who has it.
_MODES = {Scope.USER: 0o600, Scope.PROJECT: 0o644}
_SAID = {Change.ADDED: "add", Change.UPDATED: "update", Change.REMOVED: "remove"}


def _configure_client(parser: Arguments) -> None:
    add = parser.add_argument
    add("client", metavar="CLIENT", help="one of those of rye mcp list-clients")
    add(
        "--scope",
        choices=[scope.value for scope in Scope],
        help="settings of the user, or of the project",
    )


def _configure_config(parser: Arguments) -> None:
    _configure_client(parser)
    add = parser.add_argument
    add("--python", metavar="FILE", default="", help="the interpreter to start it with")
    add("--program", metavar="FILE", default="", help="the rye.pyz to start (default: this one)")


def _configure_install(parser: Arguments) -> None:
    _configure_config(parser)
    parser.add_argument("--dry-run", action="store_true", help="show what would change")
    parser.add_argument("--force", action="store_true", help="also over somebody else's entry")


def _configure_uninstall(parser: Arguments) -> None:
    _configure_client(parser)
    parser.add_argument("--dry-run", action="store_true", help="show what would change")
    parser.add_argument("--force", action="store_true", help="also somebody else's entry")


def _configure_list(_: Arguments) -> None:
    """No arguments of its own."""


# --- config ---------------------------------------------------------------------------------------


def _config(session: Session) -> int:
    arguments = session.arguments
    client, scope = find_client(arguments.client), Scope(arguments.scope or Scope.USER)
    launch = _launch(session, client, scope, python=arguments.python, program=arguments.program)
    path = _path_or_none(session, client, scope)
    own = launch.command_line(client) if scope is Scope.USER else ()
    text = snippet(client, launch)
    envelope = {
        "status": "success",
        "client": client.name,
        "scope": str(scope),
        "path": str(path) if path else None,
        "format": str(client.format),
        "text": text,
        "entry": launch.entry(client),
        "command_line": list(own),
    }
    if path:
        session.output.note(f"goes into {path}")
    if own:
        session.output.note(f"or run: {_shell_line(own, session.context.platform)}")
    session.output.answer(envelope, text)
    return 0


def snippet(client: Client, launch: Launch) -> str:
    """A settings file that holds nothing but the entry."""
    entry: Any = launch.entry(client)
    if client.format is Format.TOML:
        from lillux.toml_edits import write_table

        return write_table((*client.container, ENTRY_NAME), entry)
    for name in (ENTRY_NAME, *reversed(client.container)):
        entry = {name: entry}
    return json.dumps(entry, ensure_ascii=False, indent=2) + "\n"


def _path_or_none(session: Session, client: Client, scope: Scope) -> Path | None:
    if client.user is None:
        return None
    return settings_path(client, scope, machine_of(session), session.context.project_path)


# --- install, uninstall ---------------------------------------------------------------------------


def _install(session: Session) -> int:
    arguments = session.arguments
    client, scope = find_client(arguments.client), Scope(arguments.scope or Scope.USER)
    launch = _launch(session, client, scope, python=arguments.python, program=arguments.program)
    settings = _settings(session, client, scope, launch.command_line(client))
    change, text = with_entry(settings, launch, force=arguments.force)
    _finish(session, settings, scope, change, text)
    return 0


def _uninstall(session: Session) -> int:
    arguments = session.arguments
    client, scope = find_client(arguments.client), Scope(arguments.scope or Scope.USER)
    settings = _settings(session, client, scope, client.removes)
    change, text = without_entry(settings, _any_launch(session), force=arguments.force)
    _finish(session, settings, scope, change, text)
    return 0


def install_for_user(session: Session, client: Client, *, make: bool) -> tuple[Change, Path]:
    """Install with default choices, in the user's settings; what changed, and the file.

    Raises UnsupportedError for a client whose settings only it writes, and all that `mcp install`
    raises.
    """
    launch = _launch(session, client, Scope.USER)
    settings = _settings(session, client, Scope.USER, launch.command_line(client))
    change, text = with_entry(settings, launch)
    if make and change is not Change.ALREADY:
        write_settings(settings, text, mode=_MODES[Scope.USER])
    return change, settings.path


def _launch(
    session: Session, client: Client, scope: Scope, *, python: str = "", program: str = ""
) -> Launch:
    return launch_for(
        client,
        server_launch(session, python, program),
        scope,
        session.context.project_path,
        is_named=bool(session.arguments.project),
    )


def _any_launch(session: Session) -> Launch:
    """How this program is started, as far as it can be told: to know our own entry."""
    try:
        return server_launch(session)
    except UsageError:
        return Launch(argv=())


def _settings(session: Session, client: Client, scope: Scope, own: tuple[str, ...]) -> Settings:
    project = session.context.project_path if scope is Scope.PROJECT else None
    path = settings_path(client, scope, machine_of(session), project)
    if scope is Scope.USER and client.user_is_its_own:
        raise UnsupportedError(
            f"{client.name}: {path} is changed by {client.title} only",
            hint=f"run: {_shell_line(own, session.context.platform)} (or use --scope project)",
        )
    return read_settings(client, path, project=project)


def _finish(session: Session, settings: Settings, scope: Scope, change: Change, text: str) -> None:
    """Write what changed, unless it is only to be shown; and say so."""
    client, dry_run = settings.client, session.arguments.dry_run
    is_change = change in _SAID
    backup = None
    if is_change and not dry_run:
        backup = write_settings(settings, text, mode=_MODES[scope])
    diff = "".join(_diff(settings, text)) if is_change else ""
    envelope = {
        "status": "success",
        "client": client.name,
        "scope": str(scope),
        "path": str(settings.path),
        "change": str(change),
        "dry_run": bool(dry_run),
        "backup": str(backup) if backup else None,
    }
    if dry_run:
        envelope["diff"] = diff
    said = f"would {_SAID[change]}" if dry_run and is_change else str(change)
    line = f"{said}: {ENTRY_NAME} in the settings of {client.title}, {settings.path}"
    if backup:
        session.output.note(f"the file as it was: {backup}")
    if is_change and not dry_run:
        session.output.note(f"restart {client.title}, or let it read its settings again")
    if scope is Scope.PROJECT and change in (Change.ADDED, Change.UPDATED):
        session.output.note("it names paths of this machine: not for others who have the project")
    session.output.answer(envelope, f"{line}\n{diff}" if dry_run and diff else line)


def _diff(settings: Settings, text: str) -> Iterator[str]:
    """What would change, without lines around it: they may hold keys of other servers."""
    before, after = settings.text.splitlines(keepends=True), text.splitlines(keepends=True)
    for line in unified_diff(before, after, str(settings.path), str(settings.path), n=0):
        yield line if line.endswith("\n") else line + "\n"


def _shell_line(argv: tuple[str, ...], platform: str) -> str:
    if platform == "win32":
        from subprocess import list2cmdline

        return list2cmdline(argv)
    return shlex.join(argv)


# --- list-clients ---------------------------------------------------------------------------------


def _list(session: Session) -> int:
    rows = [_row(session, client) for client in CLIENTS]
    lines = [f"{row['client']:<15} {row['state']:<11} {row['path'] or '-'}" for row in rows]
    session.output.answer({"status": "success", "clients": rows}, "\n".join(lines))
    return 0


def _row(session: Session, client: Client) -> dict[str, Any]:
    """A client, and what is known of it: its file, and whether Rye is in it."""
    machine = machine_of(session)
    row: dict[str, Any] = {"client": client.name, "title": client.title, "path": None}
    if client.user is None:
        return row | {"state": "by hand"}
    row["path"] = str(user_path(client, machine))
    if not client.is_there(machine):
        return row | {"state": "not found"}
    try:
        path = settings_path(client, Scope.USER, machine, None)
        entry = read_settings(client, path).entry()
    except LilluxError as error:
        return row | {"state": "unreadable", "problem": one_line(str(error), 300)}
    if entry is None:
        return row | {"state": "found"}
    return row | {"state": "installed" if is_ours(entry, _any_launch(session)) else "other entry"}


COMMANDS = {
    "mcp config": Command(
        _configure_config, _config, ["rye mcp config claude-desktop", "rye mcp config generic"]
    ),
    "mcp install": Command(
        _configure_install,
        _install,
        [
            "rye mcp install claude-desktop --project ~/shop",
            "rye mcp install vscode --scope project",
            "rye mcp install codex --dry-run",
        ],
    ),
    "mcp uninstall": Command(_configure_uninstall, _uninstall, ["rye mcp uninstall cursor"]),
    "mcp list-clients": Command(_configure_list, _list, ["rye mcp list-clients"]),
}
