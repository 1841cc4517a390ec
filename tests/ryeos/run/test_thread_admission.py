"""Which items run in the background, and whether Rye or their runtime starts them."""

import pytest

from ryeos.items.errors import Answer, SpecError, UnsupportedError
from tests.support.background_runs import start
from tests.support.workspace import Workspace

RUNTIME = "version: '1.0.0'\ncategory: mine\ndescription: test\ntool_type: runtime\n"
CHILD = "import json, sys\nprint(json.dumps({'got': json.load(sys.stdin)}))\n"


def callee(workspace: Workspace, lines: str) -> Answer:
    """Start a tool whose runtime has these lines in its header."""
    path = workspace.project.runtime("mine/own", extra=f'  input_data: "{{params_json}}"\n{lines}')
    workspace.project.sign(path)
    workspace.project.signed_tool("mine/tool", CHILD, executor="mine/own")
    return start(workspace, "tool:mine/tool", n=1)


@pytest.mark.parametrize("ref", ["directive:mine/d", "knowledge:mine/k"])
def test_an_item_that_does_not_run_is_refused(ref: str, workspace: Workspace) -> None:
    with pytest.raises(UnsupportedError) as error:
        start(workspace, ref)

    assert "there is nothing to leave running" in str(error.value)


def test_a_runtime_that_runs_in_the_background_gets_the_request(workspace: Workspace) -> None:
    answer = callee(workspace, "execution_owner: callee\nnative_async: true\n")

    assert answer.envelope["data"] == {"got": {"n": 1, "async": True}}
    assert workspace.rye().threads.threads() == []


def test_a_runtime_without_background_runs_is_reported(workspace: Workspace) -> None:
    with pytest.raises(UnsupportedError) as error:
        callee(workspace, "execution_owner: callee\n")

    assert str(error.value) == (
        "mine/tool does not support async: what runs it keeps to itself how"
    )


def test_an_unknown_execution_owner_is_refused(workspace: Workspace) -> None:
    with pytest.raises(SpecError) as error:
        callee(workspace, "execution_owner: somebody\n")

    assert str(error.value) == "execution_owner: expected one of engine, callee, got 'somebody'"


def test_an_invalid_run_is_refused_before_a_process_starts(workspace: Workspace) -> None:
    workspace.project.tool("mine/unsigned", "print(1)")

    refused = start(workspace, "tool:mine/unsigned")

    assert (refused.exit_status, refused.envelope["code"]) == (4, "UNSIGNED")
    assert not workspace.rye().threads.place.folder.exists()
