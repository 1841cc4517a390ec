"""Texts of tools that run a file, or a command that reads files, as a person saw them. Pure.

The tool is Python: it holds path and SHA-256 of each file, compares them before anything runs, and
makes a command line of its parameters, without a shell. Every value is a literal of ASCII alone.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from lillux.digests import sha256_hex
from lillux.errors import LilluxError
from lillux.files import read_bytes, safe_join
from lillux.values import dataclass
from ryeos.imports.help_pages import Argument, HelpPage
from ryeos.items.pinned_files import literal_of, pinned_files
from ryeos.items.refs import ItemRef
from ryeos.trust.skill_files import FurtherFile

MAX_FILE = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolParts:
    """What a tool says besides its arguments.

    files    path below the base and SHA-256 of each file that it depends on; a script is the first
    command  the program and its first words; empty for a Python script, which runs by itself
    block    a PEP 723 block
    """

    description: str
    rights: Mapping[str, Any]
    files: tuple[tuple[str, str], ...]
    command: tuple[str, ...] = ()
    block: str = ""

    @property
    def lists(self) -> str:
        """The lines of a tool that tell it from tools of other files and other commands."""
        return f"FILES = {list(self.files)!a}\nCOMMAND = {list(self.command)!a}\n"


def tool_text(ref: ItemRef, parts: ToolParts, page: HelpPage) -> str:
    """The text of the tool."""
    arguments = _distinct(page.arguments)
    properties = {one.name: one.schema() for one in arguments}
    if page.has_commands:
        more = {"type": "array", "items": {"type": "string"}, "description": "words, as they are"}
        properties["args"] = more
    schema = {
        "type": "object",
        "properties": properties,
        "required": [one.name for one in arguments if one.required],
        "additionalProperties": False,
    }
    what = " ".join(parts.command) or parts.files[0][0]
    return _TEMPLATE.format(
        docstring=f"Runs {json.dumps(what)}, with its files as they were when it was signed.",
        block=f"{parts.block}\n\n" if parts.block else "",
        imports="import re\nimport shutil\nimport subprocess\n" if parts.command else "",
        types="" if parts.command else "import types\n",
        category=ref.category,
        description=ascii(parts.description),
        schema=ascii(schema),
        rights=ascii(dict(parts.rights)),
        rows=ascii([(one.name, one.flag, one.kind) for one in arguments]),
        lists=parts.lists,
        depth=ref.id.count("/") + 2,
        end=_RUN_COMMAND if parts.command else _RUN_SCRIPT,
    )


def _distinct(arguments: Sequence[Argument]) -> list[Argument]:
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
            is_same = sha256_hex(data) == digest
            problem = "" if is_same else "is not what this tool runs; import it again"
            listed.append(FurtherFile(place, data if is_same else b"", problem))
    except (OSError, LilluxError) as error:
        listed.append(FurtherFile("a file of this tool", problem=f"cannot be read: {error}"))
    return listed


def is_of_same_source(before: bytes, proposed: bytes) -> bool:
    """Whether two tools run the same files, by the same command, and say so in their Python."""
    try:
        one, other = (text.decode() for text in (before, proposed))
        first, second = pinned_files(one), pinned_files(other)
        if first.problems or not first.files or first.files != second.files:
            return False
        return bool(literal_of(one, "COMMAND") == literal_of(other, "COMMAND"))
    except (UnicodeDecodeError, LilluxError):
        return False


_RUN_SCRIPT = """\
    path = str(base / FILES[0][0])
    sys.argv = [path, *words(given)]
    module = sys.modules["__main__"] = types.ModuleType("__main__")
    module.__file__ = path
    exec(compile(sources[0], path, "exec"), module.__dict__)
"""
_RUN_COMMAND = """\
    program, *first = COMMAND
    found = shutil.which(program)
    if not found:
        sys.exit(f"{program}: not installed, or not on the PATH")
    more = words(given)
    for word in more:  # runners hand them to a shell
        if not re.fullmatch(r"[\\w./:@%+,= -]*", word):
            sys.exit(f"{word!r}: expected letters, digits, blanks and . / : @ % + , = _ -")
    line = [found, *first, *more]
    sys.exit(subprocess.run(line, cwd=base, stdin=subprocess.DEVNULL).returncode)
"""
_TEMPLATE = '''\
"""{docstring}"""

{block}import hashlib
import json
import pathlib
{imports}import sys
{types}
__version__ = "1.0.0"
__tool_type__ = "python"
__executor_id__ = "rye/core/runtimes/python/script"
__category__ = "{category}"
__tool_description__ = {description}

CONFIG_SCHEMA = {schema}
SANDBOX = {rights}

{lists}ARGUMENTS = {rows}


def words(given):
    """The words of a command line for these parameters."""
    named, placed = [], []
    for name, flag, kind in ARGUMENTS:
        value = given.get(name)
        if value is None:
            continue
        values = [str(one) for one in (value if isinstance(value, list) else [value])]
        if kind == "switch":
            named += [flag] if value is True else []
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
            sources.append(file.read())
        if hashlib.sha256(sources[-1]).hexdigest() != digest:
            sys.exit(f"{{name}}: changed since it was signed; if it is right: rye import --force")
{end}'''
