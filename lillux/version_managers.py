"""Interpreters that a version manager has installed, found by its folders; and its shims.

No manager is run: nvm is a shell function, and the others answer about the folder they stand in.
The files that name a version (``.python-version`` and similar) come with the project and are
unsigned: a version is a name below the manager's own folder, and nothing else.
It is a file of its own because most runs find their interpreter on the PATH.
"""

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path

from lillux.errors import ConfigurationError, LilluxError
from lillux.files import is_inside, read_bytes
from lillux.interpreter_searches import (
    Allows,
    InterpreterBlock,
    Search,
    SearchEnvironment,
    either,
    first_program,
    unique,
)
from lillux.patterns import pattern
from lillux.values import dataclass

MAX_VERSION_FILE_BYTES = 64 * 1024

_LONGEST_SHOWN = 60
_VERSION = pattern(r"(?=[^0-9]*[0-9])[A-Za-z0-9][A-Za-z0-9._+-]{0,63}")
_INSTALLED = pattern(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,63}")
"""The name of a folder of an installed version, which may be that of an environment."""
_RELEASE = pattern(r"[0-9]+(?:\.[0-9]+)*")
_TOOL_VERSIONS = ".tool-versions"
_EXPECTED = "expected one like 3.11 or v20.10.0"


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionManager:
    """How one version manager lays out its folders. Roots are tried in order.

    roots     ``$NAME/...`` begins with a variable of the process, ``~/...`` with the home folder
    versions  folder of the versions below a root; ``{plugin}`` is what is installed
    programs  folders of programs below one version
    binary    the program, unless the block says another; "" when it must say
    files     where a project names its version
    plugins   program -> plugin, for those that have another name
    """

    roots: tuple[str, ...]
    versions: str
    binary: str
    files: tuple[str, ...]
    programs: tuple[str, ...] = ("bin",)
    plugins: Mapping[str, str] | None = None


MANAGERS: Mapping[str, VersionManager] = {
    "pyenv": VersionManager(
        roots=("$PYENV_ROOT", "~/.pyenv"),
        versions="versions",
        binary="python",
        files=(".python-version",),
    ),
    "nvm": VersionManager(
        roots=("$NVM_DIR", "~/.nvm"), versions="versions/node", binary="node", files=(".nvmrc",)
    ),
    "rbenv": VersionManager(
        roots=("$RBENV_ROOT", "~/.rbenv"),
        versions="versions",
        binary="ruby",
        files=(".ruby-version",),
    ),
    "asdf": VersionManager(
        roots=("$ASDF_DATA_DIR", "~/.asdf"),
        versions="installs/{plugin}",
        binary="",
        files=(_TOOL_VERSIONS,),
        plugins={"node": "nodejs", "python3": "python"},
    ),
    "mise": VersionManager(
        roots=("$MISE_DATA_DIR", "$XDG_DATA_HOME/mise", "~/.local/share/mise"),
        versions="installs/{plugin}",
        binary="",
        files=(_TOOL_VERSIONS,),
        plugins={"python3": "python"},
    ),
    "fnm": VersionManager(
        roots=(
            *("$FNM_DIR", "$XDG_DATA_HOME/fnm", "~/.local/share/fnm", "~/.fnm"),
            "~/Library/Application Support/fnm",
        ),
        versions="node-versions",
        programs=("installation/bin",),
        binary="node",
        files=(".node-version", ".nvmrc"),
    ),
}
# Programs lie beside the version's own files there, and the folders have other names.
WINDOWS_MANAGERS: Mapping[str, VersionManager] = {
    "pyenv": VersionManager(
        roots=("$PYENV_ROOT", "$PYENV", "~/.pyenv/pyenv-win"),
        versions="versions",
        programs=("", "Scripts"),
        binary="python",
        files=(".python-version",),
    ),
    "nvm": VersionManager(
        roots=("$NVM_HOME", "$APPDATA/nvm"),
        versions="",
        programs=("",),
        binary="node",
        files=(".nvmrc",),
    ),
    "mise": VersionManager(
        roots=("$MISE_DATA_DIR", "$LOCALAPPDATA/mise"),
        versions="installs/{plugin}",
        programs=("bin", ""),
        binary="",
        files=(_TOOL_VERSIONS,),
        plugins={"python3": "python"},
    ),
    "fnm": VersionManager(
        roots=("$FNM_DIR", "$APPDATA/fnm"),
        versions="node-versions",
        programs=("installation",),
        binary="node",
        files=(".node-version", ".nvmrc"),
    ),
}


def search_version_manager(block: InterpreterBlock, around: SearchEnvironment) -> Search:
    """The program of a version that ``manager`` has installed.

    1. ``version`` of the block, else the first file of the project that names one.
    2. The folder of exactly that version, else the highest release that begins with it: ``3.11``
       finds ``3.11.10`` before ``3.11.9``, and never ``3.1`` or ``3.12-dev``.

    What is missing is reported even where a fallback is found: it is likely another version.
    """
    manager = _manager(block, around.platform)
    name = block.name("binary", manager.binary)
    plugin = block.name("plugin", (manager.plugins or {}).get(name, name))
    folders = tuple(_version_folders(manager, plugin, around))
    wanted, source = _wanted_versions(block, manager, plugin, around)  # (1)
    if not wanted:
        return _in_vain(name, folders, source)
    for version in wanted:
        if not _VERSION.fullmatch(version):
            return _in_vain(name, folders, f"{source} is not known, {_EXPECTED}")
        found = _installed_program(version, name, manager, folders, around.platform)  # (2)
        if found:
            return Search(found=found, names=(name,))
    places = ", ".join(folders) or "no folder at all"
    return _in_vain(name, folders, f"no {name} of {source} in {places}")


