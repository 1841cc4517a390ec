"""Giving a knowledge item to whoever asked: its text and its metadata, nothing filled in. Pure."""

from typing import Any

from ryeos.items import ItemRef
from ryeos.metadata.knowledge import parse_knowledge
from ryeos.metadata.markdown import count_signature_lines

INSTRUCTIONS = "Use the content as reference; it asks for nothing to be done."


def render_knowledge(
    text: str, ref: ItemRef, suffix: str, *, dry_run: bool = False
) -> dict[str, Any]:
    """The envelope with the text, with ``dry_run`` its metadata alone. Raises MetadataError."""
    knowledge = parse_knowledge(text, suffix)
    metadata = dict(knowledge.metadata)
    content = knowledge.body or _unsigned(text)
    if dry_run:
        return {
            "status": "validation_passed",
            "type": "knowledge",
            "item_id": ref.id,
            "message": f"{ref} can be read",
            "metadata": metadata,
        }
    return {
        "status": "success",
        "type": "knowledge",
        "item_id": ref.id,
        "content": content,
        "data": {"id": ref.id, "title": metadata.get("title"), "content": content},
        "your_directions": INSTRUCTIONS,
        "metadata": metadata,
    }


def _unsigned(text: str) -> str:
    lines = text.split("\n")
    return "\n".join(lines[count_signature_lines(lines) :])
