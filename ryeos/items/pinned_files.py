"""Files that an imported tool lists by their digests, as its Python says them.

    FILES = [("scripts/report.py", "<SHA-256>")]

The tree of the text decides, however the line is written. Where a tool names ``FILES`` together
with a digest in a way that is not this one literal, no list of the files that it runs can be
shown: it is not signed. Page: ``docs/moving-in.md``.
"""

import ast
import unicodedata
from collections.abc import Iterator
from typing import Any

from lillux.patterns import pattern
from lillux.values import dataclass
from ryeos.items.header_names import skeleton
from ryeos.items.python_headers import syntax_tree

NAME = "FILES"
_DIGEST = pattern(r"(?i)(?<![0-9a-f])[0-9a-f]{64}(?![0-9a-f])")
_FIX = f'write {NAME} = [("path", "sha256"), ...] once, at the top level, or rename it'
_PAIR = 2
_BLOCK = "# /// script"
_SEEMS_BLOCK = pattern(r"(?i)[/\\]{2,4}\s*script")


@dataclass(frozen=True, slots=True)
class PinnedFiles:
    """Path and SHA-256 of each file, and what the text says of them that is not read.

    ``problems`` are the lines with what is wrong there.
    """

    files: tuple[tuple[str, str], ...] = ()
    problems: tuple[tuple[int, str], ...] = ()


def pinned_files(text: str) -> PinnedFiles:
    """The list of a Python text. Raises MetadataError where it names `NAME` and is no Python."""
    # Python takes full-width and similar letters of a name for those of ASCII.
    if NAME not in (text if text.isascii() else unicodedata.normalize("NFKC", text)):
        return PinnedFiles()
    module = syntax_tree(text)
    lists = [(one, files) for one in module.body if (files := _listed(one)) is not None]
    counting = lists[0][0] if lists else None
    found = {*_other_digests(module, counting)}
    if counting is not None:
        found |= {*_changes(module, counting)}
    problems = tuple((line, f"{NAME} {problem}; {_FIX}") for line, problem in sorted(found))
    return PinnedFiles(lists[0][1] if lists else (), problems)


def unread_blocks(text: str) -> Iterator[tuple[int, str]]:
    """Comments that seem to begin a block of packages (PEP 723): each line, and what is wrong.

    What is in a string is no comment. Raises MetadataError for no Python.
    """
    written = text.split("\n")
    doubtful = [
        number
        for number, line in enumerate(skeleton(text).split("\n"), 1)
        if "script" in line.casefold()
        and line.strip().startswith("#")
        and _SEEMS_BLOCK.fullmatch(line.strip().lstrip("#! \t\f\v\xa0"))
        and written[number - 1] != _BLOCK
    ]
    if not doubtful:
        return
    inside = _lines_of_strings(text)
    for number in doubtful:
        if number not in inside:
            yield number, f"seems to begin a list of packages and is not read; write {_BLOCK}"


def _lines_of_strings(text: str) -> set[int]:
    """The lines that a string covers but its first one, which begins outside of it."""
    found: set[int] = set()
    for node in ast.walk(syntax_tree(text)):
        if isinstance(node, ast.Constant | ast.JoinedStr) and node.end_lineno:
            found.update(range(node.lineno + 1, node.end_lineno + 1))
    return found


def literal_of(text: str, name: str) -> Any:  # noqa: ANN401 - any literal
    """The value of the first plain literal of this name at the top level, None without one."""
    for statement in syntax_tree(text).body:
        value = _value_of(statement, name)
        if value is not None:
            return _literal(value)
    return None


def _value_of(statement: ast.stmt, name: str) -> ast.expr | None:
    match statement:
        case (
            ast.Assign(targets=[ast.Name(id=target)], value=value)
            | ast.AnnAssign(target=ast.Name(id=target), value=ast.expr() as value)
        ) if target == name:
            return value
        case _:
            return None


def _literal(value: ast.expr) -> Any:  # noqa: ANN401 - any literal
    try:
        return ast.literal_eval(value)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return None


def _listed(statement: ast.stmt) -> tuple[tuple[str, str], ...] | None:
    """The files of a statement that is the list; None for any other."""
    value = _value_of(statement, NAME)
    said = _literal(value) if value is not None else None
    if not isinstance(said, list | tuple) or not said:
        return None
    files = []
    for one in said:
        is_pair = isinstance(one, list | tuple) and len(one) == _PAIR
        if not is_pair or not all(isinstance(part, str) for part in one):
            return None
        path, digest = one
        if not _DIGEST.fullmatch(digest):
            return None
        files.append((path, digest))
    return tuple(files)


def _other_digests(module: ast.Module, counting: ast.stmt | None) -> Iterator[tuple[int, str]]:
    """Statements besides the list that name it and hold a digest."""
    for statement in ast.walk(module):
        if not isinstance(statement, ast.stmt) or statement is counting:
            continue
        own = list(_own_nodes(statement))
        if any(map(_names, own)) and any(map(_holds_digest, own)):
            yield statement.lineno, "holds a digest and is not read"


def _own_nodes(statement: ast.stmt) -> Iterator[ast.AST]:
    """The nodes of a statement without those of statements inside of it."""
    left: list[ast.AST] = [statement]
    while left:
        node = left.pop()
        yield node
        left.extend(one for one in ast.iter_child_nodes(node) if not isinstance(one, ast.stmt))


def _names(node: ast.AST) -> bool:
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name) | ast.Constant(value=name):
            return name == NAME
        case ast.keyword(arg=name) | ast.alias(asname=name) | ast.arg(arg=name):
            return name == NAME
        case _:
            return False


def _holds_digest(node: ast.AST) -> bool:
    if not isinstance(node, ast.Constant):
        return False
    value = node.value.decode("latin-1") if isinstance(node.value, bytes) else node.value
    return isinstance(value, str) and _DIGEST.search(value) is not None


def _changes(module: ast.Module, counting: ast.stmt) -> Iterator[tuple[int, str]]:
    """Places where the list gets another value than the one that is shown."""
    kept = {id(one) for one in ast.walk(counting)}
    for node in ast.walk(module):
        problem = _change(node) if id(node) not in kept else ""
        if problem:
            yield getattr(node, "lineno", 1), problem


def _change(node: ast.AST) -> str:
    """The change that one node makes to the list, ``""`` for one that at most reads it."""
    problem = ""
    match node:
        case ast.Name(id=name, ctx=ast.Store() | ast.Del()) | ast.alias(name=_, asname=name) if (
            name == NAME
        ):
            problem = "gets another value"
        case ast.Attribute(value=ast.Name(id=name)) if name == NAME:
            problem = "is used by one of its methods"
        case ast.Subscript(ctx=ast.Store() | ast.Del()) if any(map(_names, ast.walk(node))):
            problem = "is changed"
        case ast.Constant(value=name) | ast.Attribute(attr=name) if name == NAME:
            problem = "is reached by its name"
        case ast.alias(name=name) if name in {NAME, "*"}:
            problem = "may be imported"
        case (
            ast.FunctionDef(name=name)
            | ast.AsyncFunctionDef(name=name)
            | ast.ClassDef(name=name)
            | ast.ExceptHandler(name=name)
            | ast.MatchAs(name=name)
            | ast.MatchStar(name=name)
            | ast.MatchMapping(rest=name)
        ) if name == NAME:
            problem = "gets another value"
        case ast.Global(names=names) if NAME in names:
            problem = "is changed in a function"
    return problem
