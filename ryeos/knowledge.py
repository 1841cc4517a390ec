"""Giving a knowledge item to whoever asked: its text and its metadata, nothing filled in. Pure."""

from typing import Any

from ryeos.items import ItemRef
from ryeos.metadata.knowledge import parse_knowledge

INSTRUCTIONS = "Use the content as reference; it asks for nothing to be done."


def render_knowledge(
    text: str, ref: ItemRef, suffix: str, *, dry_run: bool = False
) -> dict[str, Any]:
    """The envelope with the text, with ``dry_run`` its metadata alone. Raises MetadataError."""
    knowledge = parse_knowledge(text, suffix)
    metadata = dict(knowledge.metadata)
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
        "content": knowledge.body or text,
        "data": {"id": ref.id, "title": metadata.get("title"), "content": knowledge.body or text},
        "your_directions": INSTRUCTIONS,
        "metadata": metadata,
    }
