"""Arguments of a tool, validated by the rows of its parameters."""

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ryeos.app.parameters import ABSENT, MAX_BATCH, Parameter
from ryeos.app.verbs import OPTIONS, Tool, ToolArguments
from ryeos.items.errors import VerbArgumentError
from ryeos.items.refs import EXECUTABLE_KINDS, Kind, Reference, parse_reference
from ryeos.items.specs import type_name

if TYPE_CHECKING:
    from ryeos.app.workspace import Rye


_MAX_SHOWN = 60
_BOOLEANS = {"true": True, "false": False}
_MAX_DIGITS = 15


def valid_arguments(tool: Tool, arguments: Mapping[str, object]) -> ToolArguments:
    """The arguments with defaults filled in, those left out without a default missing.

    Those that were read for this tool already are as they are. Raises VerbArgumentError.
    """
    if isinstance(arguments, ToolArguments) and arguments.tool is tool:
        return arguments
    rows = {row.name: row for row in tool.parameters}
    for name in arguments:
        if name not in rows:
            raise _unknown_argument(str(name), tool)
    checked: dict[str, Any] = {}
    for row in tool.parameters:
        value = arguments.get(row.name)
        if value is not None:
            checked[row.name] = _validated(row, value)
        elif row.required:
            raise VerbArgumentError(
                row.name, f"expected by {tool.name}, found nothing", hint=row.description
            )
        elif row.default is not ABSENT:
            checked[row.name] = row.default
    return ToolArguments(tool, arguments, checked)


def with_options(arguments: Mapping[str, object]) -> dict[str, object]:
    """The arguments with those of ``options`` among them. Raises VerbArgumentError.

    It comes before anything that looks at an argument: no rule may miss one that is inside.
    """
    given = dict(arguments)
    options = given.pop(OPTIONS, None)
    if options is None:
        return given
    inner = _object_argument(Parameter(name=OPTIONS, type="object", description=""), options)
    for name in inner:
        if name in given or name == OPTIONS:
            raise VerbArgumentError(f"{OPTIONS}.{name}"[:_MAX_SHOWN], "given twice", hint="once")
    return {**given, **inner}


def wants_all(arguments: Mapping[str, object]) -> bool:
    """True if a call asks for all that is known, by ``verbose`` or ``trace``."""
    return any(str(arguments.get(name)).lower() == "true" for name in ("verbose", "trace"))


def _unknown_argument(name: str, tool: Tool) -> VerbArgumentError:
    from difflib import get_close_matches

    known = [row.name for row in tool.parameters]
    close = get_close_matches(name, known, 1, 0.6)
    plain = [row.name for row in tool.parameters if not row.is_rare]
    rare = [row.name for row in tool.parameters if row.is_rare]
    takes = f"{tool.name} takes {', '.join(plain)}"
    if rare:
        takes += f"; in {OPTIONS}: {', '.join(rare)}"
    return VerbArgumentError(
        name[:_MAX_SHOWN],
        f"{tool.name} has no such argument",
        hint=f"did you mean {close[0]}?" if close else takes,
        **({"closest": close[0]} if close else {}),
        valid=known,
    )


def _validated(row: Parameter, value: object) -> object:
    match row.type:
        case "string":
            return _string(row, value)
        case "integer":
            return _integer(row, value)
        case "boolean":
            return boolean(row.name, value)
        case "array":
            return _list_of_objects(row, value)
    return _object_argument(row, value)


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
    """The value of an argument that is true or false. Raises VerbArgumentError."""
    found = _BOOLEANS.get(value.strip().lower()) if isinstance(value, str) else value
    if not isinstance(found, bool):
        raise _wrong(Parameter(name=name, type="boolean", description=""), "true or false", value)
    return found


def _list_of_objects(row: Parameter, value: object) -> list[dict[str, Any]]:
    found = value
    if isinstance(value, str):
        try:
            found = json.loads(value)
        except (ValueError, RecursionError):
            raise _wrong(row, "a list, or its JSON", value) from None
    if not isinstance(found, list) or not 0 < len(found) <= MAX_BATCH:
        raise _wrong(row, f"a list of 1 to {MAX_BATCH} calls", value)
    return [_object_argument(row, one) for one in found]


def _object_argument(row: Parameter, value: object) -> dict[str, Any]:
    found = value
    if isinstance(value, str):
        try:
            found = json.loads(value) if value.strip() else {}
        except (ValueError, RecursionError):
            raise _wrong(row, "an object, or its JSON", value) from None
    if not isinstance(found, dict):
        raise _wrong(row, "an object", value)
    return found


def _wrong(row: Parameter, expected: str, value: object, *, hint: str = "") -> VerbArgumentError:
    kind = type_name(value)
    shown = repr(value[:_MAX_SHOWN]) if isinstance(value, str) else str(value)[:_MAX_SHOWN]
    found = shown if isinstance(value, str | int | float) else f"{kind} {shown}"
    return VerbArgumentError(
        row.name,
        f"expected {expected}, found {found}",
        hint=hint,
        expected=expected,
        **({"valid": list(row.enum)} if row.enum else {}),
    )


def rye_of(rye: "Rye", arguments: Mapping[str, object]) -> "Rye":
    """The Rye of the named project, else the server's own. Raises RyeError `NO_PROJECT`."""
    project = arguments.get("project_path")
    return rye.at(str(project)) if project else rye


def project_of(rye: "Rye") -> str | None:
    """The project that an answer is about, for the answer; None outside of one."""
    return str(rye.context.project_path) if rye.context.project_path else None


def item_reference(rye: "Rye", item_id: str, item_type: str | None) -> Reference:
    """The item that ``tool:a/b``, ``a/b`` with a type, or ``a/b`` alone means.

    Backslashes count as slashes, and a file suffix is left out where that names an item. Raises
    InvalidRefError.
    """
    reference = parse_reference(plain_reference(item_id), item_type)
    stem, dot, suffix = reference.id.rpartition(".")
    kinds = (reference.kind,) if reference.kind else EXECUTABLE_KINDS
    named = [kind for kind in kinds if dot and _names_files(rye, kind, f".{suffix}")]
    shorter = [Reference(kind, stem) for kind in named]
    if any(rye.resolver.find(ref) for short in shorter for ref in short.refs()):
        return Reference(reference.kind, stem)
    return reference


def _names_files(rye: "Rye", kind: Kind, suffix: str) -> bool:
    return any(space.has_suffix(kind, suffix) for space in rye.context.spaces)


def plain_reference(item_id: str) -> str:
    """The id with forward slashes; the path of an item's file, ``.ai/tools/a/b.py``, is its id."""
    kind, colon, path = item_id.rpartition(":")
    path = path.replace("\\", "/")
    while path.startswith("./"):
        path = path.removeprefix("./")
    for one in Kind:
        below = path.removeprefix(f".ai/{one.directory}/")
        if below != path and kind in {"", one.value}:
            return f"{one.value}:{below}"
    return f"{kind}{colon}{path}"
