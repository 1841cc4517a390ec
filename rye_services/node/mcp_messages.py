"""What is wrong with a message to ``/mcp``, in plain words. Pure.

The SDK would tell it too, in the words of its validator, which repeat what was sent.
"""

import json
from typing import Any

from ryeos.items.specs import type_name

_PARSE_ERROR, _INVALID_REQUEST, _INVALID_PARAMS = -32700, -32600, -32602


def refusal_of(body: bytes) -> dict[str, Any] | None:
    """The JSON-RPC answer to what is no message, or no call of a tool; None for all else.

    Its ``id`` is None for what is no message at all.
    """
    try:
        message = json.loads(body)
    except (ValueError, RecursionError):
        return _refusal(None, _PARSE_ERROR, "expected a message of JSON-RPC, found no JSON")
    if not isinstance(message, dict):
        found = f"expected a message of JSON-RPC, found {type_name(message)}"
        return _refusal(None, _INVALID_REQUEST, found)
    problem = _problem_of_message(message)
    if problem:
        return _refusal(None, _INVALID_REQUEST, problem)
    number = message.get("id")
    if message.get("method") != "tools/call" or number is None:
        return None
    problem = _problem_of_call(message.get("params") or {})
    return _refusal(number, _INVALID_PARAMS, problem) if problem else None


def _problem_of_message(message: dict[str, Any]) -> str:
    if message.get("jsonrpc") != "2.0":
        return 'jsonrpc: expected "2.0"'
    number = message.get("id", 0)
    if not isinstance(number, str | int) or isinstance(number, bool):
        return f"id: expected a string or a number, found {type_name(number)}"
    if "result" in message or "error" in message:
        return ""
    if not isinstance(message.get("method"), str):
        return "method: expected a string"
    params = message.get("params")
    if params is not None and not isinstance(params, dict):
        return f"params: expected an object, found {type_name(params)}"
    return ""


def _problem_of_call(params: dict[str, Any]) -> str:
    if not isinstance(params.get("name"), str):
        return "name: expected the name of a tool"
    arguments = params.get("arguments")
    if arguments is not None and not isinstance(arguments, dict):
        return f"arguments: expected an object, found {type_name(arguments)}"
    return ""


def _refusal(number: str | int | None, code: int, problem: str) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": number, "error": {"code": code, "message": problem}}
