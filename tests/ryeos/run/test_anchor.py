"""Anchors: the folder of a tool's modules, and its effect on the process."""

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from lillux.digests import sha256_hex
from lillux.process.model import SEALED_PATH, can_seal
from ryeos.items.errors import SpecError
from ryeos.run.anchor import Anchor, anchor_of
from tests.support.workspace import Workspace

MARKED = {"enabled": True, "markers_any": ["__init__.py", "pyproject.toml"]}


def anchor(workspace: Workspace, config: Mapping[str, Any], item_id: str = "a/b/c/tool") -> Anchor:
    """The anchor of a tool four folders down, with the block in its own header."""
    workspace.project.signed_tool(item_id, extra=f"ANCHOR = {dict(config)!r}\n")
    return anchor_of(workspace.rye().executor.build_chain(item_id), workspace.context())


def tools(workspace: Workspace) -> Path:
    return workspace.project.space.ai / "tools"


# --- names


def test_anchor_names_are_defined_for_inactive_anchors_too(workspace: Workspace) -> None:
    found = anchor(workspace, {})

    folder = tools(workspace) / "a/b/c"
    library = workspace.bundles[0].ai / "tools/rye/core/runtimes/python/lib/python"
    assert found.active is False
    assert found.names == {
        "tool_path": str(folder / "tool.py"),
        "tool_dir": str(folder),
        "tool_parent": str(folder.parent),
        "tool_sha256": sha256_hex((folder / "tool.py").read_bytes()),
        "approved_packages": "",
        "null_device": os.devnull,
        "tool_source": SEALED_PATH if can_seal(sys.platform) else str(folder / "tool.py"),
        "anchor_path": str(folder),
        "runtime_lib": str(library),
        "project_path": str(workspace.project_path),
        "user_space": str(workspace.home),
        "system_space": str(workspace.bundles[0].base),
    }


def test_the_library_is_beside_the_first_element_that_has_one(workspace: Workspace) -> None:
    runtime = workspace.user.runtime("mine/py", extra="anchor: {lib: lib/mine}\n")
    workspace.user.sign(runtime)
    workspace.project.signed_tool("plain", executor="mine/py")
    workspace.project.signed_tool("own", executor="mine/py", extra='ANCHOR = {"lib": "here"}\n')

    chains = [workspace.rye().executor.build_chain(name) for name in ("plain", "own")]
    libraries = [anchor_of(chain, workspace.context()).names["runtime_lib"] for chain in chains]

    assert libraries == [str(runtime.parent / "lib/mine"), str(tools(workspace) / "here")]


def test_without_a_bundle_the_system_space_is_empty(tmp_path: Path) -> None:
    bare = Workspace(tmp_path, ())
    bare.project.signed_yaml("x", executor="rye/core/primitives/execute")

    found = anchor_of(bare.rye().executor.build_chain("x"), bare.context())

    assert found.names["system_space"] == ""


# --- when it is active


@pytest.mark.parametrize(
    "config",
    [
        {"enabled": True, "mode": "always"},
        {"enabled": True, "markers_any": ["tool.py"]},
        {"enabled": True, "mode": "auto", "markers_any": ["no", "tool.py"]},
    ],
)
def test_an_anchor_is_active_always_or_with_a_marker(
    workspace: Workspace, config: Mapping[str, Any]
) -> None:
    assert anchor(workspace, config).active is True


@pytest.mark.parametrize(
    "config",
    [
        {},
        {"mode": "always"},
        {"enabled": "true", "mode": "always"},
        {"enabled": True},
        {"enabled": True, "mode": "never", "markers_any": ["tool.py"]},
        {"enabled": True, "markers_any": ["nothing", "a\0b", "x" * 5000]},
    ],
)
def test_an_anchor_is_inactive_unless_it_is_enabled_and_marked(
    workspace: Workspace, config: Mapping[str, Any]
) -> None:
    assert anchor(workspace, config).active is False


@pytest.mark.parametrize("marked", ["a/b/c", "a/b", "a"])
def test_markers_are_looked_for_upward(workspace: Workspace, marked: str) -> None:
    workspace.project.write(f"tools/{marked}/__init__.py", "")

    found = anchor(workspace, MARKED)

    assert (found.active, found.path) == (True, tools(workspace) / marked)
    assert found.names["tool_dir"] == str(tools(workspace) / "a/b/c")


