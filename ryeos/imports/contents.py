"""The kind of a file by what it holds: its name says less, and may be any.

Only the outermost keys are looked at; what they mean is for the reader of the kind.
"""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lillux.errors import LilluxError
from lillux.jsonc import Dialect, TextStructureError, TextSyntaxError, parse
from lillux.values import dataclass
from ryeos.imports.openapi import MAX_DOCUMENT
from ryeos.imports.plan import source_text
from ryeos.imports.servers import has_servers
from ryeos.imports.task_files import plain_line

_MOST_NAMED = 5
_KEY = re.compile(r"""^(["']?)([A-Za-z_][\w.-]*)\1[ \t]*:(?:\s|$)""", re.MULTILINE)
_OPENAPI = frozenset({"openapi", "swagger"})
_COMMENT = ("//", "/*")
_YAML = (".yaml", ".yml")
_OF_TASKS = {".mk": "make", ".mak": "make", ".just": "just"}


@dataclass(frozen=True, slots=True)
class Content:
    """The kind of a file's content, "" for none, and what was found, in words."""

    kind: str
    words: str


def content_of(path: Path) -> Content:
    """The kind of a file's content. Raises nothing: what cannot be read is of no kind."""
    try:
        text = source_text(path, MAX_DOCUMENT)
    except LilluxError as error:
        return Content("", str(error).removeprefix(f"{path}: ").replace("expected", "no", 1))
    except OSError as error:
        return Content("", str(error.strerror or error).lower())
    start, suffix = text.lstrip(), path.suffix.lower()
    if suffix in _OF_TASKS:
        return Content("task", f"tasks of {_OF_TASKS[suffix]}")
    if suffix == ".toml":
        return _settings(_toml(text), "TOML")
    if start.startswith(("{", *_COMMENT)):
        return _settings(_json(text), "JSON")
    return _text(start, suffix)


def _text(start: str, suffix: str) -> Content:
    keys = list(dict.fromkeys(found[2] for found in _KEY.finditer(start)))
    if _OPENAPI & {*keys}:
        return Content("openapi", "an OpenAPI document")
    return Content("", _with_keys("YAML", keys)) if suffix in _YAML else _other(start)


def _settings(said: object, form: str) -> Content:
    if isinstance(said, str):
        return Content("", f"{form} that cannot be read: {plain_line(said[:80])}")
    if not isinstance(said, Mapping):
        return Content("", f"{form} that is no object")
    if _OPENAPI & said.keys():
        return Content("openapi", "an OpenAPI document")
    if has_servers(said):
        return Content("mcp", "MCP servers")
    keys = _with_keys(form, [str(key) for key in said])
    runner = _runner_of(said, form)
    return Content("", f"{keys}: {runner}" if runner else keys)


def _runner_of(said: Mapping[Any, Any], form: str) -> str:
    """The kind of a file whose runner reads it by one name only; ``""`` for anything else."""
    if form == "JSON" and isinstance(said.get("scripts"), Mapping):
        return "npm reads scripts from a file with the name package.json"
    if form == "TOML" and isinstance(said.get("tasks"), Mapping):
        return "mise reads tasks from a file with the name mise.toml"
    return ""


def _with_keys(form: str, keys: list[str]) -> str:
    if not keys:
        return f"{form} without keys"
    shown = ", ".join(plain_line(key[:40]) for key in keys[:_MOST_NAMED])
    return f"{form} with {shown}{', ...' if len(keys) > _MOST_NAMED else ''}"


def _other(start: str) -> Content:
    front = start.removeprefix("---").partition("\n---")[0] if start.startswith("---\n") else ""
    if {"name", "description"} <= {found[2] for found in _KEY.finditer(front)}:
        return Content("", "the text of a skill, which is a folder with a file SKILL.md")
    return Content("", "a text of another kind")


def _toml(text: str) -> Any:  # noqa: ANN401 - a table, or what is wrong
    import tomllib

    try:
        return tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        return str(error)


def _json(text: str) -> Any:  # noqa: ANN401 - a value, or what is wrong
    try:
        return json.loads(text)
    except RecursionError:
        return "too deep"
    except ValueError:  # perhaps it has comments
        pass
    try:
        return parse(text, Dialect.JSONC).value
    except (TextSyntaxError, TextStructureError) as error:
        return str(error)
