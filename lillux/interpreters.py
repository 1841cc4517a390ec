"""Interpreter of an item: what the search of its block's type finds.

A block is ``{type, var, fallback, ...}``: the program that the search of its ``type`` finds goes
into the environment variable ``var``.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from lillux.interpreter_searches import (
    InterpreterBlock,
    Search,
    SearchEnvironment,
    search_command,
    search_local_binary,
    search_names,
    search_system_binary,
    search_venv_python,
)
from lillux.program_files import either, is_file, is_folder, unique
from lillux.values import dataclass
from lillux.variables import as_text, as_variable_name


@dataclass(frozen=True, slots=True)
class MissingInterpreter:
    """An interpreter looked for in vain: its variable, the names tried, the folders searched.

    ``unusable`` are files and folders of these names that are no programs, each with the reason.
    """

    var: str
    names: tuple[str, ...]
    directories: tuple[str, ...]
    unusable: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class InterpreterResult:
    """Result of a block: the value of its variable, empty when it stays unset.

    ``missing`` is there when neither the search nor the fallback led to a program.
    """

    value: str
    warnings: tuple[str, ...] = ()
    missing: MissingInterpreter | None = None


def parse_interpreter(where: str, keys: Mapping[str, Any]) -> InterpreterBlock | None:
    """The block at ``where``; None when it names no ``var``, and so asks for nothing.

    Raises ConfigurationError for a wrong shape of what all types share.
    """
    if keys.get("var") is None:
        return None
    fallback = keys.get("fallback")
    return InterpreterBlock(
        where=where,
        var=as_variable_name(f"{where}.var", keys["var"]),
        type=as_text(f"{where}.type", keys.get("type")),
        fallback="" if fallback is None else as_text(f"{where}.fallback", fallback),
        keys=keys,
    )


def find_interpreter(
    block: InterpreterBlock, around: SearchEnvironment, *, preset: str = ""
) -> InterpreterResult:
    """The program for the block's variable, as an absolute path wherever one is known.

    1. ``preset``, the variable's value in the process environment, if it is an existing file.
    2. What the search of the block's type finds. An unknown type finds nothing.
    3. The fallback: a bare name is made absolute through PATH; where that finds no program, the
       fallback is taken as it stands.

    Raises ConfigurationError for a wrong shape of what the type needs.
    """
    # (1) the process that starts the engine may choose the interpreter
    if Path(preset).is_absolute() and is_file(preset):
        return InterpreterResult(preset)
    warnings = _preset_warnings(block, preset)
    # (2) nothing is asked but the file system, except by the type `command`
    search = SEARCHES.get(block.type, _search_unknown_type)(block, around)
    if search.found:
        return InterpreterResult(search.found, warnings)
    # (3) as it stands, a name may still mean something to the code that starts the program
    fallback = search_names((block.fallback,) if block.fallback else (), around)
    if fallback.found:
        notes = (f"{block.where}: {search.problem}",) if search.warns else ()
        return InterpreterResult(fallback.found, (*warnings, *notes))
    names = unique((*search.names, *fallback.names))
    directories = unique((*search.directories, *fallback.directories))
    missing = MissingInterpreter(block.var, names, directories, _unusable(names, directories))
    return InterpreterResult(
        block.fallback, (*warnings, _missing_warning(block, search, missing)), missing
    )


def _search_node_modules(block: InterpreterBlock, around: SearchEnvironment) -> Search:
    from lillux.folder_searches import search_node_modules

    return search_node_modules(block, around)


def _search_venv_node(block: InterpreterBlock, around: SearchEnvironment) -> Search:
    from lillux.folder_searches import search_venv_node

    return search_venv_node(block, around)


def _search_binary(block: InterpreterBlock, around: SearchEnvironment) -> Search:
    from lillux.folder_searches import search_binary

    return search_binary(block, around)


def _search_version_manager(block: InterpreterBlock, around: SearchEnvironment) -> Search:
    from lillux.version_managers import search_version_manager

    return search_version_manager(block, around)


SEARCHES: Mapping[str, Callable[[InterpreterBlock, SearchEnvironment], Search]] = {
    "binary": _search_binary,
    "command": search_command,
    "local_binary": search_local_binary,
    "node_modules": _search_node_modules,
    "system_binary": search_system_binary,
    "venv": search_venv_python,  # an older name
    "venv_node": _search_venv_node,
    "venv_python": search_venv_python,
    "version_manager": _search_version_manager,
}


def _search_unknown_type(block: InterpreterBlock, _around: SearchEnvironment) -> Search:
    expected = either(tuple(sorted(SEARCHES)))
    problem = f"type {block.type!r} is not known, expected {expected}"
    return Search(found=None, problem=problem, warns=True)


def _preset_warnings(block: InterpreterBlock, preset: str) -> tuple[str, ...]:
    if not preset:
        return ()
    reason = "is set in the environment, but not to the absolute path of a file: it is searched for"
    return (f"{block.where}: {block.var} {reason}",)


def _missing_warning(block: InterpreterBlock, search: Search, missing: MissingInterpreter) -> str:
    outcome = f"is the fallback {block.fallback!r}" if block.fallback else "stays unset"
    places = ", ".join(missing.directories) or "no folder at all"
    found = f" ({', '.join(missing.unusable)})" if missing.unusable else ""
    reason = search.problem or f"no {either(missing.names)} in {places}{found}"
    return f"{block.where}: {block.var} {outcome}: {reason}"


def _unusable(names: tuple[str, ...], directories: tuple[str, ...]) -> tuple[str, ...]:
    """Files where a program was looked for, and the reason why each cannot be used."""
    paths = unique(str(Path(folder, name)) for folder in directories for name in names)
    kinds = ((path, "is a folder" if is_folder(path) else "is not executable") for path in paths)
    return tuple(f"{path} {kind}" for path, kind in kinds if is_folder(path) or is_file(path))
