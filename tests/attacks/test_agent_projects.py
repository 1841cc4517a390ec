"""An agent that names another project than that of its server."""

import sys
from pathlib import Path
from typing import Any

import pytest

from lillux.cancellation import Cancellation
from lillux.values import replace
from ryeos.app.agent_projects import require_project, without_home
from ryeos.app.execute import execute
from ryeos.app.policy import policy_from
from ryeos.app.progress import CallContext
from ryeos.app.verbs import READERS, answer
from ryeos.app.workspace import Rye
from ryeos.items.context import Context
from ryeos.items.errors import RyeError
from ryeos.mcp.features import RyeFeatures
from tests.support.errors import coded
from tests.support.workspace import Workspace

TOOL = """\
version: "1.0.0"
tool_type: bash
executor_id: rye/core/runtimes/bash/bash
category: mine
description: says hello
config: {command: "echo hello"}
"""


@pytest.fixture
def other(workspace: Workspace) -> Path:
    folder = workspace.folder / "projects" / "other"
    (folder / ".ai").mkdir(parents=True)
    return folder


def server(workspace: Workspace, *lines: str) -> Rye:
    """The Rye of an agent's server, with a policy of its user."""
    if lines:
        text = "\n".join(('version: "1.0.0"', "category: agents", *lines, ""))
        path = workspace.user.write("config/agents/policy.yaml", text)
        workspace.user.sign(path)
    features = RyeFeatures(lambda: workspace.rye(confines=True), no_program, lambda: None)
    return features.rye


def no_program(context: Context) -> Any:  # noqa: ANN401 - none is started
    raise AssertionError(context)


CALLS: dict[str, dict[str, Any]] = {
    "search": {"query": "x"},
    "load": {"item_id": "rye/bash/bash", "destination": "project"},
    "fetch": {"query": "x"},
    "sign": {"item_id": "tool:mine/x", "content": TOOL},
    "execute": {"item_id": "rye/bash/bash", "parameters": {"command": "touch here"}},
}


def called(rye: Rye, name: str, project: Path | str) -> dict[str, Any]:
    arguments = {**CALLS[name], "project_path": str(project)}
    if name in READERS:
        return dict(answer(rye, name, arguments).envelope)
    calling = CallContext(cancellation=Cancellation(), progress=lambda *_: None)
    try:
        return dict(execute(rye, arguments, calling, no_program).envelope)
    except RyeError as error:
        return {"status": "error", "code": error.code, "error": str(error), "hint": error.hint}


@pytest.mark.parametrize("name", CALLS)
def test_another_project_is_refused_with_the_line_that_allows_it(
    workspace: Workspace, other: Path, name: str
) -> None:
    refused = called(server(workspace), name, other)

    assert refused["code"] == "PERMISSION_DENIED"
    assert str(other) in refused["error"]
    assert str(workspace.project_path) in refused["error"]
    policy = workspace.home / ".ai/config/agents/policy.yaml"
    assert f'your user allows it by this line in {policy}: projects: ["{other}"]' in refused["hint"]
    assert list((other / ".ai").iterdir()) == []


@pytest.mark.parametrize("name", sorted(CALLS.keys() - {"sign"}))
def test_a_project_that_policy_lists_is_reached(
    workspace: Workspace, other: Path, name: str
) -> None:
    found = called(server(workspace, f"projects: [{other}]"), name, other)

    assert found["status"] == "success", found


def test_two_projects_of_one_policy_are_kept_apart(workspace: Workspace, other: Path) -> None:
    third = other.with_name("third")
    (third / ".ai").mkdir(parents=True)
    rye = server(workspace, f"projects: [{other.parent}/*]")

    for project in (other, third):
        assert called(rye, "execute", project)["status"] == "success"
        assert (project / "here").is_file()
    assert not (workspace.project_path / "here").exists()
    with pytest.raises(RyeError, check=coded("PERMISSION_DENIED")):
        rye.at(str(other)).at(str(workspace.folder))


def test_the_projects_of_a_project_are_not_asked(workspace: Workspace, other: Path) -> None:
    text = f'version: "1.0.0"\ncategory: agents\nprojects: [{other}]\n'
    workspace.project.write("config/agents/policy.yaml", text)

    assert called(server(workspace), "search", other)["code"] == "PERMISSION_DENIED"


@pytest.mark.parametrize("listed", [(), ("~/", "/", "/**", "~/**")])
def test_the_home_folder_and_what_contains_it_are_no_project(
    workspace: Workspace, listed: tuple[str, ...]
) -> None:
    rye = server(workspace, *([f"projects: {list(listed)}"] if listed else []))

    for folder in ("~", "~/.ai", workspace.home, workspace.folder, "/"):
        for name in CALLS:
            assert called(rye, name, folder)["code"] == "PERMISSION_DENIED", (folder, name)


@pytest.mark.skipif(sys.platform == "win32", reason="links need a privilege there")
def test_a_link_to_another_project_is_that_project(workspace: Workspace, other: Path) -> None:
    allowed = workspace.folder / "allowed"
    allowed.mkdir()
    (allowed / "link").symlink_to(other)
    (allowed / "home").symlink_to(workspace.home)
    rye = server(workspace, f"projects: [{allowed}/*]")

    for name in ("link", "home"):
        assert called(rye, "search", allowed / name)["code"] == "PERMISSION_DENIED"


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("{0}/other", ["other"]),
        ("{0}/o*", ["other"]),
        ("{0}/*", ["other", "third"]),
        ("{0}/**", ["other", "third", "third/inner"]),
        ("{0}", []),
        ("{0}/*/inner", ["third/inner"]),
    ],
)
def test_a_pattern_is_for_folders_segment_by_segment(
    workspace: Workspace, other: Path, pattern: str, names: list[str]
) -> None:
    (other.with_name("third") / "inner").mkdir(parents=True)
    context = workspace.context()

    for name in ("other", "third", "third/inner"):
        path = other.parent / name
        try:
            require_project(path, context, [pattern.format(other.parent)], Path("policy.yaml"))
        except RyeError:
            assert name not in names
        else:
            assert name in names


@pytest.mark.parametrize("said", ["shop", ["shop"], ["../x"], [1], "~/shop", {"a": 1}])
def test_a_policy_that_names_no_folders_is_refused(said: object) -> None:
    with pytest.raises(RyeError, check=coded("CONFIG_ERROR")) as error:
        policy_from({"projects": said})

    assert "projects: expected a list of folders" in str(error.value)


def test_a_server_that_is_started_for_the_home_folder_has_no_project(workspace: Workspace) -> None:
    context = workspace.context()
    assert without_home(context) is context
    assert context.spaces.project
    at_home = replace(
        context,
        spaces=replace(
            context.spaces, project=replace(context.spaces.project, base=workspace.home)
        ),
    )

    assert without_home(at_home).project_path is None
