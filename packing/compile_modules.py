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
from importlib.util import MAGIC_NUMBER

# Our own packages and the libraries that do not read annotations of functions at run time.
UNANNOTATED = frozenset({"lillux", "ryeos", "zipboot", "nacl", "shtab", "tomlkit", "urllib3"})


def main() -> None:
    """Compile what standard input names."""
    compiled = [MAGIC_NUMBER]
    for path, shown in json.load(sys.stdin):
        with open(path, "rb") as file:  # noqa: PTH123 - as little as possible is loaded here
            tree = ast.parse(file.read(), shown)
        remove_docstrings(tree)
        if not UNANNOTATED.isdisjoint(shown.split("/")[1:3]):
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


main()
