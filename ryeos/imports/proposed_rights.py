"""Rights that are proposed from what an entry names."""

import os
import re
from collections.abc import Sequence
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any

from ryeos.imports.launches import LOCAL_SUFFIXES, Launch
from ryeos.items.errors import SpecError
from ryeos.items.rights import ANY, LOOPBACK, NONE, read_rights
from ryeos.run.server_command import CONTAINERS, PROJECT_PLACE, program_name

_PLACE = re.compile(
    r"(?:--?[\w-]+=)?((?:/|~/|[A-Za-z]:[/\\]|\{project_path\}|\$\{HOME\}).*)", re.DOTALL
)
_PROGRAM_FOLDERS = frozenset({"bin", "sbin", "scripts", ".bin", "libexec", "macos"})
_PROGRAM_SUFFIXES = (".exe", ".cmd", ".bat", ".com", ".ps1", ".sh", ".appimage")
_STARTS_OTHERS = frozenset({"uv", "npm", "npx", "pnpm", "yarn", "bun", "bunx", "pipx", "uvx"})


def proposed_rights(
    launch: Launch, variables: Sequence[str], *, has_network: bool, project: Path | None = None
) -> dict[str, Any]:
    """A ``sandbox:`` block for a command line: step (5). A person widens it where it is too narrow.

    It reads the project and what its words name, writes what its words name, and reaches the
    network only where something says that it has to. A program that its words name it may start,
    and it never writes code that they name.
    """
    name = program_name(launch.words[0]) if launch.words and not launch.package else ""
    if name in CONTAINERS or name in _STARTS_OTHERS:
        named = sorted(set(variables))
        return {"read": ANY, "write": ANY, "network": ANY, "programs": ANY, "env": named or NONE}
    own = 0 if launch.package else (launch.words.index(launch.file) if launch.file else 0) + 1
    places = [place for word in launch.words[own:] if (place := _place(word))]
    code = _place(launch.file)
    folder = _code_folders(code, project) if code else []
    programs = [place for place in places if is_program(place, project)]
    kept = {*programs, *(place for place in places if _is_code(place))}
    return {
        "read": list(dict.fromkeys(["{project}", *places, *folder])),
        "write": list(dict.fromkeys([*(one for one in places if one not in kept), "{tmp}"])),
        "network": ANY if has_network or any("://" in word for word in launch.words) else NONE,
        "programs": list(dict.fromkeys(programs)) or NONE,
        "env": sorted(set(variables)) or NONE,
    }


def _place(word: str) -> str:
    """The path that a word names, as rights name it; ``""`` where it names none."""
    found = _PLACE.fullmatch(word)
    if not found:
        return ""
    path = found[1].replace(PROJECT_PLACE, "{project}").replace("${HOME}", "~")
    try:
        return (read_rights({"read": [path]}).read or ("",))[0]
    except SpecError:
        return ""


def is_program(place: str, project: Path | None) -> bool:
    """True if a path is that of a program, or of a folder of them.

    By its name, and by what is there: nothing else of this file looks at a machine.
    """
    parts = re.split(r"[/\\]", place.lower())
    if _PROGRAM_FOLDERS & set(parts[-2:]) or parts[-1].endswith(_PROGRAM_SUFFIXES):
        return True
    path = _path_of(place, project)
    return path.is_absolute() and path.is_file() and os.access(path, os.X_OK)


def _is_code(place: str) -> bool:
    return place.lower().endswith((*LOCAL_SUFFIXES, ".so", ".dll", ".dylib", ".node", ".wasm"))


def _path_of(place: str, project: Path | None) -> Path:
    return Path(place.replace("{project}", str(project)) if project else place).expanduser()


def _code_folders(code: str, project: Path | None) -> list[str]:
    """The folders that a program's file is read with: its own, and the packages that it imports.

    Where the file is a link, as those in ``.bin`` are, also those of what it leads to.
    """
    from ryeos.run.node_places import packages_root

    found, path = [_folder(code)], _path_of(code, project)
    if path.is_absolute():
        real = Path(os.path.realpath(path))
        roots = [packages_root(path), packages_root(real) if real != path else None]
        found += [_as_place(root, project) for root in roots if root]
    return list(dict.fromkeys(found))


def _as_place(folder: Path, project: Path | None) -> str:
    if project and folder.is_relative_to(project):
        return f"{{project}}/{folder.relative_to(project).as_posix()}".removesuffix("/.")
    return str(folder)


def _folder(path: str) -> str:
    is_windows = re.match(r"[A-Za-z]:", path)
    parent = (PureWindowsPath if is_windows else PurePosixPath)(path).parent
    return str(parent)


def rights_of_address(url: str) -> dict[str, Any]:
    """A ``sandbox:`` block for a server at an address: this host alone. Raises InvalidUrlError."""
    from lillux.http.urls import is_loopback, parse_address

    place = parse_address(re.sub(r"\$\{[A-Z0-9_]+\}", "x", url))
    network: object = LOOPBACK if is_loopback(place.host) else [f"{place.host}:{place.port}"]
    return {"read": NONE, "write": NONE, "network": network, "programs": NONE, "env": NONE}
