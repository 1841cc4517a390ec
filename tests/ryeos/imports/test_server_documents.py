from hypothesis import given
from hypothesis import strategies as st

from ryeos.imports.server_items import generated, is_untouched, next_version, version_of

TEXT = generated("Written.", {"version": "1.2.9", "description": "a tool"})


def test_a_text_as_it_was_written_is_untouched() -> None:
    assert is_untouched(TEXT)
    assert version_of(TEXT) == "1.2.9"
    assert next_version("1.2.9") == "1.2.10"


@given(st.integers(0, len(TEXT) - 1), st.characters(codec="ascii"))
def test_any_other_character_is_an_edit(place: int, character: str) -> None:
    edited = TEXT[:place] + character + TEXT[place + 1 :]

    assert is_untouched(edited) is (edited == TEXT)


def test_an_added_or_a_missing_last_line_is_an_edit() -> None:
    assert not is_untouched(f"{TEXT}more: 1\n")
    assert not is_untouched(f"more: 1\n{TEXT}")
    assert not is_untouched(TEXT[: TEXT.index("x-mcp-digest")])
    assert not is_untouched("")
