from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lillux.errors import LilluxError
from ryeos.app.verb_arguments import valid_arguments
from ryeos.app.verbs import TOOLS
from ryeos.items.errors import VerbArgumentError

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=5,
)


def checked(tool: str, **arguments: object) -> dict[str, Any]:
    """The arguments with defaults."""
    return valid_arguments(TOOLS[tool], arguments)


def test_defaults_are_filled_in() -> None:
    assert checked("search") == {
        "query": "",
        "item_type": "all",
        "source": "all",
        "limit": 10,
        "offset": 0,
        "sort_by": "score",
        "verbose": False,
    }


@pytest.mark.parametrize(
    ("tool", "name", "given", "taken"),
    [
        ("search", "limit", "25", 25),
        ("search", "limit", 25.0, 25),
        ("load", "overwrite", "true", True),
        ("load", "overwrite", "False", False),
        ("execute", "parameters", '{"a": 1}', {"a": 1}),
        ("execute", "parameters", "", {}),
        ("search", "filters", '{"signed": true}', {"signed": True}),
        ("search", "limit", None, 10),
    ],
)
def test_habits_of_models_are_understood(
    tool: str, name: str, given: object, taken: object
) -> None:
    required = {"item_id": "a"} if tool == "load" else {}

    assert checked(tool, **required, **{name: given})[name] == taken


def test_null_for_an_optional_argument_is_left_out() -> None:
    assert "scope" not in checked("search", scope=None)


def test_an_unknown_argument_is_named_with_the_closest_and_all() -> None:
    with pytest.raises(VerbArgumentError) as error:
        checked("search", limt=3)

    assert str(error.value) == "limt: search has no such argument"
    assert error.value.hint == "did you mean limit?"
    assert error.value.code == "INVALID_PARAMS"
    assert error.value.facts is not None
    assert error.value.facts["closest"] == "limit"
    assert error.value.facts["valid"] == [row.name for row in TOOLS["search"].parameters]


@pytest.mark.parametrize(
    ("tool", "arguments", "message"),
    [
        ("search", {"limit": 0}, "limit: expected 1 to 100, found 0"),
        ("search", {"limit": "many"}, "limit: expected an integer, found 'many'"),
        ("search", {"limit": True}, "limit: expected an integer, found True"),
        ("search", {"offset": -1}, "offset: expected 0 or more, found -1"),
        ("search", {"query": ["a"]}, "query: expected a string, found list ['a']"),
        (
            "search",
            {"item_type": "tools"},
            "item_type: expected one of directive, tool, knowledge, all, found 'tools'",
        ),
        ("search", {"filters": "x"}, "filters: expected an object, or its JSON, found 'x'"),
        ("search", {"filters": "[]"}, "filters: expected an object, found '[]'"),
        (
            "load",
            {"item_id": "a", "overwrite": "maybe"},
            "overwrite: expected true or false, found 'maybe'",
        ),
        ("load", {}, "item_id: expected by load, found nothing"),
        ("load", {"item_id": None}, "item_id: expected by load, found nothing"),
    ],
)
def test_a_wrong_value_is_named_with_the_value_found(
    tool: str, arguments: dict[str, object], message: str
) -> None:
    with pytest.raises(VerbArgumentError) as error:
        checked(tool, **arguments)

    assert str(error.value) == message


def test_an_argument_like_no_other_gets_the_whole_list() -> None:
    with pytest.raises(VerbArgumentError) as error:
        checked("search", zzz=3)

    assert error.value.hint.startswith("search takes query, item_type, scope,")


def test_a_wrong_word_gets_the_closest_one() -> None:
    with pytest.raises(VerbArgumentError) as error:
        checked("search", item_type="tools")

    assert error.value.hint == "did you mean tool?"


def test_arguments_are_read_once_for_their_tool_and_say_what_was_given() -> None:
    read = valid_arguments(TOOLS["load"], {"item_id": "a/b", "overwrite": "true"})

    assert valid_arguments(TOOLS["load"], read) is read
    assert read.given == {"item_id": "a/b", "overwrite": "true"}
    assert read["overwrite"] is True


def test_arguments_that_were_read_for_another_tool_are_read_again() -> None:
    read = valid_arguments(TOOLS["help"], {"topic": "run"})

    with pytest.raises(VerbArgumentError, match="topic: search has no such argument"):
        valid_arguments(TOOLS["search"], read)


@pytest.mark.property
@given(
    st.sampled_from(list(TOOLS)),
    st.dictionaries(
        st.sampled_from(sorted({row.name for tool in TOOLS.values() for row in tool.parameters}))
        | st.text(max_size=6),
        JSON,
        max_size=4,
    ),
)
def test_any_arguments_are_taken_or_refused(tool: str, arguments: dict[str, object]) -> None:
    try:
        taken = valid_arguments(TOOLS[tool], arguments)
    except LilluxError:
        return

    assert set(taken) <= {row.name for row in TOOLS[tool].parameters}
