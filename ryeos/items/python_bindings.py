"""Every place of a Python file that binds a name or changes its value, for ``declarations``.

A file of its own, as most texts are never looked at this closely: see
`ryeos.items.declaration_search.may_have_unread`.
"""

import ast
from collections.abc import Container, Iterator, Mapping
from textwrap import dedent
from typing import Any

from lillux.patterns import pattern
from ryeos.items.header_names import (
    Binding,
    Unread,
    declared_in_comment,
    sandbox_words,
    seems_rights,
)
from ryeos.items.header_values import MetadataError, shown
from ryeos.items.python_headers import is_literal, syntax_tree
from ryeos.items.python_names import NamesByText
from ryeos.items.specs import SPELLINGS

_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)
_CHANGES = frozenset(
    {"add", "append", "clear", "extend", "insert", "pop", "popitem", "remove", "reverse", "sort"}
    | {"setdefault", "update", "__setitem__", "__delitem__", "__ior__"}
)
_READS = frozenset({"get", "keys", "items", "values", "copy"})
# Code that its author took out; in small letters it is the form of other file types.
_TAKEN_OUT = pattern(r"[#\s]*(?!sandbox(?:\b|_))[A-Za-z]\w*[ \t]*(?::[^={]*)?=")


_MAX_EXECUTED = 3  # texts inside of texts that are executed
_WORD = pattern(r"\w+")
_FIRST_WORD = pattern(r"\W*(\w+)")


def python_bindings(text: str, *, depth: int = 0) -> Iterator[Binding | Unread]:
    """The bindings of a file, and comments that seem to be some, in no order.

    Assignments of every form, imports, definitions, ``del``, and changes of a value: by method, by
    item, through the names of a module. Of those that ``parse_python`` reads `is_read` is true.
    ``depth``: how many texts, each executed by the one around it, the text is inside of.

    Raises MetadataError.
    """
    module = syntax_tree(text)
    shared = {name for one in ast.walk(module) if isinstance(one, ast.Global) for name in one.names}
    read = dict(_read_statements(module))
    by_text = NamesByText(module, lambda code: _names_in(code, depth + 1))
    reads = set(_reads_of_keys(module))
    # Each node with whether it is inside of a function or class.
    left: list[tuple[ast.AST, bool]] = [(module, False)]
    while left:
        node, is_inner = left.pop()
        for name, how in (*_bound_names(node), *by_text.bound(node)):
            statement = read.get(id(node))
            yield Binding(
                name=name,
                line=getattr(node, "lineno", 1),
                how=how if statement is None else statement,
                is_read=statement == "",
                is_inner=is_inner and name not in shared,
            )
        yield from _handed_on(node, reads)
        is_inside = is_inner or isinstance(node, _SCOPES)
        left.extend((child, is_inside) for child in ast.iter_child_nodes(node))
    yield from _comments(text)


def _names_in(code: str, depth: int) -> Iterator[str]:
    """The names that a text binds when it is executed; all its words if it is no Python."""
    try:
        found = (
            list(python_bindings(dedent(code).strip(), depth=depth))
            if depth <= _MAX_EXECUTED
            else None
        )
    except MetadataError:
        found = None
    if found is None:
        yield from _WORD.findall(code)
        return
    yield from (one.name for one in found if isinstance(one, Binding) and not one.is_use)


def _handed_on(node: ast.AST, reads: Container[int]) -> Iterator[Binding]:
    """A use of the block of rights as a whole; ``reads`` are the nodes that are none."""
    match node:
        case ast.Name(id=name, ctx=ast.Load()) if name in SPELLINGS["sandbox"]:
            if id(node) not in reads:
                yield Binding(name=name, line=node.lineno, how="is handed on", is_use=True)
        case _:
            return


def _reads_of_keys(module: ast.Module) -> Iterator[int]:
    """The names of which one key is read, or all keys: ``NAME["a"]``, ``"a" in NAME``."""
    for node in ast.walk(module):
        match node:
            case ast.Subscript(value=value) | ast.For(iter=value) | ast.comprehension(iter=value):
                yield id(value)
            case ast.Attribute(value=value, attr=method) if method in _READS:
                yield id(value)
            case ast.Call(func=ast.Attribute(value=value, attr=method)) if method in _CHANGES:
                yield id(value)  # refused as a change
            case ast.Compare(left=left, comparators=others):
                yield from map(id, (left, *others))
            case _:
                continue


def _repeated_keys(body: list[ast.stmt]) -> Iterator[Unread]:
    """Keys that stand twice in the literal of a field: Python takes the last one."""
    fields = {name: field for field, names in SPELLINGS.items() for name in names}
    for statement in body:
        match statement:
            case (
                ast.Assign(targets=[ast.Name(id=name)], value=value)
                | ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value)
            ) if name in fields and is_literal(value):
                for key, line, first in _keys_twice(value):
                    problem = f"has the key {shown(key)} twice, first in line {first}; remove one"
                    yield Unread(line=line, name=name, field=fields[name], problem=problem)
            case _:
                continue


def _keys_twice(value: ast.expr) -> Iterator[tuple[str, int, int]]:
    """The keys of a literal that its dictionaries have again, each with its line and the first."""
    for one in ast.walk(value):
        lines: dict[str, int] = {}
        for key in one.keys if isinstance(one, ast.Dict) else ():
            if isinstance(key, ast.Constant) and isinstance(key.value, str):
                if key.value in lines:
                    yield key.value, key.lineno, lines[key.value]
                lines.setdefault(key.value, key.lineno)


