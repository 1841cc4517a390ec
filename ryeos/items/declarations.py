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
from typing import Any

from ryeos.items.declaration_search import may_have_unread
from ryeos.items.declared_names import (
    DATA_SUFFIXES,
    FIELDS,
    SQUASHED,
    Fields,
    doubtful_keys,
    field_in_code,
    fields_of,
)
from ryeos.items.header_names import (
    SANDBOX,
    Binding,
    Unread,
    declared_in_comment,
    sandbox_words,
    seems_right,
    seems_sandbox,
    squashed,
)
from ryeos.items.header_values import line_of, shown
from ryeos.items.inner_keys import inner_fields, inner_rights
from ryeos.items.refs import FileType, Kind
from ryeos.items.specs import SPELLINGS
from ryeos.items.toml import toml_comments

_DECIDING = frozenset({"sandbox", "executor_id", "tool_type"})
"""Fields that make a file a tool or give it rights: they count in a module of a tool, too."""


def unread_declarations(
    kind: Kind,
    suffix: str,
    text: str,
    header: Mapping[str, Any],
    *,
    is_module: bool = False,
    file_type: FileType | None = None,
) -> Iterator[Unread]:
    """Declarations that a text seems to make and Rye does not read, in the order of lines.

    ``text`` is the whole file, ``header`` what was read of it. ``is_module``: it is a part of a
    tool, so only fields count that would make it one. Raises MetadataError.
    """
    if file_type is None and not may_have_unread(kind, suffix, text, header):
        return
    found = list(_unread(kind, suffix, text, file_type))
    if kind is Kind.TOOL:
        found += _in_comments(suffix, text, header, file_type)
    if kind is Kind.TOOL and not is_module:
        found += [*inner_rights(suffix, text, header), *inner_fields(suffix, text, header)]
    for one in sorted(found, key=lambda one: one.line):
        if not is_module or one.field in _DECIDING:
            yield one


def unread_rights(suffix: str, text: str, file_type: FileType | None = None) -> Iterator[Unread]:
    """Of these, the ones about rights: a tool that has one must not run. Raises MetadataError."""
    from ryeos.items.headers import parse_header

    header = parse_header(suffix, text, file_type=file_type)
    for one in (
        *_unread(Kind.TOOL, suffix, text, file_type),
        *inner_rights(suffix, text, header),
    ):
        # The search of a run does not look for names like sandbox_write, which signing refuses.
        is_searched = not seems_right(one.name) or any(map(seems_sandbox, sandbox_words(one.name)))
        if one.field == SANDBOX and is_searched:
            yield one


def _unread(kind: Kind, suffix: str, text: str, file_type: FileType | None) -> Iterator[Unread]:
    if file_type is not None:
        yield from _of_added_type(text, file_type)
    elif kind is Kind.DIRECTIVE:
        from ryeos.items.unread_markdown import unread_directive_parts

        yield from unread_directive_parts(text)
    elif suffix == ".md":
        from ryeos.items.unread_markdown import unread_knowledge_parts

        yield from unread_knowledge_parts(text)
        yield from _of_data(suffix, text, fields_of(kind))
    elif suffix in DATA_SUFFIXES:
        yield from _of_data(suffix, text, fields_of(kind))
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
        from ryeos.items.javascript_bindings import javascript_bindings

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
        from ryeos.items.javascript_bindings import unread_comments

        yield from unread_comments(text, header)


_FIX = "write it once, at the top level, as {name} = and one literal"


def _judged(found: Iterable[Binding | Unread]) -> Iterator[Unread]:
    """Bindings of a program besides the one literal of each field that counts."""
    by_field: dict[str, list[Binding]] = {}
    for one in found:
        if isinstance(one, Unread):
            yield one
        elif field := field_in_code(one.name, is_inner=one.is_inner):
            by_field.setdefault(field, []).append(one)
    for field, bindings in by_field.items():
        read = [one for one in bindings if one.is_read and one.name in SPELLINGS[field]]
        # The parser takes the first spelling of its list, and of one spelling the last value.
        read.sort(key=lambda one: (-SPELLINGS[field].index(one.name), one.line))
        counts = read[-1] if read else None
        for one in bindings:
            if one.is_use:
                if counts and one.name == counts.name:
                    yield _object_passed_on(one, counts)
            elif one is not counts:
                how = one.how or "is not the name of a field"
                how = "is assigned a second time" if one.is_read and counts else how
                yield _unread_binding(one, field, how, counts)


def _object_passed_on(one: Binding, counts: Binding) -> Unread:
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
    from ryeos.items.comment_headers import without_first_lines

    return without_first_lines(text, file_type.prefix, shebang=file_type.after_shebang)


def _judged_comments(found: Iterable[Binding | Unread]) -> Iterator[Unread]:
    """Comments of a header that say a thing again, or differently; see `shell_bindings`."""
    counting: dict[str, Binding] = {}
    for one in found:
        if isinstance(one, Unread):
            yield one
            continue
        field = SQUASHED.get(squashed(one.name), one.name)
        first = counting.setdefault(field, one)
        if first is not one and (first.value != one.value or field == SANDBOX):
            problem = f"is declared a second time; see line {first.line}; remove one"
            yield Unread(line=one.line, name=one.name, field=field, problem=problem)


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


def _of_data(suffix: str, text: str, fields: Fields) -> Iterator[Unread]:
    """Keys of the outermost mapping that are a field's in other letters, or a field again."""
    keys = list(_keys(suffix, text))
    lines: dict[str, int] = {}
    for key, line in keys:
        if key in lines and key in fields.known:
            problem = f"is there again; line {lines[key]} counts; remove one"
            yield Unread(line=line, name=key, field=fields.known[key], problem=problem)
        lines.setdefault(key, line)
    for key, field, is_second in doubtful_keys(lines, fields):
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
    """Keys that ``<<`` takes into a block of YAML, where a reader would not look for them."""
    if suffix not in {".yaml", ".yml"} or "<<" not in text:
        return
    from ryeos.items.yaml import merges

    for name, key, line in merges(text):
        field = FIELDS.get(name)
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
            from ryeos.items.unread_markdown import header_lines

            text = header_lines(text)
        yield from outermost_keys(text)
    else:
        from ryeos.items.headers import parse_header

        for key in parse_header(suffix, text):
            written = re.search(rf'["\']?{re.escape(key)}["\']?\s*[:=]|\[+{re.escape(key)}\]', text)
            yield key, line_of(text, written.start()) if written else 1
