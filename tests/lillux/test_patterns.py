import re

import pytest

from lillux.patterns import pattern


def test_a_late_pattern_works_like_a_compiled_one() -> None:
    word = pattern(r"(?P<first>[a-z])\w*")

    found = word.fullmatch("hello")

    assert found is not None
    assert found["first"] == "h"
    assert word.sub("x", "one two") == "x x"
    assert word.groupindex == {"first": 1}
    assert [match[0] for match in word.finditer("a bc")] == ["a", "bc"]


def test_flags_are_those_of_the_standard_library() -> None:
    assert pattern("A.b", re.IGNORECASE | re.DOTALL).match("a\nB")
    assert not pattern("A.b").match("a\nB")


def test_a_wrong_expression_is_reported_when_it_is_first_used() -> None:
    wrong = pattern("(")

    with pytest.raises(re.error, match="unterminated subpattern"):
        wrong.match("x")
