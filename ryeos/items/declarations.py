"""Declarations that a text seems to make and that Rye does not read, so that they are refused.

A person who reads ``SANDBOX`` in a tool takes it for the tool's rights. So a text that assigns a
field of its header twice, in a branch, computed, in other letters or in the form of another file
type is not signed, and a tool with such rights does not run. What only reads a field is fine, and
so is what stands in a string. Pages: ``docs/items.md``, ``docs/writing-tools.md``.

(1) `may_have_unread` searches for words; most texts end here
(2) a reader of the file type gives every place that binds a name
(3) `_judged` compares these places with what the header's parser reads
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any

from lillux.patterns import pattern
from lillux.values import dataclass
from ryeos.items.header_names import (
    SANDBOX,
    Binding,
    Unread,
    declared_in_comment,
    has_sandbox_words,
    is_one_slip,
    sandbox_words,
    seems_right,
    seems_rights,
    seems_sandbox,
    skeleton,
    squashed,
)
from ryeos.items.header_values import line_of, shown, toml_comments
from ryeos.items.refs import FileType, Kind
from ryeos.items.rights import KEYS
from ryeos.items.specs import SPELLINGS

# --- names ----------------------------------------------------------------------------------------

_FIELDS: Mapping[str, str] = {name: field for field, names in SPELLINGS.items() for name in names}
_CONSTANTS = frozenset(name for name in _FIELDS if name.isupper() or name.startswith("__"))
# Constants of many programs: declarations at the top level only, and not in a module of a tool.
_PLAIN_CONSTANTS = frozenset({"ANCHOR", "CONFIG", "INPUTS", "OUTPUTS", "PARAMETERS", "VARIANTS"})
# Variables of many programs: no declarations in code, whatever is assigned to them.
_VARIABLES = frozenset({"anchor", "config", "description", "inputs", "name", "outputs"}) | {
    "parameters",
    "variants",
}
_DECIDING = frozenset({"sandbox", "executor_id", "tool_type"})
"""Fields that make a file a tool or give it rights: they count in a module of a tool, too."""
_DATA_SUFFIXES = frozenset({".yaml", ".yml", ".json", ".toml"})
_KNOWLEDGE_FIELDS = ("name", "title", "version", "entry_type", "category")
_CONFIG_FIELDS = ("version", "category")

_SQUASHED: Mapping[str, str] = {squashed(name): field for name, field in _FIELDS.items()}


def _field_in_code(name: str, *, is_inner: bool) -> str | None:
    """The field that a name in a program seems to declare; ``is_inner``: below the top level."""
    if name in _CONSTANTS:
        return None if is_inner and name in _PLAIN_CONSTANTS else _FIELDS[name]
    is_constant = name.upper() == name or name.startswith("__")
    if is_constant and not is_inner and seems_right(name):
        return SANDBOX
    if seems_sandbox(name):
        is_private = name.startswith("_") and not name.startswith("__") and not is_constant
        return None if is_private or (is_inner and not is_constant) else SANDBOX
    if is_inner or name in _VARIABLES:
        return None
    is_spelt = "_" in name.strip("_") or name.startswith("__") or name == "executorId"
    return _SQUASHED.get(squashed(name)) if is_spelt else None


# --- search ---------------------------------------------------------------------------------------

_DUNDERS = tuple(sorted(name for name in _FIELDS if name.startswith("__")))
_SPELT = tuple(
    sorted({name.lower() for name in _FIELDS if "_" in name.strip("_") and name[0] != "_"})
)
_MAIN = pattern(r"__name__ *[=!]=|[(\[] *__name__ *[)\]]")
_BY_TEXT = pattern(r"\b(?:globals|locals|vars|exec|eval|__dict__|\w*attr(?:__)?)\b|__builtins__")
_LINE_ENDS = pattern("\r(?!\n)|[\x0b\x0c\x1c-\x1e\x85\u2028\u2029]")


def may_have_unread(kind: Kind, suffix: str, text: str, header: Mapping[str, Any]) -> bool:
    """Whether a text has words that `unread_declarations` must look at: a quick search."""
    from ryeos.items.comment_fields import may_have_fields

    if kind is Kind.TOOL and next(_inner_blocks(suffix, header), None):
        return True
    if kind is Kind.TOOL and next(_inner_names(suffix, header), None):
        return True
    if kind is Kind.KNOWLEDGE or suffix in _DATA_SUFFIXES:
        fields = _fields_of(kind)
        is_doubtful = (
            (kind is Kind.TOOL and "#" in text)
            or "<<" in text
            or "\n---" in text
            or text.startswith("---\n---")
        )
        return is_doubtful or next(_doubtful_keys(header, fields), None) is not None
    if suffix == ".py" and text.isascii():
        return (
            _BY_TEXT.search(text) is not None
            or any(isinstance(header[name], (dict, list)) for name in header if name in _FIELDS)
            or _has_further_words(text, header)
            or may_have_fields(text)
        )
    if suffix == ".sh" and text.isascii() and not _LINE_ENDS.search(text):
        return next(sandbox_words(text), None) is not None or may_have_fields(text)
    return True


def _has_further_words(text: str, header: Mapping[str, Any]) -> bool:
    """Whether a name of the header is there more often than the parser has read it.

    Counts of fixed texts, which take a hundredth of what parsing the file takes.
    """
    lowered = text.lower()
    letters = lowered.replace("_", "")
    blocks = "SANDBOX" in header or ("sandbox" in header and "sandbox" in text)
    found = max(letters.count("sand"), letters.count("box")) + letters.count("sanbdox")
    if found > blocks:
        return True
    read = [name for name in header if name in _FIELDS and name in text]
    if text.count("__") > 2 * sum(name.startswith("__") for name in read):
        for name in _DUNDERS:
            if lowered.count(name[:-2]) > (name in read) and not _is_main(name, text):
                return True
    for word in _PLAIN_CONSTANTS:
        if text.count(word) > sum(word in name for name in read):
            return True
    names = "\n".join(name.lower() for name in read if not name.islower() or name[:1] == "_")
    return any(lowered.count(word) > names.count(word) for word in _SPELT)


def _is_main(name: str, text: str) -> bool:
    """Whether ``__name__`` is there only to be compared."""
    return name == "__name__" and text.count(name) == len(_MAIN.findall(text))


def may_have_unread_rights(text: str, *, has_rights: bool) -> bool:
    """Whether `unread_rights` must look at a text: the search of each run, in one pass or two."""
    lowered = text.lower()
    if not text.isascii():
        lowered = skeleton(lowered)
    if not has_sandbox_words(lowered):
        return False
    return sum(map(seems_sandbox, sandbox_words(lowered))) > (1 if has_rights else 0)


# --- findings -------------------------------------------------------------------------------------


def unread_declarations(
    kind: Kind,
    suffix: str,
    text: str,
    header: Mapping[str, Any],
    *,
    is_module: bool = False,
    file_type: FileType | None = None,
) -> Iterator[Unread]:
    """What a text seems to declare and Rye does not read, in the order of its lines.

    ``text`` is the whole file, ``header`` what was read of it. ``is_module``: it is a part of a
    tool, so only fields count that would make it one. Raises MetadataError.
    """
    if file_type is None and not may_have_unread(kind, suffix, text, header):
        return
    found = list(_unread(kind, suffix, text, file_type))
    if kind is Kind.TOOL:
        found += _in_comments(suffix, text, header, file_type)
    if kind is Kind.TOOL and not is_module:
        found += [*_inner_rights(suffix, text, header), *_inner_fields(suffix, text, header)]
    for one in sorted(found, key=lambda one: one.line):
        if not is_module or one.field in _DECIDING:
            yield one


def unread_rights(suffix: str, text: str, file_type: FileType | None = None) -> Iterator[Unread]:
    """Of these, the ones about rights: a tool that has one must not run. Raises MetadataError."""
    from ryeos.items.headers import parse_header

    header = parse_header(suffix, text, file_type=file_type)
    for one in (
        *_unread(Kind.TOOL, suffix, text, file_type),
        *_inner_rights(suffix, text, header),
    ):
        # The search of a run does not look for names like sandbox_write, which signing refuses.
        is_searched = not seems_right(one.name) or any(map(seems_sandbox, sandbox_words(one.name)))
        if one.field == SANDBOX and is_searched:
            yield one


def _unread(kind: Kind, suffix: str, text: str, file_type: FileType | None) -> Iterator[Unread]:
    if file_type is not None:
        yield from _of_added_type(text, file_type)
    elif kind is Kind.DIRECTIVE:
        from ryeos.items.markdown import unread_directive_parts

        yield from unread_directive_parts(text)
    elif suffix == ".md":
        from ryeos.items.markdown import unread_knowledge_parts

        yield from unread_knowledge_parts(text)
        yield from _of_data(suffix, text, _fields_of(kind))
    elif suffix in _DATA_SUFFIXES:
        yield from _of_data(suffix, text, _fields_of(kind))
        if kind is Kind.TOOL:
            yield from _in_comments_of_data(suffix, text)
            yield from _merged(suffix, text)
    elif suffix == ".py":
        from ryeos.items.python_bindings import python_bindings

        yield from _judged(python_bindings(text))
    elif suffix == ".sh":
        from ryeos.items.shell_text import shell_bindings

        yield from _judged_comments(shell_bindings(text))
    else:
        from ryeos.items.javascript import javascript_bindings

        yield from _judged(javascript_bindings(text))


_PARSED_AS = {"python/ast": ".py", "javascript/javascript": ".js"}


def _in_comments(
    suffix: str, text: str, header: Mapping[str, Any], file_type: FileType | None
) -> Iterator[Unread]:
    """Fields that comments of a program seem to declare, of those that its header has elsewhere."""
    as_suffix = _PARSED_AS.get(file_type.parser, "") if file_type else suffix
    if as_suffix == ".py":
        from ryeos.items.python_bindings import unread_fields

        yield from unread_fields(text, header)
    elif as_suffix in {".js", ".ts", ".mjs", ".cjs"}:
        from ryeos.items.javascript import unread_comments

        yield from unread_comments(text, header)


_FIX = "write it once, at the top level, as {name} = and one literal"


def _judged(found: Iterable[Binding | Unread]) -> Iterator[Unread]:
    """What programs bind besides the one literal of each field that counts."""
    by_field: dict[str, list[Binding]] = {}
    for one in found:
        if isinstance(one, Unread):
            yield one
        elif field := _field_in_code(one.name, is_inner=one.is_inner):
            by_field.setdefault(field, []).append(one)
    for field, bindings in by_field.items():
        read = [one for one in bindings if one.is_read and one.name in SPELLINGS[field]]
        # The parser takes the first spelling of its list, and of one spelling the last value.
        read.sort(key=lambda one: (-SPELLINGS[field].index(one.name), one.line))
        counts = read[-1] if read else None
        for one in bindings:
            if one.is_use:
                if counts and one.name == counts.name:
                    yield _handed_on(one, counts)
            elif one is not counts:
                how = one.how or "is not the name of a field"
                how = "is assigned a second time" if one.is_read and counts else how
                yield _unread_binding(one, field, how, counts)


def _handed_on(one: Binding, counts: Binding) -> Unread:
    """The object of rights as a whole in other hands, which may change it under another name."""
    fix = f'line {counts.line} counts; read a single key, as {one.name}["write"]'
    problem = f"{one.how} as a whole, and may be changed under another name; {fix}"
    return Unread(line=one.line, name=one.name, field=SANDBOX, problem=problem)


def _unread_binding(one: Binding, field: str, how: str, counts: Binding | None) -> Unread:
    if counts:
        fix = f"line {counts.line} counts; remove one"
    else:
        spellings = SPELLINGS[field]
        name = one.name if one.name in spellings else spellings[0]
        fix = f"Rye does not read it; {_FIX.format(name=name)}, or rename it"
    return Unread(line=one.line, name=one.name, field=field, problem=f"{how}; {fix}")


def _below_first_lines(file_type: FileType, text: str) -> str:
    from ryeos.items.headers import without_first_lines

    return without_first_lines(text, file_type.prefix, shebang=file_type.after_shebang)


def _judged_comments(found: Iterable[Binding | Unread]) -> Iterator[Unread]:
    """What comments of a header say a second time, or differently; see `shell_bindings`."""
    counting: dict[str, Binding] = {}
    for one in found:
        if isinstance(one, Unread):
            yield one
            continue
        field = _SQUASHED.get(squashed(one.name), one.name)
        first = counting.setdefault(field, one)
        if first is not one and (first.value != one.value or field == SANDBOX):
            problem = f"is declared a second time; see line {first.line}; remove one"
            yield Unread(line=one.line, name=one.name, field=field, problem=problem)


# --- added types ----------------------------------------------------------------------------------

_SUFFIXES_OF_DATA: Mapping[str, str] = {
    "yaml/yaml": ".yaml",
    "json/json": ".json",
    "toml/toml": ".toml",
}


def _of_added_type(text: str, file_type: FileType) -> Iterator[Unread]:
    """Of a type that a space has added: by its parser, or by the lines of its comments."""
    match file_type.parser:
        case "python/ast":
            yield from _unread(Kind.TOOL, ".py", text, None)
        case "javascript/javascript":
            yield from _unread(Kind.TOOL, ".js", text, None)
        case "shell/shell":
            yield from _unread(Kind.TOOL, ".sh", text, None)
        case "comments/tags" | "comments/yaml":
            from ryeos.items.shell_text import comment_bindings

            text = _below_first_lines(file_type, text)
            is_block = file_type.parser.endswith("yaml")
            yield from _judged_comments(
                comment_bindings(text, file_type.comment, is_block=is_block)
            )
        case name if suffix := _SUFFIXES_OF_DATA.get(name):
            yield from _unread(Kind.TOOL, suffix, _below_first_lines(file_type, text), None)
        case _:
            return


# --- blocks inside of others ----------------------------------------------------------------------

_NO_BLOCKS = frozenset({"none", "any", "nothing"})
_NAMES_OF_CALLERS = frozenset(
    {"properties", "params", "parameters", "arguments", "args", "env", "headers", "body", "json"}
    | {"data", "query", "config_schema", "input_schema", "CONFIG_SCHEMA", "INPUT_SCHEMA"}
    | {"PARAMETERS"}
)
"""Fields whose keys an author chooses, or another program: schemas, parameters, variables."""


def _inner_blocks(suffix: str, header: Mapping[str, Any]) -> Iterator[str]:
    """The keys inside of a header's blocks, at any depth, that seem to declare rights.

    In code, only inside of constants that are fields of a header or are called after it.
    """
    is_data = suffix in _DATA_SUFFIXES
    left: list[Any] = [
        value
        for key, value in header.items()
        if isinstance(value, (dict, list))
        and key not in _NAMES_OF_CALLERS
        and not key.startswith("x-")
        and _FIELDS.get(key) != SANDBOX
        and (is_data or key in _FIELDS or key[:2] == "__" or key.upper() in _HEADERS)
    ]
    while left:
        block = left.pop()
        if isinstance(block, list):
            left += block
        elif isinstance(block, dict):
            for key, value in block.items():
                if key in _NAMES_OF_CALLERS or key.startswith("x-"):
                    continue
                if seems_rights(key) and _is_of_rights(key, value):
                    yield key
                left.append(value)


_HEADERS = frozenset({"HEADER", "META", "METADATA", "TOOL", "TOOL_CONFIG"})


def _is_of_rights(key: str, value: object) -> bool:
    """Whether a value looks like rights: a switch or a name below the same key does not."""
    match value:
        case list() if seems_right(key):
            return True
        case dict() | list():
            names = [squashed(name) for name in value if isinstance(name, str)]
            near = any(is_one_slip(name, right) for name in names for right in KEYS)
            return not value or near
        case None:
            return True
        case str():
            is_exact = squashed(key) == SANDBOX or seems_right(key)
            is_word = is_exact and value.strip().casefold() in _NO_BLOCKS
            return is_word or value.lstrip().startswith("{")
        case _:
            return False


def _inner_rights(suffix: str, text: str, header: Mapping[str, Any]) -> Iterator[Unread]:
    for key in dict.fromkeys(_inner_blocks(suffix, header)):
        yield _inner_unread(suffix, text, key, SANDBOX)


def _inner_unread(suffix: str, text: str, key: str, field: str) -> Unread:
    found = re.finditer(rf'["\']?\b{re.escape(key)}["\']?\s*[:=\]]', text)
    lines = [line_of(text, one.start()) for one in found]
    raw = text.split("\n")
    inner = [one for one in lines if not raw[one - 1].startswith(key)] or lines or [1]
    line = lines[-1] if suffix == ".toml" and lines else inner[0]
    problem = "stands in another block; Rye reads it at the top level of the header alone"
    return Unread(line=line, name=key, field=field, problem=f"{problem}; move or remove it")


_INNER_FIELDS: Mapping[str, type[str] | type[dict[str, Any]]] = {
    "executor_id": str,
    "tool_type": str,
    "config_schema": dict,
    "env_config": dict,
}
"""Fields that no other block has under these names, at whatever depth, by what their values are."""
_INNER_FLAGS = frozenset({"retryable", "native_async", "params_mode", "execution_owner"}) | {
    "verify_deps",
    "config_resolve",
    "child_constraints",
    "execution_params",
}
"""Those that other programs may have further down: they count directly inside of ``config``."""
_READ_IN_CONFIG = frozenset({"params_mode"})
"""Those that are read there as well, see `ryeos.items.specs`."""


def _inner_names(suffix: str, header: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """The keys inside of a header's blocks that seem to be fields of it, each with its field."""
    is_data = suffix in _DATA_SUFFIXES
    for name, block in header.items():
        field = _FIELDS.get(name)
        if name in _NAMES_OF_CALLERS or field == SANDBOX or name.startswith("x-"):
            continue
        if field is None and not is_data:
            continue
        for key, value, is_direct in _keys_inside(block):
            inner = _SQUASHED.get(squashed(key), "")
            is_field = isinstance(value, _INNER_FIELDS.get(inner, ()))
            is_field &= is_direct or "_" in key or "-" in key
            is_own = is_direct and field in {"config", "env_config"}
            if is_own and field == "config" and key in _READ_IN_CONFIG:
                continue
            if is_field or (is_own and inner in _INNER_FLAGS):
                yield key, inner


