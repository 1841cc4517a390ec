import os
from pathlib import Path

import pytest

from ryeos.items.context import cache_place

posix_only = pytest.mark.skipif(os.name == "nt", reason="rights of POSIX")


@pytest.mark.parametrize(
    ("platform", "variables", "place"),
    [
        ("linux", {"HOME": "home"}, "home/.cache/rye/trees"),
        ("linux", {"HOME": "home", "XDG_CACHE_HOME": "xdg"}, "xdg/rye/trees"),
        ("darwin", {"HOME": "home"}, "home/Library/Caches/rye/trees"),
        ("win32", {"LOCALAPPDATA": "local"}, "local/rye/trees"),
        ("linux", {"HOME": "home", "RYE_CACHE_DIR": "mine"}, "mine/trees"),
    ],
)
def test_the_cache_is_where_the_platform_has_it(
    platform: str, variables: dict[str, str], place: str, tmp_path: Path
) -> None:
    env = {name: str(tmp_path / value) for name, value in variables.items()}

    found = cache_place(env, "trees", platform)

    assert found == tmp_path / place
    assert found.is_dir()


@pytest.mark.parametrize("home", ["", "relative"])
def test_without_a_home_there_is_no_cache(home: str) -> None:
    assert cache_place({"HOME": home}, "trees", "linux") is None


@posix_only
def test_a_folder_that_others_can_write_to_is_not_used(tmp_path: Path) -> None:
    folder = tmp_path / "trees"
    folder.mkdir()
    folder.chmod(0o777)

    assert cache_place({"RYE_CACHE_DIR": str(tmp_path)}, "trees", "linux") is None


@posix_only
def test_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    (tmp_path / "trees").symlink_to(tmp_path / "elsewhere")

    assert cache_place({"RYE_CACHE_DIR": str(tmp_path)}, "trees", "linux") is None


def test_a_file_in_the_way_is_no_cache(tmp_path: Path) -> None:
    (tmp_path / "trees").write_text("x", encoding="utf-8")

    assert cache_place({"RYE_CACHE_DIR": str(tmp_path)}, "trees", "linux") is None
