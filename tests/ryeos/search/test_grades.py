import pytest
from hypothesis import given
from hypothesis import strategies as st

from ryeos.search.grades import Counts, pattern_of
from ryeos.search.words import identifiers, normalized, word_of


def counts(term: str, name: str, max_distance: int = 0) -> Counts:
    """How often an identifier has a term: exact, start, close, inside."""
    return pattern_of(term, max_distance).counts(word_of(name))


@pytest.mark.parametrize(
    ("term", "name", "expected"),
    [
        ("resize", "resize", (1, 0, 0, 0)),
        ("RESIZE", "resize", (1, 0, 0, 0)),
        ("state", "stateGraph", (1, 0, 0, 0)),
        ("bash", "rye/bash/bash", (2, 0, 0, 0)),
        ("rye/bash", "rye/bash/bash", (0, 1, 0, 0)),
        ("res", "resize", (0, 1, 0, 0)),
        ("re", "resize", (0, 0, 0, 0)),
        ("size", "resize", (0, 0, 0, 1)),
        ("siz", "resize", (0, 0, 0, 0)),
        ("e-gr", "state-graph", (0, 0, 0, 1)),
        ("video", "resize", (0, 0, 0, 0)),
        ("検", "検索", (0, 1, 0, 0)),
        ("r*e", "resize", (1, 0, 0, 0)),
        ("r?size", "resize", (1, 0, 0, 0)),
        ("r?ize", "resize", (0, 0, 0, 0)),
        ("gr*", "state-graph", (1, 0, 0, 0)),
        ("rye/*", "rye/bash/bash", (1, 0, 0, 0)),
        ("[r]*", "resize", (0, 0, 0, 0)),
    ],
)
def test_a_term_matches_a_word_as_documented(term: str, name: str, expected: Counts) -> None:
    assert counts(term, name) == expected


@pytest.mark.parametrize(
    ("term", "name", "slips", "close"),
    [
        ("resise", "resize", 1, True),
        ("resiez", "resize", 1, False),
        ("resiez", "resize", 2, True),
        ("tesise", "resize", 2, False),
        ("tesize", "resize", 2, True),
        ("grpah", "state-graph", 2, True),
        ("x", "y", 1, False),
    ],
)
def test_a_fuzzy_term_allows_typing_errors(term: str, name: str, slips: int, close: bool) -> None:  # noqa: FBT001
    assert (counts(term, name, slips) == (0, 0, 1, 0)) is close


@pytest.mark.property
@given(st.text(max_size=12), st.text(max_size=20), st.integers(0, 2))
def test_a_matching_word_has_one_of_the_pieces(term: str, text: str, slips: int) -> None:
    pattern = pattern_of(term, slips)

    for name in identifiers(normalized(text)):
        word = word_of(name)
        if any(pattern.counts(word)):
            assert any(piece in word.whole for piece in pattern.pieces)


def test_a_pattern_with_many_stars_is_matched_in_time() -> None:
    assert counts("a*" * 30 + "b", "a" * 5000) == (0, 0, 0, 0)
