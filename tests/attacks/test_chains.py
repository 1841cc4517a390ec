"""Chains that an attacker has changed, or that reach where they must not."""

import shutil
from pathlib import Path

import pytest

from lillux.signing import generate_keypair
from ryeos.items.refs import Space
from ryeos.run.model import ExecutionResult
from tests.support.workspace import BUNDLE_SOURCE, Workspace, publish

SCRIPT = "rye/core/runtimes/python/script"
EXECUTE = "rye/core/primitives/execute"
EVIL_RUNTIME = f"""version: "1.0.0"
tool_type: runtime
executor_id: {EXECUTE}
category: rye/core/runtimes/python
description: evil
config: {{command: /bin/echo, args: [evil]}}
"""


def second_bundle(workspace: Workspace, executor: str) -> None:
    """A bundle ``more`` with a tool ``more/tool`` on that executor."""
    source = workspace.folder / "source"
    (source / "tools/more").mkdir(parents=True)
    (source / "tools/more/tool.yaml").write_text(
        f'version: "1.0.0"\ntool_type: bash\nexecutor_id: {executor}\ncategory: more\n'
        "description: x\nconfig: {script: 'echo good'}\n",
        encoding="utf-8",
    )
    workspace.bundles = (*workspace.bundles, publish(workspace.folder / "more", source, "more"))


def run(workspace: Workspace, item_id: str) -> ExecutionResult:
    result = workspace.run(item_id)
    assert "evil" not in str(result.data)
    return result


# --- spaces that an element may use


def test_a_system_item_does_not_hand_over_to_a_file_of_the_project(workspace: Workspace) -> None:
    second_bundle(workspace, "mine/runtime")
    workspace.project.sign(workspace.project.runtime("mine/runtime"))

    result = run(workspace, "more/tool")

    assert result.error == "Executor not found: mine/runtime (needed by more/tool)"
    assert result.failure is not None
    assert result.failure.hint == "project space has it, but only items of that space may use it"


@pytest.mark.parametrize("space", ["project", "user"])
def test_a_system_item_keeps_its_runtime_when_it_is_shadowed(
    workspace: Workspace, space: str
) -> None:
    second_bundle(workspace, "rye/core/runtimes/bash/bash")
    getattr(workspace, space).signed("tools/rye/core/runtimes/bash/bash.yaml", _evil("bash"))

    result = run(workspace, "more/tool")

    assert result.data["stdout"] == "good\n"
    assert [element["space"] for element in result.chain] == [
        *("system:more", "system:ryeos", "system:ryeos")
    ]


def test_a_user_item_keeps_its_runtime_when_the_project_shadows_it(workspace: Workspace) -> None:
    workspace.user.signed_tool("mine/t", "print('good')")
    workspace.project.signed(f"tools/{SCRIPT}.yaml", EVIL_RUNTIME)

    assert run(workspace, "mine/t").data["stdout"] == "good\n"


def test_a_user_item_with_a_runtime_of_the_project_does_not_run(workspace: Workspace) -> None:
    workspace.user.signed_tool("mine/t", executor="mine/runtime")
    workspace.project.sign(workspace.project.runtime("mine/runtime"))

    assert run(workspace, "mine/t").error == "Executor not found: mine/runtime (needed by mine/t)"


def test_a_project_that_replaces_a_core_item_is_reported(workspace: Workspace) -> None:
    workspace.project.signed_tool("mine/t", "print(1)")
    workspace.project.sign(workspace.project.runtime(SCRIPT))

    result = run(workspace, "mine/t")

    assert result.metadata["warnings"] == [
        f"tool:{SCRIPT}: the project space replaces a core item of system:ryeos"
    ]


def test_core_items_can_be_protected(workspace: Workspace) -> None:
    workspace.env["RYE_PROTECT_CORE"] = "1"
    workspace.project.signed_tool("mine/t", "print('good')")
    workspace.project.signed(f"tools/{SCRIPT}.yaml", EVIL_RUNTIME)

    assert run(workspace, "mine/t").data["stdout"] == "good\n"


# --- elements that differ from the signed ones


@pytest.mark.parametrize("element", ["tool", "runtime"])
@pytest.mark.parametrize("attack", ["unsigned", "tampered", "stranger", "moved"])
def test_every_element_must_be_signed_by_a_trusted_key(
    workspace: Workspace, element: str, attack: str
) -> None:
    runtime = workspace.project.runtime("mine/r")
    tool = workspace.project.tool("mine/t", "print('evil')", executor="mine/r")
    workspace.project.sign(runtime)
    workspace.project.sign(tool)
    path = tool if element == "tool" else runtime
    text = path.read_text("utf-8")
    body = text.partition("\n")[2]
    if attack == "unsigned":
        path.write_text(body, encoding="utf-8")
    elif attack == "tampered":
        path.write_text(f"{text}\n", encoding="utf-8")
    elif attack == "stranger":
        path.write_text(body, encoding="utf-8")
        workspace.project.sign_unchecked(path, generate_keypair())
    else:
        other = tool if element == "runtime" else runtime
        moved = other.read_text("utf-8").partition("\n")[0]
        path.write_text(f"{moved}\n{body}", encoding="utf-8")

    result = run(workspace, "mine/t")

    assert result.failure is not None
    assert result.failure.exit_status == 4
    assert str(path) in str(result.error)
    assert len(result.chain) == (0 if element == "tool" else 1)


