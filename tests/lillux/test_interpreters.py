import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lillux.errors import ConfigurationError, LilluxError
from lillux.interpreter_searches import SearchEnvironment
from lillux.interpreters import (
    SEARCHES,
    InterpreterResult,
    MissingInterpreter,
    find_interpreter,
    parse_interpreter,
)
from lillux.process import ProcessManager
from lillux.process.model import ProcessRunner, SpawnError
from lillux.program_files import either, find_on_path
from tests.support.executables import make_program
from tests.support.scripted_process import Answer, ScriptedProcess

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="programs here have mode bits")

WHERE = "env_config.interpreter"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    path = tmp_path / "project"
    path.mkdir()
    return path


def find(
    project: Path | None,
    keys: Mapping[str, Any],
    *,
    path: str = "",
    user: Path | None = None,
    platform: str = "linux",
    preset: str = "",
    runner: ProcessRunner | None = None,
) -> InterpreterResult:
    block = parse_interpreter(WHERE, {"var": "RYE_PYTHON", **keys})
    assert block is not None
    around = SearchEnvironment(
        variables={"PATH": path},
        project_path=project,
        user_base=user,
        platform=platform,
        runner=runner,
    )
    return find_interpreter(block, around, preset=preset)


def local(**keys: object) -> dict[str, Any]:
    return {
        "type": "local_binary",
        "binary": "python",
        "candidates": ["python3"],
        "search_paths": [".venv/bin", ".venv/Scripts"],
        **keys,
    }


# --- local_binary


def test_a_local_binary_is_found_in_the_project(project: Path) -> None:
    program = make_program(project / ".venv" / "bin" / "python")

    assert find(project, local()) == InterpreterResult(str(program))


def test_the_search_is_in_order_of_root_then_folder_then_name(
    project: Path, tmp_path: Path
) -> None:
    roots = (tmp_path / "anchor", project)
    wanted = [
        root / ".venv" / folder / name
        for root in roots
        for folder in ("bin", "Scripts")
        for name in ("python", "python3")
    ]
    for program in wanted:
        make_program(program)

    found = []
    for program in wanted:
        found.append(find(project, local(search_roots=[str(roots[0])])).value)
        program.unlink()

    assert found == [str(program) for program in wanted]


def test_a_relative_search_root_is_in_the_project(project: Path) -> None:
    program = make_program(project / "sub" / ".venv" / "bin" / "python")

    assert find(project, local(search_roots=["sub"])).value == str(program)


