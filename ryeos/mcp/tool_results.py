"""The answer of a tool as the result of ``tools/call``."""

import json
from collections.abc import Mapping
from typing import Any

from lillux.errors import LilluxError
from ryeos.context import Context
from ryeos.mcp.outputs import Kept, windowed

_MEDIA = "mcp_content"
_MEDIA_TYPES = frozenset({"text", "image", "audio", "resource_link"})


def tool_result(
    answer: Mapping[str, Any], context: Context, *, kept_as: str = ""
) -> dict[str, Any]:
    """The envelope as text and as structure, and what the tool itself wants shown.

    What is too large for a message is kept, under a new name unless there is one for it.
    """
    envelope, kept = dict(answer), None
    try:
        envelope, kept = windowed(envelope, context, name=kept_as)
    except LilluxError as error:  # nowhere to keep it: then it goes out whole
        envelope["warnings"] = [*envelope.get("warnings", ()), str(error)]
    text = json.dumps(envelope, ensure_ascii=False, separators=(",", ":"), default=str)
    structure = json.loads(text)
    return {
        "content": [{"type": "text", "text": text}, *_media(structure), *_links(kept)],
        "structuredContent": structure,
        "isError": envelope.get("status") == "error",
    }


def _media(envelope: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Content blocks that the tool itself gave."""
    data = envelope.get("data")
    blocks = data.get(_MEDIA) if isinstance(data, dict) else None
    if not isinstance(blocks, list):
        return []
    return [
        block for block in blocks if isinstance(block, dict) and block.get("type") in _MEDIA_TYPES
    ]


def _links(kept: Kept | None) -> list[dict[str, Any]]:
    if kept is None:
        return []
    return [
        {
            "type": "resource_link",
            "uri": kept.uri,
            "name": kept.path.name,
            "mimeType": "text/plain",
            "size": kept.size_bytes,
        }
    ]
