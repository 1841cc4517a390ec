"""How each type of interpreter block searches. `lillux.interpreters.SEARCHES` lists them.

All types but ``command`` only look at files. PATH is the one of the environment that is being
resolved, never the engine's own.
"""

import os
import re
import stat
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from functools import cache, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from lillux.errors import ConfigurationError, LilluxError
from lillux.files import is_inside, read_bytes
from lillux.patterns import pattern
from lillux.values import dataclass, field, replace
from lillux.variables import as_text, as_texts

if TYPE_CHECKING:
    from lillux.process.model import Outcome, ProcessRunner


COMMAND_TIMEOUT_S = 5.0
MAX_COMMAND_OUTPUT_BYTES = 64 * 1024

_LONGEST_SHOWN_LINE = 200
_SPACES = ("project", "user", "system")
_WINDOWS_SUFFIXES = (".exe", ".cmd", "")
_VENV_FOLDERS = (".venv", "venv", ".virtualenv")
_VENV_PROGRAMS = ("bin/python", "Scripts/python.exe", "bin/python3")
_VENV_SYSTEM_PROGRAMS = ("python3", "python")


class Allows(Protocol):
    """Whether an unsigned file counts: a program, ``.env``, one that names a version."""

    def __call__(self, path: str, data: bytes | None = None) -> bool:
        """``data`` is its text, where that was read already, to be used."""


def everything_counts(path: str, data: bytes | None = None) -> bool:  # noqa: ARG001 - whatever it is
    """Every file counts."""
    return True


@dataclass(frozen=True, slots=True, kw_only=True)
class InterpreterBlock:
    """One interpreter block of an ``env_config``; ``where`` is its path, ``keys`` all it says.

    ``fallback`` is empty when there is none.
    """

    where: str
    type: str
    var: str
    fallback: str
    keys: Mapping[str, Any]

    def text(self, key: str) -> str:
        """The string under ``key``, which must be there and not be empty."""
        text = as_text(f"{self.where}.{key}", self.keys.get(key))
        if not text:
            raise ConfigurationError(f"{self.where}.{key}", "expected a string, got an empty one")
        return text

    def name(self, key: str, default: str = "") -> str:
        """The name of a file under ``key``, which may be missing where there is a default.

        A path is refused: it would lead out of the folders that a search looks into.
        """
        if default and key not in self.keys:
            return default
        name = self.text(key)
        if Path(name).name != name or name == ".." or "\\" in name:
            raise ConfigurationError(f"{self.where}.{key}", f"expected a name, got {name!r}")
        return name

    def texts(self, key: str) -> tuple[str, ...]:
        """The strings listed under ``key``; none where it is missing."""
        return as_texts(f"{self.where}.{key}", self.keys.get(key))

    def some_texts(self, key: str) -> tuple[str, ...]:
        """The strings listed under ``key``, at least one of them."""
        texts = self.texts(key)
        if not texts:
            where = f"{self.where}.{key}"
            raise ConfigurationError(where, "expected a list of at least one string, got none")
        return texts


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchEnvironment:
    """What a search may look at: the variables resolved so far, and the folders of the spaces.

    ``process_variables`` are those of the process alone, without what an unsigned ``.env`` says.
    ``allows`` is asked about programs and files that name a version.
    ``runner`` runs the program of the type ``command``; None is the process manager of this layer.
    """

    variables: Mapping[str, str]
    project_path: Path | None
    user_base: Path | None
    platform: str
    process_variables: Mapping[str, str] = field(default_factory=dict)
    allows: Allows = everything_counts
    runner: "ProcessRunner | None" = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """What one search did: the program it found, or the names and folders it tried in vain.

    ``problem`` says why nothing was found, where names and folders do not show it; ``warns`` says
    that it becomes a warning even where the fallback is found.
    """

    found: str | None
    names: tuple[str, ...] = ()
    directories: tuple[str, ...] = ()
    problem: str = ""
    warns: bool = False


def find_on_path(
    name: str, search_path: str, *, platform: str, allows: Allows | None = None
) -> str | None:
    """The program ``name`` in the folders of ``search_path``, as an absolute path, or None.

    Empty and relative entries are passed over: they mean whatever folder a process stands in. An
    absolute name is found where it is, a relative one with a separator nowhere. On Windows a name
    is tried with ``.exe`` and ``.cmd`` before it is tried as it stands. What ``allows`` refuses is
    passed over.
    """
    allows = allows or everything_counts
    if Path(name).is_absolute():
        return first_program((Path(name),), platform, allows)
    if not name or not _is_bare(name, platform):
        return None
    folders = _directories(search_path, platform)
    return first_program((Path(folder, name) for folder in folders), platform, allows)


def search_names(names: tuple[str, ...], around: SearchEnvironment) -> Search:
    """The first of the names that PATH knows, or that is the absolute path of a program."""
    search_path = around.variables.get("PATH", "" if around.platform == "win32" else os.defpath)
    platform, allows = around.platform, around.allows
    programs = (find_on_path(name, search_path, platform=platform, allows=allows) for name in names)
    found = next(filter(None, programs), None)
    looked_up = any(_is_bare(name, around.platform) for name in names)
    directories = _directories(search_path, around.platform) if looked_up else ()
    return Search(found=found, names=names, directories=directories)


