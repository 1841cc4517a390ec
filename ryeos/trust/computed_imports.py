"""Places where a start of an environment loads what no import statement names.

`StartFiles` follows import statements, and a start loads nothing else of project and environment:
a module of a computed name, an entry point, a text that is executed may fail there. It is said
where the approval is asked. Read here are only the parts of a module that run when it is imported:
its body, and the functions that the body calls by their names.
"""

import ast
import sys
import warnings
from collections.abc import Iterator, Mapping

_IMPORTS = frozenset({"import_module", "__import__"})
_OTHERS = frozenset(
    {
        *("entry_points", "iter_entry_points", "spec_from_file_location", "exec_module"),
        *("load_module", "load_source", "run_path", "run_module", "addsitedir", "load_entry_point"),
    }
)
_MARKS = tuple(name.encode() for name in sorted(_IMPORTS | _OTHERS))
_Function = ast.FunctionDef | ast.AsyncFunctionDef


def computed_imports(
    sources: Mapping[str, bytes], names: frozenset[str]
) -> list[tuple[str, int, str]]:
    """Each place in sources of a start: file, line, what is called. ``names`` are followed."""
    return [
        (path, call.lineno, name)
        for path, source in sorted(sources.items())
        if path.endswith((".py", ".pyw")) and any(mark in source for mark in _MARKS)
        for call, name in _calls(source, names)
    ]


def _calls(source: bytes, names: frozenset[str]) -> Iterator[tuple[ast.Call, str]]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return
    functions = {node.name: node for node in tree.body if isinstance(node, _Function)}
    known = _renamed(tree)
    waiting: list[ast.AST] = [tree]
    while waiting:
        for call in _run_calls(waiting.pop()):
            said = _called(call)
            if said in functions and isinstance(call.func, ast.Name):
                waiting.append(functions.pop(said))
            name = known.get(said, said)
            if name in _OTHERS or (name in _IMPORTS and not _is_followed(call, names)):
                yield call, name


def _run_calls(start: ast.AST) -> Iterator[ast.Call]:
    """Calls in a body, as far as they run with it: not those in functions that it defines."""
    waiting = list(ast.iter_child_nodes(start))
    while waiting:
        node = waiting.pop(0)
        if isinstance(node, ast.Call):
            yield node
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            waiting[:0] = ast.iter_child_nodes(node)


def _renamed(tree: ast.AST) -> dict[str, str]:
    """Names by the names that they get: ``from importlib import import_module as load``."""
    return {
        one.asname: one.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for one in node.names
        if one.asname
    }


def _called(call: ast.Call) -> str:
    if isinstance(call.func, ast.Attribute):
        return call.func.attr
    return call.func.id if isinstance(call.func, ast.Name) else ""


def _is_followed(call: ast.Call, names: frozenset[str]) -> bool:
    """True if an import by a function is of a name that a statement of the start imports too."""
    first = call.args[0] if call.args else None
    if not isinstance(first, ast.Constant) or not isinstance(first.value, str):
        return False
    name = first.value.partition(".")[0]
    return name.lower() in names or name in sys.stdlib_module_names
