"""Content on its way into a project."""

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from lillux.digests import sha256_hex
from lillux.errors import LilluxError
from lillux.store import Durability, Store
from lillux.store_errors import ObjectMissingError
from ryeos.items.errors import RyeError
from ryeos.remote.incoming import ReceivedContents, forget_incoming, incoming_at
from ryeos.remote.new_files import IS_SUPPORTED
from tests.support.errors import coded

Open = Callable[[], ReceivedContents]


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Open]:
    """A function that opens the folder."""
    with ExitStack() as stack:

        def open_folder() -> ReceivedContents:
            incoming = ReceivedContents(tmp_path / "incoming", Store(tmp_path / "store"))
            stack.callback(incoming.close)
            return incoming

        yield open_folder


def test_objects_received_before_an_interruption_are_kept(opened: Open) -> None:
    first = opened()
    digests = [first.put_blob(data) for data in (b"one", b"", b"two" * 1000)]
    first.close()

    again = opened()

    assert [again.get_blob(digest) for digest in digests] == [b"one", b"", b"two" * 1000]


def test_an_incomplete_object_is_missing(tmp_path: Path, opened: Open) -> None:
    first = opened()
    whole, half = first.put_blob(b"whole"), first.put_blob(b"half of this")
    first.close()
    path = tmp_path / "incoming" / half
    path.write_bytes(path.read_bytes()[:-4])

    again = opened()

    assert again.get_blob(whole) == b"whole"
    with pytest.raises(ObjectMissingError):
        again.get_blob(half)
    assert not again.has_blob(half)
    assert again.get_blob(again.put_blob(b"half of this")) == b"half of this"


def test_changed_objects_are_missing(tmp_path: Path, opened: Open) -> None:
    incoming = opened()
    digest = incoming.put_blob(b"sound")
    tmp_path.joinpath("incoming", digest).write_bytes(b"other")

    with pytest.raises(ObjectMissingError):
        incoming.get_blob(digest)

    assert not incoming.has_blob(digest)
    assert incoming.file_of(digest) is None


def test_only_files_written_by_this_process_are_moved_away(tmp_path: Path, opened: Open) -> None:
    first = opened()
    digest = first.put_blob(b"#!/bin/sh\n")
    first.close()

    again = opened()

    assert again.has_blob(digest)
    assert again.file_of(digest) is None
    again.put_blob(b"#!/bin/sh\n")
    file = again.file_of(digest)
    assert file == str(tmp_path / "incoming" / digest)
    assert Path(file).read_bytes() == b"#!/bin/sh\n"


@pytest.mark.skipif(os.name == "nt", reason="Windows has neither")
def test_links_in_the_place_of_an_object_are_replaced(tmp_path: Path, opened: Open) -> None:
    mine, folder = tmp_path / "mine", tmp_path / "incoming"
    mine.write_bytes(b"mine")
    folder.mkdir()
    linked, named_twice = sha256_hex(b"one"), sha256_hex(b"two")
    folder.joinpath(linked).symlink_to(mine)
    folder.joinpath(named_twice).hardlink_to(mine)
    incoming = opened()

    incoming.put_blob(b"one")
    incoming.put_blob(b"two")

    assert mine.read_bytes() == b"mine"
    assert folder.joinpath(linked).read_bytes() == b"one"
    assert not folder.joinpath(linked).is_symlink()
    assert folder.joinpath(named_twice).stat().st_nlink == 1


@pytest.mark.skipif(os.name == "nt", reason="Windows has none in folders")
def test_a_pipe_in_the_place_of_an_object_is_missing(tmp_path: Path, opened: Open) -> None:
    tmp_path.joinpath("incoming").mkdir()
    digest = sha256_hex(b"one")
    os.mkfifo(tmp_path / "incoming" / digest)

    with pytest.raises(ObjectMissingError):
        opened().get_blob(digest)


@pytest.mark.skipif(os.name == "nt", reason="Windows has other permissions")
def test_an_object_with_a_shebang_is_executable(opened: Open) -> None:
    incoming = opened()

    runnable = incoming.file_of(incoming.put_blob(b"#!/bin/sh\n"))
    plain = incoming.file_of(incoming.put_blob(b"text\n"))

    assert runnable is not None and plain is not None  # noqa: PT018 - for mypy
    assert os.access(runnable, os.X_OK)
    assert not Path(plain).stat().st_mode & 0o111


def test_small_objects_stay_in_memory(tmp_path: Path) -> None:
    store = Store(tmp_path / "store")
    incoming = ReceivedContents(tmp_path / "incoming", store, memory_bytes=20)

    small = incoming.put_object({"a": 1}, Durability.AT_SYNC)
    large = incoming.put_object({"a": "more than there is room for"}, Durability.AT_SYNC)

    assert incoming.get_object(small) == {"a": 1}
    assert incoming.has_object(large)
    assert not store.has_object(small)
    assert store.has_object(large)


