import __future__

import ast
import json
import marshal
import subprocess
import sys
import zlib
from hashlib import shake_128
from itertools import groupby
from pathlib import Path
from types import CodeType

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from packing import BuildError
from packing.compile_modules import (
    LATE_IMPORTS,
    LATE_PATTERNS,
    OWN,
    compile_patterns_late,
    erase_types,
    import_late,
    is_named,
    keep_texts_of_annotations,
    with_short_tables,
)
from packing.modules import (
    FROM_SOURCE,
    MAX_BYTES,
    Module,
    code_part,
    compiled,
    is_from_source,
    library_files,
    modules,
    text_entries,
    texts,
    wanted_by_sources,
)
from tests.support.built import ROOT
from tests.support.other_pythons import require_python
from zipboot.importer import DEFLATED, DICTIONARY, SOURCE, STORED
from zipboot.parts import checksum


def write(tree: Path, *names: str) -> None:
    """Write empty files below the tree."""
    for name in names:
        path = tree / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("", "utf-8")


def test_modules_are_python_files_whose_names_can_be_imported(tmp_path: Path) -> None:
    write(tmp_path, "b.py", "a/__init__.py", "a/c.py", "a/data.txt", "x-1.0.dist-info/y.py")

    found = modules(tmp_path)

    assert [(module.name, module.is_package, module.shown) for module in found] == [
        ("a", True, "rye.pyz/a/__init__.py"),
        ("a.c", False, "rye.pyz/a/c.py"),
        ("b", False, "rye.pyz/b.py"),
    ]


def named(**codes: bytes) -> dict[Module, bytes]:
    """Modules with these names and codes."""
    return {Module(name, Path(), False, ""): code for name, code in codes.items()}  # noqa: FBT003


def test_code_is_deflated_but_for_modules_that_every_start_needs() -> None:
    codes = named(cold=b"cold code" * 9, hot=b"hot code")

    data, entries, _ = code_part(codes, [{"hot"}], b"common", {})

    (_, offset, size, packing, _), hot = entries["cold"], entries["hot"]
    dictionary = b"hot codecommon"
    inflated = zlib.decompressobj(zdict=dictionary).decompress(data[offset : offset + size])
    assert (inflated, packing) == (b"cold code" * 9, DEFLATED)
    assert hot == (False, 0, 8, STORED, checksum(b"hot code"))
    assert entries[DICTIONARY] == (False, 0, 14, STORED, checksum(dictionary))
    assert data.startswith(dictionary)


def test_the_dictionary_is_no_longer_than_deflate_reaches() -> None:
    hot = shake_128(b"hot").digest(2 * MAX_BYTES)

    data, entries, _ = code_part(named(cold=b"cold", hot=hot), [{"hot"}], b"common", {})

    _, offset, size, *_ = entries[DICTIONARY]
    assert size == MAX_BYTES
    assert data[offset : offset + size] == (hot + b"common")[-MAX_BYTES:]


def test_modules_that_one_start_needs_lie_together() -> None:
    codes = named(a=b"A", b=b"B", c=b"C", d=b"D")

    data, _, blocks = code_part(codes, [{"d"}, {"a", "c"}], b"common", {})

    assert data.startswith(b"DAC")
    assert blocks == ((0, 1), (1, 3))


def test_of_a_module_that_rare_commands_use_only_the_source_is_packed(tmp_path: Path) -> None:
    path = tmp_path / "api.py"
    path.write_bytes(b"rare = True\n")
    rare = Module("tomlkit.api", path, is_package=False, shown="")

    data, entries, _ = code_part({rare: b"code"}, [], b"common", {"tomlkit.api": 77})

    assert entries["tomlkit.api"] == (False, 77, 12, SOURCE, checksum(b"rare = True\n"))
    assert data == b"common"


def test_texts_are_packed_where_their_modules_are_as_their_bytes(tmp_path: Path) -> None:
    write(tmp_path, "ryeos/app/a.py", "ryeos/app/texts/b.md", "other/c.md")

    found = texts(tmp_path)

    data = (tmp_path / "ryeos/app/texts/b.md").read_bytes()
    assert text_entries(found, {"ryeos/app/texts/b.md": 77}) == {
        "ryeos/app/texts/b.md": (False, 77, len(data), SOURCE, checksum(data))
    }


def test_every_name_of_modules_packed_as_source_exists() -> None:
    known = {module.name for module in modules(ROOT)}

    ours = {name for name in FROM_SOURCE if name.partition(".")[0] in OWN}

    assert ours - known == set()
    assert len(ours) == len(FROM_SOURCE) - 2  # those of libraries


def test_modules_of_the_library_are_named_by_their_files() -> None:
    names = ["json", "json.decoder", "not_there.at_all", "sys", "zipboot.parts", "os"]

    files = library_files(Path(sys.executable), names)

    assert files == {"json": "json/__init__.py", "json.decoder": "json/decoder.py"}


