"""What a client starts: an interpreter and a program by absolute paths, and their arguments.

A client has another PATH than a terminal, and its working directory is anywhere.
"""

import re
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from lillux.values import dataclass, field
from ryeos.clients.table import Client, Shape

PROGRAM_NAMES = frozenset({"rye.pyz", "rye.py", "rye", "rye.exe"})

_CELLAR = re.compile(r"(.*)/Cellar/([^/]+)/[^/]+/(.*)")
_STORE_FOLDER = "/microsoft/windowsapps/"


@dataclass(frozen=True, slots=True, kw_only=True)
class Interpreter:
    """Which Python runs: its executable, and where it is installed.

    ``base`` is the executable of the installation that a virtual environment was made from; it is
    the same outside of one.
    """

    executable: str
    base: str
    is_virtual: bool

    @property
    def is_store_stub(self) -> bool:
        """Whether it is an alias of the Microsoft Store, which a service cannot always start."""
        return _STORE_FOLDER in self.executable.replace("\\", "/").lower()


def this_interpreter() -> Interpreter:
    """The one that runs this program."""
    return Interpreter(
        executable=sys.executable,
        base=str(getattr(sys, "_base_executable", "") or sys.executable),
        is_virtual=sys.prefix != sys.base_prefix,
    )


def stable_executable(
    interpreter: Interpreter, *, same_file: Callable[[str, str], bool] | None = None
) -> str:
    """The path by which the interpreter is found tomorrow too.

    Not that of a virtual environment, which somebody may remove: its base. Not that of one release
    in a Homebrew cellar, which the next upgrade removes, but the link to the current one. Any
    other link is kept as it is.
    """
    same = same_file or _is_same_file
    path = interpreter.executable
    if interpreter.is_virtual and Path(interpreter.base).is_file():
        path = interpreter.base
    found = _CELLAR.fullmatch(path)
    if found:
        current = f"{found[1]}/opt/{found[2]}/{found[3]}"
        return current if same(path, current) else path
    return path


def _is_same_file(path: str, other: str) -> bool:
    try:
        return Path(path).samefile(other)
    except OSError:
        return False


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """A server to start: the whole command line, and the variables that it needs to be given."""

    argv: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)

    def with_project(self, project: str) -> "Launch":
        """The same, for a project."""
        return Launch(argv=(*self.argv, "--project", project), env=self.env)

    def entry(self, client: Client) -> dict[str, Any]:
        """The entry in the client's settings."""
        if client.shape is Shape.JOINED:
            started: dict[str, Any] = {"command": list(self.argv)}
        else:
            started = {"command": self.argv[0], "args": list(self.argv[1:])}
        extra = dict(client.extra)
        first = {"type": extra.pop("type")} if "type" in extra else {}
        env_key = "environment" if client.shape is Shape.JOINED else "env"
        return {**first, **started, **extra, **({env_key: dict(self.env)} if self.env else {})}

    def command_line(self, client: Client) -> tuple[str, ...]:
        """The client's own command that adds the server; empty where it has none."""
        return (*client.adds, *self.argv) if client.adds else ()


def started_by(entry: object) -> tuple[str, ...] | None:
    """The command line of an entry of any client; None where it has none that can be read."""
    if not isinstance(entry, Mapping):
        return None
    command, args = entry.get("command"), entry.get("args", [])
    words = [command] if isinstance(command, str) else command
    if not isinstance(words, list) or not isinstance(args, list):
        return None
    argv = [*words, *args]
    return tuple(argv) if argv and all(isinstance(word, str) for word in argv) else None


def is_ours(entry: object, launch: Launch) -> bool:
    """Whether an entry starts Rye: this very program, or another copy of it, as a server.

    Before the program stands at most an interpreter with flags, such as ``py -3``: no shell that is
    told something else first.
    """
    argv = started_by(entry) or ()
    program = program_of(argv)
    flags = _before(argv, "mcp")[1:-1]
    is_plain = all(word.startswith("-") and word not in ("-c", "-m") for word in flags)
    own = _file_name(program_of(launch.argv))
    return bool(program) and is_plain and _file_name(program) in PROGRAM_NAMES | {own}


def program_of(argv: Sequence[str]) -> str:
    """The file of the program in a command line: what stands before ``mcp``."""
    before = _before(argv, "mcp")
    return before[-1] if before else ""


def _before(argv: Sequence[str], word: str) -> Sequence[str]:
    return argv[: argv.index(word)] if word in argv else ()


def _file_name(path: str) -> str:
    return path.replace("\\", "/").rpartition("/")[2].lower()
