"""Links that lead out of a space, to files that another user may change."""

import sys
from pathlib import Path

import pytest

from ryeos.items.errors import IntegrityError, SpecError
from ryeos.items.refs import PROJECT, Kind, parse_reference
from tests.support.workspace import Workspace

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="links need a privilege there")


@pytest.fixture
def outside(workspace: Workspace) -> Path:
    """A tool that is validly signed, in a folder outside of every space."""
    signed = workspace.project.signed_tool("mine", "print('{}')\n")
    folder = workspace.folder / "outside"
    folder.mkdir()
    return signed.rename(folder / "mine.py")


def assert_escape(workspace: Workspace, item_id: str, path: Path) -> None:
    with pytest.raises(IntegrityError) as error:
        workspace.rye().load(parse_reference(f"tool:{item_id}"))
    assert str(error.value) == f"symlink escape: the file lies outside the project space: {path}"

    result = workspace.run(item_id)

    assert type(result.failure) is IntegrityError
    assert not result.success


def test_a_link_to_a_file(workspace: Workspace, outside: Path) -> None:
    link = workspace.project.space.ai / "tools" / "link.py"
    link.symlink_to(outside)

    assert_escape(workspace, "link", link)


def test_a_link_to_a_folder(workspace: Workspace, outside: Path) -> None:
    folder = workspace.project.space.ai / "tools" / "folder"
    folder.symlink_to(outside.parent)

    assert_escape(workspace, "folder/mine", folder / "mine.py")


def test_a_link_through_another_link(workspace: Workspace, outside: Path) -> None:
    tools = workspace.project.space.ai / "tools"
    (tools / "a.py").symlink_to("b.py")
    (tools / "b.py").symlink_to(outside)

    assert_escape(workspace, "a", tools / "a.py")


def test_a_link_into_another_space(workspace: Workspace) -> None:
    mine = workspace.user.signed_tool("mine")
    link = workspace.project.space.ai / "tools" / "mine.py"
    link.parent.mkdir()
    link.symlink_to(mine)

    assert_escape(workspace, "mine", link)


def test_a_link_into_another_folder_of_the_same_space(workspace: Workspace) -> None:
    state = workspace.project.write("state/x.py", "")
    link = workspace.project.space.ai / "tools" / "x.py"
    link.parent.mkdir()
    link.symlink_to(state)

    assert_escape(workspace, "x", link)


def test_a_link_in_the_project_does_not_fall_back_to_a_good_item_below(
    workspace: Workspace, outside: Path
) -> None:
    workspace.user.signed_tool("x")
    link = workspace.project.space.ai / "tools" / "x.py"
    link.symlink_to(outside)

    assert_escape(workspace, "x", link)


def test_a_broken_link_is_no_item(workspace: Workspace) -> None:
    tools = workspace.project.space.ai / "tools"
    tools.mkdir()
    (tools / "dangling.py").symlink_to("nothing.py")
    (tools / "circle.py").symlink_to("circle.py")
    resolver = workspace.rye().resolver

    for name in ("dangling", "circle"):
        (ref,) = parse_reference(f"tool:{name}").refs()
        assert resolver.find(ref) is None


def test_a_folder_of_items_that_is_a_link_holds_the_items_of_its_target(
    workspace: Workspace, outside: Path
) -> None:
    """The space is where its folders are; every file there is verified as ever."""
    (outside.parent / "unsigned.py").write_text("x = 1\n", encoding="utf-8")
    project = workspace.folder / "linked"
    (project / ".ai").mkdir(parents=True)
    (project / ".ai" / "tools").symlink_to(outside.parent)
    workspace.project_path = project
    rye = workspace.rye()

    _, item = rye.load(parse_reference("tool:mine"))

    assert item.verified
    with pytest.raises(IntegrityError, match="unsigned item"):
        rye.load(parse_reference("tool:unsigned"))


def test_a_project_that_links_to_the_users_items_gets_no_rights_of_theirs(
    workspace: Workspace,
) -> None:
    """``.ai`` as a link to user space: the items count as the project's, the keys as carried."""
    workspace.user.signed_tool("mine")
    project = workspace.folder / "borrower"
    project.mkdir()
    (project / ".ai").symlink_to(workspace.home / ".ai")
    workspace.project_path = project
    rye = workspace.rye()

    resolution, item = rye.load(parse_reference("tool:mine"))

    assert resolution.location.space.label == PROJECT
    assert item.key
    assert item.key.source == "user"


def test_configuration_behind_a_link_is_refused(workspace: Workspace, outside: Path) -> None:
    secret = outside.parent / "secret.yaml"
    secret.write_text("token: 1\n", encoding="utf-8")
    config = workspace.project.space.ai / "config"
    config.mkdir()
    (config / "x.yaml").symlink_to(secret)

    with pytest.raises(SpecError, match="through a link"):
        workspace.rye().config.resolve({"path": "x.yaml"})


@pytest.mark.parametrize("kind", [Kind.DIRECTIVE, Kind.KNOWLEDGE])
def test_text_behind_a_link_is_not_shown(workspace: Workspace, kind: Kind) -> None:
    secret = workspace.folder / "secret.md"
    secret.write_text('token: 1\n<directive name="x">\n</directive>\n', encoding="utf-8")
    folder = workspace.project.space.directory(kind)
    folder.mkdir()
    (folder / "x.md").symlink_to(secret)

    with pytest.raises(IntegrityError, match="symlink escape"):
        workspace.render(f"{kind.value}:x")