def _manager(block: InterpreterBlock, platform: str) -> VersionManager:
    known = WINDOWS_MANAGERS if platform == "win32" else MANAGERS
    name = block.text("manager")
    if name not in known:
        expected = either(tuple(sorted(known)))
        raise ConfigurationError(f"{block.where}.manager", f"expected {expected}, got {name!r}")
    return known[name]


def _in_vain(name: str, folders: tuple[str, ...], problem: str) -> Search:
    return Search(found=None, names=(name,), directories=folders, problem=problem, warns=True)


# --- which version


def _wanted_versions(
    block: InterpreterBlock, manager: VersionManager, plugin: str, around: SearchEnvironment
) -> tuple[tuple[str, ...], str]:
    """The versions in order of preference and where they stand; none, and what is wrong."""
    if "version" in block.keys:
        version = block.text("version")
        return (version,), f"version {_versions_text((version,))}"
    for name in manager.files:
        path = around.project_path / name if around.project_path else None
        if path is None or not os.path.lexists(path):
            continue
        try:
            data = _version_text(path)
            if not around.allows(str(path), data):
                continue
            versions = _versions_in(path.name, data.decode(), plugin)
        except (LilluxError, OSError, UnicodeDecodeError, ValueError):
            return (), f"{path} is no text file of the project of at most 64 KiB"
        if versions:
            return versions, f"version {_versions_text(versions)} of {path}"
    files = either(manager.files)
    return (), f"no version is named, neither by the block nor by {files} of the project"


def _version_text(path: Path) -> bytes:
    if not is_inside(path, path.parent):
        raise ValueError(path)
    return read_bytes(path, MAX_VERSION_FILE_BYTES)


def _versions_in(name: str, text: str, plugin: str) -> tuple[str, ...]:
    lines = (line.partition("#")[0].split() for line in text.splitlines())
    if name == _TOOL_VERSIONS:
        return next((tuple(words[1:]) for words in lines if words[:1] == [plugin]), ())
    return tuple(words[0] for words in lines if words)


def _versions_text(versions: tuple[str, ...]) -> str:
    """Versions as a message has them: one line of plain characters, and not a long one."""
    return ascii(" ".join(versions)[:_LONGEST_SHOWN])


# --- where it is


def _version_folders(
    manager: VersionManager, plugin: str, around: SearchEnvironment
) -> Iterator[str]:
    roots = (_expand_root(root, around) for root in manager.roots)
    below = manager.versions.format(plugin=plugin)
    yield from unique(str(root / below) for root in roots if root)


def _expand_root(root: str, around: SearchEnvironment) -> Path | None:
    """The folder; None where its variable is not set to an absolute path."""
    first, _, rest = root.partition("/")
    home = "USERPROFILE" if around.platform == "win32" else "HOME"
    start = around.process_variables.get(home if first == "~" else first[1:], "")
    return Path(start, rest) if start and Path(start).is_absolute() else None


def _installed_program(
    version: str, name: str, manager: VersionManager, folders: tuple[str, ...], platform: str
) -> str | None:
    for folder in folders:
        for installed in _matching(version, folder):
            programs = (Path(folder, installed, below, name) for below in manager.programs)
            found = first_program(programs, platform)
            if found:
                return found
    return None


def _matching(version: str, folder: str) -> tuple[str, ...]:
    """The names in a folder that mean the version: exactly it, then releases, highest first."""
    try:
        names = os.listdir(folder)  # noqa: PTH208 - names are what is wanted
    except (OSError, ValueError):
        return ()
    wanted = _plain(version)
    exact = sorted(name for name in names if _plain(name) == wanted)
    releases = [
        name
        for name in names
        if _plain(name).startswith(f"{wanted}.") and _RELEASE.fullmatch(_plain(name))
    ]
    return (*exact, *sorted(releases, key=_numbers, reverse=True))


def _plain(version: str) -> str:
    """Without the ``v`` that some write before the number."""
    return version[1:] if re.match(r"v[0-9]", version) else version


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in _plain(version).split("."))


# --- shims ----------------------------------------------------------------------------------------
# Scripts that version managers put on the PATH: each starts the manager, which starts the program.
#
# A confined program is started directly: the manager would need additional rights.

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
        found = _installed_program(version, shim.name, MANAGERS["pyenv"], layouts, "linux")
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
            data = _version_text(path)
            found = _versions_in(name, data.decode(), plugin)
            if found and allows(str(path), data):
                return tuple(one for one in found if _INSTALLED.fullmatch(one))
    return ()


def _shim_versions(root: Path, env: Mapping[str, str]) -> Iterator[str]:
    """Versions to try, in the order of the manager: variable, global."""
    kind = {".rbenv": "RBENV", ".nodenv": "NODENV"}.get(root.name, "PYENV")
    named = env.get(f"{kind}_VERSION", "")
    words = named.split(":") if named else ()
    if not named:
        with suppress(OSError, UnicodeDecodeError):
            words = (root / "version").read_text("utf-8").split()
    yield from (word for word in words if _INSTALLED.fullmatch(word))


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
