"""Lists and objects in addresses, headers and cookies, as the tables of OpenAPI write them."""

from contextlib import suppress
from urllib.parse import unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lillux.templating import Names
from ryeos.items.errors import SpecError
from ryeos.run.http_config import http_plan
from ryeos.run.http_styles import PLACES, Style

LIST, OBJECT = ["blue", "black"], {"R": 100, "G": 200}
QUERY = [
    ("form", False, LIST, "color=blue,black"),
    ("form", True, LIST, "color=blue&color=black"),
    ("form", False, OBJECT, "color=R,100,G,200"),
    ("form", True, OBJECT, "R=100&G=200"),
    ("spaceDelimited", False, LIST, "color=blue black"),
    ("spaceDelimited", False, OBJECT, "color=R 100 G 200"),
    ("pipeDelimited", False, LIST, "color=blue|black"),
    ("deepObject", True, OBJECT, "color[R]=100&color[G]=200"),
    ("json", False, {"a": [1]}, 'color={"a": [1]}'),
]
PATHS = [
    ("matrix", False, "blue", ";color=blue"),
    ("matrix", False, "", ";color"),
    ("matrix", False, LIST, ";color=blue,black"),
    ("matrix", True, LIST, ";color=blue;color=black"),
    ("matrix", False, OBJECT, ";color=R,100,G,200"),
    ("matrix", True, OBJECT, ";R=100;G=200"),
    ("label", False, "blue", ".blue"),
    ("label", False, LIST, ".blue,black"),
    ("label", True, LIST, ".blue.black"),
    ("label", False, OBJECT, ".R,100,G,200"),
    ("label", True, OBJECT, ".R=100.G=200"),
    ("simple", False, LIST, "blue,black"),
    ("simple", False, OBJECT, "R,100,G,200"),
    ("simple", True, OBJECT, "R=100,G=200"),
]


def plan(config: dict[str, object], **given: object) -> tuple[str, dict[str, str]]:
    """The address and the headers of a request."""
    names = Names(variables={}, opaque=given)
    found = http_plan({"url": "https://a.example/x", **config}, names, timeout_s=1)
    return found.request.url, dict(found.request.headers)


def styled(style: str, *, explode: bool, name: str = "color") -> dict[str, object]:
    return {"styles": {"c": {"style": style, "explode": explode, "name": name}}}


@pytest.mark.parametrize(("style", "explode", "value", "written"), QUERY)
def test_a_query_has_the_form_of_its_style(
    style: str, explode: object, value: object, written: str
) -> None:
    url, _ = plan({"query": {"color": "{c}"}, **styled(style, explode=bool(explode))}, c=value)

    assert unquote(url).removeprefix("https://a.example/x").lstrip("?") == written


@pytest.mark.parametrize(("style", "explode", "value", "written"), PATHS)
def test_a_path_has_the_form_of_its_style(
    style: str, explode: object, value: object, written: str
) -> None:
    config = {"url": "https://a.example/x/{c}", **styled(style, explode=bool(explode))}

    assert plan(config, c=value)[0] == f"https://a.example/x/{written}"


def test_a_delimiter_in_a_value_stays_a_part_of_it() -> None:
    query = plan({"query": {"color": "{c}"}, **styled("form", explode=False)}, c=["a,b", "c&d=e"])
    path = plan({"url": "https://a.example/{c}", **styled("simple", explode=False)}, c=["a/b", ","])

    assert query[0].endswith("?color=a%2Cb,c%26d%3De")
    assert path[0].endswith("/a%2Fb,%2C")


def test_a_header_has_its_values_with_commas_and_none_in_them() -> None:
    config = {"headers": {"X-Ids": "{c}"}, **styled("simple", explode=False)}

    assert plan(config, c=LIST)[1] == {"X-Ids": "blue,black"}
    with pytest.raises(SpecError, match="expected no comma in 'a,b'"):
        plan(config, c=["a,b"])


def test_cookies_are_one_header_without_room_for_another() -> None:
    config = {"cookies": {"sid": "{s}", "color": "{c}"}, **styled("form", explode=False)}

    assert plan(config, s="a; b=c", c=LIST)[1] == {"Cookie": "sid=a%3B%20b%3Dc; color=blue,black"}


@pytest.mark.parametrize(
    ("style", "explode", "value"),
    [
        ("form", True, [["a"]]),
        ("form", False, {"a": {"b": 1}}),
        ("deepObject", True, {"a": [1]}),
        ("deepObject", True, "a"),
        ("matrix", True, "a"),
    ],
)
def test_what_a_style_has_no_form_for_is_refused(
    style: str, explode: object, value: object
) -> None:
    with pytest.raises(SpecError):
        plan({"query": {"color": "{c}"}, **styled(style, explode=bool(explode))}, c=value)


def test_a_member_of_an_object_takes_no_place_of_the_config() -> None:
    config = {"query": {"color": "{c}", "key": "fixed"}, **styled("form", explode=True)}

    with pytest.raises(SpecError, match="expected no member 'key'"):
        plan(config, c={"key": "mine"})


def test_a_body_whose_parameter_may_be_missing_is_left_out() -> None:
    names = Names(variables={})
    config = {"url": "https://a.example", "method": "POST", "body": "{body}"}
    found = http_plan(config, names, optional=frozenset({"body"}), timeout_s=1)

    assert found.request.body is None


MARKS = st.text(alphabet="ab,.;=|[]&%+ /\"\\\t2CF'", max_size=4)
VALUES = st.lists(MARKS, max_size=3) | st.dictionaries(MARKS, MARKS, max_size=3)
FORMS = [
    *[(place, style, False) for place, styles in PLACES.items() for style in styles],
    *[(place, style, True) for place, styles in PLACES.items() for style in (*styles[:1], "label")],
    ("path", "matrix", True),
]


@pytest.mark.parametrize(("place", "style", "explode"), FORMS)
@given(st.data())
def test_two_values_are_never_written_alike(
    place: str, style: str, explode: object, data: st.DataObject
) -> None:
    if style not in PLACES[place]:
        return
    written = Style(where=place, style=style, explode=bool(explode), name="c")
    one, other = data.draw(VALUES), data.draw(VALUES)
    if type(one) is not type(other) or one == other:
        return
    sent = []
    for value in (one, other):
        with suppress(SpecError):
            is_pairs = place in {"query", "cookie"}
            sent.append(str(written.pairs(value)) if is_pairs else written.text(value))

    assert len(set(sent)) == len(sent)
