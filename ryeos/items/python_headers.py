"""Headers of Python files, read from the syntax tree: the file is never imported or run."""

import threading
from typing import TYPE_CHECKING, Any

from ryeos.items.header_values import (
    MetadataError,
    UnreadableValueError,
    plain_value,
    require_parsable_text,
)

if TYPE_CHECKING:
    import ast


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
    """True if `parse_python` reads a value."""
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
