"""``rye mcp config|install|uninstall|list-clients``: Rye in the settings of its clients."""

import json
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from difflib import unified_diff
from pathlib import Path
from typing import Any

from lillux.errors import LilluxError
from lillux.files import file_system_error
from lillux.foreign_text import one_line
from ryeos.app.command_line import Arguments, CommandSpec, no_arguments
from ryeos.cli.client_settings import (
    ClientSettings,
    EntryChange,
    Interpreter,
    ServerLaunch,
    SettingsScope,
    is_ours,
    launch_for,
    read_settings,
    settings_path,
    stable_executable,
    this_interpreter,
    user_path,
    with_entry,
    without_entry,
    write_settings,
)
from ryeos.cli.findings import LEFT, MADE, REMOVED, THERE, WOULD_MAKE, WOULD_REMOVE, Step
from ryeos.cli.session import Session, program_path
from ryeos.imports.clients import CLIENTS, ENTRY_NAME, Client, Format, Machine, find_client
from ryeos.items.errors import RyeError, UnsupportedError, UsageError

# The user's own may hold keys of other servers; those of a project are for every user who has it.
SETTINGS_MODES = {SettingsScope.USER: 0o600, SettingsScope.PROJECT: 0o644}
_SAID = {EntryChange.ADDED: "add", EntryChange.UPDATED: "update", EntryChange.REMOVED: "remove"}