def search_folders(
    directories: tuple[str, ...], names: tuple[str, ...], around: SearchEnvironment
) -> Search:
    """The first of the names in the first of the folders that has one."""
    programs = (Path(folder, name) for folder in directories for name in names)
    found = first_program(programs, around.platform, around.allows)
    return Search(found=found, names=names, directories=directories)


def spaces_of(block: InterpreterBlock, default: tuple[str, ...]) -> tuple[str, ...]:
    """The spaces that a block's ``search`` lists. Raises ConfigurationError for anything else."""
    spaces = block.texts("search") or default
    for index, space in enumerate(spaces):
        if space not in _SPACES:
            where = f"{block.where}.search[{index}]"
            raise ConfigurationError(where, f"expected {either(_SPACES)}, got {space!r}")
    return spaces


def unique(texts: Iterable[str]) -> tuple[str, ...]:
    """The texts in order, each once."""
    return tuple(dict.fromkeys(texts))


def either(names: tuple[str, ...]) -> str:
    """The names as a sentence has them: ``a, b or c``."""
    return " or ".join(filter(None, (", ".join(names[:-1]), *names[-1:])))


# --- the types


def search_local_binary(block: InterpreterBlock, around: SearchEnvironment) -> Search:
    """The first of the names in the ``search_paths`` of each root; the project comes last."""
    names = unique((block.text("binary"), *block.texts("candidates")))
    roots = (*block.texts("search_roots"), "")  # the project itself comes last
    folders = block.some_texts("search_paths")
    base = around.project_path or Path()  # without a project a relative root means no place
    places = (base / root / folder for root in roots for folder in folders)
    directories = unique(str(place) for place in places if place.is_absolute())
    return search_folders(directories, names, around)


def search_system_binary(block: InterpreterBlock, around: SearchEnvironment) -> Search:
    """``binary`` on PATH."""
    return search_names((block.text("binary"),), around)


def search_command(block: InterpreterBlock, around: SearchEnvironment) -> Search:
    """The program that ``resolve_cmd`` names in the first line of its output."""
    from lillux.process import ProcessManager
    from lillux.process.model import Command, SpawnError

    name, *arguments = block.some_texts("resolve_cmd")
    program = search_names((name,), around)
    if not program.found:
        return program
    command = Command(
        argv=(program.found, *arguments),
        env=around.variables,
        # A shim starts what files of its folder name: none of a project.
        cwd=around.user_base if is_shim(program.found) else around.project_path,
        timeout_s=COMMAND_TIMEOUT_S,
        max_output_bytes=MAX_COMMAND_OUTPUT_BYTES,
    )
    try:
        outcome = (around.runner or ProcessManager()).run(command)
    except SpawnError as error:
        return Search(found=None, names=(name,), problem=str(error))
    return _search_printed(name, outcome, around)


def _search_printed(name: str, outcome: "Outcome", around: SearchEnvironment) -> Search:
    """The program that the first line of the output names, if the command ended well."""
    if outcome.timed_out:
        problem = f"{name!r} did not end within {COMMAND_TIMEOUT_S:g} s"
    elif outcome.exit_code != 0:
        problem = f"{name!r} ended with {_ending(outcome)}, expected status 0"
    else:
        line = os.fsdecode(outcome.stdout.data.partition(b"\n")[0].strip())
        found = search_names((line,), around).found if "\0" not in line else None
        if found and around.allows(found):
            return Search(found=found, names=(name,))
        shown = ascii(line[:_LONGEST_SHOWN_LINE]) if line else "nothing"
        problem = f"{name!r} printed {shown}, expected the path of a program"
    return Search(found=None, names=(name,), problem=problem)


def _ending(outcome: "Outcome") -> str:
    if outcome.exit_code is None:
        return f"signal {outcome.signal}"
    return f"status {outcome.exit_code}"


def search_venv_python(block: InterpreterBlock, around: SearchEnvironment) -> Search:
    """The Python of a virtual environment, or of each space in ``search``."""
    folders = _VENV_FOLDERS if block.texts("search") else _VENV_FOLDERS[:1]
    if "venv_path" in block.keys:
        folders = (block.text("venv_path"),)
    searches = []
    for space in spaces_of(block, default=_SPACES[:1]):
        searches.append(_search_venv_space(space, folders, around))
        if searches[-1].found:
            return searches[-1]
    return Search(
        found=None,
        names=unique(name for search in searches for name in search.names),
        directories=unique(folder for search in searches for folder in search.directories),
    )


