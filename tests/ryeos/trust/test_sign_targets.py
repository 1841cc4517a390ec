import os
import sys
from pathlib import Path

import pytest

from ryeos.items.errors import InvalidRefError, ItemNotFoundError
from ryeos.items.refs import ItemRef, Kind, Space, Spaces, parse_reference
from ryeos.trust.sign_targets import (
    SignTarget,
    target_of_path,
    targets_of_glob,
    targets_of_reference,
)
from ryeos.trust.verify import Target
from tests.support.workspace import Workspace

posix = pytest.mark.skipif(sys.platform == "win32", reason="links need a privilege there")
OUTSIDE = (
    "expected a file below .ai/ of the project or user space"
    " (tools, directives, knowledge, config), found one outside"
)


@pytest.fixture
def space(workspace: Workspace) -> Space:
    """A project with a few items."""
    for item_id in ("top", "a/one", "a/two", "a/b/one", "a/b/c/deep", "ab/one"):
        workspace.project.tool(item_id)
    workspace.project.directive("a/one")
    workspace.project.knowledge("note")
    workspace.project.write("config/a/one.yaml", "")
    workspace.project.write("tools/a/package.json", "{}")
    workspace.project.write("tools/a/_private.py", "")
    workspace.project.write("tools/__pycache__/x.py", "")
    return workspace.project.space


@pytest.fixture
def spaces(workspace: Workspace) -> Spaces:
    return workspace.context().spaces


def labels(targets: tuple[SignTarget, ...]) -> list[str]:
    return [target.label for target in targets]


# --- references -----------------------------------------------------------------------------------


def test_a_reference_names_one_file(space: Space) -> None:
    (target,) = targets_of_reference(parse_reference("tool:a/two"), space)

    path = space.ai / "tools" / "a" / "two.py"
    assert target == SignTarget(
        path=path, kind=Kind.TOOL, space=space, ref=ItemRef(Kind.TOOL, "a/two")
    )
    assert target.verify_target == Target(path=path, kind=Kind.TOOL, space=space)


def test_of_two_files_with_one_id_the_first_suffix_wins(workspace: Workspace, space: Space) -> None:
    workspace.project.write("tools/top.yaml", "")

    (target,) = targets_of_reference(parse_reference("tool:top"), space)

    assert target.path.name == "top.py"


def test_an_id_of_several_kinds_needs_its_kind(space: Space) -> None:
    with pytest.raises(InvalidRefError) as error:
        targets_of_reference(parse_reference("a/one"), space)

    assert error.value.problem == "several kinds have it: tool:a/one, directive:a/one, config:a/one"


def test_a_folder_is_refused_with_the_reference_for_its_items(space: Space) -> None:
    with pytest.raises(InvalidRefError) as error:
        targets_of_reference(parse_reference("tool:a/b"), space)

    assert error.value.problem == "names a folder; for all items in it: tool:a/b/**"
    assert error.value.hint == "to sign these: rye sign 'tool:a/b/**'"


@pytest.mark.parametrize(
    ("folder", "pattern"),
    [("tools/a/b", "tool:a/b/**"), ("tools/a/b/", "tool:a/b/**"), ("tools", "tool:**")],
)
def test_the_path_of_a_folder_is_refused_with_the_line_that_signs_all_in_it(
    workspace: Workspace, space: Space, folder: str, pattern: str
) -> None:
    with pytest.raises(InvalidRefError) as error:
        target_of_path(Path(f"{space.ai}/{folder}"), workspace.context().spaces)

    assert error.value.hint == f"to sign these: rye sign '{pattern}'"


@pytest.mark.parametrize("item_id", ["nothing", "x" * 500])
def test_a_missing_item_is_not_found(space: Space, item_id: str) -> None:
    with pytest.raises(ItemNotFoundError) as error:
        targets_of_reference(parse_reference(f"tool:{item_id}"), space)

    assert str(error.value) == f"Tool not found: {item_id} (searched: project)"


# --- globs ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pattern", "ids"),
    [
        ("*", ["a/_private", "a/b/c/deep", "a/b/one", "a/one", "a/two", "ab/one", "top"]),
        ("one", ["a/b/one", "a/one", "ab/one"]),
        ("t*", ["a/two", "top"]),
        ("t?p", ["top"]),
        ("[td]*", ["a/b/c/deep", "a/two", "top"]),
        ("[!td]*", ["a/_private", "a/b/one", "a/one", "ab/one"]),
        ("a/*", ["a/_private", "a/one", "a/two"]),
        ("a/[!o]*", ["a/_private", "a/two"]),
        ("a*/one", ["a/one", "ab/one"]),
        ("?/one", ["a/one"]),
        ("a/**", ["a/_private", "a/b/c/deep", "a/b/one", "a/one", "a/two"]),
        ("**/one", ["a/b/one", "a/one", "ab/one"]),
        ("a/**/one", ["a/b/one", "a/one"]),
        ("**/b/**", ["a/b/c/deep", "a/b/one"]),
        ("**", ["a/_private", "a/b/c/deep", "a/b/one", "a/one", "a/two", "ab/one", "top"]),
        ("**/top", ["top"]),
        ("a/b/*/deep", ["a/b/c/deep"]),
    ],
)
def test_a_glob_names_items_by_their_ids(space: Space, pattern: str, ids: list[str]) -> None:
    targets = targets_of_glob(Kind.TOOL, pattern, space)

    assert labels(targets) == [f"tool:{item_id}" for item_id in ids]


