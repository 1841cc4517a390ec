"""Patterns of conditions: their matches are those of `re`, in bounded time."""

import re
from contextlib import suppress

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from lillux.regex_search import TextTooLongError, _search_all_at_once, compile_pattern, search
from lillux.regex_syntax import PatternError


@pytest.mark.parametrize(
    ("pattern", "problem"),
    [
        ("(", "found ( without )"),
        (")", "found ) without ("),
        ("[a", "found [ without ]"),
        ("*a", "found nothing to repeat before *"),
        ("a**", "found a repeat of a repeat, expected parentheses between"),
        ("a{2,1}", "min repeat greater than max repeat at position 2"),
        ("a{50000}", "found {50000}, expected at most 1000"),
        ("(a{999}){999}", "expected a pattern of at most 1000 steps, repeats counted"),
        ("((){999}){999}", "expected a pattern of at most 1000 steps, repeats counted"),
        ("(" * 31 + ")" * 31, "expected at most 30 groups inside each other"),
        ("a++", "found ++, which is not read: repeats may go back"),
        (r"(a)\1", r"found \1, which is not read"),
        ("[[a]]", "escape with \\ what is doubled or nested in [[a]"),
        ("[z-a]", "[z-a]: bad character range z-a at position 1"),
        (r"\q", r"\q: bad escape \q at position 0"),
        ("x" * 1001, "expected at most 1000 characters"),
    ],
)
def test_a_text_that_is_no_pattern_is_refused(pattern: str, problem: str) -> None:
    with pytest.raises(PatternError) as error:
        compile_pattern(pattern)

    assert str(error.value) == problem


@pytest.mark.parametrize("group", ["(?=a)", "(?!a)", "(?<=a)", "(?>a)", "(?P=n)", "a(?i)"])
def test_a_group_that_needs_going_back_is_refused(group: str) -> None:
    with pytest.raises(PatternError, match="which is not read: looking around, going back"):
        compile_pattern(group)


@pytest.mark.parametrize(
    "pattern",
    ["(a+)+$", "^(a|a)*$", "(a|aa)+$", "(a*)*b", "a*a*a*a*a*b", "(.*a){20}b", "(a?){50}b"],
)
def test_every_search_ends_in_time(pattern: str) -> None:
    compiled = compile_pattern(pattern)

    assert search(compiled, "a" * 5000 + "!") is False


def test_a_text_too_long_for_its_pattern_is_refused() -> None:
    with pytest.raises(TextTooLongError, match=r"expected a text of at most .* found 10000000"):
        search(compile_pattern("(a+)+$"), "a" * 10_000_000)


def test_a_plain_text_is_found_in_a_long_one() -> None:
    assert search(compile_pattern("needle"), "x" * 5_000_000 + "needle") is True


PIECES = st.sampled_from(
    [
        *("a", "b", ".", "[ab]", "[^a]", "[]a]", r"[\]b]", "(a|b)", "(?:ab)", "a*", "b+", "(a|)"),
        *("a?", "a{1,2}", "a{2}", "a{,2}", "a{1,}", "a*?", "^", "$", r"\b", r"\B", r"\A", r"\Z"),
        *("(?:a|b)*", "(a*b)+", "(?i:A)", r"\w", r"\s", r"\D", "(?P<n>b)", "{", "}", "]", "|"),
        *(r"\x61", r"\u0062", r"\.", r"\n", "-", "(?s:.)", "(?m:^a$)", "((a|b)?c?){2}", "é"),
    ]
)
PATTERNS = st.tuples(
    st.sampled_from(["", "", "(?i)", "(?ms)"]), st.lists(PIECES, max_size=5).map("".join)
).map("".join)


@pytest.mark.property
@given(pattern=PATTERNS, text=st.text("abAc \né1.", max_size=8))
def test_both_ways_to_search_agree_with_python(pattern: str, text: str) -> None:
    try:
        compiled = compile_pattern(pattern)
    except PatternError:
        assume(condition=False)
        raise

    expected = re.search(pattern, text) is not None

    assert _search_all_at_once(compiled.states, text) is expected
    assert search(compiled, text) is expected


@pytest.mark.property
@given(pattern=st.text("ab()[]{}|*+?\\^$.,0129-:P<>=!i&~#", max_size=12))
def test_an_accepted_pattern_is_a_pattern_for_python_too(pattern: str) -> None:
    with suppress(PatternError):
        compile_pattern(pattern)
        re.compile(pattern)
