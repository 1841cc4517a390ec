"""Comparing versions: the door of ``packaging``."""

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from packaging.version import Version

_SEMVER = re.compile(
    r"v?(\d{1,9})\.(\d{1,9})\.(\d{1,9})(?:-([0-9A-Za-z.-]+))?(?:\+[0-9A-Za-z.-]+)?"
)


def parse_version(text: str) -> "Version":
    """A version by PEP 440, to be compared. Raises ValueError for anything else."""
    from packaging.version import Version

    return Version(text)


def compare_versions(first: str, second: str) -> int:
    """Below, at or above 0, by PEP 440; by semver when one of the two is none of the former.

    Raises ValueError for what is neither.
    """
    try:
        one, other = parse_version(first), parse_version(second)
    except ValueError:
        mine, theirs = _semver(first), _semver(second)
        return (mine > theirs) - (mine < theirs)
    return (one > other) - (one < other)


# Numbers before texts, and a release after every pre-release of it.
_Part = tuple[int, int, str]


def _semver(text: str) -> tuple[tuple[int, ...], bool, tuple[_Part, ...]]:
    match = _SEMVER.fullmatch(text.strip())
    if not match:
        raise ValueError(f"expected a version like 1.2.0, found {text[:60]!r}")
    *numbers, pre = match.groups()
    parts = tuple(_part(part) for part in (pre or "").split(".") if part)
    return tuple(map(int, numbers)), not pre, parts


def _part(text: str) -> _Part:
    return (0, int(text), "") if text.isdecimal() else (1, 0, text)
