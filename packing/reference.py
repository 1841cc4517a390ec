"""Pages of ``docs/reference/`` from headers, parsers and the OpenAPI document of a node."""

import argparse
import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from rye_services.operations.commands import STORE_FLAGS, Flag
from rye_services.operations.commands import TABLE as NODE_TABLE
from ryeos.app.argument_parser import Parser
from ryeos.app.command_line import CommandEntry
from ryeos.app.commands import TABLE
from ryeos.items.markdown import parse_directive
from ryeos.items.refs import Kind
from ryeos.trust.file_types import extract

# --- bundle reference -----------------------------------------------------------------------------

BUNDLE_INTRODUCTION = """\
# The bundle

What comes with the program, as system items. Load any of them to read it whole, or to change a
copy of it: `rye load rye/bash/bash --to project`.

This page is written by `scripts/generate_reference.py` from the files in `bundle.ai/`.
"""
_NOT_LISTED = {"library", "test"}


def bundle_page(bundle: Path) -> str:
    """The whole page."""
    parts = (BUNDLE_INTRODUCTION, _tools(bundle), _directives(bundle), _knowledge(bundle))
    return "\n".join(parts)


def _files(bundle: Path, kind: Kind) -> Iterator[tuple[str, Path]]:
    folder = bundle / kind.directory
    for path in sorted(folder.rglob("*")):
        if path.suffix in kind.suffixes and path.is_file():
            yield path.relative_to(folder).with_suffix("").as_posix(), path


def _header(kind: Kind, path: Path) -> dict[str, Any]:
    return extract(kind, path.suffix, path.read_text("utf-8"), str(path))


def _tools(bundle: Path) -> str:
    plain, with_parameters = [], []
    for item_id, path in _files(bundle, Kind.TOOL):
        header = _header(Kind.TOOL, path)
        kind = header.get("tool_type")
        if kind is None or kind in _NOT_LISTED:
            continue
        schema = header.get("config_schema")
        line = f"| `{item_id}` | {kind} | {header['description']} |"
        plain.append(line)
        if isinstance(schema, Mapping) and schema.get("properties") and kind != "graph":
            with_parameters.append(_parameters(item_id, header, schema))
    table = "\n".join(["## Tools", "", "| id | type | does |", "|---|---|---|", *plain])
    return "\n".join([table, "", *with_parameters])


def _parameters(item_id: str, header: Mapping[str, Any], schema: Mapping[str, Any]) -> str:
    required = set(schema.get("required", ()))
    rows = [
        f"| `{name}` | {_type(one)} | {_default(one, name in required)} | {_cell(one)} |"
        for name, one in schema["properties"].items()
    ]
    shown = [json.dumps(one) for one in schema.get("examples", ())][:1]
    example = [f"Example: `{shown[0]}`", ""] if shown else []
    heading = [f"### {item_id}", "", f"{header['description']}.", ""]
    table = ["| parameter | type | default | meaning |", "|---|---|---|---|", *rows, ""]
    return "\n".join([*heading, *table, *example])


def _type(schema: Mapping[str, Any]) -> str:
    if "enum" in schema:
        return ", ".join(f"`{choice}`" for choice in schema["enum"])
    found = schema.get("type", "any")
    return found if isinstance(found, str) else ", ".join(found)


def _default(schema: Mapping[str, Any], is_required: bool) -> str:  # noqa: FBT001
    if is_required:
        return "required"
    return f"`{json.dumps(schema['default'])}`" if "default" in schema else ""


def _cell(schema: Mapping[str, Any]) -> str:
    return str(schema.get("description", "")).replace("|", r"\|")


def _directives(bundle: Path) -> str:
    rows = []
    for item_id, path in _files(bundle, Kind.DIRECTIVE):
        directive = parse_directive(path.read_text("utf-8"))
        inputs = ", ".join(
            f"`{one.name}`" + ("" if one.required else " (optional)") for one in directive.inputs
        )
        rows.append(f"| `{item_id}` | {directive.description} | {inputs or 'none'} |")
    return "\n".join(["## Directives", "", "| id | for | inputs |", "|---|---|---|", *rows, ""])


