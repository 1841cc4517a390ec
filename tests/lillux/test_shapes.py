from collections.abc import Mapping
from typing import Annotated, Any, Literal

import pytest

from lillux.shapes import (
    FLAT,
    LEFT_OUT,
    OTHERS,
    REQUIRED,
    Form,
    Key,
    definitions,
    full_name,
    of_attributes,
    of_values,
    read,
    schema,
    write,
)
from lillux.values import dataclass, field

Even = Annotated[int, Form("an even number", lambda n: type(n) is int and n % 2 == 0)]
Name = Annotated[str, Form("a name", lambda text: isinstance(text, str) and text, absent="nobody")]
Blank = Annotated[str | None, Form("a name", lambda text: text == "x", is_blank_absent=True)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A part of something."""

    size: Even
    note: Annotated[str | None, LEFT_OUT] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Thing:
    """A thing,
    with its parts.
    """

    name: Name
    state: Literal["new", "old"] = "new"
    parts: tuple[Part, ...] = ()
    by_name: Mapping[str, Part] = field(default_factory=dict)
    is_used: Annotated[bool, Key("used"), REQUIRED] = False
    owner: Blank = None
    more: Annotated[Mapping[str, Any], OTHERS] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """A part in a list."""

    shape_name = "ListedPart"
    part: Annotated[Part, FLAT]
    count: int


class WrongError(Exception):
    """Place, what was expected, what was found."""


WHOLE = Thing(
    name="a",
    state="old",
    parts=(Part(size=2), Part(size=4, note="n")),
    by_name={"x": Part(size=0)},
    is_used=True,
    owner="x",
    more={"foreign": [1]},
)
WRITTEN = {
    "foreign": [1],
    "name": "a",
    "state": "old",
    "parts": [{"size": 2}, {"size": 4, "note": "n"}],
    "by_name": {"x": {"size": 0}},
    "used": True,
    "owner": "x",
}


def test_what_was_written_is_read_back() -> None:
    assert write(WHOLE) == WRITTEN
    assert read(Thing, WRITTEN, WrongError) == WHOLE


def test_an_absent_key_is_the_default_or_what_its_form_says() -> None:
    assert read(Thing, {"used": False}, WrongError) == Thing(name="nobody")


@pytest.mark.parametrize("blank", [None, ""])
def test_a_blank_stands_for_an_absent_key_where_the_form_says_so(blank: object) -> None:
    assert read(Thing, {"used": False, "owner": blank}, WrongError).owner is None


@pytest.mark.parametrize(
    ("change", "place", "expected", "found"),
    [
        ({"name": ""}, "name", "a name", ""),
        ({"state": "x"}, "state", "new or old", "x"),
        ({"state": None}, "state", "new or old", None),
        ({"parts": {}}, "parts", "a list", {}),
        ({"parts": [{"size": 2}, {"size": 3}]}, "parts[1].size", "an even number", 3),
        ({"parts": [{}]}, "parts[0].size", "an even number", None),
        ({"parts": [3]}, "parts[0]", "an object", 3),
        ({"by_name": {"a/b": {"size": True}}}, "by_name['a/b'].size", "an even number", True),
        ({"used": None}, "used", "true or false", None),
        ({"owner": "y"}, "owner", "a name", "y"),
    ],
)
def test_a_wrong_value_is_named_by_its_place(
    change: dict[str, Any], place: str, expected: str, found: object
) -> None:
    with pytest.raises(WrongError) as error:
        read(Thing, WRITTEN | change, WrongError)

    assert error.value.args == (place, expected, found)


def test_a_required_key_has_to_be_there_though_the_field_has_a_default() -> None:
    with pytest.raises(WrongError) as error:
        read(Thing, {}, WrongError, "things[0]")

    assert error.value.args == ("things[0].used", "true or false", None)


def test_the_schema_has_each_key_and_refers_to_other_shapes() -> None:
    assert schema(Part) == {
        "properties": {
            "size": {"title": "size"},
            "note": {
                "anyOf": [{"type": "string"}, {"type": "null"}],
                "title": "note",
            },
        },
        "type": "object",
        "required": ["size"],
        "title": "Part",
        "description": "A part of something.",
    }
    described = schema(Thing, str.upper)
    assert described["required"] == ["used"]
    assert described["description"] == "A thing,\nwith its parts."
    assert described["properties"]["parts"] == {
        "items": {"$ref": f"#/components/schemas/{full_name(Part)}"},
        "type": "array",
        "title": "PARTS",
        "default": [],
    }
    assert set(definitions(Thing)) == {full_name(Thing), full_name(Part)}


def test_the_keys_of_a_flat_shape_stand_in_the_same_document() -> None:
    listed = Listed(part=Part(size=2, note="n"), count=1)

    assert write(listed) == {"size": 2, "note": "n", "count": 1}
    assert read(Listed, write(listed), WrongError) == listed
    assert list(schema(Listed)["properties"]) == ["size", "note", "count"]
    with pytest.raises(WrongError) as error:
        read(Listed, {"size": 3, "count": 1}, WrongError)
    assert error.value.args == ("size", "an even number", 3)


def test_a_shape_may_have_another_name_than_its_class() -> None:
    assert schema(Listed)["title"] == "ListedPart"
    assert full_name(Listed).endswith("__ListedPart")


def test_a_value_is_made_of_a_row_or_of_a_larger_value_as_it_is() -> None:
    listed = of_values(Listed, {"size": 3, "note": None, "count": 1, "more": 0})

    assert listed == Listed(part=Part(size=3), count=1)
    assert of_attributes(Part, listed.part) == Part(size=3)
    with pytest.raises(KeyError):
        of_values(Listed, {"size": 2, "count": 1})
