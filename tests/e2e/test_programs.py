"""``lillux-proc`` and ``lillux-watch`` as tools find them, and tools that are programs."""

import json
import os
from pathlib import Path

import pytest

from tests.support.built import BASE_PYTHON, Machine
from tests.support.threads_database import ThreadsDatabase

pytestmark = pytest.mark.e2e
BASH = ("run", "rye/bash/bash")


@pytest.fixture
def machine(tmp_path: Path, built_pyz: Path) -> Machine:
    return Machine(tmp_path, BASE_PYTHON, built_pyz)


def add_tool(machine: Machine, name: str, config: str, executor: str = "rust/runtime") -> None:
    machine.run("keys", "generate")
    path = machine.project / ".ai" / "tools" / f"{name}.yaml"
    path.parent.mkdir(parents=True)
    path.write_text(
        f'version: "1.0.0"\ntool_type: tool\nexecutor_id: rye/core/runtimes/{executor}\n'
        f'category: ""\ndescription: a program\n{config}\n',
        "utf-8",
    )
    assert machine.run("sign", f"tool:{name}").returncode == 0


def test_tools_find_both_programs_on_their_path(machine: Machine) -> None:
    said = machine.ask(*BASH, "command=lillux-proc exec --cmd echo --arg hi")

    assert json.loads(said)["stdout"] == "hi\n"
    shown = machine.ask(*BASH, "command=command -v lillux-watch")
    assert Path(shown.strip()).parent.parent == machine.cache / "programs"


def test_without_a_home_they_are_scripts(machine: Machine, built_pyz: Path) -> None:
    machine.home.rmdir()

    said = machine.ask(*BASH, "command=lillux-proc exec --cmd echo --arg hi")

    assert json.loads(said)["stdout"] == "hi\n"
    assert list(machine.temporary.iterdir()) == []


def test_a_command_that_runs_no_tool_lays_no_programs_out(machine: Machine) -> None:
    machine.ask("search", "bash", "--limit", "100")

    assert not (machine.cache / "programs").exists()


def test_the_runtime_runs_a_program_that_reads_its_parameters(machine: Machine) -> None:
    add_tool(machine, "count", "config: {binary: wc, args: [-c]}")

    assert machine.ask("run", "count", "name=value").strip() == str(len('{"name": "value"}'))


def test_the_runtime_speaks_to_lillux_proc_in_flags(machine: Machine) -> None:
    add_tool(machine, "echo", "config: {binary: lillux-proc, subcommand: exec, cmd: echo}")

    answer = json.loads(machine.ask("run", "echo", 'args:=["--a", "b c"]'))

    assert (answer["stdout"], answer["return_code"]) == ("--a b c\n", 0)


@pytest.mark.heavy
def test_a_program_that_keeps_the_limit_itself_reports_its_timeout(machine: Machine) -> None:
    add_tool(machine, "slow", "config: {binary: lillux-proc, subcommand: exec, cmd: sleep}")

    ended = machine.run("run", "slow", 'args:=["60"]', "--timeout", "0.5")

    assert "Command timed out after 0.5 seconds" in ended.stdout


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("config", "variable", "words"),
    [
        ("{binary: lillux-proc, subcommand: exec, cmd: x}", "PROC", " --timeout 0\n"),
        ("{db_path: x, thread_id: t}", "WATCH", " --thread-id t --no-timeout\n"),
    ],
)
def test_a_program_that_keeps_the_limit_itself_gets_no_limit_from_rye(
    machine: Machine, tmp_path: Path, config: str, variable: str, words: str
) -> None:
    add_tool(machine, "endless", f"config: {config}")
    mine = tmp_path / "mine"
    mine.write_text('#!/bin/sh\necho "$*"\n', "utf-8")
    mine.chmod(0o755)

    environ = machine.environ(**{f"LILLUX_{variable}": str(mine)})
    said = machine.ask("run", "endless", "--timeout", "0", environ=environ)

    assert said.endswith(words)


@pytest.mark.heavy
def test_the_runtime_looks_at_a_process(machine: Machine) -> None:
    add_tool(machine, "alive", "config: {binary: lillux-proc, subcommand: status}")

    assert json.loads(machine.ask("run", "alive", f"pid:={os.getpid()}")) == {
        "pid": os.getpid(),
        "alive": True,
    }


def test_the_runtime_waits_for_a_thread_by_default(machine: Machine) -> None:
    add_tool(machine, "wait", "config: {}")
    database = ThreadsDatabase(machine.project / "registry.db").make()
    database.set("t", "completed")

    said = machine.ask("run", "wait", f"db_path={database.path}", "thread_id=t")

    assert json.loads(said) == {"status": "completed", "thread_id": "t"}


@pytest.mark.heavy
def test_a_variable_chooses_another_lillux_proc(machine: Machine, tmp_path: Path) -> None:
    add_tool(machine, "alive", "config: {binary: lillux-proc, subcommand: status}")
    mine = tmp_path / "mine"
    mine.write_text('#!/bin/sh\necho "mine $*"\n', "utf-8")
    mine.chmod(0o755)

    said = machine.ask("run", "alive", "pid:=7", environ=machine.environ(LILLUX_PROC=str(mine)))

    assert said == "mine status --pid 7\n"
