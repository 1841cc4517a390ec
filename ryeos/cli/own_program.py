"""How this program was started, and how it is started once more."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ryeos.context import Context
    from ryeos.threads.starting import Program


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


def own_program(context: "Context") -> "Program":
    """How to start this program once more, in the same spaces."""
    from ryeos.threads.starting import Program

    flags = ["--user-space", str(context.spaces.user.base)]
    if context.project_path:
        flags += ["--project", str(context.project_path)]
    return Program(argv=own_words(), flags=tuple(flags), env=context.process_env, cwd=context.cwd)
