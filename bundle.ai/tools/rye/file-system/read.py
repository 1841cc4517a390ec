"""Reads a text; on request with an id before each line, by which `edit_lines` finds it again."""

import base64

from confined import RefusedError, answered, digest
from texts import line_ids, media_type, text_of

__version__ = "1.1.0"
__tool_type__ = "python"
__executor_id__ = "rye/core/runtimes/python/function"
__category__ = "rye/file-system"
__tool_description__ = "Read a file of the project: a text, or a picture"
__tags__ = ["read", "open", "view", "show", "file", "image", "picture", "png", "screenshot"]

ANCHOR = {
    "enabled": True,
    "mode": "always",
    "env_paths": {"PYTHONPATH": {"prepend": ["{tool_dir}/lib"]}},
}
CONFIG_RESOLVE = {"path": "file-system/access.yaml", "spaces": ["user", "system"]}
SANDBOX = {"read": ["{project}", "{config.allow}"], "env": ["USER_SPACE"]}
CONFIG_SCHEMA = {
    "type": "object",
    "required": ["path"],
    "additionalProperties": False,
    "properties": {
        "path": {"type": "string", "description": "The file, relative to the project"},
        "offset": {"type": "integer", "minimum": 1, "default": 1, "description": "First line"},
        "limit": {
            "type": "integer",
            "minimum": 1,
            "maximum": 100000,
            "default": 2000,
            "description": "At most so many lines",
        },
        "max_bytes": {
            "type": "integer",
            "minimum": 100,
            "maximum": 1000000,
            "default": 28000,
            "description": "At most so many bytes of text; next_offset is where more of it begins",
        },
        "ids": {
            "type": "boolean",
            "default": False,
            "description": "NUMBER:ID|text for each line, for edit_lines",
        },
        "encoding": {"type": "string", "description": "Its encoding, where it is not seen"},
        "as_base64": {
            "type": "boolean",
            "default": False,
            "description": "The bytes of any file, at most max_bytes, as base64",
        },
    },
    "examples": [{"path": "README.md", "limit": 20}],
}

MAX_LINE = 2000
PICTURES = ("image/png", "image/jpeg", "image/gif", "image/webp")
MAX_PICTURE = 3500000


def execute(params: dict, project_path: str) -> dict:
    """The lines asked for, the file's hash, and how it is written."""
    return answered(read, params, project_path)


def read(params: dict, folders: object) -> dict:
    """As `execute`. Raises RefusedError, OSError."""
    with folders.readable(params["path"]) as place:
        data, _ = place.read()
    told = {"path": place.shown, "size": len(data), "hash": digest(data)}
    if params["as_base64"]:
        start = data[: params["max_bytes"]]
        cut = {"truncated": True} if len(start) < len(data) else {}
        return told | {"base64": base64.b64encode(start).decode("ascii"), **cut}
    try:
        text = text_of(data, params.get("encoding", ""))
    except LookupError:
        raise RefusedError(f"encoding: there is none named {params['encoding']}") from None
    except UnicodeError as error:
        raise RefusedError(
            f"{place.shown}: {error}", "leave out encoding, or give another"
        ) from None
    if text is None:
        return told | binary(data)
    return told | text.describe() | shown(text.lines, params)


def binary(data: bytes) -> dict:
    """What bytes are that are no text; a picture is shown as one."""
    kind = media_type(data)
    told = {"binary": True, "media_type": kind}
    if kind not in PICTURES or len(data) > MAX_PICTURE:
        return told
    picture = {"type": "image", "mimeType": kind, "data": base64.b64encode(data).decode("ascii")}
    return told | {"mcp_content": [picture]}


def shown(lines: list, params: dict) -> dict:
    """The lines that fit, and where the next ones begin."""
    first, left, pieces = params["offset"] - 1, params["max_bytes"], []
    if lines and first >= len(lines):
        raise RefusedError(
            f"offset: expected at most {len(lines)}, the last line, found {first + 1}"
        )
    ids = line_ids(lines) if params["ids"] else ()
    is_cut = False
    for at, line in enumerate(lines[first : first + params["limit"]], first):
        kept = line if len(line) <= MAX_LINE else f"{line[:MAX_LINE]}... ({len(line)} characters)"
        is_cut = is_cut or kept is not line
        piece = f"{at + 1}:{ids[at]}|{kept}\n" if ids else f"{kept}\n"
        left -= len(piece.encode("utf-8", "surrogatepass"))
        if left < 0 and pieces:
            break
        pieces.append(piece)
    after = first + len(pieces)
    more = {"next_offset": after + 1} if after < len(lines) else {}
    cut = {"truncated": True} if more or is_cut else {}
    return {"total_lines": len(lines), "content": "".join(pieces), **cut, **more}
