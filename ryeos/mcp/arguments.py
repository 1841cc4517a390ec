"""Checking the arguments of a call against the table. Pure.

Lenient on three habits of models: an object sent as its JSON text, numbers and booleans sent as
text, and null for what may be left out. Everything else that does not fit is an ArgumentError that
names it, what was expected and what was found.
"""

import json
from collections.abc import Mapping
from typing import Any

from ryeos.mcp.parameters import ABSENT, Parameter
from ryeos.mcp.tool_table import Tool
from ryeos.request_errors import ArgumentError
from ryeos.specs import type_name

_MAX_SHOWN = 60
_BOOLEANS = {"true": True, "false": False}
_MAX_DIGITS = 15


def check_arguments(tool: Tool, arguments: Mapping[str, object]) -> dict[str, Any]:
    """The arguments with defaults filled in, those left out without a default missing.

    Raises ArgumentError.
    """
    rows = {row.name: row for row in tool.parameters}
    for name in arguments:
        if name not in rows:
            raise _unknown(str(name), tool)
    checked: dict[str, Any] = {}
    for row in tool.parameters:
        value = arguments.get(row.name)
        if value is not None:
            checked[row.name] = _checked(row, value)
        elif row.required:
            raise ArgumentError(
                row.name, f"expected by {tool.name}, found nothing", hint=row.description
            )
        elif row.default is not ABSENT:
            checked[row.name] = row.default
    return checked


def _unknown(name: str, tool: Tool) -> ArgumentError:
    from difflib import get_close_matches

    known = [row.name for row in tool.parameters]
    close = get_close_matches(name, known, 1, 0.5)
    meant = f"did you mean {close[0]}? " if close else ""
    return ArgumentError(
        name[:_MAX_SHOWN],
        f"{tool.name} has no such argument",
        hint=f"{meant}{tool.name} takes {', '.join(known)}",
        **({"closest": close[0]} if close else {}),
        valid=known,
    )


def _checked(row: Parameter, value: object) -> object:
    match row.type:
        case "string":
            return _string(row, value)
        case "integer":
            return _integer(row, value)
        case "boolean":
            return boolean(row.name, value)
    return _object(row, value)


def _string(row: Parameter, value: object) -> str:
    if not isinstance(value, str):
        raise _wrong(row, "a string", value)
    if row.enum and value not in row.enum:
        from difflib import get_close_matches

        close = get_close_matches(value, row.enum, 1, 0.5)
        hint = f"did you mean {close[0]}?" if close else ""
        raise _wrong(row, f"one of {', '.join(row.enum)}", value, hint=hint)
    return value


def _integer(row: Parameter, value: object) -> int:
    number = value
    if isinstance(value, str):
        digits = value.strip().removeprefix("-")
        if digits.isascii() and digits.isdecimal() and len(digits) <= _MAX_DIGITS:
            number = int(value)
    elif isinstance(value, float) and value.is_integer():
        number = int(value)
    if not isinstance(number, int) or isinstance(number, bool):
        raise _wrong(row, "an integer", value)
    low, high = row.minimum, row.maximum
    if (low is not None and number < low) or (high is not None and number > high):
        bounds = f"{low} to {high}" if high is not None else f"{low} or more"
        raise _wrong(row, bounds, value)
    return number


def boolean(name: str, value: object) -> bool:
    """The value of an argument that is true or false. Raises ArgumentError."""
    found = _BOOLEANS.get(value.strip().lower()) if isinstance(value, str) else value
    if not isinstance(found, bool):
        raise _wrong(Parameter(name=name, type="boolean", description=""), "true or false", value)
    return found


def _object(row: Parameter, value: object) -> dict[str, Any]:
    found = value
    if isinstance(value, str):
        try:
            found = json.loads(value) if value.strip() else {}
        except (ValueError, RecursionError):
            raise _wrong(row, "an object, or its JSON", value) from None
    if not isinstance(found, dict):
        raise _wrong(row, "an object", value)
    return found


def _wrong(row: Parameter, expected: str, value: object, *, hint: str = "") -> ArgumentError:
    kind = type_name(value)
    shown = repr(value[:_MAX_SHOWN]) if isinstance(value, str) else str(value)[:_MAX_SHOWN]
    found = shown if isinstance(value, str | int | float) else f"{kind} {shown}"
    return ArgumentError(
        row.name,
        f"expected {expected}, found {found}",
        hint=hint,
        expected=expected,
        **({"valid": list(row.enum)} if row.enum else {}),
    )