def test_objects_of_an_interrupted_pull_are_downloaded_once(tmp_path: Path) -> None:
    store = Store(tmp_path / "store")
    incoming = ReceivedContents(tmp_path / "incoming", store)
    digest = incoming.put_object({"a": 1}, Durability.AT_SYNC)

    incoming.close()

    assert store.get_object(digest) == {"a": 1}


def test_many_objects_are_stored_by_one_sync(opened: Open) -> None:
    incoming = opened()
    digests = [incoming.put_blob(b"%d" % number) for number in range(100)]

    incoming.sync()
    incoming.sync()

    assert all(map(incoming.has_blob, digests))
    incoming.discard()


def test_objects_of_the_local_store_are_not_downloaded(tmp_path: Path) -> None:
    store = Store(tmp_path / "store")
    digest = store.put_blob(b"from before")

    incoming = ReceivedContents(tmp_path / "incoming", store)

    assert incoming.has_blob(digest)
    assert incoming.get_blob(digest) == b"from before"


def test_a_file_in_the_place_of_the_folder_is_reported(tmp_path: Path, opened: Open) -> None:
    tmp_path.joinpath("incoming").write_bytes(b"mine")

    with pytest.raises(LilluxError):
        opened()

    assert tmp_path.joinpath("incoming").read_bytes() == b"mine"


def test_a_link_is_not_followed(tmp_path: Path, opened: Open) -> None:
    tmp_path.joinpath("elsewhere").mkdir()
    tmp_path.joinpath("incoming").symlink_to(tmp_path / "elsewhere")

    with pytest.raises(RyeError, check=coded("INTEGRITY")):
        opened()

    assert list(tmp_path.joinpath("elsewhere").iterdir()) == []


def test_the_incoming_folder_is_removed_after_use(tmp_path: Path) -> None:
    with incoming_at(tmp_path / "incoming", Store(tmp_path / "store")) as incoming:
        incoming.put_blob(b"one")

    assert not tmp_path.joinpath("incoming").exists()


def test_the_incoming_folder_is_kept_after_an_error(tmp_path: Path, opened: Open) -> None:
    def use() -> None:
        with incoming_at(tmp_path / "incoming", Store(tmp_path / "store")) as incoming:
            incoming.put_blob(b"one")
            raise KeyError

    with pytest.raises(KeyError):
        use()

    digest = sha256_hex(b"one")
    assert opened().get_blob(digest) == b"one"


def test_the_incoming_folder_of_a_killed_pull_can_be_removed(tmp_path: Path, opened: Open) -> None:
    opened().put_blob(b"one")

    forget_incoming(tmp_path / "incoming")
    forget_incoming(tmp_path / "incoming")

    assert not tmp_path.joinpath("incoming").exists()


@pytest.mark.skipif(not IS_SUPPORTED, reason="this system moves no folders")
def test_bytes_of_a_new_file_are_written_at_its_path(tmp_path: Path, opened: Open) -> None:
    incoming = opened()
    incoming.place({sha256_hex(b"one"): "src/deep/a"})

    digest = incoming.put_blob(b"one")
    other = incoming.put_blob(b"two")

    arrived = incoming.ready_files()
    assert arrived.placed == {"src/deep/a": digest}
    assert Path(arrived.tree, "src/deep/a").read_bytes() == b"one"
    assert incoming.get_blob(digest) == b"one"
    assert incoming.file_of(other) == str(tmp_path / "incoming" / other)


@pytest.mark.skipif(not IS_SUPPORTED, reason="this system moves no folders")
def test_objects_placed_by_a_killed_pull_are_read_and_not_moved(opened: Open) -> None:
    first = opened()
    first.place({sha256_hex(b"one"): "src/a"})
    digest = first.put_blob(b"one")

    again = opened()

    assert again.get_blob(digest) == b"one"
    assert again.file_of(digest) is None
    assert not again.ready_files().placed


@pytest.mark.skipif(os.name == "nt", reason="Windows has neither")
def test_a_planted_tree_is_not_followed(tmp_path: Path, opened: Open) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    elsewhere.joinpath("mine").write_bytes(b"mine")
    tmp_path.joinpath("incoming/tree/src").mkdir(parents=True)
    tmp_path.joinpath("incoming/tree/link").symlink_to(elsewhere)
    os.mkfifo(tmp_path / "incoming/tree/src/pipe")
    first = opened()
    first.close()
    tmp_path.joinpath("incoming/tree").symlink_to(elsewhere)

    incoming = opened()
    incoming.place({sha256_hex(b"one"): "src/a"})
    incoming.put_blob(b"one")

    assert [path.name for path in elsewhere.iterdir()] == ["mine"]