def _keys_inside(block: object) -> Iterator[tuple[str, object, bool]]:
    """The keys of a block and of those inside of it, and whether they stand in it directly."""
    left = [(block, True)]
    while left:
        one, is_direct = left.pop()
        if isinstance(one, list):
            left += [(part, False) for part in one]
        elif isinstance(one, dict):
            for key, value in one.items():
                is_free = key in _NAMES_OF_CALLERS or key.startswith("x-")
                if not is_free:
                    left.append((value, False))
                if not is_free or (is_direct and key in SPELLINGS["config_schema"]):
                    yield key, value, is_direct


def _inner_fields(suffix: str, text: str, header: Mapping[str, Any]) -> Iterator[Unread]:
    for key, field in dict.fromkeys(_inner_names(suffix, header)):
        yield _inner_unread(suffix, text, key, field)


# --- data -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Fields:
    """The fields of a kind's header: their spellings, and these in small letters without lines."""

    spellings: Mapping[str, tuple[str, ...]]
    known: Mapping[str, str]
    near: Mapping[str, str]
    is_tool: bool


@lru_cache(maxsize=4)
def _fields_of(kind: Kind) -> _Fields:
    plain = {Kind.KNOWLEDGE: _KNOWLEDGE_FIELDS, Kind.CONFIG: _CONFIG_FIELDS}.get(kind)
    spellings = {name: (name,) for name in plain} if plain else SPELLINGS
    known = {name: field for field, names in spellings.items() for name in names}
    near = {squashed(name): field for name, field in known.items()}
    return _Fields(spellings, known, near, plain is None)


