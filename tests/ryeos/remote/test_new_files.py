"""New files are moved into the folders of a project."""

import os
from pathlib import Path

import pytest

from lillux.errors import FileSystemError
from ryeos.remote.new_files import IS_SUPPORTED, NewFiles
from ryeos.sync.paths import UnsafeManifestError

pytestmark = pytest.mark.skipif(not IS_SUPPORTED, reason="this system has no such calls")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """An empty project."""
    folder = tmp_path / "project"
    folder.mkdir()
    return folder


def content(tmp_path: Path, text: bytes = b"new") -> str:
    """A file to be moved into the project."""
    path = tmp_path / "content"
    path.write_bytes(text)
    return str(path)


def test_a_file_is_moved_to_its_place(tmp_path: Path, root: Path) -> None:
    file = content(tmp_path)

    with NewFiles(root) as new_files:
        assert new_files.put("deep/er/a", file)

    assert root.joinpath("deep/er/a").read_bytes() == b"new"
    assert root.joinpath("deep/er/a").stat().st_nlink == 1
    assert not Path(file).exists()


def test_files_are_moved_to_several_folders(tmp_path: Path, root: Path) -> None:
    paths = ["a", "b/c", "b/d", "b/e/f", "b/g", "h"]

    with NewFiles(root) as new_files:
        for path in paths:
            new_files.put(path, content(tmp_path, path.encode()))

    found = {path.relative_to(root).as_posix(): path for path in root.rglob("*") if path.is_file()}
    assert {name: path.read_bytes() for name, path in found.items()} == {
        path: path.encode() for path in paths
    }


def test_a_file_created_meanwhile_is_kept(tmp_path: Path, root: Path) -> None:
    file = content(tmp_path)
    root.joinpath("a").write_bytes(b"mine")

    with NewFiles(root) as new_files, pytest.raises(FileExistsError):
        new_files.put("a", file)

    assert root.joinpath("a").read_bytes() == b"mine"
    assert Path(file).read_bytes() == b"new"


def test_a_link_created_meanwhile_is_kept_and_not_followed(tmp_path: Path, root: Path) -> None:
    root.joinpath("a").symlink_to(tmp_path / "elsewhere")

    with NewFiles(root) as new_files, pytest.raises(FileExistsError):
        new_files.put("a", content(tmp_path))

    assert not tmp_path.joinpath("elsewhere").exists()


@pytest.mark.parametrize("path", ["link/a", "deep/link/a", "link/deeper/a"])
def test_no_folder_that_is_a_link_is_entered(tmp_path: Path, root: Path, path: str) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    root.joinpath("deep").mkdir()
    for link in ("link", "deep/link"):
        root.joinpath(link).symlink_to(elsewhere)

    with NewFiles(root) as new_files, pytest.raises(UnsafeManifestError, match="is a link"):
        new_files.put(path, content(tmp_path))

    assert list(elsewhere.iterdir()) == []


def test_a_folder_replaced_by_a_link_between_two_files_is_not_followed(
    tmp_path: Path, root: Path
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()

    with NewFiles(root) as new_files:
        new_files.put("folder/a", content(tmp_path))
        root.joinpath("folder").rename(tmp_path / "moved")
        root.joinpath("folder").symlink_to(elsewhere)
        new_files.put("folder/b", content(tmp_path))

    assert list(elsewhere.iterdir()) == []
    assert sorted(path.name for path in (tmp_path / "moved").iterdir()) == ["a", "b"]


def test_a_file_in_the_place_of_a_folder_is_reported(tmp_path: Path, root: Path) -> None:
    root.joinpath("a").write_bytes(b"mine")

    with NewFiles(root) as new_files, pytest.raises(UnsafeManifestError, match="is no folder"):
        new_files.put("a/b", content(tmp_path))

    assert root.joinpath("a").read_bytes() == b"mine"


def test_after_a_refusal_the_next_file_is_moved_to_its_folder(tmp_path: Path, root: Path) -> None:
    root.joinpath("a").write_bytes(b"mine")

    with NewFiles(root) as new_files:
        new_files.put("b/c", content(tmp_path))
        with pytest.raises(UnsafeManifestError):
            new_files.put("a/b", content(tmp_path))
        new_files.put("b/d", content(tmp_path))

    assert sorted(path.name for path in (root / "b").iterdir()) == ["c", "d"]


def test_a_project_that_is_gone_is_reported(tmp_path: Path) -> None:
    with NewFiles(tmp_path / "gone") as new_files, pytest.raises(FileSystemError):
        new_files.put("a", content(tmp_path))


def test_all_descriptors_are_closed(tmp_path: Path, root: Path) -> None:
    before = len(os.listdir("/dev/fd"))  # noqa: PTH208 - names

    with NewFiles(root) as new_files:
        for number in range(20):
            new_files.put(f"{number % 3}/{number}", content(tmp_path))

    assert len(os.listdir("/dev/fd")) == before  # noqa: PTH208 - as above


def test_without_the_system_calls_no_file_is_moved(tmp_path: Path, root: Path) -> None:
    file = content(tmp_path)

    with NewFiles(root, is_supported=False) as new_files:
        assert not new_files.put("a", file)

    assert Path(file).exists()
    assert list(root.iterdir()) == []


def test_a_folder_is_moved_with_its_contents(tmp_path: Path, root: Path) -> None:
    tmp_path.joinpath("content/inner").mkdir(parents=True)
    tmp_path.joinpath("content/inner/a").write_bytes(b"new")

    with NewFiles(root) as new_files:
        assert new_files.put_folder("deep/er", str(tmp_path / "content"))

    assert root.joinpath("deep/er/inner/a").read_bytes() == b"new"
    assert not tmp_path.joinpath("content").exists()


@pytest.mark.parametrize("kind", ["folder", "empty folder", "file", "link"])
def test_a_folder_replaces_no_existing_file(tmp_path: Path, root: Path, kind: str) -> None:
    tmp_path.joinpath("content").mkdir()
    place = root / "a"
    if kind == "link":
        place.symlink_to(tmp_path / "elsewhere")
    elif kind == "file":
        place.write_bytes(b"mine")
    else:
        place.mkdir()
        if kind == "folder":
            place.joinpath("mine").write_bytes(b"mine")
    before = place.lstat().st_ino

    with NewFiles(root) as new_files:
        assert not new_files.put_folder("a", str(tmp_path / "content"))

    assert place.lstat().st_ino == before
    assert tmp_path.joinpath("content").is_dir()


def test_a_folder_is_not_moved_through_a_link(tmp_path: Path, root: Path) -> None:
    tmp_path.joinpath("elsewhere").mkdir()
    tmp_path.joinpath("content").mkdir()
    root.joinpath("link").symlink_to(tmp_path / "elsewhere")

    with NewFiles(root) as new_files, pytest.raises(UnsafeManifestError, match="is a link"):
        new_files.put_folder("link/a", str(tmp_path / "content"))

    assert list(tmp_path.joinpath("elsewhere").iterdir()) == []
