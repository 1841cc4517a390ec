"""How wide a text is in a sans-serif font, roughly: no font is read."""

from collections.abc import Mapping
from unicodedata import east_asian_width

_NARROW, _SLIM, _MEDIUM, _WIDE, _FULL = 0.28, 0.36, 0.57, 0.7, 0.92
_WIDTHS: Mapping[str, float] = {
    **dict.fromkeys("ijl|!.,:;' `", _NARROW),
    **dict.fromkeys('ftr()[]{}/\\-*"I', _SLIM),
    **dict.fromkeys("ABCDEFGHJKLNOPQRSTUVXYZ&+<>=~", _WIDE),
    **dict.fromkeys("mwMW@%", _FULL),
}
_SAFETY = 1.04


def text_width(text: str, font_size: float, *, is_bold: bool = False) -> float:
    """The width in pixels; on the large side, so that a box is seldom too small."""
    ems = sum(_WIDTHS.get(character) or _other(character) for character in text)
    return ems * font_size * _SAFETY * (1.07 if is_bold else 1.0)


def _other(character: str) -> float:
    return 1.0 if east_asian_width(character) in "WF" else _MEDIUM
