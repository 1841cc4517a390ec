from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ryeos.items.yaml import parse_yaml
from ryeos.items.yaml_text import yaml_text

TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**60), 2**60)
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=20,
)


@given(st.dictionaries(TEXTS, VALUES, min_size=1, max_size=5))
def test_written_values_are_read_as_they_were(values: dict[str, Any]) -> None:
    assert parse_yaml(yaml_text(values), "test") == values


@pytest.mark.parametrize("word", ["yes", "No", "on", "null", "~", "1.0", "0x1f", "1_000", "12:30"])
def test_words_of_yaml_stay_text(word: str) -> None:
    assert parse_yaml(yaml_text({word: [word, {word: word}]}), "") == {word: [word, {word: word}]}


def test_numbers_stay_numbers() -> None:
    values = {"a": 1e-07, "b": [1e300, -2.5, 10**30], "c": {"d": 1e16}}

    assert parse_yaml(yaml_text(values), "") == values


def test_half_a_character_becomes_a_replacement_character() -> None:
    assert parse_yaml(yaml_text({"a": "x\ud800y"}), "") == {"a": "x\N{REPLACEMENT CHARACTER}y"}


@pytest.mark.parametrize("value", [{1: 2}, {"a": float("nan")}, {"a": object()}, {"a": {"b": b""}}])
def test_a_value_that_is_no_json_is_refused(value: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"expected|Out of range"):
        yaml_text(value)
