"""The built file under every Python of the machine, with its code and without."""

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.support.built import BASE_PYTHON, Machine
from tests.support.environments import SharedFile, mounted, without_room
from tests.support.other_pythons import require_python

pytestmark = [pytest.mark.e2e, pytest.mark.heavy]

ECHO = ("run", "rye/bash/bash", "command=echo hi")
WHERE = ("self", "where", "--json")
SUPPORTED = ("3.11", "3.12", "3.13", "3.14")
TOO_OLD = ("2.7", "3.6", "3.7", "3.8", "3.9", "3.10")


@pytest.fixture
def machine(new_machine: Machine) -> Machine:
    return new_machine


@pytest.fixture
def unpacking(machine: Machine) -> Machine:
    """The machine of an interpreter that no code is packed for."""
    machine.rye = ("env", "RYE_BOOT=shiv", *machine.rye)
    return machine


@pytest.mark.parametrize("version", SUPPORTED)
@pytest.mark.parametrize("way", ["code", "shiv"])
def test_it_signs_and_runs_tools_under_every_supported_python(
    version: str, way: str, machine: Machine, built_pyz: Path
) -> None:
    python = require_python(version)
    machine.rye = ("env", f"RYE_BOOT={'auto' if way == 'code' else 'shiv'}", python, built_pyz)
    machine.ask("keys", "generate", "-q")
    machine.ask("new", "tool", "mine/hello", "-q")
    machine.ask("sign", "mine/hello", "-q")

    answer = machine.ask("run", "mine/hello", "name=world")
    report = json.loads(machine.ask(*WHERE))

    assert "world" in answer
    assert report["start"] == way
    assert {"loaded" in native for native in report["natives"].values()} == {True}


@pytest.mark.parametrize("version", TOO_OLD)
def test_an_older_python_is_refused_in_one_line(
    version: str, machine: Machine, built_pyz: Path
) -> None:
    machine.rye = (require_python(version), built_pyz)

    ended = machine.run("version")

    assert (ended.stdout, ended.returncode) == ("", 78)
    assert ended.stderr.startswith(f"rye: needs Python 3.11 or newer, this is Python {version}.")
    assert ended.stderr.count("\n") == 1


# --- without a module of the standard library -----------------------------------------------------


def test_it_signs_and_runs_rare_commands_under_a_python_that_was_built_without_lzma(
    machine: Machine,
) -> None:
    hook = "import sys\nsys.modules['lzma'] = sys.modules['_lzma'] = None\n"
    (machine.home / "sitecustomize.py").write_text(hook, encoding="utf-8")
    machine.variables["PYTHONPATH"] = str(machine.home)
    machine.ask("keys", "generate", "-q")
    machine.ask("new", "tool", "mine/hello", "-q")
    machine.ask("sign", "mine/hello", "-q")

    answer = machine.ask("run", "mine/hello", "name=world")
    natives = json.loads(machine.ask(*WHERE))["natives"]

    assert "world" in answer
    assert {name for name, native in natives.items() if "loaded" in native} == {
        "_cffi_backend",
        "nacl._sodium",
    }


# --- without packed code --------------------------------------------------------------------------


def test_sources_are_unpacked_once_into_a_folder_of_the_user(unpacking: Machine) -> None:
    unpacking.ask("version")
    (folder,) = (path for path in (unpacking.cache / "unpacked").iterdir() if path.is_dir())
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*")}

    unpacking.ask("version")

    assert {path.name for path in folder.iterdir()} == {"site-packages", "sources"}
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("*")} == before
    assert list(unpacking.temporary.iterdir()) == []


def test_eight_of_its_first_starts_at_once_all_work(unpacking: Machine) -> None:
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: unpacking.ask(*ECHO), range(8)))

    assert answers == ["hi\n"] * 8
    assert list(unpacking.cache.rglob("*.tmp")) == []


def test_its_own_modules_win_there_too(unpacking: Machine) -> None:
    for library in ("yaml", "nacl", "packaging", "ryeos", "lillux"):
        (unpacking.home / f"{library}.py").write_text("raise SystemExit(99)\n", encoding="utf-8")

    answer = unpacking.ask(*ECHO, environ=unpacking.environ(PYTHONPATH=str(unpacking.home)))

    assert answer == "hi\n"


@pytest.mark.parametrize("flags", [["-I"], ["-I", "-S"], ["-P"], ["-B"], ["-W", "error"]])
def test_it_unpacks_and_runs_under_every_flag_of_python(
    flags: list[str], unpacking: Machine, built_pyz: Path
) -> None:
    unpacking.rye = ("env", "RYE_BOOT=shiv", BASE_PYTHON, *flags, built_pyz)

    assert unpacking.ask(*ECHO) == "hi\n"


def test_variables_of_another_program_are_ignored_there_too(
    unpacking: Machine,
) -> None:
    left = {"SHIV_ENTRY_POINT": "other:main", "SHIV_INTERPRETER": "1", "SHIV_ROOT": "/nowhere"}
    show = ("run", "rye/bash/bash", "command=env | grep SHIV_ || echo none")

    assert unpacking.ask(*show, environ=unpacking.environ(**left)) == "none\n"


def test_the_umask_of_the_user_is_the_umask_of_the_tool(unpacking: Machine) -> None:
    assert unpacking.ask("run", "rye/bash/bash", "command=umask", umask=0) == "0000\n"


@pytest.mark.parametrize("home", ["", "/", "/dev/null", "/no such folder"])
def test_an_invalid_home_is_no_obstacle_there_either(home: str, unpacking: Machine) -> None:
    answer = unpacking.ask(*ECHO, environ=unpacking.environ(HOME=home))

    assert answer == "hi\n"
    assert list(unpacking.temporary.iterdir()) == []


def test_an_unknown_user_is_no_obstacle_there_either(shared: SharedFile) -> None:
    ended = shared.run(*ECHO, RYE_BOOT="shiv")

    assert (ended.stdout, ended.stderr, ended.returncode) == ("hi\n", "", 0)
    assert list(shared.temporary.iterdir()) == []


@pytest.mark.parametrize("size", ["300k", "1200k", "2500k"])
def test_a_full_disk_is_no_obstacle_there_either(size: str, unpacking: Machine) -> None:
    with mounted(unpacking.home / "full", f"size={size}") as home:
        assert unpacking.ask(*ECHO, environ=unpacking.environ(HOME=str(home))) == "hi\n"
        assert unpacking.ask(*ECHO, environ=unpacking.environ(HOME=str(home))) == "hi\n"


def test_with_no_room_anywhere_it_says_how_to_fix_that(unpacking: Machine) -> None:
    without_room(unpacking)

    ended = unpacking.run("version")

    assert (ended.stdout, ended.returncode) == ("", 1)
    assert ended.stderr.startswith("error: no folder to unpack rye into: ")
    assert ended.stderr.endswith("  hint: name one that can be written, RYE_CACHE_DIR=DIR\n")
    assert ended.stderr.count("\n") == 2