def test_without_a_project_only_absolute_roots_are_searched(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_program(project / ".venv" / "bin" / "python")
    monkeypatch.chdir(project)

    finding = find(None, local(search_roots=[".", "/nowhere"]))

    folders = ("/nowhere/.venv/bin", "/nowhere/.venv/Scripts")
    assert finding.missing == MissingInterpreter("RYE_PYTHON", ("python", "python3"), folders)


def test_a_virtual_environment_keeps_its_link(project: Path) -> None:
    real = make_program(project / "real-python")
    link = project / ".venv" / "bin" / "python"
    link.parent.mkdir(parents=True)
    link.symlink_to(real)

    assert find(project, local()).value == str(link)


def test_a_folder_a_plain_file_and_a_dead_link_are_no_interpreters(project: Path) -> None:
    folder = project / ".venv" / "bin"
    (folder / "python").mkdir(parents=True)
    (folder / "python3").touch(mode=0o644)
    (project / ".venv" / "Scripts").mkdir()
    (project / ".venv" / "Scripts" / "python").symlink_to("nowhere")
    last = make_program(project / ".venv" / "Scripts" / "python3")

    assert find(project, local()).value == str(last)


def test_a_path_with_spaces_brackets_and_unicode_is_found_as_it_is(tmp_path: Path) -> None:
    project = tmp_path / "my (x) [ü] $HOME 'q'"
    program = make_program(project / ".venv" / "bin" / "python")

    assert find(project, local()).value == str(program)


def test_a_tilde_is_a_name_like_any_other(project: Path) -> None:
    program = make_program(project / "~" / ".venv" / "bin" / "python")

    assert find(project, local(search_roots=["~"])).value == str(program)


@pytest.mark.parametrize("suffix", [".exe", ".cmd", ""])
def test_windows_programs_have_suffixes(project: Path, suffix: str) -> None:
    program = project / ".venv" / "Scripts" / f"python{suffix}"
    program.parent.mkdir(parents=True)
    program.touch(mode=0o644)

    assert find(project, local(), platform="win32").value == str(program)


def test_on_windows_a_suffix_goes_before_no_suffix(project: Path) -> None:
    for name in ("tsx", "tsx.cmd", "tsx.exe"):
        make_program(project / "bin" / name)

    keys = local(binary="tsx", candidates=[], search_paths=["bin"])

    assert find(project, keys, platform="win32").value == str(project / "bin" / "tsx.exe")


def test_elsewhere_suffixes_are_not_tried(project: Path) -> None:
    make_program(project / ".venv" / "bin" / "python.exe")

    assert find(project, local()).value == ""


# --- PATH


def test_a_system_binary_is_found_in_the_first_folder_of_path(tmp_path: Path) -> None:
    first, second = (make_program(tmp_path / folder / "bash") for folder in ("a", "b"))
    path = f"{tmp_path / 'none'}:{first.parent}:{second.parent}"

    found = find(None, {"type": "system_binary", "binary": "bash"}, path=path)

    assert found == InterpreterResult(str(first))


def test_empty_and_relative_entries_of_path_are_passed_over(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_program(project / "bash")
    make_program(project / "bin" / "bash")
    program = make_program(tmp_path / "usr" / "bash")
    monkeypatch.chdir(project)

    path = f":.:bin:./bin::{program.parent}:"

    assert find_on_path("bash", path, platform="linux") == str(program)
    assert find_on_path("bash", ":.:bin", platform="linux") is None
    assert find_on_path("bash", "", platform="linux") is None


def test_path_has_semicolons_on_windows(tmp_path: Path) -> None:
    program = make_program(tmp_path / "b:c" / "node.exe")

    path = f"{tmp_path / 'a'};{program.parent}"

    assert find_on_path("node", path, platform="win32") == str(program)


def test_a_name_with_a_separator_is_not_looked_up(tmp_path: Path) -> None:
    program = make_program(tmp_path / "bin" / "bash")
    make_program(tmp_path / "bin\\bash")

    assert find_on_path("bin/bash", str(tmp_path), platform="linux") is None
    assert find_on_path("bin\\bash", str(tmp_path), platform="win32") is None
    assert find_on_path(str(program), "", platform="linux") == str(program)


@pytest.mark.parametrize("name", ["", ".", "..", "a\0b", "\ud800", "x" * 5000])
def test_an_invalid_name_is_not_found(tmp_path: Path, name: str) -> None:
    assert find_on_path(name, str(tmp_path), platform="linux") is None


def test_a_missing_path_means_the_folders_of_the_system() -> None:
    block = parse_interpreter(WHERE, {"type": "system_binary", "var": "SH", "binary": "sh"})
    assert block is not None
    around = SearchEnvironment(variables={}, project_path=None, user_base=None, platform="linux")

    assert Path(find_interpreter(block, around).value).name == "sh"


def test_places_that_were_searched_in_vain_are_reported(tmp_path: Path) -> None:
    path = f"{tmp_path / 'a'}:{tmp_path / 'b'}"

    finding = find(None, {"type": "system_binary", "binary": "bash"}, path=path)

    folders = (f"{tmp_path / 'a'}", f"{tmp_path / 'b'}")
    warning = f"{WHERE}: RYE_PYTHON stays unset: no bash in {folders[0]}, {folders[1]}"
    assert finding == InterpreterResult(
        "", (warning,), MissingInterpreter("RYE_PYTHON", ("bash",), folders)
    )


def test_a_file_that_is_no_program_is_reported(project: Path) -> None:
    folder = project / ".venv" / "bin"
    (folder / "python").mkdir(parents=True)
    (folder / "python3").touch(mode=0o644)

    finding = find(project, local())

    unusable = (f"{folder}/python is a folder", f"{folder}/python3 is not executable")
    assert finding.missing is not None
    assert finding.missing.unusable == unusable
    assert finding.warnings[0].endswith(f"/Scripts ({', '.join(unusable)})")


def test_an_empty_path_is_reported_too() -> None:
    finding = find(None, {"type": "system_binary", "binary": "bash"})

    assert finding.warnings == (f"{WHERE}: RYE_PYTHON stays unset: no bash in no folder at all",)


# --- fallback and pre-set values


def test_a_fallback_becomes_absolute_through_path(project: Path, tmp_path: Path) -> None:
    program = make_program(tmp_path / "bin" / "python3")

    finding = find(project, local(fallback="python3"), path=str(program.parent))

    assert finding == InterpreterResult(str(program))


def test_a_fallback_that_is_not_found_stays_and_is_reported(project: Path) -> None:
    finding = find(project, local(fallback="python9"), path="/nowhere")

    names = ("python", "python3", "python9")
    folders = (f"{project}/.venv/bin", f"{project}/.venv/Scripts", "/nowhere")
    assert finding.value == "python9"
    assert finding.missing == MissingInterpreter("RYE_PYTHON", names, folders)
    reason = f"no python, python3 or python9 in {', '.join(folders)}"
    assert finding.warnings == (f"{WHERE}: RYE_PYTHON is the fallback 'python9': {reason}",)


def test_a_fallback_with_a_separator_is_not_looked_up(tmp_path: Path) -> None:
    program = make_program(tmp_path / "bash")
    keys = {"type": "system_binary", "binary": "no-such-bash"}

    absolute = find(None, {**keys, "fallback": str(program)})
    relative = find(None, {**keys, "fallback": "bin/bash"}, path=str(tmp_path))

    assert absolute == InterpreterResult(str(program))
    assert relative.value == "bin/bash"
    assert relative.missing is not None


def test_a_preset_file_is_kept_without_a_search(project: Path, tmp_path: Path) -> None:
    make_program(project / ".venv" / "bin" / "python")
    preset = make_program(tmp_path / "my python")

    assert find(project, local(), preset=str(preset)) == InterpreterResult(str(preset))


@pytest.mark.parametrize("preset", ["python3", "./python", "/nowhere/python", "/", "/a\0b"])
def test_a_preset_that_is_no_file_is_searched_for(project: Path, preset: str) -> None:
    program = make_program(project / ".venv" / "bin" / "python")

    finding = find(project, local(), preset=preset)

    reason = "is set in the environment, but not to the absolute path of a file: it is searched for"
    assert finding == InterpreterResult(str(program), (f"{WHERE}: RYE_PYTHON {reason}",))


# --- command


def command(*argv: str, **keys: object) -> dict[str, Any]:
    return {"type": "command", "resolve_cmd": list(argv), **keys}


def test_a_command_prints_where_the_interpreter_is(project: Path, tmp_path: Path) -> None:
    program = make_program(tmp_path / "versions" / "python 3.12")
    locate = make_program(tmp_path / "bin" / "locate")
    locate.write_text('#!/bin/sh\nprintf "  %s \\nmore\\n" "$1"\n', encoding="utf-8")

    finding = find(
        project, command("locate", str(program)), path=str(locate.parent), runner=ProcessManager()
    )

    assert finding == InterpreterResult(str(program))


def test_a_command_runs_in_the_project_with_the_resolved_environment(
    project: Path, tmp_path: Path
) -> None:
    program = make_program(tmp_path / "bin" / "python3")
    script = f'[ "$PWD" = "{project}" ] && [ "$PATH" = "{program.parent}" ] && echo python3'

    finding = find(project, command("/bin/sh", "-c", script), path=str(program.parent))

    assert finding == InterpreterResult(str(program))


def test_a_command_gets_five_seconds_and_no_shell(project: Path) -> None:
    make_program(project / "bin" / "which")
    runner = ScriptedProcess(Answer(stdout=b""))

    find(project, command("which", "$HOME; ls"), path=str(project / "bin"), runner=runner)

    (ran,) = runner.commands
    assert ran.argv == (str(project / "bin" / "which"), "$HOME; ls")
    assert (ran.timeout_s, ran.cwd, ran.stdin) == (5, project, b"")


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (Answer(stdout=b""), "printed nothing, expected the path of a program"),
        (Answer(stdout=b"\n/bin/sh\n"), "printed nothing, expected the path of a program"),
        (Answer(stdout=b"bin/x"), "printed 'bin/x', expected the path of a program"),
        (Answer(stdout=b"\xff\0"), "printed '\\udcff\\x00', expected the path of a program"),
        (Answer(stdout=b"/bin/sh", exit_code=3), "ended with status 3, expected status 0"),
        (Answer(stdout=b"/bin/sh", signal=9), "ended with signal 9, expected status 0"),
        (Answer(stdout=b"/bin/sh", signal=15, timed_out=True), "did not end within 5 s"),
    ],
)
def test_a_command_that_names_no_program_leads_to_the_fallback(
    project: Path, tmp_path: Path, answer: Answer, problem: str
) -> None:
    make_program(project / "bin" / "which")
    program = make_program(tmp_path / "bin" / "python3")
    path = f"{project / 'bin'}:{program.parent}"

    helped = find(
        project, command("which", fallback="python3"), path=path, runner=ScriptedProcess(answer)
    )
    unset = find(project, command("which"), path=path, runner=ScriptedProcess(answer))

    assert helped == InterpreterResult(str(program))
    assert unset.value == ""
    assert unset.warnings == (f"{WHERE}: RYE_PYTHON stays unset: 'which' {problem}",)


