import importlib
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path
from pkgutil import get_data
from types import ModuleType
from zipfile import ZIP_DEFLATED, ZIP_LZMA, ZIP_STORED, ZipFile
from zipimport import zipimporter

import pytest

from tests.support.archives import ENTRY, code_importer, write_archive
from zipboot.importer import SOURCE, SOURCES, STORED, CodeImporter
from zipboot.parts import Archive, Part, checksum

MODULES = {
    "packed_package": "from packed_package.inner import value\n",
    "packed_package.inner": "value = 42\n",
    "packed_package.outer": "from packed_package import value as same\n",
    "packed_failure": "def fail():\n    raise LookupError('on purpose')\n",
}


@pytest.fixture
def importer(tmp_path: Path) -> Iterator[CodeImporter]:
    """The first of this interpreter's importers."""
    sources = {"packed_failure.py": MODULES["packed_failure"]}
    made = code_importer(
        tmp_path / "some.pyz", MODULES, packages={"packed_package"}, sources=sources
    )
    sys.meta_path.insert(0, made)
    yield made
    sys.meta_path.remove(made)
    for name in MODULES:
        sys.modules.pop(name, None)


def test_packages_and_modules_import_each_other(importer: CodeImporter) -> None:
    outer = importlib.import_module("packed_package.outer")

    assert outer.same == 42


def test_a_module_has_its_path_and_its_loader(importer: CodeImporter, tmp_path: Path) -> None:
    package = importlib.import_module("packed_package")
    inner = importlib.import_module("packed_package.inner")

    assert package.__file__ == f"{tmp_path}/some.pyz/packed_package/__init__.py"
    assert list(package.__path__) == [f"{tmp_path}/some.pyz/packed_package"]
    assert inner.__file__ == f"{tmp_path}/some.pyz/packed_package/inner.py"
    assert vars(inner)["__loader__"] is importer
    assert not hasattr(inner, "__cached__")


def test_modules_outside_of_the_archive_are_left_to_other_importers(importer: CodeImporter) -> None:
    assert importer.find_spec("json") is None
    assert importer.find_spec("packed_package.missing") is None
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("packed_package.missing")


def test_a_traceback_names_and_shows_lines_of_the_packed_source(importer: CodeImporter) -> None:
    failure = importlib.import_module("packed_failure")

    with pytest.raises(LookupError) as raised:
        failure.fail()

    shown = "".join(traceback.format_exception(raised.value))
    assert 'File "some.pyz/packed_failure.py", line 2, in fail\n' in shown
    assert "raise LookupError('on purpose')\n" in shown


def test_a_module_without_source_has_no_source_text(importer: CodeImporter) -> None:
    assert importer.get_source("packed_package.inner") is None


@pytest.mark.parametrize("name", ["packed_package", "packed_package.inner"])
def test_a_module_that_is_damaged_is_not_unmarshalled(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "some.pyz"
    importer = code_importer(path, MODULES, packages={"packed_package"}, sources={}, damaged={name})

    with pytest.raises(SystemExit) as ended:
        importer.get_code(name)

    hint = "get it again, or check it with the .sha256 beside it"
    assert ended.value.code == 78
    assert capsys.readouterr() == ("", f"rye: {path} is damaged (module {name}): {hint}\n")
    assert importer.get_code("packed_package.outer").co_name == "<module>"


def test_sources_that_are_damaged_only_leave_a_traceback_without_lines(
    importer: CodeImporter, tmp_path: Path
) -> None:
    path = tmp_path / "some.pyz"
    path.write_bytes(path.read_bytes().replace(b"'on purpose'", b"'no purpose'"))

    assert importer.get_source("packed_failure") is None


@pytest.mark.parametrize("compression", [ZIP_LZMA, ZIP_DEFLATED, ZIP_STORED])
@pytest.mark.parametrize("missing", ["lzma", "no such module"])
def test_a_module_of_a_rare_command_is_compiled_from_its_source(
    compression: int, missing: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = b"packed_rare = True\n"
    made = rare_importer(tmp_path / "rare.pyz", b"before it" + text + b"behind it", compression)
    made._entries["packed_rare"] = (False, 9, len(text), SOURCE, checksum(text))
    monkeypatch.setitem(sys.modules, missing, None)

    code = made.get_code("packed_rare")

    assert "packed_rare" in code.co_names
    assert code.co_filename == f"{tmp_path}/rare.pyz/packed_rare.py"


@pytest.mark.parametrize("compression", [ZIP_LZMA, ZIP_STORED])
def test_a_changed_source_is_not_compiled(compression: int, tmp_path: Path) -> None:
    text = b"packed_rare = True\n"
    made = rare_importer(tmp_path / "rare.pyz", text.replace(b"True", b"Fals"), compression)
    made._entries["packed_rare"] = (False, 0, len(text), SOURCE, checksum(text))

    with pytest.raises(SystemExit) as ended:
        made.get_code("packed_rare")

    assert ended.value.code == 78


@pytest.mark.parametrize("compression", [ZIP_LZMA, ZIP_STORED])
def test_a_text_is_read_from_beside_the_module_that_asks(
    compression: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "Où\n".encode()
    made = rare_importer(tmp_path / "rare.pyz", b"before it" + text + b"behind", compression)
    made._entries["packed_text"] = (True, 0, 0, STORED, checksum(b""))
    made._entries["packed_text/texts/a.md"] = (False, 9, len(text), SOURCE, checksum(text))
    asking = ModuleType("packed_text")
    asking.__spec__ = made.find_spec("packed_text")
    asking.__file__ = made.get_filename("packed_text")
    monkeypatch.setitem(sys.modules, "packed_text", asking)

    assert get_data("packed_text", "texts/a.md") == text
    for missing in ("texts/b.md", "../packed_text", "../../../etc/passwd"):
        with pytest.raises(FileNotFoundError):
            get_data("packed_text", missing)


def test_a_changed_text_is_not_read(tmp_path: Path) -> None:
    made = rare_importer(tmp_path / "rare.pyz", b"text", ZIP_STORED)
    made._entries["packed_text/a.md"] = (False, 0, 4, SOURCE, checksum(b"Text"))

    with pytest.raises(SystemExit) as ended:
        made.get_data(f"{tmp_path}/rare.pyz/packed_text/a.md")

    assert ended.value.code == 78


def rare_importer(path: Path, sources: bytes, compression: int) -> CodeImporter:
    """An importer whose archive has these bytes as its file of sources."""
    mark = write_archive(path, b"code")
    with ZipFile(path, "a") as archive:
        archive.writestr(SOURCES, sources, compression)
    opened = Archive(zipimporter(str(path)))
    return CodeImporter(opened, Part(opened, ENTRY, mark), {})