def test_a_glob_names_the_modules_beside_tools(workspace: Workspace) -> None:
    workspace.project.tool("shop/sell")
    workspace.project.write("tools/shop/__init__.py", "")
    workspace.project.write("tools/shop/_words.py", "")
    workspace.project.write("tools/shop/.hidden.py", "")

    targets = targets_of_glob(Kind.TOOL, "shop/**", workspace.project.space)

    assert labels(targets) == ["tool:shop/__init__", "tool:shop/_words", "tool:shop/sell"]


def test_what_a_glob_leaves_out_is_reported(space: Space) -> None:
    warnings: list[str] = []

    targets_of_glob(Kind.TOOL, "a/*", space, warn=warnings.append)
    targets_of_glob(Kind.TOOL, "a/b/*", space, warn=warnings.append)

    assert warnings == [
        "the pattern leaves out a/package.json; to sign one of them, give its path",
    ]


def test_hidden_files_and_folders_that_no_glob_enters_are_reported(workspace: Workspace) -> None:
    """A tool with an anchor needs each module signed: what a pattern passes over would stop it."""
    for name in ("sell.py", ".hidden.py", "state/kept.py", ".venv/lib/x.py", "sub/_two.py"):
        workspace.project.write(f"tools/shop/{name}", "")
    workspace.project.write("tools/shop/__pycache__/sell.cpython-311.pyc", "")
    workspace.project.write("tools/other/.hidden.py", "")
    warnings: list[str] = []

    targets = targets_of_glob(Kind.TOOL, "shop/**", workspace.project.space, warn=warnings.append)

    assert labels(targets) == ["tool:shop/sell", "tool:shop/sub/_two"]
    (warning,) = warnings
    assert warning == (
        "the pattern leaves out shop/.venv/, shop/state/, shop/.hidden.py; to sign one of them,"
        " give its path"
    )


def test_a_glob_without_a_kind_names_all_runnable_items(space: Space) -> None:
    assert labels(targets_of_glob(None, "a/o*", space)) == ["directive:a/one", "tool:a/one"]


@pytest.mark.parametrize(
    "pattern", ["x*", "a", "a/", "/top", "top/**", "[z-a]", "a/[z-a]", "[", "a/["]
)
def test_a_glob_without_matches_is_not_found(space: Space, pattern: str) -> None:
    with pytest.raises(ItemNotFoundError) as error:
        targets_of_glob(Kind.TOOL, pattern, space)

    assert str(error.value) == f"Tool not found: {pattern} (searched: project)"


@pytest.mark.parametrize("pattern", ["**/" * 30 + "x", "*a" * 60 + "/x", "**/*a*a*a*a*a*a*a*a*a*x"])
def test_every_glob_is_matched_in_time(workspace: Workspace, pattern: str) -> None:
    workspace.project.tool("/".join(["a" * 40] * 6) + "/aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa")

    with pytest.raises(ItemNotFoundError):
        targets_of_glob(Kind.TOOL, pattern, workspace.project.space)


# --- paths ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("relative", "label"),
    [
        ("tools/a/one.py", "tool:a/one"),
        ("directives/a/one.md", "directive:a/one"),
        ("knowledge/note.md", "knowledge:note"),
        ("config/a/one.yaml", "config:a/one"),
        ("tools/a/package.json", "tool:a/package"),
    ],
)
def test_a_path_below_a_space_names_its_item(
    space: Space, spaces: Spaces, relative: str, label: str
) -> None:
    target = target_of_path(space.ai / relative, spaces)

    assert (target.label, target.path) == (label, space.ai / relative)


def test_a_data_file_among_the_items_has_no_reference(space: Space, spaces: Spaces) -> None:
    target = target_of_path(space.ai / "tools" / "a" / "data.csv", spaces)

    assert target.ref is None
    assert target.label == str(space.ai / "tools" / "a" / "data.csv")


def test_a_relative_path_starts_at_the_working_directory(
    space: Space, spaces: Spaces, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(space.ai / "tools" / "a" / "b")

    assert target_of_path(Path("../one.py"), spaces).label == "tool:a/one"


@posix
def test_a_path_is_found_through_a_link_to_its_space(
    workspace: Workspace, space: Space, spaces: Spaces
) -> None:
    (workspace.folder / "link").symlink_to(space.base)

    target = target_of_path(workspace.folder / "link" / ".ai" / "tools" / "top.py", spaces)

    assert target.label == "tool:top"


@pytest.mark.parametrize(
    "path",
    [
        "x.py",
        "project/x.py",
        "project/.ai/x.py",
        "project/.ai/state/x.py",
        "project/.ai/tools/../../../x.py",
        "project/.ai/tools/../x.py",
        "project/.ai/tools/../state/x.py",
        "project/.ai/tools\0/x.py",
    ],
)
def test_a_path_outside_of_every_folder_of_items_is_refused(
    workspace: Workspace, space: Space, spaces: Spaces, path: str
) -> None:
    with pytest.raises(InvalidRefError) as error:
        target_of_path(workspace.folder / path, spaces)

    assert error.value.problem == OUTSIDE


@posix
def test_circular_links_are_refused(workspace: Workspace, spaces: Spaces) -> None:
    (workspace.folder / "a.py").symlink_to("b.py")
    (workspace.folder / "b.py").symlink_to("a.py")

    with pytest.raises(InvalidRefError) as error:
        target_of_path(workspace.folder / "a.py", spaces)

    assert error.value.problem == OUTSIDE


def test_a_path_with_parent_segments_names_the_same_item(
    workspace: Workspace, space: Space, spaces: Spaces
) -> None:
    around = os.path.join(space.ai, "tools", "a", "..", "..", "tools", "top.py")  # noqa: PTH118

    target = target_of_path(Path(around), spaces)

    assert (target.label, target.path) == ("tool:top", space.ai.resolve() / "tools" / "top.py")
