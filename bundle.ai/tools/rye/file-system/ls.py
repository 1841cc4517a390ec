"""Lists a folder."""

import os
from datetime import UTC, datetime

from confined import RefusedError, answered, kind_of
from ignored import rules_in
from walk import Walk, is_ignored, printable, rules_above

__version__ = "1.0.0"
__tool_type__ = "python"
__executor_id__ = "rye/core/runtimes/python/function"
__category__ = "rye/file-system"
__tool_description__ = "List the files and folders of a directory of the project"
__tags__ = ["list", "directory", "folder", "files", "dir"]

ANCHOR = {
    "enabled": True,
    "mode": "always",
    "env_paths": {"PYTHONPATH": {"prepend": ["{tool_dir}/lib"]}},
}
CONFIG_RESOLVE = {"path": "file-system/access.yaml", "spaces": ["user", "system"]}
SANDBOX = {"read": ["{project}", "{config.allow}"], "env": ["USER_SPACE"]}
CONFIG_SCHEMA = {
    "type": "object",
    "additionalProperties": False,
    "properties": {
        "path": {
            "type": "string",
            "default": ".",
            "description": "The folder, relative to the project",
        },
        "hidden": {
            "type": "boolean",
            "default": False,
            "description": "Names that begin with a dot too",
        },
        "ignored": {
            "type": "boolean",
            "default": True,
            "description": "false: leave out what .gitignore does",
        },
        "recursive": {
            "type": "boolean",
            "default": False,
            "description": "Files and folders below it too, in order of their paths",
        },
        "sort": {
            "type": "string",
            "enum": ["name", "modified", "size"],
            "default": "name",
            "description": "By name, or the newest or largest first",
        },
        "limit": {
            "type": "integer",
            "minimum": 1,
            "maximum": 10000,
            "default": 500,
            "description": "At most so many",
        },
        "offset": {
            "type": "integer",
            "minimum": 0,
            "default": 0,
            "description": "Pass over so many",
        },
    },
    "examples": [{"path": ".", "sort": "modified", "limit": 20}],
}


def execute(params: dict, project_path: str) -> dict:
    """What is in the folder."""
    return answered(listed, params, project_path)


def listed(params: dict, folders: object) -> dict:
    """As `execute`. Raises RefusedError, OSError."""
    with folders.readable(params["path"]) as place:
        status = place.status()
        if status is None:
            raise RefusedError(f"{place.shown}: there is no such folder")
        if kind_of(status.st_mode) != "folder":
            raise RefusedError(
                f"{place.shown}: expected a folder, found a {kind_of(status.st_mode)}"
            )
        entries = below(place, params) if params["recursive"] else inside(place, params)
    first, total = params["offset"], len(entries)
    shown = entries[first : first + params["limit"]]
    after = first + len(shown)
    more = {"truncated": True, "next_offset": after} if after < total else {}
    return {"path": place.shown, "total": total, "entries": shown, **more}


def below(place: object, params: dict) -> list:
    """All files and folders below a folder, a folder's path with a slash at its end."""
    found = []
    walk = Walk(hidden=params["hidden"], ignored=params["ignored"])
    for path, folder, folders, files in walk.folders(place):
        for entry in (*folders, *files):
            one = described(entry, folder)
            ending = "/" if one["kind"] == "folder" else ""
            found.append({**one, "name": f"{path}{one['name']}{ending}"})
    return in_order(found, params)


def inside(place: object, params: dict) -> list:
    """What lies in a folder itself."""
    folder = place.open_folder()
    try:
        return sorted_entries(folder, place, params)
    finally:
        if isinstance(folder, int):
            os.close(folder)


def sorted_entries(folder: object, place: object, params: dict) -> list:
    """All entries as answers, in order."""
    rules = []
    if not params["ignored"]:
        own = rules_in(folder)
        whole = "/".join([*place.parts, ""]) if place.parts else ""
        rules = [*rules_above(place), *([(len(whole), own)] if own else [])]
    found = []
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.startswith(".") and not params["hidden"]:
                continue
            path = "/".join([*place.parts, entry.name])
            is_folder = entry.is_dir(follow_symlinks=False)
            if rules and is_ignored(path, entry.name, rules, is_folder=is_folder):
                continue
            found.append(described(entry, folder))
    return in_order(found, params)


def in_order(found: list, params: dict) -> list:
    """The entries as wanted, without what only their order needs."""
    orders = {"modified": lambda one: (-one["time"], one["name"])}
    orders |= {"size": lambda one: (-one.get("size", 0), one["name"])}
    found.sort(key=orders.get(params["sort"], lambda one: one["name"]))
    for one in found:
        del one["time"]
    return found


def described(entry: object, folder: object) -> dict:
    """One entry; ``time`` is for sorting."""
    try:
        status = entry.stat(follow_symlinks=False)
    except OSError:
        return {"name": printable(entry.name), "kind": "gone", "time": 0}
    kind = kind_of(status.st_mode)
    told = {"name": printable(entry.name), "kind": kind, "time": status.st_mtime}
    told["modified"] = datetime.fromtimestamp(int(status.st_mtime), UTC).isoformat()
    if kind == "file":
        told["size"] = status.st_size
    if kind == "link":
        fd = folder if isinstance(folder, int) else None
        told["target"] = printable(
            os.readlink(entry.name if fd is not None else entry.path, dir_fd=fd)
        )
    return told
