import warnings

import pytest

from ryeos.items.header_values import MetadataError
from ryeos.items.python_headers import parse_python


def test_top_level_literals_are_read() -> None:
    header = parse_python(
        '__version__ = "1.0.0"\nRETRIES = -3\nON = True\nNOTHING = None\nX = 0.5\n'
    )

    assert header == {
        "__version__": "1.0.0",
        "RETRIES": -3,
        "ON": True,
        "NOTHING": None,
        "X": 0.5,
    }


def test_an_annotated_assignment_counts() -> None:
    header = parse_python('__version__: str = "1.0.0"\nlater: int\n')

    assert header == {"__version__": "1.0.0"}


def test_the_last_literal_wins() -> None:
    header = parse_python('A = "first"\nA = "second"\nA = compute()\n')

    assert header == {"A": "second"}


def test_an_explicit_none_is_a_value_and_a_missing_name_is_not() -> None:
    header = parse_python("__executor_id__ = None\n")

    assert header == {"__executor_id__": None}


@pytest.mark.parametrize(
    "statement",
    [
        "A = f()",
        "A = {**B}",
        "A = f'{B}'",
        "A = B = 1",
        "A, B = 1, 2",
        "A += 1",
        "A.b = 1",
        "A[0] = 1",
        "if True:\n    A = 1",
        "def A():\n    B = 1",
        "class A:\n    B = 1",
        "A = b'bytes'",
        "A = {1, 2}",
        "A = 2j",
        "A = ...",
        "A = {1: 2}",
        "A = {[]: 1}",
        "A = 1e999",
        "A = '\\ud800'",
        f"A = 0x{'f' * 300}",
        f"A = {'[' * 65}{']' * 65}",
    ],
)
def test_values_that_are_computed_nested_in_code_or_beyond_json_are_skipped(statement: str) -> None:
    assert parse_python(statement) == {}


def test_tuples_are_lists() -> None:
    assert parse_python("A = (1, ('b',))") == {"A": [1, ["b"]]}


def test_the_docstring_is_read_as_it_is_written() -> None:
    header = parse_python('#!/usr/bin/env python3\n# rye:signed:x\n"""What\nit does."""\n')

    assert header == {"__docstring__": "What\nit does."}


def test_a_first_statement_that_is_no_string_is_no_docstring() -> None:
    assert parse_python("42\n'later'\n") == {}


def test_a_syntax_error_names_its_line() -> None:
    with pytest.raises(MetadataError) as error:
        parse_python('__version__ = "1.0.0"\n\ndef :\n')

    assert str(error.value) == ("python header, line 3: expected Python: invalid syntax")
    assert (error.value.parser, error.value.line) == ("python", 3)


def test_an_integer_of_ten_thousand_digits_is_an_error() -> None:
    with pytest.raises(
        MetadataError, match="python header, line 1: expected Python: Exceeds the limit"
    ):
        parse_python("A = " + "9" * 10_000)


def test_a_doubtful_escape_is_not_reported() -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        header = parse_python('A = "\\d"\n')

    assert (header, caught) == ({"A": "\\d"}, [])
