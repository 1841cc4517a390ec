"""Values of a run are data: no template, path or condition makes code of them."""

import subprocess
import sys
from typing import Any

import pytest

from ryeos.graph.conditions import Comparison, holds, parse_condition
from ryeos.graph.expressions import ExpressionError, fill, problems

HOSTILE = [
    *("${state.secret}", "$${state.secret}", "${'x' | upper}", "{input:secret}", "${", "}", "$"),
    *("${state.v}", "${state.v | json}", "'", '"', "' || state.secret || '", "} ${state.secret}"),
    *("{0}", "%s", "\0", "\n", "\ud800", "$(id)", "`id`", "; id", "\\", "\\'", "x" * 100_000),
]
DOCUMENT = {"state": {"secret": "s3cret", "list": [1, 2], "map": {}, "text": "abc"}, "inputs": {}}


@pytest.mark.parametrize("value", HOSTILE, ids=lambda value: repr(value)[:20])
def test_a_value_that_looks_like_a_template_stays_text(value: str) -> None:
    document = {**DOCUMENT, "state": {**DOCUMENT["state"], "v": value}, "inputs": {"v": value}}

    assert fill("${state.v}", document, pytest.fail) == value
    assert fill("<${state.v}|${inputs.v}>", document, pytest.fail) == f"<{value}|{value}>"
    assert fill("<{input:v}>{input:v}", document, pytest.fail) == f"<{value}>{value}"
    assert fill(["${state.v | str}", {"k": "${a || state.v}"}], document, pytest.fail) == [
        value,
        {"k": value},
    ]


@pytest.mark.parametrize("value", HOSTILE, ids=lambda value: repr(value)[:20])
def test_a_value_of_a_condition_is_not_read_again(value: str) -> None:
    document = {"state": {"secret": "s3cret", "v": value}}

    assert holds(Comparison(("state", "v"), "eq", "${state.v}"), document, pytest.fail)
    assert holds(Comparison(("state", "v"), "eq", "s3cret"), document, pytest.fail) is False


@pytest.mark.skipif(sys.platform == "win32", reason="asks a POSIX shell")
@pytest.mark.parametrize("value", [v for v in HOSTILE if v.isprintable() or v == "\n"])
def test_a_shell_gets_a_quoted_value_as_one_word(value: str) -> None:
    command = fill("printf %s ${state.v | sh}", {"state": {"v": value}}, pytest.fail)

    done = subprocess.run(["/bin/sh", "-c", command], capture_output=True, check=True)

    assert done.stdout.decode() == value


@pytest.mark.parametrize(
    "path",
    [
        "__class__",
        "state.__class__",
        "state.__class__.__mro__[1].__subclasses__",
        "state.keys",
        "state.map.get",
        "state.list.append",
        "state.list.__len__",
        "state.text.upper",
        "state.text[0]",
        "state.list[99999999999999999999999999999999]",
        "state.list[-99999999999999999999999999999999]",
        "state.list[" + "9" * 10_000 + "]",
        "state.list." + "9" * 10_000,
        "state.list[2]",
        "state.list.1_0",
        "state.list.\u0661",
        "state" + ".a" * 50_000,
        "state" + "[0]" * 50_000,
    ],
    ids=lambda path: path[:30],
)
def test_a_path_sees_keys_and_places_only(path: str) -> None:
    assert fill(f"${{{path}}}", DOCUMENT, pytest.fail) is None


def test_a_deep_path_reaches_as_far_as_the_value() -> None:
    value: Any = "found"
    for _ in range(50_000):
        value = {"a": value}

    assert fill("${v" + ".a" * 50_000 + "}", {"v": value}, pytest.fail) == "found"


@pytest.mark.parametrize(
    "template",
    ["<${v}>", "${v | json}", "${v | str}", "${v | sh}", "${v | upper}", "${v | b64}"],
)
def test_a_value_nested_too_deeply_is_an_error_and_no_crash(template: str) -> None:
    value: Any = []
    for _ in range(100_000):
        value = [value]

    with pytest.raises(ExpressionError, match="cannot be written as"):
        fill(template, {"v": {"k": value}}, pytest.fail)


def test_deep_json_of_a_tool_is_an_error_and_no_crash() -> None:
    with pytest.raises(ExpressionError, match="from_json: expected JSON"):
        fill("${v | from_json}", {"v": "[" * 100_000}, pytest.fail)


def test_a_comparison_of_deep_values_ends() -> None:
    first: Any = []
    second: Any = []
    for _ in range(100_000):
        first, second = [first], [second]

    with pytest.raises(ExpressionError, match="less deeply nested"):
        holds(Comparison(("a",), "eq", "${b}"), {"a": first, "b": second}, pytest.fail)


@pytest.mark.parametrize(
    "text",
    [
        "${" * 50_000,
        "${a" + "|" * 100_000 + "}",
        "${a" + " || a" * 50_000,
        "${'" + "\\" * 100_001,
        "${" + "'" * 100_001 + "}",
        "${a | default:" + "'x" * 50_000 + "}",
        "${a" + " " * 100_000 + "b}",
        "${a[" + " " * 100_000 + "}",
        "${a" + "[0" * 50_000 + "}",
        "$" * 100_000 + "{",
        "{input:a" + "|" * 100_000,
        "{input:" * 30_000,
    ],
    ids=lambda text: text[:12],
)
def test_a_long_text_is_read_in_time(text: str) -> None:
    for _, problem in problems(text):
        assert len(problem) < 1000


@pytest.mark.parametrize("pattern", ["(a+)+$", "(.*a){30}b", "(?:a|aa)+$", "^(\\w+\\s?)*$"])
def test_a_search_with_a_pattern_ends_for_any_text(pattern: str) -> None:
    condition, problems = parse_condition({"path": "t", "op": "regex", "value": pattern}, "when")

    assert (condition is not None, problems) == (True, [])
    assert condition is not None
    assert holds(condition, {"t": "a" * 3000 + "!"}, pytest.fail) is False


def test_a_pattern_of_the_document_is_bounded_too() -> None:
    condition = Comparison(("t",), "regex", "${p}")

    with pytest.raises(ExpressionError, match="at most 1000 steps"):
        holds(condition, {"t": "a", "p": "((a{99}){99}){99}"}, pytest.fail)
    with pytest.raises(ExpressionError, match="expected a text of at most"):
        holds(condition, {"t": "a" * 10_000_000, "p": "(a+)+$"}, pytest.fail)
