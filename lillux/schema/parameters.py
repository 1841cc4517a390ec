"""The short way to declare parameters: a list instead of a schema."""

from collections.abc import Sequence
from typing import Any

from lillux.schema.checks import Path, require_mapping, schema_error, wrong
from lillux.schema.wording import json_text


def schema_from_parameter_list(parameters: Sequence[object]) -> dict[str, Any]:
    """The schema that a list like ``[{name: x, type: string, required: true}]`` stands for.

    An entry has a ``name``, may be ``required`` (``false`` if it does not say), and all its other
    keys (``type``, ``default``, ``description``, ``enum``, ...) are the schema of that parameter.
    Unknown parameters are allowed, as in a schema that does not forbid them.

    Raises SchemaError, its pointer into the list. The schema itself is not checked here.
    """
    if not isinstance(parameters, list | tuple):
        raise wrong((), "a list of parameters", parameters)
    properties: dict[str, Any] = {}
    required: list[str] = []
    for index, parameter in enumerate(parameters):
        entry = require_mapping(parameter, (index,))
        name = _name(entry, (index,))
        if name in properties:
            raise schema_error((index, "name"), f"{json_text(name)} is declared twice")
        properties[name] = {key: entry[key] for key in entry if key not in {"name", "required"}}
        if _is_required(entry, (index,)):
            required.append(name)
    return {"type": "object", "properties": properties, "required": required}


def _name(entry: dict[str, Any], path: Path) -> str:
    name = entry.get("name")
    if not isinstance(name, str) or not name:
        raise wrong((*path, "name"), "the name of a parameter", name)
    return name


def _is_required(entry: dict[str, Any], path: Path) -> bool:
    required = entry.get("required", False)
    if not isinstance(required, bool):
        raise wrong((*path, "required"), "true or false", required)
    return required
