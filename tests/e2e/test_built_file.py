"""``rye.pyz`` in processes of its own: its behaviour and its contents."""

import _imp
import ast
import json
import os
import re
import shutil
import sys
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from zipfile import ZipFile

import pytest

from packing.compile_modules import has_shapes
from tests.support.built import BASE_PYTHON, ROOT, Machine, run
from zipboot.importer import SOURCES

pytestmark = pytest.mark.e2e

ECHO = ("run", "rye/bash/bash", "command=echo hi")
INDEX = re.compile(r"_rye/cpython-3(\d+)\.idx")


# --- flags, places and names ----------------------------------------------------------------------


def test_it_runs_a_tool_on_a_machine_that_has_only_python(machine: Machine) -> None:
    assert machine.ask(*ECHO) == "hi\n"


def test_it_prints_its_version(machine: Machine) -> None:
    version = json.loads(machine.ask("version", "--json"))

    assert (version["status"], version["version"], version["bundle"]) == (
        "success",
        "0.1.0",
        "0.1.0",
    )


def test_it_writes_no_bytecode_and_needs_none(machine: Machine) -> None:
    answer = machine.ask(*ECHO, environ=machine.environ(PYTHONDONTWRITEBYTECODE="1"))

    assert answer == "hi\n"
    assert list(machine.home.rglob("*.pyc")) == []


@pytest.mark.parametrize("flags", [["-I"], ["-P"], ["-O"], ["-B"], ["-I", "-S"], ["-W", "error"]])
def test_it_runs_under_every_flag_of_python(
    flags: list[str], machine: Machine, built_pyz: Path
) -> None:
    machine.rye = (BASE_PYTHON, *flags, built_pyz)

    assert machine.ask(*ECHO) == "hi\n"


@pytest.mark.parametrize("name", ["with blanks in it.pyz", "größer.pyz", "100%.pyz", "rye"])
def test_it_runs_from_a_file_of_any_name(name: str, machine: Machine, built_pyz: Path) -> None:
    folder = machine.home / "a folder, quoted 'so'"
    folder.mkdir()
    machine.rye = (BASE_PYTHON, shutil.copy(built_pyz, folder / name))

    assert machine.ask(*ECHO) == "hi\n"


def test_it_runs_through_a_link_and_by_a_relative_path(machine: Machine, built_pyz: Path) -> None:
    (machine.project / "link").symlink_to(built_pyz)
    machine.rye = (BASE_PYTHON, "link")

    assert machine.ask(*ECHO) == "hi\n"


@pytest.mark.skipif(os.name == "nt", reason="Windows does not read the first line of a file")
def test_it_runs_as_a_program(machine: Machine, built_pyz: Path) -> None:
    programs = machine.home / "bin"
    programs.mkdir()
    (programs / "python3").symlink_to(BASE_PYTHON)
    path = os.pathsep.join((str(programs), os.environ["PATH"]))
    machine.rye = (built_pyz,)

    assert machine.ask(*ECHO, environ=machine.environ(PATH=path)) == "hi\n"


def test_it_runs_in_the_root_of_the_file_system(machine: Machine) -> None:
    assert machine.ask(*ECHO, cwd=Path(machine.home.anchor)) == "hi\n"


def test_its_own_libraries_win_over_those_on_the_path(machine: Machine) -> None:
    for library in ("yaml", "nacl", "packaging", "ryeos", "lillux"):
        (machine.home / f"{library}.py").write_text("raise SystemExit(99)\n", encoding="utf-8")

    answer = machine.ask(*ECHO, environ=machine.environ(PYTHONPATH=str(machine.home)))

    assert answer == "hi\n"


def test_it_imports_nothing_from_folders_that_variables_name(machine: Machine) -> None:
    for library in ("bisect", "csv", "datetime", "difflib", "shlex", "typing"):
        (machine.home / f"{library}.py").write_text("raise SystemExit(99)\n", encoding="utf-8")

    python, file = machine.rye
    for named in (str(machine.home), f":{machine.home}"):
        # Without what the interpreter itself imports before the first line (-S: no *.pth).
        start: list[str | Path] = [python, "-S", file, "search", "shell"]
        ended = run(start, environ=machine.environ(PYTHONPATH=named), cwd=machine.home)

        assert (ended.stderr, ended.returncode) == ("", 0)


@pytest.mark.skipif(sys.platform != "linux", reason="the loader's variable, and /proc")
def test_it_goes_on_without_libraries_of_a_project(machine: Machine) -> None:
    library = machine.project / "lib"
    library.mkdir()
    (machine.project / ".ai").mkdir()
    environ = machine.environ(LD_LIBRARY_PATH=f"{library}:/opt/lib")
    own, tools = "tr '\\0' '\\n' < /proc/$PPID/environ | grep ^LD_", "echo $LD_LIBRARY_PATH"

    ended = machine.run("run", "rye/bash/bash", f"command={own}; {tools}", environ=environ)

    assert ended.stdout == "LD_LIBRARY_PATH=/opt/lib\n/opt/lib\n"
    assert ended.stderr.startswith("warning: LD_LIBRARY_PATH: what it names in a project was left")


