import os
from pathlib import Path

import pytest

from zipboot.start import cache_root, forget_shiv, unpacked


def test_what_is_meant_for_another_program_is_dropped() -> None:
    environ = {"SHIV_ENTRY_POINT": "other:main", "SHIV_ROOT": "/elsewhere", "PATH": "/bin"}

    forget_shiv(environ)

    assert environ == {"PATH": "/bin"}


# --- where the unpacked copies are ----------------------------------------------------------------


def test_the_folder_that_was_asked_for_comes_first(tmp_path: Path) -> None:
    environ = {"RYE_CACHE_DIR": str(tmp_path / "here"), "XDG_CACHE_HOME": "/xdg", "HOME": "/home"}

    roots = {cache_root(environ, platform) for platform in ("linux", "darwin", "win32")}

    assert roots == {str(tmp_path / "here" / "unpacked")}


def test_linux_has_a_variable_for_caches_before_the_home() -> None:
    environ = {"XDG_CACHE_HOME": "/var/cache/me", "HOME": "/home/me"}

    assert cache_root(environ, "linux") == "/var/cache/me/rye/unpacked"


def test_a_variable_for_caches_that_is_not_absolute_does_not_count(tmp_path: Path) -> None:
    environ = {"XDG_CACHE_HOME": "relative", "HOME": str(tmp_path)}

    assert cache_root(environ, "linux") == str(tmp_path / ".cache" / "rye" / "unpacked")


def test_macos_keeps_caches_in_the_library(tmp_path: Path) -> None:
    environ = {"XDG_CACHE_HOME": "/var/cache/me", "HOME": str(tmp_path)}

    assert cache_root(environ, "darwin") == str(tmp_path / "Library" / "Caches" / "rye/unpacked")


def test_windows_keeps_caches_in_the_local_application_data(tmp_path: Path) -> None:
    environ = {"LOCALAPPDATA": str(tmp_path), "HOME": "/home/me"}

    assert cache_root(environ, "win32") == str(tmp_path / "rye" / "unpacked")


@pytest.mark.parametrize("platform", ["linux", "darwin"])
@pytest.mark.parametrize("home", ["", "/", "/dev/null", "relative", "/no such folder"])
def test_a_home_that_is_none_gives_no_place(home: str, platform: str) -> None:
    assert cache_root({"HOME": home}, platform) is None


@pytest.mark.parametrize("folder", ["", "\\", "relative"])
def test_windows_without_its_folder_gives_no_place(folder: str) -> None:
    assert cache_root({"LOCALAPPDATA": folder}, "win32") is None


def test_root_leaves_nothing_in_the_home_of_a_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if tmp_path.stat().st_uid == 0:
        os.chown(tmp_path, 12345, 12345)
    monkeypatch.setattr(os, "geteuid", lambda: 0)

    assert cache_root({"HOME": str(tmp_path)}, "linux") is None


# --- who may write there --------------------------------------------------------------------------


def test_a_folder_that_others_can_write_is_not_used(tmp_path: Path) -> None:
    root = tmp_path / "unpacked"
    (root / "build" / "site-packages").mkdir(parents=True)
    root.chmod(0o777)

    with pytest.raises(PermissionError) as error:
        unpacked("rye.pyz", str(root), "build")

    assert str(error.value) == f"{root}: expected a folder of this user only"


def test_a_link_in_place_of_the_folder_is_not_followed(tmp_path: Path) -> None:
    elsewhere, root = tmp_path / "elsewhere", tmp_path / "unpacked"
    (elsewhere / "build" / "site-packages").mkdir(parents=True)
    elsewhere.chmod(0o700)
    root.symlink_to(elsewhere)

    with pytest.raises(PermissionError):
        unpacked("rye.pyz", str(root), "build")


def test_what_is_there_already_is_used_as_it_is(tmp_path: Path) -> None:
    root = tmp_path / "unpacked"
    (root / "build" / "site-packages").mkdir(parents=True)
    root.chmod(0o700)

    assert unpacked("no such file", str(root), "build") == str(root / "build" / "site-packages")
