"""Templates of graphs: the value of each rule, and the problems of wrong ones."""

import json
import shlex
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ryeos.graph.expressions import (
    MAX_DEPTH,
    MAX_TEXT_CHARS,
    ExpressionError,
    fill,
    problems,
    references,
    unquoted_in,
)
from ryeos.graph.template_syntax import look_up

DOCUMENT: dict[str, Any] = {
    "state": {
        "total": 12,
        "half": 0.5,
        "none": None,
        "no": False,
        "zero": 0,
        "empty": "",
        "name": "Ann B",
        "list": [{"sq": 9}, "two", 3],
        "numbers": [3, 1, 2.5],
        "texts": ["b", "a"],
        "map": {"b": 1, "a": 2, "content-type": "x", "a.b": "dotted", "0": "key", "in it": 5},
        "json": '{"a": [1, null]}',
        "bad": "{nope",
        "digits": " 42 ",
        "big": "9" * 5000,
        "padded": "  x ",
        "quote": "it's",
        "flag": True,
        "lone": "\ud800",
        "nul": "a\0b",
        "infinite": float("inf"),
        "huge": [1e308, 1e308],
    },
    "inputs": {"x": 7, "name": "Bob", "nil": None, "list": [1]},
    "_now": "2026-11-21T14:00:00Z",
    "_timestamp": 1795269600000,
    "item": {"id": 5},
}


def filled(template: object) -> Any:  # noqa: ANN401 - JSON
    """The value of a template that warns of nothing."""
    warnings: list[str] = []
    value = fill(template, DOCUMENT, warnings.append)
    assert warnings == []
    return value


def warned(template: object) -> tuple[Any, list[str]]:
    warnings: list[str] = []
    return fill(template, DOCUMENT, warnings.append), warnings