def test_a_command_that_cannot_start_leads_to_the_fallback(project: Path) -> None:
    make_program(project / "bin" / "which")
    refusal: LilluxError = SpawnError("which", "too many processes")

    finding = find(
        project, command("which"), path=str(project / "bin"), runner=ScriptedProcess(refusal)
    )

    reason = "program 'which': too many processes"
    assert finding.warnings == (f"{WHERE}: RYE_PYTHON stays unset: {reason}",)


def test_a_missing_command_is_reported_with_the_folders_of_path(project: Path) -> None:
    finding = find(project, command("pyenv", "which", "python"), path="/nowhere")

    assert finding.missing == MissingInterpreter("RYE_PYTHON", ("pyenv",), ("/nowhere",))


# --- venv_python


@pytest.mark.parametrize("program", ["bin/python", "Scripts/python.exe", "bin/python3"])
def test_a_venv_python_is_in_the_projects_environment(project: Path, program: str) -> None:
    found = make_program(project / ".venv" / program)

    assert find(project, {"type": "venv_python"}) == InterpreterResult(str(found))


def test_a_venv_path_names_another_environment(project: Path, tmp_path: Path) -> None:
    make_program(project / ".venv" / "bin" / "python")
    inside = make_program(project / "envs" / "py" / "bin" / "python")
    outside = make_program(tmp_path / "env" / "bin" / "python")

    keys = {"type": "venv_python"}

    assert find(project, {**keys, "venv_path": "envs/py"}).value == str(inside)
    assert find(project, {**keys, "venv_path": str(tmp_path / "env")}).value == str(outside)


