"""Shims of version managers, and the programs behind them.

A shim is a script on the PATH that starts the manager, which starts the program. A confined program
is started directly: the manager would need additional rights.
"""

import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path

from lillux.errors import LilluxError
from lillux.program_files import Allows, unique
from lillux.version_managers import (
    INSTALLED,
    MANAGERS,
    installed_program,
    version_text,
    versions_in,
)

_SELF_QUERIES = {
    "python": ("-c", "import sys; print(sys.executable)"),
    "node": ("-p", "process.execPath"),
}
_ASK_S = 10.0

_LAYOUTS = ("versions", "installs/{plugin}")


def behind_shim(
    path: str,
    env: Mapping[str, str],
    folder: str,
    *,
    project: Path | None = None,
    allows: Allows | None = None,
) -> str:
    """The program that a shim would start; ``path`` itself if it names none.

    A manager starts what files of the folder name that it is asked in. So no shim is asked in a
    folder of a project, but in ``folder``. What a project's file names counts as far as ``allows``
    says, and as a version that the manager has installed, nothing else.
    """
    shim = Path(path)
    root = shim.parent.parent
    plugin = (MANAGERS["asdf"].plugins or {}).get(shim.name, shim.name)
    named = _project_versions(plugin, project, allows) if project and allows else ()
    layouts = tuple(str(root / one.format(plugin=plugin)) for one in _LAYOUTS)
    for version in named:
        found = installed_program(version, shim.name, MANAGERS["pyenv"], layouts, "linux")
        if found:
            return found
    for version in _shim_versions(root, env):
        chosen = root / "versions" / version / "bin" / shim.name
        if os.access(chosen, os.X_OK):
            return str(chosen)
    return _ask_shim(path, tuple(sorted(_outside(env, project).items())), folder)


def _project_versions(plugin: str, project: Path, allows: Allows) -> tuple[str, ...]:
    """The versions of a plugin that the files of a project name, as far as these count."""
    kinds = {"nodejs": ("nvm", "fnm"), "node": ("nvm", "fnm"), "python": ("pyenv",)}
    own = (*kinds.get(plugin, ()), *(("rbenv",) if plugin == "ruby" else ()), "asdf")
    for name in unique(file for kind in own for file in MANAGERS[kind].files):
        path = project / name
        with suppress(LilluxError, OSError, ValueError):
            if not os.path.lexists(path):
                continue
            data = version_text(path)
            found = versions_in(name, data.decode(), plugin)
            if found and allows(str(path), data):
                return tuple(one for one in found if INSTALLED.fullmatch(one))
    return ()


def _shim_versions(root: Path, env: Mapping[str, str]) -> Iterator[str]:
    """Versions to try, in the order of the manager: variable, global."""
    kind = {".rbenv": "RBENV", ".nodenv": "NODENV"}.get(root.name, "PYENV")
    named = env.get(f"{kind}_VERSION", "")
    words = named.split(":") if named else ()
    if not named:
        with suppress(OSError, UnicodeDecodeError):
            words = (root / "version").read_text("utf-8").split()
    yield from (word for word in words if INSTALLED.fullmatch(word))


def _outside(env: Mapping[str, str], project: Path | None) -> Mapping[str, str]:
    """The variables without what they name of a project: folders to look in, and programs."""
    inside = {str(project), os.path.realpath(project)} if project else set()
    kept = {k: v for k, v in env.items() if not any(one in v for one in inside)}
    entries = env.get("PATH", os.defpath).split(os.pathsep)
    outside = [
        one
        for one in entries
        if not any(
            Path(path).is_relative_to(two)
            for path in (one, os.path.realpath(one))
            for two in inside
        )
    ]
    return {**kept, "PATH": os.pathsep.join(outside)}


@cache
def _ask_shim(path: str, variables: tuple[tuple[str, str], ...], cwd: str) -> str:
    """The program that a shim names; the shim itself if it names none."""
    import subprocess

    name = next((name for name in _SELF_QUERIES if Path(path).name.startswith(name)), "")
    if not name:
        return path
    with suppress(OSError, subprocess.SubprocessError, UnicodeDecodeError):
        said = subprocess.run(
            [path, *_SELF_QUERIES[name]],
            env=dict(variables),
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=True,
            timeout=_ASK_S,
        )
        found = said.stdout.decode().strip()
        if os.access(found, os.X_OK):
            return found
    return path