def _read_statements(module: ast.Module) -> Iterator[tuple[int, str]]:
    """The targets of plain assignments at the top level, each with ``""`` or why it is not read."""
    for statement in module.body:
        match statement:
            case (
                ast.Assign(targets=[ast.Name() as target], value=value)
                | ast.AnnAssign(target=ast.Name() as target, value=ast.expr() as value)
            ):
                yield id(target), "" if is_literal(value) else "is computed"
            case ast.AnnAssign(target=ast.Name() as target, value=None):
                yield id(target), "has a type and no value"
            case ast.Assign():
                for one in ast.walk(statement):
                    if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store):
                        yield id(one), "is assigned together with other names"
            case _:
                continue


def _bound_names(node: ast.AST) -> Iterator[tuple[str, str]]:
    """The names that one node binds or changes, each with how."""
    match node:
        case ast.Name(id=name, ctx=ast.Store()):
            yield name, "is assigned in a branch, a loop or a definition"
        case ast.Name(id=name, ctx=ast.Del()):
            yield name, "is deleted"
        case ast.alias(name=name, asname=other):
            if _is_constant(bound := other or name.partition(".")[0]):
                yield bound, "is imported"
        case (
            ast.ExceptHandler(name=str(name))
            | ast.MatchAs(name=str(name))
            | ast.MatchStar(name=str(name))
            | ast.MatchMapping(rest=str(name))
        ):
            yield name, "is assigned by a pattern"
        case ast.Call(func=ast.Attribute(value=value, attr=method)) if method in _CHANGES:
            yield from _changed(value)
        case _:
            yield from _defined_or_changed(node)


def _defined_or_changed(node: ast.AST) -> Iterator[tuple[str, str]]:
    match node:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            if _is_constant(name):
                yield name, "is defined"
        case ast.Attribute(attr=name, ctx=ast.Store() | ast.Del()):
            if _is_constant(name):
                yield name, "is assigned as an attribute"
        case ast.Subscript(ctx=ast.Store() | ast.Del(), value=value):
            yield from _changed(value)
        case ast.arg(arg=name):
            if _is_constant(name):
                yield name, "is a parameter"
        case _:
            return


def _is_constant(name: str) -> bool:
    """True if a name is written like a constant: others are methods, classes and attributes."""
    return name.upper() == name or (name.startswith("__") and name != "__name__")


def _changed(value: ast.expr) -> Iterator[tuple[str, str]]:
    """The name at the beginning of ``NAME["write"]`` or ``NAME.x``."""
    while isinstance(value, (ast.Subscript, ast.Attribute)):
        value = value.value
    is_constant = isinstance(value, ast.Name) and _is_constant(value.id)
    if isinstance(value, ast.Name) and (is_constant or value.id == "sandbox"):
        yield value.id, "is changed after it was assigned"


def _comments(text: str) -> Iterator[Unread]:
    """Comments in the form of other file types, which a Python file declares nothing with.

    A comment with ``NAME = ...`` is code that its author took out, as every reader knows.
    """
    found = {
        number
        for number, line in enumerate(text.split("\n"), 1)
        if "#" in line and next(sandbox_words(line), None)
    }
    if not found:
        return
    for line, comment in _comment_lines(text):
        name = declared_in_comment(comment) if line in found else ""
        if name and not _TAKEN_OUT.match(comment):
            problem = "is a comment; Rye does not read it; in Python write SANDBOX = {...}"
            yield Unread(line=line, name=name, field="sandbox", problem=problem)


def unread_fields(text: str, header: Mapping[str, Any]) -> Iterator[Unread]:
    """Comments and docstrings that seem to declare fields, which Python declares by constants.

    And keys that a field has twice. Raises MetadataError.
    """
    from ryeos.items.comment_fields import unread_lines

    body = syntax_tree(text).body
    yield from _repeated_keys(body)
    end = next((one.lineno for one in body if not isinstance(one, _HEADER_STATEMENTS)), None)
    in_header, below = list[tuple[int, str]](), list[tuple[int, str]]()
    for line, comment in _comment_lines(text):
        if not _TAKEN_OUT.match(comment):
            (in_header if end is None or line < end else below).append((line, comment))
    documented = list(_lines_of_docstrings(body, end))
    fix = "in Python write a constant at the top level"
    yield from unread_lines([*in_header, *documented], header, is_header=True, fix=fix)
    yield from unread_lines(below, header, is_header=False, fix=fix)
    for line, said in documented:
        first = _FIRST_WORD.match(said)
        if first and seems_rights(first[1]) and (name := declared_in_comment(said)):
            problem = "is a text; Rye does not read it; in Python write SANDBOX = {...}"
            yield Unread(line=line, name=name, field="sandbox", problem=problem)


_HEADER_STATEMENTS = (ast.Import, ast.ImportFrom, ast.Assign, ast.AnnAssign, ast.Expr)


def _lines_of_docstrings(body: list[ast.stmt], end: int | None) -> Iterator[tuple[int, str]]:
    """The lines of the texts that stand by themselves in the header."""
    for statement in body:
        if end is not None and statement.lineno >= end:
            return
        match statement:
            case ast.Expr(value=ast.Constant(value=str(said))):
                yield from enumerate(said.split("\n"), statement.lineno)
            case _:
                continue


def _comment_lines(text: str) -> Iterator[tuple[int, str]]:
    """The comments of a text, each with its line; all lines of one that Python cannot read."""
    import io
    import tokenize

    try:
        tokens = list(tokenize.generate_tokens(io.StringIO(text).readline))
    except (tokenize.TokenError, SyntaxError):
        return enumerate(text.split("\n"), 1)
    return ((one.start[0], one.string) for one in tokens if one.type == tokenize.COMMENT)
