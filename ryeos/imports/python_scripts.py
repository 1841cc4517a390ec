"""Python scripts, read as tools that run the very bytes that a person saw, with arguments of words.

The tool is a small Python file. It has the script's place and SHA-256, its PEP 723 block, and what
the script takes; it reads the script, compares, and runs these bytes. Nothing is imported or run
here. `with_arguments` takes a page of ``--help`` that `ryeos.app.imports` got in a sandbox.
"""

import ast
import re
import sys
from typing import Any

from lillux.contained_paths import path_inside
from lillux.digests import sha256_hex
from lillux.errors import LilluxError
from lillux.files import read_bytes
from lillux.foreign_text import one_line
from lillux.values import dataclass, replace
from ryeos.imports.help_pages import HelpPage, read_help
from ryeos.imports.plan import (
    ImportPlan,
    ImportSource,
    ProposedItem,
    ScriptProbe,
    plain_name,
    shown_path,
    source_error,
)
from ryeos.imports.tool_texts import ToolParts, tool_text
from ryeos.items.line_ends import lf_bytes
from ryeos.items.refs import AI_DIRECTORY, ItemRef, Kind
from ryeos.run.packages import allows_python, read_block, required_python

CATEGORY, OWN_FOLDER = "scripts", f"{AI_DIRECTORY}/scripts"
MAX_SCRIPT = 512 * 1024
_BLOCK = re.compile(r"(?m)^# /// script$\s(?:^#(?:| .*)$\s)+?^# ///$")
_NETWORK = frozenset(
    {"aiohttp", "boto3", "ftplib", "http", "httpx", "imaplib", "openai", "paramiko", "requests"}
    | {"smtplib", "socket", "ssl", "urllib", "urllib3", "websockets"}
)
_PROGRAMS = frozenset({"subprocess", "pty", "plumbum", "sh"})
_WRITES = frozenset(
    {"w", "wb", "ab", "xb", "w+", "write_text", "write_bytes", "mkdir", "unlink"}
    | {"rename", "makedirs", "remove", "to_csv", "savefig", "touch"}
)
_VARIABLE = re.compile(r"[A-Z][A-Z0-9_]{1,60}")


def read_script(source: ImportSource) -> ImportPlan:
    """The tool of one script. What keeps it from being made is among its problems."""
    origin = shown_path(source.path, source.project)
    name = plain_name(source.path.stem)
    name = f"{name}-script" if name in sys.stdlib_module_names else name
    ref = ItemRef(Kind.TOOL, f"{CATEGORY}/{name}")
    try:
        item = _script(source, ref, origin)
    except LilluxError as error:
        item = ProposedItem(
            name=source.path.stem,
            ref=ref,
            suffix=".py",
            data=b"",
            origin=origin,
            problems=(str(error),),
        )
    return ImportPlan((item,))


