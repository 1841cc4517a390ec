"""Depth of JSON, and ids of messages that are too deep to be read."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lillux.jsonrpc import (
    INVALID_REQUEST,
    SEARCHED_BYTES,
    MalformedMessage,
    Request,
    id_of_text,
    is_deeper,
    parse_messages,
)

SCALARS = st.none() | st.booleans() | st.integers() | st.text(max_size=8)
JSON: st.SearchStrategy[Any] = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3)
    ),
    max_leaves=12,
)
IDS = st.integers() | st.text(max_size=8)
NAMES = st.text(max_size=4).filter(lambda name: name != "id")
MEMBERS = st.dictionaries(NAMES, SCALARS, max_size=3)
DEEP = "[" * 100_000 + "]" * 100_000


def depth_of(value: object) -> int:
    inner: list[Any] = []
    if isinstance(value, dict):
        inner = list(value.values())
    elif isinstance(value, list):
        inner = value
    else:
        return 0
    return 1 + max(map(depth_of, inner), default=0)


def joined(*members: dict[str, Any] | str) -> bytes:
    """An object of these members, those that are text as they are."""
    texts = [one if isinstance(one, str) else json.dumps(one)[1:-1] for one in members]
    return ("{" + ", ".join(text for text in texts if text) + "}").encode()


@given(JSON, st.integers(0, 6))
def test_a_value_is_too_deep_if_it_has_more_levels_than_the_limit(value: Any, most: int) -> None:  # noqa: ANN401
    assert is_deeper(value, most) == (depth_of(value) > most)


@given(MEMBERS, IDS, MEMBERS)
def test_an_id_is_found_with_only_scalars_at_one_of_its_sides(
    before: dict[str, Any], given_id: str | int, after: dict[str, Any]
) -> None:
    deep = f'"params": {DEEP}'

    assert id_of_text(joined(before, {"id": given_id}, after, deep, {"z": 1})) == given_id
    assert id_of_text(joined(deep, before, {"id": given_id}, after)) == given_id


@pytest.mark.parametrize(
    "text",
    [
        joined({"jsonrpc": "2.0"}, f'"a": {DEEP}', {"id": 1}, f'"b": {DEEP}'),
        joined(f'"a": [{{"id": 1}}, {DEEP}]'),
        joined(f'"a": {{"id": 1, "b": {DEEP}}}'),
        joined(f'"a": {DEEP}', {"id": "x" * SEARCHED_BYTES}),
        joined({"id": None}, f'"a": {DEEP}'),
        joined({"id": 1.5}, f'"a": {DEEP}'),
        joined({"text": ', "id": 5}'}, f'"a": {DEEP}'),
        b'[{"a":' + DEEP.encode() + b',"id":5}]',
        b'"a","id":5}',
        b'{"a":1,"id":5',
        b"",
        b"{" * 100_000,
        b',"id":1' * 2_000_000,
    ],
    ids=range(13),
)
def test_any_other_id_is_not_found(text: bytes) -> None:
    assert id_of_text(text) is None


@given(st.binary(max_size=300))
def test_any_bytes_are_accepted(text: bytes) -> None:
    id_of_text(text)


@pytest.mark.parametrize("depth", [3, 4, 50, 2_000, 300_000])
def test_a_message_with_more_levels_is_refused_by_its_id(depth: int) -> None:
    nested = "[" * (depth - 2) + "]" * (depth - 2)
    text = joined({"jsonrpc": "2.0", "id": 7, "method": "m"}, f'"params": {{"a": {nested}}}')

    (message,) = parse_messages(text, max_depth=3)

    if depth == 3:
        assert isinstance(message, Request)
    else:
        assert isinstance(message, MalformedMessage)
        assert (message.code, message.id) == (INVALID_REQUEST, 7)