@pytest.mark.parametrize(
    ("template", "value"),
    [
        # a whole text keeps the type
        ("${state.total}", 12),
        ("${ state.total }", 12),
        ("${state.flag}", True),
        ("${state.list}", DOCUMENT["state"]["list"]),
        ("${state.missing}", None),
        ("${nothing.at.all}", None),
        ("${_timestamp}", 1795269600000),
        ("${item.id}", 5),
        # inside a text it is text
        ("sum=${state.total}/${inputs.x}", "sum=12/7"),
        ("${inputs.x}${inputs.x}", "77"),
        (" ${inputs.x}", " 7"),
        ("at ${_now}", "at 2026-11-21T14:00:00Z"),
        ("${state.flag}!", "True!"),
        # paths
        ("${state.list.0.sq}", 9),
        ("${state.list[0].sq}", 9),
        ("${state.list[-1]}", 3),
        ("${state.list.-2}", "two"),
        ("${state.list[3]}", None),
        ("${state.list[-4]}", None),
        ("${state.list.length}", None),
        ("${state.map.content-type}", "x"),
        ("${state.map['a.b']}", "dotted"),
        ('${state.map["in it"]}', 5),
        ("${state.map[0]}", "key"),
        ("${state.name.0}", None),
        ("${state.total.real}", None),
        # fallbacks
        ("${state.missing || state.total}", 12),
        ("${state.none||inputs.nil||inputs.x}", 7),
        ("${state.empty || 'd'}", ""),
        ("${state.zero || 5}", 0),
        ("${state.no || true}", False),
        ("${state.missing || 'it\\'s'}", "it's"),
        ('${state.missing || "a || b | c } d"}', "a || b | c } d"),
        ("${state.missing || '\\n\\t\\\\'}", "\n\t\\"),
        ("${state.missing || -5}", -5),
        ("${state.missing || 1.5e3}", 1500.0),
        ("${state.missing || false}", False),
        ("${state.missing || null}", None),
        ("${state.missing || state.none}", None),
        # literals
        ("${'text'}", "text"),
        ("${'$'}${inputs.x}", "$7"),
        ("${'{'}input:x}", "{input:x}"),
        # escapes
        ("$${x}", "${x}"),
        ("a $${x} ${inputs.x}", "a ${x} 7"),
        ("$$${x}", "$${x}"),
        ("$$", "$$"),
        ("$x {y} $(z)", "$x {y} $(z)"),
        # inputs as directives ask for them
        ("{input:x}", 7),
        ("{input:list}", [1]),
        ("x={input:x}", "x=7"),
        ("{input:missing?}", ""),
        ("{input:missing:d e}", "d e"),
        ("{input:missing|d}", "d"),
        ("{input:nil:d}", "d"),
        ("{input:name:d}", "Bob"),
        ("{input:x?}", 7),
        ("{input:}", "{input:}"),
    ],
)
def test_a_text_is_filled_in(template: str, value: object) -> None:
    assert filled(template) == value
    assert type(filled(template)) is type(value)
    assert list(problems(template)) == []


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("state.map | json", json.dumps(DOCUMENT["state"]["map"])),
        ("state.name | json", '"Ann B"'),
        ("state.json | from_json", {"a": [1, None]}),
        ("state.list | from_json", DOCUMENT["state"]["list"]),
        ("state.list | length", 3),
        ("state.map | length", 6),
        ("state.name | length", 5),
        ("state.missing | length", 0),
        ("state.map | keys | first", "b"),
        ("state.list | keys", []),
        ("state.map | values | first", 1),
        ("state.list | values", []),
        ("state.map | items | first", {"key": "b", "value": 1}),
        ("state.total | items", []),
        ("state.name | upper", "ANN B"),
        ("state.name | lower", "ann b"),
        ("state.total | upper", "12"),
        ("state.padded | trim", "x"),
        ("state.list | first", {"sq": 9}),
        ("state.list | last", 3),
        ("state.missing || 'x' | upper", "X"),
        ("state.texts | join:,", "b,a"),
        ("state.texts | join:', '", "b, a"),
        ("state.texts | join:'|'", "b|a"),
        ("state.texts | join:''", "ba"),
        ("state.numbers | join: - ", "3-1-2.5"),
        ("state.numbers | sum", 6.5),
        ("state.numbers | sort", [1, 2.5, 3]),
        ("state.texts | sort | first", "a"),
        ("state.missing | default:x y", "x y"),
        ("state.missing | default:5", 5),
        ("state.missing | default:'5'", "5"),
        ("state.missing | default:null", None),
        ("state.zero | default:5", 0),
        ("state.digits | int", 42),
        ("state.half | int", 0),
        ("state.flag | int", 1),
        ("state.digits | float", 42.0),
        ("'1e3' | float", 1000.0),
        ("state.total | str", "12"),
        ("state.quote | sh", "'it'\"'\"'s'"),
        ("state.texts | sh", "b a"),
        ("state.missing | sh", "''"),
        ("state.name | b64", "QW5uIEI="),
        ("state.missing | upper | json | keys", None),
        ("state.list|length|str", "3"),
    ],
)
def test_each_pipe_gives_its_value(expression: str, value: object) -> None:
    template = f"${{{expression}}}"

    assert filled(template) == value
    assert type(filled(template)) is type(value)
    assert list(problems(template)) == []


