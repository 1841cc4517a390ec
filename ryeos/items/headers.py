"""Reads the header of a file as data, by file type. Formats: ``docs/items.md``.

Text goes in that is verified already, a mapping comes out. Nothing is imported or executed, and
whatever the text is, the only exception is MetadataError.
"""

import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from lillux.patterns import pattern
from ryeos.items.header_values import (
    MAX_DEPTH,
    TAGS,
    MetadataError,
    UnreadableValueError,
    plain_value,
    require_parsable_text,
    shown,
    unquoted,
)

if TYPE_CHECKING:
    import ast

    from ryeos.items.refs import FileType


# --- metadata -------------------------------------------------------------------------------------


def parse_header(
    suffix: str, text: str, where: str = "", file_type: "FileType | None" = None
) -> dict[str, Any]:
    """The header of a tool or a configuration file, by the suffix of its name.

    ``file_type`` is that of a suffix which a space has added.

    ``text`` may begin with a shebang and a signature line. ``where`` is the item or file that
    messages name. Keys are as the format spells them: ``__version__`` in a Python file, ``version``
    in a YAML file.

    Raises MetadataError, also for a suffix that has no parser.
    """
    parse = partial(_added_type_header, file_type) if file_type else PARSERS.get(suffix.lower())
    if parse is None:
        known = " ".join(PARSERS)
        raise MetadataError("tool", f"expected a suffix of {known}, found {suffix!r}", place=where)
    try:
        return parse(text)
    except MetadataError as error:
        if not where:
            raise
        place = f"{where}: {error.place}"
        raise MetadataError(
            error.parser,
            error.problem,
            error.line,
            place=place,
            hint=error.hint,
            column=error.column if suffix.lower() in _WHOLE_FILES else None,
        ) from error


# Their header is the file: a line of it is a line of the file.
_WHOLE_FILES = (".yaml", ".yml")


def _added_type_header(file_type: "FileType", text: str) -> dict[str, Any]:
    plain = without_first_lines(text, file_type.prefix, shebang=file_type.after_shebang)
    match file_type.parser:
        case "comments/tags":
            header = parse_tags(plain, file_type.comment)
        case "comments/yaml":
            header = parse_block(plain, file_type.comment)
        case name:
            header = NAMED_PARSERS[name](plain)
    taken = {field: header[key] for field, key in file_type.fields.items() if key in header}
    return taken | header


# One function per format, so that a Python tool does not pay for PyYAML.


def _python(text: str) -> dict[str, Any]:
    return parse_python(text)


def _yaml(text: str) -> dict[str, Any]:
    from ryeos.items.yaml import parse_yaml

    return parse_yaml(text, "yaml header")


def _json(text: str) -> dict[str, Any]:
    return parse_json(text)


def _javascript(text: str) -> dict[str, Any]:
    from ryeos.items.javascript import parse_javascript

    return parse_javascript(text)


def _shell(text: str) -> dict[str, Any]:
    header = parse_shell(text)
    return BARE_SCRIPT | header if _is_bare(text, header) else header


def _toml(text: str) -> dict[str, Any]:
    from ryeos.items.header_values import parse_toml

    return parse_toml(text)


PARSERS: Mapping[str, Callable[[str], dict[str, Any]]] = {
    ".py": _python,
    ".yaml": _yaml,
    ".yml": _yaml,
    ".json": _json,
    ".js": _javascript,
    ".ts": _javascript,
    ".mjs": _javascript,
    ".cjs": _javascript,
    ".sh": _shell,
    ".toml": _toml,
}
"""Suffix -> parser, in the order in which files of one id are looked for."""

NAMED_PARSERS: Mapping[str, Callable[[str], dict[str, Any]]] = {
    "python/ast": _python,
    "yaml/yaml": _yaml,
    "json/json": _json,
    "javascript/javascript": _javascript,
    "shell/shell": _shell,
    "toml/toml": _toml,
}
"""Name in an extractor -> parser; those of comments take the comment's mark too."""
COMMENT_PARSERS = ("comments/tags", "comments/yaml")


# --- comments -------------------------------------------------------------------------------------
# Headers that stand in the comments at the top of a file, whatever the language.
#
# A line counts if it begins with the language's mark for a comment to the end of the line; the
# first line that is neither such a comment nor blank ends the header. Page: ``docs/items.md``.

