from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rye_services.page import Html, joined, tag, text


class Seen(HTMLParser):
    """What a browser would make of some markup."""

    def __init__(self, source: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, list[tuple[str, str | None]]]] = []
        self.words = ""
        self.feed(source)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, attrs))

    def handle_data(self, data: str) -> None:
        self.words += data


printable = st.text(st.characters(exclude_categories=["Cc", "Cs", "Cf", "Cn"]))


@pytest.mark.property
@given(printable)
def test_text_of_anybody_is_read_as_it_was_written_and_makes_no_element(written: str) -> None:
    seen = Seen(str(tag("p", written, title=written)))

    assert seen.tags == [("p", [("title", written)])]
    assert seen.words == written


@pytest.mark.property
@given(st.text())
def test_no_text_opens_a_tag_or_ends_an_attribute(written: str) -> None:
    source = text(written).source

    assert not set(source) & set("<>\"'\x00\u202e")


def test_letters_that_turn_a_path_over_are_shown_as_lost() -> None:
    assert str(text("safe\u202egpj.exe")) == "safe\ufffdgpj.exe"


def test_markup_is_put_in_as_it_is_and_none_is_nothing() -> None:
    inner = tag("b", "a & b")

    assert joined([inner, None, " ", 3]) == Html("<b>a &amp; b</b> 3")


def test_attributes_have_the_names_of_html() -> None:
    made = tag("input", class_="x", data_live="/a", required=True, disabled=False, value=None)

    assert str(made) == '<input class="x" data-live="/a" required>'
