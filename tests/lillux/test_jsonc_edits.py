import json
import re
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lillux.json_edits import remove_member, set_member
from lillux.jsonc import Dialect, TextStructureError, TextSyntaxError, parse

PATH = ("servers", "rye")
ENTRY = {"command": "/usr/bin/python3", "args": ["/home/me/rye.pyz", "mcp"]}
NAMES = st.sampled_from(["servers", "rye", "other", "a", 'q"uo\\te', "ü"])
COMMENTS = re.compile(r"//[^\r\n]*|/\*.*?\*/", re.DOTALL)

TREES = st.recursive(
    st.sampled_from([None, True, 1, -2.5, "text", "a, b", "x]}"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=4),
    max_leaves=12,
)


@st.composite
def texts(draw: st.DrawFn) -> str:
    """JSON with comments, laid out in any style."""
    newline = draw(st.sampled_from(["\n", "\r\n"]))
    choices = st.sampled_from([True, False])
    blanks = st.sampled_from(
        ["", " ", "\t", newline, newline + "  ", f" // c{newline}", "/* c */", f"/* c{newline} */ "]
    )

    def write(value: object) -> str:
        if isinstance(value, Mapping):
            inner = [
                f"{draw(blanks)}{json.dumps(name)}{draw(blanks)}:{draw(blanks)}{write(member)}"
                for name, member in value.items()
            ]
            return "{" + join(inner) + "}"
        if isinstance(value, list):
            return "[" + join([draw(blanks) + write(element) for element in value]) + "]"
        return json.dumps(value)

    def join(parts: list[str]) -> str:
        text = ",".join(part + draw(blanks) for part in parts)
        return text + ("," if draw(choices) and parts else "") + draw(blanks)

    root = draw(st.dictionaries(NAMES, TREES, max_size=4))
    if draw(choices):
        root["servers"] = draw(st.dictionaries(NAMES, TREES, max_size=3))
    return draw(blanks) + write(root) + draw(blanks)


def is_kept(before: str, after: str) -> bool:
    """Whether every character of the one stands in the other, in order."""
    rest = iter(after)
    return all(character in rest for character in before)


@pytest.mark.property
@given(texts())
def test_a_member_is_set_and_nothing_else_changes(text: str) -> None:
    value = parse(text, Dialect.JSONC).value
    if not isinstance(value.get("servers", {}), dict):
        with pytest.raises(TextStructureError):
            set_member(text, PATH, ENTRY, Dialect.JSONC)
        return

    edited = set_member(text, PATH, ENTRY, Dialect.JSONC)

    servers = value.get("servers", {})
    assert parse(edited, Dialect.JSONC).value == {**value, "servers": {**servers, "rye": ENTRY}}
    if "rye" not in servers:
        outside = text if servers else "".join(text.split())
        assert is_kept(outside, edited)
        assert COMMENTS.findall(edited) == COMMENTS.findall(text)


@pytest.mark.property
@given(texts())
def test_an_added_member_is_removed_again_byte_by_byte(text: str) -> None:
    servers = parse(text, Dialect.JSONC).value.get("servers")
    if not isinstance(servers, dict) or not servers or "rye" in servers:
        return

    edited = set_member(text, PATH, ENTRY, Dialect.JSONC)

    assert remove_member(edited, PATH, Dialect.JSONC) == text


@pytest.mark.property
@given(texts())
def test_a_member_is_removed_with_every_comment_outside_of_it_kept(text: str) -> None:
    value = parse(text, Dialect.JSONC).value
    servers = value.get("servers")
    if not isinstance(servers, dict) or "rye" not in servers:
        return

    edited = remove_member(text, PATH, Dialect.JSONC)

    rest = {name: inner for name, inner in servers.items() if name != "rye"}
    assert parse(edited, Dialect.JSONC).value == {**value, "servers": rest}


@pytest.mark.property
@given(texts())
def test_a_repeated_edit_changes_nothing(text: str) -> None:
    if not isinstance(parse(text, Dialect.JSONC).value.get("servers", {}), dict):
        return

    edited = set_member(text, PATH, ENTRY, Dialect.JSONC)

    assert set_member(edited, PATH, ENTRY, Dialect.JSONC) == edited


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", '{\n  "a": {\n    "b": 1\n  }\n}\n'),
        ("{}", '{\n  "a": {\n    "b": 1\n  }\n}'),
        ('{"x": 1}', '{"x": 1, "a": {"b": 1}}'),
        ('{"x": 1,}', '{"x": 1, "a": {"b": 1},}'),
        ('{"a": {}}', '{"a": {"b": 1}}'),
        ('{\n\t"x": 1 // one\n}\n', '{\n\t"x": 1, // one\n\t"a": {\n\t\t"b": 1\n\t}\n}\n'),
        ('{\r\n    "a": {"x": 1}\r\n}', '{\r\n    "a": {"x": 1, "b": 1}\r\n}'),
        (
            '{\n  "a": {\n    // none yet\n  },\n}',
            '{\n  "a": {\n    "b": 1\n    // none yet\n  },\n}',
        ),
        ('{\n  "a": {"b": 2, "c": 3}\n}', '{\n  "a": {"b": 1, "c": 3}\n}'),
    ],
)
def test_an_edit_has_the_style_of_the_lines_around_it(before: str, after: str) -> None:
    assert set_member(before, ("a", "b"), 1, Dialect.JSONC) == after


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('{"a": {"b": 1}}', '{"a": {}}'),
        ('{"a": {"b": 1, "c": 2}}', '{"a": { "c": 2}}'),
        ('{"a": {"c": 2, "b": 1}}', '{"a": {"c": 2}}'),
        ('{"a": {\n  "c": 2, // two\n  "b": 1 }}', '{"a": {\n  "c": 2 // two\n   }}'),
        ('{"a": {\n  "b": 1,\n  "c": 2\n}}', '{"a": {\n  "c": 2\n}}'),
        ('{"a": {\n  // ours\n  "b": 1\n}}', '{"a": {\n  // ours\n}}'),
    ],
)
def test_a_removal_takes_its_line_and_its_comma(before: str, after: str) -> None:
    assert remove_member(before, ("a", "b"), Dialect.JSONC) == after


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"a": []}', "a: expected an object, found a list"),
        ('{"a": null}', "a: expected an object, found null"),
        ('{"a": 1}', "a: expected an object, found a number"),
        ("[]", "the file: expected an object, found a list"),
        ('{"a": {}, "a": {}}', "a: expected it once, found it twice"),
        ('{"a": {"b": 1, "b": 2}}', "a.b: expected it once, found it twice"),
    ],
)
def test_another_structure_is_refused(text: str, message: str) -> None:
    with pytest.raises(TextStructureError) as error:
        set_member(text, ("a", "b"), {}, Dialect.JSON)

    assert str(error.value) == message


def test_a_true_and_a_one_are_two_values() -> None:
    after: Any = set_member('{"a": 1}', ("a",), True, Dialect.JSON)  # noqa: FBT003

    assert after == '{"a": true}'


def test_a_missing_member_cannot_be_removed() -> None:
    with pytest.raises(TextStructureError) as error:
        remove_member('{"a": {}}', ("a", "b"), Dialect.JSON)

    assert str(error.value) == "a.b: expected it, found nothing there"


@pytest.mark.parametrize("text", ["// {\n//  }", "/* a */\n", "// a\r\n"])
def test_a_text_of_comments_is_an_empty_object_and_keeps_them(text: str) -> None:
    edited = set_member(text, ["servers", "a"], 1, Dialect.JSONC)

    assert edited.startswith(text.rstrip())
    assert parse(edited, Dialect.JSONC).value == {"servers": {"a": 1}}
    with pytest.raises(TextSyntaxError):
        set_member(text, ["a"], 1, Dialect.JSON)
