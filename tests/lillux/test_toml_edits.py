import tomllib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lillux.jsonc import TextStructureError, TextSyntaxError
from lillux.toml_edits import parse_toml, remove_table, set_table, write_table

PATH = ("mcp_servers", "rye")
ENTRY = {"command": "C:\\Python\\python.exe", "args": ["a b", 'q"'], "timeout": 20}

PIECES = st.sampled_from(
    [
        "# a comment\n",
        "\n",
        '[mcp_servers.other]\ncommand = "x" # why\n',
        "[other]\nlist = [\n  1, # ]\n  2,\n]\n",
        '[text]\nlong = """\n[mcp_servers.rye]\ncommand = 1\n"""\n',
        "[raw]\nlong = '''\n[mcp_servers.rye]''''\n",
        '[q."a]#".b]\n"k = 1" = { x = "}", y = [1, 2] }\n',
        "[dates]\nd = 2026-11-21T10:00:00Z\nf = 1.5\n",
    ]
)


@st.composite
def texts(draw: st.DrawFn) -> str:
    """TOML of several tables, each at most once."""
    pieces = draw(st.lists(PIECES, unique=True))
    text = draw(st.sampled_from(["", 'model = "o" # first\n', "top.key = 1\n\n"])) + "".join(pieces)
    return text.replace("\n", draw(st.sampled_from(["\n", "\r\n"])))


@pytest.mark.property
@given(texts())
def test_a_table_is_added_below_everything_else(text: str) -> None:
    before = tomllib.loads(text)

    edited = set_table(text, PATH, ENTRY)

    servers = before.get("mcp_servers", {})
    assert tomllib.loads(edited) == {**before, "mcp_servers": {**servers, "rye": ENTRY}}
    assert edited.startswith(text)


@pytest.mark.property
@given(texts())
def test_an_added_table_is_removed_again_byte_by_byte(text: str) -> None:
    assert remove_table(set_table(text, PATH, ENTRY), PATH) == text


@pytest.mark.property
@given(st.lists(PIECES, unique=True), st.integers(0, 9), st.sampled_from(["\n", "\r\n"]))
def test_values_are_replaced_where_they_stand(pieces: list[str], at: int, newline: str) -> None:
    mine = '[mcp_servers.rye] # mine\ncommand = {} # keep\nowner = "me"\nargs = {}\n{}\n\n'
    old = mine.format("'''old'''", '[\n "a", # ]\n]', "timeout = 1")
    new = mine.format(r'"C:\\Python\\python.exe"', r'["a b", "q\""]', "timeout = 20")
    before, after = "".join(pieces[:at]), "".join(pieces[at:])
    text = (before + old + after).replace("\n", newline)

    edited = set_table(text, PATH, ENTRY)

    assert edited == (before + new + after).replace("\n", newline)


@pytest.mark.property
@given(
    st.recursive(
        st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    )
)
def test_every_value_that_is_written_is_read(value: Any) -> None:  # noqa: ANN401
    assert tomllib.loads(write_table(("t",), {"x": value})) == {"t": {"x": value}}


def test_tables_of_one_name_that_an_array_divides_come_together_with_their_comments() -> None:
    text = "[a.b] # b\nx = 1\n[[many]]\ny = 1\n[a.c] # c\nz = 1\n"

    edited = set_table(text, ("a", "c"), {"z": 2})

    assert edited == "[a.b] # b\nx = 1\n[a.c] # c\nz = 2\n[[many]]\ny = 1\n"


def test_a_value_is_replaced_and_a_missing_one_added_behind_the_last() -> None:
    text = '[a.b]\n  x = "1" # one\n\n# about c\n[c]\n'

    assert set_table(text, ("a", "b"), {"x": "2", "y": {"K": "v"}}) == (
        '[a.b]\n  x = "2" # one\n  y = {K = "v"}\n\n# about c\n[c]\n'
    )


def test_tables_below_go_too_and_comments_of_the_next_stay() -> None:
    text = "[a.b]\nx = 1\n\n[a.b.env]\nK = 1\n\n# about c\n[c]\nz = 1\n"

    assert remove_table(text, ("a", "b")) == "\n# about c\n[c]\nz = 1\n"


def test_a_table_with_odd_names_is_written_with_quotes() -> None:
    assert write_table(("a b", "c"), {"d.e": 1}) == '["a b".c]\n"d.e" = 1\n'


@pytest.mark.parametrize(
    ("text", "edited"),
    [
        ('mcp_servers.rye.command = "x"', 'mcp_servers.rye.command = "y"'),
        ('[mcp_servers]\nrye = { command = "x" }', '[mcp_servers]\nrye = { command = "y" }'),
        ('[mcp_servers]\nrye.command = "x" # c', '[mcp_servers]\nrye.command = "y" # c'),
    ],
)
def test_a_value_of_a_table_in_another_form_is_replaced_where_it_stands(
    text: str, edited: str
) -> None:
    assert set_table(text, PATH, {"command": "y"}) == edited


@pytest.mark.parametrize(
    "text", ["[mcp_servers.rye.command]\nx = 1", "[[mcp_servers]]\nx = 1", "mcp_servers = 1"]
)
def test_a_place_that_holds_no_table_or_no_value_is_refused(text: str) -> None:
    with pytest.raises(TextStructureError):
        set_table(text, PATH, ENTRY)


@pytest.mark.parametrize(
    ("text", "line", "column"),
    [("a = 1\nb = [", 2, 6), ("a = 1\nb == 2", 2, 4), ("a = \x00", 1, 5), ("[a]\n[a]\n", 2, 3)],
)
def test_an_error_names_the_place(text: str, line: int, column: int) -> None:
    with pytest.raises(TextSyntaxError) as error:
        parse_toml(text)

    assert (error.value.line, error.value.column) == (line, column)


def test_a_missing_table_cannot_be_removed() -> None:
    with pytest.raises(TextStructureError) as error:
        remove_table("[a]\n", ("a", "b"))

    assert str(error.value) == "a.b: expected it, found nothing there"


def test_a_key_is_added_to_a_table_with_a_blank_line_behind_it() -> None:
    text = '[mcp_servers.rye]\ncommand = "a"  # mine\n\n\n[z]\na = 1\n'

    edited = set_table(text, PATH, {"command": "a", "env_vars": ["X"]})

    assert edited == (
        '[mcp_servers.rye]\ncommand = "a"  # mine\nenv_vars = ["X"]\n\n\n[z]\na = 1\n'
    )


@pytest.mark.parametrize("number", ["nan", "-nan", "inf", "[nan, {x = nan}]"])
def test_a_number_that_is_not_equal_to_itself_stays(number: str) -> None:
    text = f"a = {number}\n[mcp_servers.rye]\ncommand = 'x'\n"

    added = set_table(text, PATH, {"command": "y"})

    assert f"a = {number}\n" in added
    assert f"a = {number}\n" in remove_table(added, PATH)
