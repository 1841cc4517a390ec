import json
from datetime import date
from hashlib import sha256
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lillux.canonical_json import (
    CanonicalJsonError,
    canonical_json,
    compute_integrity,
    json_pointer,
)
from lillux.digests import sha256_hex

JSON_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


def test_canonical_json_sorts_keys_and_has_no_blanks() -> None:
    value = {"b": [1, 2.5, None, True], "a": {"d": "x", "c": ()}}

    text = canonical_json(value)

    assert text == b'{"a":{"c":[],"d":"x"},"b":[1,2.5,null,true]}'


def test_canonical_json_is_ascii() -> None:
    value = "é\u2028\x7f\n😀\ud800"

    text = canonical_json(value)

    assert text == rb'"\u00e9\u2028\u007f\n\ud83d\ude00\ud800"'


@pytest.mark.property
@given(JSON_VALUES)
def test_canonical_json_reads_back_as_the_same_value(value: object) -> None:
    text = canonical_json(value)

    assert json.loads(text) == value


@pytest.mark.property
@given(st.dictionaries(st.text(), JSON_VALUES))
def test_the_digest_does_not_depend_on_the_order_of_keys(value: dict[str, Any]) -> None:
    backwards = dict(reversed(value.items()))

    assert compute_integrity(backwards) == compute_integrity(value)


def test_the_digest_is_the_sha256_of_the_canonical_json() -> None:
    value = {"name": "tool", "version": 1}

    digest = compute_integrity(value)

    assert digest == sha256(b'{"name":"tool","version":1}').hexdigest()
    assert digest == sha256_hex(canonical_json(value))


CYCLE: list[object] = []
CYCLE.append(CYCLE)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"a": [1, float("nan")]}, "/a/1: expected a finite number, found NaN"),
        (float("-inf"), "(root): expected a finite number, found -Infinity"),
        ({"a/b~": {1: 2}}, "/a~1b~0: expected keys that are text, found one of type int"),
        ({"on": date(2026, 1, 2)}, "/on: expected a JSON value, found date"),
        ([b"x"], "/0: expected a JSON value, found bytes"),
        ([1 << 10_000], "/0: expected an integer of at most 10000 bits, found a larger one"),
        (CYCLE, "/0" * 128 + ": expected at most 128 levels of nesting, found more"),
    ],
)
def test_a_value_that_json_cannot_hold_is_refused_with_its_path(
    value: object, message: str
) -> None:
    with pytest.raises(CanonicalJsonError) as error:
        canonical_json(value)

    assert str(error.value) == message


def test_128_levels_of_nesting_are_accepted() -> None:
    value: list[object] = []
    for _ in range(127):
        value = [value]

    text = canonical_json(value)

    assert text == b"[" * 128 + b"]" * 128


def test_the_pointer_of_a_path_escapes_tilde_and_slash() -> None:
    assert json_pointer(()) == ""
    assert json_pointer(("a/b", 0, "~1", "")) == "/a~1b/0/~01/"
