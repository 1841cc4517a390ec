from hashlib import shake_128

import pytest
from hypothesis import given
from hypothesis import strategies as st

from packing.natives import difference
from zipboot.natives import restored

NOISE = shake_128(b"noise").digest(20_000)


@given(st.binary(max_size=400), st.binary(max_size=400))
def test_any_file_is_restored_from_any_other(base: bytes, data: bytes) -> None:
    assert restored(base, difference(base, data)) == data


@given(st.data())
def test_an_edited_file_is_restored(drawn: st.DataObject) -> None:
    cut = drawn.draw(st.integers(0, len(NOISE)))
    data = NOISE[cut:] + drawn.draw(st.binary(max_size=99)) + NOISE[: cut // 2]

    assert restored(NOISE, difference(NOISE, data)) == data


def test_what_moved_costs_next_to_nothing() -> None:
    moved = NOISE[9_001:] + b"new" + NOISE[:9_001]

    told = difference(NOISE, moved)

    assert len(told.replace(b"\0", b"")) < 200


def test_what_changed_here_and_there_stays_in_its_place() -> None:
    changed = bytearray(NOISE)
    for place in range(0, len(changed), 50):
        changed[place] ^= 0x81

    told = difference(NOISE, bytes(changed))

    assert len(told.replace(b"\0", b"")) < len(NOISE) // 50 + 200


@pytest.mark.parametrize("cut", [0, 3, 4, 11, 12, 13, -1])
def test_a_difference_that_was_cut_gives_nothing(cut: int) -> None:
    assert restored(NOISE, difference(NOISE, NOISE[:300])[:cut]) == b""


def test_a_difference_of_too_many_runs_gives_nothing() -> None:
    assert restored(NOISE, b"\xff" * 40) == b""
