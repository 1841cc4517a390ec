"""The decoder for Pythons without LZMA, compared with the standard module."""

import lzma
from contextlib import suppress
from hashlib import shake_128

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zipboot.lzma_alone import decompress
from zipboot.rare_sources import unpacked

MEBIBYTE = 1 << 20  # 64 of them, as the preset has it, take longer than all else
NOISE = shake_128(b"noise").digest(700)
SETTINGS = st.tuples(st.integers(0, 3), st.integers(0, 1), st.integers(0, 4))


def packed(data: bytes, settings: tuple[int, int, int] = (3, 0, 0)) -> bytes:
    """The data as a ``.lzma`` file, with these numbers of bits (lc, lp, pb)."""
    names = dict(zip(("lc", "lp", "pb"), settings, strict=True))
    filters = [{"id": lzma.FILTER_LZMA1, "preset": 9, "dict_size": MEBIBYTE, **names}]
    return lzma.compress(data, format=lzma.FORMAT_ALONE, filters=filters)


def repetitive() -> st.SearchStrategy[bytes]:
    """Data with near and far, short and long repetitions, and without any."""
    piece = st.one_of(
        st.binary(max_size=40),
        st.builds(lambda word, count: word * count, st.binary(max_size=9), st.integers(0, 400)),
        st.builds(lambda start, size: NOISE[start : start + size], *[st.integers(0, 700)] * 2),
    )
    return st.lists(piece, max_size=12).map(b"".join)


@pytest.mark.property
@given(repetitive(), SETTINGS)
def test_data_packed_by_lzma_is_unpacked(data: bytes, settings: tuple[int, int, int]) -> None:
    assert decompress(packed(data, settings)) == data


def test_distant_repetitions_are_unpacked() -> None:
    data = NOISE + shake_128(b"between").digest(40_000) + NOISE + NOISE[::-1]

    assert decompress(packed(data)) == data


@pytest.mark.property
@given(repetitive(), st.integers(0, 3000))
def test_unpacking_stops_at_the_requested_size(data: bytes, enough: int) -> None:
    found = decompress(packed(data), enough)

    assert data.startswith(found)
    assert min(len(data), enough) <= len(found) <= enough + 273  # the longest repetition


@pytest.mark.property
@given(repetitive(), st.integers(0, 3000))
def test_the_beginning_is_the_same_with_lzma(data: bytes, size: int) -> None:
    assert unpacked(packed(data), size) == data[:size]


@pytest.mark.property
@given(repetitive(), st.data())
def test_damaged_data_gives_an_error_or_other_data(data: bytes, drawn: st.DataObject) -> None:
    whole = bytearray(packed(data))
    whole[drawn.draw(st.integers(13, len(whole) - 1))] ^= drawn.draw(st.integers(1, 255))

    with suppress(ValueError, IndexError):
        decompress(bytes(whole), 100_000)


@pytest.mark.parametrize("size", [0, 13, 20])
def test_truncated_data_is_an_error(size: int) -> None:
    with pytest.raises((ValueError, IndexError)):
        decompress(packed(NOISE)[:size])
