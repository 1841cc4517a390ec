"""Searches of interpreters, one for each type of block.

All types but ``command`` only look at files. PATH is the one of the environment that is being
resolved, never the engine's own. `lillux.interpreters.SEARCHES` lists them.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lillux.errors import ConfigurationError
from lillux.program_files import (
    Allows,
    either,
    everything_counts,
    find_on_path,
    first_program,
    is_bare,
    is_shim,
    path_folders,
    unique,
)
from lillux.values import dataclass, field
from lillux.variables import as_text, as_texts

if TYPE_CHECKING:
    from lillux.process.model import Outcome, ProcessRunner


COMMAND_TIMEOUT_S = 5.0
MAX_COMMAND_OUTPUT_BYTES = 64 * 1024

_LONGEST_SHOWN_LINE = 200
_SPACES = ("project", "user", "system")
_VENV_FOLDERS = (".venv", "venv", ".virtualenv")
_VENV_PROGRAMS = ("bin/python", "Scripts/python.exe", "bin/python3")
_VENV_SYSTEM_PROGRAMS = ("python3", "python")


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
    """Surroundings of a search: the variables resolved so far, and the folders of the spaces.

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
    """Result of one search: the program it found, or the names and folders it tried in vain.

    ``problem`` says why nothing was found, where names and folders do not show it; ``warns`` says
    that it becomes a warning even where the fallback is found.
    """

    found: str | None
    names: tuple[str, ...] = ()
    directories: tuple[str, ...] = ()
    problem: str = ""
    warns: bool = False


def search_names(names: tuple[str, ...], around: SearchEnvironment) -> Search:
    """The first of the names that PATH knows, or that is the absolute path of a program."""
    search_path = around.variables.get("PATH", "" if around.platform == "win32" else os.defpath)
    platform, allows = around.platform, around.allows
    programs = (find_on_path(name, search_path, platform=platform, allows=allows) for name in names)
    found = next(filter(None, programs), None)
    looked_up = any(is_bare(name, around.platform) for name in names)
    directories = path_folders(search_path, around.platform) if looked_up else ()
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
