r"""Texts of strangers as a person reads them before signing: no two texts look the same.

(1) lines end where the program that reads the file ends them, and nowhere else
(2) what is not seen, steers a terminal, or looks like another character is an escape: ``\u202e``
(3) backslashes before an escape, or before what looks like one, are doubled: no text makes one up
(4) escapes are counted by kind, for a warning above the text

The rules come from `unicodedata`: accents, Cyrillic, CJK and similar words stay as they are. In
code a sign or a digit that reads as one of ASCII is an escape wherever it stands; in prose those
stay that people type: quotes, dashes, bullets, boxes, those of a script in a line with its letters.
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import lru_cache

from lillux.values import dataclass, field
from ryeos.app.look_alikes import (
    is_beside_wide,
    is_like_sign,
    is_like_sign_in,
    is_typed,
    is_wide,
    script_of,
)

# How lines end, by suffix; in any other file as the shell reads them. To Python a form feed is a
# space, and U+2028 a character like any other: neither begins a line. Signing makes a line feed of
# every carriage return, but in a script of the shell, which has none.
_SHELL, _PYTHON = re.compile(r"\n"), re.compile(r"\r\n|[\n\r]")
_JAVASCRIPT = re.compile("\r\n|[\n\r\u2028\u2029]")
_YAML = re.compile("\r\n|[\n\r\x85\u2028\u2029]")
_LINE_ENDS: Mapping[str, re.Pattern[str]] = {
    ".py": _PYTHON,
    ".md": _PYTHON,
    ".json": _PYTHON,
    ".yaml": _YAML,
    ".yml": _YAML,
    **dict.fromkeys((".js", ".mjs", ".cjs", ".ts", ".mts", ".cts", ".tsx", ".jsx"), _JAVASCRIPT),
}
PROSE = frozenset({".md", ".txt", ".rst", ""})
NO_NEWLINE, LINE_END = r"\(no newline)", r"\(line end)"
"""At the end of a line: nothing ends it; the escape before it does."""
TAB = "\u21e5   "
"""A tab: an arrow that stands for nothing else, and three spaces."""
_ORDINARY = re.compile(r"[ -~]*")
_WORD = re.compile(r"\w+")

BYTE, CONTROL, SEPARATOR = "byte that is no UTF-8", "control character", "line separator"
DIRECTION, INVISIBLE, MARK = "mark of direction", "invisible character", "combining mark"
RIGHT_TO_LEFT, PRIVATE = "right-to-left letter", "private-use character"
UNASSIGNED, SPACE, LOOK_ALIKE = "unassigned character", "unusual space", "look-alike"

_DIRECTIONS = frozenset({"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"})
_DIRECTION_MARKS = frozenset("\u061c\u200e\u200f")
_SEPARATORS = frozenset("\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029")
# Letters, marks and signs that are drawn as nothing.
_BLANK = frozenset(
    "\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180f\u2800\u3164\uffa0\ufffc\ufffd\U0001d159"
)
_VARIATIONS = (range(0xFE00, 0xFE10), range(0xE0100, 0xE01F0))
# Letters of Cyrillic, Greek and Armenian that are drawn as letters of ASCII: words of them alone.
_LIKE_ASCII = frozenset(
    "\u0430\u0435\u043e\u0440\u0441\u0443\u0445\u0456\u0458\u0455\u04bb\u0501\u051b\u051d\u0475"
    "\u04cf\u0433\u043f\u0410\u0412\u0415\u041a\u041c\u041d\u041e\u0420\u0421\u0422\u0423\u0425"
    "\u0406\u0408\u0405\u050c\u051a\u051c\u04c0\u0391\u0392\u0395\u0396\u0397\u0399\u039a\u039c"
    "\u039d\u039f\u03a1\u03a4\u03a5\u03a7\u03bf\u03b1\u03bd\u03c1\u03c5\u03b9\u03ba\u03c4\u03f2"
    "\u03f3\u03c9\u03b3\u03b7\u0555\u054f\u054d\u0570\u0578\u057d\u0585\u0581\u0566"
)
# Scripts and letters that are drawn as those of ASCII, and that few people write in.
_LIKE_LATIN = (
    "LISU",
    "CHEROKEE",
    "COPTIC",
    "DESERET",
    "OSAGE",
    "OLD ITALIC",
    "GOTHIC",
    "LYCIAN",
    "LYDIAN",
    "CARIAN",
    "TIFINAGH",
    "MODIFIER LETTER",
    "LATIN LETTER",
    "RUNIC",
    "VAI",
)
_LATIN_WORDS = range(0xC0, 0x180)  # letters with accents, and others that are not mistaken
_NOT_PLAIN = frozenset("\u0131\u0138\u00d7\u00f7")
_MOST_MARKS = 2


@dataclass(frozen=True, slots=True)
class ShownText:
    """The lines of a text as they are shown, and how many escapes of each kind are in it."""

    lines: tuple[str, ...]
    escapes: Mapping[str, int] = field(default_factory=dict)


def shown_text(data: bytes, suffix: str, *, ascii_only: bool = False) -> ShownText:
    """A file as a person reads it. ``ascii_only`` is for a terminal that shows nothing else."""
    text = data.decode("utf-8", "surrogateescape")
    counts: Counter[str] = Counter()
    reader = _LineReader(counts, is_prose=suffix.lower() in PROSE, ascii_only=ascii_only)
    lines = []
    for line, end in _split(text, _LINE_ENDS.get(suffix.lower(), _SHELL)):
        if end == "\r\n":  # as editors of Windows write each line: shown, and no reason to warn
            lines.append(reader.escaped(line, marker=r"\u000d"))
        elif end == "\n":
            lines.append(reader.escaped(line))
        elif end:
            counts[_kind(end)] += 1
            lines.append(reader.escaped(line, marker=f"{_escape(end)}{LINE_END}"))
        else:
            lines.append(reader.escaped(line, marker=NO_NEWLINE))
    return ShownText(tuple(lines), dict(sorted(counts.items())))


def escape_warning(escapes: Mapping[str, int]) -> str:
    """A line that counts what is shown as an escape; ``""`` where nothing is."""
    if not escapes:
        return ""
    number = sum(escapes.values())
    what = "characters are shown as escapes" if number > 1 else "character is shown as an escape"
    kinds = ", ".join(
        f"{n} {kind}{'s' if n > 1 and kind != BYTE else ''}" for kind, n in escapes.items()
    )
    return f"{number} {what}: {kinds}"


def shown_words(text: str) -> str:
    """A name or a path as one line, by the rules for texts."""
    reader = _LineReader(Counter(), is_prose=True)
    return r"\u000a".join(reader.escaped(part) for part in text.split("\n"))


def _split(text: str, ends: re.Pattern[str]) -> Iterator[tuple[str, str]]:
    """Each line and what ends it: nothing ends a last line without a newline."""
    start = 0
    for match in ends.finditer(text):
        yield text[start : match.start()], match[0]
        start = match.end()
    if start < len(text):
        yield text[start:], ""


class _LineReader:
    """Makes escapes in lines of one file, and counts them."""

    def __init__(
        self, counts: Counter[str], *, is_prose: bool = False, ascii_only: bool = False
    ) -> None:
        self._is_prose, self._ascii_only, self._counts = is_prose, ascii_only, counts
        self._scripts: set[str] = set()  # of the letters in a line

    def escaped(self, line: str, marker: str = "") -> str:
        """The line as it is shown, with ``marker`` at its end."""
        is_ordinary = _ORDINARY.fullmatch(line) and not line.endswith(" ")
        if is_ordinary and not marker and "\\" not in line:
            return line
        odd = {} if is_ordinary else self._odd_characters(line)
        for kind in odd.values():
            if kind:
                self._counts[kind] += 1
        parts: list[str] = []
        at = 0
        while at < len(line):
            one = line[at]
            if one == "\\":
                end = at
                while end < len(line) and line[end] == "\\":
                    end += 1
                is_before_escape = end in odd or (end == len(line) and marker)
                is_like_one = _ESCAPE_LIKE.match(line, end)
                parts.append("\\" * ((end - at) * (2 if is_before_escape or is_like_one else 1)))
                at = end
                continue
            parts.append(_escape(one) if at in odd else TAB if one == "\t" else one)
            at += 1
        return "".join(parts) + marker

    def _odd_characters(self, line: str) -> dict[int, str]:
        """The places of what is shown as an escape, and its kind: ``""`` is not counted."""
        found: dict[int, str] = {}
        words = {at: word for word in _WORD.finditer(line) for at in range(*word.span())}
        letters = {one for one in line if not one.isascii() and one.isalpha()}
        self._scripts = {script_of(one) for one in letters}
        marks = 0
        for at, one in enumerate(line):
            if " " <= one <= "~":
                marks = 0
                continue
            if one == "\t":
                if self._ascii_only:
                    found[at] = ""
                continue
            is_mark = unicodedata.category(one).startswith("M")
            marks = marks + 1 if is_mark else 0
            word = words[at][0] if at in words else one
            kind = _kind(one) or self._kind_in(line, at, word, marks)
            if kind:
                found[at] = kind
            elif self._ascii_only:
                found[at] = ""
        if line.endswith(" "):
            found[len(line) - 1] = ""
        return found

    def _kind_in(self, line: str, at: int, word: str, marks: int) -> str:
        """The kind of a character for where it stands, ``""`` where it is plain to see."""
        one, before = line[at], line[at - 1] if at else ""
        if self._is_prose and is_typed(one):
            return ""
        if not self._is_prose and unicodedata.bidirectional(one) in ("R", "AL"):
            return RIGHT_TO_LEFT
        if marks:
            return MARK if _is_loose_mark(line, at, marks) else ""
        if is_like_sign(one):
            return "" if self._is_in_its_text(line, at) else LOOK_ALIKE
        if unicodedata.normalize("NFKC", one) != one:
            is_sign = unicodedata.category(one)[0] in "PS"
            return "" if is_sign and is_beside_wide(line, at) else LOOK_ALIKE
        composes = unicodedata.normalize("NFC", before + one) != before + one
        is_like = composes or is_like_sign_in(word, one) or _is_like_letters(one, word)
        return LOOK_ALIKE if is_like else ""

    def _is_in_its_text(self, line: str, at: int) -> bool:
        """True if a sign or a digit stands in a text of its script: as prose, or as Chinese."""
        one = line[at]
        if unicodedata.east_asian_width(one) in "WF" and unicodedata.category(one) != "Nd":
            return is_beside_wide(line, at)
        return self._is_prose and script_of(one) in self._scripts


_ESCAPE_LIKE = re.compile(r"u[0-9a-f]{4}|U[0-9a-f]{8}|\(no newline\)|\(line end\)")


def _escape(one: str) -> str:
    return f"\\u{ord(one):04x}" if ord(one) <= 0xFFFF else f"\\U{ord(one):08x}"  # noqa: PLR2004


@lru_cache(maxsize=4096)
def _kind(one: str) -> str:
    """The kind of a character that is an escape wherever it stands, else ``""``."""
    code, category = ord(one), unicodedata.category(one)
    if one in _SEPARATORS or category in ("Zl", "Zp"):
        return SEPARATOR
    if one in _BLANK or any(code in part for part in _VARIATIONS):
        return INVISIBLE
    if category == "Cf":
        is_direction = one in _DIRECTION_MARKS or unicodedata.bidirectional(one) in _DIRECTIONS
        return DIRECTION if is_direction else INVISIBLE
    of_category = {"Cc": CONTROL, "Cs": BYTE, "Co": PRIVATE, "Cn": UNASSIGNED, "Zs": SPACE}
    return of_category.get(category, MARK if category == "Me" else "")


def _is_loose_mark(line: str, at: int, marks: int) -> bool:
    """True if a combining mark stands on no letter of its script, or is one too many.

    One that makes a letter which there is in one character, or that stands in another order than
    the usual one, looks like that.
    """
    start = at - marks
    if start < 0 or marks > _MOST_MARKS:
        return True
    base, cluster = line[start], line[start : at + 1]
    is_letter = unicodedata.category(base).startswith("L") and not base.isascii()
    return not is_letter or unicodedata.normalize("NFC", cluster) != cluster


@lru_cache(maxsize=4096)
def _is_plain_latin(one: str) -> bool:
    if ord(one) in _LATIN_WORDS:
        return one not in _NOT_PLAIN
    base = unicodedata.normalize("NFD", one)[0]
    return base.isascii() and base.isalpha()


def _is_like_letters(one: str, word: str) -> bool:
    """True if a letter, or a digit, may be taken for one of ASCII in its word."""
    if not one.isalnum() or _is_plain_latin(one):
        return False
    name = unicodedata.name(one, "")
    if name.startswith(("LATIN ", *_LIKE_LATIN)):
        return True
    if any(other.isascii() and other.isalpha() for other in word):
        return not is_wide(one)
    letters = [other for other in word if other.isalpha() and not _is_plain_latin(other)]
    return any(map(_is_plain_latin, word)) or bool(letters and _LIKE_ASCII.issuperset(letters))
