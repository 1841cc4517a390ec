"""Conditions: the result of each operator, and the problems of wrong ones."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ryeos.graph.conditions import (
    ALWAYS,
    NEVER,
    AllOf,
    AnyOf,
    Comparison,
    Condition,
    Not,
    holds,
    parse_condition,
    references,
)
from ryeos.graph.expressions import ExpressionError
from ryeos.graph.operators import ALIASES, OPERATORS
from ryeos.graph.problems import GraphProblem

WHERE = "config.nodes.route.next[0].when"
DOCUMENT = {
    "state": {
        "n": 12,
        "text": "12 errors",
        "digits": "12",
        "list": [1, "two", {"a": 1}],
        "map": {"a": 1},
        "none": None,
        "yes": True,
        "zero": 0,
        "blank": "",
        "empty": [],
    },
    "inputs": {"limit": 10, "kind": "two", "list": [12], "pattern": "^1"},
}


def read(data: object) -> Condition:
    """A condition that nothing is wrong with."""
    condition, problems = parse_condition(data, WHERE)
    assert problems == []
    assert condition is not None
    return condition


def is_true(data: object, document: Any = DOCUMENT) -> bool:  # noqa: ANN401 - JSON
    """Whether it holds, without a warning."""
    warnings: list[str] = []
    answer = holds(read(data), document, warnings.append)
    assert warnings == []
    return answer


@pytest.mark.parametrize(
    ("path", "op", "value", "answer"),
    [
        ("state.n", "eq", 12, True),
        ("state.n", "eq", 12.0, True),
        ("state.n", "eq", "12", False),
        ("state.list", "eq", [1, "two", {"a": 1}], True),
        ("state.none", "eq", None, True),
        ("state.missing", "eq", None, True),
        ("state.missing", "eq", 0, False),
        ("state.n", "ne", 12, False),
        ("state.missing", "ne", 1, True),
        ("state.n", "gt", 11, True),
        ("state.n", "gt", 12, False),
        ("state.n", "gte", 12, True),
        ("state.n", "lt", 12.5, True),
        ("state.n", "lte", 11, False),
        ("state.n", "gt", "9", True),
        ("state.n", "lt", " 1e2 ", True),
        ("state.digits", "gt", 9, True),
        ("state.digits", "gt", "9", False),
        ("state.text", "lt", "13", True),
        ("state.missing", "gt", 1, False),
        ("state.missing", "lt", 1, False),
        ("state.n", "in", [1, 12], True),
        ("state.n", "in", ["12"], False),
        ("state.map", "in", [{"a": 1}], True),
        ("state.missing", "in", [1], False),
        ("state.n", "not_in", [1], True),
        ("state.text", "contains", "err", True),
        ("state.n", "contains", 2, True),
        ("state.list", "contains", "two", True),
        ("state.list", "contains", "tw", False),
        ("state.list", "contains", {"a": 1}, True),
        ("state.map", "contains", "a", True),
        ("state.map", "contains", 1, False),
        ("state.missing", "contains", "on", False),
        ("state.text", "contains", None, False),
        ("state.missing", "not_contains", "x", True),
        ("state.text", "starts_with", "12", True),
        ("state.text", "ends_with", "errors", True),
        ("state.missing", "starts_with", "", False),
        ("state.text", "regex", r"^\d+ err", True),
        ("state.n", "regex", "^1.$", True),
        ("state.text", "regex", "ERR", False),
        ("state.text", "regex", "(?i)ERR", True),
        ("state.missing", "regex", "None", False),
        ("state.zero", "exists", None, True),
        ("state.none", "exists", True, False),
        ("state.none", "not_exists", None, True),
        ("state.blank", "empty", None, True),
        ("state.empty", "empty", None, True),
        ("state.missing", "empty", None, True),
        ("state.zero", "empty", None, False),
        ("state.list", "not_empty", None, True),
        # values are templates
        ("state.n", "gt", "${inputs.limit}", True),
        ("state.n", "in", "${inputs.list}", True),
        ("state.n", "in", ["${inputs.limit}", 12], True),
        ("state.list", "contains", "{input:kind}", True),
        ("state.text", "regex", "${inputs.pattern}", True),
        ("state.text", "contains", "${inputs.missing}", False),
        ("inputs.kind", "eq", "$${x}", False),
        ("state.list[-1].a", "eq", 1, True),
    ],
)
def test_an_operator_compares(path: str, op: str, value: object, answer: bool) -> None:  # noqa: FBT001
    assert is_true({"path": path, "op": op, "value": value}) is answer


@pytest.mark.parametrize(("alias", "op"), ALIASES.items())
def test_an_alias_is_its_operator(alias: str, op: str) -> None:
    data = {"path": "state.n", "value": 1}

    assert read({**data, "op": alias}) == read({**data, "operator": op}) == read({**data, "op": op})


@pytest.mark.parametrize(
    ("data", "condition"),
    [
        (None, ALWAYS),
        ({}, ALWAYS),
        (True, ALWAYS),
        (False, NEVER),
        ({"any": []}, NEVER),
        ({"all": []}, ALWAYS),
        ({"path": "a.b", "value": 1}, Comparison(("a", "b"), "eq", 1)),
        ({"not": {}}, Not(ALWAYS)),
        (
            {"any": [{"all": [{}]}, {"not": {"path": "a", "op": "exists"}}]},
            AnyOf((AllOf((ALWAYS,)), Not(Comparison(("a",), "exists", None)))),
        ),
    ],
)
def test_a_condition_is_read(data: object, condition: Condition) -> None:
    assert read(data) == condition


@pytest.mark.parametrize(
    ("op", "path", "value", "warning"),
    [
        ("gt", "state.list", 1, "a list and a number have no order, so this is false"),
        ("lt", "state.text", 1, "a text and a number have no order, so this is false"),
        ("gt", "state.yes", 0, "true or false and a number have no order, so this is false"),
        ("gte", "state.n", None, "a number and nothing have no order, so this is false"),
        ("gt", "state.n", "9" * 400, "a number and a text have no order, so this is false"),
        ("in", "state.n", "${inputs.limit}", "expected a list to look in, found a number"),
    ],
)
def test_values_that_cannot_be_compared_are_false_with_a_warning(
    op: str, path: str, value: object, warning: str
) -> None:
    warnings: list[str] = []

    assert holds(read({"path": path, "op": op, "value": value}), DOCUMENT, warnings.append) is False
    assert [line[: len(f"{path} {op}: {warning}")] for line in warnings] == [
        f"{path} {op}: {warning}"
    ]


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (
            "state.n > 1",
            GraphProblem(
                WHERE,
                "expected a condition, found a text",
                "write it like {path: state.n, op: gt, value: 1}",
            ),
        ),
        (
            {"path": "a", "op": "is_a", "value": 1},
            GraphProblem(
                f"{WHERE}.op", "unknown operator 'is_a'", f"known are {', '.join(OPERATORS)}"
            ),
        ),
        (
            {"path": "a", "operator": "contain", "value": 1},
            GraphProblem(
                f"{WHERE}.operator",
                "unknown operator 'contain'",
                f"did you mean contains? known are {', '.join(OPERATORS)}",
            ),
        ),
        (
            {"path": "a", "op": 1, "value": 1},
            GraphProblem(f"{WHERE}.op", "expected the name of an operator, found a number"),
        ),
        (
            {"path": "a", "op": "eq", "operator": "ne", "value": 1},
            GraphProblem(f"{WHERE}.op", "expected op or operator, found both"),
        ),
        (
            {"op": "eq", "value": 1},
            GraphProblem(
                WHERE,
                "expected the key path, found none",
                "say what is compared, like path: state.n",
            ),
        ),
        (
            {"path": "${state.n}", "value": 1},
            GraphProblem(
                f"{WHERE}.path",
                "expected a path like state.n, found '${state.n}'",
                "a path stands without ${ and }",
            ),
        ),
        (
            {"path": "a b", "value": 1},
            GraphProblem(
                f"{WHERE}.path", "expected .key, [0] or ['any key'] after 'a', found ' b'"
            ),
        ),
        (
            {"path": "a", "value": "${x"},
            GraphProblem(
                f"{WHERE}.value",
                "${x: expected } at the end of the expression, write $${ for ${ as text",
            ),
        ),
        (
            {"path": "a", "op": "in", "value": ["${x | uper}"]},
            GraphProblem(
                f"{WHERE}.value[0]", "${x | uper}: unknown pipe 'uper', did you mean upper?"
            ),
        ),
        (
            {"path": "a", "op": "regex", "value": "(a"},
            GraphProblem(
                f"{WHERE}.value",
                "'(a': found ( without )",
                "see docs/graphs.md for what a pattern may have",
            ),
        ),
        (
            {"path": "a", "op": "regex", "value": 5},
            GraphProblem(f"{WHERE}.value", "expected a regular expression, found a number"),
        ),
        (
            {"any": {"path": "a"}},
            GraphProblem(
                f"{WHERE}.any", "expected a list, found a mapping", "write any: [{...}, {...}]"
            ),
        ),
        (
            {"any": [], "path": "a"},
            GraphProblem(
                WHERE,
                "expected one of any, all, not or path, found any, path",
                "put them into one list: all: [{...}, {...}]",
            ),
        ),
        (
            {"all": [{}, {"not": 5}]},
            GraphProblem(
                f"{WHERE}.all[1].not",
                "expected a condition, found a number",
                "write it like {path: state.n, op: gt, value: 1}",
            ),
        ),
    ],
)
def test_an_invalid_condition_is_an_error(data: object, problem: GraphProblem) -> None:
    assert parse_condition(data, WHERE) == (None, [problem])


def test_a_key_for_other_programs_is_no_unknown_key() -> None:
    assert parse_condition({"path": "a", "op": "exists", "x-mine": {}}, WHERE)[1] == []


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (
            {"path": "a", "value": 1, "valeu": 2},
            GraphProblem(f"{WHERE}.valeu", "unknown key is not used", "did you mean value?"),
        ),
        (
            {"path": "a"},
            GraphProblem(
                WHERE,
                "eq has no value to compare with, so null is taken",
                "add value, or op: exists",
            ),
        ),
        (
            {"path": "a", "op": "exists", "value": False},
            GraphProblem(f"{WHERE}.value", "exists looks at no value", "write op: not_exists"),
        ),
        (
            {"path": "a", "op": "not_empty", "value": False},
            GraphProblem(f"{WHERE}.value", "not_empty looks at no value", "write op: empty"),
        ),
        (
            {"path": "a", "op": "in", "value": 5},
            GraphProblem(f"{WHERE}.value", "expected a list to look in, found a number"),
        ),
        (
            {"path": "a", "op": "in", "value": "abc"},
            GraphProblem(
                f"{WHERE}.value",
                "expected a list to look in, found a text",
                "write a list, or swap the two: op: contains",
            ),
        ),
    ],
)
def test_a_suspicious_condition_is_a_warning(data: object, problem: GraphProblem) -> None:
    condition, problems = parse_condition(data, WHERE)

    assert condition is not None
    assert problems == [problem]


def test_every_problem_of_a_condition_is_reported_at_once() -> None:
    data = {"any": [{"path": "a", "op": "x", "value": "${"}, {"all": 1}, {"pth": "a"}]}

    condition, problems = parse_condition(data, WHERE)

    assert condition is None
    assert [problem.path.removeprefix(WHERE) for problem in problems] == [
        ".any[0].op",
        ".any[0].value",
        ".any[1].all",
        ".any[2].pth",
        ".any[2]",
    ]


def test_a_condition_nested_too_deeply_is_an_error() -> None:
    data: object = {}
    for _ in range(100_000):
        data = {"not": data}

    condition, (problem,) = parse_condition(data, WHERE)

    assert condition is None
    assert problem.text == "expected at most 32 conditions in each other"


def test_the_paths_of_a_condition_are_reported() -> None:
    data = {"any": [{"path": "a.b", "value": "${c.d}"}, {"not": {"path": "e[0]", "op": "exists"}}]}

    assert list(references(read(data))) == [("a", "b"), ("c", "d"), ("e", "0")]


def test_an_unknown_operator_is_an_error_at_run_time() -> None:
    with pytest.raises(ExpressionError, match=r"unknown operator 'exist', did you mean exists\?"):
        holds(Comparison(("state", "n"), "exist", None), DOCUMENT, print)


def test_an_invalid_pattern_from_the_document_is_an_error() -> None:
    condition = read({"path": "state.text", "op": "regex", "value": "${inputs.p}"})

    with pytest.raises(ExpressionError) as error:
        holds(condition, {**DOCUMENT, "inputs": {"p": "(["}}, print)

    assert str(error.value) == "state.text regex: found [ without ]"


def test_a_group_stops_at_the_first_that_decides() -> None:
    broken = Comparison(("state", "n"), "exist", None)

    assert holds(AnyOf((ALWAYS, broken)), DOCUMENT, print) is True
    assert holds(AllOf((NEVER, broken)), DOCUMENT, print) is False


# ---------------------------------------------------------------- laws

SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text()
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)
COMPARISONS = st.builds(
    Comparison,
    st.sampled_from([("v",), ("v", "0"), ("missing",)]),
    st.sampled_from(sorted(set(OPERATORS) - {"regex"})),
    VALUES.filter(lambda value: "${" not in str(value) and "{input:" not in str(value)),
)
CONDITIONS = st.recursive(
    COMPARISONS | st.sampled_from([ALWAYS, NEVER]),
    lambda inner: (
        st.builds(AnyOf, st.lists(inner, max_size=3).map(tuple))
        | st.builds(AllOf, st.lists(inner, max_size=3).map(tuple))
        | st.builds(Not, inner)
    ),
    max_leaves=6,
)


def answer(condition: Condition, value: object) -> bool:
    return holds(condition, {"v": value}, lambda _: None)


@pytest.mark.property
@given(first=CONDITIONS, second=CONDITIONS, value=VALUES)
def test_conditions_are_an_algebra(first: Condition, second: Condition, value: object) -> None:
    one, other = answer(first, value), answer(second, value)

    assert answer(AnyOf((first, second)), value) is (one or other)
    assert answer(AllOf((first, second)), value) is (one and other)
    assert answer(Not(first), value) is (not one)
    assert answer(Not(AnyOf((first, second))), value) is answer(
        AllOf((Not(first), Not(second))), value
    )


@pytest.mark.property
@given(value=VALUES, other=VALUES)
def test_an_operator_and_its_negation_never_agree(value: object, other: object) -> None:
    pairs = [("eq", "ne"), ("in", "not_in"), ("contains", "not_contains"), ("exists", "not_exists")]
    for plain, negated in [*pairs, ("empty", "not_empty")]:
        is_so = OPERATORS[plain](value, other, lambda _: None)
        assert is_so is not OPERATORS[negated](value, other, lambda _: None)


@pytest.mark.property
@given(first=st.integers() | st.floats(allow_nan=False), second=st.integers())
def test_numbers_have_one_order_also_as_texts(first: float, second: int) -> None:
    for given_second in (second, str(second)):
        results = {
            op: OPERATORS[op](first, given_second, pytest.fail) for op in ("lt", "lte", "gt", "gte")
        }
        assert results["lt"] is (first < second) is not results["gte"]
        assert results["gt"] is (first > second) is not results["lte"]


@pytest.mark.property
@given(value=VALUES, other=VALUES, op=st.sampled_from(sorted(set(OPERATORS) - {"regex"})))
def test_no_two_values_make_an_operator_fail(value: object, other: object, op: str) -> None:
    assert OPERATORS[op](value, other, lambda _: None) in {True, False}


KEYS = st.sampled_from(["path", "op", "operator", "value", "any", "all", "not", "x", "when"])
ANYTHING = st.recursive(
    SCALARS | st.sampled_from(["state.n", "eq", "regex", "(a", "${", "a[0]", *ALIASES]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS | st.integers(), inner),
    max_leaves=8,
)


@pytest.mark.property
@given(data=ANYTHING)
def test_any_value_is_a_condition_or_an_error_with_the_reason(data: object) -> None:
    condition, problems = parse_condition(data, WHERE)

    assert (condition is not None) or problems
    assert all(problem.path.startswith(WHERE) and problem.text for problem in problems)