def test_a_venv_search_goes_through_the_spaces_as_they_are_listed(
    project: Path, tmp_path: Path
) -> None:
    user = tmp_path / "user"
    folders = (".venv", "venv", ".virtualenv")
    wanted = [base / folder / "bin" / "python" for base in (project, user) for folder in folders]
    wanted += [tmp_path / "usr" / "bin" / name for name in ("python3", "python")]
    for program in wanted:
        make_program(program)
    keys = {"type": "venv_python", "search": ["project", "user", "system"]}

    found = []
    for program in wanted:
        found.append(find(project, keys, user=user, path=f"{tmp_path}/usr/bin").value)
        program.unlink()

    assert found == [str(program) for program in wanted]
    missing = find(project, keys, user=user, path="/usr/nowhere").missing
    assert missing is not None
    assert missing.directories == (
        *(f"{base}/{folder}" for base in (project, user) for folder in folders),
        "/usr/nowhere",
    )


def test_a_missing_space_is_skipped(tmp_path: Path) -> None:
    program = make_program(tmp_path / "python")
    keys = {"type": "venv_python", "search": ["user", "project", "system"]}

    assert find(None, keys, path=str(tmp_path)).value == str(program)


# --- blocks


def test_a_block_without_var_gives_no_search() -> None:
    assert parse_interpreter(WHERE, {"type": "system_binary", "binary": "bash"}) is None
    assert parse_interpreter(WHERE, {"var": None}) is None