_TAG = pattern(r"[ \t]*@(\w+)[ \t]+(.+)")
_FIELD = pattern(r"[ \t]*(\w+):[ \t]+(.+)")
_DUNDER = pattern(r"[ \t]*(__\w+__)[ \t]*=[ \t]*(.+)")
_SCHEMA = pattern(
    r"[ \t]*(?:@config_schema[ \t]|(?:config_schema|input_schema|CONFIG_SCHEMA)[ \t]*[:=])(.*)"
)
_SANDBOX = pattern(r"[ \t]*(?:@sandbox[ \t]|(?:sandbox|SANDBOX)[ \t]*[:=])(.*)")
_FENCE = "---"


def parse_tags(text: str, mark: str) -> dict[str, Any]:
    """What the comments say, under the names that Python files use; values are strings.

    ``version: 1.0.0`` and ``@version 1.0.0`` for the known words
    (`ryeos.items.header_values.TAGS`), ``__version__ = "1.0.0"`` for any name. Later in this list
    wins over earlier, and the last of a kind over those before it. ``config_schema: {...}`` and
    ``sandbox: {...}`` are JSON, which may continue in the comments below it.

    Raises MetadataError, also for one of these that cannot be read: without it nothing is checked.
    """
    require_parsable_text("comments", text)
    fields: dict[str, Any] = {}
    tags: dict[str, Any] = {}
    dunders: dict[str, Any] = {}
    blocks: dict[str, Any] = {}
    comments = list(_comments(text, mark))
    for index, (number, line) in enumerate(comments):
        below = [more for _, more in comments[index + 1 :]]
        if found := _SCHEMA.fullmatch(line):
            blocks["config_schema"] = _object_in([found[1], *below], number, "config_schema")
        elif found := _SANDBOX.fullmatch(line):
            blocks["sandbox"] = _object_in([found[1], *below], number, "sandbox")
        elif (field := _FIELD.fullmatch(line)) and field[1] in TAGS:
            fields[TAGS[field[1]]] = unquoted(field[2])
        elif (tag := _TAG.fullmatch(line)) and tag[1] in TAGS:
            tags[TAGS[tag[1]]] = unquoted(tag[2])
        elif dunder := _DUNDER.fullmatch(line):
            dunders[dunder[1]] = unquoted(dunder[2])
    return fields | tags | dunders | blocks


def read_tag(comment: str) -> tuple[str, str] | None:
    """The field that `parse_tags` reads in a comment behind its mark, and the value as written."""
    if found := _SCHEMA.fullmatch(comment):
        return "config_schema", found[1].strip()
    if found := _SANDBOX.fullmatch(comment):
        return "sandbox", found[1].strip()
    if (found := _FIELD.fullmatch(comment) or _TAG.fullmatch(comment)) and found[1] in TAGS:
        return TAGS[found[1]].strip("_"), unquoted(found[2])
    found = _DUNDER.fullmatch(comment)
    return (found[1].strip("_"), unquoted(found[2])) if found else None


def read_block(comment: str) -> str:
    """What a comment says behind the name of an object that may go on below it, ``""`` else."""
    found = _SCHEMA.fullmatch(comment) or _SANDBOX.fullmatch(comment)
    return found[1] if found else ""


def assigned_by_shell(line: str) -> dict[str, str]:
    """The assignment that `parse_shell` reads in a line, by its name."""
    return _assignments(line)


def _object_in(lines: Sequence[str], number: int, name: str) -> dict[str, Any]:
    """The JSON object that these lines begin with. Raises MetadataError, at line ``number``."""
    import json

    decoder = json.JSONDecoder(object_pairs_hook=_object_of_unique_keys)
    text = "\n".join(lines).lstrip()
    try:
        value, end = decoder.raw_decode(text)
        value = plain_value(value)
        if not isinstance(value, dict):
            problem = "expected an object"
        elif behind := text[end:].partition("\n")[0].strip():
            problem = f"expected nothing behind the object, found {shown(behind)}"
        else:
            return value
    except json.JSONDecodeError as error:
        problem, number = f"expected JSON: {error.msg}", number + error.lineno - 1
    except UnreadableValueError as error:
        problem = error.problem
    except (ValueError, RecursionError) as error:
        problem = f"expected JSON: {error}"
    raise MetadataError("comments", f"{name}: {problem}", number)


