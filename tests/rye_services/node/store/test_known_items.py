from rye_services.node.store.objects import KnownItems


def digest(number: int) -> str:
    return f"{number:064x}"


def test_the_blob_of_an_item_is_cached() -> None:
    known = KnownItems()

    known.remember(digest(1), digest(2))

    assert (known.blob_of(digest(1)), known.blob_of(digest(2))) == (digest(2), None)


def test_the_least_recently_used_items_are_forgotten() -> None:
    known = KnownItems(limit=4)
    known.remember(digest(1), digest(1))
    known.remember(digest(2), digest(2))
    known.remember(digest(3), digest(3))

    assert known.blob_of(digest(1)) == digest(1)
    known.remember(digest(4), digest(4))
    known.remember(digest(5), digest(5))

    assert (known.blob_of(digest(2)), known.blob_of(digest(1))) == (None, digest(1))
