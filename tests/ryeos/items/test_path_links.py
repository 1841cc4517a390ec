"""Links in folders of the PATH that lead to where agents write."""

import os
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from ryeos.items.context import Context, context_from
from ryeos.items.path_links import source_of
from ryeos.items.places import Projects, note_projects
from zipboot.places import sweep

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="links need a privilege there")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home with a project, a folder of programs, and one that both may lead to."""
    home = tmp_path.resolve() / "home"
    for name in ("project/.ai", "project/bin", "bin", "opt", ".ai/config", "here"):
        (home / name).mkdir(parents=True)
    for name in ("project/bin/bad", "opt/good", "bin/own"):
        program(home / name)
    return home


def program(path: Path) -> None:
    path.write_text(f"#!/bin/sh\necho {path.name}\n", "utf-8")
    path.chmod(0o755)


def link(home: Path, name: str, target: str) -> None:
    (home / "bin" / name).symlink_to(target)


def context(home: Path, **env: str) -> Context:
    given = {"HOME": str(home), "PATH": f"{home}/bin:/usr/bin", **env}
    return context_from(given, cwd=home / "here")


def first_folder(env: Mapping[str, str]) -> Path:
    return Path(env["PATH"].split(":")[0])


LEADING = {
    "a link": "../project/bin/bad",
    "an absolute link": "{home}/project/bin/bad",
    "through a link outside": "../between",
    "through a folder that is a link": "../folder/bad",
    "a link of the project that leads out again": "../project/out",
    "by way of the project": "../project/bin/../../opt/good",
    "a file that is not there yet": "../project/bin/later",
}


@pytest.mark.parametrize("target", LEADING.values(), ids=LEADING)
def test_a_folder_with_a_link_into_a_project_is_replaced_by_its_other_entries(
    home: Path, target: str
) -> None:
    (home / "between").symlink_to("project/bin/bad")
    (home / "folder").symlink_to("project/bin")
    (home / "project/out").symlink_to("../opt/good")
    link(home, "bad", target.format(home=home))
    link(home, "good", "../opt/good")

    found = context(home)

    for env in (found.own_environment, found.tool_environment()):
        folder = first_folder(env)
        assert folder.parent == home / ".cache/rye/path"
        assert {one.name: str(one.readlink()) for one in folder.iterdir()} == {
            "good": f"{home}/bin/good",
            "own": f"{home}/bin/own",
        }
        assert env["PATH"].endswith(":/usr/bin")


@pytest.mark.parametrize("target", ["../opt/good", "own", "missing", "bad"])
def test_a_folder_whose_links_lead_elsewhere_stays(home: Path, target: str) -> None:
    link(home, "bad", target)

    assert first_folder(context(home).tool_environment()) == home / "bin"
    assert context(home).own_environment is not None
    assert not (home / ".cache").exists()


def test_links_into_folders_that_agents_were_given_count_as_links_into_projects(home: Path) -> None:
    link(home, "tool", "../opt/good")
    note_projects(str(home / ".ai"), [str(home / "opt")])

    assert "tool" not in os.listdir(first_folder(context(home).tool_environment()))  # noqa: PTH208


def test_a_link_that_is_kept_stays_with_its_folder(home: Path) -> None:
    link(home, "bad", "../project/bin/bad")

    env = context(home).tool_environment(keeps_links=lambda _, names: names)

    assert first_folder(env) == home / "bin"


def test_without_a_cache_the_whole_folder_is_left_out(home: Path) -> None:
    link(home, "bad", "../project/bin/bad")
    (home / "file").touch()

    env = context(home, RYE_CACHE_DIR=f"{home}/file").tool_environment()

    assert env["PATH"] == "/usr/bin"


def test_a_private_folder_is_used_again_and_made_again_where_it_is_another(home: Path) -> None:
    link(home, "bad", "../project/bin/bad")
    folder = first_folder(context(home).tool_environment())
    again = first_folder(context(home).tool_environment())
    (folder / "own").unlink()
    (folder / "own").symlink_to(home / "project/bin/bad")
    mended = first_folder(context(home).tool_environment())

    assert (again, mended) == (folder, folder)
    assert str((folder / "own").readlink()) == f"{home}/bin/own"
    assert [one.name for one in folder.parent.iterdir()] == [folder.name]


def test_private_folders_that_were_not_used_for_long_are_removed_with_the_cache(home: Path) -> None:
    link(home, "bad", "../project/bin/bad")
    old = first_folder(context(home).tool_environment())
    program(home / "bin/more")
    new = first_folder(context(home).tool_environment())
    os.utime(old, (1, 1))

    sweep(str(old.parent), time.time())

    assert [one.name for one in old.parent.iterdir()] == [new.name]
    assert {one.name for one in new.iterdir()} == {"own", "more"}


def test_the_use_of_a_private_folder_is_noted(home: Path) -> None:
    link(home, "bad", "../project/bin/bad")
    folder = first_folder(context(home).tool_environment())
    os.utime(folder, (1, 1))

    first_folder(context(home).tool_environment())

    assert folder.stat().st_mtime > time.time() - 60


def test_the_folder_that_a_private_one_takes_the_place_of_is_known(home: Path) -> None:
    link(home, "bad", "../project/bin/bad")
    cache = home / ".cache/rye"

    folder = first_folder(context(home).tool_environment())

    assert source_of(folder, cache) == home / "bin"
    assert source_of(home / "bin", cache) is None


def test_a_new_link_counts_in_a_server_that_has_read_the_folder(home: Path) -> None:
    os.utime(home / "bin", (1, 1))
    before = first_folder(context(home).tool_environment())
    link(home, "bad", "../project/bin/bad")

    assert before == home / "bin"
    assert first_folder(context(home).tool_environment()) != home / "bin"


def test_a_path_as_deep_as_no_other_counts_as_one_of_a_project(home: Path) -> None:
    projects = Projects("", (str(home),))

    assert projects.leads_inside("/x" * 1500)
    assert not projects.leads_inside("/x" * 20)


@pytest.mark.parametrize("spelled", ["/{project}", "{project}/./bin", "{home}/here/../project"])
def test_a_project_is_known_however_its_path_is_spelled(home: Path, spelled: str) -> None:
    project = str(home / "project")
    projects = Projects(project, (str(home),), is_alone=True)

    assert projects.leads_inside(spelled.format(home=home, project=project))
