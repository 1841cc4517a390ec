"""Code that this program itself loads: no library, no module of a place where agents write.

The loader reads its search path once, at the start: what this program loads late, like SQLite,
would come from there. So it starts once more without these folders.
It is a file of its own, as only a start with such a variable needs it.
"""

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path

from lillux.errors import LilluxError
from ryeos.items.code_variables import left_of_variables
from ryeos.items.context import LOADER_VARIABLE, context_from
from ryeos.items.places import AI_FOLDER, IsInside, Projects, noted_projects, user_folder


def go_on_without_libraries_of_projects(env: Mapping[str, str]) -> None:
    """Start this program once more where a search path of the loader leads into a project.

    Tools get the variables as they were, as far as they get such variables at all. Returns where
    there is no such folder, or no project: a command says why.
    """
    if not _loader_variables(env):
        return
    try:
        context = context_from(
            env, cwd=Path.cwd(), project=_flag("--project"), user_space=_flag("--user-space")
        )
    except (LilluxError, OSError):
        return
    _go_on_without(env, context.is_in_project)


def begin_node(env: Mapping[str, str], data: str) -> None:
    """The same for a node, whose operator names folders with libraries that it is to import.

    What was forgotten at its first line is imported from again, behind its own modules, where no
    project has it: ``PYTHONPATH``, and what belongs to ``PYTHONUSERBASE``.
    """
    named = [] if sys.flags.ignore_environment else _named_folders(env)
    if not (named or _loader_variables(env)):
        return
    is_inside = _projects_of_node(env, _flag("--data") or data)
    _go_on_without(env, is_inside)
    for one in named:
        if os.path.isabs(one) and one not in sys.path and not is_inside(one):  # noqa: PTH117 - text
            sys.path.append(one)


def _projects_of_node(env: Mapping[str, str], data: str) -> IsInside:
    """Folders that users of a node and agents write: its data, and projects, not its start."""
    base = user_folder(env, "", sys.platform, str(Path.cwd()))
    homes = (base, env.get("USERPROFILE", ""), env.get("HOME", ""))
    noted = noted_projects(f"{base}/{AI_FOLDER}")
    return Projects(data, homes, noted=noted).leads_inside


def _named_folders(env: Mapping[str, str]) -> list[str]:
    named = env.get("PYTHONPATH", "").split(os.pathsep)
    if env.get("PYTHONUSERBASE"):
        import site

        if site.ENABLE_USER_SITE:
            named.append(site.getusersitepackages())
    return [one for one in named if one]


def _loader_variables(env: Mapping[str, str]) -> dict[str, str]:
    return {
        name: value
        for name, value in env.items()
        if name == "LD_LIBRARY_PATH" or name.startswith("DYLD_")
    }


def _go_on_without(env: Mapping[str, str], is_inside: IsInside) -> None:
    named = _loader_variables(env)
    left = left_of_variables(named, sys.platform, is_inside)
    if not left:
        return
    said = json.dumps({name: named[name] for name in left})
    changed = {**env, **left, LOADER_VARIABLE: said}
    for name, value in left.items():
        if not value:
            del changed[name]
    os.execve(sys.executable, sys.orig_argv, changed)  # noqa: S606 - ourselves


def _flag(name: str) -> str | None:
    """The last value of a global flag, wherever it stands."""
    words, found = sys.argv[1:], None
    for index, word in enumerate(words):
        if word == name:
            found = next(iter(words[index + 1 :]), None)
        elif word.startswith(f"{name}="):
            found = word.partition("=")[2]
    return found
