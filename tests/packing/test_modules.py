import marshal
import sys
import zlib
from pathlib import Path

import pytest

from packing import BuildError
from packing.modules import Module, code_part, compiled, modules
from tests.support.built import ROOT
from tests.support.other_pythons import require_python
from zipboot.importer import DICTIONARY
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


def test_code_is_deflated_but_for_what_every_start_needs() -> None:
    found = [Module(name, Path(), is_package=False, shown="") for name in ("cold", "hot")]

    data, entries = code_part(found, [b"cold code" * 9, b"hot code"], {"hot"}, b"common")

    (_, offset, size, is_deflated, _), hot = entries["cold"], entries["hot"]
    inflated = zlib.decompressobj(zdict=b"common").decompress(data[offset : offset + size])
    assert (inflated, is_deflated) == (b"cold code" * 9, True)
    assert hot == (False, size, 8, False, checksum(b"hot code"))
    assert entries[DICTIONARY] == (False, size + 8, 6, False, checksum(b"common"))
    assert data.endswith(b"hot codecommon")


def test_each_piece_has_the_checksum_of_the_bytes_that_are_packed() -> None:
    found = [Module(name, Path(), is_package=False, shown="") for name in ("cold", "hot")]

    data, entries = code_part(found, [b"cold code" * 9, b"hot code"], {"hot"}, b"common")

    for _, offset, size, _, expected in entries.values():
        assert checksum(data[offset : offset + size]) == expected


SOURCE = '''
"""A docstring."""
NAMES = frozenset({"alpha", "beta", "gamma", "delta"})
def f(self, x=1, *, y="text"):
    return {"a": x, "b": (y, "self", 1, None)} if x in {"alpha", "omega", "psi"} else NAMES
'''


@pytest.mark.parametrize("version", ["3.11", "3.12", "3.13"])
def test_code_is_the_same_in_every_run_and_names_no_folder(version: str, tmp_path: Path) -> None:
    python = require_python(version)
    paths = [tmp_path / "one.py", tmp_path / "two" / "x.py"]
    for path in paths:
        path.parent.mkdir(exist_ok=True)
        path.write_text(SOURCE, "utf-8")

    (magic, one), (_, two) = (
        compiled(python, [Module("x", path, is_package=False, shown="rye.pyz/x.py")], ROOT)
        for path in paths
    )

    assert one == two
    assert str(tmp_path).encode() not in one[0]
    assert len(magic) == 4


def test_compiled_code_runs(tmp_path: Path) -> None:
    path = tmp_path / "x.py"
    path.write_text("answer = 6 * 7\n", "utf-8")

    _, (code,) = compiled(
        Path(sys.executable), [Module("x", path, is_package=False, shown="rye.pyz/x.py")], ROOT
    )

    names: dict[str, int] = {}
    exec(marshal.loads(code), names)  # noqa: S102, S302 - compiled here
    assert names["answer"] == 42


def test_a_module_that_is_no_python_stops_the_build(tmp_path: Path) -> None:
    path = tmp_path / "x.py"
    path.write_text("def\n", "utf-8")

    with pytest.raises(BuildError) as error:
        compiled(Path(sys.executable), [Module("x", path, is_package=False, shown="x.py")], ROOT)

    assert "SyntaxError" in str(error.value)
