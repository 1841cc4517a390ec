"""The result of a tool as MCP has it: the envelope as text and as a structure, and media.

``content[0]`` is the JSON of ``structuredContent``, always. What the tool itself gave as blocks of
content follows, and a link to what was too long to be shown.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from lillux.errors import LilluxError
from ryeos.context import Context
from ryeos.mcp.compact_json import compact
from ryeos.mcp.content_blocks import BLOCKS_KEY, checked_blocks
from ryeos.mcp.hints import for_callers
from ryeos.mcp.outputs import Kept, max_characters, windowed

# Of a line of 8 MiB; the rest is for what is around it.
MAX_RESULT_BYTES = 7_500_000


def tool_result(
    envelope: Mapping[str, Any], context: Context | None = None, *, kept_as: str = ""
) -> dict[str, Any]:
    """What ``tools/call`` answers. With a context, what is too long is cut and kept there.

    It is kept under a new name unless there is one for it.
    """
    structure, media, problems = _without_media(json.loads(compact(for_callers(envelope))))
    structure = _warned(structure, problems)
    kept = None
    if context:
        limit, warnings = max_characters(context)
        try:
            structure, kept = windowed(structure, context, limit, name=kept_as)
        except LilluxError as error:  # nowhere to keep it: then it is only cut
            structure, _ = windowed(structure, None, limit)
            warnings = [*warnings, str(error)]
        structure = _warned(structure, warnings)
    left_bytes = MAX_RESULT_BYTES - _sent_bytes(structure)
    if left_bytes < 0:
        structure, media, kept = _too_large(MAX_RESULT_BYTES - left_bytes), [], None
    fitting = _fitting(media, left_bytes)
    if len(fitting) < len(media):
        said = f"{len(media) - len(fitting)} blocks of content are too large for a message"
        structure = _warned(structure, [said])
    return {
        "content": [{"type": "text", "text": compact(structure)}, *fitting, *_links(kept)],
        "structuredContent": structure,
        "isError": structure.get("status") == "error",
    }


def _without_media(
    envelope: dict[str, Any],
) -> tuple[dict[str, Any], list[dict[str, Any]], list[str]]:
    """The envelope with its blocks of content only described, the blocks, and what is wrong."""
    data = envelope.get("data")
    blocks = data.get(BLOCKS_KEY) if isinstance(data, dict) else None
    if not isinstance(blocks, list) or not isinstance(data, dict):
        return envelope, [], []
    good, problems = checked_blocks(blocks)
    described = [_described(one) if isinstance(one, dict) else one for one in blocks]
    return {**envelope, "data": {**data, BLOCKS_KEY: described}}, good, problems


def _warned(structure: dict[str, Any], warnings: Sequence[str]) -> dict[str, Any]:
    if not warnings:
        return structure
    return {**structure, "warnings": [*structure.get("warnings", ()), *warnings]}


def _described(block: Mapping[str, Any]) -> dict[str, Any]:
    """A block less its data, which a model can make nothing of as text."""
    described = {name: value for name, value in block.items() if name != "data"}
    data = block.get("data")
    return {**described, "characters": len(data)} if isinstance(data, str) else described


def _sent_bytes(structure: Mapping[str, Any]) -> int:
    """What the structure takes in a message, where it stands twice."""
    text = compact(structure)
    return len(text.encode()) + len(compact(text).encode())


def _fitting(blocks: list[dict[str, Any]], left_bytes: int) -> list[dict[str, Any]]:
    """The blocks that there is room for, each one that fits behind those before it."""
    fitting = []
    for block in blocks:
        size = len(compact(block).encode()) + 1
        if size <= left_bytes:
            left_bytes -= size
            fitting.append(block)
    return fitting


def _too_large(size: int) -> dict[str, Any]:
    return {
        "status": "error",
        "error": f"the answer takes {size} bytes, more than the {MAX_RESULT_BYTES} of a message",
        "code": "RESOURCE_EXCEEDED",
        "hint": "ask for less of it, or run it on the command line: rye run ITEM --json",
    }


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