def test_files_of_another_program_packed_by_shiv_are_ignored(machine: Machine) -> None:
    left = {
        "SHIV_ENTRY_POINT": "other:main",
        "SHIV_MODULE": "other",
        "SHIV_CONSOLE_SCRIPT": "other",
        "SHIV_INTERPRETER": "1",
        "SHIV_PREPEND_PYTHONPATH": str(machine.home),
        "SHIV_ROOT": str(machine.home / "shiv"),
        "SHIV_FORCE_EXTRACT": "1",
    }

    answer = machine.ask(*ECHO, environ=machine.environ(**left))

    assert answer == "hi\n"
    assert not (machine.home / "shiv").exists()


# --- signing and running --------------------------------------------------------------------------

GREET = """
import json, sys
__version__ = "1.0.0"
__tool_type__ = "python"
__executor_id__ = "rye/core/runtimes/python/script"
__category__ = "mine"
__tool_description__ = "Greets a person"
CONFIG_SCHEMA = {"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}}}
print(json.dumps("hello " + json.load(sys.stdin)["name"]))
"""


@pytest.fixture
def greet(machine: Machine) -> Path:
    """A tool of the project, and a key of the user."""
    path = machine.project / ".ai" / "tools" / "mine" / "greet.py"
    path.parent.mkdir(parents=True)
    path.write_text(GREET, encoding="utf-8")
    assert machine.run("keys", "generate").returncode == 0
    return path


def test_a_tool_that_it_signed_runs(machine: Machine, greet: Path) -> None:
    machine.run("sign", "mine/greet")

    answer = machine.ask("run", "mine/greet", "name=${HOME}; 'world'")

    assert answer == "hello ${HOME}; 'world'\n"


def test_a_tool_without_a_signature_is_refused(machine: Machine, greet: Path) -> None:
    ended = machine.run("run", "mine/greet", "name=world")

    assert (ended.stdout, ended.returncode) == ("", 4)
    assert ended.stderr.startswith("error: unsigned item, expected a rye:signed line: ")


def test_a_tool_that_was_changed_after_it_was_signed_is_refused(
    machine: Machine, greet: Path
) -> None:
    machine.run("sign", "mine/greet")
    greet.write_bytes(greet.read_bytes().replace(b"hello", b"jello"))

    ended = machine.run("run", "mine/greet", "name=world")

    assert (ended.stdout, ended.returncode) == ("", 4)


# --- statuses -------------------------------------------------------------------------------------


def test_a_tool_that_failed_is_status_1(machine: Machine) -> None:
    assert machine.run("run", "rye/bash/bash", "command=exit 42").returncode == 1


def test_a_command_that_does_not_exist_is_status_2(machine: Machine) -> None:
    ended = machine.run("rnu")

    assert ended.returncode == 2
    assert ended.stderr == "error: unknown command 'rnu'\n  hint: did you mean: rye run\n"


def test_an_item_that_does_not_exist_is_status_3(machine: Machine) -> None:
    assert machine.run("run", "no/such/tool").returncode == 3


# --- contents -------------------------------------------------------------------------------------


def test_shiv_can_read_the_built_file(built_pyz: Path) -> None:
    shiv_info = "import sys, shiv.info; sys.exit(shiv.info.main())"

    printed = run([sys.executable, "-c", shiv_info, "--json", built_pyz])

    assert json.loads(printed.stdout)["entry_point"] == "zipboot.fallback:enter"


def test_no_file_inside_names_the_machine_that_built_it(built_pyz: Path) -> None:
    with ZipFile(built_pyz) as archive:
        entries = [*archive.infolist(), *sources(built_pyz).infolist()]
    names = [f"{entry.compress_type} {entry.filename}" for entry in entries]

    assert {(entry.create_system, entry.external_attr >> 16) for entry in entries} == {
        (3, 0o100644)
    }
    assert len({entry.date_time for entry in entries}) == 1
    assert [name for name in names if name.endswith((".pyc", "/RECORD", "/INSTALLER"))] == [
        "0 __main__.pyc"  # of the start, see the test below
    ]
    assert [name for name in names if "/bin/" in name or "__pycache__" in name] == []
    assert len(set(names)) == len(names)
    assert str(ROOT).encode() not in b"".join(archived(built_pyz))


