"""Server-sent events, by the grammar of the HTML standard."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lillux.sse import EventParser, EventTooLargeError, ServerSentEvent


def parse(*pieces: bytes) -> list[ServerSentEvent]:
    parser = EventParser()
    return [event for piece in pieces for event in parser.feed(piece)]


def event(data: str, **more: object) -> ServerSentEvent:
    return ServerSentEvent(data=data, **more)  # type: ignore[arg-type] # fields of the event


@pytest.mark.parametrize("end", [b"\n", b"\r", b"\r\n"])
def test_lines_end_in_three_ways(end: bytes) -> None:
    text = end.join([b"event: add", b"data: 1", b"data: 2", b"id: 7", b"", b"data:3", b"", b""])

    assert parse(text) == [event("1\n2", event="add", id="7"), event("3", id="7")]


@pytest.mark.parametrize(
    ("text", "events"),
    [
        (b"", []),
        (b": comment\n\ndata: x\n\n", [event("x")]),
        (b"\xef\xbb\xbfdata: x\n\n", [event("x")]),
        (b"\xef\xbb\xbf\xef\xbb\xbfdata: x\n\n", []),
        (b"data: x\n\n\xef\xbb\xbfdata: y\n\n", [event("x")]),
        (b"data: x", []),
        (b"data: x\n", []),
        (b"data\n\n", [event("")]),
        (b"data\ndata\n\n", [event("\n")]),
        (b"data:  two blanks\n\n", [event(" two blanks")]),
        (b"data:a:b\n\n", [event("a:b")]),
        (b"event: e\n\ndata: x\n\n", [event("x")]),
        (b"event:\ndata: x\n\n", [event("x")]),
        (b"id: 1\ndata: x\n\nid\ndata: y\n\n", [event("x", id="1"), event("y")]),
        (b"id: 1\nid: 2\0\ndata: x\n\n", [event("x", id="1")]),
        (b"retry: 100\ndata: x\n\n", [event("x", retry_ms=100)]),
        (b"retry: 1e3\nretry: -1\nretry:\ndata: x\n\n", [event("x")]),
        (b"unknown: 1\nDATA: 2\n data: 3\ndata: x\n\n", [event("x")]),
        (b"data: \xff\n\n", [event("\ufffd")]),
        ("data: \u2028\x85\x0b\n\n".encode(), [event("\u2028\x85\x0b")]),
    ],
)
def test_a_stream_has_these_events(text: bytes, events: list[ServerSentEvent]) -> None:
    assert parse(text) == events


def test_retry_times_and_ids_are_kept_without_an_event() -> None:
    parser = EventParser()
    parser.feed(b"id: 9\nretry: 5\n\n")

    assert (parser.last_event_id, parser.retry_ms) == ("9", 5)


PIECES = st.sampled_from(
    [
        *(b"data: a", b"data:", b"id: 1", b"event: e", b"retry: 1", b":", b"\xff", b"\0"),
        *(b"\n", b"\r", b"\r\n", b"\n\n", b"\xef\xbb\xbf", "\u00e9".encode()),
    ]
)


@pytest.mark.property
@given(st.lists(PIECES, max_size=30).map(b"".join), st.lists(st.integers(0, 100)))
def test_any_split_of_the_bytes_gives_the_same_events(text: bytes, cuts: list[int]) -> None:
    places = sorted({0, len(text), *(min(cut, len(text)) for cut in cuts)})
    pieces = [text[start:end] for start, end in pairwise(places)]

    assert parse(*pieces) == parse(text)
    assert parse(*(text[i : i + 1] for i in range(len(text)))) == parse(text)


@pytest.mark.parametrize(
    "text", [b"data: " + b"x" * 100, b"data: xxxxxxxxx\n" * 10, b":" + b"x" * 99]
)
def test_an_event_without_end_is_refused(text: bytes) -> None:
    parser = EventParser(max_event_bytes=64)

    def feed() -> None:
        for start in range(0, len(text), 7):
            parser.feed(text[start : start + 7])

    with pytest.raises(EventTooLargeError) as error:
        feed()

    assert str(error.value) == "expected a server-sent event of at most 64 bytes, got more"


def test_many_small_events_are_no_large_one() -> None:
    assert len(EventParser(max_event_bytes=64).feed(b"data: x\n\n" * 1000)) == 1000


@pytest.mark.parametrize("half", [b"id: 2\ndata: half", b"id: 2\ndata: half\n", b"id: 2\n", b"id"])
def test_an_event_that_did_not_end_is_not_the_last_one(half: bytes) -> None:
    parser = EventParser()

    parser.feed(b"id: 1\ndata: x\n\n" + half)

    assert parser.last_event_id == "1"


def test_a_stream_that_continues_another_one_begins_with_a_new_event() -> None:
    parser = EventParser()
    parser.feed(b"retry: 7\nid: 1\ndata: x\n\nid: 2\nevent: e\ndata: ha")

    parser.begin_again()
    events = parser.feed(b"\xef\xbb\xbfdata: y\r\n\r\n")

    assert events == [event("y", id="1")]
    assert (parser.last_event_id, parser.retry_ms) == ("1", 7)
