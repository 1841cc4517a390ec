from typing import Any

import pytest

from ryeos.app.case_files import DEFAULT_LIMIT_S, CaseFile, CaseFileError, read_cases

HEADER = {"tool_type": "test", "executor_id": None}


def read(*cases: dict[str, Any], **header: Any) -> CaseFile:  # noqa: ANN401 - JSON
    document = {**HEADER, **header, "cases": list(cases)}
    return read_cases(document, "shop/tax.test", "tax.test.yaml")


def issues_of(*cases: dict[str, Any], **header: Any) -> str:  # noqa: ANN401 - JSON
    with pytest.raises(CaseFileError) as caught:
        read(*cases, **header)
    return str(caught.value)


def test_a_case_needs_only_a_name() -> None:
    case = read({"name": "runs"}).cases[0]

    assert (case.params, case.files, case.needs, case.limit_s) == ({}, {}, (), DEFAULT_LIMIT_S)


def test_the_tool_is_the_neighbour_unless_another_is_named() -> None:
    assert read({"name": "a"}).tested.id == "shop/tax"
    assert read({"name": "a"}, tests="tool:shop/other").tested.id == "shop/other"


def test_null_has_no_meaning_but_where_a_result_is_compared() -> None:
    nothing = {"status": None, "error": None, "stdout": None, "files": None}

    case = read({"name": "a", "expect": {**nothing, "equals": None}}).cases[0]

    assert case.expect == {"equals": None}


@pytest.mark.parametrize(
    ("case", "problem"),
    [
        ({}, "name"),
        ({"name": " "}, "name"),
        ({"name": "a", "expects": {}}, "expects"),
        ({"name": "a", "timeout": 0}, "timeout"),
        ({"name": "a", "timeout": 4000}, "timeout"),
        ({"name": "a", "files": {"a": 1}}, "files"),
        ({"name": "a", "expect": {"matches": "("}}, "pattern '('"),
        ({"name": "a", "expect": {"matches": r"(a)\1"}}, "pattern"),
        ({"name": "a", "expect": {"files": {"a": {"matches": "["}}}}, "pattern '['"),
        ({"name": "a", "expect": {"files": {"a": {}}}}, "files"),
        ({"name": "a", "in_project": True, "files": {"a": ""}}, "brings no files"),
        ({"name": "a", "expect": {"status": "success", "code": "X"}}, "neither error nor code"),
    ],
)
def test_an_invalid_case_is_reported_with_its_place(case: dict[str, Any], problem: str) -> None:
    assert problem in issues_of(case)


def test_two_cases_of_one_name_are_refused() -> None:
    assert "2 of them are called 'a'" in issues_of({"name": "a"}, {"name": "a"})


def test_a_file_without_cases_is_refused() -> None:
    assert "cases" in issues_of()
    assert "tool_type" in issues_of({"name": "a"}, tool_type="python")
    assert "executor_id" in issues_of({"name": "a"}, executor_id="rye/bash")


def test_of_many_problems_the_first_ones_are_reported() -> None:
    issues = issues_of(*({"name": f"{n}", "bogus": 1} for n in range(100)))

    assert "and 90 more" in issues
