"""Writes a whole file, at once or not at all."""

import base64
import binascii
import os

from confined import RefusedError, answered, digest

__version__ = "1.0.0"
__tool_type__ = "python"
__executor_id__ = "rye/core/runtimes/python/function"
__category__ = "rye/file-system"
__tool_description__ = (
    "Create a new file and the directory that it is in, or replace one on request"
)
__tags__ = ["write", "create", "new", "file", "save", "make", "directory", "folder", "mkdir"]

ANCHOR = {
    "enabled": True,
    "mode": "always",
    "env_paths": {"PYTHONPATH": {"prepend": ["{tool_dir}/lib"]}},
}
CONFIG_RESOLVE = {"path": "file-system/access.yaml", "spaces": ["user", "system"]}
SANDBOX = {
    "read": ["{project}", "{config.allow}"],
    "write": ["{project}", "{config.allow}"],
    "env": ["USER_SPACE"],
}
CONFIG_SCHEMA = {
    "type": "object",
    "required": ["path"],
    "additionalProperties": False,
    "properties": {
        "path": {"type": "string", "description": "The file, relative to the project"},
        "content": {"type": "string", "description": "The text of the file"},
        "content_base64": {"type": "string", "description": "Its bytes, instead of content"},
        "encoding": {
            "type": "string",
            "default": "utf-8",
            "description": "How content is written",
        },
        "create_folders": {
            "type": "boolean",
            "default": True,
            "description": "Make the folders that are missing",
        },
        "overwrite": {
            "type": "boolean",
            "default": False,
            "description": "Replace a file that is there, whatever it holds",
        },
        "hash": {
            "type": "string",
            "description": "Replace a file only while it has this hash, which read shows",
        },
    },
    "examples": [{"path": "notes/today.md", "content": "Tea.\n"}],
}


def execute(params: dict, project_path: str) -> dict:
    """Path, size and hash of what was written."""
    return answered(write, params, project_path)


def write(params: dict, folders: object) -> dict:
    """As `execute`. Raises RefusedError, OSError."""
    data = content(params)
    with folders.writable(params["path"], create_folders=params["create_folders"]) as place:
        if params["path"].endswith(("/", os.sep)) or place.name == ".":
            raise RefusedError(f"{params['path']}: expected the name of a file, found a folder's")
        if place.status() is None:
            if "hash" in params:
                raise RefusedError(f"{place.shown}: expected the file of this hash, found none")
            place.replace(data)
            return told(place, data, created=True)
        old, status = place.read()
        if "hash" in params and digest(old) != params["hash"]:
            problem = f"expected hash {params['hash'][:12]}..., found {digest(old)[:12]}..."
            raise RefusedError(f"{place.shown}: it was changed: {problem}", "read it again")
        if "hash" not in params and not params["overwrite"]:
            raise RefusedError(
                f"{place.shown}: there is such a file already",
                "give its hash from read, or overwrite: true; edit_lines changes single lines",
            )
        owner = (status.st_uid, status.st_gid) if hasattr(os, "geteuid") else None
        place.replace(data, mode=status.st_mode, owner=owner)
        return told(place, data, created=False)


def told(place: object, data: bytes, *, created: bool) -> dict:
    """The answer."""
    return {"path": place.shown, "size": len(data), "hash": digest(data), "created": created}


def content(params: dict) -> bytes:
    """What the file is to hold."""
    if ("content" in params) is ("content_base64" in params):
        raise RefusedError("expected one of content and content_base64")
    try:
        if "content" in params:
            return params["content"].encode(params["encoding"])
        return base64.b64decode(params["content_base64"], validate=True)
    except LookupError:
        raise RefusedError(f"encoding: there is none named {params['encoding']}") from None
    except UnicodeEncodeError as error:
        is_plain = params["encoding"].lower() in {"utf-8", "utf8"}
        hint = "content_base64 writes any bytes" if is_plain else "leave out encoding for UTF-8"
        raise RefusedError(f"content: {error}", hint) from None
    except binascii.Error as error:
        raise RefusedError(f"content_base64: {error}") from None
