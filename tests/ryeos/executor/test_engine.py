"""Whole executions, with real files and real processes."""

from tests.support.workspace import Workspace


def test_a_signed_python_tool_gets_its_parameters_on_standard_input(workspace: Workspace) -> None:
    workspace.project.signed_tool(
        "mine/echo",
        """
        import json, sys
        print(json.dumps({"got": json.load(sys.stdin)}))
        """,
    )

    result = workspace.run("mine/echo", params={"a": 1})

    assert (result.error, result.data) == (None, {"got": {"a": 1}})


def test_an_unsigned_tool_does_not_run(workspace: Workspace) -> None:
    path = workspace.project.tool("mine/echo", "print('ran')")

    result = workspace.run("mine/echo")

    assert result.error == f"unsigned item, expected a rye:signed line: {path}"
    assert result.metadata["error_code"] == "UNSIGNED"
