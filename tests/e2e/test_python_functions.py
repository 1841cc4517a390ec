"""Tools that are a Python function, on the built file and under the interpreters of the machine."""

import json
import os
from pathlib import Path

import pytest

from tests.support.built import Machine
from tests.support.other_pythons import require_python

pytestmark = pytest.mark.e2e

TOOL = '''\
"""Says what it got, and where it runs."""

import sys

__version__ = "1.0.0"
__tool_type__ = "python"
__executor_id__ = "python_function_runtime"
__category__ = "mine"
__tool_description__ = "Says what it got"


async def execute(params, project_path):
    print("printed")
    if params.get("fail"):
        raise ValueError(params["fail"])
    return {"params": params, "project": project_path, "python": sys.version_info[:2]}
'''


@pytest.fixture
def signed(machine: Machine) -> Machine:
    """A machine whose user has a key and one signed tool, mine/called."""
    path = machine.project / ".ai" / "tools" / "mine" / "called.py"
    path.parent.mkdir(parents=True)
    path.write_text(TOOL, encoding="utf-8")
    for command in (("keys", "generate"), ("sign", "tool:mine/called")):
        assert machine.run(*command).returncode == 0
    return machine


@pytest.mark.parametrize("version", ["3.11", "3.12", "3.13"])
def test_a_function_runs_under_the_interpreter_of_its_project(
    version: str, signed: Machine
) -> None:
    interpreter = signed.project / ".venv" / "bin" / "python"
    interpreter.parent.mkdir(parents=True)
    interpreter.symlink_to(require_python(version))
    assert signed.run("trust", "--yes").returncode == 0

    ended = signed.run("run", "mine/called", "a=ü", "n:=[1, null]")

    assert (ended.returncode, ended.stderr) == (0, "printed\n")
    assert json.loads(ended.stdout) == {
        "params": {"a": "ü", "n": [1, None]},
        "project": str(signed.project),
        "python": [int(part) for part in version.split(".")],
    }


def test_a_failing_function_is_reported_with_its_traceback(signed: Machine) -> None:
    ended = signed.run("run", "mine/called", "fail=badly", "--json")

    reply = json.loads(ended.stdout)
    assert (ended.returncode, reply["code"], reply["error"]) == (
        1,
        "EXECUTION_FAILED",
        "ValueError: badly",
    )
    assert "function_host" not in ended.stderr
    assert f'File "{signed.project}' in reply["metadata"]["stderr"]


def test_a_function_leaves_nothing_in_the_project(signed: Machine) -> None:
    before = files(signed.project)

    signed.run("run", "mine/called")

    assert files(signed.project) - before == {
        ".ai/lockfiles/tools/mine/called.lock.json",
    }


def test_the_host_of_functions_is_no_tool_to_run(machine: Machine) -> None:
    ended = machine.run("run", "rye/core/runtimes/python/function_host")

    assert ended.returncode == 5
    assert "EXECUTOR_NOT_FOUND" not in ended.stderr
    assert ended.stderr.startswith("error: ")


def files(folder: Path) -> set[str]:
    """All files below a folder."""
    return {
        os.path.relpath(os.path.join(parent, name), folder)  # noqa: PTH118
        for parent, _, names in os.walk(folder)
        for name in names
    }
