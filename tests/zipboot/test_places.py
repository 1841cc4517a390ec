import os
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from zipboot.places import cache_folder, cache_root, digest_of, folders, make_private, write_file

needs_modes = pytest.mark.skipif(os.name == "nt", reason="Windows has no modes")


# --- the folder of a cache ------------------------------------------------------------------------


def test_the_requested_folder_comes_first(tmp_path: Path) -> None:
    environ = {"RYE_CACHE_DIR": str(tmp_path / "here"), "XDG_CACHE_HOME": "/xdg", "HOME": "/home"}

    roots = {cache_root(environ, platform) for platform in ("linux", "darwin", "win32")}

    assert roots == {str(tmp_path / "here")}


def test_linux_has_a_variable_for_caches_before_the_home() -> None:
    environ = {"XDG_CACHE_HOME": "/var/cache/me", "HOME": "/home/me"}

    assert cache_root(environ, "linux") == "/var/cache/me/rye"


def test_a_relative_cache_variable_is_ignored(tmp_path: Path) -> None:
    environ = {"XDG_CACHE_HOME": "relative", "HOME": str(tmp_path)}

    assert cache_root(environ, "linux") == str(tmp_path / ".cache" / "rye")


def test_macos_keeps_caches_in_the_library(tmp_path: Path) -> None:
    environ = {"XDG_CACHE_HOME": "/var/cache/me", "HOME": str(tmp_path)}

    assert cache_root(environ, "darwin") == str(tmp_path / "Library" / "Caches" / "rye")


def test_windows_keeps_caches_in_the_local_application_data(tmp_path: Path) -> None:
    environ = {"LOCALAPPDATA": str(tmp_path), "HOME": "/home/me"}

    assert cache_root(environ, "win32") == str(tmp_path / "rye")


@pytest.mark.parametrize("platform", ["linux", "darwin"])
@pytest.mark.parametrize("home", ["", "/", "/dev/null", "relative", "/no such folder"])
def test_an_invalid_home_gives_no_cache_folder(home: str, platform: str) -> None:
    assert cache_root({"HOME": home}, platform) is None


@pytest.mark.parametrize("folder", ["", "\\", "relative"])
def test_windows_without_its_folder_gives_no_cache_folder(folder: str) -> None:
    assert cache_root({"LOCALAPPDATA": folder}, "win32") is None


@pytest.mark.parametrize("variable", ["HOME", "XDG_CACHE_HOME"])
def test_root_does_not_write_into_the_home_of_a_user(
    variable: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if tmp_path.stat().st_uid == 0:
        os.chown(tmp_path, 12345, 12345)
    monkeypatch.setattr(os, "geteuid", lambda: 0)

    assert cache_root({variable: str(tmp_path)}, "linux") is None


# --- permissions ----------------------------------------------------------------------------------


@needs_modes
def test_folders_are_private_with_any_umask(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        make_private(str(tmp_path / "a" / "b" / "c"))
    finally:
        os.umask(before)

    made = [tmp_path / "a", tmp_path / "a" / "b", tmp_path / "a" / "b" / "c"]
    assert {stat.S_IMODE(path.stat().st_mode) for path in made} == {0o700}


@needs_modes
@pytest.mark.parametrize("mode", [0o777, 0o770, 0o750, 0o701])
def test_a_folder_open_to_other_users_is_not_used(mode: int, tmp_path: Path) -> None:
    folder = tmp_path / "shared"
    folder.mkdir()
    folder.chmod(mode)

    with pytest.raises(PermissionError) as error:
        make_private(str(folder))

    assert str(error.value) == f"{folder}: expected a folder of this user only"


@needs_modes
def test_a_folder_of_another_user_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "theirs"
    folder.mkdir(mode=0o700)
    owner = folder.stat().st_uid
    monkeypatch.setattr(os, "geteuid", lambda: owner + 1)

    with pytest.raises(PermissionError):
        make_private(str(folder))


@pytest.mark.parametrize("kind", ["link", "file"])
def test_a_link_or_file_is_not_used_as_a_folder(kind: str, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    path = tmp_path / "cache"
    if kind == "link":
        path.symlink_to(tmp_path / "elsewhere")
    else:
        path.write_text("", "utf-8")

    with pytest.raises(PermissionError):
        make_private(str(path))


def test_the_same_folder_can_be_made_simultaneously(tmp_path: Path) -> None:
    folder = str(tmp_path / "a" / "b" / "c")

    with ThreadPoolExecutor(8) as pool:
        made = list(pool.map(make_private, [folder] * 64))

    assert made == [None] * 64


@needs_modes
def test_a_temporary_folder_takes_the_place_of_a_cache_that_is_not_private(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RYE_CACHE_DIR", str(tmp_path))
    (tmp_path / "bundle").mkdir()
    (tmp_path / "bundle").chmod(0o777)

    (only,) = folders("bundle")

    assert not Path(only).is_relative_to(tmp_path / "bundle")
    assert stat.S_IMODE(Path(only).stat().st_mode) == 0o700


def test_without_a_home_there_is_no_cache_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RYE_CACHE_DIR", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("HOME", "/dev/null")

    with pytest.raises(FileNotFoundError) as error:
        cache_folder("native")

    assert str(error.value) == "no folder for a cache"


# --- files ----------------------------------------------------------------------------------------


@needs_modes
def test_a_file_appears_whole_and_with_its_mode(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("something before", "utf-8")

    write_file(str(path), b"data", 0o500, aside=str(tmp_path))

    assert path.read_bytes() == b"data"
    assert stat.S_IMODE(path.stat().st_mode) == 0o500
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_that_cannot_be_renamed_leaves_no_temporary_file(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "full").touch()

    with pytest.raises(OSError, match="folder"):
        write_file(str(tmp_path / "folder"), b"data", 0o600, aside=str(tmp_path))

    assert [path.name for path in tmp_path.iterdir()] == ["folder"]


def test_the_digest_is_blake2b() -> None:
    assert digest_of(b"abc") == "384264f676f39536840523f284921cdc68b6846b"


@needs_modes
def test_a_world_writable_cache_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "cache"
    root.mkdir()
    root.chmod(0o777)
    monkeypatch.setenv("RYE_CACHE_DIR", str(root))

    with pytest.raises(PermissionError, match="no other user can change"):
        cache_folder("native")
    root.chmod(0o1777)  # with the sticky bit no other user can move our files

    assert cache_folder("native") == str(root / "native")
