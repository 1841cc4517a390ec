"""``rye.pyz`` in processes of its own, on machines of every kind."""

import json
import os
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from zipfile import ZipFile

import pytest

from tests.support.built import BASE_PYTHON, Machine, run
from tests.support.other_pythons import require_python

pytestmark = pytest.mark.e2e

ECHO = ("run", "rye/bash/bash", "command=echo hi")


# --- anywhere -------------------------------------------------------------------------------------


def test_it_runs_a_tool_on_a_machine_that_has_only_python(machine: Machine) -> None:
    assert machine.ask(*ECHO) == "hi\n"


def test_it_tells_its_version(machine: Machine) -> None:
    told = json.loads(machine.ask("version", "--json"))

    assert (told["status"], told["version"], told["bundle"]) == ("success", "0.1.0", "0.1.0")


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


def test_what_another_program_packed_by_shiv_left_behind_is_ignored(machine: Machine) -> None:
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


# --- its main job ---------------------------------------------------------------------------------

GREET = """
import json, sys
__version__ = "1.0.0"
__tool_type__ = "python"
__executor_id__ = "rye/core/runtimes/python/script"
__category__ = "mine"
__tool_description__ = "Greets somebody"
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


def test_a_tool_that_nobody_signed_is_refused(machine: Machine, greet: Path) -> None:
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


# --- what it leaves on the disk -------------------------------------------------------------------


def test_it_is_unpacked_once_into_the_cache_of_its_user(machine: Machine) -> None:
    machine.ask("version")
    (unpacked,) = (path for path in machine.cache.iterdir() if path.is_dir())
    first = unpacked.stat().st_mtime_ns

    machine.ask("version")

    assert unpacked.stat().st_mtime_ns == first
    assert list(machine.temporary.iterdir()) == []


def test_the_cache_can_be_put_elsewhere(machine: Machine) -> None:
    elsewhere = machine.home / "else where"

    machine.ask("version", environ=machine.environ(RYE_CACHE_DIR=str(elsewhere)))

    assert [path.name for path in elsewhere.iterdir()] == ["unpacked"]
    assert not machine.cache.exists()


def test_eight_first_starts_at_once_all_work(machine: Machine) -> None:
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: machine.ask(*ECHO), range(8)))

    assert answers == ["hi\n"] * 8
    assert len([path for path in machine.cache.iterdir() if path.is_dir()]) == 1


@pytest.mark.skipif(os.name == "nt", reason="Windows has no modes")
def test_no_other_user_can_enter_what_it_unpacked_whatever_the_umask(machine: Machine) -> None:
    shown = machine.ask("run", "rye/bash/bash", "command=umask", umask=0)

    assert stat.S_IMODE(machine.cache.stat().st_mode) == 0o700
    assert shown == "0000\n"  # the umask of the user is the umask of the tool


@pytest.mark.skipif(os.name == "nt", reason="Windows has no modes")
def test_a_cache_that_others_can_write_is_left_alone(machine: Machine) -> None:
    machine.cache.mkdir(parents=True)
    machine.cache.chmod(0o777)

    answer = machine.ask(*ECHO)

    assert answer == "hi\n"
    assert list(machine.cache.iterdir()) == []


# --- homes that are none --------------------------------------------------------------------------


@pytest.mark.parametrize("home", ["", "/", "/dev/null", "/no such folder", "relative"])
def test_a_home_that_is_none_is_no_obstacle(home: str, machine: Machine) -> None:
    answer = machine.ask(*ECHO, environ=machine.environ(HOME=home))

    assert answer == "hi\n"
    assert list(machine.temporary.iterdir()) == []


def test_a_home_below_a_file_is_no_obstacle(machine: Machine, built_pyz: Path) -> None:
    answer = machine.ask(*ECHO, environ=machine.environ(HOME=str(built_pyz / "home")))

    assert answer == "hi\n"


@pytest.fixture
def shared(built_pyz: Path) -> Iterator[Path]:
    """The file in a folder that every user of the machine can read."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        shutil.copy(built_pyz, folder / "rye.pyz")
        yield folder


@pytest.mark.skipif(os.name == "nt", reason="Windows has no modes")
def test_a_home_that_cannot_be_written_is_no_obstacle(shared: Path) -> None:
    (shared / "tmp").mkdir()
    (shared / "tmp").chmod(0o1777)
    (shared / "home").mkdir()
    (shared / "home").chmod(0o555)

    ended = _run_unprivileged(shared, HOME=str(shared / "home"))

    assert (ended.stdout, ended.stderr, ended.returncode) == ("hi\n", "", 0)
    assert list((shared / "home").iterdir()) == list((shared / "tmp").iterdir()) == []


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such users")
def test_a_user_that_the_system_does_not_know_is_no_obstacle(shared: Path) -> None:
    (shared / "tmp").mkdir()
    (shared / "tmp").chmod(0o1777)

    ended = _run_unprivileged(shared)

    assert (ended.stdout, ended.stderr, ended.returncode) == ("hi\n", "", 0)


