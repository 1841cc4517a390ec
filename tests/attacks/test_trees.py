"""A project that makes a user push secrets: links, names, patterns, the store."""

import os
import sys
from pathlib import Path

import pytest

from ryeos.items.errors import RyeError
from ryeos.sync.rules import read_rules, rules_of
from ryeos.sync.stat_table import StatTable
from ryeos.sync.tree import build_project_tree, build_user_tree
from ryeos.sync.tree_walk import SkippedFile
from tests.support.errors import coded

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="links need a privilege there")
EVERYTHING = rules_of([("test", {"sync": {"include": ["*"]}})])


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project with one item."""
    path = tmp_path / "project" / ".ai" / "knowledge"
    path.mkdir(parents=True)
    (path / "a.md").write_text("a", "utf-8")
    return tmp_path / "project"


def skipped_of(project: Path) -> tuple[SkippedFile, ...]:
    """The files that are left out, where the rules include all; only the item is sent."""
    tree = build_project_tree(project, EVERYTHING, StatTable())
    assert tree.manifest.paths() == [".ai/knowledge/a.md"]
    return tree.skipped


@pytest.mark.parametrize("place", [".ai/knowledge/x.md", "x.md"])
def test_a_link_does_not_send_a_file_of_elsewhere(project: Path, place: str) -> None:
    (project.parent / "id_ed25519").write_text("secret", "utf-8")
    (project / place).symlink_to(project.parent / "id_ed25519")

    assert skipped_of(project) == (SkippedFile(place, "a link that leads out of the folder"),)


def test_a_folder_of_a_name_that_begins_like_ours_is_elsewhere(project: Path) -> None:
    other = project.with_name("project-secrets")
    other.mkdir()
    (other / "x.md").write_text("secret", "utf-8")
    (project / ".ai/knowledge/x.md").symlink_to(other / "x.md")

    assert skipped_of(project) == (
        SkippedFile(".ai/knowledge/x.md", "a link that leads out of the folder"),
    )


@pytest.mark.parametrize(
    "target", [".env", ".git/config", ".ai/state/x", "deep/private_key.pem", "node_modules/x"]
)
def test_a_link_does_not_send_a_private_file_under_another_name(project: Path, target: str) -> None:
    (project / target).parent.mkdir(parents=True, exist_ok=True)
    (project / target).write_text("secret", "utf-8")
    (project / ".ai/knowledge/x.md").symlink_to(project / target)

    assert skipped_of(project) == (
        SkippedFile(".ai/knowledge/x.md", f"a link to {target}, which stays here"),
    )


def test_a_link_in_a_user_space_does_not_send_a_signing_key(tmp_path: Path) -> None:
    keys = tmp_path / ".ai/config/keys/signing"
    keys.mkdir(parents=True)
    (keys / "spare").write_text("secret", "utf-8")
    (tmp_path / ".ai/knowledge").mkdir()
    (tmp_path / ".ai/knowledge/x.md").symlink_to(keys / "spare")

    tree = build_user_tree(tmp_path, EVERYTHING, StatTable())

    assert tree.manifest.items == {}


@pytest.mark.parametrize("linked", [".ai/tools", ".ai/knowledge/x", "src"])
def test_a_linked_folder_does_not_send_files_of_elsewhere(project: Path, linked: str) -> None:
    elsewhere = project.parent / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "x.py").write_text("secret", "utf-8")
    (project / linked).symlink_to(elsewhere)

    assert skipped_of(project) == (
        SkippedFile(f"{linked}/", "a link, and links to folders are not followed"),
    )


def test_a_space_that_is_a_link_as_a_whole_is_refused_and_not_taken_for_empty(
    project: Path,
) -> None:
    (project / ".ai").rename(project.parent / "elsewhere")
    (project / ".ai").symlink_to(project.parent / "elsewhere")

    with pytest.raises(RyeError, check=coded("CONFIG_ERROR")) as error:
        build_project_tree(project, EVERYTHING, StatTable())

    assert error.value.path == f"{project}/.ai"


def test_a_pipe_in_the_place_of_a_file_blocks_no_reader(project: Path) -> None:
    os.mkfifo(project / "pipe")

    assert skipped_of(project) == (SkippedFile("pipe", "expected a file, found something else"),)


def test_a_project_cannot_remove_the_rules_that_keep_secrets_here(project: Path) -> None:
    rules_file = project / ".ai/config/cas/manifest.yaml"
    rules_file.parent.mkdir(parents=True)
    rules_file.write_text(
        "manifest:\n  hard_exclude: {names: [], patterns: []}\n"
        "sync:\n  include: ['*']\n  exclude: []\n",
        "utf-8",
    )
    for name in (".env", "private_key.pem", ".git/config"):
        (project / name).parent.mkdir(exist_ok=True)
        (project / name).write_text("secret", "utf-8")

    rules = read_rules(bundles=[], user=None, project=project)
    tree = build_project_tree(project, rules, StatTable())

    assert tree.manifest.files == {}


def test_rules_are_not_read_through_a_link_to_elsewhere(project: Path) -> None:
    (project.parent / "rules.yaml").write_text("sync: {include: ['*']}\n", "utf-8")
    (project / ".ai/config/cas").mkdir(parents=True)
    (project / ".ai/config/cas/manifest.yaml").symlink_to(project.parent / "rules.yaml")

    assert read_rules(bundles=[], user=None, project=project) == rules_of([])
