import pytest
import yaml

from ryeos.items.header_values import MetadataError
from ryeos.items.yaml import parse_yaml


@pytest.fixture(params=["the C parser", "the Python parser"], autouse=True)
def parser_in_use(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every test runs on both parsers of PyYAML, as far as they are installed."""
    if request.param == "the Python parser":
        monkeypatch.delattr(yaml, "CSafeLoader", raising=False)
    elif not hasattr(yaml, "CSafeLoader"):
        pytest.skip("PyYAML is installed without its C parser")


def read(text: str) -> object:
    return parse_yaml(text, "yaml header")


def problem_of(text: str) -> str:
    with pytest.raises(MetadataError) as error:
        read(text)
    assert error.value.parser == "yaml"
    return str(error.value)


def test_scalars_are_read_as_by_the_safe_loader() -> None:
    text = "a: 1\nb: 1.5\nc: yes\nd: ~\ne: text\nf: '1'\ng: 0x1F\nh: 1_000\ni: !!str 5\nj: 1:30\n"

    assert read(text) == yaml.safe_load(text)


def test_collections_are_lists_and_mappings() -> None:
    assert read("a: [1, {b: c}]\nd:\n  - e\n  - f: {}\n") == {
        "a": [1, {"b": "c"}],
        "d": ["e", {"f": {}}],
    }


@pytest.mark.parametrize(
    "date", ["2026-02-23T00:00:00Z", "2026-02-23", "2001-12-14 21:59:43.10 -5"]
)
def test_a_date_stays_the_text_that_was_written(date: str) -> None:
    assert read(f"created_at: {date}\nagain: !!timestamp {date}\n") == {
        "created_at": date,
        "again": date,
    }


def test_an_alias_is_a_copy_of_its_anchor() -> None:
    value = read("a: &x {k: [1]}\nb: *x\n")

    assert value == {"a": {"k": [1]}, "b": {"k": [1]}}
    assert isinstance(value, dict)
    assert value["a"]["k"] is not value["b"]["k"]


def test_merge_keys_add_missing_keys() -> None:
    text = (
        "a: &a {x: 1, y: 1}\n"
        "b: &b {y: 2, z: 2}\n"
        "one: {<<: *a, x: 3}\n"
        "list: {<<: [*a, *b]}\n"
        "two: {<<: *a, <<: *b}\n"
    )

    assert read(text) == yaml.safe_load(text)


def test_the_sign_of_a_merge_is_text_where_it_is_no_key() -> None:
    assert read("a: <<\nb: =\n") == {"a": "<<", "b": "="}


def test_a_key_further_down_is_read_as_it_is_written() -> None:
    assert read("a: {on: x, 200: y, ~: z, 2026-02-23: d, 'q': e}") == {
        "a": {"on": "x", "200": "y", "~": "z", "2026-02-23": "d", "q": "e"}
    }


def test_an_anchored_key_can_be_named_again() -> None:
    assert read("&k key: 1\nother: *k\nmore: {*k : 2}\n") == {
        "key": 1,
        "other": "key",
        "more": {"key": 2},
    }


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", ", line 1: expected a mapping, found nothing"),
        ("- a", ", line 1: expected a mapping, found a sequence"),
        ("a", ", line 1: expected a mapping, found a scalar"),
        ("a: 1\n---\nb: 1\n", ", line 2: expected one document, found a second"),
        ("a: 1\nb:\n  c: 1\n  c: 2\n", ", line 4: expected each key once, found 'c' twice"),
        ("a: {1: x, '1': y}", ", line 1: expected each key once, found '1' twice"),
        ("a: 1\n2: b", ", line 2: expected a string key, found '2'"),
        ("on: push", ", line 1: expected a string key, found 'on'"),
        ("? [a]\n: 1", ", line 1: expected a string key, found something else"),
        ("a: &x [1]\n*x : 1", ", line 2: expected a string key, found something else"),
        ("a: .nan", ", line 1: expected a finite number, found '.nan'"),
        ("a: -.inf", ", line 1: expected a finite number, found '-.inf'"),
        ("a: 1.0e+999", ", line 1: expected a finite number, found '1.0e+999'"),
        (
            "a: " + "9" * 10_000,
            ", line 1: expected a number of at most 300 characters, found 10000",
        ),
        ("a: 0x" + "f" * 298, ": expected a number of at most 1024 bits, found 1192"),
        ("a: !!int x", ", line 1: expected a value of the tag !!int, found 'x'"),
        ("a: !!int ''", ", line 1: expected a value of the tag !!int, found ''"),
        ("a: !!bool maybe", ", line 1: expected a value of the tag !!bool, found 'maybe'"),
        ("a: !!binary aGk=", ", line 1: expected plain YAML, found the tag '!!binary'"),
        ("a: !!set {b}", ", line 1: expected plain YAML, found the tag '!!set'"),
        ("a: !mine {}", ", line 1: expected plain YAML, found the tag '!mine'"),
        ("%TAG !e! tag:e,2000:\n---\na: 1", ", line 1: expected YAML's own tags, found %TAG"),
        ("a: *b", ", line 1: expected an anchor above the alias 'b', found none"),
        ("a: &b [*b]", ", line 1: expected an anchor above the alias 'b', found none"),
        ("a: {<<: 1}", ", line 1: expected a mapping to merge, found something else"),
    ],
)
def test_a_problem_is_named_with_its_line(text: str, problem: str) -> None:
    assert problem_of(text) == f"yaml header{problem}"


def test_broken_yaml_is_named_with_its_line() -> None:
    assert problem_of("a: 1\nb: [\n").startswith("yaml header, line 3: expected YAML: ")


def test_a_control_character_is_an_error() -> None:
    assert problem_of("a: \x07").startswith("yaml header: expected YAML: ")


def test_a_sum_of_merged_keys_has_a_bound() -> None:
    keys = ", ".join(f"k{number}: 1" for number in range(1000))
    aliases = ", ".join(["*a"] * 100)

    assert problem_of(f"a: &a {{{keys}}}\nb: {{<<: [{aliases}]}}\n") == (
        "yaml header, line 2: expected at most 100000 merged keys, found more"
    )


def test_aliases_that_nest_beyond_the_limit_are_an_error() -> None:
    lines = ["a0: &a0 []"] + [f"a{n}: &a{n} [*a{n - 1}]" for n in range(1, 80)]

    assert problem_of("\n".join(lines)) == (
        "yaml header: expected at most 64 levels of nesting, found more"
    )


def test_the_text_is_named_as_the_caller_names_it() -> None:
    with pytest.raises(MetadataError) as error:
        parse_yaml("[]", "config agent/agent.yaml")

    assert str(error.value) == (
        "config agent/agent.yaml, line 1: expected a mapping, found a sequence"
    )
