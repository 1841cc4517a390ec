"""The trace of a run: shapes and order of its events."""

import pytest

from tests.support.workspace import Workspace

SCRIPT = "rye/core/runtimes/python/script"
VARIABLES = ["PROJECT_VENV_PYTHON", "PYTHONUNBUFFERED", "PYTHONUTF8", "RYE_PYTHON"]
EXECUTE = "rye/core/primitives/execute"


def test_the_events_of_a_run_have_their_shapes_and_order(workspace: Workspace) -> None:
    user = workspace.user.signed_tool("mine/hello")
    path = workspace.project.signed_tool(
        "mine/hello", "print(1)", extra='ENV_CONFIG = {"env": {"A": "1"}}\n'
    )
    workspace.run("mine/hello")

    result = workspace.run("mine/hello", trace=True)

    bundle = workspace.bundles[0]
    result.trace[6]["keys"].sort()
    assert [event["step"] for event in result.trace] == [
        *["resolve"] * 3,
        *["verify_integrity"] * 3,
        *["resolve_env"] * 2,
        "lockfile",
    ]
    assert result.trace[0] == {
        "step": "resolve",
        "item_id": "mine/hello",
        "path": str(path),
        "space": "project",
        "shadowed": [{"path": str(user), "space": "user"}],
    }
    assert result.trace[1] == {
        "step": "resolve",
        "item_id": SCRIPT,
        "path": str(bundle.ai / f"tools/{SCRIPT}.yaml"),
        "space": "system:ryeos",
        "shadowed": [],
    }
    assert result.trace[3] == {
        "step": "verify_integrity",
        "item_id": "mine/hello",
        "verified": True,
        "key_fp": workspace.fingerprint,
    }
    assert result.trace[6:8] == [
        {"step": "resolve_env", "contributed_by": SCRIPT, "keys": VARIABLES},
        {"step": "resolve_env", "contributed_by": "mine/hello", "keys": ["A"]},
    ]


def test_what_an_id_means_otherwise_is_shown_as_hidden(workspace: Workspace) -> None:
    """``rye/bash`` is ``rye/bash/bash`` of the bundle, and ``bash_runtime`` an alias there."""
    bundle = workspace.bundles[0].ai / "tools"
    workspace.project.signed_tool("rye/bash", "print(1)", executor="bash_runtime")
    workspace.project.sign(workspace.project.runtime("bash_runtime"))

    result = workspace.run("rye/bash", trace=True)

    assert [event["shadowed"] for event in result.trace[:2]] == [
        [{"path": str(bundle / "rye/bash/bash.yaml"), "space": "system:ryeos"}],
        [
            {"path": str(bundle / "rye/core/runtimes/bash/bash.yaml"), "space": "system:ryeos"},
        ],
    ]


@pytest.mark.parametrize("is_tool", [True, False])
def test_a_refused_item_has_been_resolved(workspace: Workspace, *, is_tool: bool) -> None:
    """The event comes before verification, which fails; also of a runtime."""
    hidden = workspace.user.signed_tool("mine/hello")
    path = workspace.project.signed_tool("mine/hello", executor="mine/r")
    runtime = workspace.project.runtime("mine/r")
    if is_tool:
        path = workspace.project.tool("mine/hello", "print(2)")

    result = workspace.run("mine/hello", trace=True)

    of_tool = {
        "step": "resolve",
        "item_id": "mine/hello",
        "path": str(path),
        "space": "project",
        "shadowed": [{"path": str(hidden), "space": "user"}],
    }
    of_runtime = {
        **of_tool,
        "item_id": "mine/r",
        "path": str(runtime),
        "shadowed": [],
    }
    refused = {"step": "verify_integrity", "verified": False, "key_fp": None}
    assert result.failure
    assert result.failure.code == "UNSIGNED"
    if is_tool:
        assert result.trace == [of_tool, {**refused, "item_id": "mine/hello"}]
    else:
        assert [result.trace[0], result.trace[1], result.trace[3]] == [
            of_tool,
            of_runtime,
            {**refused, "item_id": "mine/r"},
        ]


def test_a_trace_is_optional_and_changes_no_result(
    workspace: Workspace,
) -> None:
    workspace.project.signed_tool("mine/hello", "print(1)")

    plain = workspace.run("mine/hello", use_lockfile=False)
    traced = workspace.run("mine/hello", use_lockfile=False, trace=True)

    assert plain.trace == []
    assert traced.trace
    assert (plain.data, plain.chain, plain.metadata) == (traced.data, traced.chain, traced.metadata)


def test_a_primitive_without_a_file_is_not_verified(workspace: Workspace) -> None:
    workspace.bundles = ()
    workspace.project.signed_yaml("mine/echo", "config: {command: /bin/echo}", executor=EXECUTE)

    result = workspace.run("mine/echo", trace=True)

    assert [event["step"] for event in result.trace] == ["resolve", "resolve", "verify_integrity"]
    assert result.trace[1]["path"] is None
    assert result.trace[1]["space"] == "system:builtin"


def test_in_dev_mode_trace_and_result_list_unverified_items(
    workspace: Workspace,
) -> None:
    workspace.project.tool("mine/hello", "print(1)")
    workspace.env["RYE_DEV_MODE"] = "1"

    result = workspace.run("mine/hello", trace=True)

    assert result.data == 1
    assert result.metadata["unverified"] == ["mine/hello"]
    assert [event["verified"] for event in result.trace if "verified" in event] == [
        False,
        True,
        True,
    ]
    assert result.trace[3]["key_fp"] is None
    assert len(workspace.warnings) == 1


@pytest.mark.parametrize(
    ("break_it", "steps"),
    [
        ("chain", ["resolve", "verify_integrity"]),
        ("validation", ["resolve"] * 3 + ["verify_integrity"] * 3),
        ("lockfile", ["resolve"] * 3 + ["verify_integrity"] * 3),
        ("parameters", ["resolve"] * 3 + ["verify_integrity"] * 3),
        ("cwd", ["resolve"] * 3 + ["verify_integrity"] * 3 + ["resolve_env"]),
    ],
)
def test_a_failure_keeps_the_events_before_it(
    workspace: Workspace, break_it: str, steps: list[str]
) -> None:
    params: dict[str, object] = {}
    if break_it == "chain":
        workspace.project.signed_tool("mine/hello", executor="mine/nothing")
    else:
        workspace.project.signed_tool(
            "mine/hello",
            "print(1)",
            extra='CONFIG_SCHEMA = {"properties": {"n": {"type": "integer"}}}\n',
        )
    if break_it == "validation":
        runtime = workspace.project.runtime("mine/r", extra="child_constraints: {min_version: '9'}")
        workspace.project.sign(runtime)
        workspace.project.signed_tool("mine/hello", executor="mine/r")
    if break_it == "lockfile":
        workspace.run("mine/hello")
        workspace.project.signed_tool("mine/hello", "print(2)")
    if break_it == "parameters":
        params["n"] = "one"
    cwd = "nowhere" if break_it == "cwd" else None

    result = workspace.run("mine/hello", params=params, trace=True, cwd=cwd)

    assert result.failure is not None
    assert [event["step"] for event in result.trace] == steps
    assert len(result.chain) == steps.count("resolve")
