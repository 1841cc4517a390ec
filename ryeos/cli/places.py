"""Where this program and its files are, in words for a person."""

import sys
from pathlib import Path

from ryeos.cli.session import Session


def program_path() -> Path | None:
    """The file that was started: ``rye.pyz``, ``rye.py``, or the script of an installation."""
    path = Path(sys.argv[0])
    return path.absolute() if sys.argv[0] and path.is_file() else None


def modules_path() -> Path:
    """The folder that this program's modules are loaded from."""
    return Path(__file__).parents[2]


def unpacked_root() -> Path | None:
    """Where a zip file like ``rye.pyz`` keeps its unpacked copies; None when no such file runs."""
    modules = modules_path()
    return modules.parents[1] if modules.name == "site-packages" and _is_zipped() else None


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


def _is_zipped() -> bool:
    from zipfile import is_zipfile

    path = program_path()
    return path is not None and is_zipfile(path)
