from pathlib import Path

import pytest

from ryeos.run.threads.log import CHUNK_BYTES, MOST_TEXT_BYTES, ThreadLog
from ryeos.run.threads.place import ThreadsPlace
from ryeos.run.threads.registry import ThreadRegistry
from ryeos.run.threads.thread import Status, Thread

ID = "mine/x/x-1"


@pytest.fixture
def log(place: ThreadsPlace) -> Path:
    place.make_thread_folder(ID)
    return place.file(ID, "spawn.log")


def test_a_thread_that_never_ran_has_an_empty_log(place: ThreadsPlace) -> None:
    assert list(ThreadLog(place, ID).chunks()) == []
    assert ThreadLog(place, ID).text() == ("", False)


def test_a_log_of_any_length_is_read_whole(place: ThreadsPlace, log: Path) -> None:
    data = bytes(range(256)) * (CHUNK_BYTES // 100)
    log.write_bytes(data)

    assert b"".join(ThreadLog(place, ID).chunks()) == data


def test_as_text_only_the_end_of_a_long_log_is_given(place: ThreadsPlace, log: Path) -> None:
    log.write_bytes(b"begin" + b"x" * (MOST_TEXT_BYTES - 3) + b"end")

    text, cut = ThreadLog(place, ID).text()

    assert (len(text), text[-4:], cut) == (MOST_TEXT_BYTES, "xend", True)


def test_following_an_ended_thread_ends(place: ThreadsPlace, log: Path) -> None:
    log.write_bytes(b"all of it")
    registry = ThreadRegistry(place)
    registry.register(Thread(thread_id=ID, directive="mine/x"))
    registry.finish(ID, Status.COMPLETED)

    assert list(ThreadLog(place, ID).follow(registry)) == [b"all of it"]
