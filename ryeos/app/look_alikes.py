"""Characters beyond ASCII that a person reads as a sign or a digit of ASCII.

The tables are facts of Unicode's ``confusables.txt`` (15.1): what has a skeleton of signs and
digits of ASCII, or of ``l`` and ``O``, which are 1, ``|`` and 0 as well. Without what NFKC changes,
marks, and letters that are drawn as letters. What is not in that list is known by its name.
"""

import unicodedata
from collections.abc import Iterator
from functools import lru_cache


def _characters(ranges: str) -> Iterator[str]:
    for part in ranges.split():
        first, _, last = part.partition("-")
        yield from map(chr, range(int(first, 16), int(last or first, 16) + 1))


_SIGNS = frozenset(
    _characters(
        "b4 2c2-2c4 2d7 2f4 2f6 2f8 387 55a 55d 589 5c0 5c3 5f3-5f4 60d 660-661 665 66a-66b "
        "66d 6d4 6f0-6f1 6f5 701-704 7c0 966 9e6 9ea 9ed a66-a67 a6a ae6 b66 b68 be6 c66 ce6 "
        "d66 d6d e50 ed0 1040 1400 16ec-16ed 1735 1803 1806 1809 1cd3 2010-2016 2018-201f "
        "2032-2033 2035 2039-203a 2041 2043-2044 204e 2053 205a 2212 2215-2217 2219 2223 2225 "
        "2227 2236-2237 223c 226a-226b 22d8-22d9 2303 23fd 244a 2571-2572 2758 2768-2769 "
        "276e-276f 2772-2775 2795-2796 27cb 27cd 29f5 29f8-29f9 2a20 2a74 2aa5 2afb 2afd 2cf9 "
        "2e28-2e29 2e40 3003 3007 3014-3015 301d-301e 30a0 31d3-31d4 a4fe-a4ff a60e a6eb a6ef "
        "a789 fd3e-fd3f 10320 10a50 114d0 118e0 1d114 1d206 1d20f 1d212 1d236-1d237 "
        "1d23a-1d23b 1e8c7 1e8cb 21e5"
    )
)
_LETTERS = frozenset(
    _characters(
        "1a7 1b7 1bc 1c3 21c 222-223 241 294 2b9-2be 2c6 2c8 2ca-2cb 2d0 2ee 3e8 417 431 4e0 "
        "5d9 5f2 7f4-7f5 7fa 97d 13ae 13ce 13ee 1433 1438 144a 14bf 16b2 16cc 2cba 2cc6 2cca "
        "2ccc 2cd2 2d51 3033 30ce 30fc 3161 3163 4e00 4e28 4e36 4e3f a4f8-a4fb a4fd a644 a75a "
        "a76a a76e a778 a78c a7ab 1029b 1031a 1031f 104d2 118ac 118af 118bb 118c6 118ca 118cc "
        "118d5-118d6 16f3b 16f3f"
    )
)
# Words in names of such signs; not asked of letters, currencies and So (emoji, boxes).
_WORDS = frozenset(
    [
        *("COMMA", "STOP", "COLON", "SEMICOLON", "SOLIDUS", "SLASH", "HYPHEN", "DASH", "MINUS"),
        *("PLUS", "EQUALS", "BAR", "LINE", "PARENTHESIS", "BRACKET", "BRACE", "QUOTATION", "DOT"),
        *("ASTERISK", "APOSTROPHE", "TILDE", "CIRCUMFLEX", "CARET", "AMPERSAND", "PRIME", "GRAVE"),
        *("ACUTE", "LESS-THAN", "GREATER-THAN", "ARROWHEAD", "DANDA", "DIVIDES", "BACKSLASH"),
        *("EXCLAMATION", "QUESTION", "NUMBER", "DOLLAR", "PERCENT", "PARALLEL", "RATIO", "DOTS"),
        *("SEPARATOR", "PROPORTION", "GERESH", "GERSHAYIM", "MAQAF"),
    ]
)
# Signs that a keyboard, or an editor by itself, gives to people who write a text.
_TYPED = frozenset(
    "\u00a1\u00ab\u00b0\u00b1\u00b7\u00bb\u00bf\u2013\u2014\u2018\u2019\u201c\u201d"
    "\u201e\u2020\u2021\u2022\u2026\u2030\u2122"
)
# Their names have such a word, and they are not taken for a sign of ASCII: also in code.
_PLAIN = frozenset("\u00a1\u00b1\u00b7\u00bf\u2264\u2265")
_BOXES = range(0x2500, 0x25A0)


def is_typed(one: str) -> bool:
    """True if a sign is usual in prose: of keyboards, or drawn around and between texts."""
    return one in _TYPED or (ord(one) in _BOXES and one not in _SIGNS)


@lru_cache(maxsize=4096)
def is_like_sign(one: str) -> bool:
    """True if a sign or a digit is read as one of ASCII."""
    category = unicodedata.category(one)
    if one in _PLAIN or one.isascii() or category[0] not in "NPS":
        return False
    if one in _SIGNS or ord(one) in _BOXES[:128] or category == "Nd":
        return True
    if category[0] == "N":
        return unicodedata.digit(one, None) is not None or unicodedata.numeric(one, 99) in range(10)
    words = unicodedata.name(one, "").replace("-POINTING", " ").split()
    return category not in ("So", "Sc") and not _WORDS.isdisjoint(words)


def is_like_sign_in(word: str, one: str) -> bool:
    """True if a letter is read as a sign or a digit: no other letter of its script is beside it."""
    if one not in _LETTERS:
        return False
    others = (other for other in word if other.isalpha() and other not in _LETTERS)
    return not any(_is_fellow(other, one) for other in others)


def _is_fellow(other: str, one: str) -> bool:
    return script_of(other) == script_of(one) or (is_wide(other) and is_wide(one))


def is_wide(one: str) -> bool:
    """True if a character is a letter of Chinese, Japanese or Korean."""
    return bool(one) and one.isalpha() and unicodedata.east_asian_width(one) == "W"


def is_beside_wide(line: str, at: int) -> bool:
    """True if a sign stands at a letter of Chinese, Japanese or Korean, or at signs that do."""
    for step in (-1, 1):
        place = at + step
        while (
            0 <= place < len(line) and abs(place - at) < _MOST_SIGNS and _is_wide_sign(line[place])
        ):
            place += step
        if 0 <= place < len(line) and is_wide(line[place]):
            return True
    return False


_MOST_SIGNS = 4


def _is_wide_sign(one: str) -> bool:
    return unicodedata.east_asian_width(one) in "WF" and unicodedata.category(one)[0] in "PS"


@lru_cache(maxsize=4096)
def script_of(one: str) -> str:
    """The first word of the name, which is that of a script for letters and signs of one."""
    words = unicodedata.name(one, "").removeprefix("EXTENDED ").split()
    return words[0].partition("-")[0] if words else ""
