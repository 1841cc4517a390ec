import pytest

from lillux.regex_syntax import PatternError
from ryeos.sync.rules import NamePatterns


@pytest.mark.parametrize(
    ("patterns", "name", "matches"),
    [
        ([r"^\.env$"], ".env", True),
        ([r"^\.env$"], "x.env", False),
        ([r"\.env"], ".env.local", True),
        ([r"env"], ".env", False),
        ([r".*\.secrets?$"], "a.secret", True),
        ([r".*\.secrets?$"], "a.secret.md", False),
        ([r"a", r"b|c"], "cd", True),
        ([r"b|c"], "xc", False),
        ([r"(?i)readme"], "README.md", True),
        ([r"x", r"(?i)readme"], "X", False),
        ([], "x", False),
    ],
)
def test_a_pattern_is_anchored_at_the_start_of_a_name(
    patterns: list[str], name: str, *, matches: bool
) -> None:
    assert NamePatterns(patterns).match(name) is matches


@pytest.mark.parametrize("pattern", [r"(a+)+$", r"(a|a)*$", r"a*a*a*a*a*a*a*b", r"(.*)*x"])
def test_every_pattern_is_matched_in_time(pattern: str) -> None:
    assert NamePatterns([pattern]).match("a" * 254 + "!") is False


@pytest.mark.parametrize("pattern", ["(", "a)", "[", "*", r"(?=a)", r"(a)\1", "x" * 2000])
def test_an_invalid_or_slow_pattern_is_refused(pattern: str) -> None:
    with pytest.raises(PatternError):
        NamePatterns(["fine", pattern])
