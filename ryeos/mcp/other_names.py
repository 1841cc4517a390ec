"""Tools of other programs that models call by habit, and the items that do the same.

Only named in answers: nothing runs by such a name.

It is a file of its own as only a call of a tool that is not there imports it.
"""

import json
import shlex
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
_MAX_SHOWN = 300
# What an item takes, and what other programs call it. Other arguments of theirs say nothing here.
_PATH = {"path": "path", "file_path": "path", "filepath": "path", "filename": "path"}
_SEARCHED = {**_PATH, "pattern": "pattern", "query": "pattern", "regex": "pattern"}
_TAKEN: Mapping[str, Mapping[str, str]] = {
    _SHELL: {"command": "command", "cmd": "command", "cwd": "cwd", "workdir": "cwd"},
    f"{_FILES}/read": {**_PATH, "offset": "offset", "limit": "limit"},
    f"{_FILES}/write": {
        **_PATH,
        **dict.fromkeys(("content", "contents", "file_text", "text"), "content"),
    },
    f"{_FILES}/edit_lines": {**_PATH, "edits": "edits", "hash": "hash"},
    f"{_FILES}/ls": {**_PATH, "hidden": "hidden", "recursive": "recursive"},
    f"{_FILES}/glob": {**_SEARCHED, "hidden": "hidden"},
    f"{_FILES}/grep": {**_SEARCHED, "ignore_case": "ignore_case", "-i": "ignore_case"},
    f"{_WEB}/fetch": {"url": "url"},
    f"{_WEB}/search": {"query": "query", "q": "query"},
}
_OLD, _NEW = ("old_text", "old_string", "old_str"), ("new_text", "new_string", "new_str")


def call_instead(name: str, arguments: Mapping[str, Any]) -> dict[str, Any] | None:
    """The ``execute`` call that does what a tool of this name does elsewhere; None for no such."""
    plain = "".join(mark for mark in name.rpartition("__")[2].casefold() if mark.isalnum())
    item = name if "/" in name else _BY_NAME.get(plain)
    if item is None:
        return None
    if plain == "strreplacebasededittool" and arguments.get("command") in _VIEW_OR_CREATE:
        item = _VIEW_OR_CREATE[arguments["command"]]
    return {
        "name": "execute",
        "arguments": {"item_id": item, "parameters": _parameters(item, arguments)},
    }


_VIEW_OR_CREATE = {"view": f"{_FILES}/read", "create": f"{_FILES}/write"}


def _parameters(item: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments by the names that the item has for them."""
    taken = _TAKEN.get(item)
    if taken is None:
        return dict(arguments)
    found = {taken[key]: value for key, value in arguments.items() if key in taken}
    if item == _SHELL and isinstance(found.get("command"), list):
        found["command"] = shlex.join(map(str, found["command"]))
    if item == f"{_FILES}/edit_lines":
        wanted = found.get("edits")
        given = wanted if isinstance(wanted, list) else [arguments]
        edits = [edit for one in given if isinstance(one, Mapping) if (edit := _edit(one))]
        found |= {"edits": edits} if edits else {}
    return found


def _edit(given: Mapping[str, Any]) -> dict[str, Any]:
    if "insert_line" in given:
        text = str(given.get("insert_text", given.get("new_str", "")))
        line = given["insert_line"]
        return {"action": "insert_after", "line": str(line or "start"), "text": text}
    old, new = (next((given[key] for key in keys if key in given), "") for keys in (_OLD, _NEW))
    return {"old_text": old, "new_text": new} if old else {}


def unknown_tool(name: str, arguments: Mapping[str, Any]) -> tuple[str, dict[str, Any] | None]:
    """The text on a tool that is not offered, and the call to make instead of it."""
    call = call_instead(name, arguments)
    if call is None:
        return f'unknown tool: {name[:200]}; find an item: search {{"query": "..."}}', None
    shown = json.dumps(call["arguments"], ensure_ascii=False)
    if len(shown) > _MAX_SHOWN:
        shown = json.dumps({"item_id": call["arguments"]["item_id"], "parameters": "..."})
    return f"unknown tool: {name[:200]}; items are run by execute: execute {shown}", call
