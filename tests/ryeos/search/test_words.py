import pytest
from hypothesis import given
from hypothesis import strategies as st

from ryeos.search.words import count_runs, identifiers, normalized, sequence, word_of


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("resize", ["resize"]),
        ("stateGraph", ["state", "graph"]),
        ("HTTPServer", ["http", "server"]),
        ("sha256_hex", ["sha", "256", "hex"]),
        ("rye/core.runtimes-x:y", ["rye", "core", "runtimes", "x", "y"]),
        ("Größe größerAls", ["grösse", "grösser", "als"]),
        ("全文検索", ["全文", "文検", "検索"]),
        ("検索tool", ["検索", "tool"]),
        ("字", ["字"]),
        ("ﬁle", ["file"]),
        ("a, b! c", ["a", "b", "c"]),
        ("", []),
    ],
)
def test_a_text_is_cut_into_parts(text: str, parts: list[str]) -> None:
    assert sequence(normalized(text)) == parts


def test_a_word_is_found_as_a_whole_by_its_runs_and_by_its_parts() -> None:
    assert word_of("stateGraph-v2").forms == {
        "stategraph-v2", "stategraph", "state", "graph", "v2", "v", "2",
    }  # fmt: skip


def test_signs_after_a_word_belong_to_it() -> None:
    assert identifiers("c++ and C#, f.") == ["c++", "and", "C#", "f"]


@given(st.text(st.characters(max_codepoint=127)))
def test_ascii_words_are_split_equally_beside_other_letters(text: str) -> None:
    assert identifiers(f"{text} ä") == [*identifiers(text), "ä"]
    assert count_runs(f"{text} ä") == count_runs(text) + 1


@pytest.mark.property
@given(st.text(max_size=60))
def test_the_fast_path_gives_the_same_words(text: str) -> None:
    for name in identifiers(normalized(text)):
        word = word_of(name)

        assert word.whole == name.casefold()
        assert count_runs(name) == len(word.runs) == len(word.parts)
        assert all(word.parts)
        assert {word.whole, *word.runs} <= word.forms