def test_the_licences_of_the_libraries_are_inside(built_pyz: Path) -> None:
    names = sources(built_pyz).namelist()

    licensed = {
        name.split("-")[0].lower()
        for name in names
        if ".dist-info/" in name and ("LICENSE" in name or name.endswith("/LICENCE"))
    }

    libraries = {"cffi", "packaging", "pynacl", "python_dotenv", "pyyaml"}
    libraries |= {"shiv", "shtab", "tomlkit", "urllib3"}
    assert licensed == libraries
    assert "LICENSE" in names


@pytest.mark.heavy
def test_every_module_of_a_library_that_the_code_imports_is_inside(built_pyz: Path) -> None:
    files = {name.removesuffix(".py") for name in sources(built_pyz).namelist()}
    libraries = {name.partition("/")[0] for name in files if name.endswith("/__init__")}

    missing = [
        name
        for name in imported_names()
        if name.partition(".")[0] in libraries
        and {name.replace(".", "/"), f"{name.replace('.', '/')}/__init__"}.isdisjoint(files)
    ]

    assert missing == []


def imported_names() -> Iterator[str]:
    """Every module that a module of ours imports, early or late."""
    for package in ("lillux", "ryeos"):
        for path in (ROOT / package).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text("utf-8"))):
                if isinstance(node, ast.Import):
                    yield from (alias.name for alias in node.names)
                elif isinstance(node, ast.ImportFrom) and node.module:
                    yield node.module


IMPORT_ALL = """
import importlib, os, runpy, sys
sys.argv = [os.environ["PYZ"], "version"]
try:
    runpy.run_path(sys.argv[0], run_name="__main__")
except SystemExit:
    pass
importer = sys.modules["zipboot.launch"].program.code_importer()
for name in importer._entries:
    if "/" not in name and not name.endswith(("__main__", ">")):  # no text, nor the dictionary
        importlib.import_module(name)
        print(name)
"""


def test_every_module_inside_can_be_imported(machine: Machine, built_pyz: Path) -> None:
    environ = machine.environ(PYZ=str(built_pyz), RYE_EXIT="normal")

    ended = run([BASE_PYTHON, "-I", "-c", IMPORT_ALL], environ=environ)

    assert (ended.stderr, ended.returncode) == ("", 0)
    assert {"yaml.cyaml", "nacl.bindings", "ryeos.app.workspace"} <= set(ended.stdout.splitlines())


READ_SHAPES = (
    IMPORT_ALL
    + """
from typing import get_type_hints
for name in os.environ["MODULES"].split():
    for one in list(vars(sys.modules[name]).values()):
        is_value = isinstance(one, type) and not issubclass(one, Exception)
        if is_value and one.__module__ == name:
            try:
                get_type_hints(one, include_extras=True)
            except NameError as error:
                print(name, one.__name__, error, file=sys.stderr)
"""
)


def test_the_types_of_shapes_are_inside(machine: Machine, built_pyz: Path) -> None:
    names = [
        path.relative_to(ROOT).with_suffix("").as_posix().replace("/", ".")
        for path in (ROOT / "ryeos").rglob("*.py")
        if has_shapes(ast.parse(path.read_text("utf-8")))
    ]
    environ = machine.environ(PYZ=str(built_pyz), RYE_EXIT="normal", MODULES=" ".join(names))

    ended = run([BASE_PYTHON, "-I", "-c", READ_SHAPES], environ=environ)

    assert "ryeos.graph.run_objects" in names
    assert (ended.stderr, ended.returncode) == ("", 0)


def test_the_start_is_bytecode_for_the_oldest_python_that_has_code(built_pyz: Path) -> None:
    with ZipFile(built_pyz) as archive:
        oldest = min(int(found[1]) for found in map(INDEX.fullmatch, archive.namelist()) if found)
        bytecode = archive.read("__main__.pyc")
        index = archive.read(f"_rye/cpython-3{oldest}.idx")
        source = archive.read("__main__.py")

    magic = index[8:12]
    key = int.from_bytes(magic, "little")
    assert bytecode[:16] == magic + b"\1\0\0\0" + _imp.source_hash(key, source)


def test_modules_that_only_builds_need_are_not_inside(built_pyz: Path) -> None:
    names = sources(built_pyz).namelist()

    assert [name for name in names if name.startswith(("cffi/", "pycparser", "packing/"))] == []


def archived(built_pyz: Path) -> Iterator[bytes]:
    """Every entry of the built file, inflated."""
    with ZipFile(built_pyz) as archive:
        yield from (archive.read(name) for name in archive.namelist())


def sources(built_pyz: Path) -> ZipFile:
    """The zip file of sources inside of the built file."""
    with ZipFile(built_pyz) as archive:
        return ZipFile(BytesIO(archive.read(SOURCES)))
