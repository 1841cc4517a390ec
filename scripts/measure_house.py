"""Print the size and the shape of the code by room: figures for a reader, no rule.

    build/venv/bin/python scripts/measure_house.py [FOLDER...]

Lines are those of code: without blanks, comments and docstrings.
"""

import ast
import statistics
import sys
from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("lillux", "ryeos", "rye_services", "zipboot", "packing")
LONG, SHORT = 40, 8
"""Lines of a function that is long, and of one that could stand where it is called."""
LEAST_FIELDS, EQUAL = 4, 0.75
"""Two lists of fields are nearly equal where they share so much of the longer one."""

Function = ast.FunctionDef | ast.AsyncFunctionDef


class Module(NamedTuple):
    """A file of Python, parsed."""

    path: Path
    nodes: tuple[ast.AST, ...]
    code_lines: tuple[int, ...]
    """The numbers of its lines of code, sorted."""


class Room(NamedTuple):
    """What is printed of a folder. Sizes are lines of code; shares are of 1.

    ``called_once`` are private functions of at most `SHORT` lines that one place calls.
    """

    files: int
    lines: int
    functions: int
    median: float
    long_share: float
    private: int
    called_once: int


def main(folders: list[str]) -> None:
    """Print a line for each room, and the sums."""
    modules = [parsed(path) for folder in folders or PACKAGES for path in files_of(ROOT / folder)]
    rooms: dict[str, list[Module]] = defaultdict(list)
    for module in modules:
        rooms[room_of(module.path)].append(module)
    words = "  {:<24} {:>5} {:>7} {:>9} {:>8} {:>7} {:>8} {:>12}"
    _say(
        words.format("room", "files", "lines", "functions", "per 1000", "median", "over 40", "once")
    )
    for name, found in [*sorted(rooms.items()), ("all", modules)]:
        room = measured(found)
        _say(
            words.format(
                name,
                room.files,
                room.lines,
                room.functions,
                f"{1000 * room.functions / max(room.lines, 1):.0f}",
                f"{room.median:g}",
                f"{room.long_share:.1%}",
                f"{room.called_once} of {room.private}",
            )
        )
    groups = equal_lists(modules)
    _say(f"  lists of fields that stand at least three times: {len(groups)}")
    _say(f"  banners in files: {sum(banners(module) for module in modules)}")


def files_of(folder: Path) -> list[Path]:
    """The Python files below a folder."""
    return sorted(path for path in folder.rglob("*.py") if "__pycache__" not in path.parts)


def room_of(path: Path) -> str:
    """The folder of a file, at most two levels deep."""
    return "/".join(path.relative_to(ROOT).parent.parts[:2])


def parsed(path: Path) -> Module:
    """A module with the numbers of its lines of code."""
    text = path.read_text("utf-8")
    nodes = tuple(ast.walk(ast.parse(text)))
    words = {
        line
        for docstring in _docstrings(nodes)
        for line in range(docstring.lineno, (docstring.end_lineno or 0) + 1)
    }
    lines = [
        number
        for number, line in enumerate(text.splitlines(), start=1)
        if line.strip() and not line.lstrip().startswith("#") and number not in words
    ]
    return Module(path, nodes, tuple(lines))


def _docstrings(nodes: tuple[ast.AST, ...]) -> Iterator[ast.expr]:
    """The strings that stand alone: of modules, classes, functions and the names before them."""
    for node in nodes:
        match node:
            case ast.Expr(value=ast.Constant(value=str())):
                yield node.value


def measured(modules: list[Module]) -> Room:
    """The figures of some modules."""
    sizes = [size for module in modules for size in _sizes(module).values()]
    private = [
        (size, uses)
        for module in modules
        for (name, _), size in _sizes(module).items()
        if name.startswith("_") and not name.startswith("__")
        for uses in [_names_used(module)[name]]
    ]
    return Room(
        files=len(modules),
        lines=sum(len(module.code_lines) for module in modules),
        functions=len(sizes),
        median=statistics.median(sizes or [0]),
        long_share=sum(size > LONG for size in sizes) / max(len(sizes), 1),
        private=len(private),
        called_once=sum(size <= SHORT and uses == 1 for size, uses in private),
    )


@cache
def _sizes(module: Module) -> dict[tuple[str, int], int]:
    """The lines of code of each function, its signature included, by its name and first line."""
    functions = [one for one in module.nodes if isinstance(one, Function)]
    return {(one.name, one.lineno): _size(module, one) for one in functions}


def _size(module: Module, function: Function) -> int:
    end = bisect_right(module.code_lines, function.end_lineno or 0)
    return end - bisect_left(module.code_lines, function.lineno)


@cache
def _names_used(module: Module) -> Counter[str]:
    """How often each name is read in a module, as a variable or as an attribute."""
    used = Counter[str]()
    for node in module.nodes:
        match node:
            case ast.Name(id=name, ctx=ast.Load()) | ast.Attribute(attr=name, ctx=ast.Load()):
                used[name] += 1
    return used


def equal_lists(modules: list[Module]) -> list[list[str]]:
    """Groups of at least three places that list nearly the same names of fields."""
    lists = [
        (f"{module.path.relative_to(ROOT)}:{line}", names)
        for module in modules
        for line, names in _field_lists(module.nodes)
        if len(names) >= LEAST_FIELDS
    ]
    groups: list[tuple[int, list[str]]] = []  # the number of names of the first, all places
    groups_of: dict[str, list[int]] = defaultdict(list)  # that have a name in the first
    for place, names in sorted(lists, key=lambda one: -len(one[1])):
        shared = Counter(group for name in names for group in groups_of[name])
        for group, count in shared.most_common():
            if count >= EQUAL * groups[group][0]:
                groups[group][1].append(place)
                break
        else:
            for name in names:
                groups_of[name].append(len(groups))
            groups.append((len(names), [place]))
    return [places for _, places in groups if len(places) >= 3]  # noqa: PLR2004 - as the issue counts


def _field_lists(nodes: tuple[ast.AST, ...]) -> Iterator[tuple[int, frozenset[str]]]:
    """The fields of classes, the keys of dictionaries, and the keywords of calls."""
    for node in nodes:
        match node:
            case ast.ClassDef():
                fields = [one.target for one in node.body if isinstance(one, ast.AnnAssign)]
                names = [one.id for one in fields if isinstance(one, ast.Name)]
            case ast.Dict():
                keys = [one.value for one in node.keys if isinstance(one, ast.Constant)]
                names = [key for key in keys if isinstance(key, str)]
            case ast.Call():
                names = [one.arg for one in node.keywords if one.arg]
            case _:
                continue
        yield node.lineno, frozenset(names)


def banners(module: Module) -> int:
    """Comments that divide a file, like ``# --- reading ---``."""
    lines = module.path.read_text("utf-8").splitlines()
    return sum(line.lstrip().startswith(("# ---", "# ===")) for line in lines)


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")


if __name__ == "__main__":
    main(sys.argv[1:])