def test_each_piece_has_the_checksum_of_the_bytes_that_are_packed() -> None:
    codes = named(cold=b"cold code" * 9, hot=b"hot code")

    data, entries, _ = code_part(codes, [{"hot"}], b"common", {})

    for _, offset, size, _, expected in entries.values():
        assert checksum(data[offset : offset + size]) == expected


@pytest.fixture(scope="module")
def packed_trees() -> dict[str, ast.Module]:
    """By its name, each module of ours as it is packed: with its types, or without."""
    found = [module for module in modules(ROOT) if module.name.partition(".")[0] in OWN]
    kept = wanted_by_sources(found)
    trees = {module.name: ast.parse(module.path.read_bytes()) for module in found}
    for module in found:
        if not is_from_source(module):
            erase_types(trees[module.name], kept[module.name])
    return trees


@pytest.mark.heavy
def test_modules_with_code_import_one_that_is_a_source_only_when_they_use_it(
    packed_trees: dict[str, ast.Module],
) -> None:
    rare = {
        module.name
        for module in modules(ROOT)
        if module.name in packed_trees and is_from_source(module)
    }

    needed = {
        (importer, name)
        for importer, tree in packed_trees.items()
        if importer not in rare
        for name in imported_at_once(tree)
        if name in rare
    }

    assert rare
    assert needed == set()


def imported_at_once(tree: ast.Module) -> set[str]:
    """The modules, and names in modules, that a module imports when it is imported itself."""
    found = set()
    for node in tree.body:
        match node:
            case ast.Import(names=names):
                found |= {alias.name for alias in names}
            case ast.ImportFrom(module=str(module), names=names):
                found |= {module, *(f"{module}.{alias.name}" for alias in names)}
    return found


EXAMPLE = '''
"""A docstring."""
NAMES = frozenset({"alpha", "beta", "gamma", "delta"})
def f(self, x=1, *, y="text"):
    return {"a": x, "b": (y, "self", 1, None)} if x in {"alpha", "omega", "psi"} else NAMES
'''


@pytest.mark.parametrize("version", ["3.11", "3.12", "3.13", "3.14"])
def test_code_is_the_same_in_every_run_and_names_no_folder(version: str, tmp_path: Path) -> None:
    python = require_python(version)
    paths = [tmp_path / "one.py", tmp_path / "two" / "x.py"]
    for path in paths:
        path.parent.mkdir(exist_ok=True)
        path.write_text(EXAMPLE, "utf-8")

    (magic, one), (_, two) = (
        compiled(python, [Module("x", path, is_package=False, shown="rye.pyz/x.py")], ROOT, {})
        for path in paths
    )

    assert one == two
    assert str(tmp_path).encode() not in one[0]
    assert len(magic) == 4


def test_compiled_code_runs(tmp_path: Path) -> None:
    path = tmp_path / "x.py"
    path.write_text("answer = 6 * 7\n", "utf-8")

    _, (code,) = compiled(
        Path(sys.executable),
        [Module("x", path, is_package=False, shown="rye.pyz/x.py")],
        ROOT,
        {},
    )

    names: dict[str, int] = {}
    exec(marshal.loads(code), names)  # noqa: S102, S302 - compiled here
    assert names["answer"] == 42


def test_a_module_that_is_no_python_stops_the_build(tmp_path: Path) -> None:
    path = tmp_path / "x.py"
    path.write_text("def\n", "utf-8")

    with pytest.raises(BuildError) as error:
        compiled(
            Path(sys.executable), [Module("x", path, is_package=False, shown="x.py")], ROOT, {}
        )

    assert "SyntaxError" in str(error.value)


def test_expressions_of_a_library_are_compiled_when_they_are_used() -> None:
    tree = ast.parse("""
from __future__ import annotations
import re
WORD = re.compile("a" + "b", re.IGNORECASE)
class Reader:
    BLANK = re.compile(" ")
    def read(self, text, form=re.compile("x")):
        return re.compile(text), WORD.match(text)
""")

    compile_patterns_late(tree)

    assert ast.unparse(tree) == ast.unparse(
        ast.parse("""
from __future__ import annotations
from lillux.patterns import pattern as _late_pattern
import re
WORD = _late_pattern("a" + "b", re.IGNORECASE)
class Reader:
    BLANK = _late_pattern(" ")
    def read(self, text, form=_late_pattern("x")):
        return re.compile(text), WORD.match(text)
""")
    )


def test_modules_that_functions_alone_need_are_imported_by_them() -> None:
    tree = ast.parse("""
from slow import version, other as another
def called():
    return version("x")
def free():
    return 1
""")

    import_late(tree, frozenset({"slow"}))

    assert ast.unparse(tree) == ast.unparse(
        ast.parse("""
def called():
    from slow import version, other as another
    return version("x")
def free():
    return 1
""")
    )


