"""Other files of a clone than signed items: interpreters, .env, versions; forged approvals."""

import json
import os
import shlex
import shutil
import sys
from pathlib import Path

import pytest

from lillux.signing import generate_keypair
from ryeos.run.model import ExecutionRequest
from ryeos.trust.approvals import ProjectApproval, parts_of
from ryeos.trust.signing_key import SigningKey
from tests.support.executables import make_program
from tests.support.workspace import Workspace

posix = pytest.mark.skipif(sys.platform == "win32", reason="scripts with a first line")
pytestmark = posix


def evil_python(workspace: Workspace, folder: str = ".venv/bin") -> Path:
    program = make_program(workspace.project_path / folder / "python")
    canary = workspace.folder / "canary"
    program.write_text(
        f'#!/bin/sh\ntouch {shlex.quote(str(canary))}\nexec {shlex.quote(sys.executable)} "$@"\n',
        encoding="utf-8",
    )
    return canary


def warnings(workspace: Workspace, item_id: str = "mine/t") -> str:
    result = workspace.run(item_id)
    assert result.success, result.error
    return "\n".join(result.metadata.get("warnings", ()))


@pytest.fixture
def tool(workspace: Workspace) -> Workspace:
    workspace.project.signed_tool("mine/t", "import os\nprint(os.environ.get('OWN'))")
    return workspace


def test_an_interpreter_of_a_clone_is_passed_over_with_a_note(tool: Workspace) -> None:
    canary = evil_python(tool)

    warned = warnings(tool)

    assert not canary.exists()
    assert ".venv/bin/python: not used" in warned
    assert "rye trust" in warned


def test_an_approved_interpreter_is_used_by_items_of_the_project(tool: Workspace) -> None:
    canary = evil_python(tool)
    tool.approve()

    assert warnings(tool) == ""
    assert canary.exists()


@pytest.mark.parametrize("space", ["user", "bundle"])
def test_no_item_of_another_space_uses_it_approved_or_not(tool: Workspace, space: str) -> None:
    canary = evil_python(tool)
    tool.approve()
    if space == "user":
        tool.user.signed_tool("mine/u", "print(1)")

    result = tool.run("mine/u" if space == "user" else "rye/core/lock/lock", params={})

    assert result.error is None or "VALIDATION" in str(result.metadata.get("error_code"))
    assert not canary.exists()


@pytest.mark.parametrize(
    "change",
    ["bin/python", "pyvenv.cfg", "lib/python3.11/site-packages/evil.pth", "bin/python3"],
)
def test_an_environment_that_changed_asks_again(tool: Workspace, change: str) -> None:
    canary = evil_python(tool)
    venv = tool.project_path / ".venv"
    (venv / "pyvenv.cfg").write_text("home = /usr\n", encoding="utf-8")
    tool.approve()
    path = venv / change
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as file:
        file.write("# changed\n")

    assert "not used" in warnings(tool)
    assert not canary.exists()


def test_an_env_file_counts_as_it_was_approved_and_no_longer(tool: Workspace) -> None:
    env = tool.project_path / ".env"
    env.write_text("OWN=first\n", encoding="utf-8")
    unapproved = tool.run("mine/t").data["stdout"]
    tool.approve()
    approved = tool.run("mine/t").data["stdout"]
    env.write_text("OWN=second\n", encoding="utf-8")

    assert (unapproved, approved, tool.run("mine/t").data["stdout"]) == (
        "None\n",
        "first\n",
        "None\n",
    )


def test_the_approval_of_a_project_is_for_its_place(tool: Workspace) -> None:
    (tool.project_path / ".env").write_text("OWN=x\n", encoding="utf-8")
    tool.approve()
    shutil.copytree(tool.project_path, tool.folder / "other")

    other = tool.rye().at(str(tool.folder / "other"))
    result = other.executor.execute(ExecutionRequest(item_id="mine/t"))

    assert result.data["stdout"] == "None\n"


def test_a_link_to_a_project_is_that_project(tool: Workspace) -> None:
    (tool.project_path / ".env").write_text("OWN=x\n", encoding="utf-8")
    tool.approve()
    link = tool.folder / "link"
    link.symlink_to(tool.project_path)

    approval = ProjectApproval(tool.user.space, link, tool.rye().trust)

    assert approval.allows(".env")


