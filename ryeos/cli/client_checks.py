"""What ``rye doctor`` finds in the settings of clients: is the entry there, and would it start."""

import os
from collections.abc import Iterator
from pathlib import Path

from lillux.errors import LilluxError
from ryeos.cli.findings import FAIL, OK, WARN, Check
from ryeos.cli.output import one_line
from ryeos.cli.server_launch import machine_of, server_launch
from ryeos.cli.session import Session, program_path
from ryeos.clients.choice import Scope, settings_path
from ryeos.clients.launch import Interpreter, Launch, is_ours, program_of, started_by
from ryeos.clients.settings import Settings, read_settings
from ryeos.clients.table import CLIENTS, Client
from ryeos.errors import UsageError

_MAX_SHOWN = 200
# On Windows, to look for such a file is to log in at a machine that the file names.
_NETWORK = ("\\\\", "//")


def clients(session: Session) -> Iterator[Check]:
    """Every client of this user that is there, and those of the project with settings in it."""
    machine, project = machine_of(session), session.context.project_path
    try:
        launch = server_launch(session)
    except UsageError:
        launch = Launch(argv=())
    seen: set[Path] = set()
    for client in CLIENTS:
        if client.is_there(machine):
            path = settings_path(client, Scope.USER, machine, None)
            yield from _of_file(client, path, launch, None)
        if client.project and project:
            path = settings_path(client, Scope.PROJECT, machine, project)
            if path not in seen and os.path.lexists(path):
                seen.add(path)
                yield from _of_file(client, path, launch, project)


def _of_file(client: Client, path: Path, launch: Launch, project: Path | None) -> Iterator[Check]:
    """What is to be said of a file. One that a project carries is nobody's installation."""
    broken = WARN if project else FAIL
    try:
        settings = read_settings(client, path, project=project)
        entry = settings.entry()
    except LilluxError as error:
        message = f"{client.title}: {one_line(str(error), _MAX_SHOWN)}"
        yield Check("client", broken, message, "mend the file: the client may ignore all of it")
        return
    install = f"rye mcp install {client.name}" + (" --scope project" if project else "")
    if entry is None:
        if not project:
            yield Check("client", OK, f"{client.title}: without rye; to add it: {install}")
    elif not is_ours(entry, launch):
        shown = one_line(" ".join(started_by(entry) or ("what cannot be read",)), _MAX_SHOWN)
        message = f"{client.title}: its entry 'rye' starts something else: {shown}"
        yield Check("client", WARN, message, f"look at {path}")
    else:
        yield from _of_entry(settings, started_by(entry) or (), broken, f"{install} again")


def _of_entry(settings: Settings, argv: tuple[str, ...], broken: str, fix: str) -> Iterator[Check]:
    """What is to be said of an entry that starts Rye. What it names is only looked at."""
    title, program = settings.client.title, Path(program_of(argv))
    command, project = Path(argv[0]), _project_of(argv)
    interpreter = Interpreter(executable=argv[0], base=argv[0], is_virtual=False)
    shown = one_line(argv[0], _MAX_SHOWN)
    if any(path.startswith(_NETWORK) for path in (argv[0], program_of(argv), project)):
        message = f"{title}: it names a path of the network, which was not looked at"
        yield Check("client", WARN, message, f"look at {settings.path}")
    elif not command.is_absolute():
        message = f"{title}: it starts {shown!r}, which its PATH may not have"
        yield Check("client", WARN, message, fix)
    elif not _is_file(command) or not os.access(command, os.X_OK):
        yield Check("client", broken, f"{title}: no program at {shown}", fix)
    elif interpreter.is_store_stub:
        yield Check("client", WARN, f"{title}: {shown} is an alias of the Microsoft Store", fix)
    elif not _is_file(program):
        message = f"{title}: no file at {one_line(str(program), _MAX_SHOWN)}"
        yield Check("client", broken, message, fix)
    elif project and not project.startswith("$") and not Path(project).is_dir():
        message = f"{title}: no folder at {one_line(project, _MAX_SHOWN)}"
        yield Check("client", broken, message, fix)
    elif _is_another(program):
        message = f"{title}: starts another copy, {one_line(str(program), _MAX_SHOWN)}"
        yield Check("client", WARN, message, fix)
    else:
        yield Check("client", OK, f"{title}: starts this program, {settings.path}")


def _project_of(argv: tuple[str, ...]) -> str:
    flags = ("--project", "-p", "--project-path")
    return next((argv[i + 1] for i, word in enumerate(argv[:-1]) if word in flags), "")


def _is_file(path: Path) -> bool:
    return os.path.isfile(path)  # noqa: PTH113 - never raises


def _is_another(program: Path) -> bool:
    own = program_path()
    try:
        return own is not None and not own.samefile(program)
    except OSError:
        return True


PROBES = (("client", clients),)
