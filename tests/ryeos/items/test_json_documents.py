import pytest

from ryeos.items.header_values import MetadataError
from ryeos.items.json_documents import parse_json

TOO_DEEP = ": expected at most 64 levels of nesting, found more"


@pytest.mark.parametrize("above", ["", "# rye:signed:x\n", "#!/usr/bin/env rye\n# rye:signed:x\n"])
def test_an_object_is_read_below_a_signature_line(above: str) -> None:
    assert parse_json(above + '{"a": [1, 2.5, null, true, {"b": "c"}]}\n') == {
        "a": [1, 2.5, None, True, {"b": "c"}]
    }


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", ", line 1: expected JSON: expecting value"),
        ('# rye:signed:x\n{\n  "a" 1}', ", line 3: expected JSON: expecting ':' delimiter"),
        ("# a comment\n{}", ", line 1: expected JSON: expecting value"),
        ("[]", ": expected an object, found an array"),
        ('"a"', ": expected an object, found a string"),
        ("null", ": expected an object, found null"),
        ("true", ": expected an object, found a boolean"),
        ("1", ": expected an object, found a number"),
        ('{"a": 1, "b": {"c": 1, "c": 1}}', ": expected each key once, found 'c' twice"),
        ('{"a": NaN}', ": expected a finite number, found nan"),
        ('{"a": 1e999}', ": expected a finite number, found inf"),
        ('{"a": "\\ud800"}', ": expected Unicode text, found half a surrogate pair in '\\ud800'"),
        ('{"a": ' + "[" * 64 + "]" * 64 + "}", TOO_DEEP),
        ('{"a": ' + "[" * 100_000, TOO_DEEP),
    ],
)  # fmt: skip
def test_a_problem_is_named(text: str, problem: str) -> None:
    with pytest.raises(MetadataError) as error:
        parse_json(text)

    assert str(error.value) == f"json header{problem}"


def test_an_integer_of_ten_thousand_digits_is_an_error() -> None:
    with pytest.raises(MetadataError, match="json header: expected a shorter number: "):
        parse_json('{"a": ' + "9" * 10_000 + "}")
