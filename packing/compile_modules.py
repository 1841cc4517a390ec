"""Run by each target interpreter: compile modules to marshalled code, the same in every run.

Reads JSON ``[[file, file name in tracebacks, [name that stays, ...]], ...]`` from standard input,
writes marshalled ``[magic number, code, ...]`` to standard output. Alone in a fresh process with
``PYTHONHASHSEED=0``: what ``marshal`` writes depends on reference counts and on the order of
frozen sets. A file of its own because other interpreters run it alone.
"""

import __future__

import ast
import gc
import json
import marshal
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from importlib.util import MAGIC_NUMBER
from types import CodeType

OWN = frozenset({"lillux", "ryeos", "zipboot"})
# With the libraries that do not read annotations of functions at run time.
UNANNOTATED = OWN | {"nacl", "shtab", "tomlkit", "urllib3"}
# Modules of libraries whose expressions are compiled when they are first used: of those modules a
# command that speaks HTTP or reads YAML needs a few. They only call methods of them.
LATE_PATTERNS = frozenset(
    {
        *("urllib3/connection.py", "urllib3/util/url.py"),
        *("yaml/constructor.py", "yaml/reader.py", "yaml/resolver.py"),
    }
)
# What a module of a library imports at its top, and needs in functions that we hardly call.
LATE_IMPORTS = {"urllib3/http2/__init__.py": frozenset({"importlib.metadata"})}


def main() -> None:
    """Compile what standard input names."""
    gc.disable()  # looking for cycles in trees takes a fifth of the time and frees nothing
    compiled = [MAGIC_NUMBER]
    for path, shown, kept in json.load(sys.stdin):
        with open(path, "rb") as file:  # noqa: PTH123 - as little as possible is loaded here
            tree = ast.parse(file.read(), shown)
        packages = shown.split("/")[1:3]
        remove_docstrings(tree)
        inside = "/".join(shown.split("/")[1:])
        if inside in LATE_PATTERNS:
            compile_patterns_late(tree)
        if inside in LATE_IMPORTS:
            import_late(tree, LATE_IMPORTS[inside])
        flags = 0
        if not OWN.isdisjoint(packages):
            erase_types(tree, kept)
            keep_texts_of_annotations(tree)
            flags = __future__.annotations.compiler_flag
        elif not UNANNOTATED.isdisjoint(packages):
            remove_annotations(tree)
        code = with_short_tables(compile(tree, shown, "exec", flags, dont_inherit=True, optimize=0))
        # Once more through marshal: what is shared no longer depends on who else holds it.
        compiled.append(marshal.dumps(marshal.loads(marshal.dumps(code))))  # noqa: S302 - our own
    sys.stdout.buffer.write(marshal.dumps(compiled, 2))  # readable by every version


# Code says the line of each instruction, for tracebacks: without columns the same line again and
# again. Said once for each run of instructions, the tables take a third. The format:
# InternalDocs/code_objects.md of CPython, "The locations table".

_FIRST, _LONGEST, _MORE = 0x80, 8, 0x40
_NO_COLUMNS, _NO_LOCATION = 13, 15


def with_short_tables(code: CodeType) -> CodeType:
    """The same code, and all code in it, with the same lines in fewer entries."""
    inner = (with_short_tables(c) if isinstance(c, CodeType) else c for c in code.co_consts)
    return code.replace(co_consts=tuple(inner), co_linetable=bytes(_entries_of_lines(code)))


