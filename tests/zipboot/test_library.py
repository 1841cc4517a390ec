import importlib
import os
import sys
import urllib.parse
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType

import pytest

from zipboot import library
from zipboot.launch import Library

FILES = {"json.tool": "json/tool.py", "json": "json/__init__.py", "sys": "sys.py", "_ctypes": ""}


def test_a_library_module_equals_the_one_of_the_ordinary_finders() -> None:
    found = Library(FILES).find_spec("json.tool")
    ordinary = importlib.machinery.PathFinder.find_spec(
        "json.tool", importlib.import_module("json").__path__
    )

    assert found is not None
    assert ordinary is not None
    assert (found.origin, found.cached, found.has_location) == (
        ordinary.origin,
        ordinary.cached,
        ordinary.has_location,
    )
    code, expected = (vars(spec)["loader"].get_code("json.tool") for spec in (found, ordinary))
    assert code == expected


def test_a_package_says_where_its_modules_are() -> None:
    found = Library(FILES).find_spec("json")

    assert found is not None
    assert found.submodule_search_locations == [str(Path(os.__file__).parent / "json")]


def test_compiled_modules_come_from_the_folder_for_them() -> None:
    ordinary = importlib.machinery.PathFinder.find_spec("_ctypes")
    if ordinary is None or "lib-dynload" not in str(ordinary.origin):
        pytest.skip("_ctypes is built in or missing here")

    found = Library(FILES).find_spec("_ctypes")

    assert found is not None
    assert found.origin == ordinary.origin
    assert type(found.loader) is type(ordinary.loader)


@pytest.mark.parametrize("name", ["sys", "json.decoder", "not_there"])
def test_built_in_and_unlisted_modules_are_left_to_other_finders(name: str) -> None:
    assert Library(FILES).find_spec(name) is None


def test_a_library_in_another_folder_is_left_to_other_finders(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(library, "_FOLDER", str(tmp_path))
    monkeypatch.setattr(sys, "path", [str(tmp_path)])

    assert Library(FILES).find_spec("json") is None
    assert Library(FILES).find_spec("_ctypes") is None


@pytest.fixture
def lone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The source of a module that is alone in a library."""
    monkeypatch.setattr(library, "_FOLDER", str(tmp_path))
    source = tmp_path / "lone.py"
    source.write_text("value = 1\n", "utf-8")
    return source


def value_of_lone() -> int:
    """The value of the module, loaded again."""
    spec = library.spec_of("lone", "lone.py")
    assert spec is not None
    names: dict[str, int] = {}
    exec(vars(spec)["loader"].get_code("lone"), names)  # noqa: S102
    return names["value"]


def test_bytecode_of_another_source_is_not_used(lone: Path) -> None:
    before = value_of_lone()
    status = lone.stat()
    lone.write_text("value = 12\n", "utf-8")
    os.utime(lone, ns=(status.st_atime_ns, status.st_mtime_ns))

    assert (before, value_of_lone()) == (1, 12)


def test_a_module_without_bytecode_is_compiled_whatever_its_size(lone: Path) -> None:
    lone.write_text("# " + "x" * (3 * library.CHUNK_BYTES) + "\nvalue = 2\n", "utf-8")

    assert value_of_lone() == 2


@pytest.fixture
def late(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """`urllib.parse`, imported anew by these finders, and not loaded."""
    loaded: dict[str, ModuleType] = {}
    finder = Library({"urllib.parse": "urllib/parse.py"})
    monkeypatch.setattr(sys, "meta_path", [finder, *sys.meta_path])
    monkeypatch.setattr(library, "_loaded", loaded)
    monkeypatch.setattr(urllib, "parse", urllib.parse)
    monkeypatch.setitem(sys.modules, "urllib.parse", urllib.parse)
    del sys.modules["urllib.parse"]
    return importlib.import_module("urllib.parse")


def test_a_late_module_is_loaded_at_its_first_use(late: ModuleType) -> None:
    from urllib.parse import quote_from_bytes

    assert late.__name__ == "urllib.parse"
    assert not hasattr(late, "__warningregistry__")
    assert not library._loaded

    assert quote_from_bytes(b"a b") == "a%20b"

    assert sys.modules["urllib.parse"] is not late
    assert late.urlsplit is sys.modules["urllib.parse"].urlsplit
    assert late.quote_from_bytes is sys.modules["urllib.parse"].quote_from_bytes


def test_a_late_module_lacks_the_same_names_as_the_module(late: ModuleType) -> None:
    with pytest.raises(AttributeError, match="not_there"):
        late.not_there  # noqa: B018

    names: dict[str, object] = {}
    exec("from urllib.parse import *", names)  # noqa: S102
    assert "urlsplit" in names
    with pytest.raises(ImportError):
        exec("from urllib.parse import not_there")  # noqa: S102


def test_simultaneous_threads_load_a_late_module_once(late: ModuleType) -> None:
    with ThreadPoolExecutor(8) as threads:
        found = set(threads.map(lambda _: late.urlsplit, range(64)))

    assert len(found) == 1


def test_a_late_module_that_fails_to_load_fails_each_time(
    late: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = vars(late)["__spec__"].loader_state
    monkeypatch.setattr(spec.loader, "exec_module", lambda _: importlib.import_module("broken"))

    for _ in range(2):
        with pytest.raises(ImportError, match="broken"):
            late.urlsplit  # noqa: B018
    assert not library._loaded