@pytest.mark.parametrize("source", ["from slow import v\nX = v()\n", "import slow\n"])
def test_an_import_that_a_module_needs_at_its_top_cannot_be_made_late(source: str) -> None:
    with pytest.raises(ValueError, match="expected imports of slow for functions alone"):
        import_late(ast.parse(source), frozenset({"slow"}))


_IMPORTS_AS_PACKED = """
import importlib.abc, importlib.machinery, json, re, sys
changed, compiled, real = json.load(sys.stdin), [], re.compile
class Loader(importlib.machinery.SourceFileLoader):
    def get_code(self, name):
        inside = "/".join(self.path.split("/")[self.path.split("/").index("site-packages") + 1:])
        data = changed.get(inside) or self.get_data(self.path)
        return compile(data, self.path, "exec")
class Finder(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        spec = importlib.machinery.PathFinder.find_spec(name, path)
        if spec and name.partition(".")[0] in ("urllib3", "yaml") and spec.origin.endswith(".py"):
            spec.loader = Loader(name, spec.origin)
        return spec
def counted(*arguments):
    if sys._getframe(1).f_globals["__name__"].partition(".")[0] in ("urllib3", "yaml"):
        compiled.append(arguments[0])
    return real(*arguments)
sys.dont_write_bytecode = True
sys.meta_path.insert(0, Finder())
re.compile = counted
import urllib3, yaml
assert yaml.safe_load("{a: [1, 2.5, no], b: 2020-01-01}")["a"] == [1, 2.5, False]
assert urllib3.util.parse_url("http://[::1]:80/a%2fb?c").host == "[::1]"
print(json.dumps([len(compiled), "importlib.metadata" in sys.modules]))
"""


def test_packed_libraries_compile_no_patterns_when_they_are_imported() -> None:
    changed = {}
    for inside in LATE_PATTERNS | LATE_IMPORTS.keys():
        file = Path(yaml.__file__).parent.parent / inside
        tree = ast.parse(file.read_text("utf-8"))
        if inside in LATE_PATTERNS:
            compile_patterns_late(tree)
        if inside in LATE_IMPORTS:
            import_late(tree, LATE_IMPORTS[inside])
        changed[inside] = ast.unparse(tree)

    ended = subprocess.run(
        [sys.executable, "-B", "-c", _IMPORTS_AS_PACKED],
        input=json.dumps(changed).encode(),
        cwd=ROOT,
        capture_output=True,
        check=False,
    )

    assert ended.stderr.decode() == ""
    assert json.loads(ended.stdout) == [0, False]


def lines(code: CodeType) -> list[tuple[int | None, int]]:
    """The line of each run of bytes, and where the run ends."""
    runs = groupby(code.co_lines(), key=lambda run: run[2])
    return [(line, max(end for _, end, _ in run)) for line, run in runs]


@given(st.lists(st.integers(1, 100_000), min_size=1, max_size=30))
def test_a_short_table_gives_the_same_lines(numbers: list[int]) -> None:
    body = [ast.parse("named = f(1, 'text')[2].other").body[0] for _ in numbers]
    for statement, number in zip(body, numbers, strict=True):
        ast.increment_lineno(statement, number - 1)
    code = compile(ast.Module(body, []), "some.py", "exec")

    short = with_short_tables(code)

    assert lines(short) == lines(code)
    assert len(short.co_linetable) < len(code.co_linetable)
    assert {column for *_, column in short.co_positions()} == {None}


_COMPARES_TABLES = """
import sys
sys.path.insert(0, "packing")
from compile_modules import CodeType, with_short_tables

def both(old, new):
    yield old, new
    for one, other in zip(old.co_consts, new.co_consts, strict=True):
        if isinstance(one, CodeType):
            yield from both(one, other)

def lines(code):
    return [line for start, end, line in code.co_lines() for _ in range(start, end, 2)]

code = compile(open(sys.argv[1], encoding="utf-8").read(), "x.py", "exec")
pairs = list(both(code, with_short_tables(code)))
assert all(lines(old) == lines(new) for old, new in pairs)
print(len(pairs), sum(len(old.co_linetable) > len(new.co_linetable) for old, new in pairs))
"""


@pytest.mark.parametrize("version", ["3.11", "3.12", "3.13", "3.14"])
def test_tables_are_short_and_true_under_every_python(version: str) -> None:
    command = [str(require_python(version)), "-X", "no_debug_ranges", "-c", _COMPARES_TABLES]
    command.append("lillux/files.py")

    ended = subprocess.run(command, cwd=ROOT, capture_output=True, encoding="utf-8", check=False)

    assert ended.stderr == ""
    codes, shorter = map(int, ended.stdout.split())
    assert codes > 20
    assert shorter > codes * 0.8