def test_an_unknown_type_uses_its_fallback_and_warns(tmp_path: Path) -> None:
    program = make_program(tmp_path / "ruby")
    problem = f"type 'rbenv' is not known, expected {either(tuple(sorted(SEARCHES)))}"

    helped = find(None, {"type": "rbenv", "fallback": "ruby"}, path=str(tmp_path))
    unset = find(None, {"type": "rbenv"}, path=str(tmp_path))

    assert helped == InterpreterResult(str(program), (f"{WHERE}: {problem}",))
    assert unset == InterpreterResult(
        "",
        (f"{WHERE}: RYE_PYTHON stays unset: {problem}",),
        MissingInterpreter("RYE_PYTHON", (), ()),
    )


@pytest.mark.parametrize(
    ("keys", "error"),
    [
        ({"var": 3}, "var: expected a string, got int"),
        ({"var": ""}, "var: expected the name of a variable, got ''"),
        ({"var": "A=B"}, "var: expected the name of a variable, got 'A=B'"),
        ({"var": "A\0"}, "var: expected text without NUL characters"),
        ({}, "type: expected a string, got nothing"),
        ({"type": ["x"]}, "type: expected a string, got list"),
        ({"type": "x", "fallback": True}, "fallback: expected a string, got bool"),
        ({"type": "system_binary"}, "binary: expected a string, got nothing"),
        ({"type": "system_binary", "binary": ""}, "binary: expected a string, got an empty one"),
        (
            {"type": "system_binary", "binary": "\ud800"},
            "binary: expected text this system can encode, found '\\ud800'",
        ),
        (local(binary=1), "binary: expected a string, got int"),
        (local(candidates="python"), "candidates: expected a list of strings, got str"),
        (local(candidates=["a", 1]), "candidates[1]: expected a string, got int"),
        (local(search_paths=[]), "search_paths: expected a list of at least one string, got none"),
        (local(search_roots={"a": 1}), "search_roots: expected a list of strings, got dict"),
        (command(), "resolve_cmd: expected a list of at least one string, got none"),
        (
            {"type": "command", "resolve_cmd": "pyenv which"},
            "resolve_cmd: expected a list of strings, got str",
        ),
        (command("a\0b"), "resolve_cmd[0]: expected text without NUL characters"),
        (
            {"type": "venv_python", "search": ["project", "global"]},
            "search[1]: expected project, user or system, got 'global'",
        ),
        ({"type": "venv_python", "venv_path": None}, "venv_path: expected a string, got nothing"),
    ],
)
def test_a_wrong_shape_is_an_error_with_its_path(
    project: Path, keys: Mapping[str, Any], error: str
) -> None:
    with pytest.raises(ConfigurationError) as raised:
        find(project, keys)

    assert str(raised.value) == f"{WHERE}.{error}"


# --- laws

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=5,
)
KEYS = ("binary", "candidates", "search_paths", "search_roots", "fallback", "venv_path", "search")


@pytest.mark.property
@given(
    kind=st.sampled_from([*sorted(SEARCHES.keys() - {"command"}), "other"]),
    keys=st.dictionaries(st.sampled_from(KEYS), JSON),
)
def test_any_block_is_answered_or_refused(
    tmp_path_factory: pytest.TempPathFactory, kind: str, keys: Mapping[str, Any]
) -> None:
    project = tmp_path_factory.getbasetemp()

    with suppress(ConfigurationError):
        finding = find(project, {**keys, "type": kind}, path=os.environ["PATH"], user=project)

        assert finding.missing or Path(finding.value).is_file()
