"""Templates: read once, values opaque, types kept."""

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lillux.templating import Names, as_text, fill

HOSTILE = st.one_of(
    st.text(),
    st.text(alphabet="${}:-ABab_'\" ", max_size=40),
    st.sampled_from(["${HOME}", "{tool_path}", "{x}", "${X:-{x}}", "{{x}}", "}{", "$", "{x"]),
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | HOSTILE,
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)


def names(**values: Any) -> Names:  # noqa: ANN401 - fields of Names
    return Names(**{"variables": {}, **values})


# --- variables


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        ("${SET}", "value"),
        ("a${SET}b${SET}c", "avaluebvaluec"),
        ("${EMPTY}", ""),
        ("${MISSING}", ""),
        ("${MISSING:-default text}", "default text"),
        ("${EMPTY:-default}", "default"),
        ("${SET:-default}", "value"),
        ("${MISSING:-}", ""),
    ],
)
def test_a_variable_is_replaced_by_its_value_or_its_default(template: str, expected: str) -> None:
    filled = fill(template, names(variables={"SET": "value", "EMPTY": ""}))

    assert filled == expected


@pytest.mark.parametrize(
    "text",
    ["${lower}", "${state.x}", "${}", "$SET", "$$", "${SET", "${1}", "${SET:=x}", "{}", "{1}"],
)
def test_a_text_that_is_no_placeholder_stays(text: str) -> None:
    filled = fill(text, names(variables={"SET": "value"}, opaque={"lower": "x"}))

    assert filled == text


def test_a_default_holds_no_placeholder() -> None:
    filled = fill("${MISSING:-{x}", names(opaque={"x": "value"}))

    assert filled == "{x"


# --- names


def test_the_engine_comes_before_the_config_and_the_config_before_the_caller() -> None:
    around = names(
        fixed={"a": "engine"},
        templates={"a": "config", "b": "config"},
        opaque={"a": "caller", "b": "caller", "c": "caller"},
    )

    assert fill("{a} {b} {c} {d}", around) == "engine config caller {d}"


def test_a_hidden_name_of_the_config_means_the_callers() -> None:
    around = names(
        templates={"command": "/bin/bash"}, opaque={"command": "ls"}, hidden=frozenset({"command"})
    )

    assert fill("{command}", around) == "ls"


@pytest.mark.parametrize("value", [1, 1.5, True, None, ["a"], {"k": "v"}, ""])
def test_a_lone_name_takes_the_value_with_its_type(value: object) -> None:
    assert fill(" {x} ", names(opaque={"x": value})) == value


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1, "1"),
        (True, "true"),
        (None, ""),
        ("a", "a"),
        ([1, "ü"], '[1, "ü"]'),
        ({"k": 1}, '{"k": 1}'),
    ],
)
def test_inside_a_text_a_value_stands_as_json(value: object, text: str) -> None:
    assert fill("<{x}>", names(opaque={"x": value})) == f"<{text}>"
    assert as_text(value) == text


def test_lists_and_mappings_are_filled_through_and_their_keys_are_not() -> None:
    template = {"{x}": ["{x}", {"inner": ("<{x}>", 7)}], "n": None}

    filled = fill(template, names(opaque={"x": [1]}))

    assert filled == {"{x}": [[1], {"inner": ["<[1]>", 7]}], "n": None}


# --- one pass, in bounded time


@given(value=HOSTILE)
def test_inserted_text_is_never_read_again(value: str) -> None:
    around = names(variables={"V": value, "HOME": "secret", "X": "secret"}, opaque={"x": value})

    assert fill("<{x}>", around) == f"<{value}>"
    assert fill("{x}", around) == value
    assert fill("<${V:-d}>", around) == f"<{value or 'd'}>"


@given(value=JSON)
def test_a_callers_value_of_any_shape_is_inserted_as_it_is(value: object) -> None:
    assert fill(["{x}"], names(fixed={"HOME": "secret"}, opaque={"x": value})) == [value]


@given(template=st.text(alphabet="${}:-Ax \n", max_size=60))
def test_any_text_can_be_filled(template: str) -> None:
    filled = fill(template, names(variables={"A": "1"}, templates={"x": template}, opaque={"A": 1}))

    assert isinstance(filled, str | int)


def test_a_value_of_the_config_is_a_template_three_levels_deep() -> None:
    templates = {"a": "a{b}", "b": "b{c}", "c": "c{d}", "d": "d"}

    assert fill("{b}", names(templates=templates)) == "bcd"
    assert fill("{a}", names(templates=templates)) == "abc{d}"


def test_a_name_that_refers_to_itself_ends() -> None:
    assert fill("{a}", names(templates={"a": "<{a}>"})) == "<<<{a}>>>"
    assert fill("{a}", names(templates={"a": "{b}", "b": "{a}"})) == "{b}"


def test_many_placeholders_take_time_in_proportion() -> None:
    filled = fill("{x}" * 100_000 + "${" * 100_000 + "{" * 100_000, names(opaque={"x": "y"}))

    assert isinstance(filled, str)
    assert filled.startswith("y" * 100_000)


# --- quoting


def quoting(**values: Mapping[str, object]) -> Names:
    return names(quote=lambda value, placeholder: f"<{placeholder}={value}>", **values)


def test_every_inserted_value_is_quoted_once() -> None:
    around = quoting(fixed={"f": 1}, templates={"t": "t {o}"}, opaque={"o": "x"})

    assert fill("{f} {t} {o} {u}", around) == "<{f}=1> t <{o}=x> <{o}=x> {u}"
    assert fill("{t}", around) == "t <{o}=x>"
    assert fill("{o}", around) == "<{o}=x>"


def test_a_list_of_the_config_is_quoted_as_a_whole() -> None:
    around = quoting(templates={"t": ["{o}"]}, opaque={"o": 'a"b'})

    assert fill("do {t}", around) == 'do <{t}=["a\\"b"]>'


def test_a_verbatim_name_is_not_quoted() -> None:
    around = names(
        quote=lambda value, _: f"<{value}>", fixed={"s": "x y"}, verbatim=frozenset({"s"})
    )

    assert fill("{s}", around) == "x y"
    assert fill("a {s}", around) == "a x y"


def test_a_default_is_left_to_the_reader_of_the_text() -> None:
    around = names(
        quote=lambda value, placeholder: value or placeholder, variables={"SET": "x", "EMPTY": ""}
    )

    assert fill("${SET} ${EMPTY:-a b} ${MISSING}", around) == "x ${EMPTY:-a b} ${MISSING}"
