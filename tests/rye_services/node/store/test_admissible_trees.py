"""Runs whose results no manifest may have: HEAD stays sound, and omitted files are named."""

import os
import sys

import pytest

from rye_services.node.runs.outputs import admissible_tree
from ryeos.sync.objects import SourceManifest
from ryeos.sync.stat_table import StatTable
from ryeos.sync.tree import Tree
from ryeos.sync.tree_walk import SkippedFile
from tests.support.node import Node
from tests.support.remote_projects import TEXT, RemoteProject
from tests.support.workspace import Workspace

pytest_plugins = ("tests.support.node",)
posix = pytest.mark.skipif(os.name == "nt", reason="the tools of these tests are for POSIX")
exact_case = pytest.mark.skipif(sys.platform != "linux", reason="needs names in either case")


@pytest.fixture
def project(shared_node: Node, workspace: Workspace) -> RemoteProject:
    """A project on a node."""
    return RemoteProject.with_tools(workspace, shared_node.user())


def left_out(project: RemoteProject, script: str) -> list[str]:
    """The paths of a script's files that are left out; the next execution and push succeed."""
    reply = project.script(script)
    assert reply.status == 200, reply.json
    assert reply.json["status"] == "success", reply.json
    project.head = reply.json["snapshot_hash"]
    assert project.text("src/x.txt") == TEXT
    assert project.script("cat src/x.txt").json["result"]["data"]["stdout"] == TEXT
    project.push()
    return [one["path"] for one in reply.json.get("left_out", [])]


@posix
@exact_case
def test_a_name_in_other_case_is_left_out(project: RemoteProject) -> None:
    assert left_out(project, "echo a > src/X.txt; mkdir SRC; echo b > src/b") == ["src/X.txt"]


@posix
def test_a_name_that_not_every_platform_has_is_left_out(project: RemoteProject) -> None:
    assert left_out(project, "echo a > src/aux.py; echo b > 'src/a:b'") == [
        "src/a:b",
        "src/aux.py",
    ]


@posix
def test_a_file_replaced_by_a_link_keeps_its_content(project: RemoteProject) -> None:
    assert left_out(project, "rm src/x.txt; ln -s /etc/passwd src/x.txt") == ["src/x.txt"]


@pytest.mark.heavy
@posix
def test_folders_with_too_long_paths_are_left_out(project: RemoteProject) -> None:
    more = "p=$(printf 'd/%.0s' $(seq 100)); for i in $(seq 30)"
    deep = f"{more}; do mkdir -p $p; cd -P $p; done; echo x > f"
    script = f"(cd src; {deep}); mkdir -p .ai/state/x; (cd .ai/state/x; {deep})"

    (path,) = left_out(project, f"{script}; true")

    assert path.startswith("src/d/d/")


@posix
def test_a_file_below_a_thousand_folders_does_not_break_the_project(
    project: RemoteProject,
) -> None:
    """Its path is short enough for every system."""
    deep = "cd src; p=$(printf 'd/%.0s' $(seq 1000)); mkdir -p $p; echo x > $p/f"

    (path,) = left_out(project, deep)

    assert path.startswith("src/d/d/")
    assert left_out(project, "echo y > src/next.txt") == []


@posix
def test_git_repositories_and_virtual_environments_are_left_out(project: RemoteProject) -> None:
    script = "cd src; mkdir -p .git/hooks .venv/bin; echo > .git/hooks/x; echo > .venv/bin/x"

    left_out(project, script)

    assert not [path for path in project.manifest().files if ".git" in path or ".venv" in path]


def a_tree(paths: list[str], skipped: list[str]) -> Tree:
    manifest = SourceManifest("project", {}, dict.fromkeys(paths, "0" * 64))
    return Tree(
        root=None,  # type: ignore[arg-type]
        manifest=manifest,
        manifest_hash="",
        manifest_data=b"",
        item_sources={},
        blobs={},
        skipped=tuple(SkippedFile(path, "no file") for path in skipped),
        table=StatTable(),
    )


def test_names_of_the_base_win_over_clashing_new_names() -> None:
    base = SourceManifest("project", {}, dict.fromkeys(["b/x", "a.py", "f/1", "f/2"], "1" * 64))
    tree = a_tree(["B/x", "b/x", "A.py", "a.py", "A.py/z", "B/y", "c"], ["f/"])

    sound = admissible_tree(tree, base, frozenset())

    assert sorted(sound.tree.manifest.files) == ["a.py", "b/x", "c", "f/1", "f/2"]
    assert [one.path for one in sound.left_out] == ["f/", "A.py", "A.py/z", "B/x", "B/y"]


def test_a_sound_tree_is_unchanged() -> None:
    tree = a_tree(["a", "b/c"], [])

    assert admissible_tree(tree, SourceManifest("project"), frozenset()).tree is tree


def test_many_clashing_names_are_reported_in_time() -> None:
    upper, lower = ([f"{name}/{number}" for number in range(20_000)] for name in ("S", "s"))

    sound = admissible_tree(a_tree([*upper, *lower], []), SourceManifest("project"), frozenset())

    assert len(sound.left_out) == 20_000
