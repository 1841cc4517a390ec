import pytest
from hypothesis import given
from hypothesis import strategies as st

from lillux.contained_paths import require_plain_path
from ryeos.imports.server_items import item_names, valid_server_id
from ryeos.items.errors import UsageError


def test_a_valid_name_stays() -> None:
    assert item_names(["get_user", "listAll", "x-1"]) == {
        "get_user": "get_user",
        "listAll": "listAll",
        "x-1": "x-1",
    }


@given(st.lists(st.text(min_size=1, max_size=80), unique=True, max_size=20))
def test_any_names_of_tools_become_plain_and_different(tools: list[str]) -> None:
    names = item_names(tools)

    assert list(names) == tools
    assert len({name.lower() for name in names.values()}) == len(tools)
    for name in names.values():
        require_plain_path(name)
        assert len(name) <= 64
        assert set("./\\") & set(name) == set()
        assert name[0] not in "._-"


@pytest.mark.parametrize(
    "tool", ["../../etc/passwd", "a/b", "con", "LPT1", "__init__", ".hidden", "x" * 65, "ü", "a b"]
)
def test_any_other_name_is_marked(tool: str) -> None:
    name = item_names([tool])[tool]

    assert name != tool
    assert name.rpartition("-")[2] != ""


def test_names_that_differ_in_case_alone_are_both_marked() -> None:
    names = item_names(["add", "Add"])

    assert len({name.lower() for name in names.values()}) == 2
    assert set(names.values()) & {"add", "Add"} == set()


def test_a_mark_is_that_of_the_tool_and_of_no_other() -> None:
    assert item_names(["a/b"])["a/b"] == item_names(["x", "a/b", "a.b"])["a/b"]


@pytest.mark.parametrize("name", ["", "servers", "../x", "A", "a/b", "-a", "con", "x" * 65, "a.b"])
def test_a_server_has_a_name_that_can_be_a_folder(name: str) -> None:
    with pytest.raises(UsageError):
        valid_server_id(name)
