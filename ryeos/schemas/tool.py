"""The JSON Schema of a tool's header, where the file is YAML, JSON or TOML.

A tool may have keys of its own, so none is refused. A graph has its own schema.
"""

from typing import Any

from ryeos.schemas.header import FIELDS, without_unknown_keys
from ryeos.schemas.parts import DRAFT

_BLOCKS = without_unknown_keys(FIELDS)

SCHEMA: dict[str, Any] = {
    "$schema": DRAFT,
    "title": "Rye tool",
    "description": "A tool of Rye whose file is data: what it takes and what runs it.",
    "type": "object",
    "properties": {
        **FIELDS,
        "anchor": _BLOCKS["anchor"],
        "verify_deps": _BLOCKS["verify_deps"],
    },
    "required": ["executor_id"],
}