@pytest.mark.parametrize(
    ("expression", "problem"),
    [
        ("state.bad | from_json", "from_json: expected JSON, found '{nope'"),
        ("'NaN' | from_json", "from_json: expected JSON, found 'NaN'"),
        ("'1e999' | from_json", "from_json: expected JSON, found '1e999'"),
        ("state.name | int", "int: expected a whole number, found 'Ann B'"),
        ("'1.5' | int", "int: expected a whole number, found '1.5'"),
        ("'1_0' | int", "int: expected a whole number, found '1_0'"),
        ("state.big | int", "int: expected a whole number, found '999"),
        ("state.list | int", "int: expected a whole number, found a list"),
        ("'nan' | float", "float: expected a number, found 'nan'"),
        ("'1e999' | float", "float: expected a number, found '1e999'"),
        ("state.total | length", "length: expected a text, a list or a mapping, found a number"),
        ("state.map | first", "first: expected a list, found a mapping"),
        ("state.name | last", "last: expected a list, found a text"),
        ("state.name | join:,", "join: expected a list, found a text"),
        ("state.texts | sum", "sum: expected a list of numbers, found a text in it"),
        (
            "state.list | sort",
            "sort: expected only numbers or only texts, found a mapping, a number, a text",
        ),
        ("state.lone | b64", "b64: expected text that UTF-8 can hold (surrogates not allowed)"),
        ("state.nul | sh", "sh: expected text that a shell can hold, found a NUL in it"),
        ("state.infinite | json", "json: cannot be written as JSON: Out of range float"),
        ("state.infinite | int", "int: expected a whole number, found a number"),
        ("state.huge | sum", "sum: expected numbers with a finite sum"),
    ],
)
def test_a_value_that_a_pipe_is_not_made_for_is_an_error(expression: str, problem: str) -> None:
    with pytest.raises(ExpressionError) as error:
        fill(f"a ${{{expression}}}", DOCUMENT, lambda _: None)

    assert error.value.text == f"${{{expression}}}"
    assert error.value.problem.startswith(problem)
    assert (error.value.code, error.value.exit_status) == ("EXPRESSION_ERROR", 6)
    assert list(problems(f"${{{expression}}}")) == []


@pytest.mark.parametrize(
    ("template", "problem"),
    [
        ("${", "${: expected } at the end of the expression, write $${ for ${ as text"),
        ("a ${b", "${b: expected } at the end of the expression, write $${ for ${ as text"),
        ("${}", "${}: expected a path like state.name, found nothing"),
        ("${ }", "${ }: expected a path like state.name, found nothing"),
        ("${a.}", "${a.}: expected .key, [0] or ['any key'] after 'a', found '.'"),
        ("${.a}", "${.a}: expected a path like state.name, found '.a'"),
        ("${a b}", "${a b}: expected .key, [0] or ['any key'] after 'a', found ' b'"),
        ("${a[x]}", "${a[x]}: expected .key, [0] or ['any key'] after 'a', found '[x]'"),
        ("${a ||}", "${a ||}: expected a path or a literal on both sides of || and before |"),
        ("${| json}", "${| json}: expected a path or a literal on both sides of || and before |"),
        ("${a |}", "${a |}: expected the name of a pipe behind |, found ''"),
        (
            "${a | json || b}",
            "${a | json || b}: expected the fallbacks (||) in front of the pipes (|)",
        ),
        ("${a | uper}", "${a | uper}: unknown pipe 'uper', did you mean upper?"),
        ("${a | json:1}", "${a | json:1}: the pipe json takes no argument, found '1'"),
        (
            "${a | join}",
            "${a | join}: the pipe join needs an argument, like join:',' (or '')",
        ),
        (
            "${a | default:}",
            "${a | default:}: the pipe default needs an argument, like default:',' (or '')",
        ),
        ("${a || 'b}", "${a || 'b}: expected a second ' behind the first"),
        (
            "${a ${b}}",
            "${a ${b}}: found { inside an expression, expected } first; quote it where it is text",
        ),
        ("${'a' 'b'}", "${'a' 'b'}: expected one quoted text, found \"'a' 'b'\""),
        (
            "${'\\q'}",
            "${'\\q'}: unknown escape '\\\\q', known are \\n \\t \\\\ \\' \\\"",
        ),
        ("${a" + " | str" * 17 + "}", "${a" + " | str" * 17 + "}: expected at most 16 pipes"),
    ],
)
def test_an_invalid_template_is_reported_before_the_run(template: str, problem: str) -> None:
    found = list(problems({"cmd": ["x", template]}))

    assert [(place, line[: len(problem)]) for place, line in found] == [("cmd[1]", problem)]


def test_every_problem_of_a_template_has_its_place() -> None:
    template = {"a": {"b": ["${}", "${x}"]}, "c": "${} ${y | nope | uper}", "${k": "fine"}

    assert [place for place, _ in problems(template)] == ["a.b[0]", "c", "c", "c"]
    assert [place for place, _ in problems("${}")] == [""]
    assert [place for place, _ in problems(["${}"])] == ["[0]"]


