"""Entries of a mapping inside a YAML file, edited as text, so that what people wrote around stays.

``section`` is the key of the mapping, at the left margin: ``remotes`` of ``remotes.yaml``. Pure.
Each edit is read back and compared with what it should say: a file in a form that this cannot
edit is an error, and is left alone.
"""

import json
import re
from collections.abc import Mapping
from typing import Any

from lillux.errors import LilluxError
from lillux.patterns import pattern
from ryeos.items.header_values import MetadataError
from ryeos.items.yaml import parse_yaml
from ryeos.items.yaml_text import WORDS, block_lines

_INDENT = "  "
_NOTHING = r"\{\s*\}|null|~"
_PLAIN = pattern(r"[A-Za-z_][A-Za-z0-9_.-]*")


class UneditableYamlError(LilluxError):
    """A file is valid, and in a form that only a person can edit; nothing was changed."""

    code, exit_status = "CONFIG_ERROR", 6

    def __init__(self, section: str) -> None:
        self.section = section
        super().__init__(
            f"{section}: expected one entry below the other, each with lines of its own",
            hint="the file is in a form that only you can edit; nothing was changed",
        )


def entries_of(values: Mapping[str, Any], section: str) -> Mapping[str, Any]:
    """The entries of a section; none where it is empty. Raises UneditableYamlError."""
    entries = values.get(section)
    if entries is not None and not isinstance(entries, Mapping):
        raise UneditableYamlError(section)
    return entries or {}


def with_entry(text: str, section: str, name: str, settings: Mapping[str, object]) -> str:
    """The text with an entry, added or replaced as a whole.

    Raises UneditableYamlError, MetadataError.
    """
    values = parse_yaml(text, section)
    lines = text.splitlines()
    start, indent = _block(lines, section)
    if start is None:
        lines += [f"{section}:"]
        start = len(lines)
    lines[start - 1] = re.sub(
        rf"^{section}[ \t]*:[ \t]*(?:{_NOTHING})", f"{section}:", lines[start - 1]
    )
    first, last = _entry(lines, start, indent, name) or (start, start)
    lines[first:last] = [
        f"{indent}{_quoted_name(name)}:",
        *block_lines(settings, indent + _INDENT),
    ]
    expected = {**values, section: {**entries_of(values, section), name: dict(settings)}}
    return _validated_edit("\n".join(lines) + "\n", section, expected)


def without_entry(text: str, section: str, name: str) -> str:
    """The text without an entry, which must be there. Raises as `with_entry`."""
    values = parse_yaml(text, section)
    lines = text.splitlines()
    start, indent = _block(lines, section)
    found = None if start is None else _entry(lines, start, indent, name)
    if found:
        del lines[found[0] : found[1]]
    kept = {other: said for other, said in entries_of(values, section).items() if other != name}
    return _validated_edit("\n".join(lines) + "\n", section, {**values, section: kept})


def _block(lines: list[str], section: str) -> tuple[int | None, str]:
    """The line below ``section:``, and the indentation of its entries."""
    heading = re.compile(rf"{section}[ \t]*:[ \t]*(?:(?:{_NOTHING})[ \t]*)?(?:#.*)?")
    for number, line in enumerate(lines, 1):
        if heading.fullmatch(line):
            below = next((one for one in lines[number:] if _has_content(one)), "")
            indent = _indent_of(below)
            return number, indent or _INDENT
    return None, _INDENT


def _entry(lines: list[str], start: int, indent: str, name: str) -> tuple[int, int] | None:
    """The lines of an entry: from its name to the last that is indented further."""
    spellings = {name, json.dumps(name), f"'{name}'"}
    first = None
    end = start
    for number, line in enumerate(lines[start:], start):
        if not _has_content(line):
            continue
        depth = _indent_of(line)
        if len(depth) < len(indent) or (first is not None and len(depth) == len(indent)):
            break
        if (
            first is None
            and depth == indent
            and line.strip().partition(":")[0].rstrip() in spellings
        ):
            first = number
        end = number + 1
    return None if first is None else (first, end)


def _validated_edit(text: str, section: str, expected: Mapping[str, Any]) -> str:
    """The text, if it says what it should."""
    try:
        found = parse_yaml(text, section)
    except MetadataError:
        found = {}
    if {**found, section: found.get(section) or {}} != expected:
        raise UneditableYamlError(section)
    return text


def _has_content(line: str) -> bool:
    bare = line.strip()
    return bool(bare) and not bare.startswith("#")


def _indent_of(line: str) -> str:
    return line[: len(line) - len(line.lstrip(" "))]


def _quoted_name(name: str) -> str:
    """A name that every reader of YAML takes for a string."""
    is_plain = _PLAIN.fullmatch(name) and name.lower() not in WORDS
    return name if is_plain else json.dumps(name)
