"""Comments and code of a shell script, each by itself, and what they seem to declare.

A file of its own, as most scripts are never looked at this closely: see
`ryeos.items.declaration_search.may_have_unread`.
"""

import re
from collections.abc import Iterator, Sequence

from lillux.patterns import pattern
from lillux.values import dataclass
from ryeos.items.header_names import (
    Binding,
    Unread,
    declared_in_comment,
    seems_rights,
    seems_sandbox,
)
from ryeos.items.header_values import TAGS

_HEREDOC = pattern(r"<<(-?)[ \t]*(?:'([^'\n]+)'|\"([^\"\n]+)\"|\\?([A-Za-z_][\w-]*))")
_FURTHER = frozenset({"config_schema", "input_schema", "sandbox"})
_NAMES = frozenset(TAGS) | _FURTHER
_ASSIGNED = pattern(r"(?<![\w$\-{./])(\w+)(?:\[[^\]\n]*\])?\+?=(.*)")
_LINE_ASSIGNED = pattern(r"\s*(?:(?:export|readonly|local|declare|typeset|-\w+)\s+)*(\w+)\+?=(.?)")
_WORDS = pattern(r"^\s*(?:(?:export|readonly|local|declare|typeset|-\w+)\s+)*")
_LINE_ENDS = pattern("\r(?!$)|[\x0b\x0c\x1c-\x1e\x85\u2028\u2029]")
_ALSO_IN_BODY = frozenset({"version", "tool_type", "params_mode"})
"""Fields that count below the header with an exact value, besides those that prose never has."""


@dataclass(frozen=True, slots=True)
class ShellLine:
    """A line of a script: its code and its comment, without what is text of quotes or heredocs."""

    number: int
    code: str
    comment: str | None


def shell_lines(text: str) -> list[ShellLine]:
    """The lines with code or a comment. Of a script whose quotes never close: all, as code."""
    found: list[ShellLine] = []
    quote, waiting = "", list[tuple[bool, str]]()
    for number, line in enumerate(text.split("\n"), 1):
        if waiting and not quote:
            strips, word = waiting[0]
            if (line.lstrip("\t") if strips else line).rstrip("\r") == word:
                waiting.pop(0)
            continue
        code, comment, quote = _split_line(line, quote)
        for mark in _HEREDOC.finditer(code):
            if (
                code[mark.end() : mark.end() + 1] != "<"
                and code[mark.start() - 1 : mark.start()] != "<"
            ):
                waiting.append((bool(mark[1]), mark[2] or mark[3] or mark[4]))
        if code.strip() or comment is not None:
            found.append(ShellLine(number, code, comment))
    if quote or waiting:
        return [
            ShellLine(number, line, line.lstrip()[1:] if line.lstrip()[:1] == "#" else None)
            for number, line in enumerate(text.split("\n"), 1)
        ]
    return found


def _split_line(line: str, quote: str) -> tuple[str, str | None, str]:
    """The code of a line without what it quotes, its comment, and the quote that is still open."""
    code: list[str] = []
    at = 0
    while at < len(line):
        one = line[at]
        if quote:
            if one == "\\" and quote == '"':
                at += 1
            elif one == quote:
                quote = ""
        elif one == "\\":
            at += 1
        elif one in "\"'":
            word = _HEREDOC.match(line, line.rfind("<<", 0, at)) if "<<" in line[:at] else None
            if word and word.start() < at < word.end():
                code.append(line[at : word.end()])
                at = word.end()
                continue
            quote = one
            code.append("q")
        elif one == "#" and (at == 0 or line[at - 1] in " \t;&|()"):
            return "".join(code), line[at + 1 :], quote
        else:
            code.append(one)
        at += 1
    return "".join(code), None, quote


def shell_bindings(text: str) -> Iterator[Binding | Unread]:
    """Declarations in comments and assignments of a script; each `Unread` is not read at all."""
    lines = shell_lines(text)
    yield from comment_bindings(text, "#", below=[one for one in lines if one.comment is not None])
    seen = {one.number for one in lines}
    raw = text.split("\n")
    for number, line in enumerate(raw, 1):
        if number not in seen and re.match(r"__\w+__=", line):
            name = line.partition("=")[0]
            if name.strip("_") in _NAMES:
                problem = "is part of a text, and Rye would read it; indent the line"
                yield _unread(number, name, problem)
        elif number not in seen:
            yield from _in_text(line, number)
    for one in lines:
        for found in _ASSIGNED.finditer(one.code):
            yield from _assignment(found[1], one.number, raw[one.number - 1], found[2])


def _in_text(line: str, number: int) -> Iterator[Unread]:
    """A line of a text over several lines that would declare rights if it were none.

    Where a shell takes such a text to end is more than this reader knows.
    """
    found = _LINE_ASSIGNED.match(line)
    name = found[1] if found else ""
    if found and seems_sandbox(name) and (name.upper() == name or found[2] == "{"):
        pass
    elif line.lstrip().startswith("#"):
        name = declared_in_comment(line, is_header=True)
    else:
        return
    if name:
        problem = "begins a line of a text, and seems to declare rights; write the text to a file"
        yield _unread(number, name, f"{problem} of its own, or put another word before it")


