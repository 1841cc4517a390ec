"""Where this program and its files are, in words for a person."""

from pathlib import Path
from typing import TYPE_CHECKING

from ryeos.cli.session import Session, packed_program
from ryeos.errors import RyeError

if TYPE_CHECKING:  # runs before this package, and only in `rye.pyz`
    from zipboot.launch import Program


class NotPackedError(RyeError):
    """The command is about `rye.pyz`, and something else runs."""

    code, exit_status = "UNSUPPORTED", 2

    def __init__(self, *, hint: str = "") -> None:
        super().__init__(
            f"not run from rye.pyz: the modules of this program are in {modules_path()}", hint=hint
        )


def modules_path() -> Path:
    """The file or folder that this program's modules are loaded from."""
    return Path(__file__).parents[2]


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