def test_an_edited_bundle_does_not_run(workspace: Workspace) -> None:
    original = workspace.bundles[0]
    copy = workspace.folder / "bundle"
    shutil.copytree(original.base, copy)
    path = copy / f".ai/tools/{SCRIPT}.yaml"
    path.write_text(path.read_text("utf-8").replace("timeout: 300", "timeout: 301"), "utf-8")
    workspace.bundles = (Space(original.label, copy, original.version, original.pinned_pem),)
    workspace.project.signed_tool("mine/t", "print('evil')")

    result = run(workspace, "mine/t")

    assert result.error == (f"not the file that the bundle ryeos was published with: {path}")


def test_a_bundle_by_another_publisher_does_not_run(workspace: Workspace) -> None:
    original = workspace.bundles[0]
    forged = publish(workspace.folder / "forged", BUNDLE_SOURCE)
    workspace.bundles = (Space(original.label, forged.base, original.version, original.pinned_pem),)
    workspace.project.signed_tool("mine/t", "print('evil')")

    assert run(workspace, "mine/t").metadata["error_code"] == "INTEGRITY"


def test_a_key_that_a_project_carries_signs_nothing_that_runs(workspace: Workspace) -> None:
    stranger = generate_keypair()
    workspace.project.trust(stranger)
    path = workspace.project.tool("mine/t", "print('evil')")
    workspace.project.sign_unchecked(path, stranger)

    result = run(workspace, "mine/t")

    assert result.metadata["error_code"] == "UNTRUSTED_KEY"
    assert result.failure is not None
    assert "this project carries the key" in result.failure.hint


def test_a_bundles_key_signs_nothing_outside_of_it(workspace: Workspace) -> None:
    path = workspace.project.tool("mine/t", "print('evil')")
    copied = workspace.bundles[0].ai / f"tools/{SCRIPT}.yaml"
    signature = copied.read_text("utf-8").partition("\n")[0]
    path.write_text(f"{signature}\n{path.read_text('utf-8')}", encoding="utf-8")

    assert run(workspace, "mine/t").failure is not None


@pytest.mark.parametrize("kind", ["file", "folder"])
def test_a_link_out_of_the_space_does_not_run(workspace: Workspace, kind: str) -> None:
    outside = workspace.project.signed_tool("mine/t", "print('evil')")
    elsewhere = workspace.folder / "elsewhere"
    elsewhere.mkdir()
    outside.rename(elsewhere / "t.py")
    folder = workspace.project.space.ai / "tools/mine"
    if kind == "file":
        (folder / "t.py").symlink_to(elsewhere / "t.py")
    else:
        folder.rmdir()
        folder.symlink_to(elsewhere, target_is_directory=True)

    result = run(workspace, "mine/t")

    assert "symlink escape" in str(result.error)


# --- dev mode


def test_in_dev_mode_unverified_elements_are_reported_as_warnings(workspace: Workspace) -> None:
    workspace.env["RYE_DEV_MODE"] = "1"
    path = workspace.project.tool("mine/t", "print('x')")

    result = run(workspace, "mine/t")

    assert result.success
    assert result.metadata["unverified"] == ["mine/t"]
    assert workspace.warnings == [
        f"RYE_DEV_MODE: unsigned item, expected a rye:signed line: {path}"
    ]


def test_a_project_cannot_switch_dev_mode_on(workspace: Workspace) -> None:
    (workspace.project_path / ".env").write_text("RYE_DEV_MODE=1\nRYE_LOCK=off\n", "utf-8")
    workspace.project.tool("mine/t", "print('evil')")

    assert run(workspace, "mine/t").metadata["error_code"] == "UNSIGNED"


def _evil(name: str) -> str:
    return EVIL_RUNTIME.replace("runtimes/python", f"runtimes/{name}")


def test_the_evil_runtime_works_where_it_is_allowed(workspace: Workspace) -> None:
    """The other tests mean something only if it works where it may."""
    workspace.project.signed(
        "tools/mine/r.yaml", EVIL_RUNTIME.replace(f"{Path(SCRIPT).parent}", "mine")
    )
    workspace.project.signed_tool("mine/t", executor="mine/r")

    assert workspace.run("mine/t").data["stdout"] == "evil\n"