def _search_venv_space(space: str, folders: tuple[str, ...], around: SearchEnvironment) -> Search:
    if space == "system":
        return search_names(_VENV_SYSTEM_PROGRAMS, around)
    base = around.project_path if space == "project" else around.user_base
    venvs = tuple(str(base / folder) for folder in folders) if base else ()
    programs = (Path(venv, program) for venv in venvs for program in _VENV_PROGRAMS)
    found = first_program(programs, around.platform, around.allows)
    return Search(found=found, names=_VENV_PROGRAMS, directories=venvs)


# --- files


@lru_cache(maxsize=32)
def _directories(search_path: str, platform: str) -> tuple[str, ...]:
    """The absolute entries, each once. A graph asks for those of one PATH at every step."""
    entries = search_path.split(";" if platform == "win32" else ":")
    return unique(entry for entry in entries if Path(entry).is_absolute())


def first_program(
    paths: Iterable[Path], platform: str, allows: Allows = everything_counts
) -> str | None:
    """The first of the paths that is a program, with the suffix that makes it one on Windows."""
    suffixes = _WINDOWS_SUFFIXES if platform == "win32" else ("",)
    candidates = (f"{path}{suffix}" for path in paths for suffix in suffixes)
    found = (path for path in candidates if _is_program(path, platform))
    return next((path for path in found if allows(path)), None)


def _is_program(path: str, platform: str) -> bool:
    return is_file(path) and (platform == "win32" or os.access(path, os.X_OK))


def is_file(path: str) -> bool:
    """Whether there is a regular file, perhaps behind links."""
    try:
        return stat.S_ISREG(os.stat(path).st_mode)  # noqa: PTH116 - asked for at every call
    except (OSError, ValueError):  # ValueError: a NUL, or what the system cannot encode
        return False


def is_folder(path: str) -> bool:
    """Whether there is a folder, perhaps behind links."""
    try:
        return stat.S_ISDIR(os.stat(path).st_mode)  # noqa: PTH116 - asked for at every call
    except (OSError, ValueError):
        return False


def _is_bare(name: str, platform: str) -> bool:
    return "/" not in name and not (platform == "win32" and "\\" in name)


# --- folder searches ------------------------------------------------------------------------------
# The types of interpreter blocks that know by themselves which folders to look into.
#
# Loaded only when a block has such a type: see `lillux.interpreters.SEARCHES`.

_NODE = "node"
_NODE_FOLDERS = ("node_modules/.bin",)
_PROGRAM_FOLDERS = (".ai/bin", ".venv/bin", ".venv/Scripts", "node_modules/.bin", "bin")


def search_node_modules(block: InterpreterBlock, around: SearchEnvironment) -> Search:
    """``binary`` in the ``search_paths`` of the project."""
    folders = block.texts("search_paths") or _NODE_FOLDERS
    return _search_space("project", (block.name("binary", _NODE),), folders, around)


def search_venv_node(block: InterpreterBlock, around: SearchEnvironment) -> Search:
    """``binary`` in the ``search_paths`` of each space in ``search``; ``system`` is PATH."""
    folders = block.texts("search_paths") or _NODE_FOLDERS
    spaces = spaces_of(block, default=("project", "system"))
    return _search_spaces(spaces, (block.name("binary", _NODE),), folders, around)


def search_binary(block: InterpreterBlock, around: SearchEnvironment) -> Search:
    """``binary`` in the usual program folders of each space in ``search``."""
    name = block.name("binary", Path(block.fallback).name)
    spaces = spaces_of(block, default=("project", "user", "system"))
    return _search_spaces(spaces, (name,), _PROGRAM_FOLDERS, around)


def _search_spaces(
    spaces: tuple[str, ...],
    names: tuple[str, ...],
    folders: tuple[str, ...],
    around: SearchEnvironment,
) -> Search:
    search = Search(found=None, names=names)
    for space in spaces:
        one = _search_space(space, names, folders, around)
        if one.found:
            return one
        search = replace(search, directories=unique((*search.directories, *one.directories)))
    return search


def _search_space(
    space: str, names: tuple[str, ...], folders: tuple[str, ...], around: SearchEnvironment
) -> Search:
    if space == "system":
        return search_names(names, around)
    base = around.project_path if space == "project" else around.user_base
    places = tuple(str(base / folder) for folder in folders) if base else ()
    return search_folders(places, names, around)


# --- version managers -----------------------------------------------------------------------------
# Interpreters that a version manager has installed, found by looking at its folders.
#
# No manager is run: nvm is a shell function, and the others answer about the folder they stand in.
# The files that name a version (``.python-version`` and similar) come with the project and are
# unsigned: a version is a name below the manager's own folder, and nothing else.

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


_MANAGER_PROGRAMS = ("mise", "rtx", "volta-shim")
_LAYOUTS = ("versions", "installs/{plugin}")


def is_shim(path: str) -> bool:
    """Whether a program of a version manager starts another one, which it chooses by a folder."""
    if os.path.basename(os.path.dirname(path)) == "shims":  # noqa: PTH119, PTH120 - at each start
        return True
    try:
        return os.path.basename(os.readlink(path)) in _MANAGER_PROGRAMS  # noqa: PTH115, PTH119
    except OSError:
        return False


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
