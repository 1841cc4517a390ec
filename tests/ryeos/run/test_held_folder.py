"""The private folder of a run: what an interpreter finds there, and when it goes."""

import fcntl
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.workspace import Workspace

pytestmark = pytest.mark.skipif(
    sys.platform == "win32", reason="folders are locked as POSIX has it"
)
LONG_AGO = 1_000_000_000


@pytest.fixture
def place(workspace: Workspace) -> Iterator[Path]:
    """Where such folders are, in a workspace with a runtime that opens the tool by its path."""
    workspace.project.signed(
        "tools/mine/r.yaml",
        f"""version: "1.0.0"
tool_type: runtime
executor_id: rye/core/primitives/execute
category: mine
description: opens files
anchor: {{enabled: true, markers_any: [__init__.py]}}
verify_deps: {{enabled: true, extensions: [".py", ".json"]}}
config: {{command: {sys.executable!r}, args: ["{{tool_path}}"]}}
""",
    )
    folder = workspace.home / ".ai/state/held"
    folder.mkdir(parents=True)
    yield folder
    assert not [one for one in folder.iterdir() if one.name != "used"]


def output(workspace: Workspace, body: str, item_id: str = "pack/tool") -> str:
    """What a tool of that runtime prints."""
    workspace.project.signed_tool(item_id, f"import os, sys\n{body}", executor="mine/r")
    result = workspace.run(item_id)
    assert result.error is None
    return str(result.data["stdout"]).strip()


def test_a_tool_and_its_modules_are_at_their_relative_places(
    workspace: Workspace, place: Path
) -> None:
    workspace.project.signed("tools/pack/__init__.py", "")
    workspace.project.signed("tools/pack/sub/helper.py", "X = __file__\n")

    found = output(workspace, "from sub import helper; print(os.path.relpath(helper.X, __file__))")

    assert found == "../sub/helper.py"
    assert place.is_dir()


def test_data_beside_a_tool_is_found(workspace: Workspace, place: Path) -> None:
    workspace.project.write("tools/pack/data/words.txt", "hello")

    found = output(workspace, "print(open(os.path.dirname(__file__) + '/data/words.txt').read())")

    assert found == "hello"
    assert place.is_dir()


def test_code_that_was_not_verified_is_not_there(workspace: Workspace, place: Path) -> None:
    workspace.project.write("tools/pack/json.py", "raise SystemExit('not verified')\n")
    workspace.project.write("tools/pack/__pycache__/json.pyc", "")

    found = output(workspace, "import json; print(sorted(os.listdir(os.path.dirname(__file__))))")

    assert found == "['tool.py']"
    assert place.is_dir()


def test_a_folder_that_a_crash_left_goes_with_a_later_run(
    workspace: Workspace, place: Path
) -> None:
    left = place / "left"
    left.mkdir()
    (left / "tool.py").write_text("", encoding="utf-8")
    os.utime(left, (LONG_AGO, LONG_AGO))

    output(workspace, "print('done')")

    assert not left.exists()


def test_a_folder_of_a_run_that_goes_on_stays(workspace: Workspace, place: Path) -> None:
    used = place / "used"
    used.mkdir()
    os.utime(used, (LONG_AGO, LONG_AGO))
    descriptor = os.open(used, os.O_RDONLY)
    fcntl.flock(descriptor, fcntl.LOCK_SH)

    output(workspace, "print('done')")
    os.close(descriptor)

    assert used.is_dir()


def test_the_folder_goes_when_the_tool_fails(workspace: Workspace, place: Path) -> None:
    workspace.project.signed_tool("pack/tool", "raise SystemExit(3)", executor="mine/r")

    assert not workspace.run("pack/tool").success
    assert list(place.iterdir()) == []
