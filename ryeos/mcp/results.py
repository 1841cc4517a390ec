"""The result of a tool as MCP has it: text, the same as a structure, and media.

``content[0]`` is text, for clients that show their model text; ``structuredContent`` is for others.
Blocks of content that the tool itself gave follow, and a link to what was too long to be shown.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from lillux.errors import LilluxError
from lillux.foreign_text import escaped
from ryeos.app.verb_arguments import wants_all
from ryeos.items.context import Context
from ryeos.mcp.brief import BLOCKS_KEY, brief, text_of
from ryeos.mcp.content_blocks import valid_blocks
from ryeos.mcp.hints import for_callers
from ryeos.mcp.outputs import KeptOutput, max_characters, windowed
from ryeos.mcp.wire import compact
from ryeos.trust.approvals import is_about_approval

# Of a line of 8 MiB; the rest is for what is around it.
MAX_RESULT_BYTES = 7_500_000


def tool_result(
    envelope: Mapping[str, Any],
    context: Context | None = None,
    *,
    verb: str = "execute",
    arguments: Mapping[str, Any] | None = None,
    kept_as: str = "",
    told: set[str] | None = None,
) -> dict[str, Any]:
    """The answer of ``tools/call``. With a context, what is too long is cut and kept there.

    It is kept under a new name unless there is one for it. ``arguments`` are those of the call,
    ``told`` the warnings of approval that the client has had: it gets each once.
    """
    verbose = wants_all(arguments or {})
    shown = envelope if verbose else brief(verb, envelope, arguments)
    if told is not None and not verbose:
        shown = _without_told(shown, told)
    structure, media, problems = _without_media(json.loads(compact(for_callers(shown))))
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
    text = escaped(compact(structure)) if verbose else text_of(structure)
    left_bytes = MAX_RESULT_BYTES - _sent_bytes(structure, text)
    if left_bytes < 0:
        structure, media, kept = _too_large(MAX_RESULT_BYTES - left_bytes), [], None
        text = text_of(structure)
    fitting = _fitting(media, left_bytes)
    if len(fitting) < len(media):
        said = f"{len(media) - len(fitting)} blocks of content are too large for a message"
        structure = _warned(structure, [said])
    return {
        "content": [
            {"type": "text", "text": text},
            *fitting,
            *_links(kept),
        ],
        "structuredContent": structure,
        "isError": structure.get("status") == "error",
    }


def _without_told(envelope: Mapping[str, Any], told: set[str]) -> Mapping[str, Any]:
    """The envelope without warnings of approval that an earlier one had; ``told`` gets others."""
    warnings = envelope.get("warnings")
    if not isinstance(warnings, list | tuple):
        return envelope
    lasting = [one for one in warnings if isinstance(one, str) and is_about_approval(one)]
    known = [one for one in lasting if one in told]
    left = [one for one in warnings if one not in known]
    told.update(lasting)
    rest = {name: value for name, value in envelope.items() if name != "warnings"}
    return {**rest, "warnings": left} if left else rest


MAX_TWICE_CHARACTERS = 2000
"""A longer text is sent once: a structure beside it would hold all of it again."""


def sent_once(result: Mapping[str, Any], arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The result as a client gets it: without the structure where that would only cost.

    Some clients show their model the structure and nothing else, so it is whole or not there: not
    beside pictures, which it cannot hold, and not beside a long text, unless ``verbose`` asks.
    """
    blocks = result.get("content", ())
    texts = [one["text"] for one in blocks if one.get("type") == "text"]
    is_media = any(one.get("type") in {"image", "audio"} for one in blocks)
    is_long = sum(map(len, texts)) > MAX_TWICE_CHARACTERS and not wants_all(arguments)
    left_out = {"structuredContent"} if is_media or is_long else set()
    return {name: value for name, value in result.items() if name not in left_out}


def _without_media(
    envelope: dict[str, Any],
) -> tuple[dict[str, Any], list[dict[str, Any]], list[str]]:
    """The envelope with its blocks of content only described, the blocks, and what is wrong."""
    data = envelope.get("data")
    blocks = data.get(BLOCKS_KEY) if isinstance(data, dict) else None
    if not isinstance(blocks, list) or not isinstance(data, dict):
        return envelope, [], []
    good, problems = valid_blocks(blocks)
    described = [_without_data(one) if isinstance(one, dict) else one for one in blocks]
    return {**envelope, "data": {**data, BLOCKS_KEY: described}}, good, problems


def _warned(structure: dict[str, Any], warnings: Sequence[str]) -> dict[str, Any]:
    if not warnings:
        return structure
    return {**structure, "warnings": [*structure.get("warnings", ()), *warnings]}


def _without_data(block: Mapping[str, Any]) -> dict[str, Any]:
    """A block less its data, which a model can make nothing of as text."""
    described = {name: value for name, value in block.items() if name != "data"}
    data = block.get("data")
    return {**described, "characters": len(data)} if isinstance(data, str) else described


def _sent_bytes(structure: Mapping[str, Any], text: str) -> int:
    """The bytes of the structure and its text in a message."""
    return len(compact(structure).encode()) + len(compact(text).encode())


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
        "hint": "ask for less of it",
    }


def _links(kept: KeptOutput | None) -> list[dict[str, Any]]:
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
