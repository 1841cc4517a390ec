import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lillux.jsonc import MAX_DEPTH, Dialect, TextSyntaxError, parse

TREES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@pytest.mark.property
@given(TREES, st.sampled_from(list(Dialect)), st.sampled_from([None, 2]))
def test_json_is_read_as_by_the_standard_library(
    value: Any,  # noqa: ANN401
    dialect: Dialect,
    indent: int | None,
) -> None:
    assert parse(json.dumps(value, indent=indent), dialect).value == value


@pytest.mark.property
@given(st.text(alphabet='{}[]",:/* \n\\a1-.eu\x00'))
def test_invalid_json_is_refused_as_by_the_standard_library(text: str) -> None:
    def read(by: Any) -> Any:  # noqa: ANN401
        try:
            return by(text)
        except (TextSyntaxError, ValueError):
            return "refused"

    assert read(lambda text: parse(text, Dialect.JSON).value) == read(json.loads)


def test_comments_and_a_last_comma_are_read_where_they_are_allowed() -> None:
    text = '// a\n{"a": [1, /* b */ 2,], // c\n /* d *//* e */ "b": "//",}\n// end'

    assert parse(text, Dialect.JSONC).value == {"a": [1, 2], "b": "//"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "line 1, column 1: expected a value, found the end of the file"),
        (
            '{"a": 1,}',
            "line 1, column 8: expected no comma before '}', which this file may not have",
        ),
        ("[1,\n]", "line 1, column 3: expected no comma before ']', which this file may not have"),
        ("{}\n// x", "line 2, column 1: expected no comment, which this file may not have"),
        ('{\n  "a" 1}', "line 2, column 7: expected ':', found '1'"),
        ('{"a": 1 "b": 2}', "line 1, column 9: expected ',' or '}', found '\"'"),
        ("{a: 1}", "line 1, column 2: expected a name between quotes or '}', found 'a'"),
        ('"a\nb"', "line 1, column 3: expected a text between quotes, found '\\n'"),
        ('"\x00"', "line 1, column 2: expected a text between quotes, found '\\x00'"),
        ("{} {}", "line 1, column 4: expected the end of the file, found '{'"),
        ("1" * 5000, "line 1, column 1: expected a number of at most 4000 digits, found '1'"),
        ("[" * (MAX_DEPTH + 2), f"line 1, column 102: expected at most {MAX_DEPTH} levels"),
    ],
)
def test_an_error_names_the_place(text: str, message: str) -> None:
    with pytest.raises(TextSyntaxError) as error:
        parse(text, Dialect.JSON)

    assert str(error.value).startswith(message)


def test_a_comment_that_does_not_end_is_refused() -> None:
    with pytest.raises(TextSyntaxError, match="expected the end of a comment"):
        parse("{} /* x", Dialect.JSONC)
