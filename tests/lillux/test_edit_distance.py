import pytest
from hypothesis import given
from hypothesis import strategies as st

from lillux.spelling import edit_distance, likely_meant

WORDS = st.text("abc", max_size=8)


@pytest.mark.parametrize(
    ("first", "second", "distance"),
    [
        ("bash", "bash", 0),
        ("bahs", "bash", 1),
        ("bas", "bash", 1),
        ("bush", "bash", 1),
        ("", "ab", 2),
    ],
)
def test_typing_mistakes_are_counted(first: str, second: str, distance: int) -> None:
    assert edit_distance(first, second, 5) == distance


def test_a_swap_may_count_as_two() -> None:
    assert edit_distance("bahs", "bash", 5, swap_cost=2) == 2


def test_more_than_the_limit_is_the_limit_and_one() -> None:
    assert edit_distance("abc", "xyz", 1) == 2
    assert edit_distance("a", "abcdef", 1) == 2


@pytest.mark.property
@given(WORDS, WORDS, st.integers(0, 4), st.sampled_from([1, 2]))
def test_the_limit_only_cuts(first: str, second: str, limit: int, swap_cost: int) -> None:
    whole = edit_distance(first, second, 99, swap_cost=swap_cost)

    assert edit_distance(first, second, limit, swap_cost=swap_cost) == min(whole, limit + 1)
    assert edit_distance(second, first, 99, swap_cost=swap_cost) == whole
    assert (whole == 0) == (first == second)


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("dokter", "doctor"),
        ("serach", "search"),
        ("rn", "run"),
        ("audit", ""),
        ("", ""),
        ("stop", ""),
    ],
)
def test_a_word_is_likely_meant_with_at_most_a_third_of_its_letters_wrong(
    typed: str, meant: str
) -> None:
    assert likely_meant(typed, ("doctor", "search", "run", "edit", "store")) == meant