def _doubtful_keys(keys: Iterable[str], fields: _Fields) -> Iterator[tuple[str, str, bool]]:
    """Keys of a mapping that are nearly a field's, or a second spelling of one.

    Each with its field, and whether it is the second.
    """
    seen: dict[str, list[str]] = {}
    for key in keys:
        if field := fields.known.get(key):
            seen.setdefault(field, []).append(key)
            continue
        is_block = fields.is_tool and not key.startswith("x-") and seems_rights(key)
        field = SANDBOX if is_block else fields.near.get(squashed(key))
        if field:
            yield key, field, False
    for field, found in seen.items():
        found.sort(key=fields.spellings[field].index)
        yield from ((key, field, True) for key in found[1:])


def _of_data(suffix: str, text: str, fields: _Fields) -> Iterator[Unread]:
    """Keys of the outermost mapping that are a field's in other letters, or a field again."""
    keys = list(_keys(suffix, text))
    lines: dict[str, int] = {}
    for key, line in keys:
        if key in lines and key in fields.known:
            problem = f"is there again; line {lines[key]} counts; remove one"
            yield Unread(line=line, name=key, field=fields.known[key], problem=problem)
        lines.setdefault(key, line)
    for key, field, is_second in _doubtful_keys(lines, fields):
        if is_second:
            first = next(name for name in fields.spellings[field] if name in lines)
            problem = f"is {first} again; line {lines[first]} counts; remove one"
        else:
            problem = f"is not read; write {fields.spellings[field][-1]}, or remove it"
        yield Unread(line=lines[key], name=key, field=field, problem=problem)


