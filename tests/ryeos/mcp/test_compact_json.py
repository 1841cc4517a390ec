import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from ryeos.mcp.wire import compact

TEXTS = st.text(st.characters(codec=None))
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXTS,
    lambda inner: st.lists(inner) | st.dictionaries(TEXTS, inner),
    max_leaves=20,
)


@given(VALUES)
def test_any_value_becomes_one_strict_line(value: Any) -> None:  # noqa: ANN401 - JSON
    text = compact(value)

    def refuse(constant: str) -> None:
        raise AssertionError(constant)

    json.loads(text.encode("utf-8"), parse_constant=refuse)
    assert "\n" not in text


def test_values_that_json_does_not_have_are_replaced() -> None:
    value = {"a": float("nan"), "b": [float("-inf"), 1.5], "c": "x\ud800y", "d": {1: object}}

    assert compact(value) == (
        '{"a":null,"b":[null,1.5],"c":"x\ufffdy","d":{"1":"<class \'object\'>"}}'
    )