@pytest.mark.skipif(os.name == "nt", reason="Windows has no modes")
def test_with_no_place_to_write_at_all_it_says_what_is_missing(shared: Path) -> None:
    (shared / "home").mkdir()
    (shared / "home").chmod(0o555)
    code = (
        "import runpy, sys, tempfile; tempfile.tempdir = '/no such folder'; "
        f"sys.argv[1:] = ['version']; runpy.run_path({str(shared / 'rye.pyz')!r}, None, '__main__')"
    )

    ended = _run_unprivileged(shared, "-c", code, HOME=str(shared / "home"))

    assert ended.returncode == 1
    assert ended.stderr.startswith("error: no folder to unpack rye into: ")
    assert ended.stderr.endswith("  hint: name one that can be written, RYE_CACHE_DIR=DIR\n")
    assert ended.stderr.count("\n") == 2


def _run_unprivileged(
    shared: Path, *arguments: str, **environ: str
) -> subprocess.CompletedProcess[str]:
    """As a user who is not root, whom the system does not know when the tests run as root."""
    if not _everyone_can_start(BASE_PYTHON):
        pytest.skip(f"{BASE_PYTHON} is in a folder that other users cannot enter")
    command: list[str | Path] = [BASE_PYTHON, *(arguments or (str(shared / "rye.pyz"), *ECHO))]
    settings = {"PATH": os.environ["PATH"], "TMPDIR": str(shared / "tmp")} | environ
    if os.geteuid() == 0:
        return run(command, environ=settings, cwd=shared, user=12345)
    return run(command, environ=settings, cwd=shared)


def _everyone_can_start(program: Path) -> bool:
    folders = program.resolve().parents
    return all(folder.stat().st_mode & stat.S_IXOTH for folder in folders)


# --- statuses -------------------------------------------------------------------------------------


def test_a_tool_that_failed_is_status_1(machine: Machine) -> None:
    assert machine.run("run", "rye/bash/bash", "command=exit 42").returncode == 1


def test_a_command_that_does_not_exist_is_status_2(machine: Machine) -> None:
    ended = machine.run("rnu")

    assert ended.returncode == 2
    assert ended.stderr == "error: unknown command 'rnu'\n  hint: did you mean: rye run\n"


def test_an_item_that_does_not_exist_is_status_3(machine: Machine) -> None:
    assert machine.run("run", "no/such/tool").returncode == 3


# --- what is inside -------------------------------------------------------------------------------


def test_shiv_can_read_what_it_packed(built_pyz: Path) -> None:
    shiv_info = "import sys, shiv.info; sys.exit(shiv.info.main())"

    told = run([sys.executable, "-c", shiv_info, "--json", built_pyz])

    assert json.loads(told.stdout)["entry_point"] == "ryeos.cli.entry:main"


def test_nothing_inside_tells_of_the_machine_that_built_it(built_pyz: Path) -> None:
    with ZipFile(built_pyz) as archive:
        entries = archive.infolist()
        names = [entry.filename for entry in entries]

    assert {(entry.create_system, entry.external_attr >> 16) for entry in entries} == {
        (3, 0o100644)
    }
    assert len({entry.date_time for entry in entries}) == 1
    assert [name for name in names if name.endswith((".pyc", "/RECORD", "/INSTALLER"))] == []
    assert [name for name in names if "/bin/" in name or "__pycache__" in name] == []
    assert len(set(names)) == len(names)


def test_the_licences_of_the_libraries_are_inside(built_pyz: Path) -> None:
    with ZipFile(built_pyz) as archive:
        names = archive.namelist()

    licensed = {
        name.split("/")[1].split("-")[0].lower()
        for name in names
        if ".dist-info/" in name and "LICENSE" in name
    }

    assert {"cffi", "fastjsonschema", "packaging", "pynacl", "python_dotenv", "pyyaml"} <= licensed


# --- other Pythons --------------------------------------------------------------------------------


@pytest.mark.parametrize("version", ["3.11", "3.12", "3.13", "3.14"])
def test_it_runs_tools_under_every_supported_python(
    version: str, machine: Machine, built_pyz: Path
) -> None:
    machine.rye = (require_python(version), built_pyz)

    assert machine.ask(*ECHO) == "hi\n"


@pytest.mark.parametrize("version", ["2.7", "3.8", "3.10"])
def test_an_older_python_is_refused_in_one_line(
    version: str, machine: Machine, built_pyz: Path
) -> None:
    machine.rye = (require_python(version), built_pyz)

    ended = machine.run("version")

    assert ended.returncode == 78
    assert ended.stderr.startswith(f"rye: needs Python 3.11 or newer, this is Python {version}.")