def _in_comments_of_data(suffix: str, text: str) -> Iterator[Unread]:
    """Comments of YAML and TOML in the form with which a shell script declares its blocks.

    Also lines of a text that are comments for the program that gets the text.
    """
    from ryeos.items.comment_fields import field_in

    if suffix == ".json":
        return
    lines = {
        number: line.lstrip()[1:]
        for number, line in enumerate(text.split("\n"), 1)
        if line.lstrip().startswith("#")
    }
    if suffix == ".toml":
        lines |= toml_comments(text)
    elif " #" in text:
        from ryeos.items.yaml import trailing_comments

        lines |= trailing_comments(text)
    for number, comment in lines.items():
        name, field = declared_in_comment(comment), SANDBOX
        found = None if name else field_in(comment, is_header=False)
        if found and found.value.startswith(('{"', "{}")):
            name, field = found.name, found.field
        if name:
            problem = f"is a comment; Rye does not read it; write the key {field}, or remove it"
            yield Unread(line=number, name=name, field=field, problem=problem)


def _merged(suffix: str, text: str) -> Iterator[Unread]:
    """What ``<<`` takes into a block of YAML, where a reader would not look for it."""
    if suffix not in {".yaml", ".yml"} or "<<" not in text:
        return
    from ryeos.items.yaml import merges

    for name, key, line in merges(text):
        field = _FIELDS.get(name)
        if field == SANDBOX and not key:
            problem = "takes keys in by <<; write each of them out"
            yield Unread(line=line, name=name, field=SANDBOX, problem=problem)
        elif field and field != SANDBOX and key:
            problem = f"has the key {shown(key)} here and in a mapping for <<; remove one"
            yield Unread(line=line, name=name, field=field, problem=problem)


def _keys(suffix: str, text: str) -> Iterator[tuple[str, int]]:
    """The keys of a header's outermost mapping, each with its line."""
    if suffix in {".yaml", ".yml", ".md"}:
        from ryeos.items.yaml import outermost_keys

        if suffix == ".md":
            from ryeos.items.markdown import header_lines

            text = header_lines(text)
        yield from outermost_keys(text)
    else:
        from ryeos.items.headers import parse_header

        for key in parse_header(suffix, text):
            written = re.search(rf'["\']?{re.escape(key)}["\']?\s*[:=]|\[+{re.escape(key)}\]', text)
            yield key, line_of(text, written.start()) if written else 1
