"""``remotes.yaml`` edited as text, so that what people wrote around an entry stays. Pure.

Each edit is read back and compared with what it should say: a file in a form that this cannot edit
is an error, and is left alone.
"""

import json
import re
from collections.abc import Mapping
from typing import Any

from ryeos.metadata.errors import MetadataError
from ryeos.metadata.yaml_documents import parse_yaml
from ryeos.remote.remote_values import CONFIG_PATH, RemoteConfigError

NEW_TEXT = """\
version: "1.0.0"
category: remotes

# Nodes to run on, by name; each has a url, and may have key_env, node_id, timeout, roles.
remotes:
"""

_INDENT = "  "
_HEADING = re.compile(r"remotes[ \t]*:[ \t]*(?:\{\s*\}[ \t]*|null[ \t]*|~[ \t]*)?(?:#.*)?")
_EMPTY = re.compile(r"^remotes[ \t]*:[ \t]*(?:\{\s*\}|null|~)")
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")
_WORDS = frozenset({"y", "n", "yes", "no", "on", "off", "true", "false", "null"})


def with_remote(text: str, name: str, settings: Mapping[str, object]) -> str:
    """The text with an entry, added or replaced as a whole. Raises RemoteConfigError."""
    values = parse_yaml(text, CONFIG_PATH)
    lines = text.splitlines()
    start, indent = _block(lines)
    if start is None:
        lines += ["remotes:"]
        start = len(lines)
    lines[start - 1] = _EMPTY.sub("remotes:", lines[start - 1])
    first, last = _entry(lines, start, indent, name) or (start, start)
    lines[first:last] = [
        f"{indent}{_written(name)}:",
        *(f"{indent}{_INDENT}{key}: {_json(value)}" for key, value in settings.items()),
    ]
    expected = {**values, "remotes": {**(values.get("remotes") or {}), name: dict(settings)}}
    return _checked("\n".join(lines) + "\n", expected)


def without_remote(text: str, name: str) -> str:
    """The text without an entry, which must be there. Raises RemoteConfigError."""
    values = parse_yaml(text, CONFIG_PATH)
    lines = text.splitlines()
    start, indent = _block(lines)
    found = None if start is None else _entry(lines, start, indent, name)
    if found:
        del lines[found[0] : found[1]]
    remotes = {
        other: said for other, said in (values.get("remotes") or {}).items() if other != name
    }
    return _checked("\n".join(lines) + "\n", {**values, "remotes": remotes})


def _block(lines: list[str]) -> tuple[int | None, str]:
    """The line below ``remotes:``, and the indentation of its entries."""
    for number, line in enumerate(lines, 1):
        if _HEADING.fullmatch(line):
            below = next((one for one in lines[number:] if _says_something(one)), "")
            indent = _indent_of(below)
            return number, indent or _INDENT
    return None, _INDENT


def _entry(lines: list[str], start: int, indent: str, name: str) -> tuple[int, int] | None:
    """The lines of an entry: from its name to the last that is indented further."""
    spellings = {name, json.dumps(name), f"'{name}'"}
    first = None
    end = start
    for number, line in enumerate(lines[start:], start):
        if not _says_something(line):
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


def _checked(text: str, expected: Mapping[str, Any]) -> str:
    """The text, if it says what it should. Raises RemoteConfigError."""
    try:
        found = parse_yaml(text, CONFIG_PATH)
    except MetadataError:
        found = {}
    if {**found, "remotes": found.get("remotes") or {}} != expected:
        raise RemoteConfigError(
            "remotes",
            "expected one entry below the other, each with lines of its own",
            hint="the file is in a form that only you can edit; nothing was changed",
        )
    return text


def _says_something(line: str) -> bool:
    bare = line.strip()
    return bool(bare) and not bare.startswith("#")


def _indent_of(line: str) -> str:
    return line[: len(line) - len(line.lstrip(" "))]


def _written(name: str) -> str:
    """A name that every reader of YAML takes for a string."""
    is_plain = _PLAIN.fullmatch(name) and name.lower() not in _WORDS
    return name if is_plain else json.dumps(name)


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)