def erased(source: str) -> str:
    """The source of a module of ours without the parts for type checkers."""
    tree = ast.parse(source)
    erase_types(tree)
    return ast.unparse(tree)


def test_a_module_with_shapes_keeps_the_types_of_its_fields() -> None:
    source = """
from typing import Annotated, Any
from lillux.shapes import LEFT_OUT

class Run:
    error: Annotated[str, LEFT_OUT]

def parse(text: Any) -> Run: ...
"""

    text = erased(source)

    assert "from typing import Annotated\n" in text
    assert "from lillux.shapes import LEFT_OUT" in text
    assert "error: 'Annotated[str, LEFT_OUT]'" in text


def test_code_of_ours_is_packed_without_types_and_without_imports_for_them() -> None:
    source = """
from __future__ import annotations
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias
from collections.abc import Iterator, Mapping
from model import Chain, Request
if TYPE_CHECKING:
    from engine import Engine
Step: TypeAlias = Mapping[str, Any]
Steps: TypeAlias = list[Step]
class Runs(Protocol):
    def run(self, request: Request, engine: Engine) -> Iterator[Any]: ...
def build(steps: Steps) -> Chain:
    found: Chain = Chain(steps)
    return found
"""

    assert erased(source) == ast.unparse(
        ast.parse("""
from model import Chain
class Runs:
    def run(self, request, engine): ...
def build(steps):
    found: 'Chain' = Chain(steps)
    return found
""")
    )


def test_imports_that_code_needs_besides_types_stay() -> None:
    source = """
from typing import Any, Protocol, TypeAlias, runtime_checkable
import registered
from values import field as made, imported_for_others
from model import Offered
__all__ = ['Offered']
Names: TypeAlias = tuple[str, Any]
@runtime_checkable
class Sized(Protocol):
    names: 'Names' = made(Names)
if DEBUG:
    from debugging import trace
else:
    trace = None
"""

    kept = source.replace(", TypeAlias", "").replace("Names: TypeAlias", "Names")
    assert erased(source) == ast.unparse(ast.parse(kept))


def test_types_that_modules_packed_as_sources_import_stay(tmp_path: Path) -> None:
    (tmp_path / "api.py").write_text("from model import Names\n", "utf-8")
    rare = Module("tomlkit.api", tmp_path / "api.py", is_package=False, shown="")
    tree = ast.parse("Names: TypeAlias = list[str]\nOthers: TypeAlias = list[int]\n")

    erase_types(tree, wanted_by_sources([rare])["model"])

    assert ast.unparse(tree) == "Names = list[str]"


def test_fields_of_values_keep_their_order_and_their_types_as_texts() -> None:
    names: dict[str, type] = {}

    exec(erased("class Point:\n    x: int\n    y: Missing = 0\n"), names)  # noqa: S102

    assert names["Point"].__annotations__ == {"x": "int", "y": "Missing"}


def test_texts_of_annotations_are_the_same_with_the_flag_that_makes_texts() -> None:
    tree = ast.parse("class Point:\n    x: 'list[int] | None'\n    y: 'Missing' = 0\n")
    names: dict[str, type] = {}

    keep_texts_of_annotations(tree)
    code = compile(tree, "x.py", "exec", __future__.annotations.compiler_flag, dont_inherit=True)
    exec(code, names)  # noqa: S102 - the lines above

    assert names["Point"].__annotations__ == {"x": "list[int] | None", "y": "Missing"}


@pytest.mark.heavy
def test_no_module_of_ours_imports_a_name_that_is_gone_with_the_types(
    packed_trees: dict[str, ast.Module],
) -> None:
    defined = {name: defined_in(tree) for name, tree in packed_trees.items()}
    missing = [
        (name, node.module, alias.name)
        for name, tree in packed_trees.items()
        for node in set(ast.walk(tree)) - for_type_checkers(tree)
        if isinstance(node, ast.ImportFrom) and node.module in packed_trees
        for alias in node.names
        if alias.name not in defined[node.module]
        and f"{node.module}.{alias.name}" not in packed_trees
    ]

    assert len(packed_trees) > 200
    assert missing == []


def for_type_checkers(tree: ast.Module) -> set[ast.AST]:
    """The statements under ``TYPE_CHECKING``."""
    blocks = [
        node.body
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and is_named(node.test, "TYPE_CHECKING")
    ]
    return {node for block in blocks for statement in block for node in ast.walk(statement)}


def defined_in(tree: ast.Module) -> set[str]:
    """The names that a module may have: all that it binds anywhere."""
    found = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            found.update(alias.asname or alias.name for alias in node.names)
    return found
