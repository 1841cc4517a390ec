"""Folders that are reached from a root without links."""

import os
import stat
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lillux import beneath
from lillux.beneath import LinkOnTheWayError, open_folder
from lillux.errors import FileSystemError, UnsafePathError
from lillux.file_locks import locked
from lillux.files import (
    FileChangedError,
    create_file,
    make_directory,
    open_file,
    prepare_write,
    read_bytes,
    read_part,
    remove_file,
    replace_together,
    write_atomic,
)

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="links need a privilege there")
Act = Callable[[Path, Path], object]

ACTS: dict[str, Act] = {
    "write_atomic": lambda path, root: write_atomic(path, b"ours", within=root),
    "prepare_write": lambda path, root: prepare_write(path, b"ours", within=root).put_in_place(),
    "create_file": lambda path, root: create_file(path, b"ours", within=root),
    "make_directory": lambda path, root: make_directory(path.parent / "new", within=root),
    "remove_file": lambda path, root: remove_file(path, within=root),
    "open_file": lambda path, root: os.close(
        open_file(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, within=root)
    ),
    "locked": lambda path, root: locked(path, within=root).__enter__(),
    "read_bytes": lambda path, root: read_bytes(path, 100, within=root),
    "read_part": lambda path, root: read_part(path, 0, 100, within=root),
}
acts = pytest.mark.parametrize("act", ACTS.values(), ids=ACTS.keys())


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "root"
    (folder / "a" / "b").mkdir(parents=True)
    return folder


@pytest.fixture
def elsewhere(tmp_path: Path) -> Path:
    folder = tmp_path / "elsewhere"
    (folder / "b").mkdir(parents=True)
    for place in (folder, folder / "b"):
        (place / "file").write_bytes(b"theirs")
    return folder


def state(folder: Path) -> list[tuple[str, bytes]]:
    return sorted(
        (str(path), path.read_bytes() if path.is_file() else b"") for path in folder.rglob("*")
    )


