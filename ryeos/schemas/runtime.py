"""The JSON Schema of a runtime file. Its readers: `ryeos.specs` and `ryeos.unknown_keys`."""

from typing import Any

from ryeos.schemas.header import FIELDS, without_unknown_keys
from ryeos.schemas.parts import DRAFT, anything
from ryeos.specs import RUNTIME_TYPE
from ryeos.unknown_keys import FOREIGN

SCHEMA: dict[str, Any] = {
    "$schema": DRAFT,
    "title": "Rye runtime",
    "description": "How tools of one kind are run: which interpreter, with which arguments.",
    "type": "object",
    "properties": {
        **without_unknown_keys(FIELDS),
        "tool_type": {"const": RUNTIME_TYPE, "description": "What the file is."},
        **{key: anything("Not read by the engine.") for key in sorted(FOREIGN)},
    },
    "patternProperties": {"^(x-|_)": {}},
    "additionalProperties": False,
    "required": ["tool_type", "executor_id"],
}
