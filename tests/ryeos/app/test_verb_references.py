from pathlib import Path

import pytest

from ryeos.app.verb_arguments import item_reference, rye_of
from ryeos.app.verbs import answer
from ryeos.items.errors import AmbiguousItemError, InvalidRefError, RyeError
from tests.support.errors import coded
from tests.support.workspace import Workspace


@pytest.mark.parametrize(
    ("item_id", "item_type"),
    [
        ("tool:mine/x", None),
        ("mine/x", "tool"),
        ("mine/x", None),
        ("tool:mine/x", "tool"),
        ("mine\\x", "tool"),
        ("./mine/x", None),
        (".\\mine\\x", None),
        ("mine/x.py", None),
        ("tool:mine/x.py", None),
        ("tool:./mine/x.py", None),
        (".ai/tools/mine/x.py", None),
        ("./.ai/tools/mine/x", "tool"),
        ("tool:.ai/tools/mine/x.py", None),
    ],
)
def test_every_spelling_means_the_item(
    workspace: Workspace, item_id: str, item_type: str | None
) -> None:
    workspace.project.tool("mine/x")
    rye = workspace.rye()

    reference = item_reference(rye, item_id, item_type)

    assert str(rye.resolver.resolve(reference).location.ref) == "tool:mine/x"


def test_a_suffix_stays_where_it_is_part_of_the_id(workspace: Workspace) -> None:
    workspace.project.tool("mine/x.py")

    assert item_reference(workspace.rye(), "mine/x.py", "tool").id == "mine/x.py"


@pytest.mark.parametrize(
    ("item_id", "item_type"),
    [
        ("tool:x", "directive"),
        ("", None),
        ("/etc/passwd", None),
        ("../x", None),
        ("a//b", None),
        ("a/../b", None),
        ("a\\..\\b", None),
        ("a\0b", None),
        ("a\x1bb", None),
        ("C:/x", None),
        ("C:\\x", None),
        ("tool:a:b", None),
        ("tool:", None),
        ("a" * 513, None),
        ("tools:a", None),
    ],
)
def test_an_impossible_id_is_refused(
    workspace: Workspace, item_id: str, item_type: str | None
) -> None:
    with pytest.raises(InvalidRefError):
        item_reference(workspace.rye(), item_id, item_type)


def test_an_id_of_several_kinds_lists_the_candidates(workspace: Workspace) -> None:
    workspace.project.tool("x")
    workspace.project.directive("x")
    rye = workspace.rye()

    with pytest.raises(AmbiguousItemError):
        rye.load(item_reference(rye, "x", None))
    refused = answer(rye, "load", {"item_id": "x"}).envelope

    assert (refused["code"], refused["item_id"]) == ("AMBIGUOUS_ITEM", "x")
    assert refused["candidates"] == ["tool:x", "directive:x"]


# --- projects -------------------------------------------------------------------------------------


@pytest.fixture
def other(workspace: Workspace) -> Path:
    """Another project beside the workspace's own."""
    folder = workspace.folder / "other"
    (folder / ".ai").mkdir(parents=True)
    return folder


def test_another_project_gets_another_rye_which_is_kept(workspace: Workspace, other: Path) -> None:
    rye = workspace.rye()

    there = rye_of(rye, {"project_path": str(other)})

    assert there.context.project_path == other
    assert rye_of(rye, {"project_path": str(other)}) is there
    assert rye_of(rye, {}) is rye
    assert rye_of(rye, {"project_path": str(workspace.project_path)}) is rye


@pytest.mark.parametrize("spelling", ["../other", "../other/.ai", "~/../other"])
def test_a_project_may_be_named_from_here_from_home_or_by_its_ai_folder(
    workspace: Workspace, other: Path, spelling: str
) -> None:
    assert workspace.rye().at(spelling).context.project_path == other


def test_a_path_that_is_no_folder_is_no_project(workspace: Workspace) -> None:
    with pytest.raises(
        RyeError, check=coded("NO_PROJECT"), match=r"^no project: nowhere is not a folder$"
    ):
        workspace.rye().at("nowhere")


def test_only_few_other_projects_are_kept(workspace: Workspace) -> None:
    rye = workspace.rye()
    for number in range(6):
        (workspace.folder / f"p{number}").mkdir()

    first = rye.at("../p0")
    for number in range(6):
        rye.at(f"../p{number}")

    assert rye.at("../p0") is not first