def _knowledge(bundle: Path) -> str:
    rows = []
    for item_id, path in _files(bundle, Kind.KNOWLEDGE):
        header = _header(Kind.KNOWLEDGE, path)
        rows.append(f"| `{item_id}` | {header['title']} | {header.get('description', '')} |")
    return "\n".join(["## Knowledge", "", "| id | title | about |", "|---|---|---|", *rows, ""])


# --- command reference ----------------------------------------------------------------------------
# The page of every command with its arguments, out of the parsers themselves.

COMMANDS_INTRODUCTION = """\
# Commands

Every command with its arguments. What holds for all of them (flags, output, statuses) is in
[cli.md](../cli.md).

This page is written by `scripts/generate_reference.py` from `ryeos/cli/`.
"""


def commands_page() -> str:
    """The whole page."""
    sections = (_section("rye", entry) for entry in sorted(TABLE, key=lambda one: one.words))
    return "\n".join([COMMANDS_INTRODUCTION, *sections])


def _section(program: str, entry: CommandEntry, flags: Iterable[Flag] = ()) -> str:
    """What a command takes and how it is typed; with ``flags`` that it takes as others do."""
    command, parser = entry.spec(), Parser(add_help=False)
    for names, rules in flags:
        parser.add_argument(*names, **rules)
    command.declare(parser)
    shown = [f"    {example}" for example in command.examples]
    examples = [*shown, ""] if shown else []
    heading = [f"## {program} {entry.words}", "", f"{_sentence(entry.summary)}", ""]
    return "\n".join([*heading, *_arguments(parser), *examples])


def _arguments(parser: Parser) -> list[str]:
    """The table of a parser's arguments; empty where there are none."""
    rows = [
        f"| {_name(action)} | {_help(action)} |"
        for action in parser._actions  # noqa: SLF001 - argparse has no other way to ask
        if action.help != argparse.SUPPRESS
    ]
    return ["| argument | meaning |", "|---|---|", *rows, ""] if rows else []


def _sentence(summary: str) -> str:
    return f"{summary[:1].upper()}{summary[1:]}."


def _name(action: argparse.Action) -> str:
    if not action.option_strings:
        shown = action.metavar or action.dest.upper()
        return f"`{shown if isinstance(shown, str) else ' '.join(shown)}`".replace("|", r"\|")
    takes = "" if action.nargs == 0 else f" {_value(action)}"
    return ", ".join(f"`{flag}{takes}`" for flag in action.option_strings).replace("|", r"\|")


def _value(action: argparse.Action) -> str:
    if action.choices:
        return "|".join(map(str, action.choices))
    return str(action.metavar or action.dest.upper())


def _help(action: argparse.Action) -> str:
    return (action.help or "").replace("%%", "%").replace("|", r"\|")


# --- node command reference -----------------------------------------------------------------------

NODE_COMMANDS_INTRODUCTION = """\
# Commands of a node

Every command of `rye-node.pyz` with its arguments. Each takes `--data DIR`, `--json` and `-q` too;
what a node does is in [node.md](../node.md).

This page is written by `scripts/generate_reference.py` from `rye_services/operations/cli.py`.
"""


def node_commands_page() -> str:
    """The whole page; where objects are kept is said once, of the command that decides it."""
    sections = (
        _section("rye-node.pyz", entry, STORE_FLAGS if entry.words == "init" else ())
        for word in NODE_TABLE.first_words()
        for entry in NODE_TABLE.group(word) or filter(None, [NODE_TABLE.find([word])])
    )
    return "\n".join([NODE_COMMANDS_INTRODUCTION, *sections])


# --- route reference ------------------------------------------------------------------------------
# The page of every route, out of the OpenAPI document, to which tests hold real answers.

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
    """What a body holds, in each type that it may have."""
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