def _configure_client(parser: Arguments) -> None:
    add = parser.add_argument
    add("client", metavar="CLIENT", help="one of those of rye mcp list-clients")
    add(
        "--scope",
        choices=[scope.value for scope in SettingsScope],
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
    parser.add_argument("--force", action="store_true", help="also an entry of another program")
    _configure_yes(parser)


def _configure_yes(parser: Arguments) -> None:
    what = "run the command line of a client that alone changes its settings, without asking"
    parser.add_argument("--yes", action="store_true", help=what)


def _configure_uninstall(parser: Arguments) -> None:
    _configure_client(parser)
    parser.add_argument("--dry-run", action="store_true", help="show what would change")
    parser.add_argument("--force", action="store_true", help="also an entry of another program")
    _configure_yes(parser)


# --- config ---------------------------------------------------------------------------------------


def _config(session: Session) -> int:
    arguments = session.arguments
    client, scope = (
        find_client(arguments.client),
        SettingsScope(arguments.scope or SettingsScope.USER),
    )
    launch = _launch(session, client, scope, python=arguments.python, program=arguments.program)
    path = _path_or_none(session, client, scope)
    own = launch.command_line(client) if scope is SettingsScope.USER else ()
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


def snippet(client: Client, launch: ServerLaunch) -> str:
    """A settings file that holds nothing but the entry."""
    entry: Any = launch.entry(client)
    if client.format is Format.TOML:
        from lillux.toml_edits import write_table

        return write_table((*client.container, ENTRY_NAME), entry)
    for name in (ENTRY_NAME, *reversed(client.container)):
        entry = {name: entry}
    return json.dumps(entry, ensure_ascii=False, indent=2) + "\n"


def _path_or_none(session: Session, client: Client, scope: SettingsScope) -> Path | None:
    if client.user is None:
        return None
    return settings_path(client, scope, machine_of(session), session.context.project_path)


# --- install, uninstall ---------------------------------------------------------------------------


def _install(session: Session) -> int:
    arguments = session.arguments
    client, scope = (
        find_client(arguments.client),
        SettingsScope(arguments.scope or SettingsScope.USER),
    )
    launch = _launch(session, client, scope, python=arguments.python, program=arguments.program)
    if scope is SettingsScope.USER and client.user_is_its_own:
        settings = _own_settings(session, client)
        change, _ = with_entry(settings, launch, force=arguments.force)
        # The client refuses to add what is there.
        removed = (client.removes,) if change is EntryChange.UPDATED else ()
        return _have_changed(session, settings, change, (*removed, launch.command_line(client)))
    settings = _settings(session, client, scope, launch.command_line(client))
    change, text = with_entry(settings, launch, force=arguments.force)
    _finish(session, settings, scope, change, text)
    return 0


def _uninstall(session: Session) -> int:
    arguments = session.arguments
    client, scope = (
        find_client(arguments.client),
        SettingsScope(arguments.scope or SettingsScope.USER),
    )
    if scope is SettingsScope.USER and client.user_is_its_own:
        settings = _own_settings(session, client)
        change, _ = without_entry(settings, _any_launch(session), force=arguments.force)
        return _have_changed(session, settings, change, (client.removes,))
    settings = _settings(session, client, scope, client.removes)
    change, text = without_entry(settings, _any_launch(session), force=arguments.force)
    _finish(session, settings, scope, change, text)
    return 0


# --- clients that change their settings themselves ------------------------------------------------


def _own_settings(session: Session, client: Client) -> ClientSettings:
    path = settings_path(client, SettingsScope.USER, machine_of(session), None)
    return read_settings(client, path)


def _have_changed(
    session: Session,
    settings: ClientSettings,
    change: EntryChange,
    commands: Sequence[tuple[str, ...]],
) -> int:
    """Have the client change its settings by its own command lines, once a person agreed.

    Raises UnsupportedError where it is not on the PATH or no person can agree, RyeError
    `EXECUTION_FAILED` where it fails.
    """
    client, arguments = settings.client, session.arguments
    lines = [_shell_line(words, session.context.platform) for words in commands]
    is_change = change in _SAID
    if is_change and not arguments.dry_run:
        if own_program_of(session, client) is None or not (arguments.yes or session.can_ask):
            raise _only_by_client(session, client, commands)
        if not session.confirm(f"{client.title} changes its settings itself. Run this?", lines):
            session.output.answer({"status": "cancelled"}, "nothing was changed")
            return 1
        for words in commands:
            run_own_program(session, client, words)
    envelope = {
        "status": "success",
        "client": client.name,
        "scope": str(SettingsScope.USER),
        "path": str(settings.path),
        "change": str(change),
        "dry_run": bool(arguments.dry_run),
        "backup": None,
        "commands": lines if is_change else [],
    }
    said = f"would {_SAID[change]}" if arguments.dry_run and is_change else str(change)
    shown = [f"{said}: {ENTRY_NAME} in the settings of {client.title}, {settings.path}"]
    shown += [f"would run: {line}" for line in lines if arguments.dry_run and is_change]
    session.output.answer(envelope, "\n".join(shown))
    return 0


def own_program_of(session: Session, client: Client) -> str | None:
    """The program of a client that changes its settings; never one of the project."""
    path = session.context.own_environment.get("PATH", os.defpath)
    return shutil.which(client.removes[0], path=path)


def run_own_program(session: Session, client: Client, words: Sequence[str]) -> None:
    """Run a command line of a client. Raises RyeError `EXECUTION_FAILED`, FileSystemError."""
    program = own_program_of(session, client) or words[0]
    line = _shell_line(tuple(words), session.context.platform)
    try:
        ended = subprocess.run(
            [program, *words[1:]],
            env=session.context.own_environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            check=False,
        )
    except OSError as error:
        raise file_system_error(program, error) from error
    said = ended.stdout.decode("utf-8", "replace").strip()
    if ended.returncode:
        shown = f": {one_line(said, 400)}" if said else ""
        raise RyeError(
            f"{client.title}: {words[0]} ended with status {ended.returncode}{shown}",
            code="EXECUTION_FAILED",
            hint=f"run it yourself: {line}",
        )
    for row in said.splitlines():
        session.output.note(one_line(row, 400))


def _only_by_client(
    session: Session, client: Client, commands: Sequence[tuple[str, ...]]
) -> UnsupportedError:
    path = user_path(client, machine_of(session))
    line = " && ".join(_shell_line(words, session.context.platform) for words in commands)
    return UnsupportedError(
        f"{client.name}: {path} is changed by {client.title} only",
        hint=f"run: {line} (or use --scope project)",
    )


# --- init, uninstall ------------------------------------------------------------------------------


def install_for_user(session: Session, client: Client, *, make: bool) -> tuple[EntryChange, Path]:
    """Install with default choices, in the user's settings; what changed, and the file.

    Raises UnsupportedError for a client whose settings only it writes, and all that `mcp install`
    raises.
    """
    launch = _launch(session, client, SettingsScope.USER)
    settings = _settings(session, client, SettingsScope.USER, launch.command_line(client))
    change, text = with_entry(settings, launch)
    if make and change is not EntryChange.ALREADY:
        write_settings(
            settings,
            text,
            mode=SETTINGS_MODES[SettingsScope.USER],
            user=session.context.spaces.user,
        )
    return change, settings.path


def uninstall_for_user(session: Session, client: Client, *, make: bool) -> Step | None:
    """Take our entry out of the user's settings of a client; None where it is not there.

    Raises RyeError `CONFIG_ERROR` for settings that cannot be read.
    """
    machine = machine_of(session)
    if client.user is None or not client.is_there(machine):
        return None
    path = settings_path(client, SettingsScope.USER, machine, None)
    settings = read_settings(client, path)
    entry = settings.entry()
    if entry is None or not is_ours(entry, _any_launch(session)):
        return None
    what = f"rye in {client.title}"
    if client.user_is_its_own:
        if own_program_of(session, client) is None:
            line = _shell_line(client.removes, session.context.platform)
            return Step(f"{what}: run: {line}", path, LEFT)
        if make:
            run_own_program(session, client, client.removes)
    elif make:
        _, text = without_entry(settings, _any_launch(session))
        write_settings(
            settings,
            text,
            mode=SETTINGS_MODES[SettingsScope.USER],
            user=session.context.spaces.user,
        )
    return Step(what, path, REMOVED if make else WOULD_REMOVE)


def project_entries(session: Session) -> Iterator[Step]:
    """Rye in the settings of clients that this project holds: each user of the project has them."""
    project = session.context.project_path
    seen = set()
    for client in CLIENTS if project else ():
        if not client.project or client.project in seen:
            continue
        seen.add(client.project)
        try:
            path = settings_path(client, SettingsScope.PROJECT, machine_of(session), project)
            entry = read_settings(client, path, project=project).entry()
        except LilluxError:
            continue  # doctor reports what is wrong with it
        if entry is not None and is_ours(entry, _any_launch(session)):
            line = f"rye mcp uninstall {client.name} --scope project"
            yield Step(f"rye in {client.project} of this project; to remove it: {line}", path, LEFT)


def _launch(
    session: Session, client: Client, scope: SettingsScope, *, python: str = "", program: str = ""
) -> ServerLaunch:
    return launch_for(
        client,
        server_launch(session, python, program),
        scope,
        session.context.project_path,
        is_named=bool(session.arguments.project),
    )


def _any_launch(session: Session) -> ServerLaunch:
    """How this program is started, as far as it is known: to recognise our own entry."""
    try:
        return server_launch(session)
    except UsageError:
        return ServerLaunch(argv=())


def _settings(
    session: Session, client: Client, scope: SettingsScope, own: tuple[str, ...]
) -> ClientSettings:
    project = session.context.project_path if scope is SettingsScope.PROJECT else None
    path = settings_path(client, scope, machine_of(session), project)
    if scope is SettingsScope.USER and client.user_is_its_own:
        raise _only_by_client(session, client, (own,))
    return read_settings(client, path, project=project)


def _finish(
    session: Session, settings: ClientSettings, scope: SettingsScope, change: EntryChange, text: str
) -> None:
    """Write what changed, unless it is only to be shown; and say so."""
    client, dry_run = settings.client, session.arguments.dry_run
    is_change = change in _SAID
    backup = None
    if is_change and not dry_run:
        backup = write_settings(
            settings, text, mode=SETTINGS_MODES[scope], user=session.context.spaces.user
        )
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
    if scope is SettingsScope.PROJECT and change in (EntryChange.ADDED, EntryChange.UPDATED):
        session.output.note("it names paths of this machine: not for others who have the project")
    session.output.answer(envelope, f"{line}\n{diff}" if dry_run and diff else line)


def _diff(settings: ClientSettings, text: str) -> Iterator[str]:
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
        path = settings_path(client, SettingsScope.USER, machine, None)
        entry = read_settings(client, path).entry()
    except LilluxError as error:
        return row | {"state": "unreadable", "problem": one_line(str(error), 300)}
    if entry is None:
        return row | {"state": "found"}
    return row | {"state": "installed" if is_ours(entry, _any_launch(session)) else "other entry"}


# --- server launch --------------------------------------------------------------------------------
# How a client starts this program as its server: read from how it was started itself.


def machine_of(session: Session) -> Machine:
    """The platform and the environment of this invocation."""
    return Machine(session.context.platform, session.environ)


def server_launch(session: Session, python: str = "", program: str = "") -> ServerLaunch:
    """The command line of the server, by absolute paths; ``python`` and ``program`` choose others.

    Raises UsageError for what is no file, or if this program was not started from one.
    """
    found = _file("--program", program) if program else program_path()
    if found is None:
        raise UsageError(
            "this program was not started from a file that a client could start",
            hint="name one: --program /path/to/rye.pyz",
        )
    chosen = str(_file("--python", python)) if python else ""
    argv = (*_interpreter(found, chosen, this_interpreter()), str(_plain(found)), "mcp")
    return ServerLaunch(argv=argv, env=_needed_env(session))


def _file(flag: str, typed: str) -> Path:
    path = Path(typed).expanduser().absolute()
    if "\0" in typed or not path.is_file():
        raise UsageError(f"{flag}: {typed!r} is not a file")
    return path


def _plain(path: Path) -> Path:
    """The path without ``..``. The file itself may be a link, and stays the one that was named."""
    return path.parent.resolve() / path.name if ".." in path.parts else path


def _interpreter(program: Path, chosen: str, interpreter: Interpreter) -> tuple[str, ...]:
    """What stands before the program. A script of an installation needs nothing there.

    `rye.pyz` brings its libraries and runs with any Python; a checkout needs the very one that has
    them, also in a virtual environment.
    """
    if chosen:
        return (chosen,)
    match program.suffix.lower():
        case ".pyz":
            return (stable_executable(interpreter),)
        case ".py":
            return (interpreter.executable,)
        case _:
            return ()


def _needed_env(session: Session) -> dict[str, str]:
    """The variables that the server must be given: user space, where it is not at home."""
    base, home = session.context.spaces.user.base, machine_of(session).home
    return {} if home and base.resolve() == home.resolve() else {"USER_SPACE": str(base)}


# --- init clients ---------------------------------------------------------------------------------
# The clients that ``rye init`` adds Rye to: those that are named, or agreed to at a terminal.


def chosen_clients(session: Session) -> tuple[Client, ...]:
    """The clients of ``--client``; without any, those found here that the user says yes to.

    All are tried before anything is made. Raises UsageError for an unknown name, and what
    `mcp install` raises for settings that cannot be changed.
    """
    found = map(find_client, session.arguments.client or ())
    named = tuple({client.name: client for client in found}.values())
    for client in named:
        _step(session, client, make=False)
    return named or _agreed_clients(session)


def client_steps(session: Session, clients: tuple[Client, ...], *, make: bool) -> list[Step]:
    """What became of each client."""
    return [_step(session, client, make=make) for client in clients]


def _step(session: Session, client: Client, *, make: bool) -> Step:
    try:
        change, path = install_for_user(session, client, make=make)
    except UnsupportedError as error:
        own = user_path(client, machine_of(session))  # raises for a client without a known place
        return Step(f"rye in {client.title}: {error.hint}", own, LEFT)
    if change is EntryChange.ALREADY:
        return Step(f"rye in {client.title}", path, THERE)
    return Step(f"rye in {client.title}", path, MADE if make else WOULD_MAKE)


def _agreed_clients(session: Session) -> tuple[Client, ...]:
    """What a person at a terminal agrees to; without a terminal there is no question."""
    arguments = session.arguments
    silent = arguments.json or arguments.no_input or arguments.quiet or arguments.dry_run
    if silent or session.environ.get("CI") or not (sys.stdin.isatty() and sys.stderr.isatty()):
        return ()
    offered = tuple(_addable(session))
    if not offered:
        return ()
    titles = ", ".join(client.title for client in offered)
    sys.stderr.write(f"add rye to the settings of {titles}? [y/N] ")
    sys.stderr.flush()
    return offered if sys.stdin.readline().strip().lower() in ("y", "yes") else ()


def _addable(session: Session) -> Iterator[Client]:
    """The clients found here that Rye is not in, and could be added to."""
    machine = machine_of(session)
    for client in CLIENTS:
        if not client.is_there(machine) or client.user_is_its_own:
            continue
        try:
            change, _ = install_for_user(session, client, make=False)
        except LilluxError:
            continue  # doctor reports what is wrong with it
        if change is EntryChange.ADDED:
            yield client


CONFIG = CommandSpec(
    _configure_config, _config, ["rye mcp config claude-desktop", "rye mcp config generic"]
)
INSTALL = CommandSpec(
    _configure_install,
    _install,
    [
        "rye mcp install claude-desktop --project ~/shop",
        "rye mcp install vscode --scope project",
        "rye mcp install codex --dry-run",
        "rye mcp install claude-code --yes",
    ],
)
UNINSTALL = CommandSpec(_configure_uninstall, _uninstall, ["rye mcp uninstall cursor"])
LIST_CLIENTS = CommandSpec(no_arguments, _list, ["rye mcp list-clients"])
