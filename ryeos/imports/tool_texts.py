"""Texts of tools that run a Python script as a person saw it. Pure.

The tool is Python: it holds path and SHA-256 of each file, compares them before anything runs, and
makes a command line of its parameters, without a shell. Every value is a literal of ASCII alone.
(Tools for tasks were of this form too once: they are read and shown as ever.)
"""

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from lillux.contained_paths import safe_join
from lillux.errors import LilluxError
from lillux.files import read_bytes
from lillux.values import dataclass
from ryeos.imports.help_pages import Argument, HelpPage
from ryeos.items.line_ends import pinned_bytes
from ryeos.items.pinned_files import literal_of, pinned_files
from ryeos.items.refs import ItemRef
from ryeos.trust.skill_files import FurtherFile

MAX_FILE = 4 * 1024 * 1024
NAME_OF_TASK = re.compile(r"\w[\w:./-]{0,99}")


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolParts:
    """The facts of a tool besides its arguments.

    files  path below the base and SHA-256 of each file that it depends on, the script first
    block  a PEP 723 block
    """

    description: str
    rights: Mapping[str, Any]
    files: tuple[tuple[str, str], ...]
    block: str = ""


def tool_text(ref: ItemRef, parts: ToolParts, page: HelpPage) -> str:
    """The text of the tool."""
    arguments, schema = distinct(page.arguments), schema_of(page)
    what = parts.files[0][0]
    return _TEMPLATE.format(
        docstring=f"Runs {json.dumps(what)}, with its files as they were when it was signed.",
        block=f"{parts.block}\n\n" if parts.block else "",
        category=ref.category,
        description=ascii(parts.description),
        schema=ascii(schema),
        rights=ascii(dict(parts.rights)),
        rows=ascii([(one.name, one.flag, one.kind) for one in arguments]),
        defaults=ascii({one.name: one.default for one in arguments if one.default is not None}),
        files=ascii(list(parts.files)),
        depth=ref.id.count("/") + 2,
        end=_RUN_SCRIPT,
    )


def schema_of(page: HelpPage) -> dict[str, Any]:
    """The schema of a tool's parameters."""
    arguments = distinct(page.arguments)
    properties = {one.name: one.schema() for one in arguments}
    if page.has_commands:
        more = {"type": "array", "items": {"type": "string"}, "description": "words, as they are"}
        properties["args"] = more
    return {
        "type": "object",
        "properties": properties,
        "required": [one.name for one in arguments if one.required],
        "additionalProperties": False,
    }


def distinct(arguments: Sequence[Argument]) -> list[Argument]:
    """The arguments, the first of each name."""
    named = {one.name: one for one in reversed(arguments) if one.name != "args"}
    return [named[name] for name in dict.fromkeys(one.name for one in arguments) if name in named]


def further_files(text: str, base: Path) -> list[FurtherFile]:
    """The files that a tool depends on, for a person who is about to sign it."""
    listed: list[FurtherFile] = []
    try:
        pinned = pinned_files(text)
        for line, problem in pinned.problems:
            listed.append(FurtherFile("a file of this tool", problem=f"line {line}: {problem}"))
        for place, digest in pinned.files:
            data = read_bytes(safe_join(base, place), MAX_FILE)
            same = pinned_bytes(data, digest)
            problem = "" if same is not None else "is not what this tool runs; import it again"
            listed.append(FurtherFile(place, same or b"", problem))
    except (OSError, LilluxError) as error:
        listed.append(FurtherFile("a file of this tool", problem=f"cannot be read: {error}"))
    return listed


def is_of_same_source(before: bytes, proposed: bytes) -> bool:
    """True if two tools run the same files, by the same command, and say so in their Python."""
    try:
        one, other = (text.decode() for text in (before, proposed))
        first, second = pinned_files(one), pinned_files(other)
        if first.problems or not first.files or first.files != second.files:
            return False
        return all(
            (literal_of(one, name) or []) == (literal_of(other, name) or [])
            for name in ("COMMAND", "ABSENT")
        )
    except (UnicodeDecodeError, LilluxError):
        return False


_RUN_SCRIPT = """\
    path = str(base / FILES[0][0])
    sys.argv = [path, *words(given)]
    module = sys.modules["__main__"] = types.ModuleType("__main__")
    module.__file__ = path
    try:
        code = compile(sources[0], path, "exec")
    except SyntaxError as error:
        python = f"to Python {sys.version.split()[0]}; RYE_PYTHON names another"
        sys.exit(f"{path}, line {error.lineno}: {error.msg}, {python}")
    exec(code, module.__dict__)
"""
_TEMPLATE = '''\
"""{docstring}"""

{block}import hashlib
import json
import pathlib
import sys
import types

__version__ = "1.0.0"
__tool_type__ = "python"
__executor_id__ = "rye/core/runtimes/python/script"
__category__ = "{category}"
__tool_description__ = {description}

CONFIG_SCHEMA = {schema}
SANDBOX = {rights}

FILES = {files}
COMMAND = []
ARGUMENTS = {rows}
DEFAULTS = {defaults}


def has(given, name):
    """True if a parameter is given: no list without a word in it."""
    return given.get(name) is not None and given[name] != []


def words(given):
    """The words of a command line for these parameters."""
    named, placed = [], []
    places = [n for n, row in enumerate(ARGUMENTS) if not row[1] and has(given, row[0])]
    last = places[-1] if places else -1
    for number, (name, flag, kind) in enumerate(ARGUMENTS):
        value = given.get(name)
        if not flag and number < last and not has(given, name):
            if name not in DEFAULTS:
                sys.exit(f"{{name}}: expected a value, as {{ARGUMENTS[last][0]}} stands behind it")
            value = DEFAULTS[name]
        if value is None:
            continue
        values = [str(one) for one in (value if isinstance(value, list) else [value])]
        if kind == "switch":
            named += [flag] if value is True else []
        elif kind == "pair":
            yes, no = flag.split()
            named += [yes if value is True else no]
        elif kind == "assign":
            named += [f"{{flag}}={{one}}" for one in values]
        elif not flag:
            placed += values
        elif kind == "spread":
            if any(one.startswith("-") for one in values):
                sys.exit(f"{{name}}: expected words that do not begin with '-'")
            named += [flag, *values]
        elif flag.startswith("--"):
            named += [f"{{flag}}={{one}}" for one in values]
        else:
            named += [word for one in values for word in (flag, one)]
    if not COMMAND and any(one.startswith("-") for one in placed):
        placed = ["--", *placed]
    return [*named, *placed, *given.get("args", [])]


if __name__ == "__main__":
    given = json.load(sys.stdin)
    base = pathlib.Path(__file__).resolve().parents[{depth}]
    sources = []
    for name, digest in FILES:
        with open(base / name, "rb") as file:
            data = file.read()
        ends, lines = data.count(b"\\r\\n"), data.replace(b"\\r\\n", b"\\n")
        if ends == data.count(b"\\n") == data.count(b"\\r") and b"\\0" not in data:
            data = data if hashlib.sha256(data).hexdigest() == digest else lines  # git wrote it
        if hashlib.sha256(data).hexdigest() != digest:
            sys.exit(f"{{name}}: changed since it was signed; if it is right: rye import --force")
        sources.append(data)
{end}'''
