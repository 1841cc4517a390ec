"""Placeholders in entries of clients, as items write them."""

import re
from collections.abc import Callable, Mapping
from types import MappingProxyType

from ryeos.imports.launches import EntryError
from ryeos.imports.plan import ImportSource
from ryeos.run.server_command import PROJECT_PLACE

_PLACEHOLDER = re.compile(r"\$\{([^{}]*)\}|\{env:([^{}]*)\}")
_VARIABLE = re.compile(r"[A-Z_][A-Z0-9_]*")
_WITH_DEFAULT = re.compile(r"([A-Z_][A-Z0-9_]*):-[^{}]*")
_BARE = re.compile(r"\$([A-Z_][A-Z0-9_]*)")
VARIABLE_REFERENCE = re.compile(r"\$\{[A-Z_][A-Z0-9_]*(?::-[^}]*)?\}|\{project_path\}")
_FIXED = {
    "workspaceFolder": PROJECT_PLACE,
    "workspaceRoot": PROJECT_PLACE,
    "userHome": "${HOME}",
    "pathSeparator": "/",
    "/": "/",
}


def own_folders(source: ImportSource) -> Mapping[str, str]:
    """Folders that a client puts in by a name of its own: that of a plugin, and of the project."""
    folder = source.path.absolute().parent
    folder = folder.parent if folder.name == ".claude-plugin" else folder
    place = str(folder)
    if source.project and folder.is_relative_to(source.project):
        below = folder.relative_to(source.project).as_posix()
        place = PROJECT_PLACE if below == "." else f"{PROJECT_PLACE}/{below}"
    project = {"CLAUDE_PROJECT_DIR": PROJECT_PLACE} if source.project else {}
    return {"CLAUDE_PLUGIN_ROOT": place, "extensionPath": place, **project}


def translated(
    text: str,
    where: str,
    own: Callable[[str], str],
    *,
    folders: Mapping[str, str] = MappingProxyType({}),
    bare: bool = False,
) -> str:
    """A text with the placeholders of items: step (1). Raises EntryError.

    ``folders`` are what `own_folders` says. ``own`` gives the variable for something that the
    client asks its user for. ``bare`` says that ``$NAME`` is a placeholder too.
    """
    if any(character < " " and character != "\t" for character in text) or "\x7f" in text:
        raise EntryError(f"{where}: expected a text of one line, found a control character")

    def replacement(found: re.Match[str]) -> str:
        inner = found[1] if found[1] is not None else f"env:{found[2]}"
        kind, _, name = inner.partition(":")
        folder = folders.get(name if kind == "env" else inner.partition(":-")[0])
        if folder is not None:
            return folder
        if inner in _FIXED or kind == "workspaceFolder":
            return _FIXED.get(inner, PROJECT_PLACE)
        if kind == "input" and name:
            return f"${{{own(name)}}}"
        if kind == "env" and _VARIABLE.fullmatch(name):
            return f"${{{name}}}"
        if _VARIABLE.fullmatch(inner) or _WITH_DEFAULT.fullmatch(inner):
            return found[0]
        raise EntryError(
            f"{where}: {found[0][:60]} is filled by the client alone; write a variable in capitals"
        )

    filled = _PLACEHOLDER.sub(replacement, text)
    filled = re.sub(r"\$(CLAUDE_\w+)", lambda one: folders.get(one[1], one[0]), filled)
    return _BARE.sub(r"${\1}", filled) if bare else filled