def _script(source: ImportSource, ref: ItemRef, origin: str) -> ProposedItem:
    """Raises LilluxError."""
    data = lf_bytes(read_bytes(source.path, MAX_SCRIPT))
    text = _text(data, origin)
    code = _code(text, origin)
    block = read_block(text, origin)
    base = source.base or source.project or source.path.parent
    inside = path_inside(source.path.resolve(), base.resolve())
    is_own = not source.copies and inside is not None
    place = inside if is_own and inside else f"{OWN_FOLDER}/{ref.name}.py"
    description = _one_line(code.docstring) or f"Runs the script {source.path.name}"
    rights, notes = _rights(code)
    if code.is_unread:
        required = required_python(text, origin)
        notes.append(
            f"it needs Python {required}, not Rye's {_OWN_PYTHON}: in .venv, or RYE_PYTHON"
        )
        notes.append("it takes args, a list of words")
    found = _BLOCK.search(text)
    written = ToolParts(
        description=description,
        rights=rights,
        files=((place, sha256_hex(data)),),
        block=found[0] if found else "",
    )
    if block:
        notes.append(
            f"its packages, pinned when it is signed: {', '.join(block.dependencies)[:200]}"
        )
    return ProposedItem(
        name=source.path.stem,
        ref=ref,
        suffix=".py",
        data=tool_text(ref, written, HelpPage(has_commands=True)).encode(),
        origin=origin,
        shown=description,
        held=f"1 file, {place}",
        files={} if is_own else {f"scripts/{ref.name}.py": data},
        notes=tuple(notes),
        probe=None if code.is_unread else ScriptProbe(data=data, block=block, written=written),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Code:
    """The content of a script that is of interest here.

    ``is_unread``: for a newer Python than this one, so that only its lines were looked at.
    """

    docstring: str
    imported: frozenset[str]
    texts: frozenset[str]
    called: frozenset[str]
    is_unread: bool = False


_OWN_PYTHON = ".".join(map(str, sys.version_info[:2]))
_IMPORTS = re.compile(r"(?m)^[ \t]*(?:import|from)[ \t]+([A-Za-z_]\w*)")
_ATTRIBUTES = re.compile(r"\.([A-Za-z_]\w*)")
_QUOTED = re.compile(r"'([^'\n\\]*)'|\"([^\"\n\\]*)\"")
_FIRST_TEXT = re.compile(r'(?s)\A(?:[ \t]*(?:#[^\n]*)?\n)*(?:"""(.*?)"""|\'\'\'(.*?)\'\'\')')


def _text(data: bytes, origin: str) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise source_error(origin, f"expected UTF-8: {error.reason}") from None


def _code(text: str, origin: str) -> _Code:
    """The content of a script, by its tree, or by its lines where its Python is a newer one.

    Raises RyeError `IMPORT_UNREADABLE`, SpecError.
    """
    try:
        return _code_of(ast.parse(text))
    except SyntaxError as error:
        required = required_python(text, origin)
        if not required or allows_python(required, _OWN_PYTHON):
            problem = f"line {error.lineno}: {str(error.msg)[:200]}, to Python {_OWN_PYTHON}"
            hint = 'is it for a newer one? its block may say so: requires-python = ">=3.13"'
            raise source_error(origin, problem, hint=hint) from None
    except (ValueError, RecursionError, MemoryError) as error:
        raise source_error(origin, f"not read as Python: {str(error)[:200]}") from None
    found = _FIRST_TEXT.match(text)
    return _Code(
        docstring=(found[1] or found[2] or "") if found else "",
        imported=frozenset(_IMPORTS.findall(text)),
        texts=frozenset(one or other for one, other in _QUOTED.findall(text)),
        called=frozenset(_ATTRIBUTES.findall(text)),
        is_unread=True,
    )


def with_arguments(item: ProposedItem, page: str, problem: str) -> ProposedItem:
    """The item with the arguments that a page of ``--help`` says; ``problem`` is why there is none.

    A script whose page is not understood takes ``args``, words as they are.
    """
    if item.probe is None:
        return item
    found = read_help(page) if page else None
    if found:
        note = f"arguments, read from --help: {', '.join(one.name for one in found.arguments)}"
    else:
        why = problem or "its --help is of no form that is known"
        note = f"it takes args, a list of words: {why}"
    text = tool_text(item.ref, item.probe.written, found or HelpPage(has_commands=True))
    return replace(item, data=text.encode(), notes=(*item.notes, note))


def _code_of(tree: ast.Module) -> _Code:
    imported, texts, called = set[str](), set[str](), set[str]()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            imported |= {name.name.partition(".")[0] for name in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            imported.add(node.module.partition(".")[0])
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            texts.add(node.value)
        elif isinstance(node, ast.Attribute):
            called.add(node.attr)
    return _Code(
        docstring=ast.get_docstring(tree) or "",
        imported=frozenset(imported),
        texts=frozenset(texts),
        called=frozenset(called),
    )


def _rights(code: _Code) -> tuple[dict[str, Any], list[str]]:
    """Rights that are proposed by what a script imports and reads, and notes on them."""
    imported, texts, called = code.imported, code.texts, code.called
    variables = {one for one in texts if _VARIABLE.fullmatch(one) and "_" in one}
    is_writing = _WRITES & (texts | called) or imported & {"shutil"}
    rights: dict[str, Any] = {
        "read": ["{project}"],
        "write": ["{project}", "{tmp}"] if is_writing else ["{tmp}"],
        "network": "any" if imported & _NETWORK else "none",
        "programs": "any" if imported & _PROGRAMS else "none",
        "env": sorted(variables)[:20] if "os" in imported else [],
    }
    writes = "the project" if is_writing else "only temporary files"
    notes = [f"rights: network {rights['network']}, programs {rights['programs']}, writes {writes}"]
    if rights["env"]:
        notes.append(f"it sees the variables {', '.join(rights['env'])}")
    return rights, notes


def _one_line(text: str) -> str:
    return one_line(text.strip().split("\n\n")[0], 300)
