import pytest

from ryeos.items.header_values import MetadataError
from ryeos.items.toml import parse_toml


def test_a_table_is_read_below_a_signature_line() -> None:
    text = (
        "#!/usr/bin/env rye\n# rye:signed:x\n"
        'name = "a.b.c"\nsizes = [1, 2.5]\n[deep.er]\non = true\n'
    )

    assert parse_toml(text) == {
        "name": "a.b.c",
        "sizes": [1, 2.5],
        "deep": {"er": {"on": True}},
    }


def test_dates_and_times_are_text() -> None:
    text = (
        "a = 2026-02-23T00:00:00Z\nb = 2026-02-23T01:02:03.5+02:00\n"
        "c = 2026-02-23\nd = 10:11:12\ne = [2026-02-23T01:02:03]\n"
    )

    assert parse_toml(text) == {
        "a": "2026-02-23T00:00:00Z",
        "b": "2026-02-23T01:02:03.500000+02:00",
        "c": "2026-02-23",
        "d": "10:11:12",
        "e": ["2026-02-23T01:02:03"],
    }


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a = 1\na = 2\n", ", line 2: expected TOML: cannot overwrite a value"),
        ("a = inf", ": expected a finite number, found inf"),
        ("a = 0x" + "f" * 400, ": expected a number of at most 1024 bits, found 1600"),
        ("a = " + "[" * 65 + "]" * 65, ": expected at most 64 levels of nesting, found more"),
        ("a = " + "[" * 9000, ": expected at most 64 levels of nesting, found more"),
        (
            "\n" + ".".join("k" * 65) + " = 1",
            ", line 2: expected a key of at most 64 parts, found 65",
        ),
        (
            '[x]\ny = """\n"""\n' + " . ".join(['"k"'] * 65) + " = 1",
            ", line 4: expected a key of at most 64 parts, found 65",
        ),
    ],
)
def test_a_problem_is_named(text: str, problem: str) -> None:
    with pytest.raises(MetadataError) as error:
        parse_toml(text)

    assert str(error.value) == f"toml header{problem}"


@pytest.mark.parametrize(
    "value",
    [
        '"' + "a." * 100 + '"',
        "'" + "a." * 100 + "'",
        '"""\n' + "a." * 100 + '"""',
        "'''\n" + "a." * 100 + "'''",
        "1 # " + "a." * 100,
        "[" + "1.5, " * 100 + "]",
    ],
)
def test_dots_that_join_no_key_are_not_counted(value: str) -> None:
    assert list(parse_toml(f"a = {value}\n")) == ["a"]


def test_an_integer_of_ten_thousand_digits_is_an_error() -> None:
    with pytest.raises(MetadataError, match="toml header: expected TOML: exceeds the limit"):
        parse_toml("a = " + "9" * 10_000)
