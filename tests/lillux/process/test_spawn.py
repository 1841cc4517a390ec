import shutil
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from lillux.errors import ConfigurationError
from lillux.process import ProcessManager
from lillux.process.model import Command, ProgramNotFoundError, SpawnError
from lillux.process.spawn import find_program
from tests.support.children import shell

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="programs here are shell scripts")


def make_program(file: Path, text: str = "#!/bin/sh\necho $0\n", mode: int = 0o755) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")
    file.chmod(mode)
    return file


def stdout_of(command: Command) -> bytes:
    return ProcessManager().run(command).stdout.data


def refusal_of(command: Command) -> SpawnError:
    with pytest.raises(SpawnError) as error:
        ProcessManager().run(command)
    return error.value


def test_a_name_is_looked_up_on_the_path_of_the_child_and_the_first_hit_wins(
    tmp_path: Path,
) -> None:
    make_program(tmp_path / "a" / "tool", mode=0o644)
    (tmp_path / "b" / "tool").mkdir(parents=True)
    wanted = make_program(tmp_path / "c" / "tool")
    make_program(tmp_path / "d" / "tool")
    path = ":".join(str(tmp_path / name) for name in ("missing", "a", "b", "c", "d"))

    found = find_program(Command(argv=("tool",), env={"PATH": path}))

    assert found == str(wanted)


def test_a_missing_program_is_reported_with_the_directories_searched(tmp_path: Path) -> None:
    path = f"{tmp_path / 'a'}:{tmp_path / 'b'}"

    error = refusal_of(Command(argv=("tool",), env={"PATH": path}))

    assert isinstance(error, ProgramNotFoundError)
    assert str(error) == f"program 'tool': not found, searched {tmp_path}/a, {tmp_path}/b"
    assert error.searched == (f"{tmp_path}/a", f"{tmp_path}/b")
    assert error.hint == "install it, or correct its name or the PATH it is looked up on"
    assert (error.code, error.exit_status) == ("INTERPRETER_NOT_FOUND", 6)


def test_a_program_of_the_working_directory_never_stands_in_for_one_of_the_machine(
    tmp_path: Path,
) -> None:
    make_program(tmp_path / "tool")
    make_program(tmp_path / "bin" / "tool")

    error = refusal_of(Command(argv=("tool",), env={"PATH": ".::bin:"}, cwd=tmp_path))

    assert str(error) == (
        "program 'tool': not found, searched nothing: PATH names no absolute directory"
    )


def test_without_a_path_the_directories_of_the_system_are_searched() -> None:
    assert Path(find_program(Command(argv=("sh",), env={}))).samefile(str(shutil.which("sh")))


def test_a_name_with_a_separator_is_relative_to_the_working_directory(tmp_path: Path) -> None:
    make_program(tmp_path / "bin" / "tool")

    assert stdout_of(Command(argv=("bin/tool",), env={}, cwd=tmp_path)) == b"bin/tool\n"


def test_a_missing_file_is_reported_by_the_path_it_was_named_by(tmp_path: Path) -> None:
    error = refusal_of(Command(argv=("./tool",), env={}, cwd=tmp_path))

    assert isinstance(error, ProgramNotFoundError)
    assert str(error) == "program './tool': not found"


def test_a_directory_is_not_a_program(tmp_path: Path) -> None:
    error = refusal_of(Command(argv=(str(tmp_path),), env={}))

    assert str(error) == (f"program '{tmp_path}': expected an executable file, found a directory")
    assert (error.code, error.exit_status) == ("EXECUTION_FAILED", 6)


def test_a_file_without_the_permission_to_execute_comes_with_the_command_that_gives_it(
    tmp_path: Path,
) -> None:
    file = make_program(tmp_path / "tool", mode=0o644)

    error = refusal_of(Command(argv=(str(file),), env={}))

    assert str(error) == f"program '{file}': expected permission to execute it, found none"
    assert error.hint == f"chmod +x {file}"


def test_a_missing_interpreter_of_a_script_is_reported_apart_from_a_missing_script(
    tmp_path: Path,
) -> None:
    file = make_program(tmp_path / "tool", "#!/nowhere/python\n")

    error = refusal_of(Command(argv=(str(file),), env={}))

    assert str(error) == (
        f"program '{file}': its first line names an interpreter that does not exist:"
        " '#!/nowhere/python'"
    )


def test_an_error_about_a_file_that_is_no_program_explains_the_requirements(tmp_path: Path) -> None:
    file = make_program(tmp_path / "tool", "echo hello\n")

    error = refusal_of(Command(argv=(str(file),), env={}))

    assert str(error) == (
        f"program '{file}': expected a program of this system or a script with a '#!' line"
    )


def test_too_large_arguments_are_refused_with_an_alternative() -> None:
    error = refusal_of(Command(argv=("/bin/echo", "x" * 16_000_000), env={}))

    assert str(error) == (
        "program '/bin/echo': its arguments and environment are larger than this system allows"
    )
    assert error.hint == "pass large values through standard input or a file"


@pytest.mark.parametrize("name", ["missing", "a file"])
def test_an_invalid_working_directory_is_reported_as_such(tmp_path: Path, name: str) -> None:
    (tmp_path / "a file").touch()

    with pytest.raises(ConfigurationError) as error:
        ProcessManager().run(shell("true", cwd=tmp_path / name))

    assert str(error.value) == f"cwd: expected an existing directory, got '{tmp_path / name}'"


@pytest.fixture
def _discarded_children() -> Iterator[None]:
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    yield
    signal.signal(signal.SIGCHLD, before)


@pytest.mark.usefixtures("_discarded_children")
def test_no_program_is_run_where_the_system_would_throw_its_exit_code_away() -> None:
    error = refusal_of(shell("exit 1"))

    assert str(error) == (
        "program '/bin/sh': expected to learn how it ends, but this process ignores SIGCHLD"
    )
    assert error.hint == "start this process with the default action for SIGCHLD"


def test_on_windows_a_name_is_completed_with_the_extensions_of_programs(tmp_path: Path) -> None:
    wanted = make_program(tmp_path / "b" / "tool.EXE")
    env = {"PATH": f"{tmp_path / 'a'};{tmp_path / 'b'}", "PATHEXT": ".COM;.EXE"}

    by_name = find_program(Command(argv=("tool",), env=env), platform="win32")
    by_full_name = find_program(Command(argv=("tool.EXE",), env=env), platform="win32")

    assert by_name == by_full_name == str(wanted)


def test_on_windows_a_relative_program_is_named_from_where_this_process_is(
    tmp_path: Path,
) -> None:
    command = Command(argv=("bin/tool.exe",), env={}, cwd=tmp_path)

    assert find_program(command, platform="win32") == str(tmp_path / "bin" / "tool.exe")


def test_on_windows_no_folder_is_searched_without_a_path() -> None:
    with pytest.raises(ProgramNotFoundError) as error:
        find_program(Command(argv=("tool",), env={}), platform="win32")

    assert error.value.searched == ()
