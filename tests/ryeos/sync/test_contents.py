from pathlib import Path

import pytest

from lillux.store import Store
from lillux.store_errors import ObjectMissingError
from ryeos.sync.contents import Contents, LayeredContents


@pytest.fixture
def stores(tmp_path: Path) -> tuple[Store, Store]:
    """Two stores, both empty."""
    return Store(tmp_path / "first"), Store(tmp_path / "second")


def test_contents_are_read_from_the_first_store_that_has_them(stores: tuple[Store, Store]) -> None:
    first, second = stores
    blob, value = second.put_blob(b"x"), second.put_object({"n": 1})

    both: Contents = LayeredContents(first, second)

    assert (both.get_blob(blob), both.get_object(value)) == (b"x", {"n": 1})
    assert (both.has_blob(blob), both.has_object(value)) == (True, True)
    assert (both.has_blob(value), both.has_object(blob)) == (False, False)


def test_contents_are_written_into_the_first_store(stores: tuple[Store, Store]) -> None:
    first, second = stores
    both = LayeredContents(first, second)

    blob, value = both.put_blob(b"x"), both.put_object({"n": 1})

    assert (first.has_blob(blob), first.has_object(value)) == (True, True)
    assert (second.has_blob(blob), second.has_object(value)) == (False, False)


def test_contents_in_no_store_are_missing(stores: tuple[Store, Store]) -> None:
    both = LayeredContents(*stores)

    for get in (both.get_blob, both.get_object):
        with pytest.raises(ObjectMissingError):
            get("0" * 64)