def test_the_nearest_folder_with_a_marker_wins(workspace: Workspace) -> None:
    workspace.project.write("tools/a/__init__.py", "")
    workspace.project.write("tools/a/b/pyproject.toml", "")

    assert anchor(workspace, MARKED).path == tools(workspace) / "a/b"


def test_the_search_ends_below_the_folder_of_all_tools(workspace: Workspace) -> None:
    workspace.project.write("tools/__init__.py", "")
    workspace.project.write("pyproject.toml", "")
    (workspace.project_path / "pyproject.toml").touch()

    assert anchor(workspace, MARKED).active is False


def test_a_tool_at_the_top_may_have_a_marker_beside_it(workspace: Workspace) -> None:
    workspace.project.write("tools/__init__.py", "")

    found = anchor(workspace, MARKED, "tool")

    assert (found.active, found.path) == (True, tools(workspace))


@pytest.mark.parametrize(
    ("root", "folder"),
    [
        ("tool_dir", ".ai/tools/a/b"),
        ("tool_parent", ".ai/tools/a/b"),
        ("project_path", "."),
        ("elsewhere", ".ai/tools/a/b"),
    ],
)
def test_the_setting_root_chooses_the_anchor_folder(
    workspace: Workspace, root: str, folder: str
) -> None:
    workspace.project.write("tools/a/b/__init__.py", "")

    found = anchor(workspace, {**MARKED, "root": root})

    assert found.path == workspace.project_path / folder


def test_in_mode_always_the_folder_is_that_of_the_tool(workspace: Workspace) -> None:
    workspace.project.write("tools/a/__init__.py", "")

    found = anchor(workspace, {**MARKED, "mode": "always"})

    assert found.path == tools(workspace) / "a/b/c"


def test_the_first_element_that_declares_an_anchor_decides(workspace: Workspace) -> None:
    workspace.project.write("tools/a/b/c/__init__.py", "")

    assert anchor(workspace, {"enabled": False}).active is False


@pytest.mark.parametrize(
    ("config", "problem"),
    [
        ({"mode": "maybe"}, "anchor.mode: expected one of auto, always, never, got 'maybe'"),
        ({"markers_any": "x"}, "anchor.markers_any: expected a list, got string"),
        ({"env_paths": []}, "anchor.env_paths: expected a mapping, got list"),
        ({"cwd": 5}, "anchor.cwd: expected a string, got integer"),
        ({"root": []}, "anchor.root: expected a string, got list"),
        ({"lib": 5}, "anchor.lib: expected a string, got integer"),
        ({"env": ["A"]}, "anchor.env: expected a mapping, got list"),
        ({"env": {"A": 5}}, "anchor.env.A: expected a string, got integer"),
        ({"env_paths": {"P": "x"}}, "anchor.env_paths.P: expected a mapping, got string"),
        (
            {"env_paths": {"P": {"prepend": "{anchor_path}"}}},
            "anchor.env_paths.P.prepend: expected a list, got string",
        ),
    ],
)
def test_a_block_of_the_wrong_shape_is_refused(
    workspace: Workspace, config: Mapping[str, Any], problem: str
) -> None:
    with pytest.raises(SpecError) as error:
        anchor(workspace, {"enabled": True, "mode": "always", **config})

    assert str(error.value) == problem


# --- path lists


def joined(*entries: str) -> str:
    return os.pathsep.join(entries)


@pytest.mark.parametrize(
    ("before", "prepended", "appended", "after"),
    [
        ("x", ("a", "b"), (), ("a", "b", "x")),
        ("x", (), ("a", "b"), ("x", "a", "b")),
        ("", ("a",), ("b",), ("a", "b")),
        (joined("x", "", "b"), ("a", "b"), ("x",), ("a", "x", "b")),
        ("x", ("a", "a"), ("a", "c"), ("a", "x", "c")),
        ("", (), (), ()),
    ],
)
def test_path_entries_are_joined_in_order_and_present_ones_stay(
    before: str, prepended: tuple[str, ...], appended: tuple[str, ...], after: tuple[str, ...]
) -> None:
    found = Anchor(names={}, env_paths={"P": (prepended, appended)})

    changed = found.apply_to({"P": before, "Q": "q"})

    assert changed == {"P": joined(*after) if after else before, "Q": "q"}


