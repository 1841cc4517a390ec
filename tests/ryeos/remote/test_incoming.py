"""Content on its way into a project."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from lillux.cas.errors import ObjectMissingError
from lillux.cas.store import Store
from lillux.digests import sha256_hex
from lillux.errors import LilluxError
from ryeos.remote.incoming import Incoming, incoming_at

Open = Callable[[], Incoming]


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Open]:
    """Opens the file, as often as a test wants."""
    with ExitStack() as stack:

        def open_it() -> Incoming:
            incoming = Incoming(tmp_path / "incoming", Store(tmp_path / "store"))
            stack.callback(incoming.close)
            return incoming

        yield open_it


def test_what_came_before_a_cut_is_there_afterwards(opened: Open) -> None:
    first = opened()
    digests = [first.put_blob(data) for data in (b"one", b"", b"two" * 1000)]
    first.close()

    again = opened()

    assert [again.get_blob(digest) for digest in digests] == [b"one", b"", b"two" * 1000]


def test_half_a_piece_is_none(tmp_path: Path, opened: Open) -> None:
    first = opened()
    whole, half = first.put_blob(b"whole"), first.put_blob(b"half of this")
    first.close()
    path = tmp_path / "incoming"
    path.write_bytes(path.read_bytes()[:-4])

    again = opened()

    assert again.get_blob(whole) == b"whole"
    assert not again.has_blob(half)
    assert again.get_blob(again.put_blob(b"half of this")) == b"half of this"


def test_bytes_that_were_meddled_with_are_missing(tmp_path: Path, opened: Open) -> None:
    first = opened()
    digest = first.put_blob(b"sound")
    first.close()
    path = tmp_path / "incoming"
    path.write_bytes(path.read_bytes().replace(b"sound", b"other"))

    again = opened()

    with pytest.raises(ObjectMissingError):
        again.get_blob(digest)
    assert not again.has_blob(digest)


def test_a_file_of_something_else_is_empty(tmp_path: Path, opened: Open) -> None:
    tmp_path.joinpath("incoming").write_bytes(b"z" * 500)

    incoming = opened()

    assert incoming.get_blob(incoming.put_blob(b"new")) == b"new"


def test_a_link_is_not_followed(tmp_path: Path, opened: Open) -> None:
    tmp_path.joinpath("elsewhere").write_bytes(b"mine")
    tmp_path.joinpath("incoming").symlink_to(tmp_path / "elsewhere")

    with pytest.raises(LilluxError):
        opened()

    assert tmp_path.joinpath("elsewhere").read_bytes() == b"mine"


def test_it_is_gone_once_it_was_used(tmp_path: Path) -> None:
    with incoming_at(tmp_path / "incoming", Store(tmp_path / "store")) as incoming:
        incoming.put_blob(b"one")

    assert not tmp_path.joinpath("incoming").exists()


def test_it_stays_where_using_it_went_wrong(tmp_path: Path, opened: Open) -> None:
    def use() -> None:
        with incoming_at(tmp_path / "incoming", Store(tmp_path / "store")) as incoming:
            incoming.put_blob(b"one")
            raise KeyError

    with pytest.raises(KeyError):
        use()

    digest = sha256_hex(b"one")
    assert opened().get_blob(digest) == b"one"