def parse_block(text: str, mark: str) -> dict[str, Any]:
    """The YAML mapping between the first two comments that say ``---``; nothing without the first.

    Raises MetadataError.
    """
    from ryeos.items.yaml import parse_yaml

    require_parsable_text("comments", text)
    begun = 0
    lines: list[str] = []
    for number, line in _comments(text, mark):
        if line.strip() == _FENCE:
            if begun:
                # Blank lines above, so that messages count as editors do.
                return parse_yaml("\n" * begun + "\n".join(lines), "comments header")
            begun = number
        elif begun:
            lines += [""] * (number - begun - len(lines) - 1)
            lines.append(line.removeprefix(" "))
    if begun:
        problem = f"expected another comment {_FENCE} below, found none"
        raise MetadataError("comments", problem, begun)
    return {}


def without_first_lines(text: str, prefix: str, *, shebang: bool) -> str:
    """The text with a blank line for its signature, and with ``shebang`` for such a line."""
    lines = text.split("\n", 2)
    at = 1 if shebang and lines[0].startswith("#!/") else 0
    if at:
        lines[0] = ""
    if at < len(lines) and lines[at].startswith(f"{prefix} rye:signed:"):
        lines[at] = ""
    return "\n".join(lines)


def _comments(text: str, mark: str) -> Iterator[tuple[int, str]]:
    """The lines of the header behind their marks, each with its number, counted from 1."""
    for number, line in enumerate(text.split("\n"), 1):
        if line.startswith(mark):
            yield number, line[len(mark) :]
        elif line.strip(" \t\r"):  # a form feed is no blank for a shell
            return


# --- json documents -------------------------------------------------------------------------------
# JSON files: tools and configuration.

# JSON has no comments, but a signed JSON file starts with one.
_FOREIGN_LINES = pattern(r"\A(?:#!/[^\n]*\n?)?(?:# rye:[^\n]*)?")


def parse_json(text: str) -> dict[str, Any]:
    """The object that a JSON text (RFC 8259) holds; a ``# rye:`` line above it is skipped.

    Stricter than the RFC where it leaves a choice: no key twice, finite numbers only.

    Raises MetadataError.
    """
    import json

    require_parsable_text("json", text)
    bare = _FOREIGN_LINES.sub(_only_newlines, text)
    try:
        value = plain_value(json.loads(bare, object_pairs_hook=_object_of_unique_keys))
    except json.JSONDecodeError as error:
        problem = f"expected JSON: {error.msg[:1].lower()}{error.msg[1:]}"
        raise MetadataError("json", problem, error.lineno) from error
    except UnreadableValueError as error:
        raise MetadataError("json", error.problem) from error
    except RecursionError as error:
        raise MetadataError(
            "json", f"expected at most {MAX_DEPTH} levels of nesting, found more"
        ) from error
    except ValueError as error:  # a number of more digits than Python converts
        raise MetadataError("json", f"expected a shorter number: {error}") from error
    if not isinstance(value, dict):
        raise MetadataError("json", f"expected an object, found {_json_name(value)}")
    return value


def _only_newlines(matched: re.Match[str]) -> str:
    return "\n" * matched[0].count("\n")


def _object_of_unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    unique = dict(pairs)
    if len(unique) < len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise UnreadableValueError(f"expected each key once, found {shown(key)} twice")
            seen.add(key)
    return unique


def _json_name(value: object) -> str:
    match value:
        case None:
            return "null"
        case list():
            return "an array"
        case str():
            return "a string"
        case bool():
            return "a boolean"
        case _:
            return "a number"


# --- python ---------------------------------------------------------------------------------------
# Headers of Python files, read from the syntax tree: the file is never imported or run.

_NEEDED = frozenset({"CONFIG_SCHEMA", "ENV_CONFIG", "CONFIG", "CONFIG_RESOLVE", "__executor_id__"})

# `warnings.catch_warnings` swaps a list that the whole process shares.
_warnings_lock = threading.Lock()


def parse_python(text: str) -> dict[str, Any]:
    """The constants that a Python file assigns at its top level, and its docstring.

    Read are ``NAME = literal`` and ``NAME: T = literal``; the last assignment of a literal wins.
    Anything computed is skipped, and so is a literal that JSON cannot hold (bytes, a set, a
    complex number, keys that are not strings); but a header block (``CONFIG_SCHEMA`` and its like)
    that cannot be read is an error, since continuing without it would check nothing. Tuples are
    lists. The docstring is under ``__docstring__``. Examples: docs/items.md.

    Raises MetadataError for a file that is not Python, with the line.
    """
    require_parsable_text("python", text)
    module = syntax_tree(text)
    header: dict[str, Any] = {}
    for statement in module.body:
        header.update(_assigned_constants(statement))
    return _docstring(module) | header


