"""Where this program and its files are, in words for a person."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from ryeos.cli.session import Session
from ryeos.errors import RyeError

if TYPE_CHECKING:  # runs before this package, and only in `rye.pyz`
    from ryeos.context import Context
    from ryeos.threads.starting import Program as OwnProgram
    from zipboot.launch import Program


class NotPackedError(RyeError):
    """The command is about `rye.pyz`, and something else runs."""

    code, exit_status = "UNSUPPORTED", 2

    def __init__(self, *, hint: str = "") -> None:
        super().__init__(
            f"not run from rye.pyz: the modules of this program are in {modules_path()}", hint=hint
        )


def program_path() -> Path | None:
    """The file that was started: ``rye.pyz``, ``rye.py``, or the script of an installation."""
    path = Path(sys.argv[0])
    return path.absolute() if sys.argv[0] and path.is_file() else None


def own_words() -> tuple[str, ...]:
    """The words that start this program, as it was started, before those of the command.

    ``python rye.pyz``, ``python -I rye.py``, ``python -m ...`` or an installed script: whatever the
    interpreter was given stands before what `sys.argv` has.
    """
    started, given = sys.orig_argv, len(sys.argv) - 1
    words = list(started[: len(started) - given])
    path = program_path()
    if path and words[-1] == sys.argv[0]:
        words[-1] = str(path)  # whatever the folder is by then
    return (sys.executable or words[0], *words[1:])


def own_program(context: "Context") -> "OwnProgram":
    """How to start this program once more, in the same spaces."""
    from ryeos.threads.starting import Program

    flags = ["--user-space", str(context.spaces.user.base)]
    if context.project_path:
        flags += ["--project", str(context.project_path)]
    return Program(argv=own_words(), flags=tuple(flags), env=context.process_env, cwd=context.cwd)


def modules_path() -> Path:
    """The file or folder that this program's modules are loaded from."""
    return Path(__file__).parents[2]


def packed_program() -> "Program | None":
    """What `rye.pyz` knows about itself; None when something else runs."""
    launch = sys.modules.get("zipboot.launch")
    program: Program | None = launch.program if launch else None
    return program


def require_packed_program(*, hint: str = "") -> "Program":
    """What `rye.pyz` knows about itself. Raises NotPackedError when something else runs."""
    program = packed_program()
    if program is None:
        raise NotPackedError(hint=hint)
    return program


def project_reason(session: Session) -> str:
    """Why this folder is the project, or why none is."""
    path = session.context.project_path
    if session.arguments.project:
        return "named with --project"
    for variable in ("RYE_PROJECT", "CLAUDE_PROJECT_DIR"):
        if session.environ.get(variable):
            return f"named by {variable}"
    if path is None:
        return "none: the home folder and a file system root are no projects"
    if not (path / ".ai").is_dir():
        return "the current folder, without .ai yet"
    return "the current folder" if path == Path.cwd() else "the nearest folder with .ai"
