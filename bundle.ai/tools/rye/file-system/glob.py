"""Finds files by the patterns of their paths."""

import os
from datetime import UTC, datetime

from confined import RefusedError, answered, kind_of
from ignored import Glob
from walk import Walk, printable

__version__ = "1.0.0"
__tool_type__ = "python"
__executor_id__ = "rye/core/runtimes/python/function"
__category__ = "rye/file-system"
__tool_description__ = "Find files of the project by patterns like src/**/*.{py,pyi}"
__tags__ = ["find", "files", "name", "pattern", "list"]

ANCHOR = {
    "enabled": True,
    "mode": "always",
    "env_paths": {"PYTHONPATH": {"prepend": ["{tool_dir}/lib"]}},
}
CONFIG_RESOLVE = {"path": "file-system/access.yaml", "spaces": ["user", "system"]}
SANDBOX = {"read": ["{project}", "{config.allow}"], "env": ["USER_SPACE"]}
CONFIG_SCHEMA = {
    "type": "object",
    "required": ["pattern"],
    "additionalProperties": False,
    "properties": {
        "pattern": {
            "type": ["string", "array"],
            "items": {"type": "string"},
            "minLength": 1,
            "description": "* ? [a-z] {a,b}, ** for any folders; ! before one takes paths out",
        },
        "path": {"type": "string", "default": ".", "description": "The folder to look in"},
        "kind": {
            "type": "string",
            "enum": ["file", "folder", "any"],
            "default": "file",
            "description": "What to find",
        },
        "hidden": {
            "type": "boolean",
            "default": False,
            "description": "Names that begin with a dot too",
        },
        "ignored": {
            "type": "boolean",
            "default": False,
            "description": "What .gitignore leaves out too",
        },
        "sort": {
            "type": "string",
            "enum": ["name", "modified"],
            "default": "name",
            "description": "By path, or the newest first",
        },
        "limit": {
            "type": "integer",
            "minimum": 1,
            "maximum": 20000,
            "default": 1000,
            "description": "At most so many",
        },
    },
    "examples": [{"pattern": "**/*.md", "sort": "modified"}],
}


def execute(params: dict, project_path: str) -> dict:
    """The paths, relative to the project or the allowed folder."""
    return answered(found, params, project_path)


def found(params: dict, folders: object) -> dict:
    """As `execute`. Raises RefusedError, OSError."""
    given = params["pattern"]
    patterns = [given] if isinstance(given, str) else given
    try:
        glob = Glob(patterns, anywhere=False)
    except ValueError as error:
        raise RefusedError(f"pattern: {error}") from None
    with folders.readable(params["path"]) as place:
        status = place.status()
        if status is None or kind_of(status.st_mode) != "folder":
            raise RefusedError(f"{place.shown}: expected a folder, found none")
        walk = Walk(hidden=params["hidden"], ignored=params["ignored"])
        hits = []
        for path, _, inner, files in walk.folders(place):
            wanted = {"file": files, "folder": inner, "any": [*inner, *files]}[params["kind"]]
            hits += [
                (path + entry.name, entry_time(entry, params["sort"]))
                for entry in wanted
                if glob(path + entry.name)
            ]
    if params["sort"] == "modified":
        hits.sort(key=lambda hit: (-hit[1], hit[0]))
    else:
        hits.sort()
    above = "" if place.shown == "." else f"{place.shown}/"
    base = place.root if place.root != folders.roots[0] else ""
    shown = hits[: params["limit"]]
    answer = {
        "total": len(hits),
        "paths": [printable(os.path.join(base, above + hit)) for hit, _ in shown],
    }
    if params["sort"] == "modified":
        answer["modified"] = [datetime.fromtimestamp(int(at), UTC).isoformat() for _, at in shown]
    if len(shown) < len(hits) or walk.is_cut:
        answer |= {"truncated": True, "hint": "a narrower pattern or path, or a higher limit"}
    elif not hits and any(leads_away(pattern) for pattern in patterns):
        answer["hint"] = "a pattern is relative to path, which names the folder"
    return answer


def leads_away(pattern: str) -> bool:
    """Whether it is written as if it were no path below a folder."""
    return os.path.isabs(pattern) or ".." in pattern.replace("\\", "/").split("/")


def entry_time(entry: object, sort: str) -> float:
    """When it was changed, if that is asked for."""
    if sort != "modified":
        return 0
    try:
        return entry.stat(follow_symlinks=False).st_mtime
    except OSError:
        return 0
