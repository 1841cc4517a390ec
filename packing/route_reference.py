"""Reference page of all routes, from the OpenAPI document.

Tests hold that document to real answers.
"""

import json
from collections.abc import Mapping
from typing import Any

ROUTES_INTRODUCTION = """\
# Routes of a node and a registry

Every route of `rye-node.pyz serve --role all`, as its `/openapi.json` describes it. In parentheses
is the scope that a key needs; routes with a role take `?owner=TEAM`, and members of the team need
that role. Bodies and answers are JSON, written as types: `name?` may be missing. A refusal is
`{detail}`. Any route may answer 400, 401, 403, 408, 413, 422, 503 and 507
([limits](../node.md#refusals-and-limits)); other statuses are listed.

What the routes do: [node.md](../node.md), [sync.md](../sync.md), [teams.md](../teams.md),
[registry.md](../registry.md).

This page is written by `scripts/generate_reference.py` from the OpenAPI document.
"""
_OF_EVERY_ROUTE = {"200", "400", "401", "403", "408", "413", "422", "503", "507"}
_JSON = "application/json"


def routes_page(document: Mapping[str, Any]) -> str:
    """The whole page; ``document`` is the OpenAPI document."""
    groups: dict[str, list[str]] = {}
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            tag = operation.get("tags", ["status"])[0]
            groups.setdefault(tag, []).append(
                _route(f"{method.upper()} {path}", operation, document["components"]["schemas"])
            )
    parts = ("\n".join([f"## {tag.title()}", "", *routes]) for tag, routes in groups.items())
    return "\n".join([ROUTES_INTRODUCTION, *parts])


def _route(name: str, operation: Mapping[str, Any], schemas: Mapping[str, Any]) -> str:
    about, _, _ = operation.get("description", "").partition("\n\n")
    needs = [f"`{scope}`" for scope in operation.get("x-rye-scopes", ())]
    if role := operation.get("x-rye-role"):
        needs.append(f"role `{role}`")
    ways = operation.get("security", [{}])
    if {} in ways:
        needs.insert(0, "no key" if len(ways) == 1 else "no key, or")
    key = ", ".join(needs).replace("or,", "or") or "any key"
    lines = [f"- **`{name}`** ({key}): {' '.join(about.replace('``', '`').split())}"]
    query = [_parameter(one, schemas) for one in operation.get("parameters", ()) if _is_query(one)]
    if query:
        lines.append(f"  - query: {', '.join(query)}")
    if "requestBody" in operation:
        lines.append(f"  - body: {_content(operation['requestBody'], schemas)}")
    answers = operation["responses"]
    if "200" in answers:
        lines.append(f"  - answer: {_content(answers['200'], schemas)}")
    other = [status for status in answers if status not in _OF_EVERY_ROUTE]
    if other:
        lines.append(f"  - also: {', '.join(sorted(other))}")
    return "\n".join([*lines, ""])


def _is_query(parameter: Mapping[str, Any]) -> bool:
    return bool(parameter["in"] == "query" and parameter["name"] != "owner")


def _parameter(parameter: Mapping[str, Any], schemas: Mapping[str, Any]) -> str:
    schema = parameter["schema"]
    default = f" = {json.dumps(schema['default'])}" if schema.get("default") is not None else ""
    optional = "" if parameter.get("required") else "?"
    return f"`{parameter['name']}{optional}: {_shape(schema, schemas)}{default}`"


def _content(message: Mapping[str, Any], schemas: Mapping[str, Any]) -> str:
    """Content of a body, in each type that it may have."""
    content = message.get("content", {})
    shown = [
        f"`{_shape(one.get('schema', {}), schemas)}`" if kind == _JSON else f"`{kind}`"
        for kind, one in content.items()
    ]
    return " or ".join(shown) or "none"


def _shape(schema: Mapping[str, Any], schemas: Mapping[str, Any]) -> str:
    """A JSON schema in the notation of types, references followed."""
    if "$ref" in schema:
        return _shape(schemas[schema["$ref"].rpartition("/")[2]], schemas)
    values = [schema["const"]] if "const" in schema else schema.get("enum")
    if values:
        return " | ".join(map(json.dumps, values))
    if choices := schema.get("anyOf") or schema.get("allOf"):
        return " | ".join(dict.fromkeys(_shape(one, schemas) for one in choices))
    match schema.get("type", "any"):
        case "array":
            return f"{_shape(schema.get('items', {}), schemas)}[]"
        case "object":
            return _object_shape(schema, schemas)
        case kind:
            return str(kind)


def _object_shape(schema: Mapping[str, Any], schemas: Mapping[str, Any]) -> str:
    required = set(schema.get("required", ()))
    fields = [
        f"{name}{'' if name in required else '?'}: {_shape(one, schemas)}"
        for name, one in schema.get("properties", {}).items()
    ]
    if fields:
        return f"{{{', '.join(fields)}}}"
    values = schema.get("additionalProperties")
    if isinstance(values, Mapping) and values:
        return f"{{[name]: {_shape(values, schemas)}}}"
    return "object"
