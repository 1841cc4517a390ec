"""How a client starts this program as its server: read from how it was started itself."""

from pathlib import Path

from ryeos.cli.session import Session, program_path
from ryeos.clients.launch import Interpreter, Launch, stable_executable, this_interpreter
from ryeos.clients.places import Machine
from ryeos.errors import UsageError


def machine_of(session: Session) -> Machine:
    """The platform and the environment of this invocation."""
    return Machine(session.context.platform, session.environ)


def server_launch(session: Session, python: str = "", program: str = "") -> Launch:
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
    return Launch(argv=argv, env=_needed_env(session))


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