def test_a_moved_project_asks_again(tool: Workspace) -> None:
    (tool.project_path / ".env").write_text("OWN=x\n", encoding="utf-8")
    tool.approve()
    trust, moved = tool.rye().trust, tool.folder / "moved"
    tool.project_path.rename(moved)

    assert not ProjectApproval(tool.user.space, moved, trust).allows(".env")


def test_an_approval_by_another_key_has_no_effect(tool: Workspace) -> None:
    (tool.project_path / ".env").write_text("OWN=x\n", encoding="utf-8")
    stranger = SigningKey(generate_keypair())
    tool.rye().approval.approve(tuple(parts_of(tool.project_path)), stranger, "2026-01-01")

    assert tool.run("mine/t").data["stdout"] == "None\n"


@pytest.mark.parametrize("field", ["project", "parts", "approved_at"])
def test_an_edited_approval_has_no_effect(tool: Workspace, field: str) -> None:
    (tool.project_path / ".env").write_text("OWN=x\n", encoding="utf-8")
    tool.approve()
    path = tool.rye().approval.path
    document = json.loads(path.read_bytes())
    document["approval"][field] = [] if field == "parts" else "/elsewhere"
    path.write_text(json.dumps(document), encoding="utf-8")

    assert tool.run("mine/t").data["stdout"] == "None\n"


def test_a_signature_for_another_purpose_is_no_approval(tool: Workspace) -> None:
    """The signed text of an item never begins as an approval does."""
    (tool.project_path / ".env").write_text("OWN=x\n", encoding="utf-8")
    tool.approve()
    path = tool.rye().approval.path
    document = json.loads(path.read_bytes())
    text = json.dumps(document["approval"], sort_keys=True, separators=(",", ":"))
    item = tool.project.write("tools/mine/a.yaml", text)
    tool.project.sign_unchecked(item)
    document["signature"] = item.read_text("utf-8").split("\n")[0].split(":")[-2]
    path.write_text(json.dumps(document), encoding="utf-8")

    assert tool.run("mine/t").data["stdout"] == "None\n"


@pytest.mark.parametrize(
    "name",
    [
        *("RYE_PYTHON", "RYE_BUNDLE_PATH", "RYE_BOOT", "LILLUX_PROC", "GIT_DIR", "GIT_SSH_COMMAND"),
        *("TAR_OPTIONS", "MAKEFILES", "MAKEFLAGS", "LESSOPEN", "PIP_INDEX_URL", "CARGO_HOME"),
        *(
            "npm_config_script_shell",
            "CC",
            "RUBYOPT",
            "PERL5OPT",
            "JAVA_TOOL_OPTIONS",
            "LD_PRELOAD",
        ),
    ],
)
def test_an_approved_env_file_names_no_program_and_no_plug_in(tool: Workspace, name: str) -> None:
    (tool.project_path / ".env").write_text(f"{name}=/evil\nOWN=fine\n", encoding="utf-8")
    tool.approve()

    env = tool.command("mine/t").env

    assert (env.get(name) != "/evil", env["OWN"]) == (True, "fine")


def test_programs_of_a_package_folder_are_not_on_the_path_of_a_tool(tool: Workspace) -> None:
    folder = tool.project.space.ai / "tools/js"
    make_program(folder / "node_modules/.bin/tsx")
    tool.project.write("tools/js/package.json", "{}")
    tool.project.signed(
        "tools/js/t.js",
        "/**\n * T.\n *\n * @version 1.0.0\n * @tool_type javascript\n"
        " * @executor_id rye/core/runtimes/node/node\n * @category js\n * @description t\n */\n"
        "exports.execute = () => process.env.PATH;\n",
    )
    tool.env["RYE_NODE"] = sys.executable

    before = tool.command("js/t").env["PATH"].split(os.pathsep)
    tool.approve()
    after = tool.command("js/t").env["PATH"].split(os.pathsep)

    bin_folder = str(folder / "node_modules/.bin")
    assert (bin_folder in before, bin_folder in after) == (False, True)
