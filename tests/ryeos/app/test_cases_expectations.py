from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ryeos.app.expectations import CaseRun, differences

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=8,
)


def outcome(data: object = None, *, error: str = "", code: str = "", **files: str) -> CaseRun:
    status = "error" if error else "success"
    return CaseRun(status=status, data=data, error=error, code=code, file=files.get)


def process(stdout: str = "", stderr: str = "", return_code: int = 0) -> dict[str, Any]:
    return {"stdout": stdout, "stderr": stderr, "return_code": return_code}


def test_without_expectations_a_success_is_expected() -> None:
    assert differences({}, outcome()) == ()
    assert differences({}, outcome(error="no", code="X")) == (
        "status: expected success, found error: no (X)",
    )


def test_an_expected_error_implies_an_expected_failure() -> None:
    failed = outcome(error="price: expected a number", code="VALIDATION_FAILED")

    assert differences({"error": ["price", "number"], "code": "VALIDATION_FAILED"}, failed) == ()
    assert differences({"code": "X"}, failed) == ("code: expected X, found VALIDATION_FAILED",)
    assert differences({"error": "x"}, outcome()) == ("status: expected error, found success",)


@given(JSON)
def test_every_result_is_equal_to_itself_and_within_itself(data: object) -> None:
    assert differences({"equals": data, "data": data}, outcome(data)) == ()


@pytest.mark.parametrize(
    ("expected", "found", "difference"),
    [
        ({"a": 1}, {"a": 1, "b": 2}, ""),
        ({"a": {"b": 1}}, {"a": {"b": 2}}, "data.a.b: expected 1, found 2"),
        ({"a": 1}, {}, "data.a: expected 1, found nothing"),
        ({"a": None}, {}, "data.a: expected null, found nothing"),
        ([1, {"a": 1}], [1, {"a": 2}], "data[1].a: expected 1, found 2"),
        ([1], [1, 2], "data: expected [1], found [1, 2]"),
        (True, 1, "data: expected true, found 1"),
        (1, 1.0, ""),
        ({}, [], "data: expected {}, found []"),
    ],
)
def test_data_asks_for_a_part(expected: object, found: object, difference: str) -> None:
    assert differences({"data": expected}, outcome(found)) == ((difference,) if difference else ())


def test_equals_asks_for_the_whole() -> None:
    assert differences({"equals": {"a": [True]}}, outcome({"a": [1]})) == (
        'data: expected {"a": [true]}, found {"a": [1]}',
    )


def test_text_is_looked_for_in_the_output_of_the_tool() -> None:
    assert differences({"contains": ["el", "o"], "matches": "^h.*o$"}, outcome("hello")) == ()
    assert differences({"contains": '"a": "ü"'}, outcome({"a": "ü"})) == ()
    assert differences({"matches": "x"}, outcome("hello")) == (
        'result: expected a match of "x", found "hello"',
    )


def test_standard_output_counts_without_its_last_line_ends() -> None:
    given_out = outcome(process("hello\n\n", "oops\n"))

    assert differences({"stdout": "hello", "stderr": "oops"}, given_out) == ()
    assert differences({"stdout": "hell"}, given_out) == ('stdout: expected "hell", found "hello"',)
    assert differences({"stdout": ""}, outcome({"a": 1}))[0].startswith("stdout, stderr: expected")


def test_files_are_compared_after_the_run() -> None:
    there = outcome(a="one\n")

    assert differences({"files": {"a": "one\n", "b": None}}, there) == ()
    assert differences({"files": {"a": {"contains": "on", "matches": "^x"}}}, there) == (
        'files: a: expected a match of "^x", found "one\\n"',
    )
    assert differences({"files": {"a": None, "b": ""}}, there) == (
        "files: a: expected no file, found one",
        "files: b: expected a file, found none",
    )


def test_a_long_result_is_reported_in_part() -> None:
    (problem,) = differences({"equals": "x"}, outcome("y" * 10_000))

    assert len(problem) < 400


def test_a_search_with_a_slow_pattern_ends() -> None:
    (problem,) = differences({"matches": "(a|aa)+$"}, outcome("a" * 5_000 + "b"))

    assert "matches" in problem or "match" in problem