@pytest.fixture(params=["at once", "one by one"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both ways down: the call of the kernel, and the walk where there is none."""
    if request.param == "one by one":
        monkeypatch.setattr(sys, "platform", "other")


@pytest.mark.usefixtures("way")
@acts
@pytest.mark.parametrize("link", ["a", "a/b"])
def test_a_link_on_the_way_is_refused_and_nothing_is_touched(
    root: Path, elsewhere: Path, act: Act, link: str
) -> None:
    place = root / link
    for folder in (root / "a" / "b", root / "a")[: 1 if link == "a/b" else 2]:
        folder.rmdir()
    place.symlink_to(elsewhere if link == "a" else elsewhere / "b")
    before = state(elsewhere)

    with pytest.raises(LinkOnTheWayError) as error:
        act(root / "a" / "b" / "file", root)

    assert str(place) in str(error.value)
    assert str(elsewhere) in str(error.value)
    assert f"rm {place}" in error.value.hint
    assert state(elsewhere) == before


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("name", sorted(ACTS.keys() - {"make_directory", "create_file"}))
def test_a_link_as_the_file_is_refused(root: Path, elsewhere: Path, name: str) -> None:
    (root / "a" / "b" / "file").symlink_to(elsewhere / "file")
    before = state(elsewhere)

    with pytest.raises(LinkOnTheWayError):
        ACTS[name](root / "a" / "b" / "file", root)

    assert state(elsewhere) == before
    assert (root / "a" / "b" / "file").is_symlink()


def test_a_new_file_does_not_take_the_place_of_a_link(root: Path, elsewhere: Path) -> None:
    (root / "a" / "file").symlink_to(elsewhere / "missing")

    with pytest.raises(FileExistsError):
        create_file(root / "a" / "file", b"ours", within=root)

    assert not (elsewhere / "missing").exists()


@pytest.mark.usefixtures("way")
def test_what_is_below_the_root_is_written_and_read(root: Path) -> None:
    path = root / "new" / "folder" / "file"

    make_directory(path.parent, mode=0o700, within=root)
    write_atomic(path, b"one", within=root)
    path.chmod(0o640)
    write_atomic(path, b"two", expected=b"one", within=root)

    assert read_bytes(path, 10, within=root) == b"two"
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert [one.name for one in path.parent.iterdir()] == ["file"]
    with pytest.raises(FileChangedError):
        write_atomic(path, b"three", expected=b"one", within=root)
    remove_file(path, within=root)
    assert not path.exists()


def test_the_root_itself_may_be_reached_through_a_link(root: Path, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(root)

    write_atomic(link / "a" / "file", b"ours", within=link)

    assert (root / "a" / "file").read_bytes() == b"ours"


def test_a_file_with_a_second_name_is_not_appended_to(root: Path, elsewhere: Path) -> None:
    (root / "a" / "file").hardlink_to(elsewhere / "file")

    with pytest.raises(FileSystemError, match="hard links"):
        open_file(root / "a" / "file", os.O_WRONLY | os.O_APPEND, within=root)

    write_atomic(root / "a" / "file", b"ours", within=root)
    assert (elsewhere / "file").read_bytes() == b"theirs"


@pytest.mark.parametrize("path", ["../elsewhere/file", "a/../../elsewhere/file"])
def test_a_path_that_leads_up_is_refused(root: Path, elsewhere: Path, path: str) -> None:
    with pytest.raises(UnsafePathError):
        write_atomic(root / path, b"ours", within=root)

    assert (elsewhere / "file").read_bytes() == b"theirs"


# --- races, without chance ------------------------------------------------------------------------


def exchange(folder: Path, elsewhere: Path) -> None:
    """What an attacker does between a check and its use."""
    folder.rename(folder.with_name("was"))
    folder.symlink_to(elsewhere)


def test_a_folder_exchanged_for_a_link_while_a_file_is_written_aside(
    root: Path, elsewhere: Path
) -> None:
    writing = prepare_write(root / "a" / "b" / "file", b"ours", within=root)
    exchange(root / "a" / "b", elsewhere / "b")
    before = state(elsewhere)

    with pytest.raises(LinkOnTheWayError):
        writing.put_in_place()
    failed = replace_together([])
    writing.drop()

    assert not failed
    assert state(elsewhere) == before


def test_many_files_whose_folder_is_exchanged_fail_one_by_one(root: Path, elsewhere: Path) -> None:
    paths = [root / "a" / "b" / "file", root / "a" / "other"]
    writes = [prepare_write(path, b"ours", within=root) for path in paths]
    exchange(root / "a" / "b", elsewhere / "b")
    before = state(elsewhere)

    with pytest.raises(FileSystemError):  # what was written aside is not there any more
        replace_together(writes)
    for write in writes:
        write.drop()

    assert state(elsewhere) == before


def test_an_open_folder_stays_the_one_that_was_opened(root: Path, elsewhere: Path) -> None:
    with open_folder(root / "a" / "b", root) as folder:
        exchange(root / "a" / "b", elsewhere)
        os.close(folder.open("file", os.O_WRONLY | os.O_CREAT | os.O_TRUNC))

    assert (elsewhere / "file").read_bytes() == b"theirs"
    assert (root / "a" / "was" / "file").read_bytes() == b""


def test_a_folder_that_becomes_a_link_while_it_is_made(
    root: Path, elsewhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make = os.mkdir

    def make_and_exchange(name: str, mode: int, *, dir_fd: int | None = None) -> None:
        make(name, mode, dir_fd=dir_fd)
        exchange(root / "a" / name, elsewhere)

    monkeypatch.setattr(os, "mkdir", make_and_exchange)
    with pytest.raises(LinkOnTheWayError):
        make_directory(root / "a" / "new" / "inner", within=root)

    assert not (elsewhere / "inner").exists()


# --- laws -----------------------------------------------------------------------------------------

NAMES = st.sampled_from(["a", "b", "c"])
PATHS = st.lists(NAMES, min_size=1, max_size=4).map("/".join)


@settings(max_examples=150, deadline=None)
@given(
    folders=st.lists(PATHS, max_size=4),
    links=st.lists(st.tuples(PATHS, st.one_of(PATHS, st.just("../outside"))), max_size=3),
    asked=PATHS,
)
def test_a_way_down_is_the_plain_one_or_refused(
    tmp_path_factory: pytest.TempPathFactory,
    folders: list[str],
    links: list[tuple[str, str]],
    asked: str,
) -> None:
    top = tmp_path_factory.mktemp("laws")
    root = top / "root"
    for place in (root, top / "outside"):
        place.mkdir()
    for folder in folders:
        (root / folder).mkdir(parents=True, exist_ok=True)
    for link, target in links:
        if (root / link).parent.is_dir() and not os.path.lexists(root / link):
            (root / link).symlink_to(top / "outside" if target == "../outside" else root / target)
    path = root / asked
    is_plain = not any(one.is_symlink() for one in (path, *path.parents) if one != top)
    outcomes: set[tuple[int, int] | str] = set()
    for call in (beneath._open_at_once, lambda _root, _segments: None):
        before, beneath._open_at_once = beneath._open_at_once, call
        try:
            with open_folder(path, root) as entered:
                status = os.fstat(entered._descriptor or -1)
                outcomes.add((status.st_dev, status.st_ino))
        except LinkOnTheWayError:
            outcomes.add("link")
        except FileNotFoundError:
            outcomes.add("missing")
        finally:
            beneath._open_at_once = before
    (outcome,) = outcomes

    if outcome == "link":
        assert not is_plain
    elif outcome == "missing":
        assert not path.is_dir() or not is_plain
    else:
        status = path.stat()
        assert is_plain
        assert outcome == (status.st_dev, status.st_ino)