def _entries_of_lines(code: CodeType) -> Iterator[int]:
    """The bytes of the table: one entry for each eight code units, or less, of one line."""
    before = code.co_firstlineno
    for units, line in _runs_of_lines(code):
        for length in (*[_LONGEST] * (units // _LONGEST), units % _LONGEST):
            if not length:
                continue
            kind = _NO_LOCATION if line is None else _NO_COLUMNS
            yield _FIRST | kind << 3 | length - 1
            if line is not None:
                yield from _signed_varint(line - before)
                before = line


def _runs_of_lines(code: CodeType) -> Iterator[tuple[int, int | None]]:
    """Runs of code units (2 bytes) on one line: their number, and the line."""
    units, current = 0, None
    for start, end, line in code.co_lines():
        if units and line != current:
            yield units, current
            units = 0
        units, current = units + (end - start) // 2, line
    if units:
        yield units, current


def _signed_varint(number: int) -> Iterator[int]:
    """Six bits in each byte, the least significant first; the sign is the lowest bit."""
    rest = (-number << 1) | 1 if number < 0 else number << 1
    while rest >= _MORE:
        yield rest & (_MORE - 1) | _MORE
        rest >>= 6
    yield rest


def remove_docstrings(tree: ast.Module) -> None:
    """Take them out, every other line stays where it is: they are a tenth of the code.

    Nothing reads them at run time, and the sources that are packed too still have them.
    """
    for node in statements(tree):
        match node:
            case ast.Module(body=[ast.Expr(value=ast.Constant(value=str())), *_]):
                del node.body[0]  # nothing may stand before `from __future__`
            case (
                ast.ClassDef(body=[ast.Expr(value=ast.Constant(value=str())), *_])
                | ast.FunctionDef(body=[ast.Expr(value=ast.Constant(value=str())), *_])
                | ast.AsyncFunctionDef(body=[ast.Expr(value=ast.Constant(value=str())), *_])
            ):
                node.body[0] = ast.copy_location(ast.Pass(), node.body[0])


def remove_annotations(tree: ast.Module) -> None:
    """Take those of functions and modules out: a start evaluates each of them.

    Nothing reads them at run time. Those of classes stay: they are the fields of values.
    """
    for node in statements(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            node.returns = None
            given = node.args
            for one in (*given.posonlyargs, *given.args, *given.kwonlyargs):
                one.annotation = None
            for rest in (given.vararg, given.kwarg):
                if rest:
                    rest.annotation = None
    for position, node in enumerate(tree.body):
        if isinstance(node, ast.AnnAssign) and node.value is not None:
            plain = ast.Assign([node.target], node.value)
            tree.body[position] = ast.copy_location(plain, node)


def compile_patterns_late(tree: ast.Module) -> None:
    """Have a module compile its expressions when it first uses them (`lillux.patterns`).

    All calls of ``re.compile`` outside of functions: what they are given is evaluated as before.
    """
    late = ast.Name("_late_pattern", ast.Load())
    found = [
        node
        for node in outside_functions(tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and is_named(node.func.value, "re")
        and node.func.attr == "compile"
    ]
    for node in found:
        node.func = ast.copy_location(late, node.func)
    if found:
        name = ast.alias("pattern", late.id)
        insert_import(tree.body, ast.ImportFrom("lillux.patterns", [name], 0))


def import_late(tree: ast.Module, modules: frozenset[str]) -> None:
    """Have the functions of a module import for themselves what its top imports from ``modules``.

    Raises ValueError where that is needed at the top, or is not imported there.
    """
    late = [
        node for node in tree.body if isinstance(node, ast.ImportFrom) and node.module in modules
    ]
    names = {alias.asname or alias.name for node in late for alias in node.names}
    tree.body = [node for node in tree.body if node not in late]
    if {node.module for node in late} != modules or names & names_in_nodes(outside_functions(tree)):
        raise ValueError(f"expected imports of {', '.join(sorted(modules))} for functions alone")
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef) and names & names_in_nodes(ast.walk(function)):
            for node in late:
                insert_import(function.body, ast.ImportFrom(node.module, node.names, 0))


def outside_functions(tree: ast.AST) -> Iterator[ast.AST]:
    """Nodes that run when a module is imported: all of it but the bodies of functions."""
    is_function = isinstance(tree, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
    body = getattr(tree, "body", ()) if is_function else ()
    inside = body if isinstance(body, list) else (body,)
    for child in ast.iter_child_nodes(tree):
        if child not in inside:
            yield child
            yield from outside_functions(child)


def insert_import(body: list[ast.stmt], statement: ast.ImportFrom) -> None:
    """Put an import before all else but ``from __future__``, on the line of what follows it."""
    futures = [
        node for node in body if isinstance(node, ast.ImportFrom) and node.module == "__future__"
    ]
    position = body.index(futures[-1]) + 1 if futures else 0
    body.insert(position, ast.fix_missing_locations(ast.copy_location(statement, body[position])))


def erase_types(tree: ast.Module, kept: Collection[str] = ()) -> None:
    """Take out what only type checkers read, and the names that were imported for this alone.

    A start would import `typing`, and modules of which it needs only the names of classes.

    1. What stands under ``TYPE_CHECKING``.
    2. Annotations; those of classes, which are the fields of values, become texts as in PEP 563.
    3. The base class ``Protocol``, but for protocols that `isinstance` may ask.
    4. What is annotated as ``TypeAlias``, if only annotations have used it and it is not ``kept``
       for modules that are packed as they are written.
    5. Names from imports, where only 1 to 4 have used them, and ``from __future__``, which is
       about annotations in all of our modules. A module with shapes keeps those of its fields:
       `lillux.shapes` reads what the texts say.
    """
    before = names_in(tree) | {"annotations"}
    of_fields = names_of_fields(tree) if has_shapes(tree) else set()
    aliases = [
        node.target.id
        for node in tree.body
        if isinstance(node, ast.AnnAssign)
        and isinstance(node.target, ast.Name)
        and is_named(node.annotation, "TypeAlias")
    ]
    replace_statements(tree, without_type_checking)  # 1
    remove_annotations(tree)  # 2
    for node in statements(tree):
        if isinstance(node, ast.AnnAssign) and not isinstance(node.annotation, ast.Constant):
            text = ast.Constant(ast.unparse(node.annotation))
            node.annotation = ast.copy_location(text, node.annotation)
        elif isinstance(node, ast.ClassDef) and not node.decorator_list:  # 3
            node.bases = [base for base in node.bases if not is_named(base, "Protocol")]
    for alias in reversed(aliases):  # 4; one may use those above it
        if alias not in names_in(tree) and alias not in kept:
            tree.body = [
                node
                for node in tree.body
                if not (isinstance(node, ast.Assign) and is_named(node.targets[0], alias))
            ]
    erased = before - names_in(tree) - of_fields
    replace_statements(tree, lambda statement: import_without(statement, erased))  # 5


def has_shapes(tree: ast.Module) -> bool:
    """True if a module has classes of which `lillux.shapes` makes shapes."""
    return any(
        isinstance(node, ast.ImportFrom) and node.module == "lillux.shapes" for node in tree.body
    )


def names_of_fields(tree: ast.Module) -> set[str]:
    """The names in annotations of the fields of classes."""
    fields = (
        statement.annotation
        for node in statements(tree)
        if isinstance(node, ast.ClassDef)
        for statement in node.body
        if isinstance(statement, ast.AnnAssign)
    )
    return {name for annotation in fields for name in names_in_nodes(ast.walk(annotation))}


def keep_texts_of_annotations(tree: ast.Module) -> None:
    """Write texts that annotations have become as names: the compiler makes texts of them again.

    With the flag of PEP 563 a class has its texts at once, in every version. Without it a class
    of 3.14 has a function that makes them.
    """
    for node in statements(tree):
        match node:
            case ast.AnnAssign(annotation=ast.Constant(value=str(text))):
                node.annotation = ast.copy_location(ast.Name(text, ast.Load()), node.annotation)


def names_in(tree: ast.Module) -> set[str]:
    """The names that code reads, and those that a module offers by ``__all__``."""
    names = names_in_nodes(nodes(tree))
    for node in tree.body:
        if isinstance(node, ast.Assign) and is_named(node.targets[0], "__all__"):
            names.update(ast.literal_eval(node.value))
    return names


def names_in_nodes(nodes: Iterable[ast.AST]) -> set[str]:
    """The names that these read."""
    return {
        node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)
    }


def replace_statements(
    tree: ast.Module, replacement: Callable[[ast.stmt], Sequence[ast.stmt]]
) -> None:
    """Put something else in the place of every statement, in all blocks."""
    for node in statements(tree):
        for name in ("body", "orelse", "finalbody"):
            block = getattr(node, name, None)
            if isinstance(block, list) and block:
                kept = [one for statement in block for one in replacement(statement)]
                # Only a module and the other branches may be left without any statement.
                needs_one = name == "body" and not isinstance(node, ast.Module)
                block[:] = kept or ([ast.copy_location(ast.Pass(), block[0])] * needs_one)


def without_type_checking(statement: ast.stmt) -> Sequence[ast.stmt]:
    """Rest of a statement at run time, where ``TYPE_CHECKING`` is false."""
    if isinstance(statement, ast.If) and is_named(statement.test, "TYPE_CHECKING"):
        return statement.orelse
    return (statement,)


def import_without(statement: ast.stmt, erased: set[str]) -> Sequence[ast.stmt]:
    """An import less the names that are erased; nothing if it has no others."""
    if not isinstance(statement, ast.Import | ast.ImportFrom):
        return (statement,)
    kept = [alias for alias in statement.names if (alias.asname or alias.name) not in erased]
    if len(kept) < len(statement.names):
        statement.names = kept
    return (statement,) if kept else ()


_BLOCKS = frozenset({"body", "orelse", "finalbody", "handlers", "cases"})


def statements(tree: ast.Module) -> Iterator[ast.AST]:
    """The module and all statements in it, the outer ones first, with what holds their blocks.

    A tenth of what `ast.walk` goes through, which enters every expression as well.
    """
    pending: list[ast.AST] = [tree]
    for node in pending:  # grows meanwhile
        for name in node._fields:
            if name in _BLOCKS:
                pending.extend(getattr(node, name))
        yield node


_INNER: dict[type[ast.AST], tuple[str, ...]] = {
    **dict.fromkeys((ast.Name, ast.Constant, ast.alias), ()),
    ast.Attribute: ("value",),
    ast.Call: ("func", "args", "keywords"),
    ast.arg: ("annotation",),
    ast.keyword: ("value",),
}
"""The fields that hold other nodes, of what most nodes are."""


def nodes(tree: ast.AST) -> Sequence[ast.AST]:
    """The nodes of `ast.walk`, less contexts and most operators, in two fifths of the time."""
    pending = [tree]
    for node in pending:  # grows meanwhile
        for name in _INNER.get(type(node), node._fields):
            value = getattr(node, name, None)
            if isinstance(value, list):
                pending += [one for one in value if isinstance(one, ast.AST)]
            elif isinstance(value, ast.AST) and value._fields:
                pending.append(value)
    return pending


def is_named(node: ast.expr, name: str) -> bool:
    """True if an expression is nothing but this name."""
    return isinstance(node, ast.Name) and node.id == name


if __name__ == "__main__":
    main()