def test_an_invalid_template_is_an_error_at_run_time() -> None:
    with pytest.raises(ExpressionError) as error:
        fill(["${a b}"], DOCUMENT, lambda _: None)

    assert (error.value.text, error.value.hint) == (
        "${a b}",
        "rye graph validate shows where it is",
    )


def test_an_unknown_pipe_leaves_the_value_and_warns() -> None:
    value, warnings = warned("${state.list | uper | length}")

    assert value == 3
    assert warnings == [
        (
            "${state.list | uper | length}: unknown pipe 'uper', did you mean upper?;"
            " the value is left as it is"
        )
    ]


def test_null_inside_a_text_is_empty_and_warns() -> None:
    value, warnings = warned("a${state.none}b")

    assert value == "ab"
    assert warnings == ["${state.none}: there is no value, nothing stands in its place"]


def test_an_input_that_is_not_given_stays_and_warns() -> None:
    value, warnings = warned("a {input:missing}")

    assert value == "a {input:missing}"
    assert warnings == ["{input:missing}: no such input, it is left as it is"]


def test_lists_and_mappings_are_filled_in_but_not_keys() -> None:
    template = {"${inputs.x}": ["${inputs.x}", {"n": ("${state.total}",)}], "same": [1, None, True]}

    assert filled(template) == {"${inputs.x}": [7, {"n": [12]}], "same": [1, None, True]}


def test_a_template_is_never_changed() -> None:
    template = {"a": ["${inputs.x}"], "b": [1]}

    result = filled(template)
    result["b"].append(2)

    assert template == {"a": ["${inputs.x}"], "b": [1]}


@pytest.mark.parametrize(
    ("result", "found"),
    [
        ({"return_code": 3}, 3),
        ({"return_code": 3, "exit": 4}, 4),
        ({"return_code": 0}, 0),
        ({}, None),
    ],
)
def test_the_older_word_for_the_status_of_a_program_is_read(
    result: dict[str, int], found: int | None
) -> None:
    assert look_up({"result": result}, ("result", "exit")) == found


def test_the_paths_of_a_template_are_reported() -> None:
    template = {"a": "${state.a[0].b || inputs.c || 'x' | json} $${no}", "b": ["{input:d}", 1]}

    assert list(references(template)) == [
        ("state", "a", "0", "b"),
        ("inputs", "c"),
        ("inputs", "d"),
    ]


@pytest.mark.parametrize(
    ("command", "unquoted"),
    [
        ("rm ${state.x}", ["${state.x}"]),
        ("rm ${state.x | sh}", []),
        ("rm ${state.x | trim | sh} ${a || 'b'}", ["${a || 'b'}"]),
        ("rm ${state.x | sh | trim}", ["${state.x | sh | trim}"]),
        ("${a}${b | sh}", ["${a}"]),
        ("echo {input:x}", ["{input:x}"]),
        ("echo ${'$'}HOME ${1}", []),
        ("echo ${a b}", ["${a b}"]),
        ("echo $${HOME} $x", []),
        ("${inputs.command}", []),
        ("ls", []),
    ],
)
def test_values_that_a_shell_would_read_as_code_are_reported(
    command: str, unquoted: list[str]
) -> None:
    assert unquoted_in(command) == unquoted


def test_a_template_nested_too_deeply_is_refused() -> None:
    template: Any = "${state.total}"
    for _ in range(100_000):
        template = [template]

    with pytest.raises(ExpressionError, match="expected at most 100 levels, found more"):
        fill(template, DOCUMENT, lambda _: None)
    ((place, problem),) = problems(template)
    assert place == "[0]" * MAX_DEPTH
    assert problem == "expected at most 100 levels of lists and mappings"
    assert list(references(template)) == []


