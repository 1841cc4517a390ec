"""The page of what the bundle holds, out of its own headers. Pure but for reading the files."""

import argparse
import json
from collections.abc import Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from ryeos.cli.commands import TABLE, CommandEntry
from ryeos.cli.session import CommandSpec
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
    return "\n".join(
        [COMMANDS_INTRODUCTION, *map(_section, sorted(TABLE, key=lambda one: one.words))]
    )


def _section(entry: CommandEntry) -> str:
    command: CommandSpec = import_module(f"ryeos.cli.{entry.module}").COMMANDS[entry.words]
    parser = argparse.ArgumentParser(add_help=False)
    command.configure(parser)
    rows = [
        f"| {_name(action)} | {_help(action)} |"
        for action in parser._actions  # noqa: SLF001 - argparse has no other way to ask
        if action.help != argparse.SUPPRESS
    ]
    table = ["| argument | meaning |", "|---|---|", *rows, ""] if rows else []
    shown = [f"    {example}" for example in command.examples]
    examples = [*shown, ""] if shown else []
    return "\n".join(
        [f"## rye {entry.words}", "", f"{_sentence(entry.summary)}", "", *table, *examples]
    )


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
