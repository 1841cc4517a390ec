"""What `run` would trip over is not signed."""

import pytest

from ryeos.app.sign import checked
from ryeos.items.errors import ItemValidationError
from tests.support.workspace import Workspace

GRAPH = """\
version: "1.0.0"
tool_type: graph
executor_id: rye/core/runtimes/state-graph/runtime
category: mine
description: a graph
config:
  start: a
  nodes:
    a: {action: {item_id: tool:rye/bash/bash}, next: nowhere}
"""


def issues(workspace: Workspace, relative: str, text: str) -> list[str]:
    path = workspace.project.write(relative, text)
    error = checked(workspace.rye(), workspace.project.target(path)).error
    assert error is None or isinstance(error, ItemValidationError), error
    return [] if error is None else list(error.details)


def tool(executor: str = "rye/core/runtimes/bash/bash", more: str = "") -> str:
    return (
        f'version: "1.0.0"\ntool_type: bash\nexecutor_id: {executor}\ncategory: mine\n'
        f"description: a tool\nconfig: {{command: echo}}\n{more}"
    )


def test_a_tool_that_runs_can_be_signed(workspace: Workspace) -> None:
    assert issues(workspace, "tools/mine/a.yaml", tool()) == []


@pytest.mark.parametrize(
    ("key", "meant"), [("config_shema", "config_schema"), ("env_confg", "env_config")]
)
def test_a_key_that_is_nearly_another_is_refused(
    workspace: Workspace, key: str, meant: str
) -> None:
    found = issues(workspace, "tools/mine/a.yaml", tool(more=f"{key}: {{}}\n"))

    assert found == [f"unknown key {key!r}: did you mean {meant}?"]


def test_a_constant_in_code_is_nearly_a_key_too(workspace: Workspace) -> None:
    path = workspace.project.tool("mine/a", extra="CONFIG_SCEHMA = {}\n")
    error = checked(workspace.rye(), workspace.project.target(path)).error

    assert "did you mean CONFIG_SCHEMA?" in str(error)


def test_keys_of_other_programs_and_free_ones_are_let_be(workspace: Workspace) -> None:
    text = tool(more="tags: [a]\nx-mine: 1\nsomething_else: 2\n")

    assert issues(workspace, "tools/mine/a.yaml", text) == []


def test_an_executor_that_does_not_exist_is_refused(workspace: Workspace) -> None:
    (found,) = issues(workspace, "tools/mine/a.yaml", tool("rye/core/runtimes/bash/bsh"))

    assert found.startswith("executor_id: no such item, 'rye/core/runtimes/bash/bsh'")
    assert "did you mean rye/core/runtimes/bash/bash?" in found


def test_a_user_tool_cannot_be_signed_for_a_runtime_of_a_project(workspace: Workspace) -> None:
    workspace.project.sign(workspace.project.runtime("mine/py"))
    path = workspace.user.tool("mine/a", executor="mine/py")

    error = checked(workspace.rye(), workspace.user.target(path)).error

    assert "executor_id: no such item, 'mine/py'" in str(error)


def test_a_graph_with_problems_is_not_signed(workspace: Workspace) -> None:
    assert any("nowhere" in one for one in issues(workspace, "tools/mine/g.yaml", GRAPH))
