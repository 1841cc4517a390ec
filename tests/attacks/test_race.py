"""Files that change between their verification and their use."""

import json
import stat
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from lillux.cancellation import Cancellation
from lillux.process import ProcessManager
from lillux.process.model import Command, Outcome
from ryeos.run.model import ExecutionRequest
from tests.support.workspace import Workspace

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the attacker is a shell script")


def racing_runtime(workspace: Workspace, attack: str) -> None:
    """A runtime ``mine/r`` whose interpreter is found by a program that attacks meanwhile.

    Environments are resolved after everything has been verified, so this is the attacker's window.
    """
    program = workspace.folder / "find-interpreter"
    program.write_text(f"#!/bin/sh\n{attack}\necho {sys.executable}\n", encoding="utf-8")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    workspace.project.signed(
        "tools/mine/r.yaml",
        f"""version: "1.0.0"
tool_type: runtime
executor_id: rye/core/primitives/execute
category: mine
description: racing
env_config:
  interpreter: {{type: command, resolve_cmd: [{str(program)!r}], var: MY_PYTHON}}
anchor:
  enabled: true
  markers_any: [__init__.py]
  env_paths: {{PYTHONPATH: {{prepend: ["{{anchor_path}}"]}}}}
verify_deps: {{enabled: true, extensions: [".py"]}}
config: {{command: "${{MY_PYTHON}}", args: ["{{tool_path}}"]}}
""",
    )


@pytest.fixture
def tool(workspace: Workspace) -> Path:
    return workspace.project.signed_tool("pack/t", "print('good')", executor="mine/r")


def test_without_an_attack_the_tool_runs(workspace: Workspace, tool: Path) -> None:
    racing_runtime(workspace, "true")

    assert workspace.run("pack/t").data["stdout"] == "good\n"
    assert tool.is_file()


@pytest.mark.parametrize(
    "attack",
    [
        "printf 'print(\"evil\")' > {path}",
        "printf 'print(\"evil\")' > {path}.new; mv {path}.new {path}",
        "printf '#' >> {path}",
        "rm {path}",
        "rm {path}; mkdir {path}",
        "rm {path}; mkfifo {path}",
        "rm {path}; ln -s /dev/zero {path}",
    ],
)
def test_a_tool_that_is_replaced_meanwhile_does_not_start(
    workspace: Workspace, tool: Path, attack: str
) -> None:
    racing_runtime(workspace, attack.format(path=tool))

    result = workspace.run("pack/t")

    assert result.error == f"changed between its verification and its start: {tool}"
    assert result.metadata["error_code"] == "INTEGRITY"
    assert "lockfile_created" not in result.metadata


def test_a_module_that_is_replaced_meanwhile_does_not_start_the_tool(workspace: Workspace) -> None:
    workspace.project.signed("tools/pack/__init__.py", "")
    helper = workspace.project.signed("tools/pack/helper.py", "X = 'good'\n")
    workspace.project.signed_tool("pack/t", "import helper\nprint(helper.X)", executor="mine/r")
    racing_runtime(workspace, f"echo 'X = \"evil\"' > {helper}")

    result = workspace.run("pack/t")

    assert result.error == f"changed between its verification and its start: {helper.resolve()}"


def test_a_runtime_that_is_replaced_meanwhile_has_been_read_already(
    workspace: Workspace, tool: Path
) -> None:
    racing_runtime(workspace, "true")
    runtime = workspace.project.space.ai / "tools/mine/r.yaml"
    racing_runtime(workspace, f"sed -i 's/args:.*/args: [-c, print(666)]}}/' {runtime}")

    assert workspace.run("pack/t").data["stdout"] == "good\n"
    assert "666" in runtime.read_text("utf-8")
    assert tool.is_file()


class Attacker:
    """The real process manager, with something done right before each start."""

    def __init__(self, attack: Callable[[], object]) -> None:
        self._attack = attack

    def run(
        self,
        command: Command,
        *,
        cancellation: Cancellation | None = None,
        on_stderr: Callable[[bytes], None] | None = None,
    ) -> Outcome:
        self._attack()
        return ProcessManager().run(command, cancellation=cancellation, on_stderr=on_stderr)


def test_the_verified_bytes_are_the_ones_that_run(workspace: Workspace) -> None:
    other = workspace.project.signed_tool("mine/t", "print('signed, but another')").read_bytes()
    path = workspace.project.signed_tool("mine/t", "print('good')")

    def swap() -> None:
        path.write_bytes(other)

    rye = workspace.rye(runner=Attacker(swap))
    result = rye.executor.execute(ExecutionRequest(item_id="mine/t"))

    assert "changed between its verification and its start" in str(result.error)
    assert "another" not in json.dumps(result.data)


def test_a_cached_chain_is_no_way_around_the_check(workspace: Workspace, tool: Path) -> None:
    racing_runtime(workspace, "true")
    rye = workspace.warm
    assert rye.executor.execute(ExecutionRequest(item_id="pack/t")).success

    tool.write_text("print('evil')\n", encoding="utf-8")
    result = rye.executor.execute(ExecutionRequest(item_id="pack/t"))

    assert result.metadata["error_code"] == "UNSIGNED"
