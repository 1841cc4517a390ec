"""Interpreters that a version manager has installed, found by its folders.

No manager is run: nvm is a shell function, and the others answer about the folder they stand in.
The files that name a version (``.python-version`` and similar) come with the project and are
unsigned: a version is a name below the manager's own folder, and nothing else.
"""

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from lillux.contained_paths import is_inside
from lillux.errors import ConfigurationError, LilluxError
from lillux.files import read_bytes
from lillux.interpreter_searches import InterpreterBlock, Search, SearchEnvironment
from lillux.patterns import pattern
from lillux.program_files import either, first_program, unique
from lillux.values import dataclass

MAX_VERSION_FILE_BYTES = 64 * 1024

_LONGEST_SHOWN = 60
_VERSION = pattern(r"(?=[^0-9]*[0-9])[A-Za-z0-9][A-Za-z0-9._+-]{0,63}")
INSTALLED = pattern(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,63}")
"""The name of a folder of an installed version, which may be that of an environment."""
_RELEASE = pattern(r"[0-9]+(?:\.[0-9]+)*")
_TOOL_VERSIONS = ".tool-versions"
_EXPECTED = "expected one like 3.11 or v20.10.0"


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionManager:
    """Folders of one version manager. Roots are tried in order.

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
        found = installed_program(version, name, manager, folders, around.platform)  # (2)
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
            data = version_text(path)
            if not around.allows(str(path), data):
                continue
            versions = versions_in(path.name, data.decode(), plugin)
        except (LilluxError, OSError, UnicodeDecodeError, ValueError):
            return (), f"{path} is no text file of the project of at most 64 KiB"
        if versions:
            return versions, f"version {_versions_text(versions)} of {path}"
    files = either(manager.files)
    return (), f"no version is named, neither by the block nor by {files} of the project"


def version_text(path: Path) -> bytes:
    """The text of a file that names a version. Raises ValueError, LilluxError, OSError."""
    if not is_inside(path, path.parent):
        raise ValueError(path)
    return read_bytes(path, MAX_VERSION_FILE_BYTES)


def versions_in(name: str, text: str, plugin: str) -> tuple[str, ...]:
    """The versions that the text of such a file names for a plugin."""
    lines = (line.partition("#")[0].split() for line in text.splitlines())
    if name == _TOOL_VERSIONS:
        return next((tuple(words[1:]) for words in lines if words[:1] == [plugin]), ())
    return tuple(words[0] for words in lines if words)


def _versions_text(versions: tuple[str, ...]) -> str:
    """Versions as a message has them: one line of plain characters, and not a long one."""
    return ascii(" ".join(versions)[:_LONGEST_SHOWN])


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


def installed_program(
    version: str, name: str, manager: VersionManager, folders: tuple[str, ...], platform: str
) -> str | None:
    """The program of an installed version, None where there is none."""
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
