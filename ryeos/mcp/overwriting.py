"""Asking the user before a copy replaces another file, where the client can ask."""

from collections.abc import Mapping
from typing import Any

from ryeos.mcp.elicitation import (
    Question,
    States,
    can_ask,
    has_responses,
    input_required,
    response_of,
)
from ryeos.mcp.events import Call

OVERWRITE = "overwrite"


def confirmed(states: States, call: Call, refused: Mapping[str, Any]) -> dict[str, Any] | bool:
    """Whether the user wants the file replaced; or the result that asks for it.

    ``refused`` is the answer that says which file is in the way. Raises RpcError.
    """
    if has_responses(call):
        content = response_of(states, call, OVERWRITE)
        return content is not None and content.get(OVERWRITE) is True
    if not can_ask(call.caller):
        return False
    rules = {"type": "boolean", "description": "replace it; it is kept as .bak", "default": False}
    question = Question(f"{refused['error']}. Replace it?", {OVERWRITE: rules})
    return input_required(states, call, OVERWRITE, question)
