from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from lillux.process.model import BoundedCapture, CapturedStream


def capture(max_bytes: int, *chunks: bytes) -> CapturedStream:
    bounded = BoundedCapture(max_bytes)
    for chunk in chunks:
        bounded.feed(chunk)
    return bounded.captured()


def test_a_stream_at_the_limit_is_kept_whole() -> None:
    captured = capture(10, b"01234", b"56789")

    assert captured == CapturedStream(data=b"0123456789", total_bytes=10)
    assert not captured.truncated


def test_of_a_longer_stream_both_halves_and_a_marker_are_kept() -> None:
    captured = capture(10, b"0123456", b"789abcdef")

    assert captured.data == b"01234\n... [6 bytes left out] ...\nbcdef"
    assert captured.total_bytes == 16
    assert captured.truncated


def test_a_limit_of_zero_keeps_only_the_marker() -> None:
    captured = capture(0, b"abc")

    assert captured.data == b"\n... [3 bytes left out] ...\n"


@given(stream=st.binary(max_size=200), max_bytes=st.integers(0, 100), data=st.data())
def test_the_way_a_stream_is_cut_changes_nothing(
    stream: bytes, max_bytes: int, data: st.DataObject
) -> None:
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)))))
    chunks = [stream[start:end] for start, end in pairwise([0, *cuts, len(stream)])]

    captured = capture(max_bytes, *chunks)

    assert captured == capture(max_bytes, stream)
    assert captured.truncated == (len(stream) > max_bytes)
    assert captured.total_bytes - captured.left_out_bytes == min(len(stream), max_bytes)


@given(stream=st.binary(min_size=1, max_size=200), max_bytes=st.integers(0, 100))
def test_the_two_ends_of_the_stream_are_kept(stream: bytes, max_bytes: int) -> None:
    half = max_bytes // 2
    head, tail = stream[: max_bytes - half], stream[len(stream) - half :]
    marker = b"\n... [%d bytes left out] ...\n" % (len(stream) - max_bytes)

    captured = capture(max_bytes, stream)

    assert captured.data == (head + marker + tail if len(stream) > max_bytes else stream)
