from typing import Any

import pytest

from ryeos.items.errors import VerbArgumentError
from ryeos.items.refs import Kind
from ryeos.search.filters import conditions, wants_verification
from tests.support.corpus import record

ITEM = record(
    "media/png/resize",
    version="1.2.0",
    author="Ada",
    tags=["a", "B"],
    created_at="2026-01-31T10:00:00+02:00",
    metadata={"level": 3},
    signed=True,
)


def passes(filters: dict[str, Any], item: Any = ITEM) -> bool:  # noqa: ANN401 - a record
    """Whether an item meets all of the conditions."""
    return all(condition(item) for condition in conditions(filters))


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ({"author": "ada"}, True),
        ({"author": "ad"}, False),
        ({"author": "!bob"}, True),
        ({"author": "!ADA"}, False),
        ({"missing": "!x"}, True),
        ({"missing": "x"}, False),
        ({"tags": "b"}, True),
        ({"tags": "!b"}, False),
        ({"tags": ["x", "a"]}, True),
        ({"tags": ["x", "y"]}, False),
        ({"level": 3}, True),
        ({"level": "3"}, True),
        ({"version": ">=1.2"}, True),
        ({"version": "> 1.2"}, False),
        ({"version": "<2"}, True),
        ({"version": "<=1.1.9"}, False),
        ({"author": ">=1"}, False),
        ({"missing": ">=1"}, False),
        ({"version": [">2", "<1.5"]}, True),
        ({"signed": True}, True),
        ({"signed": False}, False),
        ({"category": "media/png"}, True),
        ({"category": "media"}, False),
        ({"category": "media/*"}, True),
        ({"category": "med/*"}, False),
        ({"type": "tool", "name": "resize", "id": "media/png/resize"}, True),
        ({"date_from": "2026-01-31"}, True),
        ({"date_from": "2026-01-31T08:00:01Z"}, False),
        ({"date_to": "2026-01-31"}, True),
        ({"date_to": "2026-01-30"}, False),
        ({"author": "ada", "signed": False}, False),
        ({"verify": True}, True),
        ({}, True),
    ],
)
def test_filters_match_as_documented(filters: dict[str, Any], expected: bool) -> None:  # noqa: FBT001
    assert passes(filters) is expected


def test_an_item_without_a_date_is_left_out_by_dates() -> None:
    assert not passes({"date_to": "2030-01-01"}, record())
    assert not passes({"date_from": "1990-01-01"}, record("x", Kind.KNOWLEDGE, created_at="soon"))


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("version", ">=new", "a version like >=1.2"),
        ("date_from", "yesterday", "a date like 2026-01-31 or 2026-01-31T12:00:00Z"),
        ("date_to", 5, "a date like 2026-01-31 or 2026-01-31T12:00:00Z"),
        ("signed", "yes", "true or false"),
        ("author", {"a": 1}, "a text, a number, true or false, or a list of these"),
        ("author", None, "a text, a number, true or false, or a list of these"),
    ],
)
def test_an_invalid_filter_is_refused_with_the_expected_value(
    name: str, value: object, expected: str
) -> None:
    with pytest.raises(VerbArgumentError) as error:
        conditions({name: value})

    assert error.value.facts == {
        "argument": f"filters.{name}", "field": name, "value": value, "expected": expected,
    }  # fmt: skip


def test_verification_is_requested_with_true() -> None:
    assert wants_verification({"verify": True})
    assert not wants_verification({})
    with pytest.raises(
        VerbArgumentError, match=r"filters.verify: expected true or false, found 'yes'"
    ):
        wants_verification({"verify": "yes"})
