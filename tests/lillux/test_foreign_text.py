import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lillux.foreign_text import escaped, one_line, printable, without_control_characters


@pytest.mark.parametrize(
    ("text", "most", "shown"),
    [
        ("plain", 0, "plain"),
        ("two\nlines\tand\u2028more", 0, "two lines and more"),
        ("\x1b[31mred\x1b[0m", 0, r"\u001b[31mred\u001b[0m"),
        ("right\u202eleft", 0, r"right\u202eleft"),
        ("bytes \udcff", 0, r"bytes \udcff"),
        ("exactly ten", 11, "exactly ten"),
        ("exactly ten", 10, "exactly t\u2026"),
        ("", 5, ""),
    ],
)
def test_foreign_text_is_one_harmless_line(text: str, most: int, shown: str) -> None:
    assert one_line(text, most) == shown


UNSEEN = ("\x1b[2J", "\x9b2J", "\u202eback", "\u2066back", "\x7f", "\u200b", "\ufeff", "\u00ad")


@pytest.mark.parametrize("steering", [*UNSEEN, "\u2028", "\U000e0041", "\udcff"])
def test_json_says_the_same_and_steers_no_terminal(steering: str) -> None:
    said = json.dumps({"text": f"grün {steering}"}, ensure_ascii=False)

    assert json.loads(escaped(said)) == {"text": f"grün {steering}"}
    assert escaped(said).isprintable()


@pytest.mark.parametrize(
    ("name", "most", "shown"),
    [
        ("a  b", 240, "a  b"),
        ("two\nlines", 240, r"two\u000alines"),
        ("a\u00a0b\U000e0041", 240, r"a\u00a0b\U000e0041"),
        ("abcd", 3, "ab\u2026"),
        ("\x1b" * 9, 8, r"\u001b\\"[:7] + "\u2026"),
    ],
)
def test_a_name_keeps_its_blanks_and_hides_nothing(name: str, most: int, shown: str) -> None:
    assert printable(name, most) == shown


def test_lines_and_spaces_of_a_text_stay_and_a_carriage_return_does_not() -> None:
    text = "a\n\tb\u3000c\u00a0d\r\x1b[2J\u202e"

    shown = without_control_characters(text)
    assert shown == "a\n\tb\u3000c\u00a0d\\u000d\\u001b[2J\\u202e"


@given(st.text())
def test_what_is_shown_can_be_seen_and_shows_the_same_again(text: str) -> None:
    shown = one_line(text)
    lines = without_control_characters(text)

    assert shown.isprintable()
    assert one_line(shown) == shown
    assert without_control_characters(lines) == lines
