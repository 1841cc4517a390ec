"""Tools of other programs that models call by habit, and the items that do the same.

Only named in answers: nothing runs by such a name.
"""

import json
from collections.abc import Mapping
from typing import Any

_SHELL, _FILES, _WEB = "rye/bash/bash", "rye/file-system", "rye/web"
_ITEMS: Mapping[str, tuple[str, ...]] = {
    _SHELL: (
        *("bash", "shell", "sh", "terminal", "exec", "command", "runcommand", "runterminalcmd"),
        *("executecommand", "runshellcommand", "localshell", "runinterminal"),
    ),
    f"{_FILES}/read": ("read", "readfile", "view", "viewfile", "cat", "openfile", "viewimage"),
    f"{_FILES}/write": ("write", "writefile", "createfile", "writetofile", "savefile"),
    f"{_FILES}/edit_lines": (
        *("edit", "editfile", "editlines", "strreplace", "strreplacebasededittool", "replace"),
        *("replaceinfile", "applypatch", "multiedit", "updatefile", "inserteditintofile"),
    ),
    f"{_FILES}/ls": ("ls", "list", "listdir", "listdirectory", "listfiles", "dir"),
    f"{_FILES}/glob": ("glob", "find", "findfiles", "filesearch", "findpath"),
    f"{_FILES}/grep": ("grep", "ripgrep", "rg", "grepsearch", "searchfiles", "searchcode"),
    f"{_WEB}/fetch": ("webfetch", "fetchurl", "fetchwebpage", "httpget", "curl", "browse"),
    f"{_WEB}/search": ("websearch", "googlesearch", "searchweb"),
    "rye/code/git": ("git", "gitstatus", "gitdiff", "gitlog"),
}
_BY_NAME = {name: item for item, names in _ITEMS.items() for name in names}
_PARAMETERS = {"file_path": "path", "filepath": "path", "filename": "path", "cmd": "command"}
_MAX_SHOWN = 300


def call_instead(name: str, arguments: Mapping[str, Any]) -> dict[str, Any] | None:
    """The ``execute`` call that does what a tool of this name does elsewhere; None for no such."""
    plain = "".join(mark for mark in name.rpartition("__")[2].casefold() if mark.isalnum())
    item = name if "/" in name else _BY_NAME.get(plain)
    if item is None:
        return None
    parameters = {_PARAMETERS.get(key, key): value for key, value in arguments.items()}
    return {"name": "execute", "arguments": {"item_id": item, "parameters": parameters}}


def unknown_tool(name: str, arguments: Mapping[str, Any]) -> tuple[str, dict[str, Any] | None]:
    """What to say of a tool that is not offered, and the call to make instead of it."""
    call = call_instead(name, arguments)
    if call is None:
        return f'unknown tool: {name[:200]}; find an item: search {{"query": "..."}}', None
    shown = json.dumps(call["arguments"], ensure_ascii=False)
    if len(shown) > _MAX_SHOWN:
        shown = json.dumps({"item_id": call["arguments"]["item_id"], "parameters": "..."})
    return f"unknown tool: {name[:200]}; items are run by execute: execute {shown}", call
