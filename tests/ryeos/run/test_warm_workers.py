"""Warm workers: when one serves the next call, and when a new one is started."""

import os
import shutil
from contextlib import closing
from pathlib import Path

import pytest

from ryeos.items.refs import parse_reference
from ryeos.run.functions import FunctionHost
from ryeos.run.model import ExecutionRequest
from tests.support.executables import make_program
from tests.support.workspace import Workspace

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="workers are forked")
BODY = """
import os, sys
def execute(params):
    return {"parent": os.getppid(), "by": sys._xoptions.get("by", "")}
"""


@pytest.fixture
def python(workspace: Workspace) -> Path:
    """The interpreter of the tool, which stands on the PATH."""
    path = workspace.folder / "bin/python3"
    write(path, "one")
    workspace.env["PATH"] = f"{path.parent}:{workspace.env['PATH']}"
    workspace.project.signed_tool("mine/x", BODY, executor="rye/core/runtimes/python/function")
    return path


def write(python: Path, name: str) -> None:
    """An interpreter that tells its name to the programs that it runs."""
    real = shutil.which("python3") or ""
    make_program(python, f'exec {real} -X by={name} "$@"\n')


def test_a_worker_serves_the_next_call_while_its_interpreter_is_the_same(
    workspace: Workspace, python: Path
) -> None:
    with closing(FunctionHost()) as functions:
        first, second = (called(workspace, functions) for _ in range(2))

    assert python.exists()
    assert first == second
    assert first["by"] == "one"


def test_a_worker_of_an_interpreter_that_was_replaced_serves_no_further_call(
    workspace: Workspace, python: Path
) -> None:
    with closing(FunctionHost()) as functions:
        first = called(workspace, functions)
        times = python.stat()
        write(python.with_name("new"), "two")
        os.utime(python.with_name("new"), ns=(times.st_atime_ns, times.st_mtime_ns))
        python.with_name("new").replace(python)
        second = called(workspace, functions)

    assert (first["by"], second["by"]) == ("one", "two")


def called(workspace: Workspace, functions: FunctionHost) -> dict[str, object]:
    rye = workspace.rye(functions=functions)
    answer = rye.execute(parse_reference("tool:mine/x"), ExecutionRequest(item_id="mine/x"))
    assert answer.envelope["status"] == "success", answer.envelope
    found: dict[str, object] = answer.envelope["data"]
    return found