def test_entries_that_are_no_folders_are_left_out(workspace: Workspace) -> None:
    workspace.project.write("tools/a/b/c/lib/x", "")
    entries = ["{anchor_path}/lib", "{anchor_path}/none", "{tool_path}", "", "a\0b", "y" * 5000]

    found = anchor(
        workspace,
        {"enabled": True, "mode": "always", "env_paths": {"P": {"prepend": entries}}},
    )

    assert found.env_paths == {"P": ((str(tools(workspace) / "a/b/c/lib"),), ())}


def test_only_an_active_anchor_sets_variables(workspace: Workspace) -> None:
    config = {"enabled": True, "env": {"HERE": "{anchor_path}!"}}

    active = anchor(workspace, {**config, "mode": "always"})
    inactive = anchor(workspace, config, "other/tool")

    variables = active.apply_to({"A": "1"})
    assert (variables["A"], variables["HERE"]) == ("1", f"{tools(workspace) / 'a/b/c'}!")
    assert inactive.apply_to({"A": "1"}) == {"A": "1"}


def test_an_anchor_can_set_but_not_remove_variables_of_its_runtime(
    workspace: Workspace,
) -> None:
    unnamed = anchor(workspace, {"enabled": True, "mode": "always", "env": {"HERE": "there"}})
    named = anchor(
        workspace,
        {"enabled": True, "mode": "always", "env": {"PYTHONDONTWRITEBYTECODE": ""}},
        "other/tool",
    )

    assert unnamed.env["PYTHONDONTWRITEBYTECODE"] == "1"
    assert named.env["PYTHONDONTWRITEBYTECODE"] == ""


def test_variables_of_a_disabled_anchor_are_not_set(workspace: Workspace) -> None:
    off = "anchor: {enabled: false, env: {OFF: here}}\n"
    workspace.user.sign(workspace.user.runtime("mine/off", extra=off))
    on = "ANCHOR = {'enabled': True, 'mode': 'always', 'env': {'ON': 'there'}}\n"
    workspace.project.signed_tool("own", executor="mine/off", extra=on)

    chain = workspace.rye().executor.build_chain("own")
    assert anchor_of(chain, workspace.context()).env == {"ON": "there"}


# --- executions


def test_the_modules_of_an_anchored_tool_can_be_imported(workspace: Workspace) -> None:
    for name, text in {
        "__init__": "",
        "near": "WHERE = 'beside the marker'\n",
        "lib/python/far": "WHERE = 'in the library'\n",
        "sub/own": "WHERE = 'beside the tool'\n",
    }.items():
        workspace.project.signed(f"tools/pack/{name}.py", text)
    workspace.project.signed_tool(
        "pack/sub/tool", "import near, far, own\nprint(near.WHERE, far.WHERE, own.WHERE, sep='|')"
    )

    result = workspace.run("pack/sub/tool")

    assert result.error is None
    assert result.data["stdout"] == "beside the marker|in the library|beside the tool\n"
    assert "PYTHONPATH" in result.metadata["resolved_env_keys"]


def test_an_anchor_folder_comes_before_the_path_list_of_the_environment(
    workspace: Workspace,
) -> None:
    workspace.env["PYTHONPATH"] = "/elsewhere"
    workspace.project.signed("tools/pack/__init__.py", "")
    workspace.project.signed_tool("pack/tool", "import os\nprint(os.environ['PYTHONPATH'])")

    output = workspace.run("pack/tool").data["stdout"]

    assert output.strip() == joined(str(tools(workspace) / "pack"), "/elsewhere")


def test_an_interpreter_looks_in_no_verified_folder_while_it_starts(workspace: Workspace) -> None:
    workspace.env["PYTHONPATH"] = "/elsewhere"
    workspace.project.signed("tools/pack/__init__.py", "")
    workspace.project.signed_tool("pack/tool")

    env = workspace.command("pack/tool").env

    assert env["PYTHONPATH"] == "/elsewhere"
    assert "PYTHONPYCACHEPREFIX" not in env


def test_a_tool_can_run_in_the_folder_of_its_anchor(workspace: Workspace) -> None:
    workspace.project.signed_tool(
        "a/tool", extra='ANCHOR = {"enabled": True, "mode": "always", "cwd": "{tool_parent}"}\n'
    )

    assert workspace.command("a/tool").cwd == tools(workspace)
    assert workspace.command("a/tool", cwd=".").cwd == workspace.project_path
