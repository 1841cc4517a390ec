"""No library of a project is loaded into this program itself.

The loader reads its search path once, at the start: what this program loads late, like SQLite,
would come from there, and an agent may write there. So it starts once more without these folders.
It is a file of its own, as only a start with such a variable needs it.
"""

import json
import os
import sys
from pathlib import Path

from lillux.errors import LilluxError
from ryeos.items.context import LOADER_VARIABLE, context_from


def go_on_without_those_of_projects() -> None:
    """Start this program once more where a search path of the loader leads into a project.

    Tools get the variables as they were, as far as they get such variables at all. Returns where
    there is no such folder, or no project: a command says why.
    """
    named = {
        name: value
        for name, value in os.environ.items()
        if name == "LD_LIBRARY_PATH" or name.startswith("DYLD_")
    }
    if not named:
        return
    try:
        context = context_from(
            os.environ, cwd=Path.cwd(), project=_flag("--project"), user_space=_flag("--user-space")
        )
    except (LilluxError, OSError):
        return
    left = {name: value for name, value in context.project_code.items() if name in named}
    if not left:
        return
    env = {**os.environ, **left, LOADER_VARIABLE: json.dumps({name: named[name] for name in left})}
    for name, value in left.items():
        if not value:
            del env[name]
    os.execve(sys.executable, sys.orig_argv, env)  # noqa: S606 - ourselves


def _flag(name: str) -> str | None:
    """The last value of a global flag, wherever it stands."""
    words, found = sys.argv[1:], None
    for index, word in enumerate(words):
        if word == name:
            found = next(iter(words[index + 1 :]), None)
        elif word.startswith(f"{name}="):
            found = word.partition("=")[2]
    return found
