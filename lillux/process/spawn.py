"""Starting a child: its program found, its isolation, and a reason when the system refuses."""

import errno
import os
import signal
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

from lillux.errors import ConfigurationError, LilluxError
from lillux.process.model import Command, ProgramNotFoundError, SpawnError

# CREATE_NEW_PROCESS_GROUP | CREATE_NO_WINDOW; `subprocess` has the names on Windows only.
_WINDOWS_ISOLATION = 0x0000_0200 | 0x0800_0000
_WINDOWS_EXTENSIONS = ".COM;.EXE;.BAT;.CMD"
_MAX_INTERPRETER_LINE = 256


def spawn(
    command: Command, *, control: int | None = None, platform: str = sys.platform
) -> "subprocess.Popen[bytes]":
    """The started child, leader of its own session, with pipes for its output.

    ``stdin`` is a pipe when there is something to write, else the null device. With ``control``, a
    descriptor, that is its standard input instead, and its output goes to the null device.
    Raises ProgramNotFoundError, SpawnError, and ConfigurationError for a missing ``cwd``.
    """
    on_windows = platform == "win32"
    if not on_windows and signal.getsignal(signal.SIGCHLD) is signal.SIG_IGN:
        # The system would throw exit codes away, and every failure would look like a success.
        raise SpawnError(
            command.argv[0],
            "expected to learn how it ends, but this process ignores SIGCHLD",
            hint="start this process with the default action for SIGCHLD",
        )
    path = find_program(command, platform=platform)
    stdin = subprocess.PIPE if command.stdin else subprocess.DEVNULL
    output = subprocess.PIPE if control is None else subprocess.DEVNULL
    try:
        return subprocess.Popen(
            command.argv,
            executable=path,
            env=command.env,
            cwd=command.cwd,
            stdin=stdin if control is None else control,
            stdout=output,
            stderr=output,
            bufsize=0,
            start_new_session=not on_windows,
            creationflags=_WINDOWS_ISOLATION if on_windows else 0,
        )
    except OSError as error:
        raise spawn_error(command, path, error) from error


def find_program(command: Command, *, platform: str = sys.platform) -> str:
    """The path by which the system starts the program of the command.

    A name is looked up in the absolute directories of ``env["PATH"]``, the system's own directories
    when there is none. Relative and empty entries are passed over: they would let a file of the
    working directory stand in for a program of the machine. A name with a separator is returned as
    the system needs it, unchecked. Raises ProgramNotFoundError.
    """
    on_windows = platform == "win32"
    name = command.argv[0]
    if "/" in name or (on_windows and "\\" in name):
        # Windows looks from here and not from the child's directory.
        return str((command.cwd or Path()) / name) if on_windows else name
    path = command.env.get("PATH", "" if on_windows else os.defpath)
    directories = tuple(filter(os.path.isabs, path.split(";" if on_windows else ":")))
    file_names = tuple(_windows_names(name, command.env)) if on_windows else (name,)
    for directory in directories:
        for file_name in file_names:
            candidate = Path(directory, file_name)
            if os.access(candidate, os.X_OK) and candidate.is_file():
                return str(candidate)
    places = ", ".join(directories) or "nothing: PATH names no absolute directory"
    raise ProgramNotFoundError(name, f"not found, searched {places}", searched=directories)


def _windows_names(name: str, env: Mapping[str, str]) -> Iterable[str]:
    extensions = env.get("PATHEXT", _WINDOWS_EXTENSIONS).split(";")
    if name.upper().endswith(tuple(extension.upper() for extension in extensions if extension)):
        return (name,)
    return (name + extension for extension in extensions)


def spawn_error(command: Command, path: str, error: OSError) -> LilluxError:
    """Why the system refused to start ``path``, as found by `find_program`, in our own words."""
    program, cwd = command.argv[0], command.cwd
    if cwd is not None and not cwd.is_dir():
        return ConfigurationError("cwd", f"expected an existing directory, got {str(cwd)!r}")
    file = (cwd or Path()) / path
    if not file.exists():
        return ProgramNotFoundError(program, "not found")
    reason, hint = _objection(file, error)
    return SpawnError(program, reason, hint=hint)


def _objection(file: Path, error: OSError) -> tuple[str, str]:
    """What the system has against a file that exists, and how to mend it."""
    if file.is_dir():
        return "expected an executable file, found a directory", ""
    match error.errno:
        case errno.EACCES if not os.access(file, os.X_OK):
            return "expected permission to execute it, found none", f"chmod +x {file}"
        case errno.ENOENT if line := _interpreter_line(file):
            return f"its first line names an interpreter that does not exist: {line!r}", ""
        case errno.ENOEXEC:
            return "expected a program of this system or a script with a '#!' line", ""
        case errno.E2BIG:
            hint = "pass large values through standard input or a file"
            return "its arguments and environment are larger than this system allows", hint
        case _:
            return (error.strerror or str(error)).lower(), ""


def _interpreter_line(file: Path) -> str:
    try:
        with file.open("rb") as script:
            first_line = script.readline(_MAX_INTERPRETER_LINE)
    except OSError:
        return ""
    return first_line.decode(errors="replace").strip() if first_line.startswith(b"#!") else ""