def _assignment(name: str, number: int, line: str, value: str) -> Iterator[Binding | Unread]:

    bare = name.strip("_").lower()
    if seems_sandbox(name) and (name.upper() == name or name.startswith("__") or value[:1] == "{"):
        problem = "is an assignment; Rye reads rights in the comments at the top, # sandbox: {...}"
        yield _unread(number, name, problem)
    elif name == "CONFIG_SCHEMA" or (name.startswith("__") and bare in _NAMES):
        from ryeos.items.shell_headers import shell_assignments

        read = shell_assignments(line)
        if name in read:
            yield Binding(name=bare, line=number, how="is assigned", is_read=True, value=read[name])
        else:
            problem = "is computed, or not at the beginning of a line: Rye does not read it"
            yield _unread(number, name, f"{problem}; write {name.lower()}=VALUE on its own line")
    else:
        yield from _variable(number, line)


def _variable(number: int, line: str) -> Iterator[Unread]:
    """An ordinary variable with the name and the value of a field: ``EXECUTOR_ID=a/b``."""
    from ryeos.items.comment_fields import field_in

    if _LINE_ASSIGNED.match(line) and (found := field_in(_WORDS.sub("", line), is_header=False)):
        problem = f"is a variable; Rye does not read it; {_fix(found.field)}, or rename it"
        yield Unread(line=number, name=found.name, field=found.field, problem=problem)


def _fix(field: str) -> str:
    """The remedy for a field, in the imperative."""
    if field in _NAMES:
        return f"in the comments at the top write # {field}: VALUE"
    return "a shell script cannot say it: write the tool as YAML"


def comment_bindings(
    text: str, mark: str, *, is_block: bool = False, below: Sequence[ShellLine] = ()
) -> Iterator[Binding | Unread]:
    """Declarations in the comments at the top, and in those further down that seem to make some.

    ``below`` are the comments of a script; without it every line with the mark is one. With
    ``is_block`` the comments at the top are YAML between two ``---``.
    """
    from ryeos.items.comment_headers import read_block

    raw = text.split("\n")
    end = len(raw)
    for number, line in enumerate(raw, 1):
        if line.strip(" \t\r") and not line.startswith(mark):
            end = number
            break
        odd = _LINE_ENDS.search(line)
        if odd:
            problem = "ends a line for some readers, in the comments of the header; remove it"
            yield _unread(number, ascii(odd[0])[1:-1], problem)
    top = raw[: end - 1] if end < len(raw) else raw
    inside = 0  # the last line of an object that goes on over several
    for number, line in enumerate(top, 1):
        if line.startswith(mark) and not is_block:
            comment = line[len(mark) :]
            yield from _in_header(comment, number, is_inside=number <= inside)
            if block := read_block(comment).strip():
                below_it = [one[len(mark) :] for one in top[number:]]
                inside = number + _lines_of_object(block, below_it)
    others = [(one.number, one.comment or "") for one in below] or [
        (number, line.lstrip()[len(mark) :])
        for number, line in enumerate(raw, 1)
        if line.lstrip().startswith(mark)
    ]
    for number, comment in others:
        if number >= end or not raw[number - 1].startswith(mark):
            yield from _in_body(comment, number)


def _lines_of_object(first: str, below: Sequence[str]) -> int:
    """The number of comments below its first one over which an object goes on."""
    import json

    said = "\n".join([first, *below])
    try:
        _, end = json.JSONDecoder().raw_decode(said)
    except (ValueError, RecursionError):
        return 0
    return said.count("\n", 0, end)


def _in_header(comment: str, number: int, *, is_inside: bool) -> Iterator[Binding | Unread]:
    """A comment at the top: what is read of it, or that it seems to be read.

    ``is_inside``: it is a part of an object that was read.
    """
    from ryeos.items.comment_fields import field_in, misspelt_prose
    from ryeos.items.comment_headers import read_tag

    said = read_tag(comment)
    if said is not None:
        yield Binding(name=said[0], line=number, how="is declared", is_read=True, value=said[1])
        return
    found = None if is_inside else field_in(comment, is_header=True) or misspelt_prose(comment)
    if found is None or found.field == "sandbox":
        yield from _of_rights(comment, number)
        return
    problem = f"is not read; {_fix(found.field)}, or remove it"
    yield Unread(line=number, name=found.name, field=found.field, problem=problem)


def _in_body(comment: str, number: int) -> Iterator[Unread]:
    """A comment that Rye does not read and that has the form of a declaration."""
    from ryeos.items.comment_fields import field_in

    rights = list(_of_rights(comment, number))
    yield from rights
    found = None if rights else field_in(comment, is_header=True)
    if found is None:
        return
    is_exact = found.field in _ALSO_IN_BODY and found.name.strip("_").casefold() == found.field
    if is_exact or field_in(comment, is_header=False):
        problem = f"is not read; {_fix(found.field)}, or remove it"
        yield Unread(line=number, name=found.name, field=found.field, problem=problem)


def _of_rights(comment: str, number: int) -> Iterator[Unread]:
    if name := declared_in_comment(comment, is_header=True):
        problem = "is not read; in the comments at the top write # sandbox: {...}, or remove it"
        yield _unread(number, name, problem)


def _unread(number: int, name: str, problem: str) -> Unread:

    field = "sandbox" if seems_rights(name) else name.strip("_").lower()
    return Unread(line=number, name=name, field=field, problem=problem)
