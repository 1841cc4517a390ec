import sys
from pathlib import Path

import pytest

from ryeos.items.errors import RyeError
from ryeos.items.refs import PROJECT, USER, Space, Spaces
from ryeos.run.threads.place import ThreadsPlace, threads_place
from tests.support.errors import coded

links = pytest.mark.skipif(sys.platform == "win32", reason="links need a privilege there")


def spaces(folder: Path) -> Spaces:
    return Spaces(project=Space(PROJECT, folder / "project"), user=Space(USER, folder / "home"))


def test_threads_are_kept_in_a_project_that_has_an_ai_folder(tmp_path: Path) -> None:
    (tmp_path / "project" / ".ai").mkdir(parents=True)

    folder = threads_place(spaces(tmp_path)).folder

    assert folder == tmp_path / "project" / ".ai" / "state" / "threads"


def test_threads_of_any_other_folder_are_kept_in_user_space(tmp_path: Path) -> None:
    folder = threads_place(spaces(tmp_path)).folder

    assert folder == tmp_path / "home" / ".ai" / "state" / "threads"


def test_an_unsafe_id_has_no_folder(place: ThreadsPlace) -> None:
    with pytest.raises(RyeError, check=coded("INVALID_REF")):
        place.thread_folder("../../tools/x")


@links
@pytest.mark.parametrize("linked", ["state", "state/threads", "state/threads/mine"])
def test_writing_does_not_follow_links_out_of_the_project(linked: str, place: ThreadsPlace) -> None:
    outside = place.ai.parent.parent / "outside"
    outside.mkdir()
    link = place.ai / linked
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(outside)

    with pytest.raises(RyeError, check=coded("REGISTRY_INVALID")) as error:
        place.make_thread_folder("mine/x-1")

    assert " link" in str(error.value)
    assert list(outside.iterdir()) == []


@links
def test_reading_does_not_follow_links_out_of_the_project(place: ThreadsPlace) -> None:
    secret = place.ai.parent.parent / "secret"
    secret.write_text("secret", "utf-8")
    place.make_thread_folder("mine/x-1").joinpath("spawn.log").symlink_to(secret)

    with pytest.raises(RyeError, check=coded("REGISTRY_INVALID")):
        place.file("mine/x-1", "spawn.log")
