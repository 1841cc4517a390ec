from ryeos.app.sign import targets_of
from ryeos.trust.sign_targets import COLLECT_FILE, exclusions
from tests.support.workspace import SpaceFolder, Workspace


def lists(space: SpaceFolder, folders: str, files: str = "[]") -> None:
    space.signed(
        f"tools/{COLLECT_FILE}",
        'version: "1.0.0"\ntool_type: config\nexecutor_id: null\ncategory: rye/core/bundler\n'
        f"description: lists\nexclude_dirs: {folders}\nexclude_files: {files}\n",
    )


def named(workspace: Workspace, pattern: str = "tool:mine/**") -> list[str]:
    targets = targets_of(workspace.rye(), pattern, None, "project")
    return [str(target.ref) for target in targets]


def test_without_other_lists_those_of_the_bundle_are_used(workspace: Workspace) -> None:
    rye = workspace.rye()

    found = exclusions(rye.context.spaces, rye.verifier, rye.warn)

    assert {"dist", "build", "node_modules"} <= found.folders
    assert "package.json" in found.files


def test_a_pattern_skips_excluded_folders(workspace: Workspace) -> None:
    for item_id in ("mine/a", "mine/dist/b", "mine/other/c"):
        workspace.project.yaml_tool(item_id, "")

    assert named(workspace) == ["tool:mine/a", "tool:mine/other/c"]


def test_the_lists_of_the_project_replace_those_of_the_user(workspace: Workspace) -> None:
    for item_id in ("mine/a", "mine/dist/b", "mine/other/c"):
        workspace.project.yaml_tool(item_id, "")
    lists(workspace.user, "[dist]")
    lists(workspace.project, "[other]", "[a.yaml]")

    assert named(workspace) == ["tool:mine/dist/b"]


def test_unsigned_lists_are_skipped_with_a_warning(workspace: Workspace) -> None:
    workspace.project.yaml_tool("mine/a", "")
    lists(workspace.project, "[mine]")
    path = workspace.project.space.ai / "tools" / COLLECT_FILE
    path.write_text(path.read_text("utf-8") + "# changed\n", "utf-8")

    assert named(workspace) == ["tool:mine/a"]
    assert "its lists are not used" in workspace.warnings[0]


def test_a_reference_names_its_item_even_if_it_is_excluded(workspace: Workspace) -> None:
    workspace.project.yaml_tool("mine/dist/b", "")

    assert named(workspace, "tool:mine/dist/b") == ["tool:mine/dist/b"]
