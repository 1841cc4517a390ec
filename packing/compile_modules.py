"""Run by each target interpreter: compile modules to marshalled code, the same in every run.

Reads JSON ``[[file, file name in tracebacks], ...]`` from standard input, writes marshalled
``[magic number, code, ...]`` to standard output. Alone in a fresh process with
``PYTHONHASHSEED=0``: what ``marshal`` writes depends on reference counts and on the order of
frozen sets. A file of its own because other interpreters run it alone.
"""

import ast
import json
import marshal
import sys
from collections.abc import Callable, Sequence
from importlib.util import MAGIC_NUMBER

OWN = frozenset({"lillux", "ryeos", "zipboot"})
# With the libraries that do not read annotations of functions at run time.
UNANNOTATED = OWN | {"nacl", "shtab", "tomlkit", "urllib3"}


def main() -> None:
    """Compile what standard input names."""
    compiled = [MAGIC_NUMBER]
    for path, shown in json.load(sys.stdin):
        with open(path, "rb") as file:  # noqa: PTH123 - as little as possible is loaded here
            tree = ast.parse(file.read(), shown)
        packages = shown.split("/")[1:3]
        remove_docstrings(tree)
        if not OWN.isdisjoint(packages):
            erase_types(tree)
        elif not UNANNOTATED.isdisjoint(packages):
            remove_annotations(tree)
        code = compile(tree, shown, "exec", dont_inherit=True, optimize=0)
        # Once more through marshal: what is shared no longer depends on who else holds it.
        compiled.append(marshal.dumps(marshal.loads(marshal.dumps(code))))  # noqa: S302 - our own
    sys.stdout.buffer.write(marshal.dumps(compiled, 2))  # readable by every version


def remove_docstrings(tree: ast.Module) -> None:
    """Take them out, every other line stays where it is: they are a tenth of the code.

    Nothing reads them at run time, and the sources that are packed too still have them.
    """
    for node in ast.walk(tree):
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
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            node.returns = None
        elif isinstance(node, ast.arg):
            node.annotation = None
    for position, node in enumerate(tree.body):
        if isinstance(node, ast.AnnAssign) and node.value is not None:
            plain = ast.Assign([node.target], node.value)
            tree.body[position] = ast.copy_location(plain, node)


def erase_types(tree: ast.Module) -> None:
    """Take out what only type checkers read, and the names that were imported for this alone.

    A start would import `typing`, and modules of which it needs only the names of classes.

    1. What stands under ``TYPE_CHECKING``.
    2. Annotations; those of classes, which are the fields of values, become texts as in PEP 563.
    3. The base class ``Protocol``, but for protocols that `isinstance` may ask.
    4. What is annotated as ``TypeAlias``, if only annotations have used it.
    5. Names from imports, where only 1 to 4 have used them, and ``from __future__``, which is
       about annotations in all of our modules.
    """
    before = names_in(tree) | {"annotations"}
    aliases = [
        node.target.id
        for node in tree.body
        if isinstance(node, ast.AnnAssign)
        and isinstance(node.target, ast.Name)
        and is_named(node.annotation, "TypeAlias")
    ]
    replace_statements(tree, without_type_checking)  # 1
    remove_annotations(tree)  # 2
    for node in ast.walk(tree):
        if isinstance(node, ast.AnnAssign) and not isinstance(node.annotation, ast.Constant):
            text = ast.Constant(ast.unparse(node.annotation))
            node.annotation = ast.copy_location(text, node.annotation)
        elif isinstance(node, ast.ClassDef) and not node.decorator_list:  # 3
            node.bases = [base for base in node.bases if not is_named(base, "Protocol")]
    for alias in reversed(aliases):  # 4; one may use those above it
        if alias not in names_in(tree):
            tree.body = [
                node
                for node in tree.body
                if not (isinstance(node, ast.Assign) and is_named(node.targets[0], alias))
            ]
    erased = before - names_in(tree)
    replace_statements(tree, lambda statement: import_without(statement, erased))  # 5


def names_in(tree: ast.Module) -> set[str]:
    """The names that code reads, and those that a module offers by ``__all__``."""
    names = {
        node.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)
    }
    for node in tree.body:
        if isinstance(node, ast.Assign) and is_named(node.targets[0], "__all__"):
            names.update(ast.literal_eval(node.value))
    return names


def replace_statements(
    tree: ast.Module, replacement: Callable[[ast.stmt], Sequence[ast.stmt]]
) -> None:
    """Put something else in the place of every statement, in all blocks."""
    for node in ast.walk(tree):
        for name in ("body", "orelse", "finalbody"):
            block = getattr(node, name, None)
            if isinstance(block, list) and block:
                kept = [one for statement in block for one in replacement(statement)]
                # Only a module and the other branches may be left without any statement.
                needs_one = name == "body" and not isinstance(node, ast.Module)
                block[:] = kept or ([ast.copy_location(ast.Pass(), block[0])] * needs_one)


def without_type_checking(statement: ast.stmt) -> Sequence[ast.stmt]:
    """What is left of a statement at run time, where ``TYPE_CHECKING`` is false."""
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


def is_named(node: ast.expr, name: str) -> bool:
    """Whether an expression is nothing but this name."""
    return isinstance(node, ast.Name) and node.id == name


if __name__ == "__main__":
    main()