def test_a_text_that_grows_without_end_is_refused() -> None:
    half = {"t": "x" * (MAX_TEXT_CHARS // 2 + 1)}
    with pytest.raises(ExpressionError, match="at most 16777216 characters"):
        fill("${t}${t}", half, lambda _: None)

    quotes = {"t": "'" * 1000}
    with pytest.raises(ExpressionError, match="at most 16777216 characters"):
        fill("${t" + " | sh" * 16 + "}", quotes, lambda _: None)


# ---------------------------------------------------------------- laws

SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)
ODD = st.lists(
    st.sampled_from(
        [
            *("${", "$${", "}", "{", "$", "|", "||", "'", '"', "\\", ".", "[", "]", "0", "-1"),
            *("state", "a", " ", ":", "json", "join", "sh", "default", "null", "{input:a", "?"),
            *("state.a", "${state.a}", "${inputs.b | upper}", "\n", "\0", "ü", "\ud800"),
        ]
    )
    | st.text(max_size=3),
    max_size=14,
).map("".join)


@pytest.mark.property
@given(value=VALUES)
def test_a_whole_text_keeps_any_value(value: object) -> None:
    result = fill(["${state.v}", "{input:v:x}"], {"state": {"v": value}, "inputs": {}}, print)

    assert result == [value, "x"]
    assert result[0] is value


@pytest.mark.property
@given(text=ODD, value=VALUES)
def test_any_text_is_filled_in_or_reported(text: str, value: object) -> None:
    document = {"state": {"a": value}, "inputs": {"b": value}}
    unquoted_in(text)
    list(references(text))

    if list(problems(text)) or "|" in text:
        with suppress(ExpressionError):
            fill(text, document, lambda _: None)
    else:
        fill(text, document, lambda _: None)


@pytest.mark.property
@given(text=st.text() | ODD)
def test_a_text_without_marks_stays_the_same(text: str) -> None:
    plain = text.replace("${", "").replace("{input:", "")
    if "${" not in plain and "{input:" not in plain:
        assert fill(plain, {}, print) is plain


@pytest.mark.property
@given(text=st.text() | ODD)
def test_every_text_has_an_escaped_form(text: str) -> None:
    escaped = text.replace("{", "${'{'}")
    if "${" not in text and "$" not in text:
        assert fill(escaped, {}, print) == text


@pytest.mark.property
@given(value=st.text() | ODD)
def test_values_of_the_document_are_never_read_again(value: str) -> None:
    document = {"state": {"v": value}, "inputs": {"v": value}, "a": "LEAK"}

    assert fill("<${state.v}>", document, print) == f"<{value}>"
    assert fill("<{input:v}>", document, print) == f"<{value}>"
    assert fill({"k": "${state.v | str}"}, document, print) == {"k": value}


@pytest.mark.property
@given(text=st.text())
def test_any_text_can_be_a_literal(text: str) -> None:
    for quote in "'\"":
        literal = quote + text.replace("\\", "\\\\").replace(quote, f"\\{quote}") + quote
        assert fill(f"${{missing || {literal}}}", {}, print) == text
        assert fill(f"${{missing | default: {literal} }}", {}, print) == text


@pytest.mark.property
@given(key=st.text().filter(lambda key: not set(key) & {"'", "\\"}), value=VALUES)
def test_any_key_can_be_named(key: str, value: object) -> None:
    assert fill(f"${{state['{key}']}}", {"state": {key: value}}, print) == value


@pytest.mark.property
@given(value=VALUES)
def test_json_is_read_as_it_was_written(value: object) -> None:
    with suppress(ExpressionError):
        assert fill("${v | json | from_json}", {"v": [value]}, print) == [value]


@pytest.mark.property
@given(words=st.lists(st.text(st.characters(exclude_characters="\0")), min_size=1))
def test_a_shell_reads_quoted_words_as_they_were(words: list[str]) -> None:
    assert shlex.split(fill("${v | sh}", {"v": words}, print)) == words
    assert shlex.split(fill("${v | sh}", {"v": words[0]}, print)) == words[:1]


@pytest.mark.property
@given(numbers=st.lists(st.integers() | st.floats(allow_nan=False, allow_infinity=False)))
def test_sorting_and_adding_are_those_of_python(numbers: list[float]) -> None:
    assert fill("${v | sort}", {"v": numbers}, print) == sorted(numbers)
    with suppress(ExpressionError, OverflowError):
        assert fill("${v | sum}", {"v": numbers}, print) == sum(numbers)