def syntax_tree(text: str) -> "ast.Module":
    """The tree of a Python text, without its warnings. Raises MetadataError, with the line."""
    import ast
    import warnings

    try:
        with _warnings_lock, warnings.catch_warnings():
            # A doubtful escape in a tool is for its author; here the warning would reach stderr.
            warnings.simplefilter("ignore")
            return ast.parse(text)
    except SyntaxError as error:
        problem = f"expected Python: {error.msg[:200]}"
        raise MetadataError("python", problem, error.lineno) from error
    except (MemoryError, RecursionError) as error:
        raise MetadataError("python", "expected Python, found nesting too deep for it") from error


def _assigned_constants(statement: "ast.stmt") -> dict[str, Any]:
    import ast

    match statement:
        case (
            ast.Assign(targets=[ast.Name(id=name)], value=value)
            | ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value)
        ):
            return _literal(name, value)
        case _:
            return {}


def _literal(name: str, value: "ast.expr") -> dict[str, Any]:
    import ast

    try:
        return {name: plain_value(ast.literal_eval(value))}
    except (ValueError, TypeError, RecursionError, UnreadableValueError) as error:
        if name in _NEEDED:
            problem = f"expected {name} to be a literal, found something computed"
            raise MetadataError("python", problem, value.lineno) from error
        return {}


def is_literal(value: "ast.expr") -> bool:
    """Whether `parse_python` reads a value."""
    import ast

    try:
        plain_value(ast.literal_eval(value))
    except (ValueError, TypeError, RecursionError, UnreadableValueError):
        return False
    return True


def _docstring(module: "ast.Module") -> dict[str, Any]:
    import ast

    match module.body:
        case [ast.Expr(value=ast.Constant(value=str())) as first, *_]:
            return _literal("__docstring__", first.value)
        case _:
            return {}


# --- shell ----------------------------------------------------------------------------------------
# Headers of shell scripts: the comments at the top, and assignments that need no shell.

_ASSIGNMENT = pattern(
    r"""
    ^(__\w+__)= (?: "([^"\\$`\n]*)" | '([^'\n]*)' | ([\w./:@%+,-]*) )
    (?: [\ \t]*;.* | [\ \t]+\#.* | [\ \t]* )$
    """,
    re.MULTILINE | re.VERBOSE,
)


def parse_shell(text: str) -> dict[str, Any]:
    """What a shell script says about itself, under the names that Python files use.

    Comments above the first command (`parse_tags`), and below, assignments
    at the beginning of a line: ``__version__="1.0.0"``, unless the value needs a shell. These win
    over comments, the last over those before it. Every value is a string. Examples:
    docs/items.md.

    Raises MetadataError.
    """
    require_parsable_text("shell", text)
    assigned = re.search(r"^(CONFIG_SCHEMA|SANDBOX|__sandbox__)=", text, re.MULTILINE)
    if assigned:
        line = text.count("\n", 0, assigned.start()) + 1
        name = "config_schema" if assigned[1] == "CONFIG_SCHEMA" else "sandbox"
        problem = f"expected it in the comments at the top, as # {name}: {{...}}"
        raise MetadataError("shell", problem, line)
    return parse_tags(text, "#") | _assignments(text)


BARE_SCRIPT = {
    "__version__": "0.0.0",
    "__tool_type__": "bash",
    "__executor_id__": "rye/core/runtimes/bash/bash",
}
"""What a shell script is that begins with ``#!`` and does not say what it is.

No signature covers that line: the version does, which stands in the line of its identity.
"""
_SAYS_WHAT = frozenset({"tool_type", "executor_id", "__tool_type__", "__executor_id__"})


def is_bare_script(suffix: str, text: str) -> bool:
    """Whether it is a shell script that does not say what it is. Raises MetadataError."""
    return suffix == ".sh" and _is_bare(text, parse_shell(text))


def own_version(header: Mapping[str, Any], suffix: str, text: str) -> object:
    """The version that a text names by itself; None where it does not, as a bare script may not."""
    version = header.get("version")
    is_default = version == BARE_SCRIPT["__version__"] and is_bare_script(suffix, text)
    return None if is_default else version


def _is_bare(text: str, header: Mapping[str, Any]) -> bool:
    return text.startswith("#!") and _SAYS_WHAT.isdisjoint(header)


def _assignments(text: str) -> dict[str, str]:
    return {
        found[1]: found[2] or found[3] or found[4] or "" for found in _ASSIGNMENT.finditer(text)
    }
