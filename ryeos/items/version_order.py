"""The order of versions, by PEP 440 or by semver.

A file of its own: the door of ``packaging``.
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from lillux.patterns import pattern

if TYPE_CHECKING:
    from packaging.version import Version


_SEMVER = pattern(r"v?(\d{1,9})\.(\d{1,9})\.(\d{1,9})(?:-([0-9A-Za-z.-]+))?(?:\+[0-9A-Za-z.-]+)?")


def parse_version(text: str) -> "Version":
    """A version by PEP 440, to be compared. Raises ValueError for anything else."""
    from packaging.version import Version

    return Version(text)


COMPARISONS: Mapping[str, Callable[[int], bool]] = {
    ">=": lambda order: order >= 0,
    "<=": lambda order: order <= 0,
    ">": lambda order: order > 0,
    "<": lambda order: order < 0,
}
"""Signs of an order of versions, see `compare_versions`; the longer ones first."""


def compare_versions(first: str, second: str) -> int:
    """Below, at or above 0, by PEP 440; by semver when one of the two is not a PEP 440 version.

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
