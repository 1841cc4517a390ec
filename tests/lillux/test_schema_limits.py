"""Values of any size and kind, from several threads, at any time."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from datetime import date
from typing import Any

import pytest

from lillux.schema import violations


def lines(value: object, schema: dict[str, Any]) -> list[str]:
    return [str(violation) for violation in violations(value, schema)]


def test_guessing_names_of_thousands_of_unknown_keys_takes_no_time() -> None:
    schema = {"properties": {f"key{n}": {} for n in range(50)}, "additionalProperties": False}
    value = {f"kay{n}": n for n in range(5_000)} | {"x" * 100_000: 1}

    found = lines(value, schema)

    assert len(found) == 5_001
    assert sum("did you mean" in line for line in found) == 16


@pytest.mark.parametrize(
    ("value", "line"),
    [
        ({"a": float("nan")}, "/a: expected a finite number, found NaN"),
        ([float("inf")], "/0: expected a finite number, found Infinity"),
        (date(2026, 1, 2), "(root): expected a JSON value, found date"),
        ({1: 2}, "(root): expected keys that are text, found one of type int"),
    ],
)
def test_a_value_that_json_cannot_hold_violates_every_schema(value: object, line: str) -> None:
    assert lines(value, {}) == [line]


def test_a_value_nested_too_deeply_is_a_violation() -> None:
    value: list[object] = []
    for _ in range(100_000):
        value = [value]

    (violation,) = violations(value, {"items": {"$ref": "#"}})

    assert violation.expected == "at most 128 levels of nesting"


def test_a_value_that_leads_through_too_many_references_is_a_violation() -> None:
    hops = {str(n): {"$ref": f"#/$defs/{n + 1}", "type": "array"} for n in range(40)}
    schema = {"$ref": "#/$defs/0", "$defs": {**hops, "40": {"items": {"$ref": "#"}}}}
    value: list[object] = []
    for _ in range(100):
        value = [value]

    assert lines(value, schema) == [
        ("(root): expected references that end sooner, found more in a row than can be followed")
    ]


def test_arithmetic_that_overflows_is_a_violation() -> None:
    (violation,) = violations(10**400, {"multipleOf": 0.1})

    assert violation.expected == "a multiple of 0.1"


def test_a_deeply_nested_schema_is_compiled_whole() -> None:
    schema: dict[str, Any] = {"type": "string"}
    value: object = 1
    for _ in range(25):
        schema, value = {"properties": {"a": {"anyOf": [{"items": schema}]}}}, {"a": [value]}

    assert violations(value, schema) != ()
    assert violations({"a": [{"a": []}]}, schema) == ()


def test_long_and_unprintable_values_stay_on_a_short_line() -> None:
    value = {"\x1b[31m\u202e" + "k" * 1000: ["x" * 10_000_000, "\n\x1b]0;\x07"]}

    (line,) = lines(value, {"additionalProperties": {"type": "string"}})

    assert line.isprintable()
    assert line.startswith(r"/\u001b[31m\u202ekkk")
    assert len(line) < 500


def test_threads_may_share_a_schema() -> None:
    schema = {"items": {"enum": [[n] for n in range(50)]}, "title": "shared by threads"}

    with ThreadPoolExecutor(8) as threads:
        found = list(threads.map(lambda n: len(violations([n, [n]], schema)), range(100)))

    assert found == [1] * 50 + [2] * 50


def test_a_value_of_all_levels_may_lead_through_several_schemas_at_each() -> None:
    schema = {"not": {"not": {"anyOf": [{"type": "null"}, {"items": {"$ref": "#"}}]}}}
    value: list[object] = []
    for _ in range(127):
        value = [value]

    assert lines(value, schema) == []


def test_names_that_are_not_allowed_are_compared_with_allowed_ones_only_so_often() -> None:
    schema = {"propertyNames": {"enum": [f"key{n}" for n in range(50)]}}

    found = lines({f"kay{n}": n for n in range(1_000)}, schema)

    assert sum("did you mean" in line for line in found) == 16


def test_a_value_that_fits_needs_no_words() -> None:
    program = (
        "import sys; from lillux.schema import violations;"
        "print(violations({'a': 1}, {'properties': {'a': {'type': 'integer'}}}));"
        "print([name for name in ('lillux.wording', 'decimal', 'difflib') if name in sys.modules])"
    )

    run = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)

    assert run.stdout.split() == [b"()", b"[]"]
