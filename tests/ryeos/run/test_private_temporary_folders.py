"""``{tmp}``: each confined run has a folder of its own, which is gone after it."""

import os
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Thread
from typing import Any

import pytest

from lillux.landlock import landlock_version
from lillux.seccomp import can_filter
from ryeos.app.workspace import Rye
from ryeos.run.functions import FunctionHost
from ryeos.run.model import ExecutionRequest, ExecutionResult
from tests.support.workspace import Workspace

pytestmark = pytest.mark.skipif(
    not (landlock_version() and can_filter()), reason="rights are held by Landlock and seccomp"
)

FUNCTION = "rye/core/runtimes/python/function"
BODY = """
import os, stat, tempfile, time

def execute(params, project_path):
    scope = {"project": project_path, **globals()}
    exec(params["code"], scope)
    return {"found": scope.get("found")}
"""
LOOK = """
names = {os.environ.get(name) for name in ("TMPDIR", "TMP", "TEMP")}
folder = tempfile.gettempdir()
found = {"folder": folder, "names": len(names), "same": folder in names,
         "mode": stat.S_IMODE(os.stat(folder).st_mode), "inside": os.listdir(folder)}
"""
LEAVE = LOOK + "open(folder + '/left', 'w').close(); open(folder + '/../left', 'w').close()"
TMP = {"read": "any", "write": ["{tmp}"]}


@pytest.fixture
def base(workspace: Workspace) -> Iterator[Path]:
    """The folder for temporary files of the user."""
    with TemporaryDirectory(prefix="t", dir="/tmp") as made:
        workspace.env |= {"TMPDIR": made}
        yield Path(made)


@pytest.fixture
def warm(workspace: Workspace) -> Iterator[Rye]:
    host = FunctionHost()
    yield workspace.rye(functions=host)
    host.close()


def make(workspace: Workspace, block: object) -> None:
    extra = "" if block is None else f"SANDBOX = {block!r}\n"
    tool = workspace.project.tool("mine/out", BODY, executor=FUNCTION, extra=extra)
    workspace.project.sign(tool)


def left_in(base: Path) -> list[str]:
    """What is left of the runs."""
    return sorted(one.name for around in base.iterdir() for one in around.iterdir())


def call(rye: Rye, code: str, timeout_s: float | None = None) -> ExecutionResult:
    return rye.executor.execute(
        ExecutionRequest(item_id="mine/out", parameters={"code": code}, timeout_s=timeout_s)
    )


def found(result: ExecutionResult) -> dict[str, Any]:
    assert result.success, result.error
    value: dict[str, Any] = result.data["found"]
    return value


def test_a_run_finds_a_folder_of_its_own_that_is_gone_afterwards(
    workspace: Workspace, base: Path
) -> None:
    make(workspace, TMP)

    one, other = (found(workspace.run("mine/out", params={"code": LOOK})) for _ in range(2))

    assert one["folder"] != other["folder"]
    assert Path(one["folder"]).is_relative_to(base)
    assert (one["names"], one["same"], one["mode"], one["inside"]) == (1, True, 0o700, [])
    assert left_in(base) == []


def test_a_run_cannot_write_beside_its_folder_nor_into_the_shared_one(
    workspace: Workspace, base: Path
) -> None:
    make(workspace, TMP)

    for place in ("folder + '/../x'", repr(str(base / "x"))):
        result = workspace.run("mine/out", params={"code": f"{LOOK}\nopen({place}, 'w')"})
        assert "Permission denied" in str(result.error)
    assert left_in(base) == []


def test_a_tool_that_wants_the_shared_folder_names_it(workspace: Workspace, base: Path) -> None:
    make(workspace, {"read": "any", "write": [str(base)]})

    assert workspace.run("mine/out", params={"code": LOOK}).data["found"]["folder"] == str(base)


def test_a_folder_below_it_is_made(workspace: Workspace, base: Path) -> None:
    make(workspace, {"read": "any", "write": ["{tmp}/in/side"]})
    code = "found = os.environ['TMPDIR'] + '/in/side'; open(found + '/x', 'w').close()"

    assert workspace.run("mine/out", params={"code": code}).success
    assert left_in(base) == []


def test_the_folder_is_gone_after_a_run_that_was_ended(workspace: Workspace, base: Path) -> None:
    make(workspace, TMP)
    code = f"{LOOK}\nopen(folder + '/x', 'w').close()\ntime.sleep(600)"

    result = call(workspace.rye(), code, timeout_s=1.0)

    assert result.metadata["error_code"] == "TIMEOUT"
    assert left_in(base) == []


def test_a_run_without_rights_of_its_own_has_the_folder_of_its_user(
    workspace: Workspace, base: Path
) -> None:
    make(workspace, None)

    assert found(workspace.run("mine/out", params={"code": LOOK}))["folder"] == str(base)
    assert list(base.iterdir()) == []


def test_each_call_in_a_warm_worker_has_a_folder_of_its_own(
    workspace: Workspace, warm: Rye, base: Path
) -> None:
    make(workspace, TMP)

    first = found(call(warm, LEAVE))
    second = found(call(warm, LOOK + "found['beside'] = os.listdir(folder + '/..')"))

    assert first["folder"] != second["folder"]
    assert (second["inside"], second["mode"]) == ([], 0o700)
    assert second["beside"] == [name for name in second["beside"] if name != "left"]
    assert not Path(second["folder"]).exists()


def test_two_calls_at_once_in_a_warm_worker_have_two_folders(
    workspace: Workspace, warm: Rye, base: Path
) -> None:
    make(workspace, {"read": "any", "write": ["{tmp}", "{project}"]})
    wait = "\nopen({own!r}, 'w').close()\nwhile not os.path.exists({other!r}): time.sleep(0.01)"
    marks = [str(workspace.project_path / name) for name in ("one", "two")]
    results: list[ExecutionResult] = []
    threads = [
        Thread(target=lambda code: results.append(call(warm, code, 60.0)), args=(LOOK + text,))
        for text in (
            wait.format(own=marks[0], other=marks[1]),
            wait.format(own=marks[1], other=marks[0]),
        )
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len({found(one)["folder"] for one in results}) == 2


def test_nothing_is_left_by_a_worker_that_was_closed(workspace: Workspace, base: Path) -> None:
    make(workspace, TMP)
    host = FunctionHost()
    found(call(workspace.rye(functions=host), LEAVE))

    host.close()

    assert left_in(base) == []


def test_the_rights_of_a_run_name_the_folder_as_a_header_does(
    workspace: Workspace, base: Path
) -> None:
    make(workspace, {"write": ["{tmp}/x"], "read": ["{tmp}"]})

    described = workspace.rye().executor.rights("mine/out").describe()

    assert (described["write"], described["read"]) == (["{tmp}/x"], ["{tmp}"])
    assert os.listdir(base) == []  # noqa: PTH208 - nothing is made for looking
