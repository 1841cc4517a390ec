"""Reads a page of the web."""

import hashlib

from guarded import Guard, Refusal, Reply, request
from readable import as_markdown, decoded, is_text

__version__ = "1.0.0"
__tool_type__ = "python"
__executor_id__ = "rye/core/runtimes/python/function"
__category__ = "rye/web"
__tool_description__ = "Read a page of the web as Markdown, or any text at an address"
__tags__ = ["fetch", "download", "url", "page", "website"]

ANCHOR = {
    "enabled": True,
    "mode": "always",
    "env_paths": {"PYTHONPATH": {"prepend": ["{tool_dir}/lib"]}},
}
CONFIG = {"timeout": 120}
CONFIG_RESOLVE = {"path": "web/access.yaml", "spaces": ["user", "system"]}
SANDBOX = {"network": "any"}
CONFIG_SCHEMA = {
    "type": "object",
    "required": ["url"],
    "additionalProperties": False,
    "properties": {
        "url": {"type": "string", "minLength": 1, "description": "http:// or https://"},
        "format": {
            "type": "string",
            "enum": ["markdown", "raw"],
            "default": "markdown",
            "description": "raw: the text as it was sent; markdown changes HTML only",
        },
        "offset": {
            "type": "integer",
            "minimum": 0,
            "default": 0,
            "description": "First character, to go on where an answer was cut",
        },
        "max_chars": {
            "type": "integer",
            "minimum": 1,
            "maximum": 200000,
            "default": 40000,
            "description": "Characters to give",
        },
        "max_bytes": {
            "type": "integer",
            "minimum": 1,
            "maximum": 10000000,
            "default": 2000000,
            "description": "Bytes to read of the body",
        },
        "timeout_s": {
            "type": "number",
            "exclusiveMinimum": 0,
            "maximum": 60,
            "default": 20,
            "description": "Seconds for all of it",
        },
    },
    "examples": [{"url": "https://example.com/"}],
}

BAD_REQUEST = 400


def execute(params: dict, project_path: str) -> dict:  # noqa: ARG001 - the seam
    """The text, with where it was found; a status of 400 and more is a failure with the text."""
    try:
        config = params.get("resolved_config") or {}
        reply = request(
            Guard(config.get("allow_private") or ()),
            "GET",
            params["url"],
            headers={"Accept": "text/html, text/*;q=0.9, application/json;q=0.9, */*;q=0.5"},
            timeout_s=params["timeout_s"],
            max_bytes=params["max_bytes"],
        )
    except Refusal as refusal:
        return refusal.answer()
    found = described(reply)
    if is_text(found["content_type"], reply.body):
        found |= window(params, *text_of(reply, found["content_type"], params["format"]))
    if reply.status >= BAD_REQUEST:
        return {"success": False, "error": f"{reply.url[:200]}: status {reply.status}", **found}
    return {"success": True, **found}


def described(reply: Reply) -> dict:
    """What every reply shows."""
    return {
        "url": reply.url,
        "status": reply.status,
        "content_type": reply.headers.get("content-type", ""),
        "bytes": len(reply.body),
        "sha256": hashlib.sha256(reply.body).hexdigest(),
        "truncated": reply.cut,
    }


def text_of(reply: Reply, content_type: str, form: str) -> tuple:
    """Title and text of a body."""
    text = decoded(reply.body, content_type)
    is_html = "html" in content_type.lower() or text[:200].lstrip().lower().startswith(
        "<!doctype html"
    )
    return as_markdown(text, reply.url) if is_html and form == "markdown" else ("", text)


def window(params: dict, title: str, text: str) -> dict:
    """The characters that were asked for, and where the next ones are."""
    end = params["offset"] + params["max_chars"]
    part = {"title": title, "text": text[params["offset"] : end], "total_chars": len(text)}
    return part | ({"next_offset": end} if end < len(text) else {})
