"""Reference page of the bundle, from the headers of its items."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ryeos.items.directives import parse_directive
from ryeos.items.refs import Kind
from ryeos.trust.extractors import extract

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
