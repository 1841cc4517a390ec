"""Prepared calls: cached for calls that follow each other, and never trusted."""

from pathlib import Path
from typing import Any

import pytest

from lillux.values import replace
from ryeos.run.engine import KEPT_S, MAX_KEPT, PreparedCall, PreparedCalls
from ryeos.run.model import ExecutionRequest
from tests.support.workspace import Workspace

TOOL = "def execute(params, project_path):\n    return {answer}\n"
FUNCTION = "rye/core/runtimes/python/function"
ONE = ExecutionRequest(item_id="mine/it", is_one_of_many=True, use_lockfile=False)


def write(workspace: Workspace, answer: str, item_id: str = "mine/it") -> Path:
    text = TOOL.format(answer=answer)
    path = workspace.project.tool(item_id, text, executor=FUNCTION)
    workspace.project.sign(path)
    return path


def prepared_call(workspace: Workspace) -> PreparedCall:
    """The prepared call of a real tool."""
    write(workspace, "1")
    executor = workspace.rye().executor
    executor.execute(ONE)
    found = executor._prepared.find(ONE)
    assert found
    return found


def data(workspace: Workspace, executor: Any, request: ExecutionRequest = ONE) -> Any:  # noqa: ANN401
    result = executor.execute(request)
    assert result.success, result.error
    return result.data


def test_a_second_call_reuses_the_prepared_call(workspace: Workspace) -> None:
    write(workspace, "{'n': params['n']}")
    executor = workspace.rye().executor

    first = executor.execute(replace(ONE, parameters={"n": 1}, trace=True))
    known = executor._prepared.find(ONE)
    second = executor.execute(replace(ONE, parameters={"n": 2}, trace=True))

    assert (first.data, second.data) == ({"n": 1}, {"n": 2})
    assert executor._prepared.find(ONE) is known
    assert (second.chain, second.trace) == (first.chain, first.trace)
    assert second.metadata == first.metadata


def test_a_changed_and_signed_tool_runs_in_its_new_form(workspace: Workspace) -> None:
    write(workspace, "1")
    executor = workspace.rye().executor
    assert data(workspace, executor) == 1

    write(workspace, "2")

    assert data(workspace, executor) == 2


def test_a_changed_unsigned_tool_does_not_run(workspace: Workspace) -> None:
    path = write(workspace, "1")
    executor = workspace.rye().executor
    assert data(workspace, executor) == 1
    path.write_text(path.read_text("utf-8").replace("return 1", "return 6"), "utf-8")

    result = executor.execute(ONE)

    assert (result.success, result.metadata["error_code"]) == (False, "INTEGRITY")


def test_a_changed_file_beside_a_tool_is_noticed(workspace: Workspace) -> None:
    item_id = "mine/package/it"
    request = replace(ONE, item_id=item_id)
    text = "import other\n" + TOOL.format(answer="other.N")
    path = workspace.project.tool(item_id, text, executor=FUNCTION)
    workspace.project.sign(path)
    folder = path.parent
    for name, content in (("__init__.py", ""), ("other.py", "N = 1\n")):
        (folder / name).write_text(content, "utf-8")
        workspace.project.sign(folder / name)
    executor = workspace.rye().executor
    assert data(workspace, executor, request) == 1

    (folder / "other.py").write_text("N = 2\n", "utf-8")

    assert not executor.execute(request).success


def test_parameters_are_checked_each_time(workspace: Workspace) -> None:
    schema = '{"type": "object", "properties": {"n": {"type": "integer"}}}'
    text = f"CONFIG_SCHEMA = {schema}\n" + TOOL.format(answer="1")
    workspace.project.sign(workspace.project.tool("mine/it", text, executor=FUNCTION))
    executor = workspace.rye().executor
    assert data(workspace, executor, replace(ONE, parameters={"n": 1})) == 1

    refused = executor.execute(replace(ONE, parameters={"n": "x"}))

    assert refused.metadata["error_code"] == "VALIDATION_FAILED"


def test_the_first_success_pins_the_chain_once(workspace: Workspace) -> None:
    write(workspace, "1")
    executor = workspace.rye().executor

    locking = replace(ONE, use_lockfile=True)
    made = [executor.execute(locking).metadata for _ in range(3)]

    assert ["lockfile_created" in one for one in made] == [True, False, False]
    assert ["lockfile_used" in one for one in made] == [False, True, True]


def test_a_single_call_is_not_cached(workspace: Workspace) -> None:
    write(workspace, "1")
    executor = workspace.rye().executor

    executor.execute(ExecutionRequest(item_id="mine/it"))

    assert executor._prepared.find(ONE) is None


def test_prepared_calls_are_kept_for_a_limited_time(workspace: Workspace) -> None:
    known, clock = prepared_call(workspace), [0.0]
    prepared = PreparedCalls(lambda: clock[0])
    prepared.keep(ONE, known)

    clock[0] = KEPT_S * 0.99
    assert prepared.find(ONE) is known
    clock[0] = KEPT_S
    assert prepared.find(ONE) is None


@pytest.mark.parametrize(
    "other", [replace(ONE, use_lockfile=True), replace(ONE, validate_chain=False)]
)
def test_prepared_calls_are_reused_for_equal_requests_only(
    other: ExecutionRequest, workspace: Workspace
) -> None:
    prepared = PreparedCalls()
    prepared.keep(ONE, prepared_call(workspace))

    assert prepared.find(other) is None


def test_the_number_of_prepared_calls_is_limited(workspace: Workspace) -> None:
    known, prepared = prepared_call(workspace), PreparedCalls()

    for number in range(3 * MAX_KEPT):
        prepared.keep(replace(ONE, item_id=f"mine/{number}"), known)

    assert len(prepared._kept) <= MAX_KEPT
